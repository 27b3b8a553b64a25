"""A store of texts in memory that behaves as the engine expects of the real one, and fails when a test says so."""

from __future__ import annotations

from rmq_store.errors import InvariantBroken


class CommitRefused(Exception):
    """The fake's disk is full."""


class Ticket:
    """A flush under way: up to where."""

    def __init__(self, upto: int) -> None:
        self.upto = upto


class FakeStore:
    """Offsets count units: every staged text is one long."""

    def __init__(self, *, sync_flush: bool = False) -> None:
        self.sync_flush = sync_flush
        self.staged: list[str] = []
        self.written: list[str] = []
        self.flushed_offset = 0
        self.dispatched = 0
        self.commits = 0
        self.commit_error: Exception | None = None
        self.sync_error: OSError | None = None
        self.synced: list[int] = []
        self.syncing = False
        self.flush_interval_ms = 500
        self.fenced = ""
        self.end_error: InvariantBroken | None = None
        self.sync_refusal: str | None = None
        self.dispatch_max: int | None = None
        """Units per dispatch at most, whatever is asked for: a slow disk."""

    @property
    def written_offset(self) -> int:
        return len(self.written)

    @property
    def undispatched(self) -> int:
        return len(self.written) - self.dispatched

    @property
    def dispatch_behind_bytes(self) -> int:
        return max((self.flushed_offset if self.sync_flush else len(self.written)) - self.dispatched, 0)

    def stage(self, text: str) -> int:
        """Reserve a place; the end offset that the unit will have."""
        self.staged.append(text)
        return len(self.written) + len(self.staged)

    def savepoint(self) -> int:
        return len(self.staged)

    def rollback_to(self, savepoint: int) -> None:
        del self.staged[savepoint:]

    def commit(self) -> None:
        staged, self.staged = self.staged, []
        if not staged:
            return
        self.commits += 1
        if self.commit_error is not None:
            raise self.commit_error
        self.written += staged

    def dispatch(self, wall_ms: int, limit: int, keys_max: int) -> list[str]:
        visible = self.flushed_offset if self.sync_flush else len(self.written)
        end = min(visible, self.dispatched + limit)
        if self.dispatch_max is not None:
            end = min(end, self.dispatched + self.dispatch_max)
        arrived = self.written[self.dispatched : end]
        self.dispatched = end
        return arrived

    def fence(self, broken: InvariantBroken) -> None:
        self.fenced = str(broken)

    def begin_sync(self, mono_ms: int, force: bool = False) -> Ticket | None:
        assert not self.syncing, "two flushes at once"
        if self.flushed_offset == len(self.written):
            return None
        self.syncing = True
        return Ticket(len(self.written))

    def sync(self, ticket: Ticket) -> None:
        """What the sync thread runs."""
        if self.sync_error is not None:
            raise self.sync_error
        self.synced.append(ticket.upto)

    def end_sync(self, ticket: Ticket, error: OSError | None) -> bool:
        self.syncing = False
        if self.end_error is not None:
            raise self.end_error
        if error is None:
            self.flushed_offset = ticket.upto
        return False

    def next_due(self, mono_ms: int) -> int:
        return mono_ms + self.flush_interval_ms

    def tick(self, mono_ms: int, wall_ms: int) -> None:
        pass
