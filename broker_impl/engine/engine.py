"""A server as a function of what arrived: no sockets, no trio, no threads, no clock of its own.

`turn` feeds received bytes to the peers' conversations, runs the handler of each complete request at once, commits what they
staged with one write, and hands out the answers.  `settle` then does what may follow them: dispatch to queues and index,
wake-ups, due deadlines, a slice of background tasks.  Whatever a peer sends can close that peer only; whatever a handler
raises is that request's answer only.  The hot path is `_take` and `_serve`: nothing happens there that an answer does not need.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

from broker_impl.engine.answers import LATER, SENDABLE, Answer, Durable, Pause, Refusal, Reply, Row
from broker_impl.engine.background_tasks import BackgroundTasks, Ended, Task
from broker_impl.engine.backlogs import Backlogs
from broker_impl.engine.call import Call, PendingAnswer
from broker_impl.engine.client_requests import PendingClientRequests, Then
from broker_impl.engine.commits import Commits, Committed, NoCommits, SavesLike, StoreLike
from broker_impl.engine.deadlines import Deadline
from broker_impl.engine.limits import Limits
from broker_impl.engine.loop import Loop, Mark
from broker_impl.engine.patience import Patience, is_late, late_reply
from broker_impl.engine.peer import Peer
from broker_impl.engine.router import Router
from broker_impl.engine.shares import Large, Shares
from broker_impl.engine.unhurried import Unhurried
from broker_impl.engine.watch import Watch
from broker_impl.env import Env
from rmq_net.log import plain_text
from rmq_net.service import Address, Buffer, Output
from rmq_wire.codes import ResponseCode
from rmq_wire.command import ONE_WAY, RESPONSE, Command, Unreadable
from rmq_wire.conversation import Conversation
from rmq_wire.declare import Request
from rmq_wire.errors import BadFrame

BUSY = "[REJECTREQUEST]system busy, start flow control for a while"
"""As `NettyRemotingAbstract` says it when a processor rejects requests."""
SERVED_WHENEVER = 1 << 62
"""Queued in a future that never comes: it did not wait for its turn but for a disk, and the clock that the end of a job finds is
that of the turn before."""


class _Held(Exception):
    """The peer has begun a background task that its next request must wait for."""


_NO_OUTPUT: tuple[Output, ...] = ()


class Engine:
    """A `rmq_net.service.Service`.  Build it, build the capabilities on it, then `install` their router.

    `store` is None for a name server.  `sync(ticket)` flushes what the store's ticket names; it runs on the shell's sync thread.
    """

    def __init__(
        self,
        env: Env,
        store: StoreLike | None = None,
        *,
        limits: Limits | None = None,
        sync_flush: bool = False,
        sync: Callable[[Any], None] | None = None,
        converse: Callable[[], Conversation] = Conversation,
    ) -> None:
        self.env = env
        self.limits = limits = limits or Limits()
        self.receive_bytes_max = limits.receive_bytes_max
        self.peers: dict[int, Peer] = {}
        self._loop = loop = Loop(env, limits)
        self.counters, self.emit, self.guard, self.job = loop.counters, loop.emit, loop.guard, loop.job
        self.take_jobs = loop.take_jobs
        self._buffers, self._deadlines = loop.buffers, loop.deadlines
        self._converse = converse
        self._rows: Mapping[int, Row] = {}
        self._listener_rows: dict[str, Mapping[int, Row]] = {}
        self._patience: Patience = {}
        self._peer_count = 0
        self._backlogs: Backlogs[Peer] = Backlogs()
        self.shares = Shares(limits, self._buffers, self._backlogs)
        self._client_requests = PendingClientRequests(loop)
        self._commits: NoCommits = NoCommits(loop)
        if store is not None:
            assert sync is not None, "a store needs somebody who flushes"
            self._commits = Commits(loop, store, sync_flush=sync_flush, sync=sync)
        self._tasks = BackgroundTasks(loop, self._commits)
        self._on_arrival: list[Callable[[Sequence[Any]], None]] = []
        self._on_peer_closed: list[Callable[[Peer], object]] = []
        self._draining = False
        self._served = 0  # requests, up to the end of the turn before
        self.saves: SavesLike | None = None
        self.touched: list[Any] = []  # tables that the handler which runs has changed; both are set by `saves.Saves`

    # For the composition root and the capabilities

    def install(
        self, router: Router, hidden: Mapping[str, frozenset[int]] | None = None, patience: Patience | None = None
    ) -> None:
        """Serve these codes.  `hidden`: listener name -> codes that it does not take.  `patience`: what waits too long gets 2."""
        self._rows = router.rows
        self._patience = patience or {}
        self._listener_rows = {name: router.without(codes) for name, codes in (hidden or {}).items()}

    def at(self, mono_ms: int, action: Callable[[], None]) -> Deadline:
        """Run `action` in the first turn at or after `mono_ms`.  The result can be cancelled."""
        return self._deadlines.at(mono_ms, action)

    def every(self, period_ms: int, action: Callable[[], None], *, first_ms: int | None = None) -> Deadline:
        """Run `action` again and again, first after `first_ms` (by default one period).  What it raises is logged."""
        return self._deadlines.at(self.env.mono_ms + (period_ms if first_ms is None else first_ms), action, period_ms)

    def on_arrival(self, then: Callable[[Sequence[Any]], None]) -> None:
        """Call `then(arrived)` whenever the store has made units visible to consumers."""
        self._on_arrival.append(then)

    def on_peer_closed(self, then: Callable[[Peer], object]) -> None:
        """Call `then(peer)` whenever a connection has gone."""
        self._on_peer_closed.append(then)

    def after_commit(self, then: Committed) -> None:
        """Call `then(None)` once what was staged in this turn is written, `then(error)` when it was undone."""
        self._commits.after_commit(then)

    @property
    def unhurried(self) -> Unhurried:
        """What is staged and may be dispatched with others that come."""
        return self._commits.unhurried

    def in_background(self, generator: Generator[Pause | None, None, Any], then: Ended | None = None) -> None:
        """Run a generator in slices of at most 0.5 ms; `then(result, error)` at its end."""
        self._tasks.add(Task(generator, ended=then))

    def ask(self, peer: Peer, request: Request, body: bytes = b"", *, timeout_ms: int, then: Then, counted: bool = True) -> None:
        """Ask a client.  `then(response)` runs in a later turn, with None when it did not answer in time or has gone.

        The response's body dies with that turn.  Not `counted`: the asker limits these itself, they take no place of others.
        Raises ValueError, and `then` hears nothing: the question fits into no frame.
        """
        self._client_requests.ask(peer, request, body, timeout_ms, then, counted=counted)

    def send_oneway(self, peer: Peer, request: Request, body: bytes = b"") -> None:
        """Send a client something that it does not answer."""
        self._client_requests.send_oneway(peer, request, body)

    def close(self, peer: Peer, why: str, *, level: int = logging.WARNING) -> None:
        """Close a connection at the end of this turn; what it was sent before still goes out."""
        if peer.closing is None and not peer.closed:
            self._buffers.touch(peer)
            peer.closing = why
            peer.backlog.clear()
            self.env.log.say(level, "%s:%d closed: %s", *peer.remote, why)

    # Service: what a shell calls

    def opened(self, remote: Address, local: Address, listener: str) -> Peer | None:
        """A connection was accepted.  None above `peers_max` and while draining."""
        self.env.refresh()
        if self._draining or len(self.peers) >= self.limits.peers_max:
            self.counters.peers_refused += 1
            self.env.log.warning("%s:%d refused: %d connections are open", *remote, len(self.peers))
            return None
        self._peer_count += 1
        rows = self._listener_rows.get(listener, self._rows)
        now, most = self.env.mono_ms, self.limits.output_bytes_max
        peer = Peer(
            self._peer_count, remote, local, listener, conversation=self._converse(), rows=rows, now_ms=now, output_bytes_max=most
        )
        self.peers[peer.id] = peer
        Watch(peer, self.limits).keep(self.at, self.close, self.env)
        return peer

    def closed(self, peer: Peer, why: str) -> None:
        """A connection has gone: whoever waits for it gets an error."""
        if not peer.closed:
            self.env.refresh()
            peer.closed = True
            self.peers.pop(peer.id, None)
            peer.backlog.clear()
            peer.write_buffer = []
            if peer.watching is not None:
                peer.watching.cancel()
            self._client_requests.abandon(peer)
            for then in self._on_peer_closed:
                self.guard(then, peer)

    def turn(self, arrived: Sequence[tuple[Peer, Buffer]]) -> Sequence[Output]:
        """Serve what arrived, commit, hand out the answers.  The buffers may be overwritten afterwards."""
        self.env.refresh()
        now = self.env.mono_ms
        self.touched.clear()  # by what nobody waits for
        shares = self.shares
        shares.weighing = True
        waiting = len(self._backlogs)
        if arrived or waiting:
            shares.begin(len(arrived), waiting)
        if waiting:
            self._serve_backlogs()
        for peer, data in arrived:
            if peer.closing is None and not peer.closed:
                peer.last_ms = now
                peer.received_bytes += len(data)
                try:
                    self._serve_some(peer, iter(peer.conversation.feed(data)))
                except BadFrame as why:
                    self.counters.bad_frames += 1
                    self.close(peer, str(why))
                except Exception as error:  # a bug in reading ends that connection, not the server
                    self._loop.bug(f"reading from {peer.remote[0]}:{peer.remote[1]}", error)
                    self.close(peer, "it cannot be read")
        shares.weighing = False
        self._commits.commit()
        self._commits.gather(more=bool(arrived or self._backlogs))
        return self._buffers.take(now) if self._buffers.dirty else _NO_OUTPUT

    def settle(self) -> Sequence[Output]:
        """Dispatch, wake-ups, deadlines, slices of background tasks; commits what these staged."""
        self.guard(self._dispatch)
        now = self.env.mono_ms
        if self._deadlines.are_due(now):
            for action in self._deadlines.due(now, self.limits.due_max):
                self.guard(action)
                if self.crowded:
                    break
        served, limits = self.counters.requests, self.limits
        if self._tasks.waiting:
            self._tasks.rotate(min(1 + (served - self._served) // limits.requests_per_task, limits.tasks_max))
        self._served = served
        self._commits.commit()
        return self._buffers.take(self.env.mono_ms) if self._buffers.dirty else _NO_OUTPUT

    def next_deadline(self) -> int | None:
        """When the next turn is due; now while anything is left to do."""
        commits = self._commits
        if self._tasks.waiting or self._buffers.dirty or commits.behind or commits.gathering:
            return self.env.mono_ms
        return self.env.mono_ms if self._backlogs.servable else self._deadlines.next()

    def drain(self) -> None:
        """Accept nobody, serve nothing new; answers that wait for the disk still leave."""
        self._draining = True

    @property
    def crowded(self) -> bool:
        """What may add much to the answers of this turn should wait."""
        return self.shares.crowded

    @property
    def drained(self) -> bool:
        """Nobody waits for an answer that can still come."""
        return not (self._buffers.dirty or self._commits.pending or (self.saves and self.saves.pending))

    # Requests

    def _serve_some(
        self,
        peer: Peer,
        commands: Iterator[Command | Unreadable],
        serve: Callable[[Peer, Command | Unreadable], None] | None = None,
    ) -> None:
        """Serve up to the cap; what is left goes to the backlog, as a copy, for the views die with the turn."""
        shares = self.shares
        allowed = left = shares.requests
        output_bytes_max = min(peer.output_bytes_max, peer.unsent_bytes + shares.bytes)
        serve, waits = serve or self._serve, shares.full()
        try:
            for command in commands:
                if waits and peer.wants_bulk(command):
                    self._keep(peer, chain((command,), commands))
                    break
                serve(peer, command)
                left -= 1
                if left == 0 or peer.unsent_bytes > output_bytes_max:
                    self._keep(peer, commands)
                    break
        except _Held:
            left -= 1
            self._keep(peer, commands)
            self._buffers.touch(peer)
        except Large:
            self._keep(peer, chain((command,), commands), large=True)
        served = allowed - left
        peer.frames += served
        self.counters.requests += served

    def _keep(self, peer: Peer, commands: Iterator[Command | Unreadable], *, large: bool = False) -> None:
        backlog = peer.backlog
        if not backlog:
            peer.queued_ms = self.env.mono_ms
        backlog.extend(command.kept() for command in commands)
        if backlog:
            self._backlogs.add(peer, large=large)
            self._buffers.touch(peer)

    def serve_again(self, peer: Peer, command: Command) -> None:
        """Serve a request that was put aside, before what its peer sent after it."""
        if peer.closing is None and not peer.closed:
            peer.queued_ms = SERVED_WHENEVER
            peer.backlog.appendleft(command)
            self._buffers.touch(peer)  # nothing newer of it is read before
            if len(peer.backlog) == 1:
                self._backlogs.add(peer)

    def _serve_backlogs(self) -> None:
        now = self.env.mono_ms

        def serve(peer: Peer) -> None:
            backlog, peer.backlog = peer.backlog, deque()
            queued = peer.queued_ms
            self._serve_some(peer, iter(backlog), partial(self._serve_late, now - queued) if queued < now else None)
            if peer.backlog and peer.queued_ms == now:
                peer.queued_ms = min(queued, now)
            self._buffers.touch(peer)

        peers_max, shares = self.limits.turn_backlogs_max, self.shares
        self._backlogs.serve(peers_max, shares.full, serve, now)
        shares.weighing = False
        shares.forget_work()
        self._backlogs.serve_large(peers_max, lambda: shares.crowded or shares.worked, serve, now)
        shares.weighing = True

    def _serve_late(self, waited_ms: int, peer: Peer, command: Command | Unreadable) -> None:
        """Serve what has waited in a backlog, unless for too long."""
        if not is_late(self._patience, command, waited_ms):
            self._serve(peer, command)
        elif not command.flag & ONE_WAY:
            self.emit(peer, command.opaque, command.form, late_reply(waited_ms, len(self._backlogs)))

    def _serve(self, peer: Peer, command: Command | Unreadable) -> None:
        if not isinstance(command, Command):
            self._answer_unreadable(peer, command)
            return
        flag = command.flag
        if flag & RESPONSE:
            self._client_requests.answered(peer, command)
            return
        row = peer.rows.get(command.code)
        if row is None:
            if not flag & ONE_WAY:
                remark = f" request type {command.code} not supported"
                self.emit(peer, command.opaque, command.form, Reply(code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=remark))
            return
        request, handle, stages, in_order, _, heavy_bytes = row
        if len(command.body) >= heavy_bytes:
            self.shares.one_heavy()
        commits = self._commits
        mark = commits.mark()
        answer: Answer
        try:
            if stages and commits.full:
                raise Refusal(ResponseCode.SYSTEM_BUSY, BUSY)
            answer = handle(Call(self._loop, peer, command), command.header(request))
        except Large:
            raise
        except Exception as error:
            commits.undo(mark, error)
            if self.saves is not None and self.saves.put_aside(peer, command, error):
                return
            answer = self._loop.excuse(error, peer, command.code)
        if self.touched and self.saves is not None and self.saves.rest(peer, command, answer, staged=commits.grown(mark)):
            return
        if answer.__class__ is Durable and not flag & ONE_WAY:
            commits.staged.append((peer, command.opaque, command.form, answer))
        elif isinstance(answer, SENDABLE):
            if not flag & ONE_WAY:
                commits.finish(peer, command.opaque, command.form, answer, mark)
        elif isinstance(answer, Generator):
            pending = PendingAnswer(self._loop.deliver, peer, command.opaque, command.form, bool(flag & ONE_WAY))
            self._tasks.add(Task(answer, pending))
            peer.tasks += 1
            if in_order or peer.tasks >= self.limits.tasks_of_peer_max:
                peer.held = True
                raise _Held
        elif answer is not LATER:
            self._no_answer(peer, command, mark)

    def _no_answer(self, peer: Peer, command: Command, mark: Mark) -> None:
        """The handler came to its end without an answer: a bug of ours, which the asker must not pay for by waiting."""
        error = TypeError(f"the handler of {command.code} answers nothing")
        self._commits.undo(mark, error)
        reply = self._loop.excuse(error, peer, command.code)
        if not command.flag & ONE_WAY:
            self.emit(peer, command.opaque, command.form, reply)

    def _answer_unreadable(self, peer: Peer, command: Unreadable) -> None:
        self.env.log.warning("%s:%d unreadable header: %s", *peer.remote, command.why)
        if not command.flag & (RESPONSE | ONE_WAY):
            self.emit(peer, command.opaque, command.form, Reply(code=ResponseCode.SYSTEM_ERROR, remark=plain_text(command.why)))

    # What follows

    def _dispatch(self) -> None:
        arrived = self._commits.dispatch()
        if arrived:
            for then in self._on_arrival:
                self.guard(then, arrived)
        limits = self.limits
        self.receive_bytes_max = limits.receive_bytes_lagging if self._commits.lagging else limits.receive_bytes_max
