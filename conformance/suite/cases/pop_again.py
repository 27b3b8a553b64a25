"""POP: what comes again and how it looks, acknowledgements that come late or are not what they should be."""

from __future__ import annotations

from functools import partial

from conformance.suite.cases.pop import ACK, OWN, POP
from conformance.suite.kit import MUST, SHOULD, Code, ResponseCode, Trial, units
from conformance.suite.kit import case as declare
from conformance.suite.means.popping import acknowledge, bodies, filled, popped, short_ms
from conformance.suite.trial import properties_of
from rmq_wire import names
from rmq_wire import property_names as prop
from rmq_wire.headers.pop import AckMessage, ChangeInvisibleTime, PopMessage

case = partial(declare, codes=POP, since=(5,))


@case("pop.again-as-before", MUST, needs=OWN, rests_on="PopReviveService.reviveRetry, PopMessageProcessor: POP_CK of retries")
async def again_as_before(t: Trial) -> None:
    """What comes again looks like a message of its topic, and brings its receipt.

    It lies in the group's retry topic, which the receipt says; its properties name the time of the first pop, and since 5.5 the
    group.
    """
    topic, group = await filled(t, 1), await t.group()
    [first] = await popped(t, topic, group, 1, invisible_ms=short_ms(t))
    [second] = await popped(t, topic, group, 1)
    values = properties_of(second.unit)
    t.equal("topic", bytes(second.unit.topic).decode(), topic)
    t.equal("first pop", values.get(prop.FIRST_POP_TIME), first.receipt.split(" ")[1])
    t.equal("group", values.get(prop.ORIGIN_GROUP), t.by_version({"": group, "5.3": None}))
    t.equal("from a retry topic", second.receipt.split(" ")[4], "1")
    t.answer("acknowledge", await acknowledge(t, names.pop_retry_topic(topic, group), group, second))


async def delivered(t: Trial, **values: str) -> tuple[str, str]:
    """A topic with one message that was sent for later and is there, and a group."""
    topic = await t.topic()
    await t.send(topic, b"later", values)
    await t.pull_all(topic, 1)
    return topic, await t.group()


@case("pop.again-after-its-level", SHOULD, needs=OWN, rests_on="PopReviveService.reviveRetry, HookUtils.handleScheduleMessage")
async def again_after_its_level(t: Trial) -> None:
    """What was sent with a delay level waits for it once more when it comes again.

    The stored properties of a delivered message still name the level; so do those of its copy, which goes through
    SCHEDULE_TOPIC_XXXX to the retry topic.
    """
    topic, group = await delivered(t, **{prop.DELAY: "2"})
    [first] = await popped(t, topic, group, 1, invisible_ms=short_ms(t))
    t.equal("level of the first", properties_of(first.unit).get(prop.DELAY), "2")
    [second] = await popped(t, topic, group, 1)
    values = properties_of(second.unit)
    t.equal("body, attempts", (second.body, second.unit.reconsume_times), (b"later", 1))
    t.equal("it went through the schedule topic to", values.get(prop.REAL_TOPIC), names.pop_retry_topic(topic, group))
    t.equal("level", values.get(prop.DELAY), "2")
    words = second.receipt.split(" ")
    due_ms = int(values[prop.FIRST_POP_TIME]) + short_ms(t)
    t.check("five seconds later", int(words[1]) - due_ms >= 5_000, expected="5 s", seen=f"{int(words[1]) - due_ms} ms")


@case("pop.again-of-a-time", SHOULD, needs=OWN, rests_on="PopReviveService.reviveRetry, HookUtils.handleScheduleMessage")
async def again_of_a_time(t: Trial) -> None:
    """What was sent for a time, which is over, comes again like any other."""
    topic, group = await delivered(t, **{prop.TIMER_DELAY_SEC: "1"})
    [first] = await popped(t, topic, group, 1, invisible_ms=short_ms(t))
    [second] = await popped(t, topic, group, 1)
    before, after = properties_of(first.unit), properties_of(second.unit)
    t.equal("body, attempts", (second.body, second.unit.reconsume_times), (b"later", 1))
    t.note("properties", {"first": before, "again": after})
    t.equal("real topic", after.get(prop.REAL_TOPIC), before.get(prop.REAL_TOPIC))


