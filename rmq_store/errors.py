"""Whose fault it is when the store says no.

`StoreRefused` and its children are raised by `Store.open` before anything was changed: the directory cannot be used as it is,
and the text names the file and says what to do.  `Unwritable` and `CommitFailed` concern appends only; reads go on.  `Illegal`
is the message's own fault.  `Cold` is no error: the bytes are not in memory, and reading them would stop the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, IntEnum


class StoreError(Exception):
    """Anything this package refuses to do."""


class StoreRefused(StoreError):
    """The directory cannot be opened; the text says which file, why, and what to do."""


class StoreLocked(StoreRefused):
    """Another process (ours or a Java broker) runs on this directory."""


class StoreDamaged(StoreRefused):
    """Bytes that were once safe on disk are wrong now: starting would drop valid messages."""


class ForeignFile(StoreRefused):
    """A link, pipe, device, or a file of the wrong size or name lies where only store files may be."""


class Closed(Enum):
    """Why appends are refused."""

    DISK_FULL = "the disk is full"
    DISK_OVER_LIMIT = "the disk is over its limit"
    FENCED = "a write or sync failed and the state on disk is unknown: restart the broker"
    SHUT = "the store is closed"


class Unwritable(StoreError):
    """Nothing can be appended now (Java: SERVICE_NOT_AVAILABLE, code 14). `why` says whether it may pass."""

    def __init__(self, why: Closed, detail: str = "") -> None:
        super().__init__(f"{why.value}{': ' + detail if detail else ''}")
        self.why = why


class CommitFailed(Unwritable):
    """The turn was not written; every reservation that it had made is rolled back."""


class CreateFailed(CommitFailed):
    """The next file could not be created (Java: CREATE_MAPPED_FILE_FAILED, code 1); rolled back likewise."""


class InvariantBroken(StoreError):
    """What must hold of the store's own state does not: a bug, ours or the machine's.  Whoever meets it fences the store.

    Checked by plain code where state changes hands, so that `python -O` keeps it: once a turn, file or queue, never per message.
    """

    def __init__(self, invariant: str, seen: str) -> None:
        super().__init__(f"the invariant does not hold that {invariant}: {seen}")
        self.invariant = invariant


class IllegalKind(IntEnum):
    """Which limit a message breaks."""

    MESSAGE = 1
    PROPERTIES = 2
    LIGHT_QUEUES = 3
    """it names one light queue too many"""


class Illegal(StoreError):
    """The message can never be stored (Java: MESSAGE_ILLEGAL or PROPERTIES_SIZE_EXCEEDED, code 13)."""

    def __init__(self, kind: IllegalKind, text: str) -> None:
        super().__init__(text)
        self.kind = kind


class Cold(StoreError):
    """The bytes asked for are not in memory.

    `run` reads them and may be called in a thread: it touches no state of the store but its own flag.  After it returned, ask
    again.
    """

    def __init__(self, load: Callable[[], object], what: str) -> None:
        super().__init__(what)
        self._load = load
        self.done = False

    def run(self) -> None:
        """Read the bytes, so that the page cache has them. Raises OSError."""
        self._load()
        self.done = True
