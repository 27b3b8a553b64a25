"""How much a producer has under way at once: beyond a number of sends, or their bytes, the next ones wait in line.

Java limits what it sends with a callback; here every send may be one of thousands at once, so the setting is about all of them.
Source: `DefaultMQProducerImpl.executeAsyncMessageSend`.
"""

from __future__ import annotations

from collections import deque
from typing import Final

import trio

SENDS_MIN: Final = 10
BYTES_MIN: Final = 1 << 20
"""A smaller limit counts as these."""


class BackPressure:
    """`sends`, `size`: what is under way.  First come, first served; one that is larger than all the room goes alone."""

    def __init__(self, sends_max: int, size_max: int) -> None:
        self.sends = 0
        self.size = 0
        self._sends_max = max(sends_max, SENDS_MIN)
        self._size_max = max(size_max, BYTES_MIN)
        self._waiting: deque[tuple[int, trio.Event]] = deque()

    async def begin(self, size: int) -> int:
        """Wait for room.  What is to be handed to `end`."""
        size = min(size, self._size_max)
        if not self._waiting and self._fits(size):
            self._take(size)
            return size
        place = (size, trio.Event())
        self._waiting.append(place)
        try:
            await place[1].wait()
        except trio.Cancelled:
            if place[1].is_set():
                self.end(size)
            else:
                self._waiting.remove(place)
                self._let_in()
            raise
        return size

    def end(self, size: int) -> None:
        """It is no more under way."""
        self.sends -= 1
        self.size -= size
        self._let_in()

    def _fits(self, size: int) -> bool:
        return self.sends < self._sends_max and self.size + size <= self._size_max

    def _take(self, size: int) -> None:
        self.sends += 1
        self.size += size

    def _let_in(self) -> None:
        while self._waiting and self._fits(self._waiting[0][0]):
            size, came = self._waiting.popleft()
            self._take(size)
            came.set()
