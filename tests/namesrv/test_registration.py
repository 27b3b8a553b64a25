"""How our broker keeps itself known: what it says, when, to whom, and after which failures; time handed in."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_impl.engine.slices import ROWS_PER_SLICE, finished
from broker_impl.env import Env
from broker_impl.registration import Announcement, Asked, Identity, Registrar
from rmq_wire.bodies.data_version import DataVersion
from rmq_wire.bodies.kv import KVTable
from rmq_wire.bodies.registration import read_register_body
from rmq_wire.bodies.route import TopicRouteData
from rmq_wire.bodies.topics import TopicConfig
from rmq_wire.checksum import body_crc
from rmq_wire.command import Command
from rmq_wire.declare import Request
from rmq_wire.headers.naming import QueryDataVersion, RegisterBroker, RegisterTopic, UnregisterBroker
from tests.support.driver import Client
from tests.support.engine import Harness
from tests.support.engine_session import EngineSession
from tests.support.lines import lines_of

ME = Identity("C", "broker-a", 0, "127.0.0.1:10911", "127.0.0.1:10912")
V5_5_0 = 513


class Settings:
    broker_permission = 6
    compressed_register = False
    enable_single_topic_register = False
    enable_split_registration = False
    force_register = True
    register_broker_timeout_mills = 24_000
    register_name_server_period = 30_000
    split_registration_size = 800


class Topics:
    def __init__(self) -> None:
        self.table = {name: TopicConfig(topic_name=name, read_queue_nums=4, write_queue_nums=4) for name in ("T1", "T2")}
        self.data_version = DataVersion(counter=1, timestamp=5)
        self.ordered: list[str] = []

    def set_order_topics(self, ordered: Iterable[str]) -> None:
        self.ordered += ordered

    def create(self, name: str) -> TopicConfig:
        made = self.table[name] = TopicConfig(topic_name=name)
        self.data_version.advance(6)
        return made


class Broker:
    """A registrar at mono time 0, and what its name servers answer."""

    def __init__(self, *namesrvs: str) -> None:
        self.settings = Settings()
        self.topics = Topics()
        self.woken = 0
        self.announcement = Announcement(ME, self.settings, self.topics)
        self.registrar = Registrar(self.announcement, namesrvs or ("n:1",), 0, Env().log, self.wake)
        self.now = 0

    def wake(self) -> None:
        self.woken += 1

    def due(self, at: int) -> list[Asked]:
        self.now = at
        return finished(self.registrar.due(at))

    def answer(self, asked: Asked, code: int = 0, body: bytes = b"", **ext: str) -> str | None:
        return self.registrar.answered(asked, Command(code=code, map_ext=ext, body=body), self.now)

    def settle(self, at: int) -> list[Asked]:
        """Everything that is asked now, each question answered well."""
        found: list[Asked] = []
        while asked := self.due(at):
            found += asked
            for one in asked:
                assert self.answer(one) is None
        return found


def kinds(asked: Iterable[Asked]) -> list[type[Request]]:
    return [type(one.request) for one in asked]


def registered(asked: Asked) -> set[str]:
    """The topics in a registration."""
    header = asked.request
    assert isinstance(header, RegisterBroker)
    assert header.body_crc32 == body_crc(asked.body)
    body = read_register_body(asked.body, compressed=header.compressed, version=V5_5_0)
    return set(body.topic_config_serialize_wrapper.topic_config_table)


def test_it_registers_at_the_start_after_10_s_and_every_30_s() -> None:
    broker = Broker()
    times = []
    for at in range(0, 121_000, 500):
        if broker.settle(at):
            times.append(at)
    assert times == [0, 10_000, 40_000, 70_000, 100_000]
    assert broker.registrar.registered == ["n:1"]


@pytest.mark.parametrize(("period", "third"), [(1_000, 20_000), (10_000, 20_000), (60_000, 70_000), (10**9, 70_000)])
def test_the_period_is_kept_between_10_and_60_s(period: int, third: int) -> None:
    broker = Broker()
    broker.settings.register_name_server_period = period
    broker.settle(0)
    broker.settle(10_000)
    assert broker.registrar.next_due_ms() == third


def test_the_header_says_who_we_are_and_the_body_what_we_have() -> None:
    broker = Broker()
    [asked] = broker.due(0)
    assert asked.timeout_ms == 24_000
    assert asked.request == RegisterBroker(
        broker_name="broker-a",
        broker_addr="127.0.0.1:10911",
        cluster_name="C",
        ha_server_addr="127.0.0.1:10912",
        broker_id=0,
        enable_acting_master=False,
        compressed=False,
        body_crc32=body_crc(asked.body),
    )
    assert registered(asked) == {"T1", "T2"}
    assert b'"topicQueueMappingInfoMap":{}' in asked.body


def test_all_name_servers_are_asked_at_once_and_wait_for_nobody() -> None:
    broker = Broker("n:1", "n:2")
    one, two = broker.due(0)
    assert (one.namesrv, two.namesrv) == ("n:1", "n:2")
    assert not broker.due(5_000)
    assert broker.registrar.next_due_ms() is None
    broker.answer(two)
    assert broker.registrar.next_due_ms() == 10_000
    assert [asked.namesrv for asked in broker.due(10_000)] == ["n:2"], "the other has not answered yet"


def test_a_changed_topic_is_registered_at_once_and_alone() -> None:
    broker = Broker("n:1", "n:2")
    broker.settle(0)
    broker.registrar.topics_changed([broker.topics.create("N")])
    assert broker.woken == 1
    asked = broker.due(1)
    assert [registered(one) for one in asked] == [{"N"}, {"N"}]
    broker.registrar.topics_changed([broker.topics.create("O")])
    broker.registrar.topics_changed([broker.topics.create("P")])
    assert not broker.due(2), "one question at a time"
    for one in asked:
        broker.answer(one)
    assert [registered(one) for one in broker.settle(3)] == [{"O", "P"}, {"O", "P"}]
    assert not broker.due(4)


def test_a_full_registration_makes_waiting_increments_needless() -> None:
    broker = Broker()
    [first] = broker.due(0)
    broker.registrar.topics_changed([broker.topics.create("N")])
    broker.registrar.everything_changed()
    broker.answer(first)
    assert [registered(one) for one in broker.settle(1)] == [{"T1", "T2", "N"}]


def test_single_topic_registration_says_217() -> None:
    broker = Broker()
    broker.settings.enable_single_topic_register = True
    broker.settle(0)
    broker.registrar.topics_changed([broker.topics.create("N"), broker.topics.create("O")])
    asked = broker.settle(1)
    assert [one.request for one in asked] == [RegisterTopic(topic="N"), RegisterTopic(topic="O")]
    [queues] = TopicRouteData.read(asked[0].body).queue_datas
    assert (queues.broker_name, queues.read_queue_nums, queues.perm) == ("broker-a", 16, 6)


def test_a_large_table_is_split_when_the_configuration_says_so() -> None:
    broker = Broker()
    broker.settings.enable_split_registration = True
    broker.settings.split_registration_size = 2
    for name in ("A", "B", "C"):
        broker.topics.create(name)
    assert [registered(one) for one in broker.settle(0)] == [{"T1", "T2"}, {"A", "B"}, {"C"}]


def test_without_force_the_version_is_asked_first() -> None:
    broker = Broker()
    broker.settings.force_register = False
    assert kinds(broker.settle(0)) == [RegisterBroker]
    [asked] = broker.due(10_000)
    assert isinstance(asked.request, QueryDataVersion)
    assert DataVersion.read(asked.body) == broker.topics.data_version
    broker.answer(asked, body=broker.topics.data_version.encode(), changed="false")
    assert not broker.due(10_001)
    for at, version, changed in ((40_000, DataVersion(counter=9), "false"), (70_000, broker.topics.data_version, "true")):
        [asked] = broker.due(at)
        assert isinstance(asked.request, QueryDataVersion)
        broker.answer(asked, body=version.encode(), changed=changed)
        assert kinds(broker.settle(at + 1)) == [RegisterBroker]


def test_permissions_are_cut_down_to_the_brokers_own() -> None:
    broker = Broker()
    broker.settings.broker_permission = 4
    broker.topics.table["T1"].perm = 7
    broker.topics.table["T1"].topic_sys_flag = 1
    [asked] = broker.due(0)
    table = read_register_body(asked.body, compressed=False, version=V5_5_0).topic_config_serialize_wrapper.topic_config_table
    assert {name: config.perm for name, config in table.items()} == {"T1": 4, "T2": 4}
    assert table["T1"].topic_sys_flag == 1
    assert broker.topics.table["T1"].perm == 7


def test_a_compressed_registration_says_so() -> None:
    broker = Broker()
    broker.settings.compressed_register = True
    [asked] = broker.due(0)
    assert asked.body[0] == 0x78
    assert registered(asked) == {"T1", "T2"}


@pytest.mark.parametrize("compressed", [False, True])
def test_a_large_registration_is_made_in_slices(compressed: bool) -> None:
    """50,000 topics were encoded at once: at the start, 10 s later and every 30 s nobody was served for 0.2 to 0.4 s."""
    broker = Broker()
    broker.settings.compressed_register = compressed
    for number in range(3_000):
        broker.topics.create(f"M{number}")
    making, slices, asked = broker.registrar.due(0), [0], list[Asked]()

    def step() -> None:
        try:
            next(making)
        except StopIteration as end:
            asked.extend(end.value)

    while not asked:
        slices.append(lines_of(step))
        if len(slices) == 20:
            broker.registrar.topics_changed([broker.topics.create("N")])
    assert max(slices) < 100 * ROWS_PER_SLICE
    assert len(registered(asked[0])) == 3_002
    assert broker.answer(asked[0]) is None
    assert [registered(one) for one in broker.settle(1)] == [{"N"}], "what is made meanwhile follows"


def test_ordered_topics_come_back() -> None:
    broker = Broker()
    [asked] = broker.due(0)
    broker.answer(asked, body=KVTable(table={"T1": "broker-a:4"}).encode())
    assert broker.topics.ordered == ["T1"]


def test_after_a_failure_everything_is_said_again_with_growing_pauses() -> None:
    broker = Broker()
    broker.settle(0)
    broker.registrar.topics_changed([broker.topics.create("N")])
    times, at = [], 1
    for _ in range(5):
        asked = broker.due(at)
        assert len(asked) == 1
        assert registered(asked[0]) == ({"N"} if at == 1 else {"T1", "T2", "N"})
        assert "refused" in broker.registrar.failed(asked[0], "connection refused", at)
        assert broker.registrar.registered == []
        due = broker.registrar.next_due_ms()
        assert due is not None
        times.append(due - at)
        assert not broker.due(due - 1)
        at = due
    assert times == [1_000, 2_000, 4_000, 5_000, 5_000]
    assert [registered(one) for one in broker.settle(at)] == [{"T1", "T2", "N"}]
    assert broker.registrar.registered == ["n:1"]
    broker.registrar.failed(broker.due(40_000)[0], "again", 40_000)
    assert broker.registrar.next_due_ms() == 41_000


@pytest.mark.parametrize(("code", "body"), [(1, b""), (0, b"{broken")])
def test_a_bad_answer_is_a_failure_too(code: int, body: bytes) -> None:
    broker = Broker()
    [asked] = broker.due(0)
    wrong = broker.answer(asked, code=code, body=body)
    assert wrong is not None
    assert "n:1" in wrong
    assert kinds(broker.settle(1_000)) == [RegisterBroker]


def test_what_is_wrong_with_a_name_server_is_logged_when_it_changes(caplog: pytest.LogCaptureFixture) -> None:
    """One that cannot be resolved is asked every 5 s for ever, and that is a line."""
    broker = Broker()
    for why in ["unresolvable"] * 50 + ["connection refused"] * 50 + ["unresolvable"]:
        due = broker.registrar.next_due_ms()
        assert due is not None
        [asked] = broker.due(due)
        broker.registrar.failed(asked, why, due)
    said = [record.getMessage().partition(";")[0].removeprefix("name server n:1") for record in caplog.records]
    assert said == [": unresolvable", ": connection refused", ": unresolvable"]
    caplog.clear()
    broker.settle(10**6)
    assert [record.getMessage() for record in caplog.records] == ["name server n:1 answers again after 101 failures"]
    caplog.clear()
    for at in (10**7, 10**8):
        broker.settle(at)
    assert not caplog.records
    [asked] = broker.due(10**9)
    broker.registrar.failed(asked, "unresolvable", 10**9)
    assert len(caplog.records) == 1, "it is news again"


def test_a_broken_connection_is_followed_by_a_registration_at_once() -> None:
    broker = Broker("n:1", "n:2")
    broker.settle(0)
    broker.registrar.disconnected("n:1")
    assert broker.registrar.registered == ["n:2"]
    assert broker.woken == 1
    assert [(one.namesrv, registered(one)) for one in broker.settle(100)] == [("n:1", {"T1", "T2"})]


def test_at_the_end_it_takes_leave_of_those_who_know_it() -> None:
    broker = Broker("n:1", "n:2", "n:3")
    one, two, three = broker.due(0)
    broker.answer(one)
    broker.registrar.failed(two, "gone", 0)
    asked = broker.registrar.leave()
    assert {goodbye.namesrv for goodbye in asked} == {one.namesrv, three.namesrv}
    assert asked[0].request == UnregisterBroker(
        broker_name="broker-a", broker_addr="127.0.0.1:10911", cluster_name="C", broker_id=0
    )
    assert not broker.due(10**9)
    assert broker.registrar.next_due_ms() is None


def test_without_name_servers_nothing_is_ever_due() -> None:
    broker = Broker()
    registrar = Registrar(broker.announcement, (), 0, Env().log)
    assert not finished(registrar.due(10**9))
    assert registrar.next_due_ms() is None


# Against name servers of ours, on their engines


class Wires:
    """A broker's connections to name servers in this process."""

    def __init__(self, broker: Broker, servers: dict[str, EngineSession]) -> None:
        self.broker = broker
        self.servers = servers
        self.clients: dict[str, Client] = {}

    def run(self, at: int) -> None:
        while asked := self.broker.due(at):
            for one in asked:
                self._ask(one)

    def _ask(self, one: Asked) -> None:
        server = self.servers.get(one.namesrv)
        if server is None:
            self.broker.registrar.failed(one, "connection refused", self.broker.now)
            return
        if one.namesrv not in self.clients:
            self.clients[one.namesrv] = server.driver.connect()
        self.broker.registrar.answered(one, self.clients[one.namesrv].ask(one.request, one.body), self.broker.now)


