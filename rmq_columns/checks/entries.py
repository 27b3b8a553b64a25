"""Index entries held against the keys of the log's messages: every key has its entry, every entry its message.

Entries follow the log's order, so those of a block of messages are found by a few fence posts and compared at once.
Source: `IndexService.buildIndex`, `IndexFile.putKey` of the reference.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from rmq_columns.checks.files import CheckedFile
from rmq_columns.checks.findings import Findings
from rmq_columns.checks.index import FENCE_ENTRIES, IndexState, read_entries
from rmq_columns.checks.readers import Readers
from rmq_columns.checks.report import LogReport
from rmq_columns.decode.dtypes import Ints
from rmq_columns.decode.implied import IndexEntries
from rmq_columns.errors import CannotLook

SECOND_MS: Final = 1000


class Found(NamedTuple):
    """Columns of index entries.  begin: begin_timestamp of the file that each is in."""

    offset: Ints
    key_hash: Ints
    seconds: Ints
    begin: Ints


def _is_empty(file: IndexState) -> bool:
    """No entry is in it; one whose slots are not known may have some."""
    return file.count <= 1 and (file.geometry is not None or file.end_timestamp == 0)


def _is_of_another_version(offsets: Ints, lacking: Any, is_tag: Any) -> bool:
    """Whether only entries of tags lack, of all messages, or of all before or behind one: there the broker was exchanged."""
    if not lacking.any() or (lacking & ~is_tag).any():
        return False
    there, gone = offsets[is_tag & ~lacking], offsets[lacking]
    return not len(there) or bool(gone.max() < there.min() or gone.min() > there.max())


class IndexCheck:
    """The index files, for one worker that walks one log file."""

    def __init__(self, files: list[IndexState], findings: Findings, settled: bool) -> None:
        self._files = [one for one in files if one.geometry is not None and one.count > 1]
        self._compares = bool(self._files) or (settled and bool(files) and all(map(_is_empty, files)))
        if not all(one.is_ordered for one in self._files):  # said already; where its entries belong is unknown
            self._files, self._compares = [], False
        self._findings = findings
        self._settled = settled
        self._readers = Readers()
        self.last_offset = max((one.last_offset for one in self._files), default=-1)
        self.first_offset = min((one.first_offset for one in self._files), default=0)

    def close(self) -> None:
        self._readers.close()

    def compare(self, own: Ints, end: Ints, times: Ints, wanted: IndexEntries, report: LogReport, log: CheckedFile) -> None:
        """own, end: where the units of a block begin and end in the log; times: when they were stored."""
        if not self._compares:
            return
        offsets = own[wanted.row]
        report.index_before += int(np.count_nonzero(own < self.first_offset))
        report.index_waiting += int(np.count_nonzero(own > self.last_offset))
        covered = offsets >= self.first_offset
        if not self._settled:  # the newest entries may be on their way; after a clean stop all are there
            covered &= offsets < self.last_offset
        low, high = int(own[0]), int(end[-1])
        found = self._entries(low, high)
        hashes, offsets, is_tag = wanted.key_hash[covered], offsets[covered], wanted.is_tag[covered]
        if len(found.key_hash) == len(hashes) and (found.key_hash == hashes).all() and (found.offset == offsets).all():
            self._times(found, times[wanted.row][covered], log)
            return
        self._differ(low, (offsets, hashes, is_tag), found, report, log)

    def _times(self, found: Found, times: Ints, log: CheckedFile) -> None:
        """Seconds since the file's begin, cut off at 0 and at Java's largest int (`IndexFile.putKey`)."""
        seconds = np.clip((times - found.begin) // SECOND_MS, 0, np.iinfo(np.int32).max)
        bad = np.flatnonzero((found.seconds != seconds) & (found.begin > 0))
        if len(bad):
            at, row = int(found.offset[bad[0]]), int(bad[0])
            text = f"message at {at}: {found.seconds[row]} s after the file's begin, by its store time {seconds[row]} s"
            self._findings.add("index-time", log.name, at - log.start, text, len(bad))

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
            self._findings.add("index-missing", log.name, int(missing[0]) - log.start, text, len(missing))
        if extra.any():
            places = found.offset[extra]
            text = f"{len(places)} entries point at {places[0]} and behind it, where no message has their keys"
            self._findings.add("index-wrong", log.name, int(places[0]) - log.start, text, len(places))

    def _entries(self, low: int, high: int) -> Found:
        """The entries that point at [low, high), in the order in which they were written."""
        pieces = [Found(*(np.empty(0, np.int64) for _ in Found._fields))]
        for state in self._files:
            if state.last_offset < low or state.first_offset >= high or state.geometry is None:
                continue
            begin = max(int(np.searchsorted(state.fences, low)) - 1, 0) * FENCE_ENTRIES + 1
            end = min(int(np.searchsorted(state.fences, high)) * FENCE_ENTRIES + 1, state.count)
            try:
                entries = read_entries(self._readers.get(state.file), state.geometry, begin, end - begin)
            except CannotLook:
                continue
            places = entries["physical_offset"].astype(np.int64)
            keep = (places >= low) & (places < min(high, self.last_offset + self._settled))
            begin_ms = np.full(len(entries), state.begin_timestamp)
            begin_ms[: int(begin == 1)] = 0  # the first one counts from the end of the file before
            entries, begin_ms = entries[keep], begin_ms[keep]
            pieces.append(
                Found(places[keep], entries["key_hash"].astype(np.int64), entries["seconds"].astype(np.int64), begin_ms)
            )
        return Found(*(np.concatenate(column) for column in zip(*pieces, strict=True)))
