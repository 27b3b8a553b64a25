"""Good requests in a word: what most rows of the grid need around a request - a topic, a group, some messages - made first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from conformance.suite.grid.grid import Asked, Good
from conformance.suite.link import Link
from conformance.suite.trial import MAKES_GROUPS, Trial
from rmq_wire.bodies.heartbeat import (
    CLUSTERING,
    CONSUME_PASSIVELY,
    ConsumerData,
    HeartbeatData,
    ProducerData,
    SubscriptionData,
)
from rmq_wire.declare import Request
from rmq_wire.headers.clients import Heartbeat
from rmq_wire.headers.positions import GetMaxOffset

CASE_S: Final = 120.0
"""Longer than a case takes."""


def plain(request: Callable[[], Asked]) -> Good:
    """A request that needs nothing."""

    async def good(t: Trial) -> Asked:
        return request()

    return good


def of_topic(make: Callable[[str], Asked], *, messages: int = 0, **settings: Any) -> Good:
    """A request about a topic with so many messages in queue 0 that can be read already.  settings: of `Trial.topic`."""

    async def good(t: Trial) -> Asked:
        topic = await t.topic(**settings)
        await fill(t, topic, messages)
        return make(topic)

    return good


def of_group(make: Callable[[str], Asked], **settings: Any) -> Good:
    """A request about a consumer group.  settings: of `Trial.group`."""

    async def good(t: Trial) -> Asked:
        return make(await t.group(**settings))

    return good


def of_both(make: Callable[[str, str], Asked], *, messages: int = 0) -> Good:
    """A request about a topic, with so many messages in queue 0, and a group."""

    async def good(t: Trial) -> Asked:
        topic, name = await t.topic(), await t.group()
        await fill(t, topic, messages)
        return make(topic, name)

    return good


async def fill(t: Trial, topic: str, messages: int, *, queue: int = 0) -> None:
    """Send messages and wait until the queue holds them."""
    for number in range(messages):
        await t.send(topic, b"grid", keys=f"key{number}", queue=queue)
    if messages:
        await t.until(f"{topic} holds {messages}", lambda: _held(t, topic, queue, messages))


async def _held(t: Trial, topic: str, queue: int, messages: int) -> bool:
    answer = await t.broker.ask(GetMaxOffset(topic=topic, queue_id=queue))
    return answer.code == 0 and int(answer.ext["offset"]) >= messages


def nobody(*wires: str) -> Callable[[Trial], Mapping[str, str]]:
    """The change that gives these fields names that nobody has."""
    return lambda t: {wire: t.name("nobody") for wire in wires}


async def consumer(t: Trial, topic: str, group: str, *, link: Link | None = None, model: str = CLUSTERING) -> str:
    """Let a consumer appear, on this trial's connection or another, subscribed to everything; its client id."""
    client = t.name("client")
    sub = SubscriptionData(topic=topic, sub_string="*", sub_version=1)
    consumer = ConsumerData(
        group_name=group,
        consume_type=CONSUME_PASSIVELY,
        message_model=model,
        consume_from_where="CONSUME_FROM_LAST_OFFSET",
        subscription_data_set=[sub],
    )
    await beat(t, HeartbeatData(client_id=client, consumer_data_set=[consumer]), link)
    return client


async def producer(t: Trial, group: str, *, link: Link | None = None) -> str:
    """Let a producer appear; its client id."""
    client = t.name("client")
    await beat(t, HeartbeatData(client_id=client, producer_data_set=[ProducerData(group_name=group)]), link)
    return client


async def beat(t: Trial, data: HeartbeatData, link: Link | None = None) -> None:
    """Send a heartbeat, which must be answered."""
    t.answer("heartbeat", await (link or t.broker).ask(Heartbeat(), data.encode()))


def answering(t: Trial, code: int, body: bytes = b"") -> Link:
    """One more connection: a client that answers every request of this code, until the case ends."""
    link = t.connect()

    async def work() -> None:
        while asked := await link.request(code, seconds=CASE_S):
            await link.reply(asked, body=body)

    t.beside(work)
    return link


def where_made(good: Good) -> Good:
    """The same, on a broker that makes groups as they come."""

    async def or_skip(t: Trial) -> Asked:
        t.wants(*MAKES_GROUPS)
        return await good(t)

    return or_skip


def with_body(request: Request, body: bytes) -> Asked:
    """The pair."""
    return request, body
