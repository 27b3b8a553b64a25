"""Tables of thousands of rows: read, entered and answered in slices that are counted, and what is not cut has a limit."""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest

from broker_impl.engine.slices import ROWS_PER_SLICE, finished
from broker_impl.namesrv import route_table
from rmq_wire.bodies import registration
from rmq_wire.bodies.registration import RegisterBrokerBody, read_register_body, reading_register_body, write_compressed
from rmq_wire.bodies.route import TopicRouteData
from rmq_wire.bodies.topics import TopicConfig, TopicConfigTable
from rmq_wire.errors import BadBody
from tests.support.engine_session import EngineSession
from tests.support.exchange import broker, framed, register_body, topic
from tests.support.lines import lines_of

MANY = 5_000


@pytest.fixture
def session(tmp_path: Path) -> EngineSession:
    return EngineSession(str(tmp_path))


def large(count: int, **spelling: Any) -> bytes:
    """A registration as strict JSON, with what makes boundaries hard to find."""
    rows = {
        f"t{number}": {
            "attributes": {'a}"': '{"\\'} if number % 3 else {},
            "perm": 6,
            "readQueueNums": number,
            "topicName": f"t{number}" if number % 5 else None,
        }
        for number in range(count)
    }
    mappings = {"static": {"topic": "static", "bname": "b", "currIdMap": {"0": 1}}}
    table = {"dataVersion": {"counter": 3}, "topicConfigTable": rows, "topicQueueMappingInfoMap": mappings}
    return json.dumps({"filterServerList": ["f:1"], "topicConfigSerializeWrapper": table, "later": [1]}, **spelling).encode()


@pytest.mark.parametrize("spelling", [{}, {"separators": (",", ":")}, {"indent": 1}, {"ensure_ascii": False}])
def test_a_large_registration_is_read_as_a_whole_one(spelling: dict[str, Any]) -> None:
    body = large(1_500, **spelling)
    assert len(body) > registration.PIECE_BYTES_MAX
    assert read_register_body(body, compressed=False, version=513) == RegisterBrokerBody.read(body)
    table_alone = json.dumps(json.loads(body)["topicConfigSerializeWrapper"], **spelling).encode()
    alone = read_register_body(table_alone, compressed=False, version=30).topic_config_serialize_wrapper
    assert alone == TopicConfigTable.read(table_alone)


def test_an_empty_table_in_a_large_body() -> None:
    body = large(0) + b" " * registration.PIECE_BYTES_MAX
    assert read_register_body(body, compressed=False, version=513) == RegisterBrokerBody.read(body)


def slices_of(body: bytes, *, compressed: bool = False) -> list[int]:
    """Lines of Python of each slice."""
    reading = reading_register_body(body, compressed=compressed, version=513)
    found = []
    while True:
        found.append(lines_of(lambda: next(reading, None)))
        if reading.gi_frame is None:
            return found


def test_reading_a_registration_is_cut_whatever_its_size() -> None:
    config = TopicConfigTable(topic_config_table={f"t{number}": TopicConfig(topic_name=f"t{number}") for number in range(MANY)})
    packed = write_compressed(RegisterBrokerBody(topic_config_serialize_wrapper=config))
    for body, compressed in ((large(MANY), False), (packed, True)):
        slices = slices_of(body, compressed=compressed)
        assert len(slices) >= MANY // registration.TOPICS_PER_SLICE
        assert max(slices) < 200 * registration.TOPICS_PER_SLICE


def stream(count: int, topics: int, first: bytes = b"{}") -> bytes:
    piece = b"a%d 1 1 6 SINGLE_TAG"
    rows = b"".join(struct.pack(">i", len(piece % n)) + piece % n for n in range(topics))
    return zlib.compress(struct.pack(">i", len(first)) + first + struct.pack(">i", count) + rows)


@pytest.mark.parametrize(
    ("body", "compressed", "why"),
    [
        pytest.param(stream(2**31 - 1, 3_000), True, "more than 1000 topics", id="stream"),
        pytest.param(large(1_200), False, "more than 1000 topics", id="json"),
        pytest.param(stream(1, 1, b" " * 70_000 + b"{}"), True, "a piece of 70002 bytes", id="piece"),
        pytest.param(large(1_200).replace(b'"later"', b"'later'"), False, "cannot be read in parts", id="odd"),
        pytest.param(large(900).replace(b'"perm": 6', b'"x": [{}, {"y": {}}]'), False, "cannot be read in parts", id="nested"),
        pytest.param(large(900).replace(b'"f:1"', b'"%b"' % (b"f" * 100_000)), False, "beside its topics", id="filters"),
    ],
)
def test_what_is_not_cut_has_a_limit(monkeypatch: pytest.MonkeyPatch, body: bytes, compressed: bool, why: str) -> None:
    monkeypatch.setattr(registration, "TOPICS_MAX", 1_000)
    monkeypatch.setattr(registration, "ODD_BYTES_MAX", 90_000)
    with pytest.raises(BadBody, match=why):
        read_register_body(body, compressed=compressed, version=513)


