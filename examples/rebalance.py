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


def live(topic: str, group: str, shares: list[int]) -> None:
    """As many consumers as there are shares, until each queue has one of them, and each of them its share."""
    with ExitStack() as stack:
        consumers = []
        for number in range(len(shares)):
            client = stack.enter_context(connect(NAMESRV, instance_name=f"{group}-{number}"))
            consumers.append(
                stack.enter_context(
                    client.push_consumer(group, {topic: "*"}, lambda messages, context: None, rebalance_interval_ms=500)
                )
            )

        def shared() -> bool:
            queues = [consumer.queues for consumer in consumers]
            return len(set().union(*queues)) == QUEUES and sorted(map(len, queues), reverse=True) == shares

        wait_for(f"{len(shares)} consumers have {shares} queues", shared)


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
    for shares in ([5], [3, 2], [1, 1, 1, 1, 1, 0]):
        live(topic, fresh("workers"), shares)
        print(f"{len(shares)} consumers have {shares} queues; the strategies, queues of each consumer:")
        planned(len(shares))


if __name__ == "__main__":
    main()
