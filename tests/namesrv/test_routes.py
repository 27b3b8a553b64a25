"""The name server's tables under single events, time handed in.  Orders of events: `test_routes_reordered`."""

from __future__ import annotations

from typing import Any

import pytest

from broker_impl.engine.slices import finished
from broker_impl.env import Env
from broker_impl.namesrv.registrations import MinIdChanged, Registered, Registration, Unregistration
from broker_impl.namesrv.route_answers import RouteAnswers, at_host, near_zone
from broker_impl.namesrv.route_table import RouteTable
from rmq_wire.bodies.data_version import DataVersion
from rmq_wire.bodies.route import BrokerData, QueueData, TopicQueueMappingInfo
from rmq_wire.bodies.topics import TopicConfig


class Settings:
    delete_topic_with_broker_registration = False
    notify_min_broker_id_changed = True


class Link:
    def __init__(self, number: int) -> None:
        self.id = number


class World:
    """A table, its answers, and what was said about smallest ids."""

    def __init__(self) -> None:
        self.settings = Settings()
        self.said: list[MinIdChanged] = []
        self.table = RouteTable(self.settings, Env().log, self.said.append)
        self.acting = False
        self.route_answers = RouteAnswers(self.table, lambda: self.acting)

    def register(
        self, name: str = "a", number: int = 0, port: int = 1, *, at: int = 0, counter: int = 1, **more: Any
    ) -> Registered | None:
        topics = more.pop("topics", {"T": 6, "U": 6})
        return self.table.register(
            Registration(
                cluster=more.pop("cluster", "C"),
                name=name,
                broker_id=number,
                addr=f"h:{port}",
                ha_addr=f"h:{port + 1000}",
                topics={topic: TopicConfig(topic_name=topic, perm=perm) for topic, perm in topics.items()},
                version=DataVersion(counter=counter, state_version=more.pop("state", 0), timestamp=7),
                **more,
            ),
            at,
        )

    def unregister(self, name: str = "a", number: int = 0, port: int = 1, link: Link | None = None, cluster: str = "C") -> None:
        self.table.unregister([Unregistration(cluster, name, number, f"h:{port}")], link)

    def addrs(self, topic: str = "T", host: str | None = None) -> dict[str, dict[int, str]] | None:
        route = self.route_answers.route(topic, host)
        return None if route is None else {broker.broker_name: broker.broker_addrs for broker in route.broker_datas}

    def perm(self, topic: str = "T", name: str = "a") -> int:
        return self.table.topics[topic][name].perm


@pytest.fixture
def world() -> World:
    return World()


def test_a_route_has_queues_and_addresses_of_master_and_slave(world: World) -> None:
    assert world.register() == Registered(None, None)
    assert world.register(number=1, port=2, acting_master=False) == Registered("h:1001", "h:1")
    route = world.route_answers.route("T")
    assert route is not None
    assert route.queue_datas == [QueueData(broker_name="a", read_queue_nums=16, write_queue_nums=16, perm=6)]
    assert route.broker_datas == [BrokerData(cluster="C", broker_name="a", broker_addrs={0: "h:1", 1: "h:2"})]
    assert world.route_answers.route("nope") is None


def test_a_slave_keeps_the_route_when_its_master_goes(world: World) -> None:
    world.register()
    world.register(number=1, port=2, acting_master=False)
    world.unregister()
    assert world.addrs() == {"a": {1: "h:2"}}
    world.unregister(number=1, port=2)
    assert world.addrs() is None
    assert not world.table.topics
    assert not world.table.brokers
    assert not world.table.clusters


def test_topics_of_a_slave_count_only_when_it_knows_acting_masters_and_is_the_least(world: World) -> None:
    world.register(number=2, port=2, topics={"S": 6, "T": 6})
    assert world.addrs("S") is None
    world.register(number=2, port=2, acting_master=False, counter=2, topics={"S": 6, "T": 6})
    assert world.addrs("S") == {"a": {2: "h:2"}}
    world.register(number=1, port=1, topics={"X": 6, "Y": 6}, acting_master=False)
    assert world.addrs("X") == {"a": {1: "h:1", 2: "h:2"}}
    world.register(number=2, port=2, acting_master=False, counter=3, topics={"Z": 6, "T": 6})
    assert world.addrs("Z") is None


