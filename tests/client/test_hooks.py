"""Consume hooks look on: before and after each call of a listener, whatever comes of it."""

from __future__ import annotations

import pytest

from rmq_client.client import connect
from rmq_client.consuming.listener import (
    Called,
    ConsumeConcurrentlyStatus,
    ConsumeContext,
    ConsumeOrderlyStatus,
    ConsumeReturnType,
    Context,
    Outcome,
    return_type,
)
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
        assert context.return_type is return_type(context.called, 900_000)
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


@pytest.mark.parametrize(
    ("status", "error", "took_ms", "expected"),
    [
        (None, RuntimeError(), 900_000, ConsumeReturnType.EXCEPTION),
        (None, None, 900_000, ConsumeReturnType.RETURNNULL),
        (ConsumeConcurrentlyStatus.CONSUME_SUCCESS, None, 899_999, ConsumeReturnType.SUCCESS),
        (ConsumeConcurrentlyStatus.CONSUME_SUCCESS, None, 900_000, ConsumeReturnType.TIME_OUT),
        (ConsumeConcurrentlyStatus.RECONSUME_LATER, None, 900_000, ConsumeReturnType.TIME_OUT),
        (ConsumeConcurrentlyStatus.RECONSUME_LATER, None, 0, ConsumeReturnType.FAILED),
        (ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT, None, 0, ConsumeReturnType.FAILED),
        (ConsumeOrderlyStatus.SUCCESS, None, 0, ConsumeReturnType.SUCCESS),
        (ConsumeOrderlyStatus.ROLLBACK, None, 0, ConsumeReturnType.SUCCESS),
        (ConsumeOrderlyStatus.COMMIT, None, 900_000, ConsumeReturnType.TIME_OUT),
    ],
)
def test_in_one_word(status: Outcome, error: Exception | None, took_ms: int, expected: ConsumeReturnType) -> None:
    assert return_type(Called(status, error, took_ms), 900_000) is expected