def test_a_name_server_that_restarts_knows_us_soon_again(tmp_path: Path) -> None:
    broker = Broker("n:1", "n:2")
    servers = {"n:1": EngineSession(str(tmp_path / "1")), "n:2": EngineSession(str(tmp_path / "2"))}
    wires = Wires(broker, servers)
    wires.run(0)
    assert all(server.route() == {"broker-a": {"0": "127.0.0.1:10911"}} for server in servers.values())
    broker.registrar.topics_changed([broker.topics.create("N")])
    wires.run(5)
    assert all(server.route("N") is not None for server in servers.values())
    del servers["n:1"]
    del wires.clients["n:1"]
    broker.registrar.disconnected("n:1")
    for at in (10, 1_100, 3_200):
        wires.run(at)
    servers["n:1"] = EngineSession(str(tmp_path / "1"))
    wires.run(8_000)
    assert servers["n:1"].route("N") is not None
    for goodbye in broker.registrar.leave():
        assert wires.clients[goodbye.namesrv].ask(goodbye.request).code == 0
    assert all(server.route() is None for server in servers.values())


@given(st.lists(st.sampled_from(["topic", "all", "ok", "fail", "cut", "wait", "wait long"]), max_size=30), st.integers(0, 2**32))
def test_whatever_happens_the_last_word_is_everything_we_have(events: list[str], seed: int) -> None:
    import random

    broker = Broker("n:1", "n:2")
    chance = random.Random(seed)
    known: dict[str, set[str]] = {"n:1": set(), "n:2": set()}
    under_way: list[Asked] = []

    def answer(asked: Asked) -> None:
        known[asked.namesrv] |= registered(asked)
        assert broker.answer(asked) is None

    now = 0
    for event in [*events, "wait long"]:
        if event == "topic":
            broker.registrar.topics_changed([broker.topics.create(f"N{len(broker.topics.table)}")])
        elif event == "all":
            broker.registrar.everything_changed()
        elif event in ("ok", "fail") and under_way:
            asked = under_way.pop(chance.randrange(len(under_way)))
            if event == "ok":
                answer(asked)
            else:
                known[asked.namesrv] = set()
                broker.registrar.failed(asked, "failed", now)
        elif event == "cut":
            namesrv = chance.choice(["n:1", "n:2"])
            known[namesrv] = set()
            for asked in [one for one in under_way if one.namesrv == namesrv]:
                under_way.remove(asked)
                broker.registrar.failed(asked, "cut", now)
            broker.registrar.disconnected(namesrv)
        now += {"wait": 700, "wait long": 7_000}.get(event, 1)
        asked_now = broker.due(now)
        assert len({one.namesrv for one in [*under_way, *asked_now]}) == len(under_way) + len(asked_now), "one question at a time"
        under_way += asked_now
    for _ in range(20):
        for asked in under_way:
            answer(asked)
        now += 5_000
        under_way = broker.due(now)
    assert known == {"n:1": set(broker.topics.table), "n:2": set(broker.topics.table)}