def test_topics_are_taken_when_the_version_changed_or_the_broker_is_not_in_the_topic(world: World) -> None:
    world.register(topics={"T": 6, "U": 6})
    world.register(topics={"T": 4, "U": 6, "V": 6})
    assert world.perm("T") == 6
    assert world.perm("V") == 6
    world.register(counter=2, topics={"T": 4, "U": 6})
    assert world.perm("T") == 4
    assert world.addrs("V") is not None


def test_vanished_topics_go_only_when_the_configuration_says_so(world: World) -> None:
    world.settings.delete_topic_with_broker_registration = True
    world.register(topics={"T": 6, "U": 6})
    world.register("b", port=2, topics={"T": 6, "W": 6})
    world.register(counter=2, topics={"U": 6, "V": 6})
    assert world.addrs("T") == {"b": {0: "h:2"}}
    assert world.addrs("U") == {"a": {0: "h:1"}}
    mapping = TopicQueueMappingInfo(topic="X", bname="a", total_queues=1)
    world.register(counter=3, topics={"X": 6, "Y": 6}, mappings={"X": mapping})
    assert world.addrs("U") is not None, "static topics switch the rule off"


def test_an_increment_needs_a_broker_that_is_here(world: World) -> None:
    assert world.register(topics={"N": 6}) is None
    assert not world.table.brokers
    assert not world.table.clusters
    world.register()
    assert world.register(counter=2, topics={"N": 6}) is not None
    assert world.addrs("N") == {"a": {0: "h:1"}}
    assert world.addrs("T") == {"a": {0: "h:1"}}
    assert world.register(number=1, port=2, topics={"N": 6}) is None


def test_silence_ends_a_registration_after_the_time_it_named_itself(world: World) -> None:
    world.register(at=1_000)
    world.register("b", port=2, at=1_000, timeout_ms=10_000)
    assert not world.table.expire(11_000)
    assert [gone.name for gone in world.table.expire(11_001)] == ["b"]
    assert world.addrs() == {"a": {0: "h:1"}}
    world.table.touch("C", "h:1", 60_000)
    assert not world.table.expire(180_000)
    assert [(gone.name, gone.timeout_ms) for gone in world.table.expire(180_001)] == [("a", 120_000)]
    world.table.touch("C", "h:1", 200_000)
    assert not world.table.live


def test_an_embedded_broker_does_not_expire(world: World) -> None:
    world.register(embedded=True)
    assert not world.table.expire(1 << 60)
    world.unregister()
    assert world.addrs() is None


def test_nobody_from_outside_takes_the_place_of_an_embedded_broker(world: World) -> None:
    world.register(embedded=True)
    unknown = Link(1)
    for port in (1, 2):
        world.register(port=port, counter=9, link=unknown, topics={"X": 6, "Y": 6})
    world.unregister(link=unknown)
    world.table.link_closed(unknown)
    assert world.addrs() == {"a": {0: "h:1"}}
    assert world.addrs("X") is None
    world.register(number=1, port=2, link=unknown, acting_master=False)
    assert world.addrs() == {"a": {0: "h:1", 1: "h:2"}}, "a slave may come from outside"


def test_a_closed_connection_takes_away_what_is_its_own(world: World) -> None:
    link, other = Link(1), Link(2)
    world.register(link=link)
    world.register("b", port=2, link=link)
    world.register("c", port=3, link=other)
    world.table.link_closed(link)
    assert world.addrs() == {"c": {0: "h:3"}}


def test_a_stale_close_leaves_the_newer_registration(world: World) -> None:
    old, new = Link(1), Link(2)
    world.register(link=old)
    world.register(link=new)
    world.table.link_closed(old)
    assert world.addrs() == {"a": {0: "h:1"}}
    world.table.link_closed(new)
    assert world.addrs() is None


