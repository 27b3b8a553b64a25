"""POP: the broker hands messages out for a while, waits for the acknowledgement, and hands them out again without it.

A client needs no queue of its own and keeps no progress.  It acknowledges by a receipt of eight words: where the pop began,
`popTime`, `invisibleTime`, `reviveQid`, 0, broker name, queue, queue offset.  `startOffsetInfo` has `0 queue start` for each
queue, joined by semicolons, `msgOffsetInfo` likewise the offsets; a message that comes again has its receipt in the property
`POP_CK`.
"""

from __future__ import annotations

import base64
import json
import time
from functools import partial

import trio

from conformance.suite.kit import MUST, SHOULD, Code, Need, ResponseCode, Trial, units
from conformance.suite.kit import case as declare
from conformance.suite.means.holding import hold_ms, woken_s
from conformance.suite.means.popping import (
    INVISIBLE_MS,
    acknowledge,
    again_in_order,
    bodies,
    filled,
    ordered,
    pop,
    popped,
    short_ms,
)
from rmq_wire.headers.pop import (
    BatchAckMessage,
    ChangeInvisibleTime,
    ChangeInvisibleTimeResponse,
    Notification,
    PeekMessage,
    PollingInfo,
)

PROCESSOR = "PopMessageProcessor"
POP = (Code.POP_MESSAGE,)
ACK = (Code.POP_MESSAGE, Code.ACK_MESSAGE)
OWN = (Need.OWN,)
FILLED_S = 40.0
"""How long a busy server may take to park a thousand pops: less than each of them waits."""


case = partial(declare, codes=POP, since=(5,))


@case("pop.hands-out", MUST, rests_on=PROCESSOR)
async def hands_out(t: Trial) -> None:
    """A pop hands messages out, each with a receipt.

    Clients make the receipt out of the answer's fields; `pop.acknowledged` shows that it is one.
    """
    topic, group = await filled(t, 3), await t.group()
    found = await popped(t, topic, group, 3)
    t.equal("bodies", bodies(found), [b"m0", b"m1", b"m2"])
    t.equal("offsets", sorted(one.offset for one in found), [0, 1, 2])


@case("pop.answer-header", MUST, rests_on="PopMessageResponseHeader")
async def answer_header(t: Trial) -> None:
    """The answer says when, for how long, and from which offsets."""
    topic, group = await filled(t, 2), await t.group()
    before_ms = time.time() * 1e3
    answer = t.answer(
        "pop",
        (await pop(t, topic, group, queue=0)).answer,
        ext={"invisibleTime": str(INVISIBLE_MS), "popTime": int, "reviveQid": int},
    )
    t.check("the time of the pop", abs(int(answer.ext["popTime"]) - before_ms) < 60_000, seen=answer.ext["popTime"])
    t.equal("where it began", answer.ext.get("startOffsetInfo"), "0 0 0")
    t.equal("which offsets", answer.ext.get("msgOffsetInfo"), "0 0 0,1")
    t.equal("how many are left", answer.ext.get("restNum"), "0")


@case("pop.invisible", MUST, rests_on=PROCESSOR)
async def invisible(t: Trial) -> None:
    """What was handed out is handed out to nobody else meanwhile."""
    topic, group = await filled(t, 3), await t.group()
    await popped(t, topic, group, 3)
    again = await pop(t, topic, group)
    t.equal("messages", again.messages, [])
    t.equal("for another group", bodies(await popped(t, topic, await t.group(), 3)), [b"m0", b"m1", b"m2"])


@case("pop.shared-queue", MUST, rests_on=PROCESSOR)
async def shared_queue(t: Trial) -> None:
    """Two pops of one group get different messages of the same queue.

    The reference may find nothing for a moment: while it writes the group's place down, the queue is locked.
    """
    topic, group = await filled(t, 6), await t.group()
    t.equal("the first", bodies(await popped(t, topic, group, 3, queue=0)), [b"m0", b"m1", b"m2"])
    t.equal("the second", bodies(await popped(t, topic, group, 3, queue=0)), [b"m3", b"m4", b"m5"])


@case("pop.all-queues", MUST, rests_on=PROCESSOR)
async def all_queues(t: Trial) -> None:
    """Queue -1 pops from all queues."""
    topic, group = await filled(t, 8, queues=4), await t.group()
    t.equal("bodies", bodies(await popped(t, topic, group, 8)), [b"m%d" % number for number in range(8)])


