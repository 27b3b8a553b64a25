"""How a store was left: whether somebody has it open now, and whether the last stop was clean.

Looks only: the lock is not tried, since that could make a broker fail that starts at this moment.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Final

_LOCKS: Final = "/proc/locks"


@dataclass
class Condition:
    """How the store was left."""

    locked_by: int | None = None
    """process that holds the lock now; 0 when it is not known which"""
    has_abort: bool = False
    notes: list[str] = field(default_factory=list)

    @property
    def live(self) -> bool:
        return self.locked_by is not None

    @property
    def settled(self) -> bool:
        """Whether it was closed in order and nobody has it open."""
        return not self.live and not self.has_abort


def condition_of(lock: str | os.PathLike[str] | None, has_abort: bool) -> Condition:
    """lock: path of the store's lock file, None where there is none."""
    found = Condition(_lock_holder(lock) if lock is not None else None, has_abort)
    if found.live:
        who = f"process {found.locked_by}" if found.locked_by else "a process"
        found.notes.append(f"{who} has this store open: what it writes meanwhile counts as not there yet")
    elif found.has_abort:
        found.notes.append("abort is there: the last stop was not clean, the next start recovers")
    return found


def _lock_holder(lock: str | os.PathLike[str]) -> int | None:
    """Who holds a lock on this file, as the kernel lists it; None also where the kernel does not say."""
    try:
        status = os.stat(lock, follow_symlinks=False)
        place = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
        with open(_LOCKS, encoding="ascii", errors="replace") as lines:
            for line in lines:
                words = line.split()
                if place in words and "->" not in words:
                    return max(int(words[words.index(place) - 1]), 0)
    except (OSError, ValueError):
        pass
    return None
