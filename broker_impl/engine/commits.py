"""From staged to acknowledged: which answers wait for the log, which for the disk, and what they say when it fails.

Handlers stage units and return `Durable` answers.  At the end of a turn the store writes everything staged at once
(`commit`); only then do the answers leave.  Under SYNC_FLUSH they wait, ordered by the end offset that they need, until the
flushed offset has passed it (group commit: whatever arrived while one flush ran shares the next, and a flush begins only when a
turn has brought nothing more: those whom the last one let go ask again at once, and half a group costs as much as a whole one).
A failed commit or flush turns every answer that rested on it into an error; nothing is acknowledged that is not there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from broker_impl.engine.answers import Durable, Reply, Settled
from broker_impl.engine.deadlines import Deadline
from broker_impl.engine.loop import NOTHING_STAGED, Loop, Mark
from broker_impl.engine.peer import Peer
from broker_impl.engine.unhurried import Unhurried
from rmq_net.log import Log, plain_text
from rmq_net.service import Job
from rmq_store.errors import InvariantBroken
from rmq_wire.codes import ResponseCode
from rmq_wire.command import Command, Form
from rmq_wire.declare import Header

TICK_AFTER_ERROR_MS = 1_000
"""When the store cannot say when it is due, it is asked again so much later."""
ANSWERS_PER_STEP = 1_024
"""Of those that one flush lets go, or one failure ends: some 3 µs each.  The others leave in the next turns, in their order."""
NEXT_STEP_MS = 1
END_OF_TURN = -1
"""As `Durable.end_offset`: whatever the commit of this turn has written."""

Committed = Callable[[BaseException | None], None]


class StoreLike(Protocol):
    """What the engine needs of a store (`rmq_store.store.Store`)."""

    @property
    def undispatched(self) -> int: ...
    @property
    def dispatch_behind_bytes(self) -> int: ...
    @property
    def written_offset(self) -> int: ...
    @property
    def flushed_offset(self) -> int: ...
    def savepoint(self) -> int: ...
    def rollback_to(self, savepoint: int) -> None: ...
    def commit(self) -> None: ...
    def dispatch(self, wall_ms: int, limit: int, keys_max: int) -> Sequence[Any]: ...
    def fence(self, broken: InvariantBroken) -> None: ...
    def begin_sync(self, mono_ms: int, force: bool = False) -> Any: ...
    def end_sync(self, ticket: Any, error: OSError | None) -> bool: ...
    @property
    def sync_refusal(self) -> str | None: ...
    def next_due(self, mono_ms: int) -> int: ...
    def tick(self, mono_ms: int, wall_ms: int) -> None: ...


class SavesLike(Protocol):
    """What the engine needs of the tables' writes (`broker_impl.saves.Saves`)."""

    @property
    def pending(self) -> bool: ...
    def rest(self, peer: Peer, command: Command, answer: Any, *, staged: bool) -> bool: ...
    def put_aside(self, peer: Peer, command: Command, error: Exception) -> bool: ...


Unsent = tuple[Peer, int, Form, Durable]
"""For whom, the request's opaque and header form, and the answer.  A plain tuple: there is one per send."""


