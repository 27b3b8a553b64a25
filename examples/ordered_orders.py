"""Two orders, four steps each.  A consumer is killed midway; the next one goes on, and each order stays in order.

A key chooses the queue, a queue has one consumer at a time, and that one works on one message after the other.  What was
consumed and not told yet comes twice: in order means that nothing comes before what it follows.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator

from scenario import FIRST, NAMESRV, fresh

from rmq_client import Message
from rmq_client.blocking import connect

STEPS = ("created", "paid", "packed", "shipped")
ORDERS = ("order-1", "order-2")


def consume(topic: str, group: str) -> None:
    """Runs as a process of its own, until it is killed."""

    def listen(messages, context) -> None:
        for message in messages:
            print(f"{message.keys[0]} {message.body.decode()}\n", end="", flush=True)  # one write: queues have a thread each
            time.sleep(0.1)

    # Under its name a consumer that was started again has its locks at once; anybody else waits until they end, for a minute.
    with (
        connect(NAMESRV, instance_name=f"worker-{group}") as client,
        client.push_consumer(group, {topic: "*"}, listen, orderly=True, consume_from_where=FIRST),
    ):
        time.sleep(3600)


def steps_of_a_worker(topic: str, group: str) -> Iterator[list[str]]:
    """What a new consumer sees; it is killed when nobody asks for more."""
    worker = subprocess.Popen([sys.executable, __file__, topic, group], stdout=subprocess.PIPE, text=True)
    assert worker.stdout is not None
    with worker.stdout:
        try:
            yield from map(str.split, worker.stdout)
        finally:
            worker.kill()
            worker.wait()


def main() -> None:
    topic, group = fresh("orders"), fresh("billing")
    with connect(NAMESRV) as client:
        client.topics.create(topic, queues=4)
        producer = client.producer("shop")
        for step in STEPS:
            for order in ORDERS:
                producer.send(Message(topic, step.encode(), keys=[order]), order_key=order)

    seen: list[tuple[str, str]] = []
    for name, most in (("first", 3), ("second", None)):
        for order, step in steps_of_a_worker(topic, group):
            print(f"the {name} consumer: {order} is {step}")
            seen.append((order, step))
            if len(seen) == most:
                print("... is killed")
                break
            if {*seen} == {(order, step) for order in ORDERS for step in STEPS}:
                break
    for order in ORDERS:
        firsts = list(dict.fromkeys(step for whose, step in seen if whose == order))
        assert firsts == list(STEPS), (order, firsts)
    print(f"each order was seen in order; {len(seen) - 8} steps came twice")


if __name__ == "__main__":
    consume(*sys.argv[1:]) if len(sys.argv) == 3 else main()
