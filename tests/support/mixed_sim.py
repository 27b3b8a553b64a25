"""A random day of everything that waits, on one broker: delayed, timed and half messages, recalls, a full disk, clocks, kills.

At the end of the day everything is due, every producer answers, and then: nothing is lost, nothing came that was rolled back or
recalled, and twice came only what had been delivered when the broker was killed, as far as the last progress that it wrote down
did not have it (`ScheduleMessageService` and `TimerMessageStore` write theirs by the second).
"""

from __future__ import annotations

import errno
import random
from collections import Counter
from pathlib import Path

from rmq_wire.headers.timers import RecallMessage
from rmq_wire.headers.transactions import CheckTransactionState
from rmq_wire.sys_flag import TRANSACTION_COMMIT, TRANSACTION_ROLLBACK
from tests.support.engine import Harness
from tests.support.requests import pairs, send
from tests.support.transaction_sim import Transaction
from tests.support.transactions import UNIQUE, Producer, ending, half
from tests.support.troubled_disk import TroubledDisk

STEPS = 50
HOUR_MS = 3_600_000
LEVELS = (1, 2, 3, 4)
LAST_ROUNDS = 5
FAULTS = 2
"""In a row."""
ROOM_LOOKS = 20
"""So many seconds a broker may take to see that there is room again."""


class MixedDay:
    """Of one seed.  `wanted`: numbers of messages that must come; `never`: those that must not; `again`: may come twice."""

    def __init__(self, seed: int, root: Path) -> None:
        self.rng = random.Random(seed)
        self.disk = TroubledDisk()
        self.harness = Harness(root, disk=self.disk, recallMessageEnable="true", timerMaxDelaySec="36000")
        self.harness.topic("T")
        self.number = 0
        self.wanted: set[int] = set()
        self.never: set[int] = set()
        self.again: set[int] = set()
        self.handles: dict[int, str] = {}
        self.halves: list[Transaction] = []
        self.begin()

    def begin(self) -> None:
        self.producer = Producer(self.harness)
        self.harness.driver.advance(2_000)

    def play(self) -> None:
        """The whole day.  Raises `AssertionError` for a promise that is broken."""
        doings = (self.delayed, self.timed, self.timed, self.half, self.end, self.recall, self.wait, self.wait, self.fill)
        for _ in range(STEPS):
            self.rng.choice((*doings, self.jump, self.restart))()
        self.disk.trouble = None
        for one in self.halves:
            if not one.ended:
                self.end_one(one)
        for _ in range(LAST_ROUNDS):
            self.harness.env.wall_ms += 2 * HOUR_MS
            self.wait_ms(30_000)
        self.judge()

    def put(self, **properties: str) -> tuple[int, dict[str, str]] | None:
        """Send; None when the broker refuses, and then nothing of it may ever come."""
        number = self.number
        self.number += 1
        request = send(queue_id=1, properties=pairs(UNIQ_KEY=f"{number:032X}", **properties))
        answer = self.harness.connect().ask(request, b"%d" % number)
        if answer.code != 0:
            self.never.add(number)
            return None
        return number, answer.ext_map()

    def delayed(self) -> None:
        put = self.put(DELAY=str(self.rng.choice(LEVELS)))
        if put is not None:
            self.wanted.add(put[0])

    def timed(self) -> None:
        after_ms = self.rng.choice((-1_000, 1_500, 7_000, 60_000, HOUR_MS + 5_000))
        put = self.put(TIMER_DELIVER_MS=str(self.harness.env.wall_ms + after_ms))
        if put is not None:
            self.wanted.add(put[0])
            if "recallHandle" in put[1]:
                self.handles[put[0]] = put[1]["recallHandle"]

    def recall(self) -> None:
        """Of one that has not come and is not about to."""
        came = self.came()
        waiting = [number for number in self.handles if number not in came]
        if waiting and self.disk.trouble is None:
            number = self.rng.choice(waiting)
            asked = RecallMessage(topic="T", recall_handle=self.handles.pop(number), producer_group="P")
            if self.harness.connect().ask(asked).code == 0 and number not in self.came():
                self.wanted.discard(number)
                self.never.add(number)

    def half(self) -> None:
        if self.disk.trouble is None:
            number = self.number
            self.number += 1
            unit = half(self.harness, number, self.producer.client, b"%d" % number)
            how = self.rng.choice((TRANSACTION_COMMIT, TRANSACTION_ROLLBACK))
            self.halves.append(Transaction(number, unit, how, 0))

    def end(self) -> None:
        unended = [one for one in self.halves if not one.ended]
        if unended:
            self.end_one(self.rng.choice(unended))

    def end_one(self, one: Transaction) -> None:
        answer = self.harness.connect().ask(ending(one.unit, one.how))
        if answer.code == 0:
            one.ended = True

    def wait(self) -> None:
        self.wait_ms(self.rng.choice((300, 1_000, 6_000, 40_000)))

    def wait_ms(self, ms: int) -> None:
        self.producer.beat()
        self.harness.driver.advance(ms)
        self.answer()

    def answer(self) -> None:
        """Whoever is asked says how it ends."""
        asked, self.producer.client.asked = self.producer.client.asked, []
        by_key = {UNIQUE.format(one.number): one for one in self.halves}
        for question in (command.header(CheckTransactionState) for command in asked):
            one = by_key[question.msg_id or ""]
            place = one.unit._replace(queue_offset=question.tran_state_table_offset, physical_offset=question.commit_log_offset)
            self.producer.client.send_oneway(ending(place, one.how, from_transaction_check=True))
            one.ended = True

    def fill(self) -> None:
        """The next writes of one kind of file find no room; twice in a row, then there is some."""
        left = [FAULTS]
        part = self.rng.choice(("commitlog", "timerlog"))

        def trouble(operation: str, path: str, _size: int) -> OSError | int | None:
            if operation == "write" and left[0] and part in path:
                left[0] -= 1
                return OSError(errno.ENOSPC, "no room")
            return None

        self.disk.trouble = trouble
        self.wait_ms(self.rng.choice((300, 2_000)))
        self.delayed()
        self.timed()
        self.wait_ms(5_000)
        self.disk.trouble = None
        for _ in range(ROOM_LOOKS):
            if self.put() is not None:
                self.wanted.add(self.number - 1)
                return
            self.wait_ms(1_000)
        raise AssertionError("there is room, and no message is taken")

    def jump(self) -> None:
        """The wall clock alone."""
        self.harness.env.wall_ms += self.rng.choice((HOUR_MS, -HOUR_MS))
        self.wait_ms(1_000)

    def restart(self) -> None:
        kill = self.rng.random() < 0.6
        if kill:
            self.again |= set(self.came())
        self.harness.restart(kill=kill)
        self.begin()

    def came(self) -> Counter[int]:
        return Counter(int(bytes(unit.body)) for unit in self.harness.stored("T", 1))

    def judge(self) -> None:
        came = self.came()
        committed = {one.number for one in self.halves if one.how == TRANSACTION_COMMIT}
        rolled_back = {one.number for one in self.halves if one.how == TRANSACTION_ROLLBACK}
        lost = (self.wanted | committed) - came.keys()
        assert not lost, f"lost: {sorted(lost)}"
        unasked = came.keys() & (self.never | rolled_back)
        assert not unasked, f"came, and must not: {sorted(unasked)}"
        twice = {number for number, count in came.items() if count > 1}
        assert twice <= self.again, f"twice: {sorted(twice - self.again)}"


def mixed_day(seed: int, root: Path) -> None:
    """Play one."""
    MixedDay(seed, root).play()
