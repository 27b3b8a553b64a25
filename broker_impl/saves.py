"""From a changed table to an acknowledged change: tables are written off the loop, and answers wait for their ticket.

A handler changes a table in memory and returns what it would answer.  At the end of the turn each table that changed is written
once: encoded in slices, then written and synced by a thread, while the loop goes on.  What changes meanwhile is gathered
for the next write (group commit, as `commits` does it for the log).  When a write has ended the answers leave that rest on it.
When it failed, every change that the disk does not have is taken back, newest first, and the answers become SYSTEM_ERROR.

A request that would store messages in a topic which is not on the disk yet is put aside before it stages anything and served
again when the topic is there (`Unsaved`): a topic that is taken back never had a message.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Generator
from functools import partial
from typing import Any, Protocol

from broker_impl.engine.answers import SENDABLE, Durable, Refusal, Reply, Settled, Unsaved, refusal_reply
from broker_impl.engine.commits import SavesLike
from broker_impl.engine.peer import Peer
from broker_impl.engine.slices import ROWS_PER_SLICE
from broker_impl.state.persisted import BUSY, PersistedTable, Persister
from rmq_net.log import Log, plain_text
from rmq_net.service import Job
from rmq_store.errors import InvariantBroken
from rmq_wire.codes import ResponseCode
from rmq_wire.command import Command, Form

THREAD = "tables"
"""Not the log's: a table of many megabytes must not hold up a group commit."""
ONE_WAY = 2

Fence = Callable[[InvariantBroken], None]
"""`Store.fence`."""
Then = Callable[[Refusal | None], None]
"""Called when the changes made so far are on the disk (None), or are taken back (what to answer)."""


class Loop(Protocol):
    """What is needed of the engine."""

    saves: SavesLike | None
    touched: list[Any]

    @property
    def emit(self) -> Callable[[Peer, int, Form, Settled], None]: ...
    def after_commit(self, then: Callable[[BaseException | None], None]) -> None: ...
    def in_background(
        self, generator: Generator[None, None, Any], then: Callable[[Any, BaseException | None], None] | None = None
    ) -> None: ...
    def job(self, job: Job) -> None: ...
    def guard(self, action: Callable[..., None], *arguments: object) -> None: ...
    def serve_again(self, peer: Peer, command: Command) -> None: ...


