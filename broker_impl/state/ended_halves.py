"""Which half messages of a queue have ended: a bit for each from the first that has not been checked.

What is before `first` has been dealt with: it has ended, was given up, or was put back and lies further on in the queue.  The
bits come from op messages, and from ends that no op message has yet; so a check needs to look at no op message, and an end that
comes twice is known.  A million half messages between two checks are 125 KB.
"""

from __future__ import annotations

import enum


class HalfState(enum.Enum):
    """Of one half message."""

    OPEN = enum.auto()
    ENDED = enum.auto()
    PASSED = enum.auto()


class EndedHalves:
    """Of one queue of half messages."""

    def __init__(self, first: int) -> None:
        self.first = first
        """Queue offset of the first that has not been dealt with: the progress of CID_RMQ_SYS_TRANS."""
        self._base = first & ~7
        self._bits = bytearray()

    def state(self, offset: int) -> HalfState:
        """What is known of the half message at this queue offset."""
        if offset < self.first:
            return HalfState.PASSED
        at = offset - self._base
        ended = at >> 3 < len(self._bits) and self._bits[at >> 3] >> (at & 7) & 1
        return HalfState.ENDED if ended else HalfState.OPEN

    def end(self, offset: int) -> None:
        """It has ended."""
        if offset >= self.first:
            at = offset - self._base
            if at >> 3 >= len(self._bits):
                self._bits.extend(bytes((at >> 3) + 1 - len(self._bits)))
            self._bits[at >> 3] |= 1 << (at & 7)

    def reopen(self, offset: int) -> None:
        """Its end was not written."""
        at = offset - self._base
        if offset >= self.first and at >> 3 < len(self._bits):
            self._bits[at >> 3] &= ~(1 << (at & 7))

    def pass_to(self, offset: int) -> None:
        """Everything before this has been dealt with."""
        self.first = offset
        done = (offset - self._base) >> 3
        if done > 0:
            del self._bits[:done]
            self._base += done << 3
