"""Delivery of delayed messages: rate and CPU of ours and of Java's broker, and of sends beside a burst that is due at once.

    python -m bench.delays [--messages 100000] [--rounds 3]

All messages become due in the same second: level n waits two seconds less than level n - 1 and is filled two seconds later.  The
rate is from the first copy in the topic to the last; CPU is the whole broker's meanwhile.  In every other round the load
generator sends beside it, and what it then reaches is compared with what it reaches alone.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from bench.compare import Row, Side, brokers, drive
from bench.processes import cpu_seconds, make_topic
from rmq_wire.command import Form, encode_request
from rmq_wire.headers.positions import GetMaxOffset
from tests.support.requests import pairs, send
from tests.support.talk import Talk

LEVELS = 10
STEP_S = 2
DELAYS_S = [STEP_S * (LEVELS - level) + 4 for level in range(LEVELS)]
DEPTH = 64
BODY = bytes(1024)
BESIDE = Row("send 16 x 1", "send", 16, 1, False, None, None)
BESIDE_S = 4.0


class Delivered(NamedTuple):
    """Of one round."""

    rate: float
    cpu_us: float
    sends: float | None
    """A second, beside the burst."""


def fill(talk: Talk, topic: str, level: int, count: int) -> None:
    """Send so many messages of one level, pipelined."""
    asked = send(topic=topic, properties=pairs(UNIQ_KEY="K" * 32, DELAY=str(level)))
    for begin in range(0, count, DEPTH):
        wave = range(begin, min(begin + DEPTH, count))
        talk.raw(*(encode_request(asked.code, asked, BODY, opaque=number, form=Form.JSON) for number in wave))
        for answer in talk.hear(len(wave)):
            if answer.code != 0:
                raise SystemExit(f"a delayed message was refused: {answer.code} {answer.remark}")


def delivered(talk: Talk, topic: str) -> int:
    """How many copies are in the topic, which has one queue."""
    return int(talk.ask(GetMaxOffset(topic=topic, queue_id=0)).ext_map()["offset"])


def wait_for(talk: Talk, topic: str, count: int) -> None:
    """Look every few milliseconds."""
    while delivered(talk, topic) < count:
        time.sleep(0.005)


def burst(side: Side, topic: str, messages: int, *, beside: bool) -> Delivered:
    """Fill the levels, and see how they empty."""
    make_topic(side.port, topic, 1)
    each = messages // LEVELS
    with Talk(f"127.0.0.1:{side.port}") as talk:
        began = time.monotonic()
        for level in range(1, LEVELS + 1):
            time.sleep(max(0.0, began + STEP_S * (level - 1) - time.monotonic()))
            fill(talk, topic, level, each)
        if delivered(talk, topic):
            raise SystemExit("the levels were due before all were filled: take fewer messages")
        wait_for(talk, topic, 1)
        first, used = time.monotonic(), cpu_seconds(side.pid)
        sends = drive(side, BESIDE, "bench_beside", BESIDE_S, 0.01).rate if beside else None
        wait_for(talk, topic, each * LEVELS)
        took = time.monotonic() - first
        return Delivered(each * LEVELS / took, (cpu_seconds(side.pid) - used) * 1e6 / (each * LEVELS), sends)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    levels = {"messageDelayLevel": " ".join(f"{delay}s" for delay in DELAYS_S)}
    with (
        tempfile.TemporaryDirectory(prefix="rmq-bench-") as scratch,
        brokers(Path(scratch), sync_flush=False, more=levels) as sides,
    ):
        print("| broker | delivered msg/s | CPU µs | sends/s alone | sends/s beside |\n|---|---:|---:|---:|---:|")
        for side in sides:
            burst(side, "bench_warm", options.messages // 10, beside=False)
            rounds = [burst(side, f"bench_delay_{n}", options.messages, beside=False) for n in range(options.rounds)]
            alone = drive(side, BESIDE, "bench_beside", BESIDE_S, 1.0).rate
            besides = [burst(side, f"bench_beside_{n}", options.messages, beside=True).sends or 0 for n in range(options.rounds)]
            rate, cpu = (statistics.median(column) for column in list(zip(*rounds, strict=True))[:2])
            print(f"| {side.name} | {rate:,.0f} | {cpu:.1f} | {alone:,.0f} | {statistics.median(besides):,.0f} |", flush=True)


if __name__ == "__main__":
    main()
