"""What is in flight by POP, in a store of the real broker: each message with its time, and the records that say so."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rmq_inspect.decode.directory import StoreDirectory, list_store
from rmq_inspect.explain.in_flight import InFlight
from rmq_inspect.explain.outlook import Kind, Outlook, Outlooks, State
from rmq_inspect.explain.stats import collect
from rmq_wire.bodies.pop import AckMsg, BatchAckMsg, PopCheckPoint
from rmq_wire.errors import BadBody
from rmq_wire.implied.pop import acked_offsets, is_same_point, open_offsets
from rmq_wire.message import StoredMessage
from rmq_wire.names import WHEEL_TIMER_TOPIC
from tests.support.golden import GOLDEN
from tests.support.stores import golden_of, units_of

TOPIC, RETRY = "popped", "%RETRY%GID_pop_popped"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return golden_of("pop", tmp_path / "pop")


def looked_at(root: Path) -> list[tuple[StoredMessage, Outlook]]:
    outlooks = Outlooks(list_store(root))
    found = [(unit.message, outlooks.of(unit.message)) for unit in units_of(root)]
    outlooks.close()
    return [(message, outlook) for message, outlook in found if outlook is not None]


def in_flight(root: Path) -> list[dict[str, Any]]:
    found = [
        {"topic": message.topic.decode(), "queueId": message.queue_id, "offset": message.queue_offset, "due": outlook.due_ms}
        for message, outlook in looked_at(root)
        if outlook.kind is Kind.IN_FLIGHT
    ]
    return sorted(found, key=lambda one: (one["topic"], one["queueId"], one["offset"]))


def drop(root: Path, name: str) -> None:
    for suffix in ("", ".bak"):
        (root / "config" / (name + suffix)).unlink(missing_ok=True)


def test_what_the_receipts_say(store: Path) -> None:
    """What was acknowledged alone or in a batch is not, and what was given more time has its new time."""
    assert in_flight(store) == json.loads((GOLDEN / "store-5.5.0-pop" / "told.json").read_text())


def test_what_is_said_of_them(store: Path) -> None:
    flown = [outlook for _, outlook in looked_at(store) if outlook.kind is Kind.IN_FLIGHT]
    assert {(outlook.topic, outlook.queue_id, outlook.state) for outlook in flown} == {(RETRY, 0, State.WAITING)}
    assert all(f"copied to {RETRY} [0] from " in outlook.says for outlook in flown)
    assert sum("by the default enableRetryTopicV2" in outlook.says for outlook in flown) == 4, "not of the retry topic itself"


def test_the_records_themselves(store: Path) -> None:
    """Two are done, in the timer's topic and in the revive topic; the others wait for their time."""
    records = [(message, outlook) for message, outlook in looked_at(store) if outlook.kind in (Kind.CHECK_POINT, Kind.ACK)]
    assert Counter(outlook.state for _, outlook in records if outlook.kind is Kind.CHECK_POINT) == {
        State.PASSED: 2,
        State.WAITING: 4,
    }
    acks = [outlook.says.partition(", popped")[0] for _, outlook in records if outlook.kind is Kind.ACK]
    assert sorted(acks) == sorted(["acknowledges 0"] * 2 + ["acknowledges 3"] * 2 + ["acknowledges 0, 2"])
    waiting = [outlook.says for message, outlook in records if message.topic.decode() == WHEEL_TIMER_TOPIC]
    assert any("not acknowledged: 2, 4;" in says for says in waiting)


def test_what_the_revive_group_has_not_read_is_in_flight(store: Path) -> None:
    before = in_flight(store)
    drop(store, "consumerOffset.json")
    more = [one for one in in_flight(store) if one not in before]
    assert [(one["topic"], one["queueId"], one["offset"]) for one in more] == [(TOPIC, 0, 1)]


