"""The Python strategies of sharing queues give each member what the Java classes give it."""

from __future__ import annotations

import os
import random
import subprocess
from typing import Final

import pytest

from rmq_client.consuming.allocation import (
    AllocateMachineRoomNearby,
    AllocateMessageQueueAveragely,
    AllocateMessageQueueAveragelyByCircle,
    AllocateMessageQueueByMachineRoom,
    AllocateMessageQueueConsistentHash,
    AllocateStrategy,
)
from rmq_wire.fastjson import MessageQueue
from tests.support.java import judge

pytestmark = pytest.mark.java
CASES: Final = 5_000


def nearby(inner: AllocateStrategy) -> AllocateMachineRoomNearby:
    return AllocateMachineRoomNearby(inner, lambda queue: queue.broker_name.split("@")[0], lambda client: client.split("-")[0])


STRATEGIES: Final[dict[str, AllocateStrategy]] = {
    "average": AllocateMessageQueueAveragely(),
    "circle": AllocateMessageQueueAveragelyByCircle(),
    "room": AllocateMessageQueueByMachineRoom(["r1", "r2"]),
    "nearby": nearby(AllocateMessageQueueAveragely()),
    "nearby-circle": nearby(AllocateMessageQueueAveragelyByCircle()),
    "hash": AllocateMessageQueueConsistentHash(),
    "hash-3": AllocateMessageQueueConsistentHash(3),
}

Case = tuple[str, str, list[str], list[MessageQueue]]


def cases(rng: random.Random) -> list[Case]:
    """Random groups and topics, some brokers in rooms; now and then somebody who is no member."""
    found: list[Case] = []
    for _ in range(CASES):
        clients = sorted(
            {f"r{rng.randint(1, 4)}-10.0.0.{rng.randint(1, 30)}@{rng.randint(1, 99)}" for _ in range(rng.randint(1, 12))}
        )
        brokers = rng.sample(["r1@a", "r1@b", "r2@a", "r3@x", "r4@x@", "r1@a@b", "plain", "r5@z"], rng.randint(1, 5))
        queues = sorted(MessageQueue("T", broker, at) for broker in brokers for at in range(rng.randint(1, 9)))
        own = rng.choice(clients) if rng.random() < 0.95 else "r1-nobody"
        found.append((rng.choice(list(STRATEGIES)), own, clients, queues))
    return found


def test_shares_are_java_s() -> None:
    asked = cases(random.Random(int(os.environ.get("RMQ_SEED", "1"))))
    lines = "".join(
        f"{strategy}\t{own}\t{','.join(clients)}\t{','.join(f'{queue.broker_name}:{queue.queue_id}' for queue in queues)}\n"
        for strategy, own, clients, queues in asked
    )
    command = judge("Allocations")
    ran = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stderr
    answers = ran.stdout.splitlines()
    assert len(answers) == len(asked)
    for (name, own, clients, queues), answer in zip(asked, answers, strict=True):
        strategy = STRATEGIES[name]
        share = "".join(f"{queue.broker_name}:{queue.queue_id}," for queue in strategy.allocate(own, queues, clients))
        assert f"{strategy.name}\t{share}" == answer, (name, own, clients, queues)
