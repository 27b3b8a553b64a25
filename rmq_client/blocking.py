"""The same client for code that knows no async: scripts, Django, tests.

A thread runs the client's loop; a call here runs there and comes back with its result or its error.  Any number of threads may
call at once.  Nothing is decided here: what a call does stands in the class of the same name in `rmq_client`.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import trio
import trio.from_thread

from rmq_client import client as core
from rmq_client.consuming import push_consumer as consuming
from rmq_client.consuming.listening import Listener
from rmq_client.consuming.pulling import EVERYTHING, TOOLS_GROUP, PullResult
from rmq_client.consuming.subscriptions import Subscription
from rmq_client.errors import ClientClosed
from rmq_client.messages import Message, SendResult
from rmq_client.producing.producer import SendHook
from rmq_client.producing.selectors import Selector
from rmq_client.topics import TopicState
from rmq_wire.bodies.topics import PERM_READ, PERM_WRITE
from rmq_wire.fastjson import MessageQueue

T = TypeVar("T")


class _Loop:
    """The thread, and the way into it."""

    def __init__(self) -> None:
        self.token: trio.lowlevel.TrioToken | None = None
        self.client: core.Client
        self.failed: BaseException | None = None
        self.ready = threading.Event()
        self.stop: trio.Event
        self.thread: threading.Thread

    async def main(self, name_servers: str | Sequence[str] | None, options: Mapping[str, Any]) -> None:
        async with core.connect(name_servers, **options) as self.client:
            self.stop = trio.Event()
            self.token = trio.lowlevel.current_trio_token()
            self.ready.set()
            await self.stop.wait()
        self.token = None

    def thread_main(self, name_servers: str | Sequence[str] | None, options: Mapping[str, Any]) -> None:
        try:
            trio.run(self.main, name_servers, options)
        except BaseException as error:
            self.failed = error
        finally:
            self.token = None
            self.ready.set()

    def run(self, call: Callable[[], Awaitable[T]]) -> T:
        """Run it there, wait for it here."""
        if self.token is None:
            raise ClientClosed("the client is closed")
        try:
            return trio.from_thread.run(_awaited, call, trio_token=self.token)
        except (trio.RunFinishedError, trio.Cancelled):
            raise ClientClosed("the client is closed") from None

    def end(self) -> None:
        """Leave the client's block, and wait until its thread has ended."""
        if self.token is not None:
            try:
                trio.from_thread.run_sync(self.stop.set, trio_token=self.token)
            except trio.RunFinishedError:
                pass
        self.thread.join()
        if self.failed is not None:
            raise self.failed


async def _awaited(call: Callable[[], Awaitable[T]]) -> T:
    return await call()


class Producer:
    """As `rmq_client.producing.producer.Producer`."""

    def __init__(self, loop: _Loop, producer: core.Producer) -> None:
        self._loop = loop
        self._producer = producer

    def send(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        select: Selector | None = None,
        order_key: str | int | None = None,
        timeout_ms: int | None = None,
    ) -> SendResult:
        """Send one message and wait until a broker has it."""
        send = self._producer.send
        return self._loop.run(lambda: send(message, queue=queue, select=select, order_key=order_key, timeout_ms=timeout_ms))

    def send_oneway(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        select: Selector | None = None,
        order_key: str | int | None = None,
        timeout_ms: int | None = None,
    ) -> None:
        """Send one message and do not wait for an answer."""
        send = self._producer.send_oneway
        self._loop.run(lambda: send(message, queue=queue, select=select, order_key=order_key, timeout_ms=timeout_ms))

    def send_batch(
        self, messages: Sequence[Message], *, queue: MessageQueue | None = None, timeout_ms: int | None = None
    ) -> list[SendResult]:
        """Send messages of one topic in as few requests as may be."""
        send = self._producer.send_batch
        return self._loop.run(lambda: send(messages, queue=queue, timeout_ms=timeout_ms))

    def queues(self, topic: str) -> list[MessageQueue]:
        """Those that may be sent to."""
        return self._loop.run(lambda: self._producer.queues(topic))


class PushConsumer:
    """As `rmq_client.consuming.push_consumer.PushConsumer`."""

    def __init__(self, loop: _Loop, consumer: consuming.PushConsumer) -> None:
        self._loop = loop
        self._consumer = consumer

    @property
    def queues(self) -> list[MessageQueue]:
        """Those that are this member's now."""

        async def look() -> list[MessageQueue]:
            return self._consumer.queues

        return self._loop.run(look)

    def set_consume_thread_max(self, most: int) -> None:
        """How many listeners work at once."""

        async def change() -> None:
            self._consumer.consume_thread_max = most

        self._loop.run(change)

    def pause(self) -> None:
        """Pull nothing more; what is here goes on."""

        async def pause() -> None:
            self._consumer.pause()

        self._loop.run(pause)

    def resume(self) -> None:
        """Pull again."""

        async def resume() -> None:
            self._consumer.resume()

        self._loop.run(resume)


