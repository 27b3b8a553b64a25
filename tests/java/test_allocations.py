"""How our broker shares queues out, beside the stock classes of 5.5.0: thousands of random groups, topics and settings."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from broker_impl.allocation import (
    STRATEGIES,
    Members,
    Unallocatable,
    one_for_each_broker,
    pop_places,
    pull_places,
    shares_all,
    utf16,
)
from rmq_wire.bodies.locks import QueueName
from tests.support.java import judge

pytestmark = pytest.mark.java
CASES = 20_000
NAMES = ("a", "B", "b", "a10", "a9", "Z", "é", "\U0001f600", "\uffee", "127.0.0.1@7#1")
"""The last but one sorts behind the one before it in code points, and before it in UTF-16."""


class Case(NamedTuple):
    strategy: str
    mode: str
    share: int
    client_id: str
    members: list[str]
    queues: list[tuple[str, int]]

    def line(self) -> str:
        queues = ",".join(f"{broker}:{queue_id}" for broker, queue_id in self.queues)
        return "\t".join((self.strategy, self.mode, str(self.share), self.client_id, ",".join(self.members), queues))


def drawn(random: Random) -> Case:
    members = [f"{random.choice(NAMES)}{random.randrange(3)}" for _ in range(random.choice((0, 1, 2, 3, 5, 8, 13)))]
    brokers = random.sample(NAMES, random.choice((1, 1, 2, 3)))
    queues = [(broker, queue_id) for broker in brokers for queue_id in range(random.choice((0, 1, 2, 3, 8, 16)))]
    random.shuffle(queues)
    nobody = random.random() < 0.1 or not members
    client_id = random.choice(("", " ", "nobody")) if nobody else random.choice(members)
    share = random.choice((-1, 0, 1, 2, 3, 5, 100))
    return Case(random.choice(tuple(STRATEGIES)), random.choice(("PULL", "POP")), share, client_id, members, queues)


def ours(case: Case) -> str:
    order = sorted(case.queues, key=lambda queue: (utf16(queue[0]), queue[1]))
    queues = [QueueName(topic="T", broker_name=broker, queue_id=queue_id) for broker, queue_id in order]
    members, strategy = Members(case.members), STRATEGIES[case.strategy]
    try:
        if case.mode == "PULL":
            places = pull_places(strategy, len(queues), members, case.client_id)
        elif shares_all(members, case.share):
            return ",".join(f"{queue.broker_name}:{queue.queue_id}" for queue in one_for_each_broker(queues))
        else:
            places = pop_places(strategy, len(queues), members, case.client_id, case.share)
    except Unallocatable:
        return "!"
    return ",".join(f"{queues[place].broker_name}:{queues[place].queue_id}" for place in places)


def test_queues_are_shared_out_as_the_reference_does(tmp_path: Path) -> None:
    random = Random(os.environ.get("RMQ_SEED", "19"))
    cases = [drawn(random) for _ in range(CASES)]
    command = judge("ServerAllocations", str(tmp_path))
    lines = "".join(case.line() + "\n" for case in cases)
    done = subprocess.run(command, input=lines.encode(), capture_output=True, check=True, timeout=300)
    theirs = done.stdout.decode().split("\n")[:CASES]
    assert len(theirs) == CASES
    wrong = [(case, answer, ours(case)) for case, answer in zip(cases, theirs, strict=True) if answer != ours(case)]
    assert not wrong, (len(wrong), wrong[:3])
    assert {"!", ""} < set(theirs), "cases with an exception and with nothing are among them"
