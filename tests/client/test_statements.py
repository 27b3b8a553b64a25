"""Statements of the ledger about consumers, by the clock: hours pass in milliseconds, in a cluster that keeps messages."""

from __future__ import annotations

import re
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import closing, suppress
from itertools import pairwise
from typing import Any

import pytest
import trio
import trio.testing

from rmq_client.consuming.allocation import AllocateMessageQueueAveragely
from rmq_client.consuming.listener import Context
from rmq_client.errors import CallerError
from rmq_client.messages import Message, MessageQueue
from rmq_wire.codes import RequestCode, ResponseCode
from tests.client.consumers import FIRST, Messages
from tests.client.fake_cluster import FakeServer, client_of, refusing
from tests.client.sim_cluster import SimCluster
from tests.support.mock_time import pass_time

Clock = trio.testing.MockClock
PULL, BACK = RequestCode.PULL_MESSAGE, RequestCode.CONSUMER_SEND_MSG_BACK
QUERY = RequestCode.QUERY_CONSUMER_OFFSET


class Noting:
    """A listener that notes bodies and times; `fails`: how many calls raise; `hangs`: those bodies take for ever."""

    def __init__(
        self, *, fails: int = 0, hangs: bytes | None = None, takes_s: float = 0.0, cluster: SimCluster | None = None
    ) -> None:
        self.calls: list[tuple[float, bytes]] = []
        self.fails = fails
        self.hangs = hangs
        self.takes_s = takes_s
        self.cluster = cluster

    async def __call__(self, messages: Messages, context: Context) -> None:
        for message in messages:
            self.calls.append((trio.current_time(), message.body))
            if self.cluster is not None:
                self.cluster.done.add((message.queue.broker_name, message.unit.physical_offset))
        await pass_time(self.takes_s)
        if messages[0].body == self.hangs:
            await trio.Event().wait()
        self.fails -= 1
        if self.fails >= 0:
            raise RuntimeError("not yet")

    @property
    def bodies(self) -> list[bytes]:
        return [body for _, body in self.calls]


@pytest.mark.parametrize("orderly", [False, True])
async def test_what_a_listener_has_for_too_long_is_given_back_unless_in_order(autojump_clock: Clock, orderly: bool) -> None:
    cluster = SimCluster(1)
    cluster.fill(3)
    listener = Noting(hangs=b"1")
    settings: dict[str, Any] = {**FIRST, "orderly": orderly, "consume_timeout_ms": 900_000, "await_termination_ms": 10}
    async with client_of(cluster) as client, client.push_consumer("G", {"T": "*"}, listener, **settings):
        await pass_time(899)
        assert cluster.a.count(BACK) == 0
        await pass_time(1_000)
        backs = [command.ext_map() for command in cluster.a.heard if command.code == BACK]
        assert [(one["offset"], one["delayLevel"]) for one in backs] == ([] if orderly else [("1", "3")])
        assert cluster.kept["broker-a"].progress.get(("G", "T", 0)) == (1 if orderly else 3)


async def test_a_client_id_is_its_own_unless_it_is_named(autojump_clock: Clock) -> None:
    cluster = SimCluster(1)
    async with client_of(cluster) as client:
        assert re.fullmatch(r"10\.9\.8\.7@4711#\d+", client.client_id)
    async with client_of(cluster, instance_name="DEFAULT") as client:
        assert client.client_id == "10.9.8.7@DEFAULT"


async def test_what_was_not_told_comes_again_to_the_next_owner(autojump_clock: Clock) -> None:
    """One is done with twenty and vanishes before it tells that: they come again to the next one, and the backlog all at once."""
    cluster = SimCluster(1)
    first, second = Noting(takes_s=0.5, cluster=cluster), Noting(cluster=cluster)
    async with client_of(cluster) as one, one.push_consumer("G", {"T": "*"}, first, **FIRST):
        await pass_time(6)
        cluster.fill(20)
        await pass_time(1)
        for name in cluster.brokers:
            cluster.cut_off("10.9.8.7", name=name)
    assert sorted(first.bodies) == sorted(b"%d" % number for number in range(20))
    assert not cluster.kept["broker-a"].progress.get(("G", "T", 0))
    for server in (cluster.a, cluster.b):
        server.cut.clear()
    cluster.fill(900)
    async with client_of(cluster) as other, other.push_consumer("G", {"T": "*"}, second, **FIRST):
        await pass_time(60)
    assert len(second.calls) == 920
    assert second.calls[-1][0] - second.calls[0][0] < 1


