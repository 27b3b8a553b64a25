"""Queues that nobody has asked for since a clean stop: a few bytes each, one row a topic, and no file opened.

The stop notes where each queue begins and ends, and for each topic a *stamp*: the sum of the times at which its directories and
files were last changed.  A start that finds the same stamp, and every file there with its whole length, believes the row: what is
put there, taken away or written to since changes one of the times.  All other topics are read as ever.  A topic's queues are made
of its row when one of them is first asked for, without a look at the disk.
(Java keeps nothing of the kind, and opens every file at the start)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final

import msgspec

from rmq_store.disk.disk import DIRECTORY, Disk, Kind
from rmq_store.errors import ForeignFile
from rmq_store.queues.consume_queue import NOTHING, ConsumeQueue
from rmq_wire.store_names import offset_name

QUEUES_MAX: Final = 256
"""A topic with more is opened at the start: later on it would keep everybody waiting."""
NO_STAMP: Final = 0
"""Nothing can be said of the files: the next start reads them."""
_STAMP_MASK: Final = (1 << 63) - 1


class QueueRow(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One queue. Offsets count messages, `first` and `end_physical` bytes of the queue's files and of the log."""

    queue_id: int
    first: int
    """where the first file begins"""
    count: int
    """of files, each where the one before ends"""
    min_offset: int
    max_offset: int
    end_physical: int

    @property
    def files(self) -> tuple[int, ...]:
        """What changes when one of them does."""
        return self.queue_id, self.first, self.count, self.max_offset, self.end_physical


