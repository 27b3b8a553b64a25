"""Attacks on a name server, which believes whoever connects, as the reference does.  Numbered as in docs/attacks.md."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import pytest

from broker_impl.namesrv.registrations import Registration
from rmq_wire.bodies.data_version import DataVersion
from rmq_wire.bodies.topics import TopicConfig
from rmq_wire.command import Form
from rmq_wire.declare import REQUESTS
from tests.broker.hostile_texts import hostile
from tests.broker.siege import files_below, logged
from tests.support.bad_frames import header_and_body
from tests.support.engine_session import EngineSession

MASTER: dict[str, Any] = {
    "brokerName": "broker-a",
    "brokerAddr": "10.0.0.1:10911",
    "clusterName": "C",
    "haServerAddr": "10.0.0.1:10912",
    "brokerId": "0",
    "enableActingMaster": "false",
    "compressed": "false",
    "bodyCrc32": "0",
}
TOPICS = {name: {"topicName": name, "readQueueNums": 4, "writeQueueNums": 4, "perm": 6} for name in ("T1", "T2")}


def registered(tmp_path: Path) -> EngineSession:
    """A name server on which broker-a is registered over a connection of its own."""
    session = EngineSession(str(tmp_path))
    table = {"dataVersion": {"counter": 1, "timestamp": 5, "stateVersion": 0}, "topicConfigTable": TOPICS}
    assert session.ask(103, MASTER, {"topicConfigSerializeWrapper": table}, who="broker").code == 0
    return session


# 13: registrations that are bombs


def piece(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


VERSION = piece(b'{"counter":1,"timestamp":1}')


@pytest.mark.parametrize(
    "inner",
    [
        pytest.param(bytes(300 << 20), id="300-MiB-of-zeros"),
        pytest.param(struct.pack(">i", 2**31 - 1) + b"{}", id="length-2^31-1"),
        pytest.param(struct.pack(">i", -1) + b"{}", id="length--1"),
        pytest.param(struct.pack(">i", 100 << 20) + bytes(101 << 20), id="a-piece-of-100-MiB"),
        pytest.param(VERSION + struct.pack(">i", 2**31 - 1), id="2^31-1-topics"),
        pytest.param(VERSION + struct.pack(">i", 3) + piece(b"T 1 1 6 SINGLE_TAG"), id="more-topics-than-bytes"),
        pytest.param(VERSION + struct.pack(">i", 1) + piece(b"T 1 1"), id="no-topic"),
        pytest.param(b"", id="nothing"),
    ],
)
def test_attack_13_a_compressed_registration(tmp_path: Path, inner: bytes) -> None:
    """Answered with 1; what is inflated stays below the cap (its peak is measured by tests/namesrv/test_bodies.py)."""
    with logged() as lines:
        session = registered(tmp_path)
        before = session.ask(106).body
        evil = {**MASTER, "brokerName": "evil", "compressed": "true"}
        answer = session.ask(103, evil, zlib.compress(inner, 1)[:16_000_000], who="unknown")
        assert answer.code == 1, answer
        assert session.ask(106).body == before
        assert session.server.engine.counters.errors == 0
        lines.check()


# 40: what anybody may do, and what not


def test_attack_40_an_unknown_peer_registers_another_master_as_in_java_and_it_is_logged(tmp_path: Path) -> None:
    with logged() as lines:
        session = registered(tmp_path)
        table = {"dataVersion": {"counter": 9, "timestamp": 9, "stateVersion": 0}, "topicConfigTable": TOPICS}
        evil = {**MASTER, "brokerAddr": "6.6.6.6:666"}
        assert session.ask(103, evil, {"topicConfigSerializeWrapper": table}, who="unknown").code == 0
        assert session.route("T1") == {"broker-a": {"0": "6.6.6.6:666"}}
        assert lines.about("broker moved", "6.6.6.6:666", "10.0.0.1:10911")
        lines.check()
        assert session.server.engine.counters.errors == 0


def test_attack_40_what_an_unknown_peer_may_do_to_a_broker_is_logged(tmp_path: Path) -> None:
    with logged() as lines:
        session = registered(tmp_path)
        unknown = "{}:{}".format(*session.client("unknown").peer.remote)
        assert session.ask(205, {"brokerName": "broker-a"}, who="unknown").code == 0
        assert lines.about("wiped write permission of broker-a", unknown)
        assert session.ask(216, {"topic": "T1"}, who="unknown").code == 0
        assert lines.about("T1", unknown), lines.messages
        assert session.ask(100, {"namespace": "n", "key": "k", "value": "v\n\x1b[31m"}, who="unknown").code == 0
        assert lines.about("n", "k", unknown), lines.messages
        assert session.ask(104, MASTER, who="unknown").code == 0
        assert lines.about("broker gone: broker-a"), lines.messages
        lines.check()


def test_attack_40_a_broker_of_the_same_process_is_not_moved_by_unknown_peers(tmp_path: Path) -> None:
    """`rmq dev`: nobody from outside takes the place of the embedded broker, or takes it out."""
    with logged() as lines:
        session = EngineSession(str(tmp_path))
        ours = Registration("C", "broker-a", 0, "127.0.0.1:10911", None, {"T1": TopicConfig(topic_name="T1")}, DataVersion())
        session.server.embed(ours)
        before = session.ask(106).body
        table = {"dataVersion": {"counter": 9, "timestamp": 9, "stateVersion": 0}, "topicConfigTable": TOPICS}
        for addr in ("6.6.6.6:666", "127.0.0.1:10911"):
            session.ask(103, {**MASTER, "brokerAddr": addr}, {"topicConfigSerializeWrapper": table}, who="unknown")
            session.ask(104, {**MASTER, "brokerAddr": addr}, who="unknown")
        assert session.ask(106).body == before
        lines.check()


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"configStorePath=/tmp/evil", 16),
        (b"kvConfigPath=/tmp/evil", 16),
        (b"rocketmqHome=/tmp/evil", 16),
        (b"configBlackList=", 16),
        (b"bindAddress=0.0.0.0", 16),
        (b"productEnvName=x\\nkvConfigPath=/tmp/evil", 29),
        (b"clusterTest=true", 29),
        (b"enableControllerInNamesrv=true", 29),
    ],
)
def test_attack_36_to_38_at_the_name_server(tmp_path: Path, line: bytes, code: int) -> None:
    session = registered(tmp_path)
    before, files = session.ask(319).body, files_below(tmp_path)
    assert session.ask(318, {}, b"orderMessageEnable=true\n" + line, who="unknown").code == code
    assert session.ask(319).body == before
    assert files_below(tmp_path) == files


@hostile
def test_attack_50_at_the_name_server(tmp_path: Path, text: str) -> None:
    with logged() as lines:
        session = registered(tmp_path)
        for request in REQUESTS.values():
            fields = {field.wire: text if field.kind is str else "0" for field in request.fields()}
            session.client("unknown").raw(header_and_body(request.code, fields, b"", Form.JSON))
            if session.client("unknown").closed:
                session.clients.pop("unknown")
            else:
                session.client("unknown").answers.pop(7, None)
        assert session.server.engine.counters.errors == 0, lines.formatted[-3:]
        assert all(len(line) < 1_500 for line in lines.messages)
        lines.check()