class NoCommits:
    """Of a server without a store: nothing is staged, every answer leaves at once."""

    def __init__(self, loop: Loop) -> None:
        self.env = loop.env
        self.emit = loop.emit
        self.unhurried = Unhurried(loop)
        self.staged: list[Unsent] = []
        loop.stagings = self

    @property
    def full(self) -> bool:
        """So many answers or bytes wait for the disk, or for queues and index, that nothing more is appended."""
        return False

    @property
    def pending(self) -> bool:
        """An answer is staged or waits for the disk."""
        return bool(self.staged)

    @property
    def gathering(self) -> bool:
        """A group waits for the next `gather`, and no flush is under way."""
        return False

    @property
    def behind(self) -> bool:
        """More could be dispatched at once: the last dispatch ended early, or something was committed after it."""
        return False

    @property
    def lagging(self) -> bool:
        """Dispatch has been behind for too long."""
        return False

    def mark(self) -> Mark:
        """Where things stand, for `undo` and `grown`."""
        return NOTHING_STAGED

    def grown(self, mark: Mark) -> bool:
        """Something was staged since."""
        return False

    def undo(self, mark: Mark, error: Exception) -> None:
        """Drop what was staged since; answers that rested on it become errors."""

    def after_commit(self, then: Committed) -> None:
        """Call `then(None)` when this turn's stagings are written, `then(error)` when they are undone."""
        raise TypeError("there is no store")

    def finish(self, peer: Peer, opaque: int, form: Form, answer: Settled | Durable, mark: Mark) -> None:
        """Send an answer, or stage it when it rests on something staged since `mark`, whether it says so or not."""
        if isinstance(answer, Durable):
            self.staged.append((peer, opaque, form, answer))
        elif self.grown(mark):
            self.staged.append((peer, opaque, form, Durable(answer, END_OF_TURN)))
        else:
            self.emit(peer, opaque, form, answer)

    def commit(self) -> None:
        """End of a turn: write what was staged, let go or hold back the answers."""
        staged, self.staged = self.staged, []
        for peer, opaque, form, durable in staged:
            self.emit(peer, opaque, form, durable.answer)

    def gather(self, *, more: bool) -> None:
        """Once a turn, after its commit: begin the flush of the group that waits, unless the turn brought `more` for it."""

    def dispatch(self) -> Sequence[Any]:
        """Make committed units visible: as many as were appended, and some of what was left, unless they have too many keys."""
        return ()


