"""Two members of one group want different tags.  Each gets its tag from its own queues only; the rest counts as consumed.

A group is one subscriber: its members must want the same.  Two different wishes are two groups.
"""

from __future__ import annotations

from contextlib import ExitStack

from scenario import FIRST, NAMESRV, fresh, wait_for

from rmq_client import Message
from rmq_client.blocking import connect

COUNT, QUEUES = 40, 4


def main() -> None:
    topic, group = fresh("tagged"), fresh("divided")
    got: dict[str, set[bytes]] = {"A": set(), "B": set()}
    with connect(NAMESRV) as client, ExitStack() as stack:
        client.topics.create(topic, queues=QUEUES)
        members = []
        for tag, bodies in got.items():
            own = stack.enter_context(connect(NAMESRV, instance_name=f"{group}-{tag}"))

            def listen(messages, context, bodies=bodies) -> None:
                bodies.update(message.body for message in messages)

            settings = {"consume_from_where": FIRST, "rebalance_interval_ms": 500, "persist_consumer_offset_interval_ms": 200}
            members.append(stack.enter_context(own.push_consumer(group, {topic: tag}, listen, **settings)))
        wait_for("each has half of the queues", lambda: all(len(one.queues) == QUEUES // 2 for one in members))
        producer, puller = client.producer("shop"), client.puller(group)
        queues = producer.queues(topic)
        for number in range(COUNT):
            tag = "AB"[number // QUEUES % 2]  # every queue has both
            producer.send(Message(topic, b"%s%d" % (tag.encode(), number), tags=tag), queue=queues[number % QUEUES])
        committed = lambda: sum(puller.committed_offset(queue) or 0 for queue in queues)  # noqa: E731
        wait_for("the group has consumed everything, as far as brokers know", lambda: committed() == COUNT)
    received = got["A"] | got["B"]
    print(f"sent: {COUNT // 2} of A, {COUNT // 2} of B; received: {len(got['A'])} of A, {len(got['B'])} of B")
    print(f"{COUNT - len(received)} messages were consumed by nobody, and the group has no lag")
    assert (len(got["A"]), len(got["B"])) == (COUNT // 4, COUNT // 4)


if __name__ == "__main__":
    main()