def registration_frame(opaque: int, count: int = MANY, **ext: Any) -> bytes:
    body = register_body(*(topic(f"t{number}") for number in range(count)))
    return framed(103, broker(**ext), body, opaque)


def test_a_good_bye_behind_a_registration_comes_after_it(session: EngineSession) -> None:
    client = session.client("a")
    client.raw(registration_frame(1) + framed(104, broker(), b"", 2))
    assert {number: said.code for number, said in client.answers.items()} == {1: 0, 2: 0}
    assert not session.server.table.live
    assert not session.server.table.topics


@pytest.mark.parametrize("slices", [1, 60, 80, 90])
def test_a_connection_that_closes_in_the_middle_of_its_registration_leaves_nothing(session: EngineSession, slices: int) -> None:
    client = session.client("a")
    session.driver.turn((client, registration_frame(1)))
    for _ in range(slices):
        session.driver.turn()
    assert not client.answers
    session.close("a")
    assert not session.server.table.live
    assert not session.server.table.topics


def test_others_are_served_between_the_slices_of_a_registration(session: EngineSession) -> None:
    unknown, other = session.client("unknown"), session.client("other")
    session.driver.turn((unknown, registration_frame(1)))
    session.driver.turn((other, framed(206, {}, b"", 1)))
    assert other.answers[1].code == 0
    assert not unknown.answers
    assert unknown.peer.congested, "its next request waits"
    session.driver.run()
    assert unknown.answers[1].code == 0
    assert not unknown.peer.congested
    assert len(session.server.table.topics) == MANY


def test_brokers_and_topics_have_limits(session: EngineSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(route_table, "BROKERS_MAX", 3)
    monkeypatch.setattr(route_table, "ROWS_PER_LINK_MAX", 10)

    def register(name: str, port: int, count: int, who: str, first: int = 0) -> int:
        body = register_body(*(topic(f"t{number}") for number in range(first, first + count)))
        return session.ask(103, broker(name, port=port), body, who=who).code

    assert register("a", 1, 6, "one") == 0
    assert register("a", 1, 6, "one") == 0, "the same topics again"
    assert register("b", 2, 5, "one") == 1, "eleven on one connection"
    assert register("b", 2, 4, "one") == 0
    assert register("c", 3, 10, "two") == 0
    assert register("d", 4, 2, "three") == 1, "a fourth broker"
    assert register("c", 3, 1, "two", first=10) == 1, "increments count, too"
    queues = [{"brokerName": "c", "perm": 6, "readQueueNums": 1, "writeQueueNums": 1}]
    assert session.ask(217, {"topic": "more"}, {"queueDatas": queues}).code == 0
    assert "more" not in session.server.table.topics
    session.close("one")
    assert register("d", 4, 2, "three") == 0


@pytest.mark.parametrize("version", [513, 399])
def test_a_route_over_many_brokers_is_spelled_as_a_short_one(session: EngineSession, version: int) -> None:
    count = 4 * ROWS_PER_SLICE
    for number in range(count):
        session.ask(103, broker(f"b{number}", port=number + 1), register_body(topic("T"), topic("U")), who=f"b{number}")
    client = session.client("tool")
    session.driver.turn((client, framed(105, {"topic": "T"}, b"", 9, version=version)))
    assert not client.answers, "in slices"
    session.driver.run()
    route = session.server.route_answers.route("T", "127.0.0.1")
    assert route is not None
    assert len(route.broker_datas) == count
    expected = route.encode() if version == 513 else route.encode_fastjson()
    assert bytes(client.answers[9].body) == expected
    assert len(TopicRouteData.read(expected).queue_datas) == count


def test_brokers_that_go_while_a_route_is_made_are_left_out(session: EngineSession) -> None:
    for number in range(4 * ROWS_PER_SLICE):
        session.ask(103, broker(f"b{number}", port=number + 1), register_body(topic("T"), topic("U")), who=f"b{number}")
    making = session.server.route_answers.finding_route("T")
    next(making)
    session.close("b7")
    route = finished(making)
    assert route is not None
    assert "b7" not in {queues.broker_name for queues in route.queue_datas} | {data.broker_name for data in route.broker_datas}
    assert len(route.queue_datas) == len(route.broker_datas) == 4 * ROWS_PER_SLICE - 1
