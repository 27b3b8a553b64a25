"""Files of queues that are written whole, one put for each, by whoever gets all pieces of one: for any file system.

Whoever reads a split of the log keeps what it would write at places of files (`Gathering`); pieces meet by file, and `whole_file`
makes one of them.  A file is put where it stays, and `rebuilt-queues.json` says last of all that they are all there.  Until then
it also says of which queues they are (`print_of`), so a start after one that failed leaves the files that are there alone.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, NamedTuple

from rmq_columns.decode.queues import FILLER_SIZE
from rmq_columns.errors import CannotRead
from rmq_columns.export.destination import Destination, destination
from rmq_columns.rebuild.entries import Key, Rules
from rmq_columns.rebuild.files import FILLED_AT_ONCE, Target, unit
from rmq_columns.rebuild.place import MARK, TAKEN_OVER
from rmq_columns.rebuild.runs import Settled
from rmq_wire.store_names import BATCH_QUEUES, EXTENSIONS, QUEUES, offset_name


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


def print_of(every: Iterable[tuple[Target, Rules, Mapping[Key, Settled]]]) -> str:
    """Of the queues of stores that were put together: equal where the same files come of them."""
    made = hashlib.sha256()
    for target, rules, queues in every:
        of_rules = [sorted(one) if isinstance(one, frozenset) else one for one in vars(rules).values()]
        made.update(repr((replace(target, root="", work=""), of_rules)).encode())
        for key, queue in sorted(queues.items()):
            made.update(repr((key, queue)).encode())
    return made.hexdigest()


# --- the directory


def begin(to: str, run: str, roots: Collection[str]) -> None:
    """This start is the one at work.  roots: of the stores, within the directory.  Raises `CannotRead`, `CannotWrite`."""
    there = destination(to)
    marked = _marked(there, to)
    if not marked and (strange := next(there.walk(), None)) is not None:
        raise CannotRead(to, -1, f"is not empty, and nothing that an earlier run made: {strange[0]}")
    made = sorted({*marked.get("made", ()), *_tops(roots)})
    kept = {"print": marked["print"]} if "print" in marked and not marked.get("complete") else {}
    _mark(there, {"complete": False, "made": made, "run": run, **kept})


def resumed(to: str, run: str, own: str) -> bool:
    """Whether an earlier start began to write the same files: those that are there stay.  own: `print_of` them."""
    there = destination(to)
    marked = checked(there, to, run)
    if marked.get("print") == own:
        return True
    _mark(there, {**marked, "print": own})
    return False


def checked(there: Destination, to: str, run: str) -> dict[str, Any]:
    """What the mark says.  Raises `CannotRead` where another start is at work."""
    marked = _marked(there, to)
    if marked.get("run") != run:
        raise CannotRead(to, -1, TAKEN_OVER)
    return marked


def end(to: str, run: str, written: Collection[str]) -> None:
    """All files are there: those that an earlier run made and this one did not go.  Raises `CannotRead`, `CannotWrite`."""
    there = destination(to)
    marked = checked(there, to, run)
    found = dict(chain.from_iterable(there.walk(name) for name in marked["made"]))
    if missing := next((name for name in written if name not in found), None):
        raise CannotRead(f"{to}/{missing}", -1, "not there, although a task wrote it")
    there.remove(sorted(found.keys() - set(written)))
    checked(there, to, run)
    made = sorted({name.partition("/")[0] for name in written})
    _mark(there, {"complete": True, "made": made, "run": run})


def _tops(roots: Collection[str]) -> set[str]:
    return {root.partition("/")[0] for root in roots if root} or {QUEUES, BATCH_QUEUES, EXTENSIONS}


def _marked(there: Destination, to: str) -> dict[str, Any]:
    raw = there.read(MARK)
    if raw is None:
        return {}
    try:
        marked = json.loads(raw)
    except ValueError:
        marked = None
    made = marked.get("made") if isinstance(marked, dict) else None
    if not isinstance(made, list) or not all(isinstance(one, str) and one and "/" not in one and one != ".." for one in made):
        raise CannotRead(f"{to}/{MARK}", -1, "does not say what an earlier run made: name another directory")
    return dict(marked)


def _mark(there: Destination, marked: dict[str, Any]) -> None:
    there.put(MARK, (json.dumps(marked, indent=1) + "\n").encode())
