"""Messages for a time of their own, to the millisecond, and calling them back (5.x).

The producer names the time by one of the properties `TIMER_DELIVER_MS` (wall time), `TIMER_DELAY_MS` and `TIMER_DELAY_SEC`.
Until then the message waits in a topic of the broker's own; the handle in the send's answer calls it back (370).
"""

from __future__ import annotations

import re
import time
from functools import partial

from conformance.suite.kit import MUST, SHOULD, Code, Need, ResponseCode, Trial, properties_of
from conformance.suite.kit import case as declare
from rmq_wire import property_names as prop
from rmq_wire.headers.configuration import UpdateBrokerConfig
from rmq_wire.headers.timers import RecallMessage
from rmq_wire.recall_handle import RecallHandle, handle_text

STORE = "TimerMessageStore"
OWN = (Need.OWN,)
LATE_MS = 6_000
"""How late a delivery may be on a busy machine; the wheel's own step is a second."""
EARLY_MS = 50


case = partial(declare, codes=Code.SEND_MESSAGE_V2, needs=OWN, since=(5,))


def now_ms() -> int:
    """Wall time."""
    return int(time.time() * 1e3)


async def arrives(t: Trial, topic: str, due_ms: int) -> None:
    """The only message of a topic comes at its time."""
    [unit] = await t.pull_all(topic, 1)
    late_ms, latest_ms = unit.store_timestamp - due_ms, LATE_MS * t.patience
    t.check(
        "at its time",
        -EARLY_MS <= late_ms <= latest_ms,
        expected=f"{-EARLY_MS} to {latest_ms:g} ms late",
        seen=f"{late_ms} ms late",
    )
    t.equal("body", bytes(unit.body), b"on time")
    t.check(
        "its topic is its own again",
        prop.REAL_TOPIC not in properties_of(unit) or properties_of(unit)[prop.REAL_TOPIC] == topic,
    )


async def comes_at(t: Trial, due_ms: int, name: str, value: int) -> None:
    """A message with this property waits, and comes at that time."""
    topic = await t.topic()
    await t.send(topic, b"on time", {name: str(value)})
    await arrives(t, topic, due_ms)


@case("timer.deliver-at", MUST, rests_on=STORE)
async def deliver_at(t: Trial) -> None:
    """TIMER_DELIVER_MS: at this time."""
    due_ms = now_ms() + 3_000
    await comes_at(t, due_ms, prop.TIMER_DELIVER_MS, due_ms)


@case("timer.delay-ms", MUST, rests_on="HookUtils.transformTimerMessage")
async def delay_ms(t: Trial) -> None:
    """TIMER_DELAY_MS: so many milliseconds from now."""
    await comes_at(t, now_ms() + 2_500, prop.TIMER_DELAY_MS, 2_500)


@case("timer.delay-sec", MUST, rests_on="HookUtils.transformTimerMessage")
async def delay_sec(t: Trial) -> None:
    """TIMER_DELAY_SEC: so many seconds from now."""
    await comes_at(t, now_ms() + 3_000, prop.TIMER_DELAY_SEC, 3)


@case("timer.past", MUST, rests_on="HookUtils.transformTimerMessage")
async def past(t: Trial) -> None:
    """A time that is over: at once."""
    topic = await t.topic()
    sent_ms = now_ms()
    await t.send(topic, b"on time", {prop.TIMER_DELIVER_MS: str(sent_ms - 10_000)})
    [unit] = await t.pull_all(topic, 1)
    t.equal("body", bytes(unit.body), b"on time")
    waited_ms, latest_ms = unit.store_timestamp - sent_ms, LATE_MS * t.patience
    t.check("at once", waited_ms <= latest_ms, expected=f"within {latest_ms:g} ms", seen=f"{waited_ms} ms")


@case("timer.too-far", MUST, rests_on="HookUtils: timerMaxDelaySec")
async def too_far(t: Trial) -> None:
    """More than three days ahead is refused: code 13."""
    topic = await t.topic()
    days_ms = 4 * 24 * 3_600_000
    for name, value in ((prop.TIMER_DELIVER_MS, now_ms() + days_ms), (prop.TIMER_DELAY_MS, days_ms)):
        answer = await t.broker.ask(t.message(topic, {name: str(value)}), b"too far")
        t.answer(name, answer, code=ResponseCode.MESSAGE_ILLEGAL)


