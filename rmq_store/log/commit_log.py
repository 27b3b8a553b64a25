"""The commit log: all messages of all topics, one after the other, in files of one size.

Appending is two steps.  `stage` (of `rmq_store.log.staging`) packs a unit at the position it will have and keeps its pieces;
`commit` joins what was staged and writes it, one `write_at` per file.  Until then nothing is on disk and everything can be taken
back: `savepoint` and `rollback_to` drop the newest stagings, a failed commit drops all, puts zeros where it may have written and
gives every reservation back.  Readers see `written_offset`, which only a commit moves.

A unit never straddles two files: one is closed with a blank (its length and a magic) when the next unit plus a blank would not
fit.  (Java: CommitLog.DefaultAppendMessageCallback)
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Final, NoReturn

from rmq_store.disk.disk import File, write_all
from rmq_store.disk.multi_path_segments import log_segments
from rmq_store.disk.segments import NO_DESCRIPTOR, OpenFiles
from rmq_store.errors import Closed, CommitFailed, CreateFailed, Illegal, IllegalKind, InvariantBroken
from rmq_store.layouts import BLANK, MAGIC_BLANK
from rmq_store.log.batch import Batch
from rmq_store.log.staging import Piece, Staged, Staging
from rmq_store.queues.consume_queue import ConsumeQueue
from rmq_store.settings import EXTRA_UNIT_BYTES, StoreSettings
from rmq_wire.implied.queue_entries import UNQUEUED

END_BYTES: Final = BLANK.size
"""Always left at a file's end, so that a blank fits."""
PASSING: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EROFS, errno.EACCES})
"""Errors that leave the file as it was known to be and may pass."""
JOINED_BYTES_MAX: Final = 112 * 1024
"""A bigger turn is written in portions: malloc maps fresh pages for bigger blocks, and touching them costs more than a call."""


class _Segment:
    """What this turn adds to one file."""

    __slots__ = ("at", "pieces")

    def __init__(self, at: int) -> None:
        self.at = at
        """log position of the first piece"""
        self.pieces: list[Piece] = []


