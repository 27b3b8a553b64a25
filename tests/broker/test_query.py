"""Looking messages up: by key, by place, by time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from broker_impl.engine.shares import FOUND_MAX
from rmq_store.errors import Cold
from rmq_wire.headers.positions import GetEarliestMsgStoretime, GetMaxOffset, GetMinOffset, SearchOffset
from rmq_wire.headers.query import QueryMessage, ViewMessage
from rmq_wire.message import pack_unit
from tests.support.engine import Harness
from tests.support.requests import WALL_MS, pairs, said, send, units


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    harness = Harness(tmp_path)
    harness.topic("T")
    client = harness.connect()
    for number in range(3):
        client.ask(send(properties=pairs(UNIQ_KEY=f"U{number}", KEYS=f"k{number} shared", TAGS="A")), str(number).encode())
        harness.driver.advance(10_000)
    return harness


def query(key: str, **more: Any) -> QueryMessage:
    header: dict[str, Any] = {"topic": "T", "key": key, "max_num": 32, "begin_timestamp": 0, "end_timestamp": 1 << 62}
    return QueryMessage(**{**header, **more})


def bodies(harness: Harness, asked: Any, **options: Any) -> list[str]:
    answer = harness.connect().ask(asked, **options)
    assert answer.code == 0, answer.remark
    return [bytes(unit.body).decode() for unit in units(answer.body)]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (query("shared"), ["0", "1", "2"]),
        (query("k1"), ["1"]),
        (query("U2"), ["2"]),
        (query("U2", index_type="U"), ["2"]),
        (query("A", index_type="T"), ["0", "1", "2"]),
        (query("shared", max_num=1), ["2"]),
        (query("shared", index_type="?"), ["0", "1", "2"]),
        (query("U1", max_num=0, unique_key_query=True), ["1"]),
        (query("shared", end_timestamp=WALL_MS + 5_000), ["0"]),
    ],
)
def test_by_key(harness: Harness, asked: QueryMessage, expected: list[str]) -> None:
    assert bodies(harness, asked) == expected


def test_what_the_answer_says_of_the_index(harness: Harness) -> None:
    last = harness.stored("T", 0)[-1]
    expected = {"indexLastUpdateTimestamp": str(last.store_timestamp), "indexLastUpdatePhyoffset": str(last.physical_offset)}
    client = harness.connect()
    assert said(client.ask(query("k0"))) == (0, None, expected)
    assert said(client.ask(query("nothing"))) == (22, "can not find message, maybe time range not correct", expected)
    assert client.ask(query("k0", topic="Other")).code == 22
    assert client.ask(query("A")).code == 22  # tags are asked for as tags


def test_by_place(harness: Harness) -> None:
    unit = harness.stored("T", 0)[1]
    assert bodies(harness, ViewMessage(offset=unit.physical_offset)) == ["1"]
    client = harness.connect()
    for offset in (unit.physical_offset + 1, -1, 1 << 40):
        assert said(client.ask(ViewMessage(offset=offset))) == (1, f"can not find message by the offset, {offset}", {})


def test_a_body_that_looks_like_a_message_is_none(harness: Harness) -> None:
    client = harness.connect()
    unit = harness.stored("T", 0)[0]
    at = harness.node.store.written_offset + 88
    client.ask(send(), pack_unit(0, 0, 0, at, 0, 0, unit.born_host, 0, unit.store_host, 0, 0, b"forged", b"T", b""))
    assert harness.node.store.lookup(at) is not None, "the test does not hit the place"
    assert client.ask(ViewMessage(offset=at)).code == 1


def test_cold_bytes(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, asked in {"query": query("k1"), "lookup": ViewMessage(offset=0), "offset_by_time": search(0)}.items():
        with monkeypatch.context() as patch:
            loads: list[int] = []
            patch.setattr(harness.node.store, name, warm_at_second(getattr(harness.node.store, name), loads))
            assert harness.connect().ask(asked).code == 0
            assert loads == [1]


def warm_at_second(real: Any, loads: list[int]) -> Any:
    cold = Cold(lambda: loads.append(1), "somewhere")

    def call(*arguments: Any, **more: Any) -> Any:
        if not loads:
            raise cold
        return real(*arguments, **more)

    return call


def search(timestamp: int, boundary: str | None = None, **more: Any) -> SearchOffset:
    return SearchOffset(**{"topic": "T", "queue_id": 0, "timestamp": timestamp, "boundary_type": boundary, **more})


@pytest.mark.parametrize(
    ("timestamp", "boundary", "offset"),
    [
        (WALL_MS - 1, None, 0),
        (WALL_MS, "LOWER", 0),
        (WALL_MS + 1, "lower", 1),
        (WALL_MS + 10_000, "UPPER", 1),
        (WALL_MS + 19_999, "upper", 1),
        (WALL_MS + 19_999, "nonsense", 2),
        (WALL_MS + 60_000, "LOWER", 3),
        (2**63 - 1, "UPPER", 2),
        (-(2**63), "UPPER", 0),
    ],
)
def test_by_time(harness: Harness, timestamp: int, boundary: str | None, offset: int) -> None:
    assert harness.connect().ask(search(timestamp, boundary)).ext_map() == {"offset": str(offset)}


def test_bounds(harness: Harness) -> None:
    client = harness.connect()
    assert client.ask(GetMaxOffset(topic="T", queue_id=0)).ext_map() == {"offset": "3"}
    assert client.ask(GetMinOffset(topic="T", queue_id=0)).ext_map() == {"offset": "0"}
    assert client.ask(GetEarliestMsgStoretime(topic="T", queue_id=0)).ext_map() == {"timestamp": str(WALL_MS)}


def test_asking_makes_no_queue(harness: Harness) -> None:
    client = harness.connect()
    for topic, queue in (("T", 3), ("None", 0), ("..", 0), ("T", -1), ("T", 2**31 - 1)):
        assert client.ask(GetMaxOffset(topic=topic, queue_id=queue)).ext_map() == {"offset": "0"}
        assert client.ask(GetMinOffset(topic=topic, queue_id=queue)).ext_map() == {"offset": "0"}
        assert client.ask(search(0, topic=topic, queue_id=queue)).ext_map() == {"offset": "0"}
        assert client.ask(GetEarliestMsgStoretime(topic=topic, queue_id=queue)).ext_map() == {"timestamp": "-1"}
    assert sorted(path.name for path in (harness.root / "consumequeue").iterdir()) == ["T"]
    assert [path.name for path in (harness.root / "consumequeue" / "T").iterdir()] == ["0"]


def test_queries_that_find_much_are_spread_over_turns_and_others_are_served_meanwhile(tmp_path: Path) -> None:
    """They were counted as requests only: 256 of them, with 64 messages each, kept everybody else waiting for 138 ms."""
    harness, found, asked = Harness(tmp_path), 64, 200
    harness.topic("T")
    greedy, modest = harness.connect(), harness.connect()
    for number in range(found):
        greedy.ask(send(properties=pairs(UNIQ_KEY=f"U{number}", KEYS="shared")), b"x")
    before = len(greedy.answers)
    once = greedy.frame(query("shared", max_num=found)), modest.frame(query("U1"))
    harness.driver.turn((greedy, once[0] + b"".join(greedy.frame(query("shared", max_num=found)) for _ in range(asked - 1))))
    assert len(greedy.answers) - before <= FOUND_MAX // found + 1
    harness.driver.turn((modest, modest.frame(GetMaxOffset(topic="T", queue_id=0))), (modest, once[1]))
    assert modest.answers
    assert len(greedy.answers) - before <= 4 * (FOUND_MAX // found + 1)
    harness.driver.run()
    assert len(greedy.answers) - before == asked
    assert all(len(units(answer.body)) == found for answer in list(greedy.answers.values())[before:])
