"""Whether the store takes appends, and why not.

Errors of the disk end in one of two states.  What may pass (no space, no descriptors) refuses appends and is tried again a
second later.  What leaves the medium unknown (an I/O error on a write, any error of a sync) fences the store: nothing is ever
appended again, reads go on.  So do syncs unless it was one of them that failed: what was answered before a failed write is
promised.  A disk over its warning level refuses appends until it has room again.  (Java: RunningFlags)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rmq_store.errors import Closed, ForeignFile
from rmq_store.log.commit_log import PASSING

RETRY_MS: Final = 1000
"""How long appends are refused after an error that may pass."""


class Writability:
    """`why` is None while appends are taken. Worse reasons are never replaced by milder ones."""

    __slots__ = ("_distrust", "_over_limit", "_retry_due_ms", "detail", "sync_refusal", "why")

    def __init__(self, distrust: Callable[[], None]) -> None:
        """`distrust`: have the next start not believe the page cache. Raises nothing."""
        self._distrust = distrust
        self.why: Closed | None = None
        self.detail = ""
        self.sync_refusal: str | None = None
        """why nothing is synced any more; a failed write alone is no reason, for what was written before may still be saved"""
        self._retry_due_ms: int | None = None
        self._over_limit: str | None = None

    @property
    def is_over(self) -> bool:
        """Nothing will be written any more: fenced, or shut."""
        return self.why is Closed.FENCED or self.why is Closed.SHUT

    def refuse(self, why: Closed, detail: str) -> None:
        if not self.is_over:
            self.why, self.detail = why, detail
            self._retry_due_ms = None

    def sync_failed(self, error: BaseException) -> None:
        """A sync failed, whoever's it was: nothing is appended or synced any more, for a second one would prove nothing."""
        if self.why is not Closed.SHUT:
            self.refuse(Closed.FENCED, f"sync failed: {error}")
            self.sync_refusal = f"sync failed: {error}"
            self._distrust()

    def failed(self, reason: OSError) -> None:
        """A call of the disk failed."""
        self.refuse(Closed.DISK_FULL if reason.errno in PASSING else Closed.FENCED, str(reason))

    def guarded(self, action: Callable[[], object]) -> None:
        """Do it, unless the store is fenced; what it raises decides over appends."""
        if self.why is Closed.FENCED:
            return
        try:
            action()
        except OSError as reason:
            self.failed(reason)
        except ForeignFile as reason:  # somebody is at work in our directory
            self.refuse(Closed.FENCED, str(reason))

    def retry(self, mono_ms: int) -> None:
        """A second after an error that may pass, appends are tried again."""
        if self.why is not Closed.DISK_FULL:
            return
        if self._retry_due_ms is None:
            self._retry_due_ms = mono_ms + RETRY_MS
        elif mono_ms >= self._retry_due_ms:
            self.why, self.detail = None, ""
            self.set_over_limit(self._over_limit)

    def set_over_limit(self, detail: str | None) -> None:
        """The disk is over its warning level (how far, in words), or not (None)."""
        self._over_limit = detail
        if detail is not None and self.why is None:
            self.why, self.detail = Closed.DISK_OVER_LIMIT, detail
        elif detail is None and self.why is Closed.DISK_OVER_LIMIT:
            self.why, self.detail = None, ""

    def shut(self) -> None:
        self.why = Closed.SHUT
        self.sync_refusal = self.sync_refusal or Closed.SHUT.value
