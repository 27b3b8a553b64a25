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

import trio

from conformance.case import Level, Need, case
from conformance.popping import INVISIBLE_MS, SHORT_MS, Handed, acknowledge, bodies, filled, pop, popped
from conformance.trial import Trial, units
from rmq_wire.codes import RequestCode as Code
from rmq_wire.codes import ResponseCode
from rmq_wire.headers.pop import (
    AckMessage,
    BatchAckMessage,
    ChangeInvisibleTime,
    ChangeInvisibleTimeResponse,
    Notification,
    PeekMessage,
)

PROCESSOR = "PopMessageProcessor"
SINCE = (5,)
POP = (Code.POP_MESSAGE,)
ACK = (Code.POP_MESSAGE, Code.ACK_MESSAGE)
OWN = (Need.OWN,)


@case("pop.hands-out", Level.MUST, "A pop hands messages out, each with a receipt", codes=POP, since=SINCE, rests_on=PROCESSOR)
async def hands_out(t: Trial) -> None:
    """Clients make the receipt out of the answer's fields; `pop.acknowledged` shows that it is one."""
    topic, group = await filled(t, 3), await t.group()
    found = await popped(t, topic, group, 3)
    t.equal("bodies", bodies(found), [b"m0", b"m1", b"m2"])
    t.equal("offsets", sorted(one.offset for one in found), [0, 1, 2])


@case(
    "pop.answer-header",
    Level.MUST,
    "The answer tells when, for how long, and from which offsets",
    codes=POP,
    since=SINCE,
    rests_on="PopMessageResponseHeader",
)
async def answer_header(t: Trial) -> None:
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


@case(
    "pop.invisible",
    Level.MUST,
    "What was handed out is handed out to nobody else meanwhile",
    codes=POP,
    since=SINCE,
    rests_on=PROCESSOR,
)
async def invisible(t: Trial) -> None:
    topic, group = await filled(t, 3), await t.group()
    await popped(t, topic, group, 3)
    again = await pop(t, topic, group)
    t.equal("messages", again.messages, [])
    t.equal("for another group", bodies(await popped(t, topic, await t.group(), 3)), [b"m0", b"m1", b"m2"])


@case(
    "pop.shared-queue",
    Level.MUST,
    "Two pops of one group get different messages of the same queue",
    codes=POP,
    since=SINCE,
    rests_on=PROCESSOR,
)
async def shared_queue(t: Trial) -> None:
    topic, group = await filled(t, 6), await t.group()
    first, second = await pop(t, topic, group, queue=0, count=3), await pop(t, topic, group, queue=0, count=3)
    t.equal("the first", bodies(first.messages), [b"m0", b"m1", b"m2"])
    t.equal("the second", bodies(second.messages), [b"m3", b"m4", b"m5"])


@case("pop.all-queues", Level.MUST, "Queue -1 pops from all queues", codes=POP, since=SINCE, rests_on=PROCESSOR)
async def all_queues(t: Trial) -> None:
    topic, group = await filled(t, 8, queues=4), await t.group()
    t.equal("bodies", bodies(await popped(t, topic, group, 8)), [b"m%d" % number for number in range(8)])


@case(
    "pop.acknowledged",
    Level.MUST,
    "What is acknowledged never comes again",
    codes=ACK,
    needs=OWN,
    since=SINCE,
    rests_on="AckMessageProcessor, PopReviveService",
)
async def acknowledged(t: Trial) -> None:
    """Of two messages one is acknowledged; only the other one comes again."""
    topic, group = await filled(t, 2), await t.group()
    found = await popped(t, topic, group, 2, invisible_ms=SHORT_MS)
    one = next(one for one in found if one.body == b"m0")
    t.answer("acknowledge", await acknowledge(t, topic, group, one))
    t.equal("what comes again", bodies(await popped(t, topic, group, 1)), [b"m1"])
    t.equal("and then", (await pop(t, topic, group)).messages, [])


@case(
    "pop.acknowledged-in-batch",
    Level.MUST,
    "Several are acknowledged in one request, by their distances from where the pop began",
    codes=(Code.POP_MESSAGE, Code.BATCH_ACK_MESSAGE),
    needs=OWN,
    since=(5, 2),
    rests_on="AckMessageProcessor: BatchAckMessageRequestBody, a bit set of offsets",
)
async def acknowledged_in_batch(t: Trial) -> None:
    """Of three messages the first and the last are acknowledged; only the one between comes again."""
    topic, group = await filled(t, 3), await t.group()
    found = await popped(t, topic, group, 3, queue=0, invisible_ms=SHORT_MS)
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


@case(
    "pop.again",
    Level.MUST,
    "What is not acknowledged in time comes again, counted as one attempt more",
    codes=POP,
    needs=OWN,
    since=SINCE,
    rests_on="PopReviveService",
)
async def again(t: Trial) -> None:
    topic, group = await filled(t, 1), await t.group()
    [first] = await popped(t, topic, group, 1, invisible_ms=SHORT_MS)
    t.equal("attempts", first.unit.reconsume_times, 0)
    [second] = await popped(t, topic, group, 1)
    t.equal("body, attempts", (second.body, second.unit.reconsume_times), (b"m0", 1))
    t.answer("acknowledge", await acknowledge(t, topic, group, second))


