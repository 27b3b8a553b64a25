"""Who is connected: members, subscriptions, notices, silence, and closes, by plain calls and by any order of events."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from broker_impl.config import BrokerConfig, Machine
from broker_impl.env import Env
from broker_impl.state.clients import Clients
from broker_impl.state.consumer_group import Client
from broker_impl.state.locks import LOCK_MS, QueueLocks
from rmq_wire.bodies.heartbeat import ConsumerData, SubscriptionData
from rmq_wire.bodies.locks import QueueName
from tests.support.requests import member_ids


class FakePeer:
    """A connection as far as the tables know one."""

    def __init__(self, number: int) -> None:
        self.remote = ("10.0.0.1", number)


class World:
    """The tables, and what the listeners heard."""

    def __init__(self, **entries: str) -> None:
        self.env = Env(wall_ms=1_700_000_000_000, mono_ms=1000)
        self.clients = Clients(BrokerConfig({"brokerName": "b", **entries}, Machine()), self.env)
        self.notices: list[tuple[str, int]] = []
        self.gone: list[str] = []
        self.clients.on_members_changed.append(self._noticed)
        self.clients.on_group_gone.append(self.gone.append)

    def _noticed(self, group: str) -> None:
        self.notices.append((group, len(member_ids(self.clients.consumer_group(group)))))

    def peer(self, number: int = 1) -> Any:
        return FakePeer(number)

    def beat(self, peer: Any, group: str, *topics: str, client_id: str = "c", version: int = 1, **options: Any) -> bool:
        model = options.pop("model", "CLUSTERING")
        data = ConsumerData(
            group_name=group,
            consume_type="CONSUME_PASSIVELY",
            message_model=model,
            subscription_data_set=[SubscriptionData(topic=topic, sub_version=version) for topic in topics],
        )
        client = Client(peer, client_id, 0, 513, self.env)
        return self.clients.register_consumer(client, data, notify=options.pop("notify", True), **options)

    def heard(self) -> list[tuple[str, int]]:
        notices, self.notices = self.notices, []
        return notices


def test_all_are_notified_of_a_new_member_and_a_new_topic() -> None:
    world = World()
    one, two = world.peer(1), world.peer(2)
    assert world.beat(one, "G", "T")
    assert not world.beat(one, "G", "T")
    assert world.beat(two, "G", "T", client_id="d")
    assert world.beat(one, "G", "T", "U")
    assert world.heard() == [("G", 1), ("G", 2), ("G", 2)]
    assert member_ids(world.clients.consumer_group("G")) == ["c", "d"]
    assert world.clients.groups_subscribed("U") == ["G"]


def test_a_newer_version_replaces_without_notice_an_older_one_does_not() -> None:
    world = World()
    one = world.peer()
    world.beat(one, "G", "T", version=5)
    world.heard()
    world.beat(one, "G", "T", version=6)
    assert world.clients.subscription("G", "T") == SubscriptionData(topic="T", sub_version=6)
    world.beat(one, "G", "T", version=4)
    assert (world.clients.subscription("G", "T") or SubscriptionData()).sub_version == 6
    assert world.heard() == []


def test_a_subscription_without_a_version_is_as_new_as_its_heartbeat() -> None:
    """Java: `SubscriptionData.subVersion` begins as the time at which it was made."""
    world = World()
    one = world.peer()
    world.beat(one, "G", "T", version=0)
    assert world.clients.subscription("G", "T") == SubscriptionData(topic="T", sub_version=1_700_000_000_000)
    world.env.wall_ms += 1
    world.beat(one, "G", "T", version=0)
    assert world.clients.subscription("G", "T") == SubscriptionData(topic="T", sub_version=1_700_000_000_001)


def test_a_topic_that_is_not_named_any_more_is_dropped() -> None:
    world = World()
    one = world.peer()
    world.beat(one, "G", "T", "U")
    world.heard()
    assert world.beat(one, "G", "T")
    assert world.clients.subscription("G", "U") is None
    assert world.clients.groups_subscribed("U") == []
    assert world.heard() == [("G", 1)]


def test_broadcasting_groups_and_groups_that_do_not_want_it_are_not_notified() -> None:
    world = World()
    assert world.beat(world.peer(1), "G", "T", model="BROADCASTING")
    assert world.beat(world.peer(2), "H", "T", notify=False)
    assert world.heard() == []
    off = World(notifyConsumerIdsChangedEnable="false")
    assert off.beat(off.peer(), "G", "T")
    assert off.heard() == []


def test_without_subscriptions_only_the_member_counts() -> None:
    world = World()
    one, two = world.peer(1), world.peer(2)
    world.beat(one, "G", "T")
    assert not world.beat(one, "G", with_subscriptions=False)
    assert world.clients.subscription("G", "T") is not None
    assert world.beat(two, "G", with_subscriptions=False)


def test_one_connection_that_changes_its_id_stays_one_member() -> None:
    world = World()
    one = world.peer()
    world.beat(one, "G", "T", client_id="a")
    assert not world.beat(one, "G", "T", client_id="b")
    assert member_ids(world.clients.consumer_group("G")) == ["b"]


def test_a_close_ends_memberships_and_notifies_the_others() -> None:
    world = World()
    one, two = world.peer(1), world.peer(2)
    for peer in (one, two):
        world.beat(peer, "G", "T")
    world.beat(one, "H", "U")
    world.clients.register_producer("P", Client(one, "p", 0, 1, world.env))
    world.heard()
    world.clients.on_close(one)
    assert world.heard() == [("G", 1), ("H", 0)]
    assert world.gone == ["H"]
    assert world.clients.consumer_group("H") is None
    assert world.clients.producer_group("P") is None
    assert world.clients.producer_peer("p") is None
    assert world.clients.groups_subscribed("U") == []
    world.clients.on_close(one)
    assert world.heard() == []


def test_unregistering_is_like_closing_for_one_group() -> None:
    world = World()
    one = world.peer()
    world.beat(one, "G", "T")
    world.beat(one, "H", "T")
    world.heard()
    world.clients.unregister_consumer("G", one, notify=True)
    world.clients.unregister_consumer("nobody", one, notify=True)
    assert world.clients.consumer_group("G") is None
    assert member_ids(world.clients.consumer_group("H")) == ["c"]
    assert world.gone == ["G"]
    assert world.heard() == [("G", 0)]
    world.beat(world.peer(2), "H", "T", client_id="d")
    assert world.heard() == [("H", 2)]
    world.clients.unregister_consumer("H", one, notify=True)
    assert world.heard() == [("H", 1)]


def test_a_producer_that_comes_back_keeps_its_newest_connection() -> None:
    world = World()
    old, new = world.peer(1), world.peer(2)
    world.clients.register_producer("P", Client(old, "p", 0, 1, world.env))
    world.clients.register_producer("P", Client(new, "p", 0, 1, world.env))
    world.clients.on_close(old)
    assert world.clients.producer_peer("p") is new
    world.clients.unregister_producer("P", new, "p")
    assert world.clients.producer_groups == {}


def test_producers_may_be_switched_off() -> None:
    world = World(enableRegisterProducer="false", rejectTransactionMessage="true")
    world.clients.register_producer("P", Client(world.peer(), "p", 0, 1, world.env))
    assert world.clients.producer_group("P") is None


def test_silence_is_measured_from_the_last_heartbeat_whatever_the_wall_clock_does() -> None:
    world = World()
    one, two = world.peer(1), world.peer(2)
    world.beat(one, "G", "T")
    world.clients.register_producer("P", Client(two, "p", 0, 1, world.env))
    world.env.wall_ms += 10**9
    assert list(world.clients.silent()) == []
    world.env.mono_ms += 120_000
    assert list(world.clients.silent()) == []
    world.env.mono_ms += 1
    assert list(world.clients.silent()) == [one, two]
    world.beat(one, "G", "T")
    world.clients.register_producer("P", Client(two, "p", 0, 1, world.env))
    assert list(world.clients.silent()) == []


def test_fingerprints_show_a_change() -> None:
    world = World()
    assert not world.clients.fingerprint_changed("G", 5)
    assert not world.clients.fingerprint_changed("G", 5)
    assert world.clients.fingerprint_changed("G", 6)


def test_what_pulls_say_stands_in_for_a_heartbeat_and_fades() -> None:
    world = World()
    said = SubscriptionData(topic="T", sub_version=world.env.wall_ms)
    world.clients.compensate("G", "CONSUME_PASSIVELY", "CLUSTERING", said)
    assert world.clients.subscription("G", "T") is said
    world.beat(world.peer(), "G", "T", version=1)
    assert (world.clients.subscription("G", "T") or said).sub_version == 1
    world.env.advance(600_001)
    world.clients.sweep_compensated()
    assert world.clients.subscription("G", "U") is None
    assert world.clients._compensated == {}


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["beat", "leave", "close", "produce"]),
        st.integers(0, 3),
        st.sampled_from("GH"),
        st.lists(st.sampled_from("TUV"), unique=True),
    ),
    max_size=40,
)


@settings(deadline=None, max_examples=100)
@given(EVENTS)
def test_any_order_of_events_leaves_tables_that_agree(events: list[tuple[str, int, str, list[str]]]) -> None:
    """Against sets; and when all connections have closed nothing is left."""
    world = World()
    peers = [world.peer(number) for number in range(4)]
    members: dict[str, set[int]] = {}
    for what, number, group, topics in events:
        peer = peers[number]
        if what == "beat":
            world.beat(peer, group, *topics, client_id=str(number))
            members.setdefault(group, set()).add(number)
        elif what == "leave":
            world.clients.unregister_consumer(group, peer, notify=True)
            members.get(group, set()).discard(number)
        elif what == "close":
            world.clients.on_close(peer)
            for group_members in members.values():
                group_members.discard(number)
        else:
            world.clients.register_producer(group, Client(peer, str(number), 0, 1, world.env))
        for name, group_members in members.items():
            assert sorted(member_ids(world.clients.consumer_group(name))) == sorted(map(str, group_members))
        for topic in "TUV":
            by_group = {name for name, found in world.clients.consumer_groups.items() if topic in found.subscriptions}
            assert set(world.clients.groups_subscribed(topic)) == by_group
    for peer in peers:
        world.clients.on_close(peer)
    assert world.clients.consumer_groups == {}
    assert world.clients.producer_groups == {}
    assert [table for name, table in vars(world.clients).items() if isinstance(table, dict) and table] == []


# -- locks

QUEUES = [QueueName(topic="T", broker_name="b", queue_id=number) for number in range(3)]


def test_a_queue_is_locked_by_one_member_until_it_is_silent() -> None:
    env = Env(mono_ms=0)
    locks = QueueLocks(env)
    assert locks.lock("G", QUEUES[:2], "a") == QUEUES[:2]
    assert locks.lock("G", QUEUES, "b") == QUEUES[2:]
    assert locks.lock("H", QUEUES, "b") == QUEUES
    env.mono_ms = LOCK_MS
    assert locks.lock("G", QUEUES[:2], "b") == []
    assert locks.lock("G", QUEUES[:1], "a") == QUEUES[:1]
    assert locks.holder("G", QUEUES[1]) == "a"
    env.mono_ms = LOCK_MS + 1
    assert locks.holder("G", QUEUES[1]) is None
    assert locks.lock("G", QUEUES, "b") == QUEUES[1:]
    locks.unlock("G", QUEUES, "nobody")
    assert locks.holder("G", QUEUES[0]) == "a"
    locks.unlock("G", QUEUES, "a")
    assert locks.holder("G", QUEUES[0]) is None


def test_locks_that_are_found_expired_are_not_looked_at_again() -> None:
    """Each message that comes back asks."""
    env = Env(mono_ms=0)
    locks = QueueLocks(env)
    locks.lock("G", QUEUES[:2], "a")
    env.mono_ms = LOCK_MS
    assert not locks.all_expired("G")
    locks.lock("G", QUEUES[2:], "a")
    env.mono_ms = LOCK_MS + 1
    assert not locks.all_expired("G")
    assert [*locks._groups["G"]] == QUEUES[2:]
    assert locks.lock("G", QUEUES, "b") == QUEUES[:2]
    env.mono_ms = 3 * LOCK_MS
    assert locks.all_expired("G")
    assert (locks._groups, locks._count) == ({}, 0)


def test_old_locks_are_forgotten() -> None:
    env = Env(mono_ms=0)
    locks = QueueLocks(env)
    locks.lock("G", QUEUES, "a")
    locks.lock("none", [], "a")
    env.mono_ms = 2 * LOCK_MS + 1
    locks.sweep()
    assert locks._groups == {}


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from("lut"), st.sampled_from("ab"), st.sets(st.integers(0, 2)), st.integers(0, 90_000))))
def test_no_queue_has_two_holders(steps: list[tuple[str, str, set[int], int]]) -> None:
    env = Env(mono_ms=0)
    locks = QueueLocks(env)
    held: dict[int, tuple[str, int]] = {}
    for what, client, numbers, ms in steps:
        queues = [QUEUES[number] for number in numbers]
        if what == "t":
            env.mono_ms += ms
        elif what == "u":
            locks.unlock("G", queues, client)
            held = {number: lock for number, lock in held.items() if not (number in numbers and lock[0] == client)}
        else:
            free = {n for n in numbers if n not in held or held[n][0] == client or env.mono_ms - held[n][1] > LOCK_MS}
            assert {queue.queue_id for queue in locks.lock("G", queues, client)} == free
            held.update(dict.fromkeys(free, (client, env.mono_ms)))