def test_an_unregistration_on_a_former_connection_leaves_the_newer_registration(world: World) -> None:
    old, new = Link(1), Link(2)
    world.register(link=old)
    world.register(link=new)
    world.register(link=new)
    world.unregister(link=old)
    assert world.addrs() == {"a": {0: "h:1"}}
    world.register(link=old)
    world.unregister(link=new)
    assert world.addrs() == {"a": {0: "h:1"}}
    world.unregister(link=old)
    assert world.addrs() is None
    assert world.register() is not None
    world.unregister(link=old)
    assert world.addrs() is None, "anybody else may say it"


def test_an_unregistration_goes_by_address_not_by_id(world: World) -> None:
    world.register(port=2)
    world.unregister(port=1)
    assert world.addrs() == {"a": {0: "h:2"}}
    world.unregister(number=1, port=2)
    assert world.addrs() is None


def test_a_slave_that_becomes_master_stands_under_one_id(world: World) -> None:
    world.register()
    world.register(number=1, port=2, acting_master=False)
    world.unregister()
    world.register(number=0, port=2, counter=2)
    assert world.addrs() == {"a": {0: "h:2"}}


def test_a_master_that_moved_replaces_the_old_place(world: World) -> None:
    old, new = Link(1), Link(2)
    world.register(link=old)
    world.register(port=2, link=new)
    assert world.addrs() == {"a": {0: "h:2"}}
    world.table.link_closed(old)
    assert world.addrs() == {"a": {0: "h:2"}}
    assert list(world.table.live) == [("C", "h:2")]


def test_a_smaller_state_version_does_not_replace_a_live_master(world: World) -> None:
    world.register(state=5)
    assert world.register(port=2, state=4) == Registered()
    assert world.addrs() == {"a": {0: "h:1"}}
    world.register(port=2, state=5)
    assert world.addrs() == {"a": {0: "h:2"}}


@pytest.mark.parametrize("state", [1, 5, 2**31 - 1, 2**31, 2**60, 2**63 - 1])
def test_attack_40_a_state_version_keeps_out_no_broker_without_a_controller(world: World, state: int) -> None:
    """Whoever claims one while the true broker, which has none, lives at another address."""
    world.register()
    world.register(port=2, state=state)
    assert world.addrs() == {"a": {0: "h:2"}}, "as with equal versions, the last one counts"
    world.register()
    assert world.addrs() == {"a": {0: "h:1"}}


def test_attack_40_a_state_version_that_no_controller_gives_keeps_nobody_out(world: World) -> None:
    world.register(state=2**60)
    world.register(port=2, state=1)
    assert world.addrs() == {"a": {0: "h:2"}}
    world.register(state=2**60)
    assert world.addrs() == {"a": {0: "h:2"}}, "and takes no place of a master that a controller made"


def test_a_renamed_broker_leaves_its_old_name(world: World) -> None:
    world.register("a", topics={"A": 6, "T": 6})
    world.register("b", topics={"B": 6, "T": 6})
    assert world.addrs("A") is None
    assert world.addrs("T") == {"b": {0: "h:1"}}
    assert finished(world.route_answers.clusters()).cluster_addr_table == {"C": ["b"]}


def test_a_broker_that_changed_its_cluster_leaves_the_old_one(world: World) -> None:
    world.register()
    world.register(cluster="D")
    info = finished(world.route_answers.clusters())
    assert info.cluster_addr_table == {"D": ["a"]}
    assert info.broker_addr_table["a"].cluster == "D"


def test_write_permission_is_wiped_and_given(world: World) -> None:
    world.register(topics={"T": 6, "R": 4, "TBW102": 7})
    world.register("b", port=2)
    assert world.table.queues.wipe_write_perm("a") == 3
    assert [world.perm(topic) for topic in ("T", "R", "TBW102")] == [4, 4, 5]
    assert world.perm("T", "b") == 6
    assert world.table.queues.add_write_perm("a") == 3
    assert [world.perm(topic) for topic in ("T", "R", "TBW102")] == [6, 6, 6]
    assert world.table.queues.wipe_write_perm("nobody") == 0