@case("timer.unreadable", MUST, rests_on="HookUtils.transformTimerMessage: NumberFormatException")
async def unreadable(t: Trial) -> None:
    """A time that is no number is refused: code 13, and nothing is stored."""
    topic = await t.topic()
    for name in (prop.TIMER_DELIVER_MS, prop.TIMER_DELAY_MS, prop.TIMER_DELAY_SEC):
        for value in ("soon", "1.5", "9" * 20):
            answer = await t.broker.ask(t.message(topic, {name: value}), b"never")
            t.answer(f"{name}={value}", answer, code=ResponseCode.MESSAGE_ILLEGAL)
    t.equal("the next one's offset", (await t.send(topic)).queue_offset, 0)


@case("timer.level-goes-before", MUST, rests_on="HookUtils.checkIfTimerMessage")
async def level_goes_before(t: Trial) -> None:
    """A delay level goes before a time, even one that is refused by itself, and the delivered message has no time left."""
    topic = await t.topic()
    sent_ms = now_ms()
    await t.send(topic, b"on time", {prop.DELAY: "1", prop.TIMER_DELAY_SEC: "3600", prop.TIMER_DELIVER_MS: "soon"})
    await arrives(t, topic, sent_ms + 1_000)
    [unit] = await t.pull_all(topic, 1)
    times = (prop.TIMER_DELIVER_MS, prop.TIMER_DELAY_MS, prop.TIMER_DELAY_SEC)
    t.equal("times in its properties", [name for name in times if name in properties_of(unit)], [])


@case("timer.seconds-go-first", SHOULD, rests_on="HookUtils.transformTimerMessage")
async def seconds_go_first(t: Trial) -> None:
    """Of several times TIMER_DELAY_SEC counts, then TIMER_DELAY_MS."""
    topic = await t.topic()
    due_ms = now_ms() + 2_000
    hours = {prop.TIMER_DELAY_MS: "3600000", prop.TIMER_DELIVER_MS: str(due_ms + 3_600_000)}
    await t.send(topic, b"on time", {prop.TIMER_DELAY_SEC: "2", **hours})
    await arrives(t, topic, due_ms)


@case("timer.order-of-times", MUST, rests_on=STORE)
async def order(t: Trial) -> None:
    """The earlier time comes first, whatever was sent first."""
    topic, start_ms, step_ms = await t.topic(), now_ms(), int(2_000 * t.patience)
    for body, steps in ((b"third", 3), (b"first", 1), (b"second", 2)):
        await t.send(topic, body, {prop.TIMER_DELIVER_MS: str(start_ms + steps * step_ms)})
    t.equal("bodies", [bytes(unit.body) for unit in await t.pull_all(topic, 3)], [b"first", b"second", b"third"])


@case("timer.keeps-properties", MUST, rests_on=f"{STORE}.convert")
async def keeps(t: Trial) -> None:
    """Tags, keys and queue survive the waiting."""
    topic = await t.topic(queues=3)
    await t.send(topic, b"x", {prop.TIMER_DELAY_MS: "1500", "mine": "value"}, queue=2, tags="a", keys="k")
    [unit] = await t.pull_all(topic, 1, queue=2)
    found = properties_of(unit)
    t.equal("properties", [found.get(name) for name in ("TAGS", "KEYS", "mine")], ["a", "k", "value"])


@case("timer.recall", MUST, codes=Code.RECALL_MESSAGE, since=(5, 5), rests_on="RecallMessageProcessor")
async def recall(t: Trial) -> None:
    """A message that waits can be called back by the handle of its send.

    With recallMessageEnable.  Of two messages the other one comes.
    """
    topic = await t.topic()
    due_ms = now_ms() + int(6_000 * t.patience)
    handles = []
    for body in (b"called back", b"stays"):
        sent = await t.send(topic, body, {prop.TIMER_DELIVER_MS: str(due_ms)}, unique_key=t.unique_key())
        t.check("a handle came with the answer", bool(sent.recall_handle), seen=sent)
        handles.append(sent.recall_handle or "")
    asked = RecallMessage(topic=topic, recall_handle=handles[0], producer_group="CONF_producers")
    t.answer("recall", await t.broker.ask(asked))
    [unit] = await t.pull_all(topic, 1)
    t.equal("what comes", bytes(unit.body), b"stays")
    t.answer("nothing else", (await t.pull(topic, 1)).answer, code=ResponseCode.PULL_NOT_FOUND)