@case("pop.acknowledged", MUST, codes=ACK, needs=OWN, rests_on="AckMessageProcessor, PopReviveService")
async def acknowledged(t: Trial) -> None:
    """What is acknowledged never comes again.

    Of two messages one is acknowledged; only the other one comes again.
    """
    topic, group = await filled(t, 2), await t.group()
    found = await popped(t, topic, group, 2, invisible_ms=short_ms(t))
    one = next(one for one in found if one.body == b"m0")
    t.answer("acknowledge", await acknowledge(t, topic, group, one))
    t.equal("what comes again", bodies(await popped(t, topic, group, 1)), [b"m1"])
    t.equal("and then", (await pop(t, topic, group)).messages, [])


@case(
    "pop.acknowledged-in-batch",
    MUST,
    codes=(Code.POP_MESSAGE, Code.BATCH_ACK_MESSAGE),
    needs=OWN,
    since=(5, 2),
    rests_on="AckMessageProcessor: BatchAckMessageRequestBody, a bit set of offsets",
)
async def acknowledged_in_batch(t: Trial) -> None:
    """Several are acknowledged in one request, by their distances from where the pop began.

    Of three messages the first and the last are acknowledged; only the one between comes again.
    """
    topic, group = await filled(t, 3), await t.group()
    found = await popped(t, topic, group, 3, queue=0, invisible_ms=short_ms(t))
    start, popped_ms, invisible_ms, revive, *_ = found[0].receipt.split(" ")
    bits = sum(1 << one.offset - int(start) for one in found if one.body != b"m1")
    ack = {
        "c": group,
        "t": topic,
        "r": "0",
        "so": int(start),
        "q": 0,
        "rq": int(revive),
        "pt": int(popped_ms),
        "it": int(invisible_ms),
        "b": base64.b64encode(bytes([bits])).decode(),
    }
    body = json.dumps({"brokerName": t.target.broker_name, "acks": [ack]}).encode()
    t.answer("acknowledge", await t.broker.ask(BatchAckMessage(), body))
    t.equal("what comes again", bodies(await popped(t, topic, group, 1)), [b"m1"])
    t.equal("and then", (await pop(t, topic, group)).messages, [])


@case("pop.again", MUST, needs=OWN, rests_on="PopReviveService")
async def again(t: Trial) -> None:
    """What is not acknowledged in time comes again, counted as one attempt more."""
    topic, group = await filled(t, 1), await t.group()
    [first] = await popped(t, topic, group, 1, invisible_ms=short_ms(t))
    t.equal("attempts", first.unit.reconsume_times, 0)
    [second] = await popped(t, topic, group, 1)
    t.equal("body, attempts", (second.body, second.unit.reconsume_times), (b"m0", 1))
    t.answer("acknowledge", await acknowledge(t, topic, group, second))


@case(
    "pop.change-invisible-time", MUST, codes=Code.CHANGE_MESSAGE_INVISIBLETIME, needs=OWN, rests_on="ChangeInvisibleTimeProcessor"
)
async def change_time(t: Trial) -> None:
    """A client may ask for more time, or less.

    The answer's values make a new receipt; with a short time the message comes again soon.
    """
    topic, group = await filled(t, 1), await t.group()
    [first] = await popped(t, topic, group, 1)
    asked = ChangeInvisibleTime(
        consumer_group=group, topic=topic, queue_id=0, extra_info=first.receipt, offset=first.offset, invisible_time=short_ms(t)
    )
    changed = t.answer("change", await t.broker.ask(asked)).header(ChangeInvisibleTimeResponse)
    t.equal("invisible time", changed.invisible_time, short_ms(t))
    [second] = await popped(t, topic, group, 1)
    t.equal("body", second.body, b"m0")


@case("pop.waits", MUST, rests_on="PopLongPollingService")
async def waits(t: Trial) -> None:
    """A pop that finds nothing waits for the first message."""
    topic, group = await t.topic(), await t.group()
    found: list[bytes] = []

    async def hold() -> None:
        found.extend(bodies((await pop(t, topic, group, poll_ms=hold_ms(t))).messages))

    async def waiting() -> bool:
        return (await t.broker.ask(PollingInfo(consumer_group=group, topic=topic, queue_id=-1))).ext.get("pollingNum") == "1"

    with trio.move_on_after(woken_s(t)):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(hold)
            await t.until("it waits", waiting)
            await t.send(topic, b"wake up")
    t.equal("bodies", found, [b"wake up"])


