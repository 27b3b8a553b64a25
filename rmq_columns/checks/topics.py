"""The topic of each unit of a block as a number: most blocks have few topics, and those are compared for all units at once.

Only what equals none of the topics that are usual is cut out and looked up one by one.
"""

from __future__ import annotations

import itertools
from typing import Final

import numpy as np
import numpy.typing as npt

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
        self.generation = 0
        """how often all were forgotten, since there were too many: numbers begin anew then"""
        self._hashes = np.zeros(0, np.int32)
        self._numbers: dict[bytes, int] = {}
        self._usual: dict[int, list[tuple[np.void, int]]] = {}
        """length -> the first topics of that length"""

    def numbers(self, buffer: Bytes, units: Units) -> Ints:
        """Of each unit, good until the next call."""
        if len(self._numbers) >= TOPICS_MAX:
            self.names, self._numbers, self._usual, self._hashes = [], {}, {}, self._hashes[:0]
            self.generation += 1
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
            usual = self._usual.setdefault(len(topic), [])
            if topic and len(usual) < USUAL_MAX:
                usual.append((np.void(topic), known[topic]))
        return np.fromiter(map(known.__getitem__, topics), np.int64, len(topics))

    def hashes(self) -> npt.NDArray[np.int32]:
        """number -> Java's hash of the topic and `#`, with which keys in the index begin."""
        texts = [topic + b"#" for topic in itertools.islice(self._numbers, len(self._hashes), None)]
        if texts:
            sizes = np.array([len(text) for text in texts])
            found = Hasher(b"".join(texts)).hashes(np.cumsum(sizes) - sizes, sizes)
            self._hashes = np.concatenate((self._hashes, found))
        return self._hashes
