"""Messages for later by delay level: 18 of them, 1 s, 5 s, 10 s, 30 s, then minutes up to 2 h.

The producer names the level in the property `DELAY`; the message waits in queue level - 1 of `SCHEDULE_TOPIC_XXXX`.
"""

from __future__ import annotations

import trio

from conformance.case import Level, case
from conformance.trial import Trial, properties_of
from rmq_wire import property_names as names
from rmq_wire.codes import RequestCode as Code
from rmq_wire.codes import ResponseCode
from rmq_wire.headers.positions import GetMaxOffset
from rmq_wire.message import StoredMessage
from rmq_wire.message_id import parse_offset_message_id

SERVICE = "ScheduleMessageService"
SEND = (Code.SEND_MESSAGE_V2,)
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
LATE_MS = 6_000
"""How late a delivery may be on a busy machine."""


@case(
    "delay.level-1",
    Level.MUST,
    "Level 1 comes after a second, not before",
    codes=SEND,
    rests_on=f"{SERVICE}.DeliverDelayedMessageTimerTask",
)
async def level_1(t: Trial) -> None:
    """In the topic, queue and with the properties that it was sent with."""
    topic = await t.topic(queues=2)
    sent = t.message(topic, {names.DELAY: "1"}, queue=1, tags="a", keys="k")
    sent_s = trio.current_time()
    t.answer("send", await t.broker.ask(sent, b"later"))
    t.equal("at once", (await t.broker.ask(GetMaxOffset(topic=topic, queue_id=1))).ext.get("offset"), "0")
    early = await t.pull(topic, 0, queue=1)
    t.answer("pull at once", early.answer, code=ResponseCode.PULL_NOT_FOUND)
    found: list[bytes] = []
    began = trio.current_time()
    units = await t.pull_all(topic, 1, queue=1)
    waited_s = trio.current_time() - sent_s
    found = [bytes(unit.body) for unit in units]
    t.equal("body", found, [b"later"])
    t.check("not early", waited_s >= 0.9, expected="1 s", seen=f"{waited_s:.1f} s")
    properties = properties_of(units[0])
    t.equal("tags and keys", [properties.get(name) for name in (names.TAGS, names.KEYS)], ["a", "k"])
    t.equal("topic of the unit", bytes(units[0].topic).decode(), topic)
    t.check("not late", trio.current_time() - began < 1 + LATE_MS / 1e3, seen=f"{trio.current_time() - began:.1f} s")


@case("delay.level-2", Level.MUST, "Level 2 comes after five seconds, not before", codes=SEND, rests_on=SERVICE)
async def level_2(t: Trial) -> None:
    topic = await t.topic()
    began = trio.current_time()
    await t.send(topic, b"later", {names.DELAY: "2"})
    await t.pull_all(topic, 1)
    waited_s = trio.current_time() - began
    t.check("after five seconds", 4.9 <= waited_s <= 5 + LATE_MS / 1e3, expected="5 s", seen=f"{waited_s:.1f} s")


@case("delay.order", Level.MUST, "Messages of one level come in the order in which they were sent", codes=SEND, rests_on=SERVICE)
async def order(t: Trial) -> None:
    topic = await t.topic()
    for number in range(20):
        await t.send(topic, b"%d" % number, {names.DELAY: "1"})
    t.equal("bodies", [bytes(unit.body) for unit in await t.pull_all(topic, 20)], [b"%d" % number for number in range(20)])


@case("delay.levels-beside-each-other", Level.MUST, "A later level does not hold up an earlier one", codes=SEND, rests_on=SERVICE)
async def beside(t: Trial) -> None:
    topic = await t.topic()
    await t.send(topic, b"five", {names.DELAY: "2"})
    await t.send(topic, b"one", {names.DELAY: "1"})
    t.equal("bodies", [bytes(unit.body) for unit in await t.pull_all(topic, 2)], [b"one", b"five"])


@case("delay.level-0", Level.MUST, "Level 0 is no delay", codes=SEND, rests_on="HookUtils.handleScheduleMessage")
async def level_0(t: Trial) -> None:
    """It is stored in its own topic at the send, not delivered there later."""
    topic = await t.topic()
    sent = await t.send(topic, b"now", {names.DELAY: "0"})
    [unit] = await t.pull_all(topic, 1)
    t.equal("body", bytes(unit.body), b"now")
    t.equal("its place is that of the send", unit.physical_offset, parse_offset_message_id(sent.msg_id).physical_offset)


@case(
    "delay.where-it-waits",
    Level.SHOULD,
    "The answer tells the place among the waiting, queue = level - 1",
    codes=SEND,
    rests_on="HookUtils.transformDelayLevelMessage",
)
async def where_it_waits(t: Trial) -> None:
    topic = await t.topic()
    sent = await t.send(topic, b"later", {names.DELAY: "3"})
    t.equal("queue", sent.queue_id, t.by_version({"": frozenset({0, 2})}))
    t.note("queue, offset", f"{sent.queue_id}, {sent.queue_offset}")


@case(
    "delay.recovered-target",
    Level.SHOULD,
    "What waits can be read in the broker's own topic, with its destination",
    codes=(Code.PULL_MESSAGE,),
    rests_on="MessageConst.PROPERTY_REAL_TOPIC",
)
async def waits_in_schedule_topic(t: Trial) -> None:
    """Tools look there.  Level 18 (2 h), so that it stays."""
    topic = await t.topic(queues=3)
    end = int((await t.broker.ask(GetMaxOffset(topic=SCHEDULE_TOPIC, queue_id=17))).ext["offset"])
    await t.send(topic, b"in two hours", {names.DELAY: "18"}, queue=2)

    async def ours() -> list[StoredMessage]:
        pulled = await t.pull(SCHEDULE_TOPIC, end, queue=17)
        return [unit for unit in pulled.messages if properties_of(unit).get(names.REAL_TOPIC) == topic]

    [unit] = await t.until("it waits there", ours)
    t.equal("body, queue to be", (bytes(unit.body), properties_of(unit).get(names.REAL_QID)), (b"in two hours", "2"))


@case(
    "delay.level-too-high",
    Level.MUST,
    "A level above the last counts as the last",
    codes=SEND,
    rests_on="HookUtils: maxDelayLevel",
)
async def too_high(t: Trial) -> None:
    topic = await t.topic()
    end = int((await t.broker.ask(GetMaxOffset(topic=SCHEDULE_TOPIC, queue_id=17))).ext["offset"])
    await t.send(topic, b"some day", {names.DELAY: "99"})

    async def waits() -> bool:
        pulled = await t.pull(SCHEDULE_TOPIC, end, queue=17)
        return any(properties_of(unit).get(names.REAL_TOPIC) == topic for unit in pulled.messages)

    await t.until("it waits at level 18", waits)