class Commits(NoCommits):
    """The staged answers of one store, and those that wait for the disk.  `sync(ticket)`, run by a thread, flushes."""

    def __init__(self, loop: Loop, store: StoreLike, *, sync_flush: bool, sync: Callable[[Any], None]) -> None:
        super().__init__(loop)
        self.loop = loop
        self.store = store
        self.deadlines = loop.deadlines
        self.limits = loop.limits
        self.guard = loop.guard
        self.sync_flush = sync_flush
        self.sync = sync
        self.waiting: deque[tuple[int, int, Unsent]] = deque()
        """(end offset needed, answer due, unsent): both numbers only grow."""
        self._after: list[Committed] = []
        self._syncing = False
        self._gathering = False
        """A group waits for its flush to begin."""
        self._gathered_turns = 0
        """Turns that have put off that beginning."""
        self._unflushed_bytes = 0
        """Appended behind a flush that is still under way."""
        self._left = 0
        """Units that the last dispatch did not reach, or left for a later one."""
        self._behind_since_ms: int | None = None
        self._behind_bytes = 0
        """What the last dispatch could have reached, and left for the next."""
        self._late: Deadline | None = None
        self._releasing = False
        """The next step of `_release` is due."""
        self._flush_error: BaseException | None = None
        """Why everybody who waited is being answered with an error, in steps."""
        self._flush_later()

    @property
    def full(self) -> bool:
        limits = self.limits
        return (
            len(self.waiting) >= limits.flush_waiting_max
            or self._unflushed_bytes > limits.unflushed_bytes_max
            or self._behind_bytes > limits.dispatch_behind_bytes_max
        )

    @property
    def pending(self) -> bool:
        return bool(self.staged or self.waiting)

    def mark(self) -> Mark:
        return self.store.savepoint(), len(self.staged), len(self._after)

    def grown(self, mark: Mark) -> bool:
        return self.store.savepoint() != mark[0]

    def undo(self, mark: Mark, error: Exception) -> None:
        savepoint, staged_count, after_count = mark
        if self.grown(mark):
            self.unhurried.undone()
        self.store.rollback_to(savepoint)
        dropped, self.staged[staged_count:] = self.staged[staged_count:], []
        for peer, opaque, form, durable in dropped:
            self.emit(peer, opaque, form, _failed(durable, error, self.env.log))
        after, self._after[after_count:] = self._after[after_count:], []
        for then in after:
            self.guard(then, error)

    def after_commit(self, then: Committed) -> None:
        self._after.append(then)

    def commit(self) -> None:
        error: Exception | None = None
        try:
            self.store.commit()
            if self.staged and self.staged[-1][3].end_offset > self.store.written_offset:
                broken = InvariantBroken("no answer rests on what is behind the log", str(self.staged[-1][3].end_offset))
                self.store.fence(broken)
                raise broken
        except Exception as why:
            self.env.log.error("append refused, %d answers become errors: %s", len(self.staged), why)
            error = why
            self.unhurried.undone()
        if self.staged:
            staged, self.staged = self.staged, []
            if error is not None:
                for peer, opaque, form, durable in staged:
                    self.emit(peer, opaque, form, _failed(durable, error, self.env.log))
            elif self.sync_flush:
                self._wait(staged)
            else:
                for peer, opaque, form, durable in staged:
                    self.emit(peer, opaque, form, durable.answer)
        if self._after:
            after, self._after = self._after, []
            for then in after:
                self.guard(then, error)
        if self._syncing:
            self._unflushed_bytes = self.store.written_offset - self.store.flushed_offset

    @property
    def gathering(self) -> bool:
        return self._gathering and not self._syncing

    def gather(self, *, more: bool) -> None:
        if not self._gathering or self._syncing:
            return
        if more and self._gathered_turns < self.limits.flush_gather_turns_max:
            self._gathered_turns += 1
        else:
            self.guard(lambda: self._begin(force=True))  # nothing of it may end the turn, and with it the server

    def dispatch(self) -> Sequence[Any]:
        store, limits = self.store, self.limits
        waiting = store.undispatched
        if not waiting:
            self._left, self._behind_since_ms, self._behind_bytes = 0, None, 0
            return ()
        if self.unhurried.count and self.unhurried.wait(waiting):
            self._left = waiting
            return ()
        units = min(max(waiting - self._left, limits.dispatch_units_min), limits.dispatch_units_max)
        arrived = store.dispatch(self.env.wall_ms, units, limits.dispatch_keys_max)
        self._left = store.undispatched
        moved = self._left and self._left < waiting
        self._behind_bytes = store.dispatch_behind_bytes if moved else 0
        if not self._behind_bytes:
            self._behind_since_ms = None  # what is left waits for the disk, not for us
        elif self._behind_since_ms is None:
            self._behind_since_ms = self.env.mono_ms
        return arrived

    @property
    def behind(self) -> bool:
        return self._behind_since_ms is not None or self.store.undispatched > self._left

    @property
    def lagging(self) -> bool:
        since = self._behind_since_ms
        return since is not None and self.env.mono_ms - since > self.limits.dispatch_lag_ms_max

    def _begin(self, *, force: bool) -> None:
        if force:
            self._gathering = False
        self._gathered_turns = 0
        ticket = self.store.begin_sync(self.env.mono_ms, force)
        if ticket is not None:
            self._syncing = True
            self.loop.job(Job("sync", lambda: self.sync(ticket), lambda _result, error: self._synced(ticket, error)))
        elif self.waiting and (why := self.store.sync_refusal) is not None:
            self._release(OSError(why))  # nobody who waits will ever be flushed
        elif force:
            self._release()

    def _synced(self, ticket: Any, error: BaseException | None) -> None:
        self._syncing = self._gathering = False
        self._unflushed_bytes = 0
        if error is None:
            try:
                self.store.end_sync(ticket, None)
            except InvariantBroken as broken:
                error = broken
        elif self.store.end_sync(ticket, error if isinstance(error, OSError) else OSError(str(error))):
            return  # it comes again by itself; who waits for it goes on waiting
        self._release(error)
        if error is None:
            self._gathering = bool(self.waiting) and self.waiting[-1][0] > self.store.flushed_offset

    def _wait(self, staged: list[Unsent]) -> None:
        due = self.env.mono_ms + self.limits.flush_wait_ms_max
        written, flushed = self.store.written_offset, self.store.flushed_offset
        for unsent in staged:
            peer, opaque, form, durable = unsent
            end = written if durable.end_offset == END_OF_TURN else durable.end_offset
            if durable.waits and end > flushed:
                self.waiting.append((end, due, unsent))
                self._gathering = True
            else:
                self.emit(peer, opaque, form, durable.answer)
        if self.waiting and self._late is None:
            self._late = self.deadlines.at(due, self._say_late)

    def _release(self, failed: BaseException | None = None) -> None:
        """Answer those whose end is flushed; all, when a flush has `failed`."""
        if failed is not None and self._flush_error is None:
            self.env.log.error("flush failed, nothing more is appended until a restart: %s", failed)
            self._flush_error = failed
        flushed = self.store.flushed_offset
        waiting = self.waiting
        error = self._flush_error
        left = ANSWERS_PER_STEP
        while waiting and (waiting[0][0] <= flushed or error is not None):
            if not left:
                if not self._releasing:
                    self._releasing = True
                    self.deadlines.at(self.env.mono_ms + NEXT_STEP_MS, self._release_more)
                return
            left -= 1
            end, _due, (peer, opaque, form, durable) = waiting.popleft()
            answer = durable.answer if end <= flushed or error is None else _failed(durable, error, self.env.log)
            self.emit(peer, opaque, form, answer)
        self._flush_error = None

    def _release_more(self) -> None:
        self._releasing = False
        self._release()

    def _say_late(self) -> None:
        self._late = None
        now = self.env.mono_ms
        flushed = self.store.flushed_offset
        left = 0 if self._flush_error is not None else ANSWERS_PER_STEP
        while left and self.waiting and self.waiting[0][1] <= now:
            left -= 1
            end, _due, (peer, opaque, form, durable) = self.waiting.popleft()
            self.emit(peer, opaque, form, durable.answer if end <= flushed else _late(durable, self.env.log))
        if self.waiting:
            self._late = self.deadlines.at(max(self.waiting[0][1], now + NEXT_STEP_MS), self._say_late)

    def _flush_when_due(self) -> None:
        try:
            self.store.tick(self.env.mono_ms, self.env.wall_ms)
            if not self._syncing:
                self._begin(force=False)
        finally:
            self._flush_later()

    def _flush_later(self) -> None:
        now = self.env.mono_ms
        due = now + TICK_AFTER_ERROR_MS
        try:
            due = max(self.store.next_due(now), now + 1)
        finally:
            self.deadlines.at(due, self._flush_when_due)


def _failed(durable: Durable, error: BaseException, log: Log) -> Settled:
    if durable.failed is not None:
        try:
            return durable.failed(error)
        except Exception as bug:
            log.error("the answer to a failed append cannot be made: %s", bug, error=bug)
    return Reply(code=ResponseCode.SERVICE_NOT_AVAILABLE, remark=f"service not available now: {plain_text(error)}")


def _late(durable: Durable, log: Log) -> Settled:
    """Java answers a late flush with the same header as a success, and the code alone says so (`SendMessageProcessor`)."""
    code = ResponseCode.FLUSH_DISK_TIMEOUT
    answer = durable.answer
    if durable.late is not None:
        try:
            return durable.late()
        except Exception as bug:
            log.error("the answer to a late flush cannot be made: %s", bug, error=bug)
    if isinstance(answer, Header):
        return Reply(header=answer, code=code)
    if isinstance(answer, Reply):
        return Reply(header=answer.header, code=code, remark=answer.remark, ext=answer.ext, body=answer.body)
    return Reply(code=code)
