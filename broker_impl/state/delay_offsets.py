"""How far each delay level has been delivered: `delayOffset.json`, level to the next offset of its queue in SCHEDULE_TOPIC_XXXX.

Two numbers per level.  `progress` is where delivery goes on.  What a file may say is less: a copy that is delivered but not yet
on the disk would be lost by a power cut, and the message with it, if the file said that it is done.  So each step waits in
`_unsafe` with the log offset behind its copies, and the file gets the last step whose copies the disk has.  A crash then delivers
twice, never not at all.  Loading clamps to the recovered queue, so that no progress lies beyond it.

Java: `ScheduleMessageService` (offsetTable, encode, decode, correctDelayOffset), which saves whatever it has in memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from broker_impl.state.persisted import PersistedTable, leftover
from rmq_net.log import Log
from rmq_wire.bodies.data_version import DataVersion
from rmq_wire.bodies.offsets import DelayOffsetTable

Bounds = Callable[[int], tuple[int, int]]
"""Level -> (min, max) offset of its queue; (0, 0) without one."""


class DelayOffsets(PersistedTable):
    """Progress by level.

    `flushed()`: the log offset up to which the disk has everything.  `version_step`: Java's delayOffsetUpdateVersionStep.
    """

    file = "delayOffset.json"

    def __init__(self, flushed: Callable[[], int], *, version_step: int = 200) -> None:
        super().__init__()
        self.data_version = DataVersion()
        self.progress: dict[int, int] = {}
        self._flushed = flushed
        self._version_step = version_step
        self._updates = 0
        self._safe: dict[int, int] = {}
        self._unsafe: dict[int, deque[tuple[int, int]]] = {}
        """Per level (end of the copies in the log, next offset): both numbers only grow."""

    @property
    def dirty(self) -> bool:
        """Something changed that no finished write contains, or what it contains has become safe since."""
        return super().dirty or any(self._unsafe.values())

    def update(self, level: int, offset: int, wall_ms: int, *, end_offset: int = 0) -> None:
        """Everything before `offset` is delivered; its copies end at `end_offset` of the log."""
        if self.progress.get(level) == offset:
            return
        self.progress[level] = offset
        self._settle(level)
        steps = self._unsafe.get(level)
        if steps:
            steps.append((max(end_offset, steps[-1][0]), offset))
        elif end_offset > self._flushed():
            self._unsafe[level] = deque(((end_offset, offset),))
        else:
            self._safe[level] = offset
        self._updates += 1
        if self._updates % self._version_step == 0:
            self.data_version.advance(wall_ms)
        self.changed(at_once=False)

    def clamp(self, levels: Mapping[int, int], bounds: Bounds, log: Log) -> None:
        """After recovery: no progress outside its queue (`correctDelayOffset`)."""
        for level in levels:
            offset = self.progress.get(level)
            if offset is None:
                continue
            lowest, highest = bounds(level)
            corrected = min(max(offset, lowest), highest)
            if corrected != offset:
                log.error("delay level %d: progress %d is outside its queue, corrected to %d", level, offset, corrected)
                self.progress[level] = self._safe[level] = corrected
                self.changed(at_once=False)

    def _settle(self, level: int) -> None:
        steps = self._unsafe.get(level)
        flushed = self._flushed()
        while steps and steps[0][0] <= flushed:
            self._safe[level] = steps.popleft()[1]

    def members(self) -> dict[str, Any]:
        for level in self._unsafe:
            self._settle(level)
        return {"dataVersion": self.data_version.plain(), "offsetTable": dict(sorted(self._safe.items()))}

    def take(self, document: dict[str, Any]) -> None:
        table = DelayOffsetTable.from_plain(document)
        self.progress = dict(table.offset_table)
        self._safe = dict(table.offset_table)
        self._unsafe.clear()
        if table.data_version is not None:
            self.data_version.assign(table.data_version)
        self.unknown = leftover(document, ("dataVersion", "offsetTable"))