class TopicRow(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The queues of one topic that have files."""

    stamp: int
    queues: list[QueueRow]


decoded: Final = msgspec.msgpack.Decoder(TopicRow).decode
"""Of a row's bytes. Raises msgspec.DecodeError."""
_encode: Final = msgspec.msgpack.Encoder().encode


def rows_of(queues: Iterable[ConsumeQueue]) -> list[QueueRow]:
    """Of queues as they are now, but those without files."""
    return [
        QueueRow(one.queue_id, one.segments.starts[0], len(one.segments.starts), one.min_offset, one.max_offset, one.end_physical)
        for one in queues
        if one.segments.starts
    ]


def _is_at_rest(queue: ConsumeQueue) -> bool:
    """Whether a row says all of it: nothing is on its way, and its files are in one piece, and no others."""
    segments = queue.segments
    starts = segments.starts
    return (
        type(queue) is ConsumeQueue
        and queue.next_offset == queue.max_offset
        and not queue.pending
        and not queue.forgotten
        and (not starts or starts[-1] - starts[0] == (len(starts) - 1) * segments.file_bytes)
    )


class Unopened:
    """Rows of topics in `directory`. `newest`: where the last message of all of them ends, its topic and queue id."""

    def __init__(self, disk: Disk, directory: str, file_bytes: int) -> None:
        self._disk = disk
        self._directory = directory
        self._file_bytes = file_bytes
        self._rows: dict[str, bytes] = {}
        self._left: dict[str, bytes] = {}
        """rows of opened topics, as the last stop left them"""
        self.newest: tuple[int, str, int] = (NOTHING, "", 0)

    def __contains__(self, topic: str) -> bool:
        return topic in self._rows

    def topics(self) -> list[str]:
        return list(self._rows)

    def queues(self, topic: str) -> list[QueueRow]:
        """Rows of its queues; none for a topic that is not here."""
        row = self._rows.get(topic)
        return [] if row is None else decoded(row).queues

    def add(self, topic: str, row: bytes) -> bool:
        """Whether the files are as this row says: then nobody need look at them. Raises OSError."""
        noted = decoded(row)
        if noted.stamp == NO_STAMP or len(noted.queues) > QUEUES_MAX or self._stamp(topic, noted.queues) != noted.stamp:
            return False
        self._rows[topic] = row
        for queue in noted.queues:
            if queue.end_physical > self.newest[0]:
                self.newest = queue.end_physical, topic, queue.queue_id
        return True

    def take(self, topic: str) -> list[QueueRow]:
        """Rows of its queues, which are opened now; none for a topic that is not here."""
        row = self._rows.pop(topic, None)
        if row is None:
            return []
        self._left[topic] = row
        return decoded(row).queues

    def put_back(self, topic: str, queues: Collection[ConsumeQueue]) -> bool:
        """A row in place of these, all of an opened topic's; False when they are too many or one of them is needed."""
        rows = rows_of(queues)
        if not 0 < len(queues) == len(rows) <= QUEUES_MAX or not all(map(_is_at_rest, queues)):
            return False
        self._rows[topic] = _encode(TopicRow(self._stamp_left(topic, rows), rows))
        return True

    def forget(self, topic: str) -> None:
        """It is deleted."""
        self._rows.pop(topic, None)
        self._left.pop(topic, None)

    def noted(self, opened: dict[str, dict[int, ConsumeQueue]]) -> dict[str, bytes]:
        """All rows as the next start is to find them, those of opened topics among them. Raises OSError."""
        noted = {}
        for topic, row in self._rows.items():
            noted[topic] = row if topic not in self._left else self._stamped(topic, decoded(row))
        for topic, queues in opened.items():
            rows = rows_of(queues.values())
            if rows and all(map(_is_at_rest, queues.values())):
                noted[topic] = self._stamped(topic, TopicRow(self._stamp_left(topic, rows), rows))
            elif rows:
                noted[topic] = _encode(TopicRow(NO_STAMP, rows))
        return noted

    # --- stamps

    def _stamp_left(self, topic: str, rows: list[QueueRow]) -> int:
        """What the last stop left, if nothing was written or removed since."""
        left = self._left.get(topic)
        if left is None:
            return NO_STAMP
        noted = decoded(left)
        return noted.stamp if [one.files for one in noted.queues] == [one.files for one in rows] else NO_STAMP

    def _stamped(self, topic: str, row: TopicRow) -> bytes:
        """The row with a stamp, unless there is more on the disk than it says."""
        rows = row.queues
        if row.stamp == NO_STAMP and self._is_all(topic, rows):
            row = TopicRow(self._stamp(topic, rows), rows)
        return _encode(row)

    def _is_all(self, topic: str, rows: list[QueueRow]) -> bool:
        """Whether nothing of a removed queue is left, nor of files before the first: the one right before it goes last."""
        path = f"{self._directory}/{topic}"
        names = {entry.name for entry in self._disk.entries(path) if entry.kind is Kind.DIRECTORY}
        return names == {str(row.queue_id) for row in rows} and not any(
            self._is_there(f"{path}/{row.queue_id}/{offset_name(row.first - self._file_bytes)}") for row in rows if row.first
        )

    def _is_there(self, path: str) -> bool:
        try:
            self._disk.stamp(path)
        except FileNotFoundError:
            return False
        return True

    def _stamp(self, topic: str, rows: list[QueueRow]) -> int:
        """Of the files as they are; none when one is not as its row says. Raises OSError."""
        try:
            return sum(self._times(topic, rows)) & _STAMP_MASK or 1
        except (FileNotFoundError, NotADirectoryError, ForeignFile):
            return NO_STAMP

    def _times(self, topic: str, rows: list[QueueRow]) -> Iterator[int]:
        stamp, file_bytes = self._disk.stamp, self._file_bytes
        path = f"{self._directory}/{topic}"
        yield stamp(path)[1]
        for row in rows:
            directory = f"{path}/{row.queue_id}"
            size, changed_ns = stamp(directory)
            if size != DIRECTORY:
                raise ForeignFile(directory)
            yield changed_ns
            first = row.first
            for start in range(first, first + row.count * file_bytes, file_bytes):
                size, changed_ns = stamp(f"{directory}/{offset_name(start)}")
                if size != file_bytes:
                    raise ForeignFile(directory)
                yield changed_ns