class Puller:
    """As `rmq_client.consuming.pulling.Puller`."""

    def __init__(self, loop: _Loop, puller: core.Puller) -> None:
        self._loop = loop
        self._puller = puller

    def queues(self, topic: str) -> list[MessageQueue]:
        """Those that may be read."""
        return self._loop.run(lambda: self._puller.queues(topic))

    def pull(
        self,
        queue: MessageQueue,
        offset: int,
        *,
        subscription: Subscription = EVERYTHING,
        max_messages: int = 32,
        hold_ms: int = 0,
        timeout_ms: int | None = None,
    ) -> PullResult:
        """Read from this offset on."""
        pull = self._puller.pull
        return self._loop.run(
            lambda: pull(
                queue,
                offset,
                subscription=subscription,
                max_messages=max_messages,
                hold_ms=hold_ms,
                timeout_ms=timeout_ms,
            )
        )

    def min_offset(self, queue: MessageQueue) -> int:
        """The offset of its oldest message."""
        return self._loop.run(lambda: self._puller.min_offset(queue))

    def max_offset(self, queue: MessageQueue) -> int:
        """The offset that its next message will have."""
        return self._loop.run(lambda: self._puller.max_offset(queue))

    def offset_at(self, queue: MessageQueue, wall_ms: int) -> int:
        """The offset of the first message stored at this time or later."""
        return self._loop.run(lambda: self._puller.offset_at(queue, wall_ms))

    def earliest_store_time(self, queue: MessageQueue) -> int | None:
        """When its oldest message was stored."""
        return self._loop.run(lambda: self._puller.earliest_store_time(queue))

    def committed_offset(self, queue: MessageQueue) -> int | None:
        """The offset that the group consumes next."""
        return self._loop.run(lambda: self._puller.committed_offset(queue))

    def commit_offset(self, queue: MessageQueue, offset: int) -> None:
        """Say that the group has consumed all before this offset."""
        self._loop.run(lambda: self._puller.commit_offset(queue, offset))


class Topics:
    """As `rmq_client.topics.Topics`."""

    def __init__(self, loop: _Loop, topics: core.Topics) -> None:
        self._loop = loop
        self._topics = topics

    def names(self, *, system: bool = False) -> list[str]:
        """Those that have a route."""
        return self._loop.run(lambda: self._topics.names(system=system))

    def show(self, topic: str) -> TopicState:
        """Where it is and what is in it."""
        return self._loop.run(lambda: self._topics.show(topic))

    def create(
        self,
        topic: str,
        *,
        queues: int = 8,
        cluster: str | None = None,
        brokers: Iterable[str] = (),
        perm: int = PERM_READ | PERM_WRITE,
        order: bool = False,
        attributes: Mapping[str, str] | None = None,
    ) -> list[str]:
        """Make a topic, or change it to this."""
        create = self._topics.create
        return self._loop.run(
            lambda: create(topic, queues=queues, cluster=cluster, brokers=brokers, perm=perm, order=order, attributes=attributes)
        )

    def delete(self, topic: str, *, cluster: str | None = None) -> list[str]:
        """Delete a topic with its messages."""
        return self._loop.run(lambda: self._topics.delete(topic, cluster=cluster))


class Client:
    """As `rmq_client.client.Client`; made by `connect`."""

    def __init__(self, loop: _Loop) -> None:
        self._loop = loop

    def producer(self, group: str, *, hooks: Sequence[SendHook] = (), **settings: Any) -> Producer:
        """A producer of this group.  Its hooks and selectors run in the client's thread."""

        async def make() -> core.Producer:
            return self._loop.client.producer(group, hooks=hooks, **settings)

        return Producer(self._loop, self._loop.run(make))

    def puller(self, group: str = TOOLS_GROUP) -> Puller:
        """Reads queues from any offset on."""

        async def make() -> core.Puller:
            return self._loop.client.puller(group)

        return Puller(self._loop, self._loop.run(make))

    @contextmanager
    def push_consumer(
        self, group: str, topics: Mapping[str, Subscription | str], listener: Listener, **settings: Any
    ) -> Iterator[PushConsumer]:
        """Consumes these topics as a member of the group, for as long as the block lasts; the listener runs in other threads.

        settings: as of `rmq_client.client.Client.push_consumer`.  An error of the block comes out as it is.
        """

        async def consume(stop: trio.Event, ended: trio.Event, task_status: trio.TaskStatus[consuming.PushConsumer]) -> None:
            try:
                async with self._loop.client.push_consumer(group, topics, listener, **settings) as consumer:
                    task_status.started(consumer)
                    await stop.wait()
            finally:
                ended.set()

        async def start() -> tuple[consuming.PushConsumer, trio.Event, trio.Event]:
            stop, ended = trio.Event(), trio.Event()
            return await self._loop.client.nursery.start(partial(consume, stop, ended)), stop, ended

        consumer, stop, ended = self._loop.run(start)

        async def leave() -> None:
            stop.set()
            await ended.wait()

        try:
            yield PushConsumer(self._loop, consumer)
        finally:
            self._loop.run(leave)

    @property
    def topics(self) -> Topics:
        """Lists, shows, makes and deletes topics."""
        return Topics(self._loop, self._loop.client.topics)


@contextmanager
def connect(name_servers: str | Sequence[str] | None = None, **options: Any) -> Iterator[Client]:
    """As `rmq_client.client.connect`, for a `with` block."""
    loop = _Loop()
    loop.thread = threading.Thread(target=loop.thread_main, args=(name_servers, options), name="rmq-client", daemon=True)
    loop.thread.start()
    loop.ready.wait()
    if loop.token is None:
        loop.end()
    try:
        yield Client(loop)
    finally:
        loop.end()
