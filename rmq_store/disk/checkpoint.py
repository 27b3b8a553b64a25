"""The checkpoint file: how far queues, index and log are known to be safe on disk.

A value may lag behind the truth, never run ahead of it: each is taken before a sync begins and stored after it succeeded.
(Java: StoreCheckpoint of 5.5.0)
"""

from __future__ import annotations

from rmq_store.disk.disk import Disk, File, write_all
from rmq_store.layouts import CHECKPOINT, CHECKPOINT_FILE_BYTES


class Checkpoint:
    """Six numbers. Times are ms, offsets log positions; 0 means unknown."""

    __slots__ = (
        "_changed",
        "_file",
        "confirm_physical_offset",
        "index_message_timestamp",
        "logics_message_timestamp",
        "logics_physical_offset",
        "master_flushed_offset",
        "physic_message_timestamp",
    )

    def __init__(self, file: File) -> None:
        self._file = file
        data = file.read_at(0, CHECKPOINT.size)
        self.physic_message_timestamp: int
        self.logics_physical_offset: int
        (
            self.physic_message_timestamp,
            self.logics_message_timestamp,
            self.index_message_timestamp,
            self.master_flushed_offset,
            self.confirm_physical_offset,
            self.logics_physical_offset,
        ) = CHECKPOINT.unpack(data.ljust(CHECKPOINT.size, b"\0"))
        self._changed = self.values()

    @property
    def file(self) -> File:
        return self._file

    def values(self) -> tuple[int, ...]:
        """All of them."""
        return (
            self.physic_message_timestamp,
            self.logics_message_timestamp,
            self.index_message_timestamp,
            self.master_flushed_offset,
            self.confirm_physical_offset,
            self.logics_physical_offset,
        )

    def take_back(self) -> None:
        """Queues are built again: none of their entries is known to be safe any more, on the medium too. Raises OSError."""
        self.logics_physical_offset = self.logics_message_timestamp = 0
        self.write()
        self._file.sync()

    def take_back_index(self, safe_ms: int) -> None:
        """Index files that are made from now on are not known to be safe, though their messages are older than what once was:
        no file that ends at `safe_ms` or later is.  On the medium too. Raises OSError."""
        if self.index_message_timestamp > safe_ms:
            self.index_message_timestamp = safe_ms
            self.write()
            self._file.sync()

    def make_sure(self) -> None:
        """Let the medium have what was read: a start that was killed may have taken back and not synced.  Raises OSError."""
        self._file.sync()

    def write(self) -> None:
        """Write what changed since the last call. Raises OSError."""
        values = self.values()
        if values != self._changed:
            write_all(self._file, 0, CHECKPOINT.pack(*values))
            self._changed = values


def open_checkpoint(disk: Disk, root: str) -> Checkpoint:
    """The checkpoint of this store, made when absent. Raises OSError, ForeignFile."""
    path = f"{root}/checkpoint"
    try:
        file = disk.open(path)
    except FileNotFoundError:
        return Checkpoint(disk.create(path, CHECKPOINT_FILE_BYTES))
    if file.length() < CHECKPOINT_FILE_BYTES:
        file.set_length(CHECKPOINT_FILE_BYTES)
    return Checkpoint(file)
