"""The commit log as a sequence of pieces: units, blanks, spoilt stretches, and the zeros behind the end.

One pass, one buffer: a file is read in chunks, each unit is looked at where it lies, and after a stretch that is no unit the walk
goes on at the next place where a unit says of itself that it belongs exactly there (magic, own physical offset, lengths that add
up).  So damage costs what it covers and nothing behind it, time stays linear whatever the bytes are, and no claim of a length
makes us read more than `UNIT_BYTES_MAX`.  Holes of a sparse file are not read.
Sources: `CommitLog.checkMessageAndReturnSize`, `DefaultAppendMessageCallback` of the reference.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property
from struct import error as PackedError
from typing import Final, NamedTuple

from rmq_columns.checks.readers import Readers
from rmq_columns.files.filesystem import CHUNK_BYTES, File
from rmq_inspect.decode.directory import StoreFile
from rmq_inspect.decode.reader import Reader
from rmq_inspect.errors import CannotLook
from rmq_inspect.progress import Progress, quiet
from rmq_wire.errors import BadRecord
from rmq_wire.layout.flat import Packed
from rmq_wire.layout.message import BLANK, BLANK_FLAT, BORN_V6, FIXED, HEAD_FLAT, MAGIC_BLANK, MAGIC_V1, MAGIC_V2, STORE_V6
from rmq_wire.message import PHYSICAL_OFFSET_AT, PROPERTIES_LENGTH, TOPIC_LENGTHS, StoredMessage, read_unit

UNIT_BYTES_MAX: Final = 64 << 20
"""No unit is larger: the body came in one frame, and a frame has at most 16 MiB (`com.rocketmq.remoting.frameMaxLength`); four
times that, for whoever raised it."""
OPEN_FILES_MAX: Final = 16
BLANK_BYTES: Final = BLANK.sizeof()
_HEAD: Final = HEAD_FLAT
_SIZE_MAGIC: Final = BLANK_FLAT.packed
_LONG: Final = _HEAD.field("physical_offset")
_MAGIC_AT: Final = _HEAD.at["magic"]
_SYS_FLAG: Final = _HEAD.field("sys_flag")
_BODY_SIZE: Final = FIXED[0].field("body_size")
_FIXED_BYTES_MAX: Final = max(layout.size for layout in FIXED.values())
UNIT_BYTES_MIN: Final = FIXED[0].size + TOPIC_LENGTHS[MAGIC_V1].size + PROPERTIES_LENGTH.size
_MAGICS: Final = re.compile(b"|".join(re.escape(_HEAD.field("magic").pack(m)) for m in (MAGIC_V1, MAGIC_V2, MAGIC_BLANK)))
_ZEROS: Final = bytes(CHUNK_BYTES)


class Unit(NamedTuple):
    """A message unit.  at: byte of the file.  raw: all of it."""

    file: StoreFile
    at: int
    message: StoredMessage
    raw: bytes

    @property
    def end(self) -> int:
        return self.at + len(self.raw)


class Blank(NamedTuple):
    """The rest of a file that means nothing."""

    file: StoreFile
    at: int
    end: int


class Spoilt(NamedTuple):
    """Bytes that should be units and are not.  end: where the next unit begins, or where the file ends."""

    file: StoreFile
    at: int
    end: int
    why: str


class Unused(NamedTuple):
    """Zeros up to the end of a file: nothing was written there yet."""

    file: StoreFile
    at: int
    end: int


Piece = Unit | Blank | Spoilt | Unused


def pieces(files: Sequence[StoreFile], start: int = 0, end: int | None = None, progress: Progress = quiet) -> Iterator[Piece]:
    """All pieces of these log files that begin at or behind start (a physical offset) and before end, in order.

    start need not be where a unit begins: the walk begins with the next unit.  Raises `CannotLook`.
    """
    total = sum(file.size for file in files if file.end > start)
    done = 0
    for number, file in enumerate(files):
        if file.end <= start or (end is not None and file.start >= end):
            continue
        following = files[number + 1].start if number + 1 < len(files) else None
        with file.open() as reader:
            walk = _FileWalk(file, reader, following, progress, done, total)
            for piece in walk.run(max(start - file.start, 0)):
                if end is not None and file.start + piece.at >= end:
                    return
                yield piece
        done += file.size


class _FileWalk:
    """One pass over one file."""

    def __init__(self, file: StoreFile, reader: Reader, following: int | None, progress: Progress, done: int, total: int) -> None:
        self._file = file
        self._reader = reader
        self._size = reader.size()
        self._limits = {self._size, file.size} | ({following - file.start} if following is not None else set())
        self._progress = progress
        self._done = done
        self._total = total
        self._data = b""
        self._data_at = 0
        self._is_last = False
        """whether nothing good follows what is spoilt"""

    def run(self, at: int) -> Iterator[Piece]:
        if at and not self._begins(at):
            at = self._next_place(at)
        while at < self._size:
            piece = self._piece(at)
            if isinstance(piece, Spoilt) and self._is_last:
                self._size = max(self._size, self._reader.size())
                self._data = b""
                piece = self._piece(at)  # a live broker may have been in the middle of writing it
            yield piece
            at = piece.end
        self._progress(self._file.name, self._done + min(at, self._file.size), self._total)

    def _piece(self, at: int) -> Piece:
        head = self._bytes(at, _HEAD.size)
        if len(head) < BLANK_BYTES:
            return self._spoilt_or_unused(at, "fewer bytes than a blank needs are left")
        size, magic = _SIZE_MAGIC.unpack_from(head)
        if magic == MAGIC_BLANK:
            if at + size in self._limits:
                return Blank(self._file, at, max(self._size, at + size) if at + size >= self._size else self._size)
            return self._spoilt_or_unused(at, f"a blank of {size} bytes where {self._size - at} are left")
        try:
            raw = self._unit_bytes(at, head, size, magic)
            return Unit(self._file, at, read_unit(raw), raw)
        except (BadRecord, PackedError) as reason:
            return self._spoilt_or_unused(at, _reason(reason, at))

    def _unit_bytes(self, at: int, head: bytes, size: int, magic: int) -> bytes:
        if magic not in (MAGIC_V1, MAGIC_V2):
            raise BadRecord(f"magic {magic & 0xFFFFFFFF:08X} where a unit should begin")
        if not UNIT_BYTES_MIN <= size <= UNIT_BYTES_MAX:
            raise BadRecord(f"a unit of {size} bytes")
        if at + size > self._size:
            raise BadRecord(f"a unit of {size} bytes where {self._size - at} are left in the file")
        [own] = _LONG.unpack_from(head, PHYSICAL_OFFSET_AT)
        if own != self._file.start + at:
            raise BadRecord(f"a unit that says it begins at {own}, at {self._file.start + at}")
        raw = self._bytes(at, size)
        if len(raw) < size:
            raise BadRecord(f"a unit of {size} bytes of which {len(raw)} can be read")
        return raw

    def _spoilt_or_unused(self, at: int, why: str) -> Spoilt | Unused:
        place, data_end = self._search(at)
        if data_end <= at:
            return Unused(self._file, at, self._size)
        self._is_last = place >= self._size
        return Spoilt(self._file, at, max(data_end, at + 1) if self._is_last else place, why)

    def _next_place(self, at: int) -> int:
        return self._search(at)[0]

    def _search(self, at: int) -> tuple[int, int]:
        """The next place from at + 1 on where a unit or the blank begins, the file's end without; behind the last byte before
        it that is not zero."""
        data_end = at
        for begin, end in self._reader.data_ranges(at):
            for chunk_at, data in self._reader.chunks(begin, end):
                self._progress(self._file.name, self._done + min(chunk_at, self._file.size), self._total)
                if data == _ZEROS[: len(data)] and len(data) <= len(_ZEROS):
                    continue
                data_end = max(at, chunk_at + len(data.rstrip(b"\0")))
                ahead = self._reader.read(chunk_at + len(data), _MAGIC_AT + 3)
                for hit in _MAGICS.finditer(data + ahead):
                    place = chunk_at + hit.start() - _MAGIC_AT
                    if place > at and self._begins(place):
                        return place, place
        return max(self._size, at), data_end

    def _begins(self, at: int) -> bool:
        """Whether a unit or a blank that belongs exactly here begins here; reads little, whatever lengths it claims."""
        head = self._reader.read(at, _FIXED_BYTES_MAX)
        if len(head) < BLANK_BYTES:
            return False
        size, magic = _SIZE_MAGIC.unpack_from(head)
        if magic == MAGIC_BLANK:
            return at + size in self._limits
        if magic not in (MAGIC_V1, MAGIC_V2) or not UNIT_BYTES_MIN <= size <= min(UNIT_BYTES_MAX, self._size - at):
            return False
        if len(head) < _HEAD.size or _LONG.unpack_from(head, PHYSICAL_OFFSET_AT)[0] != self._file.start + at:
            return False
        bits = _SYS_FLAG.unpack_from(head, _HEAD.at["sys_flag"])[0] & (BORN_V6 | STORE_V6)
        [body_size] = _BODY_SIZE.unpack_from(head.ljust(_FIXED_BYTES_MAX, b"\0"), FIXED[bits].at["body_size"])
        topic_at = FIXED[bits].size + body_size
        topic_length = TOPIC_LENGTHS[magic]
        topic_size = self._number(at, topic_at, size, topic_length) if body_size >= 0 else -1
        properties_at = topic_at + topic_length.size + topic_size
        properties_size = self._number(at, properties_at, size, PROPERTIES_LENGTH) if topic_size >= 0 else -1
        return properties_size >= 0 and properties_at + PROPERTIES_LENGTH.size + properties_size == size

    def _number(self, unit_at: int, at: int, unit_size: int, packed: Packed) -> int:
        """A length within a unit; -1 when it lies outside."""
        data = self._reader.read(unit_at + at, packed.size) if at + packed.size <= unit_size else b""
        return int(packed.unpack(data)[0]) if len(data) == packed.size else -1

    def _bytes(self, at: int, size: int) -> bytes:
        within = at - self._data_at
        if within < 0 or within + size > len(self._data):
            self._progress(self._file.name, self._done + min(at, self._file.size), self._total)
            self._data = self._reader.read(at, max(CHUNK_BYTES, size))
            self._data_at, within = at, 0
        return self._data[within : within + size]


def _reason(reason: Exception, at: int) -> str:
    return str(reason).removeprefix(f"unit at {at}: ").removeprefix("unit at 0: ")


class Log:
    """Single units by physical offset; a context manager that keeps a few files open."""

    def __init__(self, files: Sequence[StoreFile]) -> None:
        self.files = files
        self._readers = Readers(OPEN_FILES_MAX)

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        self._readers.close()

    @property
    def start(self) -> int:
        return self.files[0].start if self.files else 0

    def file_of(self, offset: int) -> StoreFile | None:
        """The file that holds this byte."""
        number = bisect_right(self.files, offset, key=_start) - 1
        file = self.files[number] if number >= 0 else None
        return file if file is not None and offset < file.end else None

    def reader(self, file: StoreFile) -> File:
        """Stays open until others take its place.  Raises `CannotLook`."""
        return self._readers.get(file)

    def read(self, offset: int, size: int) -> bytes:
        """Up to size bytes from here, not beyond the file's end; size is capped at `UNIT_BYTES_MAX`."""
        file = self.file_of(offset)
        return b"" if file is None else self.reader(file).read(offset - file.start, min(size, UNIT_BYTES_MAX))

    def unit(self, offset: int, expect: int = 4096) -> Unit:
        """The unit that begins here.  expect: its likely size, read at once.  Raises `BadRecord` with the reason."""
        file = self.file_of(offset)
        if file is None:
            raise BadRecord(f"the log has no byte {offset}: {self._bounds(offset)}")
        at = offset - file.start
        try:
            raw = self.reader(file).read(at, max(min(expect, UNIT_BYTES_MAX), 256))
            if len(raw) < BLANK_BYTES:
                raise BadRecord(f"only {len(raw)} bytes are left in {file.name}")
            size, magic = _SIZE_MAGIC.unpack_from(raw)
            if magic == MAGIC_BLANK:
                raise BadRecord("the blank at the end of a file")
            if magic not in (MAGIC_V1, MAGIC_V2):
                raise BadRecord("zeros: nothing was written here" if not size and not magic else _bad_magic(magic))
            if not UNIT_BYTES_MIN <= size <= UNIT_BYTES_MAX:
                raise BadRecord(f"a unit of {size} bytes")
            if len(raw) < size:
                raw = self.reader(file).read(at, size)
            raw = raw[:size]
            message = read_unit(raw)
        except CannotLook as reason:
            raise BadRecord(str(reason)) from reason
        except (BadRecord, PackedError) as reason:
            raise BadRecord(_reason(reason, 0)) from reason
        if message.physical_offset != offset:
            raise BadRecord(f"a unit that says it begins at {message.physical_offset}")
        return Unit(file, at, message, raw)

    def _bounds(self, offset: int) -> str:
        """Why no file holds this byte: the log ends before it, or begins behind it, or the file that should have it is short."""
        if not self.files:
            return "there is no log file"
        behind = bisect_right(self.files, offset, key=_start)
        if 0 < behind < len(self.files):
            before, following = self.files[behind - 1], self.files[behind]
            return f"{before.name} ends at {before.end}, and the next file begins at {following.start}"
        return f"it goes from {self.start} to {self.files[-1].end}"

    @cached_property
    def _times(self) -> list[int | None]:
        """When the first message of each file was stored, ms; None where none can be read."""
        return [self._time(file) for file in self.files]

    def _time(self, file: StoreFile) -> int | None:
        try:
            return self.unit(file.start).message.store_timestamp
        except BadRecord:
            return None

    def first_file_since(self, time_ms: int) -> int:
        """Physical offset of the first file that may hold what was stored at or after this time: the one before the first that
        begins so, for clocks are set back and a later one may begin earlier again.  Where the log starts, without a file.
        """
        found = self.start
        for file, begins_ms in zip(self.files, self._times, strict=True):
            if begins_ms is None:
                continue  # then an earlier file: more is read, nothing is missed
            if begins_ms >= time_ms:
                break
            found = file.start
        return found

    def last_file_until(self, time_ms: int) -> int:
        """Physical offset of the last file that begins with what was stored at or before this time; where the log starts, without
        one.  Files into which nothing was written yet begin with nothing."""
        begins = zip(self.files, self._times, strict=True)
        return max(
            (file.start for file, begins_ms in begins if begins_ms is not None and begins_ms <= time_ms), default=self.start
        )


def _start(file: StoreFile) -> int:
    return file.start


def _bad_magic(magic: int) -> str:
    return f"no unit begins here: magic {magic & 0xFFFFFFFF:08X}"
