"""The timer's check file: up to which time the wheel was read, and how much of the timer's topic the log on disk has.

`flush_position` and `queue_offset` belong together: the log up to the one has every message of the queue up to the other that
entered the wheel, and what did not enter it was delivered, on the disk.  (Java: `TimerCheckpoint`)
"""

from __future__ import annotations

from typing import NamedTuple

from rmq_store.disk.disk import Disk, File, write_all
from rmq_store.layouts import TIMER_CHECK, TIMER_CHECK_FILE_BYTES


class Check(NamedTuple):
    """Field by field as it is laid out; a master's `master_offset` is its own `queue_offset`."""

    read_ms: int
    flush_position: int
    queue_offset: int
    master_offset: int
    state_version: int
    version_ms: int
    version_counter: int

    def packed(self) -> bytes:
        """As it stands in the file, and in the answer to code 60."""
        return TIMER_CHECK.pack(*self)


class CheckFile:
    """`config/timercheck` of one store."""

    def __init__(self, disk: Disk, root: str) -> None:
        self._disk = disk
        self._directory = f"{root}/config"
        self.path = f"{self._directory}/timercheck"

    def read(self) -> Check | None:
        """What it says; None when there is none.  Raises OSError."""
        try:
            data = self._disk.open(self.path).read_at(0, TIMER_CHECK.size)
        except FileNotFoundError:
            return None
        return Check._make(TIMER_CHECK.unpack(data.ljust(TIMER_CHECK.size, b"\0"))) if any(data) else None

    def write(self, check: Check) -> File:
        """Write it, made when absent; still to be synced.  Raises OSError."""
        try:
            file = self._disk.open(self.path)
        except FileNotFoundError:
            for changed in self._disk.make_directories(self._directory):
                self._disk.sync_directory(changed)
            file = self._disk.create(self.path, TIMER_CHECK_FILE_BYTES)
            self._disk.sync_directory(self._directory)
        write_all(file, 0, check.packed())
        return file
