"""A name server on its engine: connections that come and go, time, files, embedded brokers, and what unknown peers try."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker_impl.namesrv.config import NamesrvConfig
from broker_impl.namesrv.registrations import Registration, Unregistration
from rmq_store.errors import StoreDamaged
from rmq_wire.bodies import properties_text
from rmq_wire.bodies.data_version import DataVersion
from rmq_wire.bodies.topics import TopicConfig
from tests.support.engine_session import EngineSession
from tests.support.exchange import broker, compressed_body, framed, register_body, topic

TOPICS = (topic("T1"), topic("T2"))
MASTER = {"broker-a": {"0": "127.0.0.1:10911"}}


@pytest.fixture
def session(tmp_path: Path) -> EngineSession:
    return EngineSession(str(tmp_path))


def register(session: EngineSession, who: str = "a", counter: int = 1, **more: Any) -> int:
    return session.ask(103, broker(**more), register_body(*TOPICS, counter=counter), who=who).code


def beat(session: EngineSession, who: str = "a", **more: Any) -> None:
    session.send_oneway(904, broker(**more), who=who)


def test_a_connection_that_closes_takes_its_broker_along_at_once(session: EngineSession) -> None:
    register(session)
    session.close("a")
    assert session.route() is None


def test_a_broker_that_reconnects_before_its_old_connection_is_gone_stays(session: EngineSession) -> None:
    register(session, "old")
    register(session, "new")
    session.close("old")
    assert session.route() == MASTER
    session.close("new")
    assert session.route() is None


def test_a_goodbye_on_the_old_connection_comes_too_late(session: EngineSession) -> None:
    register(session, "old")
    register(session, "new")
    assert session.ask(104, broker(), who="old").code == 0
    assert session.route() == MASTER
    assert session.ask(104, broker(), who="tool").code == 0
    assert session.route() is None


def test_brokers_that_share_a_connection_go_together(session: EngineSession) -> None:
    register(session, "container")
    register(session, "container", name="broker-b", port=20911)
    session.close("container")
    assert session.route() is None


def test_a_silent_broker_expires_and_its_connection_is_closed(session: EngineSession) -> None:
    register(session, heartbeatTimeoutMillis=10_000)
    client = session.client("a")
    session.driver.advance(10_000)
    assert session.route() == MASTER
    session.driver.advance(5_000)
    assert session.route() is None
    assert client.closed


@pytest.mark.parametrize("sign", [904, 322, 103])
def test_signs_of_life_keep_a_broker(session: EngineSession, sign: int) -> None:
    register(session, heartbeatTimeoutMillis=10_000)
    for _ in range(10):
        session.driver.advance(9_000)
        session.send_oneway(sign, broker(heartbeatTimeoutMillis=10_000), register_body(*TOPICS) if sign == 103 else b"", who="a")
    assert session.route() == MASTER
    session.driver.advance(16_000)
    assert session.route() is None


def test_a_broker_that_names_no_time_has_two_minutes(session: EngineSession) -> None:
    register(session)
    for _ in range(4):
        session.driver.advance(30_000)
        session.send_oneway(105, {"topic": "x"}, who="a")  # the connection is not idle
    assert session.route() == MASTER
    session.driver.advance(6_000)
    assert session.route() is None


def test_an_idle_connection_is_closed_and_with_it_its_broker(session: EngineSession) -> None:
    register(session, heartbeatTimeoutMillis=10**9)
    client = session.client("a")
    session.driver.advance(130_000)
    assert client.closed
    assert session.route() is None


def test_a_java_broker_that_says_nothing_for_its_first_10_s_is_welcome(session: EngineSession) -> None:
    client = session.client("a")
    session.driver.advance(100_000)
    assert not client.closed
    register(session)
    assert session.route() == MASTER
    silent = session.client("silent")
    session.driver.advance(130_000)
    assert silent.closed


def test_the_wall_clock_decides_nothing(session: EngineSession) -> None:
    register(session, heartbeatTimeoutMillis=10_000)
    session.env.wall_ms += 10**9
    session.driver.advance(5_000)
    assert session.route() == MASTER


def test_several_name_servers_know_nothing_of_each_other(tmp_path: Path) -> None:
    one, two = EngineSession(str(tmp_path / "1")), EngineSession(str(tmp_path / "2"))
    register(one)
    assert one.route() == MASTER
    assert two.route() is None


def test_waiting_for_service_ends_by_itself(tmp_path: Path) -> None:
    session = EngineSession(str(tmp_path), {"needWaitForService": "true", "waitSecondsForService": "10"})
    register(session)
    said = session.ask(105, {"topic": "T1"})
    assert (said.code, said.remark) == (1, "name server not ready")
    session.driver.advance(10_000)
    assert session.route() == MASTER


def test_one_way_requests_are_obeyed_and_not_answered(session: EngineSession) -> None:
    session.send_oneway(103, broker(), register_body(*TOPICS), who="a")
    assert session.route() == MASTER
    session.send_oneway(104, broker(), who="a")
    assert session.route() is None
    assert not session.client("a").answers


# Brokers of the same process


def embedded(*names: str, port: int = 10911) -> Registration:
    table = {name: TopicConfig(topic_name=name) for name in names}
    return Registration("C", "dev", 0, f"127.0.0.1:{port}", f"127.0.0.1:{port + 1}", table, DataVersion(counter=len(names)))


def test_an_embedded_broker_is_answered_at_the_address_that_the_asker_came_in_on(session: EngineSession) -> None:
    session.server.embed(embedded("T1", "T2"))
    for who, host, reported in (
        ("here", "127.0.0.1", "127.0.0.1"),
        ("lan", "192.168.1.5", "192.168.1.5"),
        ("six", "fd00::1", "[fd00::1]"),
    ):
        session.connect_through(who, host)
        addr = f"{reported}:10911"
        assert session.route(who=who) == {"dev": {"0": addr}}
        assert session.ask(106, who=who).body["brokerAddrTable"]["dev"]["brokerAddrs"] == {"0": addr}
        assert session.ask(901, {"clusterName": "C", "brokerName": "dev"}, who=who).body["brokerMemberGroup"]["brokerAddrs"] == {
            "0": addr
        }
        assert session.ask(304, who=who).body["brokerAddr"] == addr
        slave = session.ask(103, broker("dev", number=1, port=5), register_body(*TOPICS), who=who)
        assert slave.ext["masterAddr"] == addr
        session.ask(104, broker("dev", number=1, port=5), who=who)


def test_an_embedded_broker_stays_until_it_is_withdrawn(session: EngineSession) -> None:
    session.server.embed(embedded("T1", "T2"))
    session.driver.advance(10**7)
    assert session.route() == {"dev": {"0": "127.0.0.1:10911"}}
    session.server.embed(embedded("N"))
    assert session.route("N") == {"dev": {"0": "127.0.0.1:10911"}}
    assert session.ask(103, broker("dev", port=666), register_body(*TOPICS), who="thief").code == 0
    assert session.ask(104, broker("dev"), who="thief").code == 0
    assert session.route() == {"dev": {"0": "127.0.0.1:10911"}}
    session.server.withdraw(Unregistration("C", "dev", 0, "127.0.0.1:10911"))
    assert session.route() is None


# Files


def test_key_values_outlive_the_server_and_stand_in_javas_form(tmp_path: Path) -> None:
    first = EngineSession(str(tmp_path))
    for key in ("zeta", 'é"\\q', "alpha", "x y"):
        assert first.ask(100, {"namespace": "NS2", "key": key, "value": f"v\n{key}"}).code == 0
    assert first.ask(100, {"namespace": "ORDER_TOPIC_CONFIG", "key": "T1", "value": "broker-a:4"}).code == 0
    path = tmp_path / "namesrv" / "kvConfig.json"
    assert path.read_text(encoding="utf-8") == (
        '{"configTable":{"ORDER_TOPIC_CONFIG":{"T1":"broker-a:4"},'
        '"NS2":{"zeta":"v\\nzeta","x y":"v\\nx y","é\\"\\\\q":"v\\né\\"\\\\q","alpha":"v\\nalpha"}}}'
    )  # as the real one wrote it after the same requests
    assert first.ask(102, {"namespace": "NS2", "key": "zeta"}).code == 0
    again = EngineSession(str(tmp_path))
    assert again.ask(101, {"namespace": "NS2", "key": "x y"}).ext == {"value": "v\nx y"}
    assert again.ask(101, {"namespace": "NS2", "key": "zeta"}).code == 22
    assert "zeta" in (tmp_path / "namesrv" / "kvConfig.json.bak").read_text(encoding="utf-8")


def test_a_torn_key_value_file_falls_back_to_the_one_before(tmp_path: Path) -> None:
    first = EngineSession(str(tmp_path))
    first.ask(100, {"namespace": "NS", "key": "a", "value": "1"})
    first.ask(100, {"namespace": "NS", "key": "b", "value": "2"})
    (tmp_path / "namesrv" / "kvConfig.json").write_text('{"configTable":{"NS":{"a"')
    again = EngineSession(str(tmp_path))
    assert again.ask(101, {"namespace": "NS", "key": "a"}).ext == {"value": "1"}
    (tmp_path / "namesrv" / "kvConfig.json.bak").write_text("{")
    (tmp_path / "namesrv" / "kvConfig.json").write_text("{")
    with pytest.raises(StoreDamaged, match=r"kvConfig\.json"):
        EngineSession(str(tmp_path))


def test_a_value_is_there_at_once_and_answered_when_it_is_on_disk(session: EngineSession, tmp_path: Path) -> None:
    session.driver.held = True
    opaque = 77
    put = session.client("tool")
    put.raw(_frame(100, {"namespace": "N", "key": "k", "value": "v"}, opaque))
    assert opaque not in put.answers
    assert session.ask(101, {"namespace": "N", "key": "k"}, who="other").ext == {"value": "v"}
    session.driver.held = False
    session.driver.run()
    assert put.answers[opaque].code == 0
    session.driver.held = True
    put.raw(_frame(100, {"namespace": "N", "key": "k", "value": "w"}, opaque + 1))
    session.driver.end_job(OSError(28, "No space left on device"))
    session.driver.run()
    answer = put.answers[opaque + 1]
    assert answer.code == 1
    assert "No space left" in (answer.remark or "")


def _frame(code: int, ext: dict[str, Any], opaque: int) -> bytes:
    return framed(code, ext, b"", opaque)


def test_the_key_value_table_has_an_end(session: EngineSession) -> None:
    big = "v" * 500_000  # a header field: there is room for a million bytes
    said = [session.ask(100, {"namespace": "N", "key": str(number), "value": big}) for number in range(20)]
    assert [answer.code for answer in said].count(0) == 16
    assert "8388608 characters at most" in (said[-1].remark or "")
    assert session.ask(102, {"namespace": "N", "key": "3"}).code == 0
    assert session.ask(100, {"namespace": "N", "key": "new", "value": big}).code == 0


def test_a_changed_configuration_is_read_at_the_next_start(tmp_path: Path) -> None:
    session = EngineSession(str(tmp_path), {"mine": "a\\b", "listenPort": "0"})
    assert session.ask(318, {}, b"orderMessageEnable=true\nproductEnvName=c:\\\\x\\\\\nmine=y\nother=z").code == 0
    written = (tmp_path / "namesrv" / "namesrv.properties").read_text(encoding="utf-8")
    entries = properties_text.loads(written)
    assert entries["orderMessageEnable"] == "true"
    assert entries["productEnvName"] == "c:\\x\\"
    assert entries["mine"] == "y"
    assert "other" not in entries
    config = NamesrvConfig(entries, user_home=str(tmp_path))
    assert config.order_message_enable
    assert config.values()["listenPort"] == "0"
    assert config.unknown == {"mine": "y"}


# What unknown peers try


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"enableTopicList=false\nkvConfigPath=/etc/passwd", 16),
        (b"enableTopicList=false\nconfigStorePath=/etc/passwd", 16),
        (b"enableTopicList=false\nrocketmqHome=/x", 16),
        (b"enableTopicList=false\nconfigBlackList=", 16),
        (b"enableTopicList=false\nk\\u0076ConfigPath=/etc/passwd", 16),
        (b"enableTopicList=false\nproductEnvName=x\\nkvConfigPath=/etc/passwd", 29),
        (b"enableTopicList=false\nproductEnvName=x\\rkvConfigPath=/etc/passwd", 29),
        (b"enableTopicList=false\nproductEnvName=x\\u000akvConfigPath=/etc/passwd", 29),
        (b"enableTopicList=false\na\\nkvConfigPath=/etc/passwd", 29),
        (b"enableTopicList=false\nenableControllerInNamesrv=true", 29),
        (b"enableTopicList=false\nclusterTest=true", 29),
    ],
)
def test_a_forbidden_key_among_good_ones_changes_nothing(session: EngineSession, tmp_path: Path, body: bytes, code: int) -> None:
    before = session.ask(319).body
    assert session.ask(318, {}, body).code == code
    assert session.ask(319).body == before
    assert not (tmp_path / "namesrv").exists()


@pytest.mark.parametrize(
    "body",
    [
        b"productEnvName=x\\\\\n",
        b"productEnvName=x\\\\nkvConfigPath=/y",
        b"productEnvName=\\u0085kvConfigPath=/y",
        b"productEnvName=\xe2\x80\xa8kvConfigPath=/y",
    ],
)
def test_a_value_never_becomes_another_key_in_the_file(session: EngineSession, tmp_path: Path, body: bytes) -> None:
    assert session.ask(318, {}, body).code == 0
    shown = session.config.values()
    assert properties_text.loads((tmp_path / "namesrv" / "namesrv.properties").read_text(encoding="utf-8")) == shown


def test_the_black_list_of_the_configuration_adds_keys(tmp_path: Path) -> None:
    session = EngineSession(str(tmp_path), {"configBlackList": "enableTopicList;orderMessageEnable"})
    assert session.ask(318, {}, b"orderMessageEnable=true").code == 16
    assert session.ask(318, {}, b"kvConfigPath=/x").code == 16
    assert session.ask(318, {}, b"enableAllTopicList=false").code == 0


@pytest.mark.parametrize(
    "body",
    [
        zlib.compress(bytes(200 << 20), 1),
        zlib.compress(b"\x7f\xff\xff\xff" + bytes(1000)),
        zlib.compress(b"\xff\xff\xff\xff" + bytes(1000)),
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":{"perm":"x"}}}}',
        b'{"topicConfigSerializeWrapper":{"topicConfigTable":[1]}}',
        b'{"topicConfigSerializeWrapper":{"topicQueueMappingInfoMap":{"T":{"currIdMap":{"x":1}}}}}',
    ],
    ids=["bomb", "length 2^31-1", "length -1", "deep list", "deep object", "no number", "no table", "no ids"],
)
def test_a_hostile_registration_is_an_error_and_no_more(session: EngineSession, body: bytes) -> None:
    register(session)
    said = session.ask(103, broker("evil", port=1), body, who="evil")
    assert said.code == 1
    assert said.remark
    assert session.route() == MASTER
    assert session.ask(106, who="evil").body["brokerAddrTable"].keys() == {"broker-a"}


def test_names_are_only_names(session: EngineSession) -> None:
    strange = ["..", "a/b", "a\nb\x1b[31m", "", "\u202e", "x" * 10_000, "=cmd", "<script>"]
    for name in strange:
        assert register(session, "s", name=name, cluster=name) == 0
        assert session.ask(105, {"topic": name}).code == 17
        session.ask(216, {"topic": name})
    assert session.ask(106).code == 0
    assert session.ask(304).code == 0


bodies = st.one_of(
    st.binary(max_size=200),
    st.builds(
        lambda at, change, body: body[: at % len(body)] + bytes([change]) + body[at % len(body) + 1 :],
        st.integers(0, 10_000),
        st.integers(0, 255),
        st.sampled_from(
            [register_body(*TOPICS), compressed_body(*TOPICS), json.dumps({"queueDatas": [{"brokerName": "b"}]}).encode()]
        ),
    ),
)
FIELDS = (
    "brokerName brokerAddr clusterName haServerAddr brokerId topic namespace key value cluster compressed bodyCrc32 "
    "enableActingMaster heartbeatTimeoutMillis acceptStandardJsonOnly __ZONE_NAME __ZONE_MODE"
)
fields = st.sampled_from(FIELDS.split())
values = st.one_of(st.sampled_from(["0", "1", "-1", "true", "a", "b", "9223372036854775807"]), st.text(max_size=5))
CODES = [
    100,
    101,
    102,
    103,
    104,
    105,
    106,
    205,
    206,
    216,
    217,
    219,
    224,
    304,
    311,
    312,
    313,
    318,
    319,
    322,
    327,
    901,
    904,
    10,
    0,
    -5,
]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(st.sampled_from(CODES), st.dictionaries(fields, values, max_size=9), bodies, st.integers(-1, 700)), max_size=12
    )
)
def test_whatever_is_asked_is_answered_and_the_next_one_served(
    tmp_path: Path, asked: list[tuple[int, dict[str, str], bytes, int]]
) -> None:
    session = EngineSession(str(tmp_path))
    register(session, "good")
    for code, ext, body, version in asked:
        said = session.ask(code, ext, body, who="fuzz", version=version)
        assert said.code in (0, 1, 3, 16, 17, 22, 29)
    assert not session.client("fuzz").closed
    assert session.ask(106, who="next").code == 0
    assert session.server.engine.counters.errors == 0