@case("pop.waited-in-vain", MUST, rests_on="PopLongPollingService: POLLING_TIMEOUT")
async def in_vain(t: Trial) -> None:
    """A pop whose time is up is answered with code 210."""
    topic, group = await t.topic(), await t.group()
    began = trio.current_time()
    t.answer("pop", (await pop(t, topic, group, poll_ms=1_500)).answer, code=ResponseCode.POLLING_TIMEOUT)
    waited_s = trio.current_time() - began
    t.check("not before its time", waited_s > 1.2, seen=f"{waited_s:.2f} s")


@case("pop.tags", MUST, rests_on=PROCESSOR)
async def tags(t: Trial) -> None:
    """A pop hands out what its expression selects."""
    topic, group = await t.topic(), await t.group()
    for number in range(6):
        await t.send(topic, b"m%d" % number, tags="ab"[number % 2])
    await t.pull_all(topic, 6)
    found = await popped(t, topic, group, 3, asked=32, expression="b")
    t.equal("bodies", bodies(found), [b"m1", b"m3", b"m5"])
    t.equal("and then", (await pop(t, topic, group, expression="b")).messages, [])


@case("pop.at-most-32", MUST, rests_on=f"{PROCESSOR}: maxMsgNums > 32 is refused")
async def at_most_32(t: Trial) -> None:
    """One pop hands out 32 messages at most."""
    topic, group = await filled(t, 1), await t.group()
    t.check("33 are refused", (await pop(t, topic, group, count=33)).answer.code != 0)
    t.equal("32 are not", len(await popped(t, topic, group, 1, asked=32, queue=0)), 1)


@case("pop.order", MUST, codes=ACK, rests_on="ConsumerOrderInfoManager")
async def in_order(t: Trial) -> None:
    """In order, the next messages of a queue wait for the acknowledgement of these."""
    topic, group = await ordered(t, 4)
    first = await popped(t, topic, group, 2, queue=0, order=True)
    t.equal("the first two", [one.body for one in first], [b"m0", b"m1"])
    t.equal("meanwhile", (await pop(t, topic, group, queue=0, count=2, order=True)).messages, [])
    for one in first:
        t.answer("acknowledge", await acknowledge(t, topic, group, one))
    second = await popped(t, topic, group, 2, queue=0, order=True)
    t.equal("the next two", [one.body for one in second], [b"m2", b"m3"])


@case("pop.order-again", MUST, rests_on="ConsumerOrderInfoManager, QueueLevelConsumerOrderInfoLockManager")
async def in_order_again(t: Trial) -> None:
    """In order, what is not acknowledged in time comes again at its place, to who waits for it.

    `orderCountInfo` says how often: `0 qo0%offset times` for each message, `0 queue times` for old clients.
    """
    topic, group = await ordered(t, 3)
    first = await popped(t, topic, group, 2, queue=0, order=True, invisible_ms=short_ms(t))
    t.equal("the first two", [one.body for one in first], [b"m0", b"m1"])
    again = await again_in_order(t, topic, group, 3)
    t.equal("again, and the next", [one.body for one in again.messages], [b"m0", b"m1", b"m2"])
    t.equal("how often", again.answer.ext.get("orderCountInfo"), "0 qo0%0 1;0 qo0%1 1;0 0 0")
    t.answer("acknowledge", await acknowledge(t, topic, group, again.messages[0]))


@case("pop.order-attempt", SHOULD, rests_on="ConsumerOrderInfoManager.OrderInfo.needBlock")
async def the_same_attempt(t: Trial) -> None:
    """In order, an attempt that is repeated by its name gets the same again at once; another one does not."""
    topic, group = await ordered(t, 2)
    for attempt, expected in (("one", [b"m0"]), ("two", []), ("one", [b"m0"])):
        found = await pop(t, topic, group, queue=0, count=1, order=True, attempt=attempt)
        t.equal(f"attempt {attempt}", [one.body for one in found.messages], expected)


@case("pop.order-partly", MUST, codes=ACK, rests_on="ConsumerOrderInfoManager.commitAndNext")
async def partly_in_order(t: Trial) -> None:
    """In order, progress ends before the first message that is not acknowledged.

    Of three messages the second is acknowledged: all three come again.
    """
    topic, group = await ordered(t, 3)
    first = await popped(t, topic, group, 3, queue=0, order=True, invisible_ms=short_ms(t))
    t.answer("acknowledge", await acknowledge(t, topic, group, first[1]))
    again = await again_in_order(t, topic, group, 32)
    t.equal("what comes again", [one.body for one in again.messages], [b"m0", b"m1", b"m2"])


