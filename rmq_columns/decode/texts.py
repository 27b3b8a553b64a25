"""Java's `String.hashCode` and message properties for many texts at once.

31 is odd, so it has an inverse modulo 2^32: with the sum of c[i] * 31^-i up to each place, the hash of any run of bytes is one
difference times one power, without grouping texts by their length.  That holds for ASCII; texts with other bytes are hashed one
by one by `rmq_wire.java`.  Properties are cut as `rmq_wire.properties.decode` cuts them: pairs end with 02, the name ends at
the first 01, pairs without name or value do not count, the last of two values wins.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from rmq_columns.decode.dtypes import Ints, Mask
from rmq_wire.java import string_hash

FACTOR: Final = 31
"""Of Java's hash."""
INVERSE: Final = pow(FACTOR, -1, 1 << 32)
PAIR_END: Final = b"\x02"
NAME_END: Final = 1
"""The byte between name and value."""
POWERS_KEPT_MAX: Final = 1 << 24
"""Longer buffers compute their powers each time."""

Words = npt.NDArray[np.uint32]
_powers: tuple[Words, Words] = (np.ones(1, np.uint32), np.ones(1, np.uint32))


def _powers_up_to(count: int) -> tuple[Words, Words]:
    """31^i and 31^-i modulo 2^32 for i below count."""
    global _powers
    if len(_powers[0]) < count:
        size = max(count, min(2 * len(_powers[0]), POWERS_KEPT_MAX))
        made = []
        for base in (FACTOR, INVERSE):
            row = np.full(size, base, np.uint32)
            row[0] = 1
            made.append(np.cumprod(row, dtype=np.uint32))
        if size > POWERS_KEPT_MAX:
            return made[0], made[1]
        _powers = (made[0], made[1])
    return _powers


class Hasher:
    """Hashes of runs of one buffer."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        raw = np.frombuffer(data, np.uint8)
        self._powers, inverses = _powers_up_to(len(raw) + 1)
        self._sums = np.zeros(len(raw) + 1, np.uint32)
        np.cumsum(raw * inverses[: len(raw)], dtype=np.uint32, out=self._sums[1:])
        self._foreign = None if data.isascii() else np.concatenate(([0], np.cumsum(raw >= 0x80)))

    def hashes(self, starts: Ints, sizes: Ints) -> npt.NDArray[np.int32]:
        """`String.hashCode` of each run, read as UTF-8."""
        ends = starts + sizes
        last = np.maximum(ends - 1, 0)
        found = (self._sums[ends] - self._sums[starts]) * self._powers[last]
        signed = found.astype(np.uint32).view(np.int32)
        if self._foreign is not None:
            for row in np.flatnonzero(self._foreign[ends] != self._foreign[starts]).tolist():
                signed[row] = string_hash(self.data[int(starts[row]) : int(ends[row])].decode("utf-8", "replace"))
        return signed


def continued(prefix_hashes: npt.NDArray[np.int32], hashes: npt.NDArray[np.int32], sizes: Ints) -> npt.NDArray[np.int32]:
    """Hashes of prefix + text from the hashes of both; sizes: UTF-16 units of the texts (bytes, when ASCII)."""
    powers, _ = _powers_up_to(int(sizes.max()) + 1 if len(sizes) else 1)
    return (prefix_hashes.view(np.uint32) * powers[sizes] + hashes.view(np.uint32)).view(np.int32)


@dataclass
class Spans:
    """Runs of bytes, some rows having none: of row i the bytes from starts[i], sizes[i] of them, 0 for none."""

    starts: Ints
    sizes: Ints

    @property
    def present(self) -> Mask:
        return self.sizes > 0


class Properties:
    """The pairs of many property strings, found in one go."""

    def __init__(self, texts: Iterable[bytes | memoryview], rows: int) -> None:
        self.data = PAIR_END.join(texts) + PAIR_END if rows else b""
        self._rows = rows
        raw = np.frombuffer(self.data, np.uint8)
        self._raw = raw
        ends = np.flatnonzero(raw == PAIR_END[0])
        name_ends = np.flatnonzero(raw == NAME_END)
        starts = np.concatenate(([0], ends[:-1] + 1)).astype(np.int64) if len(ends) else np.empty(0, np.int64)
        which = np.searchsorted(name_ends, starts)
        inside = which < len(name_ends)
        name_end = np.where(inside, name_ends[np.minimum(which, max(len(name_ends) - 1, 0))] if len(name_ends) else -1, -1)
        keep = inside & (name_end < ends) & (name_end > starts) & (name_end + 1 < ends)
        self.name_at: Ints = starts[keep]
        self.name_size: Ints = name_end[keep] - starts[keep]
        self.value_at: Ints = name_end[keep] + 1
        self.value_size: Ints = ends[keep] - name_end[keep] - 1

    def place(self, row_starts: Ints) -> None:
        """Say where each row begins in `data`, so that pairs know their rows."""
        self.row: Ints = np.searchsorted(row_starts, self.name_at, side="right") - 1

    def values(self, name: bytes) -> Spans:
        """Where each row has the value of this name."""
        found = np.flatnonzero(self.name_size == len(name))
        wanted = np.frombuffer(name, np.uint8)
        for place, byte in enumerate(wanted.tolist()):
            if not len(found):
                break
            found = found[self._raw[self.name_at[found] + place] == byte]
        spans = Spans(np.zeros(self._rows, np.int64), np.zeros(self._rows, np.int64))
        spans.starts[self.row[found]] = self.value_at[found]
        spans.sizes[self.row[found]] = self.value_size[found]
        return spans


def properties_of(texts: Sequence[memoryview], sizes: Ints) -> Properties:
    """Cut the property strings of many units; sizes: bytes of each."""
    found = Properties(texts, len(texts))
    found.place(np.concatenate(([0], np.cumsum(sizes + 1)))[: len(texts)].astype(np.int64))
    return found


def pieces(data: bytes, spans: Spans, separator: int) -> tuple[Ints, Ints, Ints]:
    """Cut each run at a byte: (row, start, size) of the pieces that are not empty, in order."""
    raw = np.frombuffer(data, np.uint8)
    rows = np.flatnonzero(spans.present)
    starts, sizes = spans.starts[rows], spans.sizes[rows]
    cuts_all = np.flatnonzero(raw == separator)
    first = np.searchsorted(cuts_all, starts)
    last = np.searchsorted(cuts_all, starts + sizes)
    counts = last - first
    total = int(counts.sum())
    within = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
    cuts = cuts_all[np.repeat(first, counts) + within] if total else np.empty(0, np.int64)
    owner = np.concatenate((rows, np.repeat(rows, counts)))
    begin = np.concatenate((starts, cuts + 1))
    order = np.argsort(begin, kind="stable")
    owner, begin = owner[order], begin[order]
    run_end = (spans.starts + spans.sizes)[owner]
    following = np.concatenate((begin[1:] - 1, [0])) if len(begin) else begin
    same = np.concatenate((owner[1:] == owner[:-1], [False])) if len(owner) else np.empty(0, bool)
    end = np.where(same, following, run_end)
    keep = end > begin
    return owner[keep].astype(np.int64), begin[keep].astype(np.int64), (end - begin)[keep].astype(np.int64)
