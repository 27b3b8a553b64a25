"""Consume hooks look on: before and after each call of a listener, whatever comes of it."""

from __future__ import annotations

import pytest

from rmq_client.client import connect
from rmq_client.consuming.listening import ConsumeConcurrentlyStatus, ConsumeContext, Context
from rmq_client.messages import Message
from tests.client.consumers import FIRST, Heard, Messages
from tests.support.subject import Subject


class Hook:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, bytes, str]] = []

    def before(self, context: ConsumeContext) -> None:
        assert context.called is None
        context.kept["began"] = True
        self.told.append(("before", context.messages[0].body, context.group))

    def after(self, context: ConsumeContext) -> None:
        assert context.kept == {"began": True}
        assert context.called is not None
        found = context.called.error or context.called.status
        self.told.append(("after", context.messages[0].body, str(found)))


class Broken:
    """Raises each time."""

    def before(self, context: ConsumeContext) -> None:
        raise RuntimeError("before")

    def after(self, context: ConsumeContext) -> None:
        raise RuntimeError("after")


@pytest.mark.parametrize("orderly", [False, True])
async def test_hooks_see_what_becomes_of_each_call(ours: Subject, orderly: bool) -> None:
    topic = f"hooks-{orderly}".lower()
    heard, hook = Heard(), Hook()

    async def listen(messages: Messages, context: Context) -> ConsumeConcurrentlyStatus | None:
        heard.add(messages)
        if heard.bodies == [b"0"]:
            raise RuntimeError("not yet")
        return None

    async with connect(ours.namesrv) as client:
        await client.topics.create(topic, queues=1)
        await client.producer(f"{topic}-p").send(Message(topic, b"0"))
        settings = {**FIRST, "orderly": orderly, "suspend_current_queue_time_ms": 10}
        async with client.push_consumer(f"{topic}-g", {topic: "*"}, listen, hooks=[Broken(), hook], **settings):
            await heard.until(1)
            await client.producer(f"{topic}-q").send(Message(topic, b"1"))
            await heard.until(2)
    assert hook.told[:2] == [("before", b"0", f"{topic}-g"), ("after", b"0", "not yet")]
    assert {("after", b"0", "None"), ("after", b"1", "None")} & set(hook.told)
    assert len(hook.told) % 2 == 0
