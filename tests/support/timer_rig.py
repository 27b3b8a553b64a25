"""A store with its timer, a hand-driven clock and no broker: what a producer sends at a time, and what comes of it when."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from rmq_store.errors import Cold, CommitFailed
from rmq_store.log.draft import Draft
from rmq_store.timer.flush import TimerFlusher
from rmq_store.timer.machine import Timer
from rmq_store.timer.settings import TimerSettings
from rmq_wire import names, properties
from rmq_wire import property_names as prop
from rmq_wire.implied import timers
from rmq_wire.message import StoredMessage, read_unit
from tests.support.memory_disk import MemoryDisk
from tests.support.store_rig import HOST, ROOT, START_MS, Rig, small

SLOTS = 64 * 15
"""Of the small wheel, doubled in its file: a quarter of an hour."""
LOG_UNITS = 100
"""Units in a file of the small timer log."""


def timer_settings(**changes: Any) -> TimerSettings:
    """A wheel of 16 minutes, a log of 100 units a file."""
    values: dict[str, Any] = {
        "store_path_root_dir": ROOT,
        "mapped_file_size_timer_log": LOG_UNITS * 52 + 16 + 7,
        "wheel_slots": SLOTS,
        "timer_roll_window_slot": 60,
        **changes,
    }
    return TimerSettings(**values)


@dataclass
class TimerRig:
    """Sends, turns the wheel and looks at what came out of it."""

    disk: MemoryDisk = field(default_factory=MemoryDisk)
    changes: dict[str, Any] = field(default_factory=dict)
    store_changes: dict[str, Any] = field(default_factory=lambda: {"mapped_file_size_commit_log": 64 * 4096})
    wall_ms: int = START_MS
    refuse: Callable[[Draft], None] | None = None
    sent: int = 0

    def __post_init__(self) -> None:
        self.open()

    def open(self) -> None:
        """A start on what is on the disk."""
        self.rig = Rig(disk=self.disk, settings=small(**self.store_changes), wall_ms=self.wall_ms)
        self.said: list[str] = []
        settings = timer_settings(**self.changes)
        self.timer = Timer(self.disk, settings, self.rig.store, self.rig.store.written_offset, self.wall_ms, self.said.append)
        self.flusher = TimerFlusher(self.disk, self.timer)

    # --- sending

    def send(self, due_ms: int, key: str | None = None, topic: str = "T", **more: str) -> str:
        """A message with a time, as the intake stores it; its unique key."""
        self.sent += 1
        key = key or f"K{self.sent}"
        values = {prop.UNIQ_KEY: key, prop.TIMER_DELIVER_MS: str(due_ms), **more}
        slot_ms = timers.slot_time(values, self.wall_ms, precision_ms=1_000, max_delay_s=timers.MAX_DELAY_S)
        assert slot_ms is not None
        timers.divert(topic, 0, values, slot_ms)
        self.put(names.WHEEL_TIMER_TOPIC, values, key.encode())
        return key

    def recall(self, key: str, due_ms: int) -> None:
        """Mark a message as not to be delivered, by the time that its handle has."""
        out_ms = (due_ms - 1) // 1_000 * 1_000
        self.send(out_ms + 1, key, **{prop.TIMER_DEL_UNIQKEY: key})

    def put(self, topic: str, values: dict[str, str], body: bytes) -> None:
        """Append as it is."""
        self.rig.put(Draft(topic, 0, body, properties.encode_java(values), self.wall_ms, HOST, HOST))

    # --- turning

    def deliver(self, draft: Draft, rolls: bool) -> int:
        """Stage the copy."""
        if self.refuse is not None:
            self.refuse(draft)
        return self.rig.store.stage(draft, self.wall_ms).end_offset

    def step(self) -> bool:
        """One step, written and done.  False when there was nothing to do, or it was in vain."""
        if not self.timer.has_work(self.wall_ms):
            return False
        step = self.timer.step(self.wall_ms, self.deliver)
        try:
            self.rig.store.commit()
        except CommitFailed:
            return False
        self.rig.store.dispatch(self.wall_ms)
        self.timer.done(step, self.wall_ms)
        if isinstance(step.trouble, Cold):
            step.trouble.run()
        elif step.trouble is not None:
            raise step.trouble
        return True

    def turn(self, steps_max: int = 10_000) -> None:
        """Everything that can be done now."""
        while steps_max and self.step():
            steps_max -= 1
        assert steps_max, "no end"

    def wait(self, ms: int, every_ms: int = 1_000) -> None:
        """Time passes, and the wheel turns."""
        end = self.wall_ms + ms
        while self.wall_ms < end:
            passed = min(every_ms, end - self.wall_ms)
            self.wall_ms += passed
            self.rig.wait(passed)
            self.turn()

    def flush(self, *, sync_log: bool = True) -> bool:
        """What is due reaches the medium.  False when nothing was."""
        if sync_log:
            self.rig.sync_queues()
        ticket = self.flusher.begin(self.rig.store.flushed_offset, self.wall_ms, force=True)
        if ticket is None:
            return False
        try:
            ticket.run()
        except OSError as error:
            self.flusher.end(ticket, error)
            raise
        self.flusher.end(ticket, None)
        return True

    # --- ends

    def close(self) -> None:
        """A clean stop."""
        self.flush()
        assert self.rig.store.close(self.wall_ms)

    def reopen(self) -> None:
        """A clean stop and a start."""
        self.close()
        self.open()

    def crash(self, keep: Any = "all") -> None:
        """The process is killed, or the power goes; and a start."""
        self.disk = self.disk.crash(keep)
        with suppress(KeyError):
            self.disk.locked.clear()
        self.open()

    # --- looking

    def messages(self, topic: str = "T") -> Iterator[StoredMessage]:
        """What a topic's queue 0 holds."""
        low, high = self.rig.store.queue_bounds(topic, 0)
        while low < high:
            read = self.rig.store.read_queue(topic, 0, low, high - low, 1 << 27)
            data = b"".join(bytes(chunk) for chunk in read.chunks)
            at = 0
            while at < len(data):
                unit = read_unit(data, at)
                yield unit
                at += unit.total_size
            low = read.next_offset

    def keys(self, topic: str = "T") -> list[str]:
        """Their unique keys."""
        return [bytes(message.body).decode() for message in self.messages(topic)]
