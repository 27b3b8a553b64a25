"""Long polling: a pull that finds nothing waits for the first message, and no longer than it was told.

A pull with the suspend bit (2) in `sysFlag` that finds nothing is kept for up to `suspendTimeoutMillis`, and answered as soon
as its queue has a message that it may take, or with 19 when the time is up.  Push consumers live on this: between their pulls
is no pause.
"""

from __future__ import annotations

import trio

from conformance.case import Level, case
from conformance.trial import Pulled, Trial
from rmq_wire.codes import RequestCode as Code
from rmq_wire.codes import ResponseCode

SERVICE = "PullRequestHoldService"
CODES = (Code.PULL_MESSAGE,)
SOON_S = 3.0
"""A wake-up that is due at once; the reference's sweep, which must not be needed, comes every `SWEEP_S`."""
SWEEP_S = 5.0
"""`PullRequestHoldService.run`."""
LATE_S = 3.0
"""What a busy machine may add."""


class Holding:
    """A pull that waits in a task of its own, on a connection of its own."""

    def __init__(self, t: Trial, nursery: trio.Nursery, topic: str, offset: int = 0, **options: object) -> None:
        self.pulled: Pulled | None = None
        self.took_s = 0.0
        self.came = trio.Event()
        nursery.start_soon(self._run, t, topic, offset, options)

    async def _run(self, t: Trial, topic: str, offset: int, options: dict[str, object]) -> None:
        began = trio.current_time()
        self.pulled = await t.pull(topic, offset, link=t.connect(), **{"hold_ms": 15_000, **options})  # type: ignore[arg-type]
        self.took_s = trio.current_time() - began
        self.came.set()

    async def bodies(self, t: Trial, what: str, *, seconds: float = SOON_S) -> list[bytes]:
        """What it brought, which must come in time."""
        with trio.move_on_after(seconds):
            await self.came.wait()
        t.check(f"{what}: the answer comes within {seconds:g} s", self.came.is_set())
        assert self.pulled is not None
        return [bytes(unit.body) for unit in self.pulled.messages]


async def _parked(t: Trial, topic: str) -> None:
    """Until pulls that were sent before are parked: the server has answered something that came after them."""
    await trio.sleep(0.3)
    await t.pull(topic, 1 << 40)


@case(
    "hold.wakes",
    Level.MUST,
    "A message wakes the pull that waits for it, at once",
    codes=CODES,
    rests_on=f"{SERVICE}.notifyMessageArriving",
)
async def wakes(t: Trial) -> None:
    """Three times: a server that only looks every 5 s would have to be in luck each time, and cannot be right after it looked."""
    topic = await t.topic()
    async with trio.open_nursery() as nursery:
        for offset in range(3):
            held = Holding(t, nursery, topic, offset)
            await _parked(t, topic)
            t.check("it waits", not held.came.is_set())
            await t.send(topic, b"wake up %d" % offset)
            t.equal("bodies", await held.bodies(t, f"after send {offset}"), [b"wake up %d" % offset])


@case("hold.wakes-all", Level.MUST, "Every pull that waits on the queue is woken", codes=CODES, rests_on=SERVICE)
async def wakes_all(t: Trial) -> None:
    topic = await t.topic()
    async with trio.open_nursery() as nursery:
        held = [Holding(t, nursery, topic, group=await t.group()) for _ in range(8)]
        await _parked(t, topic)
        await t.send(topic, b"all of you")
        for number, one in enumerate(held):
            t.equal(f"pull {number}", await one.bodies(t, f"pull {number}"), [b"all of you"])


@case("hold.other-queue", Level.MUST, "A message of another queue wakes nobody", codes=CODES, rests_on=SERVICE)
async def other_queue(t: Trial) -> None:
    topic = await t.topic(queues=2)
    async with trio.open_nursery() as nursery:
        held = Holding(t, nursery, topic, queue=0)
        await _parked(t, topic)
        await t.send(topic, b"elsewhere", queue=1)
        await trio.sleep(0.7)
        t.check("it still waits", not held.came.is_set())
        await t.send(topic, b"here", queue=0)
        t.equal("bodies", await held.bodies(t, "after the right one"), [b"here"])


@case(
    "hold.other-tag",
    Level.MUST,
    "A message of another tag brings nothing; one of the own tag comes at once",
    codes=CODES,
    rests_on=f"{SERVICE}: isMatchedByConsumeQueue",
)
async def other_tag(t: Trial) -> None:
    """A server may go on waiting, or answer 20 with the offset behind the other message, as the reference does every 5 s."""
    topic = await t.topic()
    async with trio.open_nursery() as nursery:
        held = Holding(t, nursery, topic, tags="wanted")
        await _parked(t, topic)
        await t.send(topic, b"no", tags="other")
        await trio.sleep(0.7)
        if held.came.is_set():
            await _passed_over(t, held)
        await t.send(topic, b"yes", tags="wanted")
        bodies = await held.bodies(t, "after its tag")
        if not bodies:
            await _passed_over(t, held)
            bodies = [bytes(unit.body) for unit in (await t.pull(topic, 1, tags="wanted", hold_ms=5_000)).messages]
        t.equal("bodies", bodies, [b"yes"])


