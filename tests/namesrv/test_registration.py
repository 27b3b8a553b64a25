"""How our broker keeps itself known: what it says, when, to whom, and after which failures; time handed in."""

from __future__ import annotations

import pytest

from broker_impl.engine.slices import ROWS_PER_SLICE, finished
from broker_impl.env import Env
from broker_impl.registration import Asked, Registrar
from rmq_wire.bodies.data_version import DataVersion
from rmq_wire.bodies.kv import KVTable
from rmq_wire.bodies.registration import read_register_body
from rmq_wire.bodies.route import TopicRouteData
from rmq_wire.checksum import body_crc
from rmq_wire.headers.naming import QueryDataVersion, RegisterBroker, RegisterTopic, UnregisterBroker
from tests.namesrv.registering import V5_5_0, Broker, kinds, registered
from tests.support.lines import lines_of


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
