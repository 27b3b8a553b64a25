"""Where two stores part: file, byte, field, and what either has there.

Files are paired by what they are (log files by their offset, queues by topic and number, index files by age) and compared byte by
byte in chunks; only where two differ is the record around that byte taken apart.  Zeros behind the shorter file's end are no
difference: preallocated room means nothing.  What must differ between two stores with the same messages (names of index files,
the checkpoint, abort and lock, counters and times in configuration, what an open store has not written of its index yet) is
reported as such, and counts only when asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from rmq_columns.files.filesystem import CHUNK_BYTES
from rmq_inspect.decode import files as small_files
from rmq_inspect.decode import queues
from rmq_inspect.decode.directory import Kind, StoreDirectory, StoreFile
from rmq_inspect.decode.fields import Field, flat_fields, hex_text, unit_fields
from rmq_inspect.decode.index_file import ENTRY, HEADER, SLOT, IndexReader
from rmq_inspect.decode.log import Blank, Unit, pieces
from rmq_inspect.decode.reader import Reader
from rmq_inspect.errors import CannotLook
from rmq_inspect.progress import Progress, quiet
from rmq_wire.layout.flat import Flat

SHOWN_BYTES: Final = 8
FIRST_CHUNK_BYTES: Final = 1 << 14
"""Compared first behind a difference: the next one is mostly near."""
FIXED: Final[Mapping[Kind, Flat]] = {
    Kind.CONSUME_QUEUE: queues.UNIT,
    Kind.BATCH_QUEUE: queues.BATCH,
    Kind.TIMER_LOG: small_files.TIMER_UNIT,
    Kind.TIMER_WHEEL: small_files.TIMER_SLOT,
}
VOLATILE_FIELDS: Final = {"dataVersion", "timeStamp", "timestamp", "pullOffsetTable"}
"""Of configuration: when and how often something was written, not what."""
VOLATILE_FILES: Final = ("timermetrics", "transactionMetrics")
ABSENT: Final = "absent"


@dataclass(frozen=True, slots=True)
class Difference:
    """byte: of the file; -1 where that makes no sense.  by_nature: two stores with the same messages differ here, too."""

    file: str
    byte: int
    field: str
    left: str
    right: str
    by_nature: bool = False

    def __str__(self) -> str:
        place = f"{self.file} byte {self.byte}" if self.byte >= 0 else self.file
        return f"{place}: {self.field}: {self.left} | {self.right}"

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def differences(
    left: StoreDirectory, right: StoreDirectory, *, slots: int | None = None, progress: Progress = quiet
) -> Iterator[Difference]:
    """All of them, record by record, the log first.  slots: of index files that do not say.  Raises `CannotLook`."""
    yield from _rows("commitlog", left.commit_log, right.commit_log, slots, progress)
    for tree in ("queues", "batch_queues", "extensions"):
        ours, theirs = getattr(left, tree), getattr(right, tree)
        for key in sorted(ours.keys() | theirs.keys()):
            name = f"{key[0]} [{key[1]}]"
            yield from _rows(name, ours.get(key, []), theirs.get(key, []), slots, progress)
    yield from _index(left, right, slots, progress)
    yield from _rows("timerlog", left.timer_log, right.timer_log, slots, progress)
    yield from _small(left, right)
    for name in sorted(left.config.keys() | right.config.keys()):
        yield from _config(name, left.config.get(name), right.config.get(name))


def _rows(
    name: str, ours: list[StoreFile], theirs: list[StoreFile], slots: int | None, progress: Progress
) -> Iterator[Difference]:
    by_start = {file.start: file for file in theirs}
    for file in ours:
        other = by_start.pop(file.start, None)
        if other is None:
            yield from _alone(file, is_left=True)
        else:
            yield from _pair(file, other, slots, progress)
    for other in by_start.values():
        yield from _alone(other, is_left=False)


def _alone(file: StoreFile, *, is_left: bool) -> Iterator[Difference]:
    """A file that is on one side only; one without anything in it is preallocated room."""
    with file.open() as reader:
        is_empty = not any(data.strip(b"\0") for begin, end in reader.data_ranges() for _, data in reader.chunks(begin, end))
    there = f"{file.size} bytes" + (" of zeros" if is_empty else "")
    yield Difference(file.name, -1, "file", there if is_left else ABSENT, ABSENT if is_left else there, is_empty)


def _pair(
    file: StoreFile, other: StoreFile, slots: int | None, progress: Progress, *, name: str | None = None
) -> Iterator[Difference]:
    """Of two files of one kind: the first difference of each record."""
    shown = name or file.name
    if file.size != other.size:
        yield Difference(shown, -1, "length", str(file.size), str(other.size), file.size == 0 or other.size == 0)
    with file.open() as one, other.open() as two:
        find = _finder(file, other, slots)
        at = 0
        while (at := _first_byte(one, two, at, shown, progress)) >= 0:
            found, end = find(at)
            a, b = one.read(at, SHOWN_BYTES), two.read(at, SHOWN_BYTES)
            yield found or Difference(shown, at, "byte", hex_text(a), hex_text(b))
            at = max(end, at + 1)


def _first_byte(one: Reader, two: Reader, at: int, name: str, progress: Progress) -> int:
    """From this byte on, the first that differs, bytes behind an end being zeros; -1 when none does."""
    size = max(one.size(), two.size())
    chunk = FIRST_CHUNK_BYTES
    ranges = iter(sorted([*one.data_ranges(at), *two.data_ranges(at)]))
    for begin, end in ranges:
        place = max(begin, at)
        while place < end:
            progress(name, place, size)
            want = min(chunk, end - place)
            chunk = min(2 * chunk, CHUNK_BYTES)
            a, b = one.read(place, want).ljust(want, b"\0"), two.read(place, want).ljust(want, b"\0")
            if a != b:
                return place + _common(a, b)
            place += want
    return -1


def _common(a: bytes, b: bytes) -> int:
    """How many bytes are alike at the beginning of two strings of one length that differ."""
    low, high = 0, len(a)
    while high - low > 1:
        middle = (low + high) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle
    return low


Finder = Callable[[int], tuple[Difference | None, int]]
"""A byte -> the difference there in words, and where the record ends."""


def _finder(file: StoreFile, other: StoreFile, slots: int | None) -> Finder:
    if file.kind is Kind.COMMIT_LOG:
        return _InLog(file, other)
    if file.kind is Kind.INDEX:
        return lambda at: _in_index(file, other, at, slots)
    layout = FIXED.get(file.kind)
    if layout is None:
        return lambda at: (None, file.size)
    return lambda at: _in_fixed(file, other, layout, at - at % layout.size, at, "")


def _in_fixed(
    file: StoreFile, other: StoreFile, layout: Flat, begin: int, at: int, title: str, number: int | None = None
) -> tuple[Difference | None, int]:
    with file.open() as one, other.open() as two:
        a, b = (reader.read(begin, layout.size).ljust(layout.size, b"\0") for reader in (one, two))
    fields = zip(flat_fields(layout, a, begin), flat_fields(layout, b, begin), strict=True)
    for x, y in fields:
        if x.at <= at < x.at + len(x.raw):
            count = (file.start + begin) // layout.size if number is None else number
            name = f"{title or 'unit'} {count} {x.name}".strip()
            return Difference(file.name, at, name, x.value, y.value), begin + layout.size
    return None, begin + layout.size


def _in_index(file: StoreFile, other: StoreFile, at: int, slots: int | None) -> tuple[Difference | None, int]:
    if at < HEADER.size:
        found, end = _in_fixed(file, other, HEADER, 0, at, "header", 0)
        return found, found.byte + SHOWN_BYTES - found.byte % SHOWN_BYTES if found and found.byte < 32 else end
    with IndexReader(file, slots) as reader:
        geometry = reader.geometry
    if not geometry.slots:
        return None, file.size
    if at < geometry.entry_at(0):
        number = (at - geometry.slot_at(0)) // SLOT.size
        return _in_fixed(file, other, SLOT, geometry.slot_at(number), at, "slot", number)
    number = (at - geometry.entry_at(0)) // ENTRY.size
    return _in_fixed(file, other, ENTRY, geometry.entry_at(number), at, "entry", number)


class _InLog:
    """Units around bytes that are asked for in ascending order."""

    def __init__(self, file: StoreFile, other: StoreFile) -> None:
        self._file = file
        self._ours, self._theirs = _Walk(file), _Walk(other)

    def __call__(self, at: int) -> tuple[Difference | None, int]:
        ours, theirs = self._ours.around(at), self._theirs.around(at)
        end = min(ours[1], theirs[1]) if ours[0] and theirs[0] else max(ours[1], theirs[1])
        a, b = _field_at(ours[0], at), _field_at(theirs[0], at)
        known = a or b
        if known is None:
            return None, end
        unit = ours[0] or theirs[0]
        topic = "" if unit is None else f" of the unit at {unit.message.physical_offset}"
        return Difference(self._file.name, at, known.name + topic, _shown(a, known, ours[2]), _shown(b, known, theirs[2])), end


class _Walk:
    def __init__(self, file: StoreFile) -> None:
        self._file = file
        self._known = 0
        """where a unit begins, before all that will be asked for"""

    def around(self, at: int) -> tuple[Unit | None, int, str]:
        """The unit that holds this byte of the file, where what is there ends, and what it is when it is no unit."""
        for piece in pieces([self._file], self._file.start + self._known):
            if isinstance(piece, Unit):
                self._known = piece.at
            if piece.end > at:
                if isinstance(piece, Unit):
                    return (piece, piece.end, "") if piece.at <= at else (None, piece.at, "no unit")
                return None, piece.end, "blank" if isinstance(piece, Blank) else "no unit"
        return None, at + 1, ABSENT


def _shown(field: Field | None, known: Field, otherwise: str) -> str:
    if field is None:
        return otherwise
    return _brief(field.value if field.name == known.name else f"{field.name} {field.value}")


def _field_at(unit: Unit | None, at: int) -> Field | None:
    if unit is None:
        return None
    return next((field for field in unit_fields(unit) if field.at <= at < field.at + len(field.raw)), None)


def _index(left: StoreDirectory, right: StoreDirectory, slots: int | None, progress: Progress) -> Iterator[Difference]:
    ours, theirs = left.index, right.index
    for file, other in zip(ours, theirs, strict=False):
        if file.parts[-1] != other.parts[-1]:
            yield Difference("index", -1, "name", file.parts[-1], other.parts[-1], by_nature=True)
        known = slots or _slots_of(file) or _slots_of(other) or None
        with IndexReader(file, known) as one, IndexReader(other, known) as two:
            late = [(one, two)] if left.abort is not None and one.slots_may_lag(left) else []
            late += [(two, one)] if right.abort is not None and two.slots_may_lag(right) else []
            for found in _pair(file, other, known, progress):
                is_late = any(_is_late(behind, ahead, found.byte) for behind, ahead in late)
                yield replace(found, by_nature=found.by_nature or is_late)
    for file in ours[len(theirs) :]:
        yield from _alone(file, is_left=True)
    for file in theirs[len(ours) :]:
        yield from _alone(file, is_left=False)


def _slots_of(file: StoreFile) -> int:
    """0 where it cannot be found out: of a file whose newest slots are not written yet."""
    with IndexReader(file) as reader:
        return reader.slots


def _is_late(behind: IndexReader, ahead: IndexReader, at: int) -> bool:
    """Whether what stands at this byte of an index file that is still being written is what stood in the other one before."""
    if not ahead.slots or at < 0:
        return False
    if at < HEADER.size:
        return all(before <= now for before, now in zip(behind.header, ahead.header, strict=True))
    if at < ahead.entry_at(0):
        slot = (at - ahead.slot_at(0)) // SLOT.size
        return behind.slot(slot) in {0, *(entry.number for entry in ahead.chain(slot))}
    return (at - ahead.entry_at(0)) // ENTRY.size >= behind.count


def _small(left: StoreDirectory, right: StoreDirectory) -> Iterator[Difference]:
    for name in ("checkpoint", "timer_check"):
        ours, theirs = getattr(left, name), getattr(right, name)
        if ours is None or theirs is None:
            if ours is not theirs:
                file = ours or theirs
                sides = ("there", ABSENT) if ours is not None else (ABSENT, "there")
                yield Difference(file.name, -1, "file", *sides, by_nature=True)
            continue
        a, b = small_files.checkpoint_of(ours), small_files.checkpoint_of(theirs)
        layout = small_files.CHECKPOINT if name == "checkpoint" else small_files.TIMER_CHECK
        for field in a:
            if a[field] != b[field]:
                yield Difference(ours.name, layout.at[field], field, str(a[field]), str(b[field]), by_nature=True)
    for name in ("abort", "lock"):
        ours, theirs = getattr(left, name), getattr(right, name)
        if (ours is None) != (theirs is None):
            yield Difference(name, -1, "file", ABSENT if ours is None else "there", ABSENT if theirs is None else "there", True)


def _config(name: str, ours: StoreFile | None, theirs: StoreFile | None) -> Iterator[Difference]:
    file = ours or theirs
    assert file is not None
    is_volatile = name.endswith((".bak", ".tmp")) or name.startswith(VOLATILE_FILES)
    if ours is None or theirs is None:
        sides = ("there", ABSENT) if ours is not None else (ABSENT, "there")
        yield Difference(file.name, -1, "file", *sides, by_nature=is_volatile)
        return
    values = []
    for one in (ours, theirs):
        try:
            values.append(small_files.config_value(one))
        except CannotLook as reason:
            values.append(str(reason))
    for place, a, b, nature in _values(values[0], values[1], "", is_volatile):
        yield Difference(file.name, -1, place or "value", _brief(a), _brief(b), nature)


def _values(a: Any, b: Any, place: str, nature: bool) -> Iterator[tuple[str, Any, Any, bool]]:
    if isinstance(a, dict) and isinstance(b, dict):
        for key in [*a, *(key for key in b if key not in a)]:
            below = f"{place}.{key}" if place else str(key)
            yield from _values(a.get(key, ABSENT), b.get(key, ABSENT), below, nature or key in VOLATILE_FIELDS)
    elif a != b:
        yield place, a, b, nature


def _brief(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 80 else text[:79] + "…"
