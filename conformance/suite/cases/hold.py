"""Long polling: a pull that finds nothing waits for the first message, and no longer than the request allows.

A pull with the suspend bit (2) in `sysFlag` that finds nothing is kept for up to `suspendTimeoutMillis`, and answered as soon
as its queue has a message that it may take, or with 19 when the time is up.  Push consumers live on this: between their pulls
is no pause.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import trio

from conformance.suite.kit import MUST, SHOULD, Code, Need, ResponseCode, Trial
from conformance.suite.kit import case as declare
from conformance.suite.means.holding import Holding, dealt_with, hold_ms, parked, woken_s
from conformance.suite.means.settings import configured
from conformance.suite.trial import Pulled
from rmq_wire.headers.offsets import QueryConsumerOffset, ResetOffset
from rmq_wire.sys_flag import PULL_COMMIT_OFFSET, PULL_SUBSCRIPTION, PULL_SUSPEND

SERVICE = "PullRequestHoldService"
SOON_S = 3.0
"""A wake-up that is due at once; the reference's sweep, which must not be needed, comes every `SWEEP_S`."""
QUICK, TURNS = 3, 6
"""So many wake-ups of so many must be soon."""
SWEEP_S = 5.0
"""`PullRequestHoldService.run`."""
LATE_S = 6.0
"""What a busy machine may add."""


case = partial(declare, codes=Code.PULL_MESSAGE)


async def mostly_soon(t: Trial, woken: Callable[[int], Awaitable[float]]) -> None:
    """How long waking takes, turn by turn, is most of the time next to nothing.

    A busy machine may take its time once or twice.  A server that only looks every 5 s may be in luck once, but cannot be right
    after it looked.
    """
    quick = 0
    for turn in range(TURNS):
        quick += await woken(turn) < SOON_S
        if quick == QUICK:
            return
    t.fail(f"woken within {SOON_S:g} s", expected=f"{QUICK} times of {TURNS}", seen=quick)


@case("hold.wakes", MUST, rests_on=f"{SERVICE}.notifyMessageArriving")
async def wakes(t: Trial) -> None:
    """A message wakes the pull that waits for it, at once.

    Three times of six: a busy machine may take its time.
    """
    topic = await t.topic()
    async with trio.open_nursery() as nursery:

        async def woken(offset: int) -> float:
            held = Holding(t, nursery, topic, offset)
            await parked(t, topic, held.link)
            t.check("it waits", not held.came.is_set())
            began = trio.current_time()
            await t.send(topic, b"wake up %d" % offset)
            t.equal("bodies", await held.bodies(t, f"after send {offset}"), [b"wake up %d" % offset])
            return trio.current_time() - began

        await mostly_soon(t, woken)


@case("hold.wakes-all", MUST, rests_on=SERVICE)
async def wakes_all(t: Trial) -> None:
    """Every pull that waits on the queue is woken.

    At once, three times of six.
    """
    topic, groups = await t.topic(), [await t.group() for _ in range(8)]
    async with trio.open_nursery() as nursery:

        async def woken(offset: int) -> float:
            held = [Holding(t, nursery, topic, offset, group=group) for group in groups]
            await parked(t, topic, *(one.link for one in held))
            began = trio.current_time()
            await t.send(topic, b"all of you")
            for number, one in enumerate(held):
                t.equal(f"pull {number}", await one.bodies(t, f"pull {number}"), [b"all of you"])
            return trio.current_time() - began

        await mostly_soon(t, woken)


@case("hold.other-queue", MUST, rests_on=SERVICE)
async def other_queue(t: Trial) -> None:
    """A message of another queue wakes nobody."""
    topic = await t.topic(queues=2)
    async with trio.open_nursery() as nursery:
        held = Holding(t, nursery, topic, queue=0)
        await parked(t, topic, held.link)
        await t.send(topic, b"elsewhere", queue=1)
        await t.pull_all(topic, 1, queue=1)
        await dealt_with(t, topic, held.link)
        t.check("it still waits", not held.came.is_set())
        await t.send(topic, b"here", queue=0)
        t.equal("bodies", await held.bodies(t, "after the right one"), [b"here"])


