"""Five queues, and one, two and six consumers: who gets what, and what each strategy would give them.

A queue has one consumer of a group at most, so the sixth has nothing to do.
"""

from __future__ import annotations

from contextlib import ExitStack

from scenario import NAMESRV, fresh, wait_for

from rmq_client import MessageQueue
from rmq_client.blocking import connect
from rmq_client.consuming import allocation

QUEUES = 5


def live(topic: str, group: str, members: int) -> list[int]:
    """How many queues each of so many consumers has, once they are shared out."""
    with ExitStack() as stack:
        consumers = []
        for number in range(members):
            client = stack.enter_context(connect(NAMESRV, instance_name=f"{group}-{number}"))
            consumers.append(
                stack.enter_context(
                    client.push_consumer(group, {topic: "*"}, lambda messages, context: None, rebalance_interval_ms=500)
                )
            )

        def shared() -> bool:
            queues = [queue for consumer in consumers for queue in consumer.queues]
            return len(queues) == len(set(queues)) == QUEUES and sum(1 for one in consumers if one.queues) == min(members, QUEUES)

        wait_for("all queues have one consumer", shared)
        return sorted((len(one.queues) for one in consumers), reverse=True)


def planned(members: int) -> None:
    """The same by the rules alone, for all of them."""
    queues = [MessageQueue("t", "room1@broker", number) for number in range(QUEUES)]
    clients = [f"room1-client{number}" for number in range(members)]
    strategies = {
        "averagely": allocation.AllocateMessageQueueAveragely(),
        "averagely by circle": allocation.AllocateMessageQueueAveragelyByCircle(),
        "consistent hash": allocation.AllocateMessageQueueConsistentHash(),
        "machine room": allocation.AllocateMessageQueueByMachineRoom({"room1"}),
        "machine room nearby": allocation.AllocateMachineRoomNearby(
            allocation.AllocateMessageQueueAveragely(),
            broker_deploy_in=lambda queue: queue.broker_name.partition("@")[0],
            consumer_deploy_in=lambda client: client.partition("-")[0],
        ),
        "config (all to each)": allocation.AllocateMessageQueueByConfig(queues),
    }
    for name, strategy in strategies.items():
        shares = [[queue.queue_id for queue in strategy.allocate(client, queues, clients)] for client in clients]
        print(f"  {name:<22}" + "  ".join("".join(map(str, share)) or "-" for share in shares))


def main() -> None:
    topic = fresh("five-queues")
    with connect(NAMESRV) as client:
        client.topics.create(topic, queues=QUEUES)
    for members, expected in ((1, [5]), (2, [3, 2]), (6, [1, 1, 1, 1, 1, 0])):
        found = live(topic, fresh("workers"), members)
        print(f"{members} consumers have {found} queues; the strategies, queues of each consumer:")
        assert found == expected
        planned(members)


if __name__ == "__main__":
    main()