async def test_the_strategy_is_blocks_by_default(autojump_clock: Clock) -> None:
    cluster = SimCluster(1)
    listener = Noting()
    async with client_of(cluster) as client, client.push_consumer("G", {"T": "*"}, listener, **FIRST) as consumer:
        for broker in cluster.kept.values():
            broker.members["G"].add("~another")
        await pass_time(25)
        assert [(queue.broker_name, queue.queue_id) for queue in consumer.queues] == [("broker-a", 0), ("broker-a", 1)]


class NotedBlocks(AllocateMessageQueueAveragely):
    """The usual strategy, which notes when it is asked about topic T, and what it gets."""

    def __init__(self) -> None:
        self.asked: list[tuple[float, list[MessageQueue], list[str]]] = []

    def allocate(self, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]) -> list[MessageQueue]:
        if queues[0].topic == "T":
            self.asked.append((trio.current_time(), list(queues), list(client_ids)))
        return super().allocate(client_id, queues, client_ids)


async def test_shares_are_computed_every_twenty_seconds_and_a_second_apart_on_notice(autojump_clock: Clock) -> None:
    """001-52: of all queues and all members, both in order."""
    cluster = SimCluster(1)
    strategy = NotedBlocks()
    async with client_of(cluster) as client, client.push_consumer("G", {"T": "*"}, Noting(), strategy=strategy, **FIRST):
        await pass_time(5)
        strategy.asked.clear()
        for broker in cluster.kept.values():
            broker.members["G"] |= {"~another", "!another"}
        await pass_time(100)
        quiet = [at_s for at_s, _, _ in strategy.asked]
        assert len(quiet) >= 4
        assert all(later - earlier == pytest.approx(20, abs=0.1) for earlier, later in pairwise(quiet))
        strategy.asked.clear()
        noticed_s = trio.current_time()
        for _ in range(30):
            cluster.tell(cluster.kept["broker-a"], "G")
            await pass_time(0.1)
        await pass_time(2)
    times = [at_s - noticed_s for at_s, _, _ in strategy.asked]
    assert times == pytest.approx([0, 1, 2, 3], abs=0.01), "at once, then each second until it has heard the last notice"
    queues = [MessageQueue("T", broker, number) for broker in ("broker-a", "broker-b") for number in (0, 1)]
    assert all(asked == queues for _, asked, _ in strategy.asked)
    assert all(members == ["!another", client.client_id, "~another"] for _, _, members in strategy.asked)


@pytest.mark.parametrize("orderly", [False, True])
async def test_a_queue_that_stays_is_not_touched_and_one_that_comes_waits_half_a_second(
    autojump_clock: Clock, orderly: bool
) -> None:
    """001-46: another member gets the queues of broker b, then leaves; those of broker a are read on all the time."""
    cluster = SimCluster(1)
    cluster.fill(3, broker="broker-b")
    listener = Noting(cluster=cluster)

    async def change(members: set[str]) -> float:
        """From now on the group is these; messages go on coming to broker a for ten seconds."""
        for broker in cluster.kept.values():
            broker.members["G"] = members
            cluster.tell(broker, "G")
        began_s = trio.current_time()
        for _ in range(10):
            cluster.fill(1)
            await pass_time(1)
        return began_s

    def asked(server: FakeServer, code: int, since_s: float) -> list[float]:
        return [at_s for at_s, command in server.asked(code, since_s) if command.ext_map()["topic"] == "T"]

    settings: dict[str, Any] = {**FIRST, "orderly": orderly}
    async with client_of(cluster) as client, client.push_consumer("G", {"T": "*"}, listener, **settings) as consumer:
        await pass_time(5)
        listener.calls.clear()
        left_s = await change({client.client_id, "~another"})
        assert {queue.broker_name for queue in consumer.queues} == {"broker-a"}
        assert left_s in asked(cluster.b, RequestCode.UPDATE_CONSUMER_OFFSET, left_s)
        assert not asked(cluster.b, PULL, left_s)
        assert (cluster.b.count(RequestCode.UNLOCK_BATCH_MQ) > 0) is orderly
        back_s = await change({client.client_id})
        assert len(consumer.queues) == 4
        assert min(asked(cluster.b, PULL, back_s)) - min(asked(cluster.b, QUERY, back_s)) == pytest.approx(0.5)
    assert [later - earlier for (earlier, _), (later, _) in pairwise(listener.calls)] == pytest.approx([1.0] * 19)
    assert not asked(cluster.a, QUERY, left_s)


