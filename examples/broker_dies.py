"""A topic lies on two brokers; one of them is killed.  Producers go on with the other, and what was answered can be read.

    python broker_dies.py PID          # the process of one of two brokers of the cluster

A send that fails is tried again on another broker, within its one time-out: the caller sees no error, only other queues.  What
the dead broker has stored is not lost; it is there again when the broker is.
"""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter

from scenario import NAMESRV, fresh, wait_for

from rmq_client import Message
from rmq_client.blocking import connect


def main() -> None:
    topic = fresh("two-brokers")
    with connect(NAMESRV) as client:
        wait_for("both brokers are there", lambda: len(client.topics.create(topic, queues=2)) == 2)
        producer = client.producer(fresh("shop"))

        def send(count: int) -> list:
            return [producer.send(Message(topic, b"message")) for _ in range(count)]

        before = send(8)
        print("both alive:", dict(Counter(one.queue.broker_name for one in before)))
        os.kill(int(sys.argv[1]), signal.SIGKILL)
        after = send(8)
        shown = Counter(one.queue.broker_name for one in after)
        print("one is killed:", dict(shown))
        assert len({one.queue.broker_name for one in before}) == 2
        [alive] = shown
        puller = client.puller()
        there = {
            one.message_id for queue in puller.queues(topic) if queue.broker_name == alive for one in puller.messages(queue, 0)
        }
        answered = {one.message_id for one in before + after if one.queue.broker_name == alive}
        assert there >= answered
        print(f"{alive} has all {len(answered)} messages that it answered for")


if __name__ == "__main__":
    main()
