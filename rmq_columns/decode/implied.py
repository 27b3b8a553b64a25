"""The rule book `rmq_wire.implied` for many messages at once: the same answers (a test looks), column by column.

What all messages have (tags, keys) is computed on columns; what few have (levels, inner batches, light queues) is asked of the
rule book itself, row by row, each different text once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np

from rmq_columns.decode import texts
from rmq_columns.decode.dtypes import Ints, Mask
from rmq_columns.decode.texts import Hasher, Spans
from rmq_wire import property_names as prop
from rmq_wire.implied import delay_levels, inner_batch, light_queues
from rmq_wire.implied.index_keys import HASH_MAX, TAGS_PREFIX
from rmq_wire.implied.queue_entries import OFFSET_END, UNQUEUED
from rmq_wire.sys_flag import TRANSACTION_MASK, TRANSACTION_ROLLBACK

_UNIQUE, _KEY, _TAG = range(3)
"""Kinds of entries of a message, in their order."""
_SEPARATOR: Final = ord(prop.KEY_SEPARATOR)
_REMEMBERED: Final = 4096

stored_level = lru_cache(_REMEMBERED)(delay_levels.stored_level)
stored_count = lru_cache(_REMEMBERED)(inner_batch.stored_count)
places_in = lru_cache(_REMEMBERED)(light_queues.places_in)


class Values(NamedTuple):
    """One property of many messages.  row: ascending, of those that have it; starts, sizes: of the values, in data."""

    data: Any
    """bytes, as an array or as they are"""
    row: Ints
    starts: Ints
    sizes: Ints

    def pairs(self) -> Iterator[tuple[int, bytes]]:
        """(row, value)."""
        for row, start, size in zip(self.row.tolist(), self.starts.tolist(), self.sizes.tolist(), strict=True):
            yield row, bytes(self.data[start : start + size])


def values_of(data: bytes, spans: Spans) -> Values:
    """Of spans that have a row for each message."""
    row = np.flatnonzero(spans.present)
    return Values(data, row, spans.starts[row], spans.sizes[row])


# --- queues


def is_queued(sys_flag: Any) -> Mask:
    """Messages with a place in a queue."""
    found: Mask = (sys_flag & UNQUEUED) == 0
    return found


def is_offset(queue_offset: Any) -> Mask:
    """Queue offsets that are not damage."""
    found: Mask = (queue_offset >= 0) & (queue_offset < OFFSET_END)
    return found


def put_due_times(codes: Ints, delays: Values, is_delayed: Mask, stored: Ints, levels_ms: Sequence[int]) -> None:
    """In the place of the tags codes of delayed messages.  is_delayed: those in the schedule's topic."""
    for row, text in delays.pairs() if is_delayed.any() else ():
        if is_delayed[row] and (level := stored_level(text)):
            codes[row] = stored[row] + delay_levels.delay_of(level, levels_ms)


def message_counts(inner_nums: Values, is_inner: Mask) -> Ints:
    """How many messages each unit holds.  is_inner: inner batches."""
    counts = np.ones(len(is_inner), np.int64)
    for row, text in inner_nums.pairs() if is_inner.any() else ():
        if is_inner[row]:
            counts[row] = stored_count(text) or 1
    return counts


def light_places(dispatches: Values, offsets: Values, allows: Mask) -> Iterator[tuple[int, str, int]]:
    """(row, light queue, offset there), row by row.  allows: messages whose topics may be in light queues."""
    if not (len(dispatches.row) and len(offsets.row)):
        return
    said = dict(offsets.pairs())
    for row, text in dispatches.pairs():
        if allows[row] and row in said:
            for name, offset in places_in(text, said[row]).items():
                yield row, name, offset


# --- index


def is_indexed(sys_flag: Any) -> Mask:
    """Messages with entries in the index."""
    found: Mask = (sys_flag & TRANSACTION_MASK) != TRANSACTION_ROLLBACK
    return found


class IndexEntries(NamedTuple):
    """In the order in which they are written: number of the message, hash, whether it is one for the tags."""

    row: Ints
    key_hash: Ints
    is_tag: Mask


def index_entries(hasher: Hasher, unique: Spans, keys: Spans, tags: Spans, topic_hashes: Any, indexed: Mask) -> IndexEntries:
    """Of messages whose property values are these; topic_hashes: of `topic#`, for each."""
    unique_rows, tag_rows = np.flatnonzero(unique.present), np.flatnonzero(tags.present)
    key_rows, key_starts, key_sizes = texts.pieces(hasher.data, keys, _SEPARATOR)
    tag_prefix = np.full(len(tag_rows), _hash_of_all(Hasher(TAGS_PREFIX.encode())), np.int32)
    tag_hashes = _continued(tag_prefix, hasher, tags.starts[tag_rows], tags.sizes[tag_rows])
    rows = np.concatenate((unique_rows, key_rows, tag_rows))
    kind = np.repeat([_UNIQUE, _KEY, _TAG], [len(unique_rows), len(key_rows), len(tag_rows)])
    plain = _continued(
        topic_hashes[rows[: len(unique_rows) + len(key_rows)]],
        hasher,
        np.concatenate((unique.starts[unique_rows], key_starts)),
        np.concatenate((unique.sizes[unique_rows], key_sizes)),
    )
    tag_sizes = _utf16_sizes(hasher.data, tags.starts[tag_rows], tags.sizes[tag_rows]) + len(TAGS_PREFIX)
    tagged = texts.continued(topic_hashes[tag_rows], tag_hashes, tag_sizes)
    hashes = np.abs(np.concatenate((plain, tagged)).astype(np.int64))
    hashes[hashes > HASH_MAX] = 0
    order = np.lexsort((kind, rows))
    order = order[indexed[rows[order]]]
    return IndexEntries(rows[order].astype(np.int64), hashes[order], kind[order] == _TAG)


def _continued(prefix: Any, hasher: Hasher, starts: Ints, sizes: Ints) -> Any:
    return texts.continued(prefix, hasher.hashes(starts, sizes), _utf16_sizes(hasher.data, starts, sizes))


def _utf16_sizes(data: bytes, starts: Ints, sizes: Ints) -> Ints:
    """Java's length of each text."""
    if data.isascii():
        return sizes
    found = sizes.copy()
    for row, (start, size) in enumerate(zip(starts.tolist(), sizes.tolist(), strict=True)):
        if not (text := data[start : start + size]).isascii():
            found[row] = len(text.decode("utf-8", "replace").encode("utf-16-le")) // 2
    return found


def _hash_of_all(hasher: Hasher) -> int:
    return int(hasher.hashes(np.zeros(1, np.int64), np.array([len(hasher.data)]))[0])
