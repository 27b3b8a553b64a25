"""The log of a repaired store: every good unit at its own offset, and something valid in between.

Offsets stay as they are, for message ids, consume queues, half messages and the timer all contain them.  What was lost inside a
file is filled with units of a rolled-back transaction: both brokers walk over those, and neither puts them into a queue or the
index.  The end of a file, and files that are missing, become blanks.  What follows the last good unit is zeros.
Sources: `CommitLog.checkMessageAndReturnSize`, `MappedFileQueue.findMappedFileByOffset`, `CommitLogDispatcherBuildConsumeQueue`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from rmq_inspect.decode.directory import StoreFile
from rmq_inspect.decode.log import BLANK_BYTES, UNIT_BYTES_MAX, UNIT_BYTES_MIN, Blank, Log, Piece, Spoilt, Unit, pieces
from rmq_inspect.decode.records import has_good_unit_crc
from rmq_inspect.errors import CannotLook
from rmq_inspect.progress import Progress
from rmq_inspect.repair.files import FileWriter
from rmq_inspect.repair.report import Report
from rmq_wire import sys_flag as flags
from rmq_wire.implied.filler import FILLER_TOPIC, is_filler
from rmq_wire.layout.message import HOST_V4_SIZE, MAGIC_BLANK
from rmq_wire.message import StoredMessage, has_good_crc, pack_blank, pack_unit, read_size_and_magic
from rmq_wire.message_id import pack_host
from rmq_wire.store_names import COMMIT_LOG, offset_name

FILLER_BYTES_MAX: Final = 1 << 20
HOST: Final = pack_host("127.0.0.1", 10911)
MISSING_FILES_MAX: Final = 1000
"""Between two log files.  A larger step in their names is no log with a hole, it is another log."""

FILE_BYTES: Final = 1 << 30
"""`mappedFileSizeCommitLog` by default."""
FILE_BYTES_MAX: Final = (1 << 31) - 1
"""Java keeps that number in 32 bits."""
PAGE_BYTES: Final = 4096
FILES_BEFORE_MAX: Final = 1 << 16
"""So many numbers of files before the only one are tried: its name may be damage."""
LostSector = Callable[[StoredMessage, int], bool]
"""Whether topic or properties have a sector of zeros, as a power cut leaves them.  The number: the byte of its file at which
the unit begins."""


def file_bytes_of(files: Sequence[StoreFile]) -> int:
    """`mappedFileSizeCommitLog` of the broker that wrote them: the step between their names, or what fits the only one.

    Raises `CannotLook` when the only one cannot be read.
    """
    if len(files) == 1:
        return _file_bytes_of_one(files[0])
    starts = [file.start for file in files]
    step = math.gcd(*(later - earlier for earlier, later in itertools.pairwise(starts)))
    return max(step, max((file.size for file in files), default=0))


def _file_bytes_of_one(file: StoreFile) -> int:
    """Its size, unless it was shortened, as by a copy without the zeros at its end: a unit leaves room for a blank, which names
    the end of a file that was full.

    Then the default, where a file of that size can have this name, else the largest size with which one can.
    """
    last = max(file.end - UNIT_BYTES_MAX, 0)
    end = max((piece.end for piece in pieces([file], last) if isinstance(piece, Unit)), default=0)
    if (named := _end_by_blank(file, end)) is not None:
        return named
    needed: int = max(end + BLANK_BYTES, file.size)
    if needed == file.size and not file.start % file.size:
        return file.size
    if needed <= FILE_BYTES and not file.start % FILE_BYTES:
        return FILE_BYTES
    if not file.start:
        return needed + -needed % PAGE_BYTES
    fewest = -(-file.start // (FILE_BYTES if needed <= FILE_BYTES else FILE_BYTES_MAX))
    counts = range(fewest, min(file.start // needed, fewest + FILES_BEFORE_MAX) + 1)
    return next((file.start // count for count in counts if not file.start % count), needed)


def _end_by_blank(file: StoreFile, at: int) -> int | None:
    """The size of a file whose last unit ends here and is followed by a blank."""
    with Log([file]) as log:
        raw = log.read(file.start + at, BLANK_BYTES)
    if len(raw) < BLANK_BYTES:
        return None
    size, magic = read_size_and_magic(raw, 0)
    end = at + size
    return end if magic == MAGIC_BLANK and size >= BLANK_BYTES and end >= file.size and not file.start % end else None


def write_log(
    files: Sequence[StoreFile], directory: Path, report: Report, progress: Progress, has_lost_sector: LostSector
) -> int:
    """Carve the good units out of these files into new ones; the size of a file.  Raises `CannotLook` when there is nothing."""
    file_bytes = file_bytes_of(files)
    usable = _usable(files, file_bytes, report)
    if not usable:
        raise CannotLook("no commit log file that could be saved")
    if len(files) == 1 and file_bytes != files[0].size:
        shortened = f"{files[0].name} has {files[0].size} bytes and is no whole file of a log"
        report.notes.append(f"{shortened}; the size taken for one is {file_bytes} (mappedFileSizeCommitLog)")
    writer = _LogWriter(FileWriter(directory, file_bytes), report, has_lost_sector)
    nothing: tuple[Piece | None] = (None,)
    for piece, following in itertools.pairwise(itertools.chain(pieces(usable, progress=progress), nothing)):
        if isinstance(piece, Unit):
            writer.take(piece, is_followed=isinstance(following, Unit | Blank))
        elif isinstance(piece, Spoilt):
            writer.lose(piece.file, piece.at, piece.end - piece.at, piece.why)
    writer.end()
    if not report.messages:
        raise CannotLook("no message could be found in the commit log")
    return file_bytes


def _usable(files: Sequence[StoreFile], file_bytes: int, report: Report) -> list[StoreFile]:
    """Files at places where a log of this file size can have one, without a step that is too far."""
    kept: list[StoreFile] = []
    for file in files:
        if file.start % file_bytes or file.start >= 1 << 62 or (kept and file.start < kept[-1].end):
            report.add("lost", {"file": file.name, "byte": 0, "bytes": file.size, "why": "no file of this log begins there"})
            report.lost_bytes += file.size
        elif kept and (file.start - kept[-1].start) // file_bytes > MISSING_FILES_MAX:
            for dropped in kept:
                report.add("lost", {"file": dropped.name, "byte": 0, "bytes": dropped.size, "why": "too far before the others"})
                report.lost_bytes += dropped.size
            kept = [file]
        else:
            kept.append(file)
    for before, after in itertools.pairwise(kept):
        missing = range(before.start + file_bytes, after.start, file_bytes)
        for start in missing:
            why = "the file is missing"
            report.add("lost", {"file": f"{COMMIT_LOG}/{offset_name(start)}", "byte": 0, "bytes": file_bytes, "why": why})
            report.lost_bytes += file_bytes
    return kept


class _LogWriter:
    """position: where the next unit belongs; what was lost before it is filled when that unit comes."""

    def __init__(self, files: FileWriter, report: Report, has_lost_sector: LostSector) -> None:
        self._files = files
        self._has_lost_sector = has_lost_sector
        self._report = report
        self._position = -1
        self._file_bytes = files.file_bytes
        self._stored_ms = 0
        self._host = HOST
        self._lost_at = -1
        """where the first stretch was lost since the last good unit"""

    def lose(self, file: StoreFile, at: int, size: int, why: str) -> None:
        if self._lost_at < 0:
            self._lost_at = file.start + at
        self._report.add("lost", {"file": file.name, "byte": at, "bytes": size, "why": why})
        self._report.lost_bytes += size

    def take(self, unit: Unit, *, is_followed: bool) -> None:
        """is_followed: whether what is behind it is good, too."""
        message = unit.message
        at = message.physical_offset
        file_end = at - at % self._file_bytes + self._file_bytes
        if not has_good_crc(message):
            self.lose(unit.file, unit.at, len(unit.raw), "the body is not the one that was stored: its check sum is wrong")
        elif (has_good_seal := has_good_unit_crc(unit)) is False:
            self.lose(unit.file, unit.at, len(unit.raw), "the check sum over the whole unit is wrong")
        elif has_good_seal is None and (why := self._why_torn(unit, is_followed=is_followed)):
            self.lose(unit.file, unit.at, len(unit.raw), f"{why}, which no check sum covers")
        elif at + len(unit.raw) + BLANK_BYTES > file_end:
            self.lose(unit.file, unit.at, len(unit.raw), "it leaves no room for the blank at the file's end")
        elif not self._can_fill(at):
            self.lose(unit.file, unit.at, len(unit.raw), "the hole before it is too small to be filled")
        else:
            self._stored_ms = message.store_timestamp
            if len(message.store_host) == HOST_V4_SIZE:
                self._host = message.store_host
            self._fill_to(at)
            self._files.write(at, unit.raw)
            self._position = at + len(unit.raw)
            self._lost_at = -1
            self._report.log_end = self._position
            self._report.last_stored_ms = message.store_timestamp
            if is_filler(message):
                self._report.fillers += 1
            else:
                self._report.messages += 1
                self._report.message_bytes += len(unit.raw)

    def _why_torn(self, unit: Unit, *, is_followed: bool) -> str:
        """Which zeros are in it that a crash can have left, by the rules of a broker's start; "" for none.

        Others are the sender's: a property may have them.
        """
        message = unit.message
        if b"\0" in message.topic:
            return "there are zeros in its topic"  # no broker takes a message for that
        if self._has_lost_sector(message, unit.at):
            return "there is a sector of zeros in its topic or properties"
        if message.properties.endswith(b"\0") and not is_followed:
            return "nothing good follows, and it ends with zeros in its properties"
        return ""

    def _can_fill(self, at: int) -> bool:
        begin = max(self._position, at - at % self._file_bytes)
        return at == begin or at - begin >= UNIT_BYTES_MIN

    def _fill_to(self, at: int) -> None:
        """Something valid from the position to here."""
        file_start = at - at % self._file_bytes
        if self._position < 0:
            self._position = self._report.log_start = file_start
        while self._position < file_start:
            within = self._position % self._file_bytes
            if within == 0 or self._lost_before(self._position - within + self._file_bytes):
                self._mark(self._file_bytes - within - BLANK_BYTES)
                within = self._position % self._file_bytes
            self._files.write(self._position, pack_blank(self._file_bytes - within))
            self._position += self._file_bytes - within
        while self._position < at:
            left = at - self._position
            size = min(left, FILLER_BYTES_MAX)
            self._filler(size if left - size == 0 or left - size >= UNIT_BYTES_MIN else left - UNIT_BYTES_MIN)

    def _lost_before(self, file_end: int) -> bool:
        return 0 <= self._lost_at < file_end and self._lost_at >= self._position

    def _mark(self, room: int) -> None:
        """A filler before the blank, where the end of a file was lost: it shows later that something was.  A file that is missing
        as a whole begins with one, for brokers look at a file's first unit."""
        if room >= UNIT_BYTES_MIN:
            self._filler(min(UNIT_BYTES_MIN + len(FILLER_TOPIC), room))

    def _filler(self, size: int) -> None:
        topic = FILLER_TOPIC.encode()[: size - UNIT_BYTES_MIN]
        body = bytes(size - UNIT_BYTES_MIN - len(topic))
        where = (0, 0, 0, self._position, flags.TRANSACTION_ROLLBACK)
        times = (self._stored_ms, self._host, self._stored_ms, self._host)
        self._files.write(self._position, pack_unit(*where, *times, 0, 0, body, topic, b""))
        self._position += size

    def end(self) -> None:
        self._files.close()
