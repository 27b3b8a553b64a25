"""Names the first difference of two store directories: file, byte offset, and the field that this byte belongs to.

Files are compared byte by byte, paired by their names (index files by age: their names are times); only where two differ is a
file taken apart, with the layouts of `rmq_wire`, to say what the byte means.  A configuration file is read and its values are
compared first, so that a different style is told from a different value.  Nothing is written, and either side may be a copy, a
directory in use, or files held in memory.

    python -m tests.support.store_differ LEFT RIGHT [--hash-slots N] [--only commitlog --only index ...]
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from rmq_wire import fastjson
from rmq_wire.errors import WireError
from rmq_wire.layout import checkpoint, consume_queue, index
from rmq_wire.layout.flat import Flat, flat, length_of
from rmq_wire.layout.message import BLANK, BORN_V6, FIXED, MAGIC_BLANK, STORE_V6, UNIT
from rmq_wire.message import StoredMessage, read_size_and_magic, read_unit

DATA: Final = ("commitlog", "consumequeue", "index")
"""What a clean load by either broker must not change by a byte."""
HASH_SLOTS: Final = 5_000_000
"""maxHashSlotNum by default: an index file does not say how many it has."""
SHOWN_BYTES: Final = 8
_INDEX_HEADER: Final = flat(index.HEADER)
_SLOT: Final = flat(index.SLOT)
_ENTRY: Final = flat(index.ENTRY)
_QUEUE_UNIT: Final = flat(consume_queue.UNIT)
_BATCH_UNIT: Final = flat(consume_queue.BATCH_UNIT)
_CHECKPOINT: Final = flat(checkpoint.FIELDS)
_BLANK: Final = flat(BLANK)

Files = Mapping[str, bytes]
"""Name within the store, with slashes -> content."""


class Difference(NamedTuple):
    """Where two stores part, and what either has there."""

    file: str
    offset: int
    """bytes from the file's beginning; -1 when the whole file is on one side only"""
    field: str
    left: str
    right: str

    def __str__(self) -> str:
        at = f" at byte {self.offset}" if self.offset >= 0 else ""
        return f"{self.file}{at}: {self.field}: {self.left} and {self.right}"


def read_files(root: Path, under: Sequence[str] = DATA) -> dict[str, bytes]:
    """The files in these directories of a store, or with these names. Raises OSError."""
    found = {}
    if not root.is_dir():
        raise NotADirectoryError(f"{root} is no directory")
    for name in under:
        place = root / name
        paths = [place] if place.is_file() else sorted(path for path in place.rglob("*") if path.is_file())
        found.update({str(path.relative_to(root)): path.read_bytes() for path in paths})
    return found


def by_age(files: Files) -> dict[str, bytes]:
    """The same with index files as `index/000`, `index/001` and so on, oldest first: their names only say when they were made."""
    aged = sorted(name for name in files if name.startswith("index/"))
    renamed = {name: f"index/{number:03}" for number, name in enumerate(aged)}
    return {renamed.get(name, name): data for name, data in files.items()}


def first_difference(left: Files, right: Files, *, hash_slots: int = HASH_SLOTS) -> Difference | None:
    """The first of `differences`, None when the two are the same."""
    return next(differences(left, right, hash_slots=hash_slots), None)


def differences(left: Files, right: Files, *, hash_slots: int = HASH_SLOTS) -> Iterator[Difference]:
    """The first difference of each file, files by name."""
    for name in sorted(left.keys() | right.keys()):
        if name not in left or name not in right:
            yield Difference(name, -1, "file", *(_bytes_text(name, files) for files in (left, right)))
        elif left[name] != right[name]:
            yield _in_file(name, left[name], right[name], hash_slots)


def _bytes_text(name: str, files: Files) -> str:
    return f"{len(files[name])} bytes" if name in files else "absent"


def _in_file(name: str, left: bytes, right: bytes, hash_slots: int) -> Difference:
    if name.startswith("config/") and (found := _in_values(name, left, right)):
        return found
    offset = next((at for at, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))
    if offset == min(len(left), len(right)):
        return Difference(name, offset, "length", f"{len(left)} bytes", f"{len(right)} bytes")
    what, begin, size = _field(name, left, right, offset, hash_slots)
    return Difference(name, offset, what, _show(left, begin, size), _show(right, begin, size))


class _Field(NamedTuple):
    """What a byte belongs to."""

    what: str
    begin: int
    size: int
    """of a number at most 8: shown as one; more is shown as bytes from the difference on"""


