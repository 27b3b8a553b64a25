"""A random day of transactions on one broker: producers that end, end twice, end late, or say it only when asked; stops, kills.

At the end of the day every producer answers, and then: what was committed is delivered once, what was rolled back never, nothing
is open and nothing was given up.  Meanwhile: the first end of an open transaction is taken, a second one is not; nobody is asked
about a transaction that has ended, unless the broker was killed before it wrote the end down.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

from rmq_wire.headers.transactions import CheckTransactionState
from rmq_wire.message import StoredMessage
from rmq_wire.sys_flag import TRANSACTION_COMMIT, TRANSACTION_NOT, TRANSACTION_ROLLBACK
from tests.support.engine import Harness
from tests.support.transactions import GIVEN_UP, HALF, UNIQUE, Producer, ending, half

STEPS = 60
LAST_ROUNDS = 6
UNKNOWN_MAX = 6
"""How often a producer does not know yet: less often than it is asked."""


class Transaction:
    """One.  `how`: how it will end; `unknown`: how many questions it does not know the answer of yet."""

    def __init__(self, number: int, unit: StoredMessage, how: int, unknown: int) -> None:
        self.number, self.unit, self.how, self.unknown = number, unit, how, unknown
        self.ended = False
        self.noted = True
        """The broker has not been killed since its end."""


class Day:
    """Of one seed."""

    def __init__(self, seed: int, root: Path) -> None:
        self.rng = random.Random(seed)
        self.harness = Harness(root, transactionOpMsgMaxSize="40")
        self.harness.topic("T")
        self.begin()
        self.all: list[Transaction] = []

    def begin(self) -> None:
        """A producer comes; the broker has started."""
        self.producer = Producer(self.harness)
        self.harness.driver.advance(1_000)

    def play(self) -> None:
        """The whole day.  Raises `AssertionError` for a promise that is broken."""
        for _ in range(STEPS):
            self.rng.choice((self.send, self.send, self.end, self.end, self.end_again, self.wait, self.wait, self.restart))()
            self.answer()
        for one in self.all:
            one.unknown = 0
        for _ in range(LAST_ROUNDS):
            self.producer.beat()
            self.harness.driver.advance(30_000)
            self.answer()
        self.judge()

    def send(self) -> None:
        wishes = {"CHECK_IMMUNITY_TIME_IN_SECONDS": "90"} if self.rng.random() < 0.2 else {}
        number = len(self.all)
        how = self.rng.choice((TRANSACTION_COMMIT, TRANSACTION_ROLLBACK))
        unit = half(self.harness, number, self.producer.client, b"%d" % number, **wishes)
        self.all.append(Transaction(number, unit, how, self.rng.randrange(UNKNOWN_MAX)))

    def end(self) -> None:
        """By the place that the producer was answered, however long ago; 604 when it said that it would be quicker."""
        unended = [one for one in self.all if not one.ended]
        if unended:
            one = self.rng.choice(unended)
            answer = self.producer.client.ask(ending(one.unit, one.how))
            assert answer.code in (0, 604), f"{one.number} cannot be ended: {answer.remark}"
            one.ended = one.noted = answer.code == 0

    def end_again(self) -> None:
        ended = [one for one in self.all if one.ended and one.noted]
        if ended:
            one = self.rng.choice(ended)
            answer = self.producer.client.ask(ending(one.unit, self.rng.choice((TRANSACTION_COMMIT, TRANSACTION_ROLLBACK))))
            assert answer.code != 0, f"{one.number} ends twice"

    def wait(self) -> None:
        self.producer.beat()
        self.harness.driver.advance(self.rng.choice((500, 4_000, 31_000)))

    def restart(self) -> None:
        kill = self.rng.random() < 0.5
        if kill:
            for one in self.all:
                one.noted = False
        self.harness.restart(kill=kill)
        self.begin()

    def answer(self) -> None:
        """What the producer was asked; it is sure, or does not know yet."""
        asked, self.producer.client.asked = self.producer.client.asked, []
        by_key = {UNIQUE.format(one.number): one for one in self.all}
        questions = [command.header(CheckTransactionState) for command in asked]
        for question in questions:
            one = by_key[question.msg_id or ""]
            assert not (one.ended and one.noted), f"asked about {one.number}, which has ended"
        for question in questions:
            one = by_key[question.msg_id or ""]
            how = one.how if one.unknown == 0 else TRANSACTION_NOT
            one.unknown = max(one.unknown - 1, 0)
            place = one.unit._replace(queue_offset=question.tran_state_table_offset, physical_offset=question.commit_log_offset)
            self.producer.client.send_oneway(ending(place, how, from_transaction_check=True))
            if how != TRANSACTION_NOT:
                one.ended = one.noted = True

    def judge(self) -> None:
        found = Counter(int(bytes(unit.body)) for unit in self.harness.stored("T", 1))
        wanted = {one.number: 1 for one in self.all if one.how == TRANSACTION_COMMIT}
        assert dict(found) == wanted
        assert self.harness.stored(GIVEN_UP) == []
        halves = self.harness.node.halves
        assert halves.first(0) == self.harness.node.store.queue_bounds(HALF, 0)[1], "half messages are left"


def day(seed: int, root: Path) -> None:
    """Play one."""
    Day(seed, root).play()