@case("pop.again-wakes", SHOULD, needs=OWN, since=(5, 5), rests_on="PopLongPollingService.notifyMessageArrivingFromRetry")
async def again_wakes(t: Trial) -> None:
    """Who waits is woken by a message that comes again."""
    topic, group = await filled(t, 1), await t.group()
    await popped(t, topic, group, 1, invisible_ms=short_ms(t))
    began = trio.current_time()
    found = await pop(t, topic, group, poll_ms=hold_ms(t))
    t.equal("bodies", bodies(found.messages), [b"m0"])
    t.check("not only at the end of its time", trio.current_time() - began < hold_ms(t) / 1e3 - 5)


@case("pop.notification-waits", SHOULD, codes=Code.NOTIFICATION, rests_on="NotificationProcessor, PopLongPollingService")
async def notification_waits(t: Trial) -> None:
    """A client may wait until there is something to pop; it still has to pop it."""
    topic, group = await t.topic(), await t.group()
    found: list[object] = []

    async def hold() -> None:
        now_ms = int(time.time() * 1e3)
        asked = Notification(consumer_group=group, topic=topic, queue_id=-1, poll_time=hold_ms(t), born_time=now_ms)
        answer = await t.connect().ask(asked, seconds=15 + hold_ms(t) / 1e3)
        found.append(answer.ext.get("hasMsg"))

    with trio.move_on_after(woken_s(t)):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(hold)
            while not found:  # one that comes before it waits is found at once
                await t.send(topic, b"wake up")
                await trio.sleep(0.5)
    t.equal("there is something", found, ["true"])
    t.check("it was not handed out", len(await popped(t, topic, group, 1, asked=32)) >= 1)


@case("pop.polling-full", SHOULD, rests_on="PopLongPollingService: popPollingSize 1024")
async def too_many_wait(t: Trial) -> None:
    """Of one group 1,025 pops may wait for a queue; the next one is answered 209 at once."""
    topic, group = await t.topic(), await t.group()

    async def wait() -> None:
        while True:  # the reference turns away what has waited 10 s for a thread
            await pop(t, topic, group, queue=0, poll_ms=hold_ms(t))
            await trio.sleep(0.5)

    with trio.move_on_after(60 * t.patience):
        async with trio.open_nursery() as nursery:
            for _ in range(1025):
                nursery.start_soon(wait)

            async def all_wait() -> bool:
                asked = PollingInfo(consumer_group=group, topic=topic, queue_id=0)
                return (await t.broker.ask(asked)).ext.get("pollingNum") == "1025"

            await t.until("all of them wait", all_wait, seconds=FILLED_S)
            t.answer(
                "one more",
                (await pop(t, topic, group, queue=0, poll_ms=hold_ms(t))).answer,
                code=ResponseCode.POLLING_FULL,
                remark="NO_MESSAGE_IN_QUEUE",
            )
            nursery.cancel_scope.cancel()


@case("pop.peek", SHOULD, codes=Code.PEEK_MESSAGE, rests_on="PeekMessageProcessor")
async def peek(t: Trial) -> None:
    """A peek shows messages without handing them out."""
    topic, group = await filled(t, 2), await t.group()
    asked = PeekMessage(topic=topic, queue_id=0, max_msg_nums=32, consumer_group=group)
    for _ in range(2):
        t.equal("bodies", [bytes(unit.body) for unit in units(t.answer("peek", await t.broker.ask(asked)).body)], [b"m0", b"m1"])
    t.equal("they can still be popped", bodies(await popped(t, topic, group, 2)), [b"m0", b"m1"])


@case("pop.notification", SHOULD, codes=Code.NOTIFICATION, rests_on="NotificationProcessor")
async def notification(t: Trial) -> None:
    """A client may ask whether there is something to pop."""
    group = await t.group()
    for count, expected in ((1, "true"), (0, "false")):
        asked = Notification(
            consumer_group=group, topic=await filled(t, count), queue_id=-1, poll_time=0, born_time=int(time.time() * 1e3)
        )
        t.answer(f"with {count} messages", await t.broker.ask(asked), ext={"hasMsg": expected})
