"""Values of a property that were met in stored messages, numbered: a number instead of a value is what can be remembered of many.

One `SeenValues` serves all who ask for the same property of one topic, whatever they compare it with.  It finds most values by
their window: the bytes from the property's mark on, as many as the longest value met so far needs.  So a value that was met
before costs a search and a look-up, and nothing is decoded.
"""

from __future__ import annotations

from typing import Final
from weakref import WeakValueDictionary

VALUES_MAX: Final = 512
"""Values that are numbered at once; with one more all are forgotten."""
NARROW_MAX: Final = 255
"""The largest number that a byte holds."""
WINDOW_VALUE_MAX: Final = 48
"""Longer values get no number."""
MARK_MAX: Final = 256
"""Nor do those of properties with longer names: each window would keep the name once more."""
NO_NUMBER: Final = 0
"""Of a value that has none: one has to look at the message."""
ABSENT: Final = 1
"""Of messages without the property."""
REFUSED: Final = 0
LOOK: Final = 1
WANTED: Final = 3
"""What is said of messages with a value; of several values, by AND of the bits.  LOOK: not known, the message has to be read."""
_PAIR_END: Final = b"\x02"


class SeenValues:
    """Those of one property.  `mark`: what stands before a value (`rmq_wire.properties.mark_of`); empty, if nothing is numbered.

    A number is good until `generation` changes, which happens only after `is_wide` is set, for good: then there are so many
    values that remembering them for each message makes no sense.
    """

    __slots__ = ("__weakref__", "generation", "is_wide", "mark", "numbers", "values", "width", "windows")

    def __init__(self, mark: bytes) -> None:
        self.mark = mark if len(mark) <= MARK_MAX else b""
        self.width = len(self.mark)
        """bytes of a window, which begins with the mark; it only grows"""
        self.windows: dict[bytes, int] = {b"": NO_NUMBER}
        """Numbers by windows that hold the whole value: with the byte that ends it, or shorter than `width`, at the very end."""
        self.numbers: dict[bytes, int] = {}
        self.values: list[bytes | None] = [None, None]
        """by number"""
        self.generation = 0
        self.is_wide = not self.mark

    def number_of(self, tail: bytes, at: int) -> int:
        """Of the value in the stored properties that begin at `at` in these bytes and reach to their end; one byte is before."""
        mark = self.mark
        if not mark:
            return NO_NUMBER
        mark_at = tail.rfind(mark, at - 1)
        if mark_at < 0:
            if not tail.startswith(mark[1:], at):
                return ABSENT
            mark_at = at - 1
        start = mark_at + len(mark)
        end = tail.find(_PAIR_END, start)
        value = tail[start:end] if end >= 0 else tail[start:]
        size = len(value)
        if not 0 < size <= WINDOW_VALUE_MAX:  # of a pair without a value nothing counts, but of one before it
            return NO_NUMBER
        number = self.numbers.get(value) or self._add(value)
        if start + size >= mark_at + self.width:
            self.width = start + size + 1 - mark_at
        windows = self.windows
        if len(windows) > VALUES_MAX:
            windows.clear()
            windows[b""] = NO_NUMBER
        windows[mark + tail[start : mark_at + self.width]] = number
        return number

    def _add(self, value: bytes) -> int:
        if len(self.numbers) >= VALUES_MAX:
            self.generation += 1
            self.numbers.clear()
            del self.values[ABSENT + 1 :]
            self.windows.clear()
            self.windows[b""] = NO_NUMBER
        number = self.numbers[value] = len(self.values)
        self.values.append(value)
        if number > NARROW_MAX:
            self.is_wide = True
        return number


def seen_values(mark: bytes, topic: str = "") -> SeenValues:
    """Those of this mark in a topic's messages, as long as somebody has them."""
    found = _SEEN.get((topic, mark))
    if found is None:
        found = _SEEN[topic, mark] = SeenValues(mark)
    return found


_SEEN: Final[WeakValueDictionary[tuple[str, bytes], SeenValues]] = WeakValueDictionary()