def test_single_topics_come_and_go(world: World) -> None:
    world.register()
    world.register("b", cluster="D", port=2)
    there, nobody = QueueData(broker_name="a", perm=6), QueueData(broker_name="x", perm=6)
    world.table.register_topic("N", [there, nobody])
    assert world.addrs("N") is None
    world.table.register_topic("N", [there])
    assert world.addrs("N") == {"a": {0: "h:1"}}
    world.table.register_topic("T", [QueueData(broker_name="b", perm=4)])
    assert world.perm("T", "b") == 4
    world.table.delete_topic("T", "nowhere")
    world.table.delete_topic("T", "D")
    assert world.addrs() == {"a": {0: "h:1"}}
    world.table.delete_topic("T", "C")
    assert world.addrs() is None
    world.table.delete_topic("U")
    world.table.delete_topic("U")
    assert world.route_answers.all_topics().topic_list == ["N"]


def test_lists_of_topics(world: World) -> None:
    world.register(topics={"T": 6, "U": 6})
    world.register("b", cluster="D", port=2, topics={"T": 6, "W": 6})
    for topic, flag in (("U", 1), ("W", 2), ("T", 3)):
        for queues in world.table.topics[topic].values():
            queues.topic_sys_flag = flag
    route_answers = world.route_answers
    assert sorted(route_answers.all_topics().topic_list) == ["T", "U", "W"]
    assert sorted(finished(route_answers.topics_of_cluster("D")).topic_list) == ["T", "W"]
    assert finished(route_answers.topics_of_cluster("X")).topic_list == []
    assert sorted(finished(route_answers.unit_topics()).topic_list) == ["T", "U"]
    assert sorted(finished(route_answers.unit_sub_topics()).topic_list) == ["T", "W"]
    assert finished(route_answers.unit_sub_ununit_topics()).topic_list == ["W"]
    assert sorted(route_answers.system_topics().topic_list) == ["C", "D", "a", "b"]
    assert route_answers.system_topics().broker_addr == "h:1"


def test_brokers_stand_in_the_order_of_javas_hash_maps(world: World) -> None:
    for port, name in enumerate(("broker-a", "broker-b", "z", "old")):
        world.register(name, port=port + 1)
    route = world.route_answers.route("T")
    assert route is not None
    assert [queues.broker_name for queues in route.queue_datas] == ["old", "broker-b", "z", "broker-a"]


def test_an_acting_master_is_the_least_slave_and_read_only(world: World) -> None:
    world.acting = True
    for number in (0, 2, 1):
        world.register(number=number, port=number + 1, acting_master=True)
    world.unregister()
    assert world.perm() == 4
    assert world.addrs() == {"a": {0: "h:2", 2: "h:3"}}
    assert world.route_answers.members("C", "a").broker_addrs == {1: "h:2", 2: "h:3"}
    world.register(number=1, port=2, acting_master=True, counter=2, topics={"T": 6, "rmq_sys_SYNC_BROKER_MEMBER_a": 6})
    assert world.perm() == 4
    assert world.addrs("rmq_sys_SYNC_BROKER_MEMBER_a") == {"a": {1: "h:2", 2: "h:3"}}
    world.register(acting_master=True)
    assert world.perm() == 6
    assert world.addrs() == {"a": {0: "h:1", 1: "h:2", 2: "h:3"}}


def test_without_the_option_no_slave_acts(world: World) -> None:
    world.register(acting_master=True)
    world.register(number=1, port=2, acting_master=True)
    world.unregister()
    assert world.addrs() == {"a": {1: "h:2"}}


def test_changes_of_the_smallest_id_are_said(world: World) -> None:
    world.register(number=1, port=2, acting_master=True)
    assert not world.said
    world.register(number=0, port=1, acting_master=True)
    assert world.said == [MinIdChanged(["h:2"], 0, "h:1", None, "h:1001")]
    world.unregister()
    assert world.said[1:] == [MinIdChanged(["h:2"], 1, "h:2", "h:1", None)]
    world.settings.notify_min_broker_id_changed = False
    world.register(number=0, port=1, acting_master=True)
    assert len(world.said) == 2


