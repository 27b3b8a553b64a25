"""Between the client's loop in its thread and the asyncio loop of the caller: calls one way, listeners the other.

A call is a task of the client's loop.  Who is cancelled here cancels that task and goes on when it has ended; where the client
ends first, the caller gets `ClientClosed`.  A call of an async listener is a task of the caller's loop, and is cancelled when the
consumer waits for it no more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import trio

from rmq_client.consuming.listening import failure
from rmq_client.errors import ClientClosed
from rmq_client.faces.loop_thread import LoopThread

if TYPE_CHECKING:
    from rmq_client.consuming.listener import Context, Listener, Outcome
    from rmq_client.consuming.received import ReceivedMessage

T = TypeVar("T")


class AsyncioThread(LoopThread):
    """As the asyncio face uses it."""

    async def call(self, call: Callable[[], Awaitable[T]], *, to_the_end: bool = False) -> T:
        """Run it there, wait for it here; `to_the_end`: also who is cancelled."""
        return await _Call(self, call).result(to_the_end=to_the_end)


class _Call(Generic[T]):
    """A task of the client's loop that a task of the caller's waits for."""

    def __init__(self, thread: LoopThread, call: Callable[[], Awaitable[T]]) -> None:
        self._thread = thread
        self._call = call
        self._loop = asyncio.get_running_loop()
        self._answer: asyncio.Future[T] = self._loop.create_future()
        self._scope = trio.CancelScope()
        self._ended = False
        self._waiter: asyncio.Future[None] | None = None

    async def result(self, *, to_the_end: bool) -> T:
        """What comes of it.  Who is cancelled cancels it, unless it must go `to_the_end`, and is cancelled when it has ended."""
        if not self._thread.soon(self._begin):
            raise self._thread.closed
        try:
            return await self._answer
        except asyncio.CancelledError:
            if not self._ended and not to_the_end:
                self._thread.soon(self._scope.cancel)
            while not self._ended:
                self._waiter = self._loop.create_future()
                try:
                    await self._waiter
                except asyncio.CancelledError:  # asked for once more; it is under way
                    continue
            raise

    # In the client's thread

    def _begin(self) -> None:
        try:
            self._thread.client.nursery.start_soon(self._work)
        except RuntimeError:  # the nursery has ended
            self._tell(None, self._thread.closed)

    async def _work(self) -> None:
        found: T | None = None
        wrong: Exception = self._thread.closed
        came = False
        try:
            with self._scope:
                try:
                    found = await self._call()
                    came = True
                except Exception as error:
                    wrong = error
        finally:
            self._tell(found, None if came else wrong)

    def _tell(self, found: T | None, wrong: Exception | None) -> None:
        soon_in(self._loop, self._settle, found, wrong)

    # In the caller's

    def _settle(self, found: Any, wrong: Exception | None) -> None:
        self._ended = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
        if self._answer.done():
            return
        if wrong is None:
            self._answer.set_result(found)
        else:
            self._answer.set_exception(wrong)


class ListenerHere:
    """An async listener as the client's loop calls it: it runs in the loop that this was made in."""

    def __init__(self, listener: Listener) -> None:
        self._listener: Any = listener
        self._loop = asyncio.get_running_loop()

    async def __call__(self, messages: Sequence[ReceivedMessage], context: Context) -> Outcome:
        return await _Heard(self._loop, partial(self._heard, messages, context)).outcome()

    async def _heard(self, messages: Sequence[ReceivedMessage], context: Context) -> Outcome:
        try:
            outcome: Outcome = await self._listener(messages, context)
        except BaseException as raised:  # asyncio would have an exit end the whole loop
            failed = failure(raised)
            if failed is None or failed is raised:
                raise
            raise failed from raised
        return outcome


class _Heard:
    """One call of a listener: a task of the caller's loop that a task of the client's waits for."""

    def __init__(self, loop: asyncio.AbstractEventLoop, call: Callable[[], Coroutine[Any, Any, Outcome]]) -> None:
        self._loop = loop
        self._call = call
        self._token = trio.lowlevel.current_trio_token()
        self._done = trio.Event()
        self._task: asyncio.Task[Outcome] | None = None
        self._cancelled = False

    async def outcome(self) -> Outcome:
        """What it returned.  Raises what it raised."""
        if not soon_in(self._loop, self._begin):
            raise ClientClosed("the loop of the listener is closed")
        try:
            await self._done.wait()
        except trio.Cancelled:
            with trio.CancelScope(shield=True):
                if soon_in(self._loop, self._cancel):
                    await self._done.wait()
            raise
        assert self._task is not None
        if self._task.cancelled():
            raise ClientClosed("the listener was cancelled")
        return self._task.result()

    def _begin(self) -> None:
        if self._cancelled:
            self._token.run_sync_soon(self._done.set)
            return
        self._task = self._loop.create_task(self._call())
        self._task.add_done_callback(self._tell)

    def _cancel(self) -> None:
        self._cancelled = True
        if self._task is not None:
            self._task.cancel()

    def _tell(self, task: asyncio.Task[Outcome]) -> None:
        if not task.cancelled():
            task.exception()  # it is told to the consumer: asyncio need not complain that nobody looked
        try:
            self._token.run_sync_soon(self._done.set)
        except trio.RunFinishedError:
            pass


async def to_the_end(event: asyncio.Event) -> None:
    """Wait for it, and be cancelled only then."""
    cancelled: asyncio.CancelledError | None = None
    while not event.is_set():
        try:
            await event.wait()
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled


def soon_in(loop: asyncio.AbstractEventLoop, call: Callable[..., object], *arguments: object) -> bool:
    """Have a loop of another thread call this.  False: it is closed."""
    try:
        loop.call_soon_threadsafe(call, *arguments)
    except RuntimeError:
        return False
    return True