@case("hold.other-tag", MUST, rests_on=f"{SERVICE}: isMatchedByConsumeQueue")
async def other_tag(t: Trial) -> None:
    """A message of another tag brings nothing; one of the own tag comes at once.

    A server may go on waiting, or answer 20 with the offset behind the other message, as the reference does every 5 s.
    """
    topic = await t.topic()
    async with trio.open_nursery() as nursery:
        held = Holding(t, nursery, topic, tags="wanted")
        await parked(t, topic, held.link)
        await t.send(topic, b"no", tags="other")
        await t.pull_all(topic, 1)
        await dealt_with(t, topic, held.link)
        if held.came.is_set():
            await _passed_over(t, held)
        await t.send(topic, b"yes", tags="wanted")
        bodies = await held.bodies(t, "after its tag")
        if not bodies:
            await _passed_over(t, held)
            bodies = [bytes(unit.body) for unit in (await t.pull(topic, 1, tags="wanted", hold_ms=hold_ms(t))).messages]
        t.equal("bodies", bodies, [b"yes"])


async def _passed_over(t: Trial, held: Holding) -> None:
    """The pull was answered: nothing matched, go on at 1."""
    assert held.pulled is not None
    t.answer("early", held.pulled.answer, code=ResponseCode.PULL_RETRY_IMMEDIATELY, ext={"nextBeginOffset": "1"}, body=b"")


@case("hold.ends", MUST, rests_on="PullRequestHoldService.checkHoldRequest: suspendTimeoutMillis")
async def ends(t: Trial) -> None:
    """Without a message the pull is answered with code 19 when its time is up.

    The reference looks every 5 s, so it may be late by that.
    """
    topic = await t.topic()
    pulled = await t.pull(topic, 0, hold_ms=1_000)
    t.answer("the end", pulled.answer, code=ResponseCode.PULL_NOT_FOUND, ext={"nextBeginOffset": "0", "maxOffset": "0"})
    t.check("not before its time", pulled.answer.took_s > 0.9, expected="1 s or more", seen=f"{pulled.answer.took_s:.2f} s")
    latest_s = 1 + SWEEP_S + LATE_S * t.patience
    t.check("soon after", pulled.answer.took_s < latest_s, expected=f"< {latest_s:g} s", seen=f"{pulled.answer.took_s:.2f} s")
    t.note("seconds", f"{pulled.answer.took_s:.2f}")


@case("hold.not-without-flag", MUST, rests_on="PullSysFlag.FLAG_SUSPEND")
async def not_without_flag(t: Trial) -> None:
    """Without the suspend flag nobody waits."""
    topic = await t.topic()
    asked_s = 15 * t.patience
    pulled = await t.pull(topic, 0, suspend_timeout_millis=int(asked_s * 1e3))
    t.answer("the answer", pulled.answer, code=ResponseCode.PULL_NOT_FOUND)
    latest_s = asked_s * 2 / 3
    t.check(
        "long before the time is up",
        pulled.answer.took_s < latest_s,
        expected=f"< {latest_s:g} s",
        seen=f"{pulled.answer.took_s:.2f} s",
    )


@case("hold.others-go-on", MUST, rests_on="NettyRemotingServer")
async def others_go_on(t: Trial) -> None:
    """A connection that waits for a message serves other requests meanwhile."""
    topic, link = await t.topic(), t.connect()
    async with trio.open_nursery() as nursery:
        done: list[Pulled] = []

        async def hold() -> None:
            done.append(await t.pull(topic, 0, hold_ms=hold_ms(t), link=link))

        nursery.start_soon(hold)
        await parked(t, topic, link)
        sent = await t.send(topic, b"on the same connection", link=link)
        t.equal("queue offset", sent.queue_offset, 0)
        with trio.move_on_after(woken_s(t)):
            while not done:
                await trio.sleep(0.02)
        t.check("it was woken by its own connection", bool(done))


@case("hold.gone-client", SHOULD, rests_on=SERVICE)
async def gone_client(t: Trial) -> None:
    """A client that goes away while it waits hurts nobody."""
    topic, link = await t.topic(), t.connect()
    async with trio.open_nursery() as nursery:

        async def hold() -> None:
            try:
                await t.pull(topic, 0, hold_ms=hold_ms(t), link=link)
            except Exception:
                return

        nursery.start_soon(hold)
        await parked(t, topic, link)
        await link.close()
        held = Holding(t, nursery, topic)
        await parked(t, topic, held.link)
        await t.send(topic, b"for the other")
        t.equal("bodies", await held.bodies(t, "the one that is left"), [b"for the other"])


