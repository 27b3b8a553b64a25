"""Index entries held against the keys of the log's messages: every key has its entry, every entry its message.

Entries follow the log's order, so those of a block of messages are found by a few fence posts and compared at once.
Source: `IndexService.buildIndex`, `IndexFile.putKey` of the reference.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

import numpy as np

from rmq_columns.checks.files import CheckedFile
from rmq_columns.checks.index import FENCE_ENTRIES, IndexState, IndexTold, read_entries
from rmq_columns.checks.readers import Readers
from rmq_columns.checks.report import LogReport
from rmq_columns.decode.dtypes import Ints
from rmq_columns.decode.implied import IndexEntries
from rmq_columns.errors import CannotLook
from rmq_columns.files.filesystem import File
from rmq_wire.layout.index import Geometry

SECOND_MS: Final = 1000


class Found(NamedTuple):
    """Columns of index entries.  begin: begin_timestamp of the file that each is in."""

    offset: Ints
    key_hash: Ints
    seconds: Ints
    begin: Ints


def _is_of_another_version(offsets: Ints, lacking: Any, is_tag: Any) -> bool:
    """Whether only entries of tags lack, of all messages, or of all before or behind one: there the broker was exchanged."""
    if not lacking.any() or (lacking & ~is_tag).any():
        return False
    there, gone = offsets[is_tag & ~lacking], offsets[lacking]
    return not len(there) or bool(gone.max() < there.min() or gone.min() > there.max())


class Keys(NamedTuple):
    """Columns of index entries that there must be: of some messages that the index has come to."""

    offset: Ints
    key_hash: Ints
    time: Ints
    is_tag: Any


class IndexCheck:
    """The index files, for one worker that walks one log file."""

    def __init__(self, told: IndexTold, files: Sequence[IndexState], settled: bool) -> None:
        """told: of all index files of the store; files: those of them that are looked into here."""
        self.compares = told.compares(settled)
        self._files = [one for one in files if one.has_entries] if self.compares else []
        self._settled = settled
        self._readers = Readers()
        self.last_offset = told.last_offset
        self.first_offset = told.first_offset if told.has_entries else 0

    def close(self) -> None:
        self._readers.close()

    def compare(self, own: Ints, end: Ints, times: Ints, wanted: IndexEntries, report: LogReport, log: CheckedFile) -> None:
        """own, end: where the units of a block begin and end in the log; times: when they were stored."""
        if not self.compares:
            return
        low, high = int(own[0]), int(end[-1])
        self.judge(low, self.keys(own, times, wanted, report), self._entries(low, high), report, log)

    def keys(self, own: Ints, times: Ints, wanted: IndexEntries, report: LogReport) -> Keys:
        """Of the messages that the index has come to; the others are counted."""
        offsets = own[wanted.row]
        report.index_before += int(np.count_nonzero(own < self.first_offset))
        report.index_waiting += int(np.count_nonzero(own > self.last_offset))
        covered = offsets >= self.first_offset
        if not self._settled:  # the newest entries may be on their way; after a clean stop all are there
            covered &= offsets < self.last_offset
        return Keys(offsets[covered], wanted.key_hash[covered], times[wanted.row][covered], wanted.is_tag[covered])

    def inside(self, found: Found, low: int, high: int) -> Found:
        """Those that point at [low, high), and that cannot be on their way."""
        keep = (found.offset >= low) & (found.offset < min(high, self.last_offset + self._settled))
        return Found(*(column[keep] for column in found))

    def judge(self, low: int, keys: Keys, found: Found, report: LogReport, log: CheckedFile) -> None:
        """What must be there, and what is; low: below all of it."""
        hashes, offsets = keys.key_hash, keys.offset
        if len(found.key_hash) == len(hashes) and (found.key_hash == hashes).all() and (found.offset == offsets).all():
            self._times(found, keys.time, report, log)
            return
        self._differ(low, (offsets, hashes, keys.is_tag), found, report, log)

    def _times(self, found: Found, times: Ints, report: LogReport, log: CheckedFile) -> None:
        """Seconds since the file's begin, cut off at 0 and at Java's largest int (`IndexFile.putKey`)."""
        seconds = np.clip((times - found.begin) // SECOND_MS, 0, np.iinfo(np.int32).max)
        bad = np.flatnonzero((found.seconds != seconds) & (found.begin > 0))
        if len(bad):
            at, row = int(found.offset[bad[0]]), int(bad[0])
            text = f"message at {at}: {found.seconds[row]} s after the file's begin, by its store time {seconds[row]} s"
            report.findings.add("index-time", log.name, at - log.start, text, len(bad))

    def _differ(self, low: int, wanted: Any, found: Found, report: LogReport, log: CheckedFile) -> None:
        """As sets: an entry may be there twice after a restart, and brokers before 5.5 write none for tags."""
        offsets, hashes, is_tag = wanted
        wanted_keys, found_keys = (offsets - low) << 31 | hashes, (found.offset - low) << 31 | found.key_hash
        lacking = ~np.isin(wanted_keys, found_keys)
        extra = ~np.isin(found_keys, wanted_keys)
        if not extra.any() and _is_of_another_version(offsets, lacking, is_tag):
            report.without_tag_entries += int(lacking.sum())
            return
        if lacking.any():
            missing = np.unique(offsets[lacking])
            text = f"{len(missing)} message(s) from {missing[0]} on lack {int(lacking.sum())} entries"
            report.findings.add("index-missing", log.name, int(missing[0]) - log.start, text, len(missing))
        if extra.any():
            places = found.offset[extra]
            text = f"{len(places)} entries point at {places[0]} and behind it, where no message has their keys"
            report.findings.add("index-wrong", log.name, int(places[0]) - log.start, text, len(places))

    def _entries(self, low: int, high: int) -> Found:
        """The entries that point at [low, high), in the order in which they were written."""
        pieces = []
        for state in self._files:
            if state.last_offset < low or state.first_offset >= high or state.geometry is None:
                continue
            begin = max(int(np.searchsorted(state.fences, low)) - 1, 0) * FENCE_ENTRIES + 1
            end = min(int(np.searchsorted(state.fences, high)) * FENCE_ENTRIES + 1, state.count)
            with suppress(CannotLook):
                found = found_in(self._readers.get(state.file), state.geometry, state.begin_timestamp, begin, end)
                pieces.append(self.inside(found, low, high))
        return together(pieces)


def found_in(reader: File, geometry: Geometry, begin_timestamp: int, begin: int, end: int) -> Found:
    """Entries of a file from number begin on.  Raises `CannotLook`."""
    entries = read_entries(reader, geometry, begin, end - begin)
    begin_ms = np.full(len(entries), begin_timestamp)
    begin_ms[: int(begin == 1)] = 0  # the first one counts from the end of the file before
    offsets, hashes, seconds = (entries[name].astype(np.int64) for name in ("physical_offset", "key_hash", "seconds"))
    return Found(offsets, hashes, seconds, begin_ms)


def together(pieces: Sequence[Found]) -> Found:
    """One behind the other."""
    none = Found(*(np.empty(0, np.int64) for _ in Found._fields))
    return Found(*(np.concatenate(column) for column in zip(none, *pieces, strict=True)))
