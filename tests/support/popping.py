"""Pops and their ends against an engine, in a line each: `pop_client` with a client that asks, and what most tests mean."""

from __future__ import annotations

from typing import Any

import msgspec

from rmq_wire.command import Command
from rmq_wire.headers.pop import AckMessage, BatchAckMessage, ChangeInvisibleTime, PopMessage
from tests.support import pop_client
from tests.support.driver import Client
from tests.support.pop_client import Got

INVISIBLE_MS = 10_000


def pop(topic: str = "T", queue_id: int = 0, count: int = 32, **more: Any) -> PopMessage:
    """A pop of everything from the first message on that does not wait, unless asked otherwise."""
    group = more.pop("consumer_group", "G")
    said = {"invisible_time": INVISIBLE_MS, "born_ms": more.pop("born_time", 0), "exp_type": None, "exp": None, **more}
    return pop_client.pop(topic, group, queue=queue_id, count=count, **said)


def popped(answer: Command, asked: PopMessage) -> list[Got]:
    """The messages of an answer, with receipts as clients make them; none of 209 and 210."""
    assert answer.code in (0, 209, 210), (answer.code, answer.remark)
    return pop_client.popped(answer, asked.topic, asked.consumer_group).got if answer.code == 0 else []


def take(client: Client, topic: str = "T", queue_id: int = 0, count: int = 32, **more: Any) -> list[Got]:
    """Pop."""
    asked = pop(topic, queue_id, count, **more)
    return popped(client.ask(asked), asked)


def ack_of(one: Got, group: str = "G", **more: Any) -> AckMessage:
    """The acknowledgement of a message.  more: fields that are to be other ones."""
    return msgspec.structs.replace(pop_client.ack(one, group), **more)


def ack(client: Client, *several: Got, group: str = "G") -> None:
    """Acknowledge messages, one by one."""
    for one in several:
        answer = client.ask(ack_of(one, group))
        assert answer.code == 0, (answer.code, answer.remark)


def change_of(one: Got, invisible_ms: int, group: str = "G", **more: Any) -> ChangeInvisibleTime:
    """The wish that a message come again at another time.  more: fields that are to be other ones."""
    return msgspec.structs.replace(pop_client.change(one, group, invisible_ms), **more)


def batch_of(several: list[Got], topic: str = "T", group: str = "G") -> tuple[BatchAckMessage, bytes]:
    """One request that acknowledges messages."""
    return BatchAckMessage(), pop_client.batch_ack(several, group, topic)