@case("hold.many", SHOULD, rests_on=SERVICE)
async def many(t: Trial) -> None:
    """Two hundred pulls that wait are all woken by one message."""
    topic, link = await t.topic(), t.connect()
    async with trio.open_nursery() as nursery:
        bodies: list[bytes] = []

        async def hold() -> None:
            pulled = await t.pull(topic, 0, hold_ms=hold_ms(t), link=link)
            bodies.extend(bytes(unit.body) for unit in pulled.messages)

        for _ in range(200):
            nursery.start_soon(hold)
        await parked(t, topic, link, pulls=200)
        await t.send(topic, b"all")
        with trio.move_on_after(woken_s(t)):
            while len(bodies) < 200:
                await trio.sleep(0.05)
        t.equal("woken", len(bodies), 200)


@case("hold.commits", MUST, rests_on="PullMessageProcessor.tryCommitOffset")
async def commits(t: Trial) -> None:
    """What a pull says of its group's progress counts as soon as it waits, not when it is answered."""
    topic, group = await t.topic(), await t.group()
    for number in range(3):
        await t.send(topic, b"m%d" % number)
    await t.pull_all(topic, 3)
    async with trio.open_nursery() as nursery:
        flags = PULL_SUBSCRIPTION | PULL_SUSPEND | PULL_COMMIT_OFFSET
        held = Holding(t, nursery, topic, 3, group=group, sys_flag=flags, commit_offset=2)
        await parked(t, topic, held.link)
        answer = await t.broker.ask(QueryConsumerOffset(consumer_group=group, topic=topic, queue_id=0))
        t.answer("progress", answer, ext={"offset": "2"})
        t.check("it still waits", not held.came.is_set())
        await t.send(topic, b"wake up")
        t.equal("bodies", await held.bodies(t, "after a send"), [b"wake up"])


@case(
    "hold.after-a-reset",
    SHOULD,
    codes=(Code.PULL_MESSAGE, Code.INVOKE_BROKER_TO_RESET_OFFSET),
    since=(5,),
    rests_on="PullMessageProcessor: queryThenEraseResetOffset",
)
async def after_a_reset(t: Trial) -> None:
    """A group that is set back while it waits hears of it when the next message comes: code 21, without the message."""
    topic, group = await t.topic(), await t.group()
    await t.send(topic, b"old")
    await t.pull_all(topic, 1)
    async with trio.open_nursery() as nursery:
        held = Holding(t, nursery, topic, 1, group=group)
        await parked(t, topic, held.link)
        t.answer("reset", await t.broker.ask(ResetOffset(group=group, topic=topic, timestamp=0, is_force=True)))
        await t.send(topic, b"new")
        t.equal("bodies", await held.bodies(t, "after a send"), [])
        assert held.pulled is not None
        expected = {"nextBeginOffset": "0"}
        t.answer("moved", held.pulled.answer, code=ResponseCode.PULL_OFFSET_MOVED, remark="OFFSET_RESET", ext=expected)
    pulled = await t.pull(topic, 0, group=group)
    t.equal("from there on", [bytes(unit.body) for unit in pulled.messages], [b"old", b"new"])


@case(
    "hold.short-polling",
    SHOULD,
    codes=(Code.PULL_MESSAGE, Code.UPDATE_BROKER_CONFIG),
    needs=Need.OWN,
    alone=True,
    rests_on="PullRequestHoldService.run: longPollingEnable, shortPollingTimeMills",
)
async def short_polling(t: Trial) -> None:
    """A broker without long polling lets a pull wait for a second, whatever it asks for.

    The reference looks every second then, and may be late by one look of 5 s after it was told.
    """
    topic = await t.topic()
    async with configured(t, longPollingEnable="false"):
        pulled = await t.pull(topic, 0, hold_ms=hold_ms(t))
        t.answer("the end", pulled.answer, code=ResponseCode.PULL_NOT_FOUND, ext={"nextBeginOffset": "0"})
        t.check("after a second", pulled.answer.took_s > 0.9, expected="1 s or more", seen=f"{pulled.answer.took_s:.2f} s")
        latest_s = 1 + SWEEP_S + LATE_S * t.patience
        t.check("not longer", pulled.answer.took_s < latest_s, expected=f"< {latest_s:g} s", seen=f"{pulled.answer.took_s:.2f} s")
