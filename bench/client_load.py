"""What our client pays for a message: `python -m bench.client_load send|push|first NAMESRV TOPIC COUNT DEPTH BYTES`.

Prints one JSON line for each round, as `rmq.Load` (tests/java) does for the stock client: microseconds of CPU of the whole
process for each message, messages a second.  `first`: milliseconds from entering the client's block to the first acknowledged
send.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from typing import Any

import trio

from rmq_client.client import Client, connect
from rmq_client.messages import Message

ROUNDS = 4


class Meter:
    """From its making on."""

    def __init__(self) -> None:
        self._cpu_s, self._began_s = time.process_time(), time.perf_counter()

    def print(self, count: int) -> None:
        cpu_us = (time.process_time() - self._cpu_s) * 1e6 / count
        rate = count / (time.perf_counter() - self._began_s)
        print(json.dumps({"cpu_us": round(cpu_us, 2), "rate": round(rate), "failed": 0}), flush=True)


async def send(client: Client, topic: str, count: int, depth: int, body: bytes) -> None:
    producer = client.producer(f"{topic}-python")
    left = 0

    async def sender() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            await producer.send(Message(topic, body))

    for _ in range(ROUNDS):
        left = count
        meter = Meter()
        async with trio.open_nursery() as nursery:
            for _ in range(depth):
                nursery.start_soon(sender)
        meter.print(count)


async def push(client: Client, topic: str, count: int, rounds: int) -> None:
    for _ in range(rounds):
        await push_once(client, topic, count)


async def push_once(client: Client, topic: str, count: int) -> None:
    seen, done = 0, trio.Event()
    meter: Meter | None = None

    async def listen(messages: Sequence[Any], context: Any) -> None:
        nonlocal seen, meter
        meter = meter or Meter()
        seen += len(messages)
        if seen >= count:
            done.set()

    group = f"{topic}-python-{time.time_ns()}"
    async with client.push_consumer(group, {topic: "*"}, listen, consume_from_where="CONSUME_FROM_FIRST_OFFSET"):
        await done.wait()
        assert meter is not None
        meter.print(count)


async def first(namesrv: str, topic: str, body: bytes) -> None:
    for _ in range(ROUNDS):
        began_s = time.perf_counter()
        async with connect(namesrv) as client:
            await client.producer(f"{topic}-first").send(Message(topic, body))
            print(json.dumps({"ms": round((time.perf_counter() - began_s) * 1e3, 2)}), flush=True)


async def main(mode: str, namesrv: str, topic: str, count: str, depth: str, size: str) -> None:
    body = b"x" * int(size)
    if mode == "first":
        await first(namesrv, topic, body)
        return
    async with connect(namesrv) as client:
        if mode == "send":
            await send(client, topic, int(count), int(depth), body)
        else:
            await push(client, topic, int(count), int(depth))


if __name__ == "__main__":
    trio.run(main, *sys.argv[1:])
