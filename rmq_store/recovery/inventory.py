"""What a clean stop left, written down for the next start, so that it sees what was taken away in between.

Files say nothing about files that are gone: a queue without its first file looks like one that retention has followed, and one
without any like a queue that never had a message.  So the last thing that a clean stop writes is where log and queues begin and
end, and which tables there are, with a check sum (MessagePack).  Who finds `abort` does not believe it; nor who finds another
checkpoint, for a broker of another kind may have run meanwhile.  (Java keeps nothing of the kind, and leaves the file alone.)
"""

from __future__ import annotations

import zlib
from typing import Final

import msgspec

from rmq_store.disk.checkpoint import Checkpoint
from rmq_store.disk.disk import Disk, Kind, write_all
from rmq_store.index.index import Index
from rmq_store.log.commit_log import CommitLog
from rmq_store.queues.queues import Queues

NAME: Final = "inventory"
"""In the store's root."""
TABLES: Final = (".json",)
"""How names of tables in `config` end."""


class Inventory(msgspec.Struct, frozen=True):
    """Positions count bytes of the log."""

    checkpoint: tuple[int, ...]
    log_first: int
    followed: int
    """where the log began when the queues' minimums were set (`Retention`)"""
    queues: dict[str, bytes]
    """topic: its row (`rmq_store.queues.unopened`)"""
    tables: list[str]
    """names in `config`"""
    keyless: int = 0
    """where the log ended, when the index had no entry: no message of it had a key"""


def taken(
    disk: Disk, root: str, log: CommitLog, queues: Queues, checkpoint: Checkpoint, followed: int, index: Index | None = None
) -> Inventory:
    """Of what is there now. Raises OSError."""
    return Inventory(
        checkpoint.values(),
        log.min_offset,
        followed,
        queues.noted(),
        [name for name, kind, size in disk.entries(f"{root}/config") if kind is Kind.FILE and size and name.endswith(TABLES)],
        log.written_offset if index is not None and not index.has_entries else 0,
    )


def write(disk: Disk, root: str, inventory: Inventory) -> None:
    """In place of an older one, while `abort` stands. Raises OSError."""
    path = f"{root}/{NAME}"
    try:
        file = disk.open(path)
        file.set_length(0)
    except FileNotFoundError:
        file = disk.create(path, 0)
    data = msgspec.msgpack.encode(inventory)
    write_all(file, 0, msgspec.msgpack.encode((zlib.crc32(data), data)))
    file.sync()


def read(disk: Disk, root: str) -> Inventory | None:
    """What the last clean stop left; None when it left nothing that can be believed. Raises OSError."""
    try:
        file = disk.open(f"{root}/{NAME}")
        checkpoint = Checkpoint(disk.open(f"{root}/checkpoint"))
    except FileNotFoundError:
        return None
    try:
        check_sum, data = msgspec.msgpack.decode(file.read_at(0, file.length()), type=tuple[int, bytes])
        if check_sum != zlib.crc32(data):
            return None
        noted = msgspec.msgpack.decode(data, type=Inventory)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return noted if noted.checkpoint == checkpoint.values() else None
