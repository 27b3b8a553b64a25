"""Random hours of a timer: messages, recalls, flushes, kills and power cuts by seed; and what must hold of what comes out."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import suppress

from rmq_wire import names, properties
from rmq_wire import property_names as prop
from rmq_wire.message import StoredMessage
from tests.support.memory_disk import Fault
from tests.support.timer_rig import TimerRig

LIVES = 3
LATE_MS = 6_000
"""The rig waits in steps of five seconds."""


def values_of(message: StoredMessage) -> dict[str, str]:
    return properties.decode(message.properties.decode())


class Play:
    """One run.  `again`: keys that may come more than once, for a crash came between their delivery and the next flush."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.rig = TimerRig()
        self.again: set[str] = set()
        self.flushed: Counter[str] = Counter()
        self.waiting: Counter[str] = Counter()
        """What a ticket that waits for the log speaks for."""

    def run(self) -> None:
        """Raises AssertionError."""
        for _ in range(LIVES):
            for _ in range(self.chance.randrange(2, 25)):
                self._do()
            self._crash()
        self._settle()
        self._judge()

    def _do(self) -> None:
        rig, chance = self.rig, self.chance
        kind = chance.random()
        if kind < 0.5:
            due_ms = rig.wall_ms + chance.choice([chance.randrange(1_001, 9_000), chance.randrange(9_000, 200_000)])
            key = rig.send(due_ms)
            if chance.random() < 0.25:
                rig.recall(key, due_ms)
                if chance.random() < 0.5:
                    rig.turn()
        elif kind < 0.65:
            rig.turn()
        elif kind < 0.85:
            rig.wait(chance.randrange(1, 6_000))
        else:
            if not rig.flusher.waits:
                self.waiting = self._out()
            if rig.flush(sync_log=chance.random() < 0.7):
                is_newest = rig.timer.safe_from <= rig.rig.store.flushed_offset
                self.flushed = self._out() if is_newest else self.waiting

    def _crash(self) -> None:
        """What came since the last flush may come again."""
        self.again |= (self._out() - self.flushed).keys()
        if self.chance.random() < 0.4:
            self._die_in_a_flush()
        self.rig.crash(self.chance.choice(["all", "synced", self.chance]))
        self.rig.wall_ms += self.chance.choice([0, 0, 3_000, 20_000])
        self.flushed = self._out()

    def _die_in_a_flush(self) -> None:
        """Between log and check file."""
        operation = self.chance.choice(["write", "sync"])
        part = self.chance.choice(["timerlog", "timerwheel", "timercheck"])
        self.rig.rig.sync_queues()
        torn = 0 if part == "timercheck" else self.chance.randrange(100)  # 56 bytes of one sector
        self.rig.disk.faults.append(Fault(operation, path_part=part, partial=torn))
        with suppress(OSError):
            self.rig.flush(sync_log=False)
        self.rig.disk.faults.clear()

    def _out(self) -> Counter[str]:
        """What left the wheel: delivered, or stored anew to roll."""
        rolled = [
            message for message in self.rig.messages(names.WHEEL_TIMER_TOPIC) if prop.TIMER_ROLL_TIMES in values_of(message)
        ]
        return Counter(self.rig.keys()) + Counter(values_of(message)[prop.UNIQ_KEY] for message in rolled)

    def _settle(self) -> None:
        self.rig.wait(230_000, every_ms=5_000)

    def _judge(self) -> None:
        rig = self.rig
        waited = [values_of(message) for message in rig.messages(names.WHEEL_TIMER_TOPIC)]
        marked = {values[prop.TIMER_DEL_UNIQKEY] for values in waited if prop.TIMER_DEL_UNIQKEY in values}
        sent = {values[prop.UNIQ_KEY] for values in waited if prop.TIMER_DEL_UNIQKEY not in values}
        came = Counter(rig.keys())
        assert sent - marked <= came.keys(), f"lost: {sorted(sent - marked - came.keys())}"
        assert not marked & came.keys() - self.again, f"recalled: {sorted(marked & came.keys())}"
        twice = {key for key, count in came.items() if count > 1}
        assert twice <= self.again, f"twice: {sorted(twice - self.again)}"
        for message in rig.messages():
            early_ms = int(values_of(message)[prop.TIMER_DELIVER_MS]) - message.store_timestamp
            assert early_ms <= 0, f"{early_ms} ms early"
        assert rig.timer.waiting == 0 or self.again, f"{rig.timer.waiting} in an empty wheel"


def play(seed: int) -> None:
    """Raises AssertionError when something does not hold."""
    Play(seed).run()
