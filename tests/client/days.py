"""A day of producers and consumers with a cluster that fails, played by a seed on the mock clock, and judged.

What is owed: no acknowledged message is lost, a send that failed says so truly, each is consumed at least once (exactly once when
nothing failed), in order where order was asked for, no progress passes what is not done, and no task is left.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, Final

import trio
import trio.testing

from rmq_client.client import Client, connect
from rmq_client.consuming.listener import ConsumeConcurrentlyContext, ConsumeConcurrentlyStatus, Context, Outcome
from rmq_client.consuming.push_consumer import REBALANCE_APART_S
from rmq_client.consuming.received import ReceivedMessage
from rmq_client.errors import ClientError
from rmq_client.messages import Message
from tests.client.fake_cluster import NAMESRV
from tests.client.sim_cluster import Faults, SimCluster, SimServer
from tests.support.mock_time import pass_time

GROUP: Final = "G"
PATIENCE_S: Final = 900.0
"""On the mock clock, once nothing fails any more."""
HOUR_MS: Final = 3_600_000
QUIET: Final = {"persist_consumer_offset_interval_ms": HOUR_MS, "rebalance_interval_ms": HOUR_MS}
"""Members heed notices at once: who has just shared out by itself heeds the next notice a second later, and has told too late."""
SHARED_OUT_S: Final = 2 * REBALANCE_APART_S
"""So long after it was done last, nobody is in that second any more: the first member shares out when it comes, too."""
BAD_ANSWERS: Final = {
    "late": 0.05,
    "lost": 0.05,
    "unheard": 0.03,
    "doubled": 0.1,
    "foreign": 0.1,
    "go_away": 0.03,
    "refused": 0.03,
}


@dataclass
class Plan:
    """What happens.  kills: brokers that die one after the other."""

    messages: int = 40
    orderly: bool = False
    faults: Faults = field(default_factory=Faults)
    kills: Sequence[str] = ()
    namesrv_dies: bool = False
    clock_jumps: bool = False
    fails: float = 0.1
    batch: int = 1
    cut: bool = False
    """Both brokers hear nothing of the first member for two minutes; all is sent at once before, and listeners are slow."""
    quiet: bool = False
    """Members come and go only while nobody has anything to do, and progress is told only then: each is consumed exactly once."""

    @property
    def is_calm(self) -> bool:
        """Nothing fails but listeners."""
        return not (any(vars(self.faults)[name] for name in BAD_ANSWERS) or self.kills or self.namesrv_dies)


class Day:
    """One of them."""

    def __init__(self, seed: int, plan: Plan) -> None:
        self.rng = random.Random(seed)
        self.plan = plan
        self.cluster = SimCluster(seed, faults=plan.faults)
        self.wrong = self.cluster.wrong
        self.acknowledged: set[bytes] = set()
        self.consumed: Counter[bytes] = Counter()
        self.first: dict[tuple[str, str, int], list[int]] = {}
        """Queue -> offsets in the order in which a listener was first done with them."""
        self.turn = trio.Event()
        self.at_work: Counter[tuple[str, str, int]] = Counter()

    # What applications do

    async def listen(self, messages: Sequence[ReceivedMessage], context: Context) -> Outcome:
        queue = (context.queue.broker_name, messages[0].unit.topic.decode(), context.queue.queue_id)
        self.at_work[queue] += 1
        if self.plan.orderly and self.at_work[queue] > 1 and not self.plan.kills:
            self.wrong.append(f"two listeners are at {queue}")
        try:
            await pass_time(3.0 if self.plan.cut else self.rng.choice((0.0, 0.01, 0.3)))
            done = len(messages)
            if self.rng.random() < self.plan.fails:
                if self.plan.orderly or self.rng.random() < 0.5:
                    raise RuntimeError("the listener fails")
                if not isinstance(context, ConsumeConcurrentlyContext) or len(messages) == 1:
                    return ConsumeConcurrentlyStatus.RECONSUME_LATER
                done = self.rng.randrange(len(messages))
                context.ack_index = done - 1
        except RuntimeError:
            return await self._failed()
        finally:
            self.at_work[queue] -= 1
        for message in messages[:done]:
            self.consumed[message.body] += 1
            self.cluster.done.add((message.queue.broker_name, message.unit.physical_offset))
            line = self.first.setdefault(queue, [])
            if message.queue_offset not in line:
                line.append(message.queue_offset)
        return None

    async def _failed(self) -> Outcome:
        raise RuntimeError("the listener fails")

    async def produce(self, client: Client) -> None:
        producer = client.producer("P")
        for number in range(self.plan.messages):
            body = b"m-%d" % number
            try:
                result = await producer.send(Message("T", body))
            except ClientError as error:
                if not error.maybe_stored and self.cluster.places_of(body):
                    self.wrong.append(f"{body!r} is stored, and the sender was told that it is not: {error}")
                if self.plan.is_calm or (len(self.plan.kills) == 1 and not self.plan.faults.lost and not self.plan.namesrv_dies):
                    self.wrong.append(f"{body!r} cannot be sent, and another broker is well: {error}")
            else:
                self.acknowledged.add(body)
                place = (result.queue.broker_name, "T", result.queue.queue_id, result.queue_offset)
                if place not in self.cluster.places_of(body):
                    self.wrong.append(f"{body!r} is not at {place}")
            await pass_time(0.0 if self.plan.cut else self.rng.choice((0.0, 0.1, 2.0)))
            if self.plan.quiet and number % 10 == 9:
                await self._rest()

    async def _rest(self) -> None:
        """Until all is consumed; then somebody comes or goes."""
        while self.acknowledged - self.consumed.keys() or any(self.at_work.values()):
            await pass_time(0.1)
        await pass_time(SHARED_OUT_S)
        self.turn.set()
        self.turn = trio.Event()
        await pass_time(30)

    # What happens

    async def play(self) -> None:
        """To the end."""
        before = trio.lowlevel.current_statistics().tasks_living
        async with trio.open_nursery() as nursery:
            self.cluster.nursery = nursery
            await self._live()
            nursery.cancel_scope.cancel()
        await trio.testing.wait_all_tasks_blocked()
        if trio.lowlevel.current_statistics().tasks_living != before:
            self.wrong.append("tasks are left")

    def _client(self, ip: str) -> Any:
        return connect(NAMESRV, world=self.cluster.world(self.rng.getrandbits(32), ip=ip))

    async def _live(self) -> None:
        settings = {
            "orderly": self.plan.orderly,
            "consume_from_where": "CONSUME_FROM_FIRST_OFFSET",
            "consume_message_batch_max_size": self.plan.batch,
            **(QUIET if self.plan.quiet else {}),
        }
        async with self._client("10.9.9.1") as sender, self._client("10.9.9.2") as first:
            async with AsyncExitStack() as member:
                await self._join(member, first, settings)
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._trouble)
                    nursery.start_soon(self._come_and_go, settings)
                    await self.produce(sender)
            self.cluster.faults.stop()
            async with first.push_consumer(f"{GROUP}", {"T": "*"}, self.listen, **settings):
                with trio.move_on_after(PATIENCE_S):
                    while self.acknowledged - self.consumed.keys():
                        await pass_time(1)

    async def _join(self, stack: AsyncExitStack, client: Client, settings: dict[str, Any]) -> None:
        """Start a consumer; one whose topic's route cannot be had just then fails at once, and is started again."""
        while True:
            try:
                await stack.enter_async_context(client.push_consumer(GROUP, {"T": "*"}, self.listen, **settings))
                return
            except ClientError:
                if self.plan.is_calm:
                    raise
                await pass_time(1)

    async def _come_and_go(self, settings: dict[str, Any]) -> None:
        """A second member, which dies or leaves."""
        await self._time(self.rng.choice((1, 5)))
        async with self._client("10.9.9.3") as second:
            try:
                async with second.push_consumer(GROUP, {"T": "*"}, self.listen, **settings):
                    await self._time(self.rng.choice((10, 40)))
            except ClientError:  # nothing could be asked when it came
                if self.plan.is_calm:
                    raise

    async def _time(self, seconds: float) -> None:
        if self.plan.cut:
            seconds = 1 if seconds <= 5 else 400
        if self.plan.quiet:
            await self.turn.wait()
        else:
            await pass_time(seconds)

    async def _trouble(self) -> None:
        plan = self.plan
        await pass_time(self.rng.choice((3, 8)))
        if plan.cut:
            await self._cut()
        if plan.clock_jumps:
            self.cluster.skew_ms += self.rng.choice((-1, 1)) * HOUR_MS
        if plan.namesrv_dies:
            self.cluster.namesrv.up = False
            await self.cluster.namesrv.hang_up()
        for name in plan.kills:
            await self.cluster.kill(name, self.rng.choice((1, 10)))
        self.cluster.namesrv.up = True
        if plan.clock_jumps:
            await pass_time(5)
            self.cluster.skew_ms += self.rng.choice((-1, 1)) * HOUR_MS

    async def _cut(self) -> None:
        for name in self.cluster.brokers:
            self.cluster.cut_off("10.9.9.2", name=name)
        await pass_time(120)
        for server in self.cluster.servers.values():
            assert isinstance(server, SimServer)
            server.cut.clear()

    # The judge

    def judge(self) -> None:
        """Raises AssertionError."""
        lost = self.acknowledged - self.consumed.keys()
        if lost:
            self.wrong.append(f"acknowledged, and never consumed: {sorted(lost)}")
        if self.plan.quiet:
            twice = {body: count for body, count in self.consumed.items() if count > 1}
            if twice:
                self.wrong.append(f"nothing failed, and these were consumed more than once: {twice}")
        if self.plan.orderly:
            for queue, line in self.first.items():
                if line != sorted(line):
                    self.wrong.append(f"{queue} was consumed in the order {line}")
        assert not self.wrong, "\n".join(self.wrong[:10])


def play(seed: int, plan: Plan) -> None:
    """A day by this seed, judged; trio's own chance, which wakes tasks in any order, is the seed's, too."""
    run = trio._core._run
    old = run._ALLOW_DETERMINISTIC_SCHEDULING
    run._ALLOW_DETERMINISTIC_SCHEDULING = True
    run._r.seed(seed)
    day = Day(seed, plan)
    try:
        trio.run(day.play, clock=trio.testing.MockClock(autojump_threshold=0))
    finally:
        run._ALLOW_DETERMINISTIC_SCHEDULING = old
    day.judge()
