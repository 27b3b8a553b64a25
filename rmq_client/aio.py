"""The same client for code on asyncio.

A thread runs the client's loop; a call here is a task there, and comes back with its result or its error.  Who is cancelled here
cancels that task and goes on when it has ended; where the client ends first, the caller gets `ClientClosed`.  An async listener
is a task of the loop that `push_consumer` was called in, and is cancelled when the consumer waits for it no more.  Nothing is
decided here: what a call does stands in the class of the same name in `rmq_client`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar

import trio

from rmq_client import client as core
from rmq_client.consuming.pulling import EVERYTHING, TOOLS_GROUP
from rmq_client.consuming.received import ReceivedMessage
from rmq_client.consuming.subscriptions import Subscription
from rmq_client.errors import ClientClosed
from rmq_client.faces import CLOSED, Face, LoopThread, Membership, PushConsumer
from rmq_client.producing.producer import SendHook
from rmq_wire.fastjson import MessageQueue

if TYPE_CHECKING:
    from rmq_client import groups as group_views
    from rmq_client.consuming.listening import Context, Listener, Outcome

__all__ = ["Client", "Groups", "Producer", "Puller", "PushConsumer", "Topics", "connect"]

T = TypeVar("T")
C = TypeVar("C")
P = ParamSpec("P")


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
            raise ClientClosed(CLOSED)
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
            self._tell(None, ClientClosed(CLOSED))

    async def _work(self) -> None:
        found: T | None = None
        wrong: Exception = ClientClosed(CLOSED)
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
        _soon_in(self._loop, self._settle, found, wrong)

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


async def _run(thread: LoopThread, call: Callable[[], Awaitable[T]], *, to_the_end: bool = False) -> T:
    """Run it there, wait for it here."""
    return await _Call(thread, call).result(to_the_end=to_the_end)


def _awaits(method: Callable[Concatenate[C, P], Awaitable[T]]) -> Callable[Concatenate[Face[C], P], Coroutine[Any, Any, T]]:
    """The method of the same name and shape."""

    @wraps(method)
    async def call(self: Face[C], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await _run(self._loop, partial(method, self._own, *args, **kwargs))

    return call


class _Listening:
    """An async listener as the client's loop calls it: it runs in the caller's."""

    def __init__(self, listener: Listener) -> None:
        self._listener: Any = listener
        self._loop = asyncio.get_running_loop()

    async def __call__(self, messages: Sequence[ReceivedMessage], context: Context) -> Outcome:
        return await _Heard(self._loop, partial(self._listener, messages, context)).outcome()


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
        if not _soon_in(self._loop, self._begin):
            raise ClientClosed("the loop of the listener is closed")
        try:
            await self._done.wait()
        except trio.Cancelled:
            with trio.CancelScope(shield=True):
                if _soon_in(self._loop, self._cancel):
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


class Producer(Face[core.Producer]):
    """As `rmq_client.producing.producer.Producer`."""

    send = _awaits(core.Producer.send)
    send_oneway = _awaits(core.Producer.send_oneway)
    send_batch = _awaits(core.Producer.send_batch)
    queues = _awaits(core.Producer.queues)


class Puller(Face[core.Puller]):
    """As `rmq_client.consuming.pulling.Puller`."""

    queues = _awaits(core.Puller.queues)
    pull = _awaits(core.Puller.pull)
    min_offset = _awaits(core.Puller.min_offset)
    max_offset = _awaits(core.Puller.max_offset)
    offset_at = _awaits(core.Puller.offset_at)
    earliest_store_time = _awaits(core.Puller.earliest_store_time)
    committed_offset = _awaits(core.Puller.committed_offset)
    commit_offset = _awaits(core.Puller.commit_offset)

    async def messages(
        self, queue: MessageQueue, offset: int | None = None, *, subscription: Subscription = EVERYTHING, hold_ms: int = 0
    ) -> AsyncIterator[ReceivedMessage]:
        """One after the other: with `hold_ms` for ever, else to the end."""
        reading = self._own.reading(queue, offset, subscription=subscription, hold_ms=hold_ms)
        while (found := await _run(self._loop, reading.next)) is not None:
            for message in found:
                yield message


class Topics(Face[core.Topics]):
    """As `rmq_client.topics.Topics`."""

    names = _awaits(core.Topics.names)
    show = _awaits(core.Topics.show)
    create = _awaits(core.Topics.create)
    delete = _awaits(core.Topics.delete)


class Groups(Face["group_views.Groups"]):
    """As `rmq_client.groups.Groups`."""

    async def names(self) -> list[str]:
        """Those that have consumed, in order, without those of RocketMQ itself."""
        return await _run(self._loop, self._own.names)

    async def lag(self, group: str, *, owners: bool = True) -> group_views.GroupLag:
        """How far behind it is.  owners: ask its members, too.  Raises `InvalidName`, `NetworkError`, `BrokerError`."""
        return await _run(self._loop, partial(self._own.lag, group, owners=owners))


class Client:
    """As `rmq_client.client.Client`; made by `connect`.  What is no coroutine waits for one turn of the client's loop."""

    def __init__(self, loop: LoopThread) -> None:
        self._loop = loop

    def producer(self, group: str, *, hooks: Sequence[SendHook] = (), **settings: Any) -> Producer:
        """A producer of this group.  Its hooks and selectors run in the client's thread."""
        return Producer(self._loop, self._loop.run_sync(partial(self._loop.client.producer, group, hooks=hooks, **settings)))

    def puller(self, group: str = TOOLS_GROUP) -> Puller:
        """Reads queues from any offset on."""
        return Puller(self._loop, self._loop.run_sync(partial(self._loop.client.puller, group)))

    @asynccontextmanager
    async def push_consumer(
        self, group: str, topics: Mapping[str, Subscription | str], listener: Listener, **settings: Any
    ) -> AsyncIterator[PushConsumer]:
        """Consumes these topics as a member of the group, for as long as the block lasts.

        listener: async, a task of this loop for each call; or a plain function, which runs in another thread.  settings: as of
        `rmq_client.client.Client.push_consumer`.  An error of the block comes out as it is.
        """
        from rmq_client.consuming.listening import is_async

        heard: Listener = _Listening(listener) if is_async(listener) else listener
        member = Membership(self._loop, group, topics, heard, settings)
        try:
            yield await _run(self._loop, member.join)
        finally:
            with suppress(ClientClosed):  # the client ended before: nobody is a member any more
                await _run(self._loop, member.leave, to_the_end=True)

    @property
    def topics(self) -> Topics:
        """Lists, shows, makes and deletes topics."""
        return Topics(self._loop, self._loop.client.topics)

    @property
    def groups(self) -> Groups:
        """Shows how far groups are behind, and who has their queues."""
        return Groups(self._loop, self._loop.run_sync(lambda: self._loop.client.groups))


@asynccontextmanager
async def connect(name_servers: str | Sequence[str] | None = None, **options: Any) -> AsyncIterator[Client]:
    """As `rmq_client.client.connect`."""
    loop = asyncio.get_running_loop()
    ready, ended = asyncio.Event(), asyncio.Event()

    def over() -> None:
        _soon_in(loop, ended.set)
        _soon_in(loop, ready.set)

    thread = LoopThread(lambda: _soon_in(loop, ready.set), over)
    thread.start(name_servers, options)
    try:
        await ready.wait()
        if not ended.is_set():
            yield Client(thread)
    finally:
        thread.end()
        await _to_the_end(ended)
        thread.join()


async def _to_the_end(event: asyncio.Event) -> None:
    """Wait for it, and be cancelled only then."""
    cancelled: asyncio.CancelledError | None = None
    while not event.is_set():
        try:
            await event.wait()
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled


def _soon_in(loop: asyncio.AbstractEventLoop, call: Callable[..., object], *arguments: object) -> bool:
    """Have a loop of another thread call this.  False: it is closed."""
    try:
        loop.call_soon_threadsafe(call, *arguments)
    except RuntimeError:
        return False
    return True
