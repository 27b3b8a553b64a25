"""Messages for later by delay level: 18 of them, 1 s, 5 s, 10 s, 30 s, then minutes up to 2 h.

The producer names the level in the property `DELAY`; the message waits in queue level - 1 of `SCHEDULE_TOPIC_XXXX`.
"""

from __future__ import annotations

from functools import partial

import trio

from conformance.suite.kit import MUST, SHOULD, Code, Trial, properties_of
from conformance.suite.kit import case as declare
from rmq_wire import property_names as prop
from rmq_wire.headers.positions import GetMaxOffset
from rmq_wire.message import StoredMessage
from rmq_wire.message_id import parse_offset_message_id

SERVICE = "ScheduleMessageService"
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
APART_S = 3.0
"""Less than lies between the first two levels."""
LATE_MS = 6_000
"""How late a delivery may be on a busy machine."""


case = partial(declare, codes=Code.SEND_MESSAGE_V2)


@case("delay.level-1", MUST, rests_on=f"{SERVICE}.DeliverDelayedMessageTimerTask")
async def level_1(t: Trial) -> None:
    """Level 1 comes after a second, not before.

    In the topic, queue and with the properties that it was sent with.
    """
    topic = await t.topic(queues=2)
    sent = t.message(topic, {prop.DELAY: "1"}, queue=1, tags="a", keys="k")
    sent_s = trio.current_time()
    t.answer("send", await t.broker.ask(sent, b"later"))
    [unit] = await t.pull_all(topic, 1, queue=1)
    waited_s = trio.current_time() - sent_s
    t.equal("body", bytes(unit.body), b"later")
    t.check("not early, not late", 0.9 <= waited_s <= 1 + LATE_MS * t.patience / 1e3, expected="1 s", seen=f"{waited_s:.1f} s")
    properties = properties_of(unit)
    t.equal("tags and keys", [properties.get(name) for name in (prop.TAGS, prop.KEYS)], ["a", "k"])
    t.equal("topic of the unit", bytes(unit.topic).decode(), topic)


@case("delay.level-2", MUST, rests_on=SERVICE)
async def level_2(t: Trial) -> None:
    """Level 2 comes after five seconds, not before."""
    topic = await t.topic()
    began = trio.current_time()
    await t.send(topic, b"later", {prop.DELAY: "2"})
    await t.pull_all(topic, 1)
    waited_s = trio.current_time() - began
    t.check("after five seconds", 4.9 <= waited_s <= 5 + LATE_MS * t.patience / 1e3, expected="5 s", seen=f"{waited_s:.1f} s")


@case("delay.order", MUST, rests_on=SERVICE)
async def order(t: Trial) -> None:
    """Messages of one level come in the order in which they were sent."""
    topic = await t.topic()
    for number in range(20):
        await t.send(topic, b"%d" % number, {prop.DELAY: "1"})
    t.equal("bodies", [bytes(unit.body) for unit in await t.pull_all(topic, 20)], [b"%d" % number for number in range(20)])


@case("delay.levels-beside-each-other", MUST, rests_on=SERVICE)
async def beside(t: Trial) -> None:
    """A later level does not hold up an earlier one."""
    while True:
        topic = await t.topic()
        began = trio.current_time()
        await t.send(topic, b"five", {prop.DELAY: "2"})
        await t.send(topic, b"one", {prop.DELAY: "1"})
        if trio.current_time() - began < APART_S:  # else the later level may be due first, rightly
            break
    t.equal("bodies", [bytes(unit.body) for unit in await t.pull_all(topic, 2)], [b"one", b"five"])


@case("delay.level-0", MUST, rests_on="HookUtils.handleScheduleMessage")
async def level_0(t: Trial) -> None:
    """Level 0 is no delay.

    It is stored in its own topic at the send, not delivered there later.
    """
    topic = await t.topic()
    sent = await t.send(topic, b"now", {prop.DELAY: "0"})
    [unit] = await t.pull_all(topic, 1)
    t.equal("body", bytes(unit.body), b"now")
    t.equal("its place is that of the send", unit.physical_offset, parse_offset_message_id(sent.msg_id).physical_offset)


@case("delay.where-it-waits", SHOULD, rests_on="HookUtils.transformDelayLevelMessage")
async def where_it_waits(t: Trial) -> None:
    """The answer gives the place among the waiting, queue = level - 1."""
    topic = await t.topic()
    sent = await t.send(topic, b"later", {prop.DELAY: "3"})
    t.equal("queue", sent.queue_id, t.by_version({"": frozenset({0, 2})}))
    t.note("queue, offset", f"{sent.queue_id}, {sent.queue_offset}")


@case("delay.recovered-target", SHOULD, codes=Code.PULL_MESSAGE, rests_on="MessageConst.PROPERTY_REAL_TOPIC")
async def waits_in_schedule_topic(t: Trial) -> None:
    """What waits can be read in the broker's own topic, with its destination.

    Tools look there.  Level 18 (2 h), so that it stays.
    """
    topic = await t.topic(queues=3)
    end = int((await t.broker.ask(GetMaxOffset(topic=SCHEDULE_TOPIC, queue_id=17))).ext["offset"])
    await t.send(topic, b"in two hours", {prop.DELAY: "18"}, queue=2)

    async def ours() -> list[StoredMessage]:
        pulled = await t.pull(SCHEDULE_TOPIC, end, queue=17)
        return [unit for unit in pulled.messages if properties_of(unit).get(prop.REAL_TOPIC) == topic]

    [unit] = await t.until("it waits there", ours)
    t.equal("body, queue to be", (bytes(unit.body), properties_of(unit).get(prop.REAL_QID)), (b"in two hours", "2"))


@case("delay.level-too-high", MUST, rests_on="HookUtils: maxDelayLevel")
async def too_high(t: Trial) -> None:
    """A level above the last counts as the last."""
    topic = await t.topic()
    end = int((await t.broker.ask(GetMaxOffset(topic=SCHEDULE_TOPIC, queue_id=17))).ext["offset"])
    await t.send(topic, b"some day", {prop.DELAY: "99"})

    async def waits() -> bool:
        pulled = await t.pull(SCHEDULE_TOPIC, end, queue=17)
        return any(properties_of(unit).get(prop.REAL_TOPIC) == topic for unit in pulled.messages)

    await t.until("it waits at level 18", waits)
