"""The topic of each unit of a block as a number: most blocks have few topics, and those are compared for all units at once.

Only what equals none of the topics that are usual is cut out and looked up one by one.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from rmq_columns.decode import units as columns
from rmq_columns.decode.dtypes import Bytes, Ints, gather
from rmq_columns.decode.texts import Hasher
from rmq_columns.decode.units import Units

TOPICS_MAX: Final = 200_000
"""Known at once; a hostile file could name another one in each message."""
USUAL_MAX: Final = 16
"""Topics of one length that are compared with all units."""


class Topics:
    """Numbers of topics, given as they are met."""

    def __init__(self) -> None:
        self.names: list[str] = []
        """number -> topic"""
        self.hashes: list[int] = []
        """number -> Java's hash of the topic and `#`, with which keys in the index begin"""
        self._numbers: dict[bytes, int] = {}
        self._usual: dict[int, list[tuple[np.void, int]]] = {}
        """length -> the first topics of that length"""

    def numbers(self, buffer: Bytes, units: Units) -> Ints:
        """Of each unit, good until the next call."""
        if len(self._numbers) >= TOPICS_MAX:
            for table in (self.names, self.hashes, self._numbers, self._usual):
                table.clear()
        found = np.full(len(units), -1, np.int64)
        sizes = units.topic_size
        for size in np.flatnonzero(np.bincount(sizes)).tolist() if len(units) else ():
            usual = self._usual.get(size, ())
            if size and usual:
                rows = np.flatnonzero(sizes == size)
                texts = gather(buffer, units.topic_at[rows], np.dtype(f"V{size}"))
                for topic, number in usual:
                    found[rows[texts == topic]] = number
        rest = np.flatnonzero(found < 0)
        if len(rest):
            found[rest] = self._looked_up(columns.topics(buffer.data, units.take(rest)))
        return found

    def _looked_up(self, topics: list[bytes]) -> Ints:
        known = self._numbers
        for topic in dict.fromkeys(topics):
            if topic in known:
                continue
            known[topic] = len(self.names)
            self.names.append(topic.decode("utf-8", "replace"))
            hasher = Hasher(topic + b"#")
            self.hashes.append(int(hasher.hashes(np.zeros(1, np.int64), np.array([len(hasher.data)]))[0]))
            usual = self._usual.setdefault(len(topic), [])
            if topic and len(usual) < USUAL_MAX:
                usual.append((np.void(topic), known[topic]))
        return np.fromiter(map(known.__getitem__, topics), np.int64, len(topics))
