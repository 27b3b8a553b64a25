"""What a push consumer shares with the two ways of consuming, concurrently and in order.

Source: `ConsumeMessageService`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import trio

from rmq_client.consuming.giving_back import GivingBack
from rmq_client.consuming.listener import Context
from rmq_client.consuming.listening import Listening
from rmq_client.consuming.process_queue import ProcessQueue
from rmq_client.consuming.progress import Progress
from rmq_client.consuming.rates import TopicRates
from rmq_client.consuming.received import ReceivedMessage
from rmq_client.consuming.working import Working
from rmq_client.core import ClientCore
from rmq_client.settings import ConsumerSettings
from rmq_wire import names
from rmq_wire.bodies.enumerations import CMResult
from rmq_wire.fastjson import MessageQueue

FULL_PAUSE_S: Final = 0.05
FULL_S_MAX: Final = 1.0
"""Limits may change, and who pulls says now and then that he is alive."""


@dataclass(slots=True)
class Consuming:
    """Of one consumer.  `stopping`: nothing new is begun.  `queues`: what it has, on the wire.  `rates`: by topic on the wire."""

    client: ClientCore
    settings: ConsumerSettings
    nursery: trio.Nursery
    listening: Listening
    progress: Progress
    giving_back: GivingBack
    queues: dict[MessageQueue, ProcessQueue] = field(default_factory=dict)
    rates: dict[str, TopicRates] = field(default_factory=dict)
    working: Working = field(default_factory=Working)
    stopping: bool = False

    def rates_of(self, topic: str) -> TopicRates:
        """Made when first asked for."""
        found = self.rates.get(topic)
        if found is None:
            found = self.rates[topic] = TopicRates()
        return found

    def shown(self, messages: Sequence[ReceivedMessage], queue: MessageQueue) -> MessageQueue:
        """Give messages the names that their caller knows; their queue likewise."""
        if names.is_retry_topic(queue.topic):
            for message in messages:
                message.topic = self.client.to_caller(message.topic_on_wire)
        else:
            topic = self.client.to_caller(queue.topic)
            for message in messages:
                message.topic = topic
        topic = messages[0].topic
        return queue if queue.topic == topic else queue._replace(topic=topic)


async def until_less(held: ProcessQueue) -> None:
    """A pause of a queue that is full, until something of it is done: not for each message, and not without end."""
    less = trio.Event()
    held.on_less = less.set
    await trio.sleep(FULL_PAUSE_S)
    with trio.move_on_after(FULL_S_MAX):
        await less.wait()


class ConsumeService(Protocol):
    """One way of consuming."""

    def submit(self, messages: Sequence[ReceivedMessage], queue: MessageQueue, held: ProcessQueue) -> None:
        """These came and are not in `held` yet."""

    async def run(self) -> None:
        """What happens again and again, for as long as the consumer lives."""

    async def let_go(self, held: ProcessQueue) -> bool:
        """A queue that was dropped may go: nobody who is at it would disturb its next owner."""

    def context(self, queue: MessageQueue) -> Context:
        """A new one for a listener; queue: as the caller knows it."""

    def outcome(self, status: object) -> CMResult:
        """A status in the words of the answer to 309."""