@case("timer.recall-nonsense", SHOULD, codes=Code.RECALL_MESSAGE, since=(5, 5), rests_on="RecallMessageHandle.decodeHandle")
async def recall_nonsense(t: Trial) -> None:
    """A handle that is none is refused: code 604."""
    answer = await t.broker.ask(RecallMessage(topic=await t.topic(), recall_handle="nonsense"))
    t.answer("recall", answer, code=ResponseCode.ILLEGAL_OPERATION, remark=re.compile("recall handle is invalid"))


@case("timer.recall-forged", MUST, codes=Code.RECALL_MESSAGE, since=(5, 5), rests_on="RecallMessageProcessor.processRequest")
async def recall_forged(t: Trial) -> None:
    """A handle of another topic, another broker, or a time that is over, too far or none is refused: code 604."""
    topic, name = await t.topic(), t.target.broker_name
    soon = str(now_ms() + 60_000)
    for what, handle, remark in (
        ("another topic", RecallHandle(await t.topic(), name, soon, "K"), "topic not match"),
        ("another broker", RecallHandle(topic, f"{name}-x", soon, "K"), "broker service not available"),
        ("a time that is over", RecallHandle(topic, name, str(now_ms() - 1_000), "K"), "timestamp invalid"),
        ("a time too far", RecallHandle(topic, name, str(now_ms() + 4 * 24 * 3_600_000), "K"), "timestamp invalid"),
        ("no time", RecallHandle(topic, name, "soon", "K"), "timestamp invalid"),
    ):
        answer = await t.broker.ask(RecallMessage(topic=topic, recall_handle=handle_text(handle)))
        t.answer(what, answer, code=ResponseCode.ILLEGAL_OPERATION, remark=re.compile(remark))


@case("timer.recall-of-another-key", MUST, codes=Code.RECALL_MESSAGE, since=(5, 5), rests_on=f"{STORE}: buildDeleteKey")
async def recall_of_another_key(t: Trial) -> None:
    """A handle with the right time and a key that no message has takes nothing away."""
    topic = await t.topic()
    due_ms = (now_ms() // 1_000 + int(6 * t.patience)) * 1_000 + 500
    await t.send(topic, b"on time", {prop.TIMER_DELIVER_MS: str(due_ms)}, unique_key=t.unique_key())
    forged = RecallHandle(topic, t.target.broker_name, str(due_ms // 1_000 * 1_000 + 1), t.unique_key())
    t.answer("recall", await t.broker.ask(RecallMessage(topic=topic, recall_handle=handle_text(forged))))
    await arrives(t, topic, due_ms)


@case(
    "timer.recall-switched-off",
    MUST,
    codes=(Code.RECALL_MESSAGE, Code.UPDATE_BROKER_CONFIG),
    since=(5, 5),
    alone=True,
    rests_on="BrokerConfig.recallMessageEnable",
)
async def recall_switched_off(t: Trial) -> None:
    """Without recallMessageEnable, as by default, nothing can be called back: code 16 to a handle that is good."""
    topic = await t.topic()
    due_ms = now_ms() + 4_000
    sent = await t.send(topic, b"on time", {prop.TIMER_DELIVER_MS: str(due_ms)}, unique_key=t.unique_key())
    try:
        t.answer("switch off", await t.broker.ask(UpdateBrokerConfig(), b"recallMessageEnable=false\n"))
        answer = await t.broker.ask(RecallMessage(topic=topic, recall_handle=sent.recall_handle or ""))
        t.answer("recall", answer, code=ResponseCode.NO_PERMISSION, remark="recall failed, operation is forbidden")
    finally:
        await t.broker.ask(UpdateBrokerConfig(), b"recallMessageEnable=true\n")
    await arrives(t, topic, due_ms)