@pytest.mark.parametrize(("awaits", "times_two"), [(True, 1), (False, 3)])
async def test_who_awaits_each_commit_has_one_message_again(autojump_clock: Clock, awaits: bool, times_two: int) -> None:
    """001-49: it dies when it has worked on its 20th; who tells now and then, as clients do by themselves, has more again."""
    cluster = SimCluster(1)
    cluster.fill(30)
    heard: Counter[bytes] = Counter()
    async with client_of(cluster) as client:
        puller = client.puller("G")
        queue = (await puller.queues("T"))[0]
        for at in range(20):
            [message] = (await puller.pull(queue, at, max_messages=1)).messages
            heard[message.body] += 1
            cluster.done.add((queue.broker_name, message.unit.physical_offset))
            if at < 19 and (awaits or at % 8 == 0):
                await puller.commit_offset(queue, at + 1)
    async with client_of(cluster) as client:
        puller = client.puller("G")
        goes_on = await puller.committed_offset(queue)
        assert goes_on is not None
        heard.update(message.body for message in (await puller.pull(queue, goes_on)).messages)
    assert len(heard) == 30
    assert list(heard.values()).count(2) == times_two
    assert not cluster.wrong


@pytest.mark.parametrize(("others", "waits"), [(set(), False), ({"~another"}, True)])
async def test_who_is_alone_waits_for_no_old_owner(autojump_clock: Clock, others: set[str], waits: bool) -> None:
    cluster = SimCluster(1)
    cluster.fill(1)
    for broker in cluster.kept.values():
        broker.members["G"] = set(others)
    listener = Noting()
    async with client_of(cluster) as client:
        began = trio.current_time()
        async with client.push_consumer("G", {"T": "*"}, listener, **FIRST):
            await pass_time(5)
    assert listener.bodies == [b"0"]
    assert (listener.calls[0][0] - began >= 0.5) is waits


@pytest.mark.parametrize(
    ("settings", "pulled"), [({}, 1_024), ({"pull_threshold_for_queue": 100}, 128), ({"pull_threshold_size_for_queue": 50}, 32)]
)
async def test_a_full_cache_stops_the_pulling(autojump_clock: Clock, settings: dict[str, int], pulled: int) -> None:
    cluster = SimCluster(1)
    cluster.fill(3_000)
    held = trio.Event()
    seen: list[bytes] = []

    async def listen(messages: Messages, context: Context) -> None:
        await held.wait()
        for message in messages:
            cluster.done.add((message.queue.broker_name, message.unit.physical_offset))
        seen.extend(message.body for message in messages)

    async with client_of(cluster) as client, client.push_consumer("G", {"T": "*"}, listen, **FIRST, **settings):
        await pass_time(60)
        offsets = [
            int(one.ext_map()["queueOffset"]) for one in cluster.a.heard if one.code == PULL and one.ext_map()["topic"] == "T"
        ]
        assert max(offsets) + 32 == pulled
        held.set()
        await pass_time(60)
    assert len(seen) == 3_000


async def test_in_order_what_fails_is_tried_each_second_without_end(autojump_clock: Clock) -> None:
    cluster = SimCluster(1)
    cluster.fill(2)
    listener = Noting(fails=500)
    async with client_of(cluster) as client, client.push_consumer("G", {"T": "*"}, listener, orderly=True, **FIRST):
        await pass_time(520)
    assert listener.bodies == [b"0"] * 501 + [b"1"]
    times = [at for at, _ in listener.calls[:501]]
    assert all(later - earlier == pytest.approx(1.0, abs=0.01) for earlier, later in pairwise(times))
    assert cluster.a.count(BACK) == 0


