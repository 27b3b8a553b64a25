"""Files of queues that are written whole, one put for each, by whoever gets all pieces of one: for any file system.

Whoever reads a split of the log keeps what it would write at places of files (`Gathering`); pieces meet by file, and `whole_file`
makes one of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from rmq_columns.decode.queues import FILLER_SIZE
from rmq_columns.rebuild.entries import Key
from rmq_columns.rebuild.files import FILLED_AT_ONCE, Target, unit
from rmq_columns.rebuild.runs import Settled
from rmq_wire.store_names import QUEUES, offset_name


class Piece(NamedTuple):
    """Bytes of a file.  file: within the directory of all; size: of the whole file."""

    file: str
    size: int
    at: int
    data: bytes


@dataclass(frozen=True)
class Gathering(Target):
    """Keeps what would be written.  inside: of the directory of all stores, where this one's files come."""

    inside: str = ""
    held: list[Piece] = field(default_factory=list, compare=False)

    def check(self) -> None:
        """There is nothing to be seen."""

    def _write_row(self, directory: str, at: int, view: memoryview, size: int) -> None:
        """As of `Target`; what follows what was kept last is one piece with it."""
        inside = os.path.relpath(directory, self.above)
        while view:
            start = at - at % size
            now = min(len(view), start + size - at)
            file = "/".join(filter(None, (self.inside, inside, offset_name(start))))
            self.held.append(Piece(file, size, at - start, bytes(view[:now])))
            view, at = view[now:], at + now

    def taken(self) -> Iterator[Piece]:
        """What was kept, a file's pieces in a row as one; nothing of it is kept any more."""
        found = sorted(self.held, key=lambda one: (one.file, one.at))
        self.held.clear()
        begin = 0
        for number, one in enumerate(found):
            following = found[number + 1] if number + 1 < len(found) else None
            if following is None or following.file != one.file or following.at != one.at + len(one.data):
                data = b"".join(each.data for each in found[begin : number + 1])
                yield one._replace(at=found[begin].at, data=data)
                begin = number + 1


def gathering(target: Target, inside: str) -> Gathering:
    """The same files, kept."""
    return Gathering(target.root, "", target.file_bytes, target.batch_file_bytes, target.extension_file_bytes, inside=inside)


def bridges(target: Target, queues: Mapping[Key, Settled]) -> Iterator[Piece]:
    """What stands for offsets that no message has.  target: one that keeps."""
    assert isinstance(target, Gathering)
    for key, queue in queues.items():
        for bridge in queue.bridges:
            for done in range(0, bridge.units, FILLED_AT_ONCE):
                count = min(FILLED_AT_ONCE, bridge.units - done)
                target.write(key, bridge.place + done, unit(bridge.physical, bridge.size) * count)
                yield from target.taken()


def whole_file(file: str, size: int, pieces: Iterable[tuple[int, bytes]]) -> bytes:
    """Of all its pieces, in order.  A queue's first file begins with fillers up to its first unit (but one of batches)."""
    made = bytearray(size)
    first = None
    for at, data in pieces:
        first = at if first is None else first
        made[at : at + len(data)] = data
    if first and QUEUES in file.split("/"):
        filler = unit(0, FILLER_SIZE)
        made[:first] = filler * (first // len(filler))
    return bytes(made)
