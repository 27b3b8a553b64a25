"""A message whose listener always fails: it is tried once and sixteen times again, then it is a dead letter.

Between the tries lie the delay levels from 3 on; with Java's that takes almost five hours, with `rmq dev --fast-delays` a second.
"""

from __future__ import annotations

from scenario import FIRST, NAMESRV, fresh, wait_for

from rmq_client import ClientError, Message
from rmq_client.blocking import connect

TRIES = 17


def main() -> None:
    topic, group = fresh("hopeless"), fresh("failing")
    tried: list[int] = []

    def listen(messages, context):
        from rmq_client import ConsumeConcurrentlyStatus

        tried.extend(message.reconsume_times for message in messages)
        return ConsumeConcurrentlyStatus.RECONSUME_LATER

    with connect(NAMESRV) as client:
        client.topics.create(topic, queues=1)
        sent = client.producer("hopeful").send(Message(topic, b"take me"))
        letters = client.puller()

        def dead() -> list:
            try:
                return [one for queue in letters.queues(f"%DLQ%{group}") for one in letters.messages(queue, 0)]
            except ClientError:  # the topic is made with its first message
                return []

        with client.push_consumer(group, {topic: "*"}, listen, consume_from_where=FIRST):
            wait_for("it is a dead letter", lambda: bool(dead()))
        [letter] = dead()
    print(f"tried {len(tried)} times, reconsumeTimes {tried}")
    print(f"then in {letter.queue.topic}: {letter.body.decode()}, the same id {letter.message_id}")
    assert sorted(set(tried)) == list(range(TRIES))
    assert letter.message_id == sent.message_id


if __name__ == "__main__":
    main()
