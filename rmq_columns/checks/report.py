"""What the checks of the log hand one another: what a worker is given, what it has to report, and the records in between.

No check is in here but one, which is made within a file and again over the files' edges: whether a step in a queue's offsets is
explained.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from rmq_columns.checks.files import CheckedFile
from rmq_columns.checks.findings import Findings
from rmq_columns.checks.index import IndexState, IndexTold
from rmq_columns.checks.queues import Key, QueueState
from rmq_columns.decode.dtypes import Ints
from rmq_columns.decode.scan import Ending

QUEUES_MAX: Final = 200_000
"""Queues of one log file that are followed; a hostile file could name one per message."""


@dataclass
class Known:
    """What all workers are given: the queues and index files as they are by themselves."""

    queues: dict[Key, QueueState]
    index: list[IndexState]
    extensions: Mapping[Key, Sequence[CheckedFile]]
    dispatched_end: int
    """where the last message with a queue unit ends in the log"""
    log: Sequence[CheckedFile]
    with_queues: bool = True
    with_index: bool = True
    live: bool = False
    with_crc: bool = True
    with_sequence: bool = False
    """whether queue offsets and CRC properties are looked at also where neither queues nor index are"""
    settled: bool = True
    """whether the store was closed in order and nobody has it open"""
    queue_file_bytes: int = 0
    """above 0: of the messages is only said what their queue units must hold, for so large files of queues, and their entries of
    the index (`meeting`)"""
    apart: frozenset[Key] = frozenset()
    """queues of which it is said for all files together"""
    index_told: IndexTold = field(default_factory=IndexTold)
    """of all index files, also where they are elsewhere"""
    times: list[int] = field(default_factory=list)
    """of the checkpoint, ms: is there a message that was stored then?"""


class Edge(NamedTuple):
    """The first and the last unit of a queue in one part: (queue offset, position in the file, offset expected next)."""

    first: int
    first_at: int
    next: int
    last_at: int
    units: int


class LogPart(NamedTuple):
    """The bytes begin … end of one log file, both of them places where units begin; all of it where end is None."""

    file: CheckedFile
    is_last: bool
    """whether the file is the last one of its log"""
    begin: int = 0
    end: int | None = None
    """None: up to the end of the file"""
    displaced_by: int | None = None
    """own offset of the file's first units minus where they are, when it is known already"""

    @property
    def size(self) -> int:
        """Bytes to be read."""
        return (self.file.size if self.end is None else self.end) - self.begin


@dataclass
class LogReport:
    """What one file has to report, or a part of it.  Positions count from the file's beginning."""

    name: str
    start: int
    """physical offset of the file's first byte, by its name"""
    size: int
    """bytes of the part"""
    begin: int = 0
    """where the part begins"""
    is_gone: bool = False
    """deleted since the store was listed"""
    misses_seam: bool = False
    """its units lead over its end: the next part begins in the midst of one"""
    findings: Findings = field(default_factory=Findings)
    units: int = 0
    bytes_checked: int = 0
    end_at: int = 0
    how: Ending = Ending.FULL
    displaced_by: int = 0
    first_timestamp: int = -1
    last_timestamp: int = -1
    gaps: list[tuple[int, int]] = field(default_factory=list)
    fillers: list[tuple[int, int]] = field(default_factory=list)
    """stretches that `rmq inspect repair` filled"""
    filler_units: int = 0
    """those of `units` that are no messages"""
    filler_bytes: int = 0
    lost_before_repair: int = 0
    """queue offsets that have no message, for it was lost before a repair"""
    edges: dict[Key, Edge] = field(default_factory=dict)
    matched: dict[tuple[str, int, int], int] = field(default_factory=dict)
    """(topic, queue id, file start) -> queue units that this file's messages have"""
    reported: set[tuple[str, int, int]] = field(default_factory=set)
    """(topic, queue id, queue offset) that have a finding already"""
    waiting: list[tuple[str, int, int, int]] = field(default_factory=list)
    """(topic, queue id, queue offset, physical offset) of units without a queue unit yet"""
    waiting_count: int = 0
    orphans: dict[Key, tuple[int, int]] = field(default_factory=dict)
    """queue that does not exist -> its messages, and where the last of them begins in the log"""
    times_seen: set[int] = field(default_factory=set)
    """those of the checkpoint's times at which a message was stored"""
    superseded: int = 0
    """units whose queue was deleted and made again"""
    index_waiting: int = 0
    index_before: int = 0
    without_tag_entries: int = 0
    wanted: list[tuple[Key, int, bytes]] = field(default_factory=list)
    """as `meeting.Recorded.rows` has it: what queue units must hold that are elsewhere"""
    keys: list[tuple[int, int, int, bytes]] = field(default_factory=list)
    """the same of index entries: as `meeting.RecordedKeys.rows` has it"""
    topics: dict[str, int] = field(default_factory=dict)
    """topic -> messages"""


@dataclass
class QueueSummary:
    """What the log has of one queue.  units: messages, of an inner batch one."""

    units: int
    first_offset: int
    end_offset: int
    first_physical_offset: int
    last_physical_offset: int


class Entry(NamedTuple):
    """What the queue units of some messages of one queue must hold."""

    queue_offset: Ints
    physical_offset: Ints
    size: Ints
    tags_code: Ints
    store_timestamp: Ints

    def take(self, rows: Ints) -> Entry:
        """Of some of them."""
        return Entry(*(column[rows] for column in self))


Ranges = Sequence[tuple[int, int]]
"""(begin, end), ascending"""


class Step(NamedTuple):
    """Two units of one queue that follow in the log, but not in the queue."""

    key: Key
    expected: int
    found: int
    from_at: int
    at: int


@dataclass
class Sums:
    """What all parts of a log have of its queues, put together by somebody else than `Whole`."""

    queues: dict[Key, QueueSummary] = field(default_factory=dict)
    steps: dict[tuple[int, int], list[Step]] = field(default_factory=dict)
    """(file start, begin) of a part -> queues that do not go on in it where they ended before, other than from 0 on"""
    matched: dict[tuple[str, int, int], int] = field(default_factory=dict)
    """as in `LogReport`"""


def judge_step(step: Step, file: str, gaps: Ranges, fillers: Ranges, report: LogReport) -> None:
    """A gap of the log between explains a skipped offset, and so does a filler of a repair.  Where a queue begins at 0 again its
    units say which message counts.  gaps, fillers: ascending, in the terms of the step's places."""
    name = f"{step.key[0]} queue {step.key[1]}"
    if step.found == 0:
        return
    if step.found > step.expected:
        missing = step.found - step.expected
        if _is_between(fillers, step):
            report.lost_before_repair += missing
        elif not _is_between(gaps, step):
            text = f"{name}: offset {step.found} follows {step.expected - 1}"
            report.findings.add("log-sequence-gap", file, step.at, text, missing)
    else:
        report.findings.add("log-sequence-back", file, step.at, f"{name}: offset {step.found} after {step.expected - 1}")
        report.reported.add((*step.key, step.found))


def _is_between(ranges: Ranges, step: Step) -> bool:
    at = bisect_left(ranges, (step.from_at,))
    return at < len(ranges) and ranges[at][0] < step.at
