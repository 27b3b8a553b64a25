"""A random day of everything that waits, on one broker: delayed, timed and half messages, recalls, clocks, kills between turns
and in the middle of a write, a disk without room or with errors, twice in a row.

At the end of the day everything is due, every producer answers, and then: nothing is lost, nothing came that was rolled back or
recalled, no commit came twice, and of the others only what had been delivered when the broker was killed, as far as the last
progress that it wrote down did not have it (`ScheduleMessageService` and `TimerMessageStore` write theirs by the second).  What
was asked of a broker while it died has happened or not.
"""

from __future__ import annotations

import contextlib
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
"""Two hours each, after the latest time of the day."""
FAULTS = 2
"""In a row."""
FILES = (*["commitlog"] * 6, *["timerlog"] * 3, "consumequeue", "index", "timerwheel", "timercheck", "config", "checkpoint")
CHANGES = (*["write"] * 6, "create", "length", "rename")
"""Of files, that fail."""
ROOM_LOOKS = 20
"""So many seconds a broker may take to see that there is room again."""
LAST_CHANGES = 30
"""A broker that dies ends with one of so many changes of files."""
LAST_DEEDS = 12
ATOMIC_BYTES = 512
"""A process that is killed leaves no part of so short a write."""


class Killed(BaseException):
    """There is no process any more: nothing of it goes on, whatever it catches."""


class MixedDay:
    """Of one seed.  `wanted`: numbers of messages that must come; `never`: those that must not; `again`: may come twice.

    `maybe`: nobody was told whether they are stored, or recalled.
    """

    def __init__(self, seed: int, root: Path) -> None:
        self.rng = random.Random(seed)
        self.disk = TroubledDisk()
        self.harness = Harness(root, disk=self.disk, recallMessageEnable="true", timerMaxDelaySec="36000")
        self.harness.topic("T")
        self.number = 0
        self.wanted: set[int] = set()
        self.never: set[int] = set()
        self.again: set[int] = set()
        self.maybe: set[int] = set()
        self.latest_ms = 0
        """The clock was there, and may have been turned back since."""
        self.handles: dict[int, str] = {}
        self.halves: list[Transaction] = []
        self.begin()

    def begin(self) -> None:
        self.producer = Producer(self.harness)
        self.harness.driver.advance(2_000)

    def play(self) -> None:
        """The whole day.  Raises `AssertionError` for a promise that is broken."""
        deeds = (self.delayed, self.timed, self.timed, self.half, self.end, self.recall, self.wait, self.wait)
        troubles = (self.fill, self.fill, self.fail, self.jump, self.restart, self.die)
        for _ in range(STEPS):
            self.rng.choice((*deeds, *troubles))()
        self.disk.trouble = None
        for one in self.halves:
            if not one.ended:
                self.end_one(one)
        self.harness.env.wall_ms = max(self.latest_ms, self.harness.env.wall_ms)
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
        if waiting:
            number = self.rng.choice(waiting)
            asked = RecallMessage(topic="T", recall_handle=self.handles.pop(number), producer_group="P")
            self.maybe.add(number)
            answer = self.harness.connect().ask(asked)
            self.maybe.discard(number)
            if answer.code == 0 and number not in self.came():
                self.wanted.discard(number)
                self.never.add(number)

    def half(self) -> None:
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
        """Whoever is asked says how it ends; of what it never heard it knows nothing."""
        asked, self.producer.client.asked = self.producer.client.asked, []
        by_key = {UNIQUE.format(one.number): one for one in self.halves}
        for question in (command.header(CheckTransactionState) for command in asked):
            key = question.msg_id or ""
            if key not in by_key and key in {UNIQUE.format(number) for number in self.maybe}:
                continue
            one = by_key[key]
            place = one.unit._replace(queue_offset=question.tran_state_table_offset, physical_offset=question.commit_log_offset)
            self.producer.client.send_oneway(ending(place, one.how, from_transaction_check=True))
            one.ended = True

    def fill(self) -> None:
        """The next changes of one kind of file find no room, twice in a row; then there is some."""
        self.fault(errno.ENOSPC)
        if not self.takes():
            raise AssertionError("there is room, and no message is taken")

    def fail(self) -> None:
        """The same with errors of the disk.  After some of them a broker takes nothing until it is started again."""
        self.fault(errno.EIO)
        if not self.takes():
            self.kill()

    def fault(self, number: int) -> None:
        left = [FAULTS]
        part, change = self.rng.choice(FILES), self.rng.choice(CHANGES)

        def trouble(operation: str, path: str, _size: int) -> OSError | int | None:
            if operation == change and left[0] and part in path:
                left[0] -= 1
                return OSError(number, "planted")
            return None

        self.disk.trouble = trouble
        self.wait_ms(self.rng.choice((300, 2_000)))
        self.delayed()
        self.timed()
        self.wait_ms(5_000)
        self.disk.trouble = None

    def takes(self) -> bool:
        """It stores messages again."""
        for _ in range(ROOM_LOOKS):
            if self.put() is not None:
                self.wanted.add(self.number - 1)
                return True
            self.wait_ms(1_000)
        return False

    def die(self) -> None:
        """One of the next changes of files is the last that the broker makes, and half of it where it is a long one."""
        left = [self.rng.randrange(LAST_CHANGES)]

        def trouble(operation: str, _path: str, size: int) -> int | None:
            if left[0] >= 0 and operation not in ("open", "read"):
                left[0] -= 1
                if left[0] < 0 and operation == "write" and size > ATOMIC_BYTES:
                    return size // 2
            if left[0] < 0:
                raise Killed
            return None

        self.disk.trouble = trouble
        for _ in range(LAST_DEEDS):
            first = self.number
            with contextlib.suppress(Killed):
                try:
                    self.rng.choice((self.delayed, self.timed, self.timed, self.half, self.end, self.recall, self.wait))()
                except Exception:
                    if left[0] >= 0:
                        raise
            if left[0] < 0:
                self.maybe.update(range(first, self.number))
                break
        self.disk.trouble = None
        if left[0] < 0:
            self.kill()

    def jump(self) -> None:
        """The wall clock alone."""
        self.latest_ms = max(self.latest_ms, self.harness.env.wall_ms)
        self.harness.env.wall_ms += self.rng.choice((30_000, -30_000, HOUR_MS, -HOUR_MS, 5 * HOUR_MS, -5 * HOUR_MS))
        self.wait_ms(1_000)

    def restart(self) -> None:
        if self.rng.random() < 0.6:
            self.kill()
        else:
            self.harness.restart()
            self.begin()

    def kill(self) -> None:
        self.harness.restart(kill=True)
        self.again |= set(self.came())
        self.begin()

    def came(self) -> Counter[int]:
        return Counter(int(bytes(unit.body)) for unit in self.harness.stored("T", 1))

    def judge(self) -> None:
        came = self.came()
        committed = {one.number for one in self.halves if one.how == TRANSACTION_COMMIT}
        rolled_back = {one.number for one in self.halves if one.how == TRANSACTION_ROLLBACK}
        lost = (self.wanted | committed) - came.keys() - self.maybe
        assert not lost, f"lost: {sorted(lost)}"
        unasked = (came.keys() & (self.never | rolled_back)) - self.maybe
        assert not unasked, f"came, and must not: {sorted(unasked)}"
        twice = {number for number, count in came.items() if count > 1}
        assert twice <= self.again - committed, f"twice: {sorted(twice - self.again)}, {sorted(twice & committed)}"


def mixed_day(seed: int, root: Path) -> None:
    """Play one."""
    MixedDay(seed, root).play()
