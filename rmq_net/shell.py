"""One trio task that serves all accepted connections through an epoll of its own.

trio sees a single descriptor, the epoll's: waiting costs one `wait_readable` per wake-up however many sockets are ready, and
nothing per request.  While work keeps coming the task looks again before it waits, for a moment if somebody was just answered
(`Patience`), with a checkpoint each millisecond for everybody else.  Threads that finish a job wake the loop by an
eventfd in the same epoll.  A deadline is a cancel scope round many waits, moved only when an earlier one comes up.  Linux only;
elsewhere, and by a switch, `streams` does the same.
"""

from __future__ import annotations

import math
import os
import select
import socket
import time
from collections.abc import Sequence
from typing import Any

import trio

from rmq_net.patience import NS_PER_MS, Patience
from rmq_net.reactor import Poller, Reactor, Tuning
from rmq_net.service import Address, Service
from rmq_net.worker_threads import WorkerThreads

BACKLOG = 1024
"""Connections that wait to be accepted, as Java's serverSocketBacklog."""
OTHERS_NS = NS_PER_MS
"""Where it is alone, other tasks of trio's have a turn after so long at the latest, while something is always ready."""


class Shell:
    """Serves one service on any number of listening sockets.  `serve` runs until `stop`, or until it is cancelled.

    `alone`: no other task of this trio loop is in a hurry.  Only then does it wait in the kernel by itself, and pass over others'
    turns: both save CPU, and make each await of another task, or a request to another shell, take a millisecond or two.
    """

    def __init__(
        self,
        service: Service[Any],
        listeners: Sequence[tuple[socket.socket, str]],
        *,
        tuning: Tuning | None = None,
        alone: bool = False,
    ) -> None:
        self._epoll = select.epoll()
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._workers = WorkerThreads(self.wake)
        poller: Poller = self._epoll
        self._reactor = Reactor(service, poller, self._workers.start, tuning=tuning)
        self._reactor.wake_by(self._wake_fd, self._woken)
        for sock, name in listeners:
            self._reactor.listen(sock, name)
        self._scope: trio.CancelScope | None = None
        self._patience = Patience(self._reactor.poll, time.monotonic_ns, os.sched_yield, may_wait=alone)
        self._others_ns = OTHERS_NS if alone else 0

    def stop(self) -> None:
        """Stop in order: `serve` returns once every pending answer has been sent.  Call it from the trio thread."""
        self._reactor.stop()
        self.wake()

    async def serve(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve.  Every socket, thread and descriptor is gone when this returns or is cancelled."""
        try:
            task_status.started()
            while not self._reactor.stopped:
                with trio.CancelScope() as scope:
                    await self._serve_until(scope)
        finally:
            self._reactor.close()
            self._workers.stop()
            self._workers.finish()
            self._epoll.close()
            os.close(self._wake_fd)

    async def _serve_until(self, scope: trio.CancelScope) -> None:
        """Serve until the armed deadline has passed (the scope ends the wait) or the reactor has stopped."""
        reactor, patience, pause_ns = self._reactor, self._patience, self._others_ns
        armed_ms: float = math.inf
        checkpoint, wait_readable, now_ns = trio.lowlevel.checkpoint, trio.lowlevel.wait_readable, time.monotonic_ns
        fd = self._epoll.fileno()
        events = reactor.poll()
        others_ns, has_turned = now_ns(), False
        while not reactor.stopped:
            deadline_ms, now = reactor.next_deadline(), now_ns()
            is_due = deadline_ms is not None and deadline_ms * NS_PER_MS <= now
            if has_turned:
                events = patience.poll(deadline_ms, now)
            if events or is_due:
                if has_turned and now - others_ns >= pause_ns:
                    await checkpoint()
                    others_ns = now_ns()
                reactor.turn(events)
                has_turned = True
            else:
                if deadline_ms is not None and deadline_ms < armed_ms:
                    armed_ms = deadline_ms
                    scope.deadline = trio.current_time() + (deadline_ms - time.monotonic_ns() / NS_PER_MS) / 1e3
                await wait_readable(fd)
                events, others_ns, has_turned = reactor.poll(), now_ns(), False

    def wake(self) -> None:
        """From any thread: there is something to do, take a turn."""
        os.eventfd_write(self._wake_fd, 1)

    def _woken(self) -> None:
        try:
            os.eventfd_read(self._wake_fd)
        except BlockingIOError:
            pass
        self._workers.finish()


def bind(host: str, port: int, backlog: int = BACKLOG) -> socket.socket:
    """A listening, non-blocking socket.  Port 0 picks a free one.  Raises `OSError` when the address is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(backlog)
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock


def bound_to(sock: socket.socket) -> Address:
    """Where a socket listens."""
    name = sock.getsockname()
    return str(name[0]), int(name[1])