@case("pop.suspended", SHOULD, codes=Code.CHANGE_MESSAGE_INVISIBLETIME, needs=OWN, since=(5, 5), rests_on="PopCheckPoint.suspend")
async def suspended(t: Trial) -> None:
    """A message that is put off with `suspend` does not count as tried once more."""
    topic, group = await filled(t, 1), await t.group()
    [first] = await popped(t, topic, group, 1)
    asked = ChangeInvisibleTime(
        consumer_group=group,
        topic=topic,
        queue_id=0,
        extra_info=first.receipt,
        offset=first.offset,
        invisible_time=short_ms(t),
        suspend=True,
    )
    t.answer("change", await t.broker.ask(asked))
    [second] = await popped(t, topic, group, 1)
    t.equal("body, attempts", (second.body, second.unit.reconsume_times), (b"m0", 0))


@case("pop.acknowledged-late", SHOULD, codes=ACK, needs=OWN, rests_on="AckMessageProcessor, PopReviveService")
async def acknowledged_late(t: Trial) -> None:
    """An acknowledgement that comes when the message has come again is taken, and changes nothing."""
    topic, group = await filled(t, 1), await t.group()
    [first] = await popped(t, topic, group, 1, invisible_ms=short_ms(t))
    [second] = await popped(t, topic, group, 1, invisible_ms=short_ms(t))
    t.answer("acknowledge the first", await acknowledge(t, topic, group, first))
    [third] = await popped(t, topic, group, 1)
    t.equal("it comes once more", (third.body, third.unit.reconsume_times), (b"m0", 2))
    t.check("for the second pop", second.receipt != third.receipt)


@case("pop.from-the-last", SHOULD, rests_on="PopMessageProcessor.getInitOffset: initPopOffsetByCheckMsgInMem")
async def from_the_last(t: Trial) -> None:
    """A new group that begins with the last message is given all of a queue that is young."""
    topic, group = await filled(t, 3), await t.group()
    asked = PopMessage(
        consumer_group=group,
        topic=topic,
        queue_id=0,
        max_msg_nums=32,
        invisible_time=60_000,
        poll_time=0,
        born_time=0,
        init_mode=1,
    )
    answer = t.answer("pop", await t.broker.ask(asked))
    t.equal("bodies", [bytes(one.body) for one in units(answer.body)], [b"m0", b"m1", b"m2"])


@case("pop.end-of-the-queue", SHOULD, codes=ACK, rests_on="AckMessageProcessor, ChangeInvisibleTimeProcessor: offsets")
async def end_of_the_queue(t: Trial) -> None:
    """An acknowledgement of the offset behind the last message is taken, more time for it is not."""
    topic, group = await filled(t, 1), await t.group()
    [one] = await popped(t, topic, group, 1)
    behind = one._replace(receipt=" ".join([*one.receipt.split(" ")[:-1], "1"]))
    t.answer("acknowledge", await acknowledge(t, topic, group, behind))
    asked = ChangeInvisibleTime(
        consumer_group=group, topic=topic, queue_id=0, extra_info=one.receipt, offset=1, invisible_time=short_ms(t)
    )
    t.answer("more time", await t.broker.ask(asked), code=ResponseCode.NO_MESSAGE)


@case("pop.refused.forged-receipt", SHOULD, codes=Code.ACK_MESSAGE, rests_on="ExtraInfoUtil.split")
async def forged(t: Trial) -> None:
    """An acknowledgement with a receipt that is none is refused."""
    topic, group = await filled(t, 1), await t.group()
    asked = AckMessage(consumer_group=group, topic=topic, queue_id=0, extra_info="no receipt", offset=0)
    answer = await t.broker.ask(asked)
    unjudged = (ResponseCode.SUCCESS, ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
    t.check("refused, and not for the code alone", answer.code not in unjudged, seen=answer)
    t.equal("nothing is lost by it", bodies(await popped(t, topic, group, 1)), [b"m0"])