class Saves:
    """The writes of one broker's tables, and who waits for them: `waiting_max` answers and requests at most."""

    def __init__(self, loop: Loop, persister: Persister, log: Log, *, waiting_max: int, fence: Fence) -> None:
        self._loop = loop
        self._persister = persister
        self._log = log
        self._waiting_max = waiting_max
        self._fence = fence
        self.touched: list[PersistedTable] = []
        """What the handler that runs has changed, or leans on."""
        loop.saves, loop.touched = self, self.touched
        self._due: dict[PersistedTable, None] = {}
        """To be written, in this order."""
        self._gathering = False
        self._writing: set[PersistedTable] = set()
        self._on_thread: set[PersistedTable] = set()
        """Of these, those whose text is made."""
        self._waiting: dict[PersistedTable, deque[tuple[int, Then]]] = {table: deque() for table in persister.tables}
        """By table: (change that must be on the disk, who is called); the numbers only grow."""
        self._again: list[tuple[Peer, Command]] = []
        for table in persister.tables:
            table.on_dirty = self._changed
            table.when_saved = partial(self.when_saved, table)

    @property
    def pending(self) -> bool:
        """Somebody waits for the disk."""
        return any(self._waiting.values())

    @property
    def writing(self) -> frozenset[PersistedTable]:
        """Tables that a thread may be writing."""
        return frozenset(self._on_thread)

    def soon(self, table: PersistedTable) -> None:
        """Write the table after this turn, or right after the write of it that is under way."""
        self._due[table] = None
        if not self._gathering:
            self._gathering = True
            self._loop.after_commit(self._begin_due)

    def when_saved(self, table: PersistedTable, then: Then) -> None:
        """Call `then(None)` when all changes so far are on the disk; at once, when nothing is on its way there."""
        if self._pending(table):
            self._waiting[table].append((table.changes, then))
        else:
            then(None)

    def rest(self, peer: Peer, command: Command, answer: Any, *, staged: bool) -> bool:
        """Hold an answer back until what its handler touched is on the disk.  False: it is left to who asked, for it comes later
        anyhow, or rests on what was `staged`, which has been made sure of before (`Unsaved`).
        """
        tables = [table for table in self.touched if self._pending(table)]
        self.touched.clear()
        if staged or not isinstance(answer, SENDABLE):
            return False
        if command.flag & ONE_WAY:
            return True
        settled = answer.answer if isinstance(answer, Durable) else answer
        emit = partial(self._loop.emit, peer, command.opaque, command.form)
        if not tables:
            emit(settled)
        elif self._full:
            emit(Reply(code=ResponseCode.SYSTEM_BUSY, remark=BUSY))
        else:
            unsent = _Unsent(len(tables), settled, emit)
            for table in tables:
                self._waiting[table].append((table.changes, unsent.ended))
        return True

    def put_aside(self, peer: Peer, command: Command, error: Exception) -> bool:
        """Have a request that ended in `Unsaved` served again when the table is on the disk.  False: it ended otherwise."""
        if not isinstance(error, Unsaved):
            return False
        self.touched.clear()
        if self._full:
            self._refuse(peer, command, Reply(code=ResponseCode.SYSTEM_BUSY, remark=BUSY))
        else:
            error.table.when_saved(partial(self._serve_again, peer, command.kept()))
        return True

    @property
    def _full(self) -> bool:
        return sum(map(len, self._waiting.values())) >= self._waiting_max

    def _pending(self, table: PersistedTable) -> bool:
        return table in self._due or table in self._writing

    def _changed(self, table: PersistedTable) -> None:
        if table not in self.touched:
            self.touched.append(table)
        self.soon(table)

    def _begin_due(self, _error: BaseException | None) -> None:
        self._gathering = False
        for table in [table for table in self._due if table not in self._writing]:
            self._begin(table)

    def _begin(self, table: PersistedTable) -> None:
        self._due.pop(table, None)
        self._writing.add(table)
        self._loop.in_background(self._persister.slices(table), partial(self._encoded, table))

    def _encoded(self, table: PersistedTable, chunks: list[bytes] | None, error: BaseException | None) -> None:
        if error is not None or chunks is None:
            self._ended(table, None, error)
        else:
            self._on_thread.add(table)
            self._loop.job(Job(THREAD, partial(self._persister.write, table, chunks), partial(self._ended, table)))

    def _ended(self, table: PersistedTable, _result: object, error: BaseException | None) -> None:
        self._on_thread.discard(table)
        if error is None:
            try:
                table.check_written()
            except InvariantBroken as broken:
                error = broken
                self._fence(broken)
        waiting, no = self._waiting[table], None
        if error is None:
            count = bisect_right(waiting, table.in_writing, key=lambda one: one[0])
        else:
            said = f"{table.file} could not be written: {plain_text(error)}"
            self._log.error("%s; %d changes are taken back", said, table.take_back())
            count, no = len(waiting), Refusal(ResponseCode.SYSTEM_ERROR, said)
        if count <= ROWS_PER_SLICE:
            self._answer(waiting, count, no)
            self._go_on(table, no)
        else:
            self._loop.in_background(self._answer_in_slices(waiting, count, no), lambda *_: self._go_on(table, no))

    def _answer_in_slices(self, waiting: deque[tuple[int, Then]], count: int, no: Refusal | None) -> Generator[None, None, None]:
        """Until its end the table counts as being written: who comes meanwhile waits behind those who are here."""
        for at in range(0, count, ROWS_PER_SLICE):
            self._answer(waiting, min(ROWS_PER_SLICE, count - at), no)
            yield

    def _answer(self, waiting: deque[tuple[int, Then]], count: int, no: Refusal | None) -> None:
        for _ in range(count):
            self._loop.guard(waiting.popleft()[1], no)

    def _go_on(self, table: PersistedTable, no: Refusal | None) -> None:
        """Everybody whom this write concerned is answered."""
        self._writing.discard(table)
        waiting = self._waiting[table]
        if no is None:
            table.written()
            while waiting and waiting[0][0] <= table.written_changes:  # came meanwhile, and changed nothing
                self._loop.guard(waiting.popleft()[1], None)
            if not table.dirty:
                self._due.pop(table, None)
        if self._again:
            again, self._again = self._again, []
            for peer, command in reversed(again):
                self._loop.serve_again(peer, command)
        if table in self._due or waiting:
            self._begin(table)

    def _serve_again(self, peer: Peer, command: Command, no: Refusal | None) -> None:
        if no is None:
            self._again.append((peer, command))
        else:
            self._refuse(peer, command, refusal_reply(no))

    def _refuse(self, peer: Peer, command: Command, reply: Reply) -> None:
        if not command.flag & ONE_WAY:
            self._loop.emit(peer, command.opaque, command.form, reply)


class _Unsent:
    """An answer that rests on one table or more."""

    __slots__ = ("_answer", "_emit", "_left")

    def __init__(self, left: int, answer: Settled, emit: Callable[[Settled], None]) -> None:
        self._left = left
        self._answer = answer
        self._emit = emit

    def ended(self, no: Refusal | None) -> None:
        if self._left <= 0:
            return  # refused already
        self._left = 0 if no is not None else self._left - 1
        if self._left == 0:
            self._emit(self._answer if no is None else refusal_reply(no))