def test_what_the_revive_group_has_just_not_read(store: Path) -> None:
    """Its position is the last record that is done with: the one behind it counts."""
    path = store / "config" / "consumerOffset.json"
    name = b'"rmq_sys_REVIVE_LOG_DefaultCluster@CID_RMQ_SYS_REVIVE_GROUP":{\n\t\t\t0:0'
    data = path.read_bytes()
    assert name in data
    path.write_bytes(data.replace(name, name[:-1] + b"-1"))
    assert (TOPIC, 0, 1) in [(one["topic"], one["queueId"], one["offset"]) for one in in_flight(store)]


def test_stats_count_them(store: Path) -> None:
    told = json.loads((GOLDEN / "store-5.5.0-pop" / "told.json").read_text())
    dues = [one["due"] for one in told]
    counted = collect(list_store(store)).as_json()["stillToCome"]
    assert counted["in flight"] == {"messages": len(told), "firstDue": min(dues), "lastDue": max(dues)}


def test_a_store_without_pop_has_none(tmp_path: Path) -> None:
    assert in_flight(golden_of("mix", tmp_path / "mix")) == []


@given(
    st.lists(st.integers(0, 60), unique=True, max_size=32), st.integers(-(1 << 31), (1 << 31) - 1), st.sets(st.integers(0, 70))
)
def test_what_is_open_is_neither_marked_nor_acknowledged(diffs: list[int], bits: int, acked: set[int]) -> None:
    point = PopCheckPoint(start_offset=100, bit_map=bits, num=len(diffs), diffs=sorted(diffs))
    acks = {100 + one for one in acked}
    expected = [100 + diff for at, diff in enumerate(sorted(diffs)) if not bits >> at & 1 and diff not in acked]
    assert open_offsets(point, acks) == expected


def test_a_check_point_that_names_too_few() -> None:
    with pytest.raises(BadBody):
        open_offsets(PopCheckPoint(num=3, diffs=[0, 1]), set())


def test_acknowledgements_of_one_and_of_several() -> None:
    assert acked_offsets(AckMsg(ack_offset=7)) == [7]
    assert acked_offsets(BatchAckMsg(ack_offset=-1, offsets=[1, 2])) == [1, 2]


class Two(NamedTuple):
    """Check points of one pop."""

    one: PopCheckPoint
    other: PopCheckPoint


def two(**changes: Any) -> Two:
    one = PopCheckPoint(5, 1_000, 60_000, 0, 2, 0, "T", "G", 0, [0, 1], "b")
    return Two(one, replace(one, **changes))


@pytest.mark.parametrize(
    "changes", [{"invisible_time": 90_000}, {"num": 1, "diffs": [0]}, {"diffs": [0, 3]}, {"re_put_times": "1"}, {"suspend": True}]
)
def test_two_check_points_of_one_name_are_both_in_flight(changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """As the broker counts them: each comes again, and an acknowledgement ends the message in both."""
    one, other = two(**changes)
    ack = AckMsg(5, 5, "G", "T", 0, 1_000, None)
    assert not is_same_point(one, other)
    monkeypatch.setattr("rmq_inspect.explain.in_flight._records", lambda *_: iter((one, other, ack)))
    found = InFlight(StoreDirectory(Path()), lambda *_: None, lambda _: False).flights
    expected = Counter(offset for point in (one, other) for offset in open_offsets(point, {5}))
    assert {place[2]: len(flights) for place, flights in found.items()} == expected


def test_a_check_point_that_is_there_twice_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the timer's topic and in the revive topic, or brought twice after a crash."""
    one, other = two(revive_offset=7, broker_name=None)
    assert is_same_point(one, other)
    monkeypatch.setattr("rmq_inspect.explain.in_flight._records", lambda *_: iter((one, other)))
    found = InFlight(StoreDirectory(Path()), lambda *_: None, lambda _: False).flights
    assert {place: len(flights) for place, flights in found.items()} == {("T", 0, 5): 1, ("T", 0, 6): 1}