async def _passed_over(t: Trial, held: Holding) -> None:
    """The pull was answered: nothing matched, go on at 1."""
    assert held.pulled is not None
    t.answer("early", held.pulled.answer, code=ResponseCode.PULL_RETRY_IMMEDIATELY, ext={"nextBeginOffset": "1"}, body=b"")


@case(
    "hold.ends",
    Level.MUST,
    "Without a message the pull is answered with code 19 when its time is up",
    codes=CODES,
    rests_on="PullRequestHoldService.checkHoldRequest: suspendTimeoutMillis",
)
async def ends(t: Trial) -> None:
    """The reference looks every 5 s, so it may be late by that."""
    topic = await t.topic()
    pulled = await t.pull(topic, 0, hold_ms=1_000)
    t.answer("the end", pulled.answer, code=ResponseCode.PULL_NOT_FOUND, ext={"nextBeginOffset": "0", "maxOffset": "0"})
    t.check("not before its time", pulled.answer.took_s > 0.9, expected="1 s or more", seen=f"{pulled.answer.took_s:.2f} s")
    latest_s = 1 + SWEEP_S + LATE_S
    t.check("soon after", pulled.answer.took_s < latest_s, expected=f"< {latest_s:g} s", seen=f"{pulled.answer.took_s:.2f} s")
    t.note("seconds", f"{pulled.answer.took_s:.2f}")


@case(
    "hold.not-without-flag", Level.MUST, "Without the suspend flag nobody waits", codes=CODES, rests_on="PullSysFlag.FLAG_SUSPEND"
)
async def not_without_flag(t: Trial) -> None:
    topic = await t.topic()
    pulled = await t.pull(topic, 0, suspend_timeout_millis=10_000)
    t.answer("the answer", pulled.answer, code=ResponseCode.PULL_NOT_FOUND)
    t.check("at once", pulled.answer.took_s < SOON_S, seen=f"{pulled.answer.took_s:.2f} s")


@case(
    "hold.others-go-on",
    Level.MUST,
    "A connection that waits for a message serves other requests meanwhile",
    codes=CODES,
    rests_on="NettyRemotingServer",
)
async def others_go_on(t: Trial) -> None:
    topic, link = await t.topic(), t.connect()
    async with trio.open_nursery() as nursery:
        done: list[Pulled] = []

        async def hold() -> None:
            done.append(await t.pull(topic, 0, hold_ms=15_000, link=link))

        nursery.start_soon(hold)
        await trio.sleep(0.3)
        sent = await t.send(topic, b"on the same connection", link=link)
        t.equal("queue offset", sent.queue_offset, 0)
        with trio.move_on_after(SOON_S):
            while not done:
                await trio.sleep(0.02)
        t.check("it was woken by its own connection", bool(done))


@case("hold.gone-client", Level.SHOULD, "A client that goes away while it waits hurts nobody", codes=CODES, rests_on=SERVICE)
async def gone_client(t: Trial) -> None:
    topic, link = await t.topic(), t.connect()
    async with trio.open_nursery() as nursery:

        async def hold() -> None:
            try:
                await t.pull(topic, 0, hold_ms=15_000, link=link)
            except Exception:
                return

        nursery.start_soon(hold)
        await trio.sleep(0.3)
        await link.close()
        held = Holding(t, nursery, topic)
        await _parked(t, topic)
        await t.send(topic, b"for the other")
        t.equal("bodies", await held.bodies(t, "the one that is left"), [b"for the other"])


@case("hold.many", Level.SHOULD, "Two hundred pulls that wait are all woken by one message", codes=CODES, rests_on=SERVICE)
async def many(t: Trial) -> None:
    topic, link = await t.topic(), t.connect()
    async with trio.open_nursery() as nursery:
        bodies: list[bytes] = []

        async def hold() -> None:
            pulled = await t.pull(topic, 0, hold_ms=15_000, link=link)
            bodies.extend(bytes(unit.body) for unit in pulled.messages)

        for _ in range(200):
            nursery.start_soon(hold)
        await _parked(t, topic)
        await t.send(topic, b"all")
        with trio.move_on_after(10):
            while len(bodies) < 200:
                await trio.sleep(0.05)
        t.equal("woken", len(bodies), 200)
