"""The same client for code that knows no async: scripts, Django, tests.

A thread runs the client's loop; a call here runs there and comes back with its result or its error.  Any number of threads may
call at once.  Nothing is decided here: what a call does stands in the class of the same name in `rmq_client`.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import trio
import trio.from_thread

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
    from rmq_client.consuming.listening import Listener

__all__ = ["Client", "Groups", "Producer", "Puller", "PushConsumer", "Topics", "connect"]

T = TypeVar("T")
C = TypeVar("C")
P = ParamSpec("P")


def _run(loop: LoopThread, call: Callable[[], Awaitable[T]]) -> T:
    """Run it there, wait for it here."""
    try:
        return trio.from_thread.run(_awaited, call, trio_token=loop.token)
    except (trio.RunFinishedError, trio.Cancelled):
        raise ClientClosed(CLOSED) from None


async def _awaited(call: Callable[[], Awaitable[T]]) -> T:
    return await call()


def _waits(method: Callable[Concatenate[C, P], Awaitable[T]]) -> Callable[Concatenate[Face[C], P], T]:
    """The method of the same name and shape; the caller's thread waits for it."""

    @wraps(method)
    def call(self: Face[C], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return _run(self._loop, partial(method, self._own, *args, **kwargs))

    return call


class Producer(Face[core.Producer]):
    """As `rmq_client.producing.producer.Producer`."""

    send = _waits(core.Producer.send)
    send_oneway = _waits(core.Producer.send_oneway)
    send_batch = _waits(core.Producer.send_batch)
    queues = _waits(core.Producer.queues)


class Puller(Face[core.Puller]):
    """As `rmq_client.consuming.pulling.Puller`."""

    queues = _waits(core.Puller.queues)
    pull = _waits(core.Puller.pull)
    min_offset = _waits(core.Puller.min_offset)
    max_offset = _waits(core.Puller.max_offset)
    offset_at = _waits(core.Puller.offset_at)
    earliest_store_time = _waits(core.Puller.earliest_store_time)
    committed_offset = _waits(core.Puller.committed_offset)
    commit_offset = _waits(core.Puller.commit_offset)

    def messages(
        self, queue: MessageQueue, offset: int | None = None, *, subscription: Subscription = EVERYTHING, hold_ms: int = 0
    ) -> Iterator[ReceivedMessage]:
        """One after the other: with `hold_ms` for ever, else to the end."""
        reading = self._own.reading(queue, offset, subscription=subscription, hold_ms=hold_ms)
        while (found := _run(self._loop, reading.next)) is not None:
            yield from found


class Topics(Face[core.Topics]):
    """As `rmq_client.topics.Topics`."""

    names = _waits(core.Topics.names)
    show = _waits(core.Topics.show)
    create = _waits(core.Topics.create)
    delete = _waits(core.Topics.delete)


class Groups(Face["group_views.Groups"]):
    """As `rmq_client.groups.Groups`."""

    def names(self) -> list[str]:
        """Those that have consumed, in order, without those of RocketMQ itself."""
        return _run(self._loop, self._own.names)

    def lag(self, group: str, *, owners: bool = True) -> group_views.GroupLag:
        """How far behind it is.  owners: ask its members, too.  Raises `InvalidName`, `NetworkError`, `BrokerError`."""
        return _run(self._loop, partial(self._own.lag, group, owners=owners))


class Client:
    """As `rmq_client.client.Client`; made by `connect`."""

    def __init__(self, loop: LoopThread) -> None:
        self._loop = loop

    def producer(self, group: str, *, hooks: Sequence[SendHook] = (), **settings: Any) -> Producer:
        """A producer of this group.  Its hooks and selectors run in the client's thread."""
        return Producer(self._loop, self._loop.run_sync(partial(self._loop.client.producer, group, hooks=hooks, **settings)))

    def puller(self, group: str = TOOLS_GROUP) -> Puller:
        """Reads queues from any offset on."""
        return Puller(self._loop, self._loop.run_sync(partial(self._loop.client.puller, group)))

    @contextmanager
    def push_consumer(
        self, group: str, topics: Mapping[str, Subscription | str], listener: Listener, **settings: Any
    ) -> Iterator[PushConsumer]:
        """Consumes these topics as a member of the group, for as long as the block lasts; the listener runs in other threads.

        settings: as of `rmq_client.client.Client.push_consumer`.  An error of the block comes out as it is.
        """
        member = Membership(self._loop, group, topics, listener, settings)
        try:
            yield _run(self._loop, member.join)
        finally:
            with suppress(ClientClosed):  # the client ended before: nobody is a member any more
                _run(self._loop, member.leave)

    @property
    def topics(self) -> Topics:
        """Lists, shows, makes and deletes topics."""
        return Topics(self._loop, self._loop.client.topics)

    @property
    def groups(self) -> Groups:
        """Shows how far groups are behind, and who has their queues."""
        return Groups(self._loop, self._loop.run_sync(lambda: self._loop.client.groups))


@contextmanager
def connect(name_servers: str | Sequence[str] | None = None, **options: Any) -> Iterator[Client]:
    """As `rmq_client.client.connect`, for a `with` block."""
    ready, ended = threading.Event(), threading.Event()

    def over() -> None:
        ended.set()
        ready.set()

    loop = LoopThread(ready.set, over)
    loop.start(name_servers, options)
    ready.wait()
    if ended.is_set():
        loop.join()
    try:
        yield Client(loop)
    finally:
        loop.end()
        ended.wait()
        loop.join()