async def test_what_cannot_be_given_back_is_tried_here_five_seconds_later(autojump_clock: Clock) -> None:
    cluster = SimCluster(1)
    cluster.fill(2)
    cluster.a.answers[BACK] = refusing(ResponseCode.SYSTEM_ERROR)
    for server in (cluster.a, cluster.b):
        server.answers[RequestCode.SEND_MESSAGE_V2] = refusing(ResponseCode.NO_PERMISSION)
    listener = Noting(fails=1, cluster=cluster)
    async with client_of(cluster) as client, client.push_consumer("G", {"T": "*"}, listener, **FIRST):
        await pass_time(60)
    assert sorted(listener.bodies) in ([b"0", b"0", b"1"], [b"0", b"1", b"1"])
    first, _, again = [at for at, _ in listener.calls]
    assert again - first == pytest.approx(5.0, abs=0.01)
    assert cluster.kept["broker-a"].progress["G", "T", 0] == 2


@pytest.mark.parametrize("kind", [None, "listen", 7, [Noting()], {"listen": Noting()}])
async def test_there_is_one_listener_and_it_can_be_called(autojump_clock: Clock, kind: Any) -> None:
    """What is none starts no consumer: no broker has heard of the group."""
    cluster = SimCluster(1)
    async with client_of(cluster) as client:
        with pytest.raises(CallerError, match="a listener is a function of messages and context, not"):
            async with client.push_consumer("G", {"T": "*"}, kind):
                pass
        await pass_time(60)
    assert not any("G" in broker.members for broker in cluster.kept.values())


async def test_ordered_queues_take_turns_message_by_message(autojump_clock: Clock) -> None:
    """With one thread; in Java one queue would keep it for a minute (docs/differences.md)."""
    cluster = SimCluster(1)
    for queue in (0, 1):
        cluster.fill(90, queue=queue)
    turns: list[int] = []

    async def listen(messages: Messages, context: Context) -> None:
        turns.append(messages[0].queue.queue_id)
        await pass_time(1)

    settings: dict[str, Any] = {**FIRST, "orderly": True, "consume_thread_max": 1}
    async with client_of(cluster) as client, client.push_consumer("G", {"T": "*"}, listen, **settings):
        with trio.fail_after(600):
            while len(turns) < 180:
                await pass_time(1)
    assert turns.count(0) == turns.count(1) == 90
    both = turns[turns.index(1) : turns.index(1) + 100]
    assert all(before != after for before, after in pairwise(both))


async def test_a_business_key_in_the_transaction_of_the_work_has_it_done_once(autojump_clock: Clock) -> None:
    """One order was sent twice, the listener of another failed once its work was done: each comes twice, under its own key."""
    cluster = SimCluster(1)
    came: dict[str, list[str]] = defaultdict(list)
    with closing(sqlite3.connect(":memory:")) as books:
        books.executescript("CREATE TABLE done (key TEXT PRIMARY KEY); CREATE TABLE booked (amount INTEGER)")

        async def book(messages: Messages, context: Context) -> None:
            for message in messages:
                [key] = message.keys
                came[key].append(message.message_id)
                with suppress(sqlite3.IntegrityError), books:
                    books.execute("INSERT INTO done VALUES (?)", (key,))
                    books.execute("INSERT INTO booked VALUES (?)", (int(message.body),))
                cluster.done.add((message.queue.broker_name, message.unit.physical_offset))
                if key == "failing" and len(came[key]) == 1:
                    raise RuntimeError("the work is done, and nobody is told")

        async with client_of(cluster) as client:
            producer = client.producer("P")
            for key, amount in (("doubled", 1), ("doubled", 1), ("failing", 10), ("plain", 100)):
                await producer.send(Message("T", b"%d" % amount, keys=[key]))
            async with client.push_consumer("G", {"T": "*"}, book, **FIRST):
                await pass_time(60)
        booked = books.execute("SELECT amount FROM booked ORDER BY amount").fetchall()
    assert {key: len(ids) for key, ids in came.items()} == {"doubled": 2, "failing": 2, "plain": 1}
    assert len(set(came["doubled"])) == 2, "by its id nobody would have known it"
    assert booked == [(1,), (10,), (100,)]
