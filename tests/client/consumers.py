"""Listeners that note what they get, and topics with messages."""

from __future__ import annotations

from collections.abc import Sequence

import trio

from rmq_client.client import Client
from rmq_client.consuming.listener import Context
from rmq_client.consuming.received import ReceivedMessage
from rmq_client.messages import Message
from tests.support.talk import PATIENCE_S

FIRST = {"consume_from_where": "CONSUME_FROM_FIRST_OFFSET"}
Messages = Sequence[ReceivedMessage]


class Heard:
    """What listeners got; `until` waits for it."""

    def __init__(self) -> None:
        self.messages: list[ReceivedMessage] = []
        self._more = trio.Event()

    async def __call__(self, messages: Messages, context: Context) -> None:
        self.add(messages)

    def add(self, messages: Messages) -> None:
        self.messages += messages
        self._more.set()

    @property
    def bodies(self) -> list[bytes]:
        return [message.body for message in self.messages]

    async def until(self, count: int) -> None:
        with trio.fail_after(PATIENCE_S):
            while len(set(self.bodies)) < count:
                self._more = trio.Event()
                await self._more.wait()


async def fill(client: Client, topic: str, count: int, queues: int = 4, tag: str | None = None) -> None:
    await client.topics.create(topic, queues=queues)
    producer = client.producer(f"{topic}-p")
    for number in range(count):
        await producer.send(Message(topic, b"%d" % number, tags=tag))
