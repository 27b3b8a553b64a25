"""A thread that runs the client on a trio loop of its own, and the way into it.

A thread and not trio's guest mode: heartbeats, answers to brokers and the renewal of locks go on while the caller's own loop or
thread is busy, and both faces have one way in.  Guest mode would hand every turn of the loop through a thread, too.
This module brings trio and the client in.  `connect` of a face imports it, so that who imports a face does not wait for them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import trio
import trio.from_thread

from rmq_client import client as core
from rmq_client.errors import ClientClosed

if TYPE_CHECKING:
    from rmq_client.consuming import push_consumer as consuming
    from rmq_client.consuming.listener import Listener
    from rmq_client.consuming.subscriptions import Subscription

T = TypeVar("T")
CLOSED: Final = "the client is closed"
FORKED: Final = "the client was made before this process was forked, and its thread is the parent's: connect anew in each process"


class LoopThread:
    """The thread.  Its client lives from `ready` until `end`; `failed`: what ended it, if anything did."""

    def __init__(self, on_ready: Callable[[], object], on_end: Callable[[], object]) -> None:
        """on_ready, on_end: called in the thread.  The first may be left out when the client cannot be made."""
        self.client: core.Client
        self.failed: BaseException | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        self._on_ready = on_ready
        self._on_end = on_end
        self._stop: trio.Event
        self._ending = False
        self._thread: threading.Thread
        self._pid = os.getpid()

    def start(self, name_servers: str | Sequence[str] | None, options: Mapping[str, Any]) -> None:
        """options: those of `rmq_client.client.connect`."""
        self._thread = threading.Thread(target=self._run, args=(name_servers, options), name="rmq-client", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:  # the machine has no more threads
            self.failed = error
            self._on_end()

    def _run(self, name_servers: str | Sequence[str] | None, options: Mapping[str, Any]) -> None:
        try:
            trio.run(self._main, name_servers, options)
        except BaseException as error:
            self.failed = error
        finally:
            self._on_end()

    async def _main(self, name_servers: str | Sequence[str] | None, options: Mapping[str, Any]) -> None:
        try:
            async with core.connect(name_servers, **options) as self.client:
                self._stop = trio.Event()
                self._token = trio.lowlevel.current_trio_token()
                if self._ending:
                    self._stop.set()
                self._on_ready()
                await self._stop.wait()
        except BaseException as error:
            self.failed = error
            if self._token is not None and not self._ending:  # whoever uses it may not look for a while
                self.client.log.error("the client has ended by itself, with all its producers and consumers", error=error)
            raise
        finally:
            self._token = None

    @property
    def is_here(self) -> bool:
        """The thread is this process's: a fork copies all but threads, and who waited for one would wait for ever."""
        return self._pid == os.getpid()

    @property
    def token(self) -> trio.lowlevel.TrioToken:
        """Raises `ClientClosed`."""
        if not self.is_here or self._token is None:
            raise self.closed
        return self._token

    @property
    def closed(self) -> ClientClosed:
        """For who calls all the same; it names the error that the client has ended with, if it has by itself."""
        if not self.is_here:
            return ClientClosed(FORKED)
        return ClientClosed(CLOSED if self.failed is None else f"{CLOSED}, since it ended with {self.failed!r}")

    def run_sync(self, call: Callable[[], T]) -> T:
        """Run what does not wait there, and wait for it here: as long as one turn of the loop."""
        try:
            return trio.from_thread.run_sync(call, trio_token=self.token)
        except (trio.RunFinishedError, trio.Cancelled):
            raise self.closed from None

    def soon(self, call: Callable[[], object]) -> bool:
        """Have it run there, and do not wait.  Whether it will be."""
        try:
            self.token.run_sync_soon(call)
        except (ClientClosed, trio.RunFinishedError):
            return False
        return True

    def end(self) -> None:
        """Have the client leave, also one that is not ready yet; `on_end` says when."""
        self._ending = True
        self.soon(lambda: self._stop.set())

    def join(self) -> None:
        """After `on_end`.  Raises what the loop ended with."""
        if self._thread.ident is not None:
            self._thread.join()
        if self.failed is not None:
            raise self.failed


class BlockingThread(LoopThread):
    """As the blocking face uses it."""

    def call(self, call: Callable[[], Awaitable[T]]) -> T:
        """Run it there, wait for it here."""
        try:
            return trio.from_thread.run(_awaited, call, trio_token=self.token)
        except (trio.RunFinishedError, trio.Cancelled):
            raise self.closed from None


async def _awaited(call: Callable[[], Awaitable[T]]) -> T:
    return await call()


class Membership:
    """A push consumer that runs in the loop's thread until it is told to leave."""

    def __init__(
        self,
        loop: LoopThread,
        group: str,
        topics: Mapping[str, Subscription | str],
        listener: Listener,
        settings: Mapping[str, Any],
    ) -> None:
        self._loop = loop
        self._make = partial(loop.client.push_consumer, group, topics, listener, **settings)
        self._stop: trio.Event | None = None
        self._ended: trio.Event

    async def join(self) -> consuming.PushConsumer:
        """In the loop's thread.  Whoever is cancelled here calls `leave` all the same."""
        self._stop, self._ended = trio.Event(), trio.Event()
        consumer: consuming.PushConsumer = await self._loop.client.nursery.start(self._consume)
        return consumer

    async def leave(self) -> None:
        """In the loop's thread: returns when the consumer has left its group."""
        if self._stop is not None:
            self._stop.set()
            await self._ended.wait()

    async def _consume(self, task_status: trio.TaskStatus[consuming.PushConsumer]) -> None:
        assert self._stop is not None
        try:
            async with self._make() as consumer:
                task_status.started(consumer)
                await self._stop.wait()
        finally:
            self._ended.set()
