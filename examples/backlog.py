"""A consumer that waits 20 ms for each message, and more messages than it can take: what makes the backlog go away.

More threads help for as long as the work waits and does not compute (`rmq consume --profile` finds how many); more members help
up to the number of queues.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from threading import Lock

from scenario import FIRST, NAMESRV, fresh, wait_for

from rmq_client import Message
from rmq_client.blocking import connect

COUNT = 200
WORK_S = 0.02


def worked_off(topic: str, *, threads: int, members: int) -> float:
    """Seconds from the first message to the last."""
    seen: dict[bytes, float] = {}
    lock = Lock()

    def listen(messages, context) -> None:
        time.sleep(WORK_S)
        with lock:
            for message in messages:
                seen.setdefault(message.body, time.monotonic())

    group = fresh("slow")
    settings = {"consume_thread_max": threads, "consume_from_where": FIRST, "rebalance_interval_ms": 500}
    with ExitStack() as stack:
        for number in range(members):
            client = stack.enter_context(connect(NAMESRV, instance_name=f"{group}-{number}"))
            stack.enter_context(client.push_consumer(group, {topic: "*"}, listen, **settings))
        wait_for("the backlog is worked off", lambda: len(seen) == COUNT)
    return max(seen.values()) - min(seen.values())


def main() -> None:
    topic = fresh("backlog")
    with connect(NAMESRV) as client:
        client.topics.create(topic, queues=4)
        producer = client.producer("busy")
        producer.send_batch([Message(topic, b"%d" % number) for number in range(0, COUNT, 2)])
        for number in range(1, COUNT, 2):
            producer.send(Message(topic, b"%d" % number))
        took: dict[str, float] = {}
        for name, threads, members in (("one thread", 1, 1), ("eight threads", 8, 1), ("four members", 1, 4)):
            took[name] = worked_off(topic, threads=threads, members=members)
            print(f"{name}: {COUNT} messages in {took[name]:.1f} s; one after the other it is {COUNT * WORK_S:.0f} s")
    assert took["eight threads"] < took["one thread"]


if __name__ == "__main__":
    main()
