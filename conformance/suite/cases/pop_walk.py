"""POP: from which queues messages come and in which order, by an expression, in order with another time, retries and the rest."""

from __future__ import annotations

from functools import partial

from conformance.suite.cases.filter import filled as filled_with_properties
from conformance.suite.cases.pop import OWN, POP, PROCESSOR
from conformance.suite.kit import MUST, QUIRK, SHOULD, Code, Trial
from conformance.suite.kit import case as declare
from conformance.suite.means.popping import again_in_order, bodies, filled, ordered, pop, popped, short_ms
from conformance.suite.means.settings import configured
from rmq_wire import names
from rmq_wire.headers.pop import ChangeInvisibleTime, ChangeInvisibleTimeResponse

AT_ONCE_MS = 1_000
"""Of invisibility: nobody acknowledges."""

case = partial(declare, codes=POP, since=(5,))


@case("pop.sql", MUST, rests_on=f"{PROCESSOR}: ConsumerFilterManager.build")
async def by_expression(t: Trial) -> None:
    """A pop by SQL92 hands out what the expression selects; no heartbeat has to name it before."""
    topic, group = await filled_with_properties(t), await t.group()
    found = await popped(t, topic, group, 2, asked=32, expression="n > 1 AND name <> 'one'", kind="SQL92")
    t.equal("bodies", bodies(found), [b"m1", b"m2"])
    t.equal("and then", (await pop(t, topic, group, expression="n > 1", kind="SQL92")).messages, [])


@case(
    "pop.sql-switched-off",
    QUIRK,
    codes=(*POP, Code.UPDATE_BROKER_CONFIG),
    needs=OWN,
    alone=True,
    rests_on=f"{PROCESSOR} does not look at enablePropertyFilter",
)
async def by_expression_all_the_same(t: Trial) -> None:
    """A pop by SQL92 is served also where the broker does not filter by properties, which refuses pulls."""
    topic, group = await filled_with_properties(t), await t.group()
    async with configured(t, enablePropertyFilter="false"):
        found = await popped(t, topic, group, 1, asked=32, expression="n = 2", kind="SQL92")
    t.equal("bodies", bodies(found), [b"m1"])


@case("pop.all-queues-at-once", MUST, rests_on=f"{PROCESSOR}.popMsgFromTopic")
async def all_at_once(t: Trial) -> None:
    """One pop of all queues takes of each, as long as it has room; what it leaves is counted.

    By groups that have popped nothing yet: nobody else is at their queues.
    """
    topic = await filled(t, 3, queues=3)
    whole = await pop(t, topic, await t.group())
    t.equal("bodies", bodies(whole.messages), [b"m0", b"m1", b"m2"])
    t.answer("all of them", whole.answer, ext={"restNum": "0"})
    t.equal("where it began", sorted(whole.answer.ext["startOffsetInfo"].split(";")), ["0 0 0", "0 1 0", "0 2 0"])
    group = await t.group()
    one = await pop(t, topic, group, count=1)
    t.equal("messages", len(one.messages), 1)
    t.answer("one of them", one.answer, ext={"restNum": "2"})
    others = await popped(t, topic, group, 2)
    t.equal("this and the others", bodies([*one.messages, *others]), [b"m0", b"m1", b"m2"])


@case(
    "pop.priorities", SHOULD, since=(5, 5), rests_on=f"{PROCESSOR}.popMsgFromTopic: TopicMessageType.PRIORITY, priorityOrderAsc"
)
async def priorities(t: Trial) -> None:
    """Of a topic with priorities the last queue is popped first, then the one before it."""
    t.wants("priorityOrderAsc", "true")
    topic = await filled(t, 3, queues=3, attributes="+message.type=PRIORITY")
    whole = await pop(t, topic, await t.group())
    t.equal("at once", [one.body for one in whole.messages], [b"m2", b"m1", b"m0"])
    singly = await popped(t, topic, await t.group(), 3, asked=1)
    t.equal("one by one", [one.body for one in singly], [b"m2", b"m1", b"m0"])


@case(
    "pop.order-other-time",
    MUST,
    codes=(*POP, Code.CHANGE_MESSAGE_INVISIBLETIME),
    needs=OWN,
    rests_on="ChangeInvisibleTimeProcessor.processChangeInvisibleTimeForOrder, ConsumerOrderInfoManager.updateNextVisibleTime",
)
async def other_time_in_order(t: Trial) -> None:
    """In order, too, a client may ask for less time: messages come again sooner, at their place.

    The answer keeps the time of the pop; the invisible time counts from there.
    """
    topic, group = await ordered(t, 3)
    first = await popped(t, topic, group, 2, queue=0, order=True)
    for one in first:
        asked = ChangeInvisibleTime(
            consumer_group=group, topic=topic, queue_id=0, extra_info=one.receipt, offset=one.offset, invisible_time=short_ms(t)
        )
        changed = t.answer("change", await t.broker.ask(asked)).header(ChangeInvisibleTimeResponse)
        _, popped_ms, _, revive, *_ = one.receipt.split(" ")
        t.equal("time of the pop, queue", (changed.pop_time, changed.revive_qid), (int(popped_ms), int(revive)))
        t.check("invisible time", changed.invisible_time >= short_ms(t), expected=short_ms(t), seen=changed.invisible_time)
    again = await again_in_order(t, topic, group, 3)
    t.equal("again, and the next", [one.body for one in again.messages], [b"m0", b"m1", b"m2"])
    t.equal("how often", again.answer.ext.get("orderCountInfo"), "0 qo0%0 1;0 qo0%1 1;0 0 0")


@case(
    "pop.retries-first-or-last",
    SHOULD,
    codes=(*POP, Code.UPDATE_BROKER_CONFIG),
    needs=OWN,
    since=(5, 3, 1),
    alone=True,
    rests_on=f"{PROCESSOR}.processRequest: popFromRetryProbability",
)
async def retries_first_or_last(t: Trial) -> None:
    """A broker may hand out what comes again before all else, or only where there is room.

    Each queue is popped once: the reference locks one for a moment while it writes a group's place down.
    """
    topic, group = await t.topic(queues=2), await t.group()
    await t.send(topic, b"again", queue=0)
    await t.pull_all(topic, 1, queue=0)
    await popped(t, topic, group, 1, queue=0, invisible_ms=AT_ONCE_MS)
    for body in (b"first", b"second"):
        await t.send(topic, body, queue=1)
    await t.pull_all(topic, 2, queue=1)
    await t.pull_all(names.pop_retry_topic(topic, group), 1)
    for chance, body in (("0", b"first"), ("100", b"again")):
        async with configured(t, popFromRetryProbability=chance):
            t.equal(f"chance {chance}", bodies(await popped(t, topic, group, 1, queue=1)), [body])
