"""What the blocking face has of each object: the core's methods, as they are there.

Made from those by `make pages` (`tests/support/face_methods.py`); change them, not this.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rmq_client.consuming.subscriptions import EVERYTHING, TOOLS_GROUP
from rmq_wire.bodies.topics import PERM_READ, PERM_WRITE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from rmq_client import client, groups, topics
    from rmq_client.consuming import pulling
    from rmq_client.consuming.pull_result import PullResult
    from rmq_client.consuming.received import ReceivedMessage
    from rmq_client.consuming.subscriptions import Subscription
    from rmq_client.faces.loop_thread import BlockingThread
    from rmq_client.groups import GroupLag
    from rmq_client.messages import Message, SendResult
    from rmq_client.producing import producer
    from rmq_client.producing.producer import SendHook
    from rmq_client.producing.selectors import Selector
    from rmq_client.topics import TopicState
    from rmq_wire.fastjson import MessageQueue


class Producer:
    """As `rmq_client.producing.producer.Producer`."""

    def __init__(self, loop: BlockingThread, own: producer.Producer) -> None:
        self._loop = loop
        self._own = own

    def send(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        select: Selector | None = None,
        order_key: str | int | None = None,
        timeout_ms: int | None = None,
    ) -> SendResult:
        """Send one message and wait until a broker has it.

        To the next queue, with retries; or, tried once, to `queue`, to the one that `select` chooses, or to the one that all
        messages of `order_key` go to.  Raises `CallerError`, `NetworkError`, `BrokerError`; look at `maybe_stored`.
        """
        return self._loop.call(
            partial(self._own.send, message, queue=queue, select=select, order_key=order_key, timeout_ms=timeout_ms)
        )

    def send_oneway(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        select: Selector | None = None,
        order_key: str | int | None = None,
        timeout_ms: int | None = None,
    ) -> None:
        """Send one message and do not wait: whether a broker has it stays unknown.  Raises as `send`, where it cannot leave."""
        self._loop.call(
            partial(self._own.send_oneway, message, queue=queue, select=select, order_key=order_key, timeout_ms=timeout_ms)
        )

    def send_batch(
        self, messages: Sequence[Message], *, queue: MessageQueue | None = None, timeout_ms: int | None = None
    ) -> list[SendResult]:
        """Send messages of one topic in as few requests as `max_message_size` allows, one after the other; a result for each.

        Each request is stored whole or not at all.  When one fails, the error's `sent` has the results of those before it.
        """
        return self._loop.call(partial(self._own.send_batch, messages, queue=queue, timeout_ms=timeout_ms))

    def queues(self, topic: str) -> list[MessageQueue]:
        """Those that may be sent to now; a topic that is still to be made has those that it will get.  Raises as `send`."""
        return self._loop.call(partial(self._own.queues, topic))


class Puller:
    """As `rmq_client.consuming.pulling.Puller`."""

    def __init__(self, loop: BlockingThread, own: pulling.Puller) -> None:
        self._loop = loop
        self._own = own

    def queues(self, topic: str) -> list[MessageQueue]:
        """Those that may be read.  Raises `NoRoute`, `NetworkError`."""
        return self._loop.call(partial(self._own.queues, topic))

    def pull(
        self,
        queue: MessageQueue,
        offset: int,
        *,
        subscription: Subscription = EVERYTHING,
        max_messages: int = 32,
        hold_ms: int = 0,
        commit_offset: int | None = None,
        sub_version: int = 0,
        timeout_ms: int | None = None,
    ) -> PullResult:
        """Read from this offset on.  hold_ms: how long the broker may wait for a first message.

        commit_offset: progress of the group that goes along.  sub_version: when the subscription was made, in wall milliseconds.

        Raises `BrokerError`, `NetworkError`, `CallerError` for properties that a broker is too old to filter by.  A status says
        where there is nothing, or where the offset is none of the queue's.
        """
        return self._loop.call(
            partial(
                self._own.pull,
                queue,
                offset,
                subscription=subscription,
                max_messages=max_messages,
                hold_ms=hold_ms,
                commit_offset=commit_offset,
                sub_version=sub_version,
                timeout_ms=timeout_ms,
            )
        )

    def messages(
        self, queue: MessageQueue, offset: int | None = None, *, subscription: Subscription = EVERYTHING, hold_ms: int = 0
    ) -> Iterator[ReceivedMessage]:
        """One after the other, from this offset on, None: from the oldest.  With `hold_ms` for ever, else to the end.

        Raises as `pull`.
        """
        reading = self._own.reading(queue, offset, subscription=subscription, hold_ms=hold_ms)
        while (found := self._loop.call(reading.next)) is not None:
            yield from found

    def min_offset(self, queue: MessageQueue) -> int:
        """The offset of its oldest message."""
        return self._loop.call(partial(self._own.min_offset, queue))

    def max_offset(self, queue: MessageQueue) -> int:
        """The offset that its next message will have."""
        return self._loop.call(partial(self._own.max_offset, queue))

    def offset_at(self, queue: MessageQueue, wall_ms: int) -> int:
        """The offset of the first message that was stored at this time or later."""
        return self._loop.call(partial(self._own.offset_at, queue, wall_ms))

    def earliest_store_time(self, queue: MessageQueue) -> int | None:
        """When its oldest message was stored, in wall milliseconds; None: it is empty."""
        return self._loop.call(partial(self._own.earliest_store_time, queue))

    def committed_offset(self, queue: MessageQueue) -> int | None:
        """The offset that the group consumes next; None: it has none, and must choose where to begin."""
        return self._loop.call(partial(self._own.committed_offset, queue))

    def commit_offset(self, queue: MessageQueue, offset: int) -> None:
        """Say that the group has consumed all before this offset.  Returns when the broker has taken it."""
        self._loop.call(partial(self._own.commit_offset, queue, offset))


class Topics:
    """As `rmq_client.topics.Topics`."""

    def __init__(self, loop: BlockingThread, own: topics.Topics) -> None:
        self._loop = loop
        self._own = own

    def names(self, *, system: bool = False) -> list[str]:
        """The names of those that have a route, in order; without `system` not those of RocketMQ itself.

        With a name space only its own, and the system topics that belong to all.
        """
        return self._loop.call(partial(self._own.names, system=system))

    def show(self, topic: str) -> TopicState:
        """Raises `NoRoute`, `NetworkError`, `BrokerError`."""
        return self._loop.call(partial(self._own.show, topic))

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
        """Make a topic, or change it to this, in all masters, in those of a cluster or in the named ones; their names.

        attributes: such as `{"message.type": "FIFO"}`.  Returns when a name server knows the topic.
        """
        return self._loop.call(
            partial(
                self._own.create,
                topic,
                queues=queues,
                cluster=cluster,
                brokers=brokers,
                perm=perm,
                order=order,
                attributes=attributes,
            )
        )

    def delete(self, topic: str, *, cluster: str | None = None) -> list[str]:
        """Delete a topic with its messages in all brokers, or in those of a cluster, and its route; the masters that had it.

        Raises `NoRoute` where nobody has it.
        """
        return self._loop.call(partial(self._own.delete, topic, cluster=cluster))


class Groups:
    """As `rmq_client.groups.Groups`."""

    def __init__(self, loop: BlockingThread, own: groups.Groups) -> None:
        self._loop = loop
        self._own = own

    def names(self) -> list[str]:
        """Those that have consumed (they have a retry topic), in order, without those of RocketMQ itself.

        With a name space only its own.
        """
        return self._loop.call(self._own.names)

    def lag(self, group: str, *, owners: bool = True) -> GroupLag:
        """How far behind it is.  owners: ask its members, too.  Raises `InvalidName`, `NetworkError`, `BrokerError`."""
        return self._loop.call(partial(self._own.lag, group, owners=owners))


class Client:
    """As `rmq_client.client.Client`."""

    def __init__(self, loop: BlockingThread, own: client.Client) -> None:
        self._loop = loop
        self._own = own

    def producer(self, group: str, *, hooks: Sequence[SendHook] = (), **settings: Any) -> Producer:
        """A producer of this group.  settings: those of `ProducerSettings`.  Raises `CallerError`."""
        return Producer(self._loop, self._loop.run_sync(partial(self._own.producer, group, hooks=hooks, **settings)))

    def puller(self, group: str = TOOLS_GROUP) -> Puller:
        """Reads queues from any offset on, with the progress of this group if you want it.  Raises `InvalidName`."""
        return Puller(self._loop, self._loop.run_sync(partial(self._own.puller, group)))

    @property
    def topics(self) -> Topics:
        """Lists, shows, makes and deletes topics."""
        return Topics(self._loop, self._loop.run_sync(lambda: self._own.topics))

    @property
    def groups(self) -> Groups:
        """Shows how far groups are behind, and who has their queues."""
        return Groups(self._loop, self._loop.run_sync(lambda: self._own.groups))
