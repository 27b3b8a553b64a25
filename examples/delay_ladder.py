"""One message for each of the 18 delay levels, sent the longest first: they come the shortest first.

With Java's levels (1s 5s 10s 30s 1m … 2h) the last one takes two hours; `rmq dev --fast-delays` has them in milliseconds, and a
Java broker what its messageDelayLevel says.
"""

from __future__ import annotations

from scenario import FIRST, NAMESRV, fresh, wait_for

from rmq_client import Message
from rmq_client.blocking import connect

LEVELS = 18


def main() -> None:
    topic = fresh("ladder")
    seen: list[tuple[int, int]] = []

    def listen(messages, context) -> None:
        for message in messages:
            level = int(message.body)
            seen.append((level, message.store_timestamp - message.born_timestamp))

    with connect(NAMESRV) as client:
        client.topics.create(topic, queues=1)
        producer = client.producer("patient")
        with client.push_consumer(fresh("waiting"), {topic: "*"}, listen, consume_from_where=FIRST):
            for level in range(LEVELS, 0, -1):
                producer.send(Message(topic, b"%d" % level, delay_time_level=level))
            wait_for("all levels have come", lambda: len({level for level, _ in seen}) == LEVELS)
    for level, late_ms in sorted(set(seen)):
        print(f"level {level:>2}: {late_ms} ms after it was sent")


if __name__ == "__main__":
    main()