class CommitLog(Staging):
    """`written_offset` is the log's end; positions count bytes from the very first file ever."""

    def __init__(self, settings: StoreSettings, files: OpenFiles) -> None:
        self.unsynced_directories: dict[str, None] = {}
        self.segments = log_segments(settings, files, self.unsynced_directories)
        self.written_offset = 0
        self._file_bytes = settings.mapped_file_size_commit_log
        unit_bytes_max = min(settings.max_message_size + EXTRA_UNIT_BYTES, self._file_bytes - END_BYTES)
        super().__init__(unit_bytes_max, settings.max_message_size)
        self.sync_error: OSError | None = None
        """why the first file could not be synced when it was made"""
        self._seals = settings.enabled_append_prop_crc
        self._turn: list[_Segment] = []

    @property
    def min_offset(self) -> int:
        """Position of the first byte kept; 0 without files."""
        return self.segments.starts[0] if self.segments.starts else 0

    def begin_at(self, end: int) -> None:
        """After recovery: the log ends here."""
        self.written_offset = end
        self._reset()

    # --- staging

    def open_batch(self, queue: ConsumeQueue) -> Batch:
        return Batch(self._unit_bytes_max, self._body_bytes_max, queue, seals=self._seals)

    def stage_batch(self, batch: Batch, queue: ConsumeQueue, wall_ms: int) -> list[Staged]:
        """Reserve places for all of a batch, one behind the other in one file. Raises Illegal, and then nothing is reserved."""
        self.make_room(batch.size)
        images, staged = batch.place(self._end, queue, wall_ms)
        self._pieces += images
        self.staged += staged
        queue.next_offset += len(staged)
        self._end += batch.size
        self._room -= batch.size
        return staged

    def make_room(self, size: int) -> None:
        """Roll to the next file unless `size` bytes of units fit in this one. Raises Illegal if they fit in none."""
        if size > self._file_bytes - END_BYTES:
            raise Illegal(IllegalKind.MESSAGE, f"{size} bytes do not fit in one file of {self._file_bytes}")
        if size > self._room:
            self._roll()

    def _roll(self) -> None:
        """Close the file with a blank and go on at the start of the next."""
        at = self._end
        left = self._file_bytes - at % self._file_bytes
        self._turn[-1].pieces.append(BLANK.pack(left, MAGIC_BLANK))
        self._open(at + left)
        self._end = at + left

    def _open(self, at: int) -> None:
        segment = _Segment(at)
        self._turn.append(segment)
        self._pieces = segment.pieces
        self._room = self._file_bytes - at % self._file_bytes - END_BYTES

    def _reset(self) -> None:
        """Nothing is staged; the next unit goes to the end of what is written."""
        self.staged = []
        self._turn = []
        self._end = self.written_offset
        self._open(self._end)

    # --- taking back

    def savepoint(self) -> int:
        return len(self.staged)

    def rollback_to(self, savepoint: int) -> None:
        """Drop everything staged after the savepoint and give its queue offsets back, newest first."""
        taken = 0
        """Bytes of `piece`, the one that went last, which belong to units before: one of a batch holds many."""
        piece: Piece = b""
        while len(self.staged) > savepoint:
            staged = self.staged.pop()
            segment = self._turn[-1]
            if staged.end_offset > self._end:
                raise InvariantBroken("what is taken back is the newest", f"{staged.end_offset} behind {self._end}")
            if not staged.sys_flag & UNQUEUED:
                staged.queue.next_offset = staged.queue_offset
            for queue, offset in (*staged.light, *staged.undone):
                queue.next_offset = offset
            left = staged.size - taken
            while left > 0 and segment.pieces:
                piece = segment.pieces.pop()
                left -= len(piece)
            taken = -left
            self._end = staged.physical_offset
            self._room += staged.size
            if not segment.pieces and taken <= 0 and len(self._turn) > 1:
                self._close_segment()
        if taken > 0:
            self._pieces.append(piece[:taken])

    def _close_segment(self) -> None:
        """The newest segment is empty again: take the blank before it back, too."""
        self._turn.pop()
        segment = self._turn[-1]
        segment.pieces.pop()
        self._pieces = segment.pieces
        self._end = segment.at + sum(map(len, segment.pieces))
        self._room = self._file_bytes - self._end % self._file_bytes - END_BYTES

    # --- writing

    def commit(self) -> list[Staged]:
        """Write what is staged and return it. Raises CommitFailed (CreateFailed); then all of it is taken back.

        The failure's `why` is FENCED when the file's content is not known any more.
        """
        if not self.staged:
            self._reset_empty()
            return []
        begun = 0
        try:
            if not self.written_offset < self.staged[-1].end_offset <= self._end:
                seen = f"{self.written_offset}, {self.staged[-1].end_offset}, {self._end}"
                raise InvariantBroken("a turn lies between the written and the reserved end", seen)
            for segment in self._turn:
                if not segment.pieces:
                    continue
                file = self._file_at(segment.at)
                begun += 1
                self._write(file, segment)
        except Exception as reason:
            self._take_back(reason, begun)
        staged = self.staged
        self.written_offset = self._end
        self.staged = []
        newest = self._turn[-1]  # goes on where it ends, with the room that is left
        newest.at, newest.pieces = self._end, []
        self._turn, self._pieces = [newest], newest.pieces
        return staged

    def _write(self, file: File, segment: _Segment) -> None:
        """Join and write; a big turn in portions. Raises OSError."""
        pieces = segment.pieces
        at = segment.at % self._file_bytes
        size = self._end - segment.at if segment is self._turn[-1] else sum(map(len, pieces))
        if size <= JOINED_BYTES_MAX:
            data = b"".join(pieces)
            if len(data) != size:
                _refuse_size(size, len(data))
            write_all(file, at, data)
            return
        packed = sum(map(len, pieces))
        if packed != size:
            _refuse_size(size, packed)
        portion = max(len(pieces) * JOINED_BYTES_MAX // size, 1)
        for first in range(0, len(pieces), portion):
            data = b"".join(pieces[first : first + portion])
            write_all(file, at, data)
            at += len(data)

    def _reset_empty(self) -> None:
        if len(self._turn) > 1 or self._turn[0].pieces:
            self._reset()

    def _file_at(self, position: int) -> File:
        """The file that holds this position; made, with the next one, when it is not there yet."""
        start = position - position % self._file_bytes
        starts = self.segments.starts
        if not starts or starts[-1] < start:
            try:
                self._create(start)
            except OSError as reason:
                raise _NotCreated(reason) from reason
        if starts[-1] == start:
            try:
                self._create(start + self._file_bytes)
            except OSError:
                pass  # only made ahead, as Java does; it is tried again when it is needed
        return self.segments.file(start)

    def _create(self, start: int) -> None:
        is_first = not self.segments.starts
        file = self.segments.create(start)
        if is_first:
            self._sync_first(file, start)

    def _sync_first(self, file: File, start: int) -> None:
        """A log whose first file went with a power cut, and its second did not, would not look like one that lost anything."""
        try:
            file.sync()
            self.segments.files.disk.sync_directory(self.segments.directory_of(start))
        except OSError as reason:
            if reason.errno in NO_DESCRIPTOR:
                self.segments.remove(start)  # no sync has failed: it is made once more, and synced then
            else:
                self.sync_error = reason
            raise

    def _take_back(self, reason: Exception, begun: int) -> NoReturn:
        """Undo a failed write: zeros where bytes may have landed, reservations given back. Raises CommitFailed.

        What is no error of the disk may have come anywhere, and a sync is never tried again: both fence.
        """
        fenced = self.sync_error is not None or not (isinstance(reason, OSError) and reason.errno in PASSING)
        for segment in self._turn[:begun]:
            fenced |= not self._zero(segment.at, sum(map(len, segment.pieces)))
        try:
            self.rollback_to(0)
        except InvariantBroken:
            fenced = True
        self._reset()
        why = Closed.FENCED if fenced else Closed.DISK_FULL
        kind: Callable[[Closed, str], CommitFailed] = CreateFailed if isinstance(reason, _NotCreated) else CommitFailed
        raise kind(why, str(reason) or type(reason).__name__) from reason

    def _zero(self, at: int, size: int) -> bool:
        """Put zeros over what has landed there, and nowhere else: a full disk has no room for more. Whether it succeeded."""
        within = at % self._file_bytes
        try:
            file = self.segments.file(at - within)
            landed = len(file.read_at(within, size).rstrip(b"\0"))
            if landed:
                write_all(file, within, bytes(landed))
        except Exception:  # whatever it was, what had landed may still be there
            return False
        return True


def _refuse_size(reserved: int, packed: int) -> NoReturn:
    raise InvariantBroken("units are as long as their places", f"{packed} bytes for {reserved}")


class _NotCreated(OSError):
    """The next file could not be made."""

    def __init__(self, reason: OSError) -> None:
        super().__init__(reason.errno, reason.strerror, reason.filename)