def test_static_mappings_go_with_the_last_broker(world: World) -> None:
    mapping = TopicQueueMappingInfo(topic="T", bname="a", total_queues=8, curr_id_map={0: 0})
    world.register(mappings={"T": mapping})
    route = world.route_answers.route("T")
    assert route is not None
    assert route.topic_queue_mapping_by_broker == {"a": mapping}
    world.unregister()
    assert not world.table.mappings


def test_filter_servers_are_listed_by_address(world: World) -> None:
    world.register(filter_servers=["f:1"])
    world.register("b", port=2, filter_servers=None)
    route = world.route_answers.route("T")
    assert route is not None
    assert route.filter_server_table == {"h:1": ["f:1"], "h:2": None}
    world.register(filter_servers=[])
    assert not world.table.filter_servers


def test_a_zone_sees_itself_and_what_has_no_master(world: World) -> None:
    world.register("a", zone="z1")
    world.register("b", port=2, zone="Z2")
    world.register("c", number=1, port=3, zone="z3", acting_master=False)
    route = world.route_answers.route("T")
    assert route is not None
    near = near_zone(route, "z2")
    assert sorted(broker.broker_name for broker in near.broker_datas) == ["b", "c"]
    assert sorted(queues.broker_name for queues in near.queue_datas) == ["b", "c"]


def test_an_embedded_broker_is_where_the_asker_is_connected(world: World) -> None:
    world.register(embedded=True, port=10911)
    world.register("b", port=2)
    assert world.addrs(host="10.0.0.7") == {"a": {0: "10.0.0.7:10911"}, "b": {0: "h:2"}}
    assert world.addrs() == {"a": {0: "h:10911"}, "b": {0: "h:2"}}
    assert finished(world.route_answers.clusters("127.0.0.1")).broker_addr_table["a"].broker_addrs == {0: "127.0.0.1:10911"}
    assert world.route_answers.members("C", "a", "::1").broker_addrs == {0: "[::1]:10911"}
    assert world.route_answers.system_topics("10.0.0.7").broker_addr == "10.0.0.7:10911"
    assert world.addrs() == {"a": {0: "h:10911"}, "b": {0: "h:2"}}, "answers change nothing"


@pytest.mark.parametrize(
    ("host", "reported"),
    [
        ("::1", "[::1]:5"),
        ("::ffff:1.2.3.4", "1.2.3.4:5"),
        ("1.2.3.4", "1.2.3.4:5"),
        ("fe80::1%eth0", "[fe80::1%eth0]:5"),
        ("x", "x:5"),
    ],
)
def test_addresses_as_java_writes_them(host: str, reported: str) -> None:
    assert at_host("127.0.0.1:5", host) == reported


@pytest.mark.parametrize("news", [False, True])
def test_what_is_said_again_while_it_is_being_entered_is_entered(world: World, news: bool) -> None:
    """A broker that connects anew says all once more, of the same version; or only what has changed since."""

    def said(counter: int, queues: int, number: int, topics: int = 1_000) -> Registration:
        rows = [TopicConfig(topic_name=f"T{at}", read_queue_nums=queues, write_queue_nums=queues) for at in range(topics)]
        version = DataVersion(counter=counter, timestamp=7)
        return Registration("C", "a", 0, "h:1", "h:1001", {row.topic_name: row for row in rows}, version, link=Link(number))

    table = world.table
    finished(table.registering(said(1, 4, 1), 0))
    assert table.version("C", "h:1") is not None
    first = table.registering(said(2, 8, 1), 10)
    next(first)
    assert table.version("C", "h:1") is None
    finished(table.registering(said(3, 8, 2, topics=2) if news else said(2, 8, 2), 20))
    finished(first)
    finished(table.registering(said(3 if news else 2, 8, 2), 30_000))
    assert {table.topics[f"T{at}"]["a"].write_queue_nums for at in range(1_000)} == {8}
    assert table.version("C", "h:1") is not None


def test_an_embedded_broker_stays_whatever_name_comes_from_its_address(world: World) -> None:
    world.register("a", 0, 1, embedded=True)
    before = world.addrs("T")
    assert before
    world.register("b", 0, 1, link=Link(7), topics={"X": 6, "Y": 6})
    assert world.addrs("T") == before
    assert "b" not in world.table.brokers