def _field(name: str, left: bytes, right: bytes, offset: int, hash_slots: int) -> _Field:
    match name.split("/"):
        case ["commitlog", *_]:
            return _in_log(left, right, offset)
        case ["consumequeue", _, _, start]:
            return _in_records(_QUEUE_UNIT, "entry", offset, first=int(start) // _QUEUE_UNIT.size)
        case ["batchconsumequeue", *_]:
            return _in_records(_BATCH_UNIT, "entry", offset)
        case ["index", _]:
            return _in_index(offset, hash_slots)
        case ["checkpoint"] if offset < _CHECKPOINT.size:
            return _in_record(_CHECKPOINT, "", 0, offset)
        case ["config", *_]:
            return _Field("style", offset, SHOWN_BYTES)
    return _Field("byte", offset, 1)


def _in_record(layout: Flat, title: str, begin: int, offset: int) -> _Field:
    """The field of the record at `begin` that holds the byte at `offset`."""
    name = next(one for one in reversed(layout.names) if begin + layout.at[one] <= offset)
    return _Field(f"{title}{name}", begin + layout.at[name], layout.field(name).size)


def _in_records(layout: Flat, title: str, offset: int, first: int = 0, base: int = 0) -> _Field:
    number = (offset - base) // layout.size
    return _in_record(layout, f"{title} {first + number}: ", base + number * layout.size, offset)


def _in_index(offset: int, hash_slots: int) -> _Field:
    if offset < _INDEX_HEADER.size:
        return _in_record(_INDEX_HEADER, "header: ", 0, offset)
    entries_at = _INDEX_HEADER.size + hash_slots * _SLOT.size
    if offset < entries_at:
        return _in_records(_SLOT, "slot", offset, base=_INDEX_HEADER.size)
    return _in_records(_ENTRY, "entry", offset, base=entries_at)


def _in_log(left: bytes, right: bytes, offset: int) -> _Field:
    """Units up to the difference are the same on both sides; where it lies inside one, either side may still be readable."""
    at = 0
    for number in itertools.count():
        units = [unit for log in (left, right) if (unit := _unit(log, at)) is not None]
        if not units:
            break
        unit = units[0]
        if offset < at + unit.total_size:
            title = f"unit {number} ({unit.topic.decode(errors='replace')} queue {unit.queue_id} offset {unit.queue_offset}): "
            return _in_unit(unit, title, at, offset)
        at += unit.total_size
    size, magic = read_size_and_magic(left, at) if at + _BLANK.size <= len(left) else (0, 0)
    if offset < at + _BLANK.size and magic == MAGIC_BLANK and size == len(left) - at:
        return _in_record(_BLANK, "blank: ", at, offset)
    what = "unreadable unit" if offset < at + _BLANK.size else "byte after the last unit"
    return _Field(f"{what} at {at}", offset, 1)


def _unit(log: bytes, at: int) -> StoredMessage | None:
    try:
        return read_unit(log, at)
    except WireError:
        return None


def _in_unit(unit: StoredMessage, title: str, at: int, offset: int) -> _Field:
    fixed = FIXED[unit.sys_flag & (BORN_V6 | STORE_V6)]
    begin = at + fixed.size
    if offset < begin:
        return _in_record(fixed, title, at, offset)
    lengths = unit.total_size - fixed.size - len(unit.body) - len(unit.topic) - len(unit.properties)
    property_length = length_of(UNIT, "properties").size
    for what, size in (
        ("body", len(unit.body)),
        ("topic_size", lengths - property_length),
        ("topic", len(unit.topic)),
        ("properties_size", property_length),
        ("properties", len(unit.properties)),
    ):
        if offset < begin + size:
            return _Field(title + what, begin, size)
        begin += size
    raise AssertionError(f"byte {offset} lies behind the unit at {at}")


def _show(data: bytes, begin: int, size: int) -> str:
    """A number of up to 8 bytes as one, else its bytes."""
    part = data[begin : begin + size]
    if size in (1, 2, 4, 8):
        return str(int.from_bytes(part, "big", signed=True))
    return part[:64].hex() + ("..." if size > 64 else "")


def _in_values(name: str, left: bytes, right: bytes) -> Difference | None:
    """The first value that differs between two configuration files; None when only their texts do, or they are not JSON."""
    try:
        found = _in_json("", fastjson.loads(left), fastjson.loads(right))
    except WireError:
        return None
    return Difference(name, 0, *found) if found else None


ABSENT: Final = "absent"


def _in_json(path: str, left: Any, right: Any) -> tuple[str, str, str] | None:
    if isinstance(left, dict) and isinstance(right, dict):
        for key in sorted(left.keys() | right.keys(), key=str):
            if found := _in_json(f"{path}/{key}", left.get(key, ABSENT), right.get(key, ABSENT)):
                return found
        return None
    if isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for number, pair in enumerate(zip(left, right, strict=True)):
            if found := _in_json(f"{path}/{number}", *pair):
                return found
        return None
    return None if left == right and type(left) is type(right) else (path or "/", repr(left)[:100], repr(right)[:100])


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status 0: the same, 1: they differ, 2: could not look."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("left", type=Path)
    parser.add_argument("right", type=Path)
    parser.add_argument("--hash-slots", type=int, default=HASH_SLOTS, help="maxHashSlotNum of whoever wrote the index")
    parser.add_argument("--only", action="append", help="a directory or file of the store (repeatable)")
    options = parser.parse_args(arguments)
    under = options.only or DATA
    try:
        left, right = (by_age(read_files(root, under)) for root in (options.left, options.right))
    except OSError as reason:
        print(f"store_differ: {reason}", file=sys.stderr)
        return 2
    found = list(differences(left, right, hash_slots=options.hash_slots))
    for difference in found:
        print(difference)
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