def test_an_embedded_name_server_gets_the_same(tmp_path: Path) -> None:
    broker: Any = Broker()
    session = EngineSession(str(tmp_path))
    session.server.embed(broker.announcement.registration(broker.announcement.offered(broker.topics.table.values())))
    assert session.route("T2") == {"broker-a": {"0": "127.0.0.1:10911"}}
    session.server.embed(broker.announcement.registration(broker.announcement.offered([broker.topics.create("N")])))
    assert session.route("N") is not None
    session.server.withdraw(broker.announcement.unregistration())
    assert session.route("T2") is None


# With the name server of the same process


def beside(tmp_path: Path, topics: int) -> tuple[Harness, EngineSession, list[int]]:
    """A broker with so many topics, entered into a name server in steps; the lines of Python of each."""
    harness = Harness(tmp_path / "broker", registerNameServerPeriod=30_000)
    names = EngineSession(str(tmp_path / "names"))
    harness.node.topics.put_all([TopicConfig(topic_name=f"M{number}") for number in range(topics)])
    harness.driver.run()
    entering = harness.node.register_with(names.server)
    steps = []
    while entering.gi_frame is not None:
        steps.append(lines_of(lambda: next(entering, None)))
    return harness, names, steps


def test_a_broker_of_the_same_process_is_entered_in_slices(tmp_path: Path) -> None:
    """50,000 topics took 71 ms at the start, and 31 ms every 30 s."""
    harness, names, steps = beside(tmp_path, 3_000)
    assert max(steps) < 100 * ROWS_PER_SLICE
    assert names.route("M2999") is not None
    harness.env.advance(30_000)
    turns = [lines_of(lambda: harness.node.engine.turn([])) + lines_of(lambda: harness.node.engine.settle()) for _ in range(40)]
    assert max(turns) < 100 * ROWS_PER_SLICE
    assert sum(turns) > 3_000, "it was entered again"


def test_news_of_a_broker_of_the_same_process_are_entered_at_once(tmp_path: Path) -> None:
    """Also while it is entered again: what is newer stays, and what was left comes all the same."""
    harness, names, _ = beside(tmp_path, 3_000)
    node = harness.node
    names.server.table.delete_topic("M2999")
    again = node._registering_embedded()
    for number in range(30):
        next(again, None)
        node.topics.put(TopicConfig(topic_name="M2998", read_queue_nums=number + 20))
        node.topics.announce([node.topics.table["M2998"]])
        node.topics.put(TopicConfig(topic_name=f"N{number}"))
        node.topics.announce([node.topics.table[f"N{number}"]])
        assert names.route(f"N{number}") is not None
    assert again.gi_frame is None
    assert names.route("M2999") is not None
    assert names.server.table.topics["M2998"]["broker-a"].read_queue_nums == 49
    ending = node._registering_embedded()
    next(ending)
    node.withdraw_from(names.server)
    finished(ending)
    assert names.route("M1") is None