@case(
    "pop.change-invisible-time",
    Level.MUST,
    "A client may ask for more time, or less",
    codes=(Code.CHANGE_MESSAGE_INVISIBLETIME,),
    needs=OWN,
    since=SINCE,
    rests_on="ChangeInvisibleTimeProcessor",
)
async def change_time(t: Trial) -> None:
    """The answer's values make a new receipt; with a short time the message comes again soon."""
    topic, group = await filled(t, 1), await t.group()
    [first] = await popped(t, topic, group, 1)
    asked = ChangeInvisibleTime(
        consumer_group=group, topic=topic, queue_id=0, extra_info=first.receipt, offset=first.offset, invisible_time=SHORT_MS
    )
    told = t.answer("change", await t.broker.ask(asked)).header(ChangeInvisibleTimeResponse)
    t.equal("invisible time", told.invisible_time, SHORT_MS)
    [second] = await popped(t, topic, group, 1)
    t.equal("body", second.body, b"m0")


@case(
    "pop.waits",
    Level.MUST,
    "A pop that finds nothing waits for the first message",
    codes=POP,
    since=SINCE,
    rests_on="PopLongPollingService",
)
async def waits(t: Trial) -> None:
    topic, group = await t.topic(), await t.group()
    found: list[bytes] = []

    async def hold() -> None:
        found.extend(bodies((await pop(t, topic, group, poll_ms=10_000)).messages))

    with trio.move_on_after(8):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(hold)
            await trio.sleep(0.5)
            await t.send(topic, b"wake up")
    t.equal("bodies", found, [b"wake up"])


@case(
    "pop.waited-in-vain",
    Level.MUST,
    "A pop whose time is up is answered with code 210",
    codes=POP,
    since=SINCE,
    rests_on="PopLongPollingService: POLLING_TIMEOUT",
)
async def in_vain(t: Trial) -> None:
    topic, group = await t.topic(), await t.group()
    began = trio.current_time()
    t.answer("pop", (await pop(t, topic, group, poll_ms=1_500)).answer, code=ResponseCode.POLLING_TIMEOUT)
    t.check("not before its time", trio.current_time() - began > 1.2, seen=f"{trio.current_time() - began:.2f} s")


@case("pop.tags", Level.MUST, "A pop hands out what its expression selects", codes=POP, since=SINCE, rests_on=PROCESSOR)
async def tags(t: Trial) -> None:
    topic, group = await t.topic(), await t.group()
    for number in range(6):
        await t.send(topic, b"m%d" % number, tags="ab"[number % 2])
    await t.pull_all(topic, 6)
    found: list[Handed] = []
    for _ in range(5):
        found += (await pop(t, topic, group, expression="b")).messages
    t.equal("bodies", bodies(found), [b"m1", b"m3", b"m5"])


@case(
    "pop.at-most-32",
    Level.MUST,
    "One pop hands out 32 messages at most",
    codes=POP,
    since=SINCE,
    rests_on=f"{PROCESSOR}: maxMsgNums > 32 is refused",
)
async def at_most_32(t: Trial) -> None:
    topic, group = await filled(t, 1), await t.group()
    t.check("33 are refused", (await pop(t, topic, group, count=33)).answer.code != 0)
    t.equal("32 are not", len((await pop(t, topic, group, count=32, queue=0)).messages), 1)


@case(
    "pop.order",
    Level.MUST,
    "In order, the next messages of a queue wait for the acknowledgement of these",
    codes=ACK,
    since=SINCE,
    rests_on="ConsumerOrderInfoManager",
)
async def in_order(t: Trial) -> None:
    topic, group = await filled(t, 4), await t.group(consume_message_orderly=True)
    first = await popped(t, topic, group, 2, queue=0, order=True)
    t.equal("the first two", [one.body for one in first], [b"m0", b"m1"])
    t.equal("meanwhile", (await pop(t, topic, group, queue=0, count=2, order=True)).messages, [])
    for one in first:
        t.answer("acknowledge", await acknowledge(t, topic, group, one))
    second = await popped(t, topic, group, 2, queue=0, order=True)
    t.equal("the next two", [one.body for one in second], [b"m2", b"m3"])


@case(
    "pop.peek",
    Level.SHOULD,
    "A peek shows messages without handing them out",
    codes=(Code.PEEK_MESSAGE,),
    since=SINCE,
    rests_on="PeekMessageProcessor",
)
async def peek(t: Trial) -> None:
    topic, group = await filled(t, 2), await t.group()
    asked = PeekMessage(topic=topic, queue_id=0, max_msg_nums=32, consumer_group=group)
    for _ in range(2):
        t.equal("bodies", [bytes(unit.body) for unit in units(t.answer("peek", await t.broker.ask(asked)).body)], [b"m0", b"m1"])
    t.equal("they can still be popped", bodies(await popped(t, topic, group, 2)), [b"m0", b"m1"])


@case(
    "pop.notification",
    Level.SHOULD,
    "A client may ask whether there is something to pop",
    codes=(Code.NOTIFICATION,),
    since=SINCE,
    rests_on="NotificationProcessor",
)
async def notification(t: Trial) -> None:
    group = await t.group()
    for count, expected in ((1, "true"), (0, "false")):
        asked = Notification(
            consumer_group=group, topic=await filled(t, count), queue_id=-1, poll_time=0, born_time=int(time.time() * 1e3)
        )
        t.answer(f"with {count} messages", await t.broker.ask(asked), ext={"hasMsg": expected})


@case(
    "pop.refused.forged-receipt",
    Level.SHOULD,
    "An acknowledgement with a receipt that is none is refused",
    codes=(Code.ACK_MESSAGE,),
    since=SINCE,
    rests_on="ExtraInfoUtil.split",
)
async def forged(t: Trial) -> None:
    topic, group = await filled(t, 1), await t.group()
    asked = AckMessage(consumer_group=group, topic=topic, queue_id=0, extra_info="no receipt", offset=0)
    answer = await t.broker.ask(asked)
    unjudged = (ResponseCode.SUCCESS, ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
    t.check("refused, and not for the code alone", answer.code not in unjudged, seen=answer)
    t.equal("nothing is lost by it", bodies(await popped(t, topic, group, 1)), [b"m0"])
