"""What ordered pops have handed out, as the inspector says it of the file that the real 5.5.0 wrote (`tests/broker/golden`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmq_inspect.decode.directory import list_store
from rmq_inspect.explain.ordered import OrderedPops
from rmq_inspect.explain.outlook import Kind, Outlooks, State
from rmq_inspect.explain.stats import collect
from rmq_store.disk.disk import RealDisk
from rmq_wire.bodies.order_info import OrderInfo
from rmq_wire.implied.pop_order import is_acked, offsets_of, open_until
from tests.support.command import look
from tests.support.golden import GOLDEN
from tests.support.store_rig import Rig, draft, small
from tests.support.stores import golden_of, units_of

WRITTEN = Path(__file__).parent.parent / "broker" / "golden" / "consumerOrderInfo.json"
POPPED = 1795537708949
"""Of `Orders@g1`, queue 0."""


def put(store: Path, data: bytes, name: str = "consumerOrderInfo.json") -> None:
    (store / "config").mkdir(exist_ok=True)
    (store / "config" / name).write_bytes(data)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Five messages of each of two queues, and the file of the real broker."""
    root = tmp_path / "store"
    rig = Rig(RealDisk(), small(store_path_root_dir=str(root)))
    for number in range(10):
        rig.put(draft(number, topic="Orders", queue_id=number % 2))
    rig.sync()
    assert rig.store.close(rig.wall_ms)
    put(root, WRITTEN.read_bytes())
    return root


def said(store: Path) -> dict[tuple[int, int], list[Any]]:
    """(queue, offset) -> [due, text] of what is in flight."""
    outlooks = Outlooks(list_store(store))
    found = {}
    for unit in units_of(store):
        outlook = outlooks.of(unit.message)
        if outlook is not None:
            assert (outlook.kind, outlook.state, outlook.topic) == (Kind.IN_FLIGHT, State.WAITING, "Orders")
            assert outlook.queue_id == unit.message.queue_id, "it comes again from its own queue"
            found[unit.message.queue_id, unit.message.queue_offset] = [outlook.due_ms, outlook.says]
    outlooks.close()
    return found


def test_messages_that_somebody_has(store: Path) -> None:
    """Of four one is acknowledged, one comes at a time of its own; two groups have the second of the other queue."""
    found = said(store)
    dues = {place: due for place, (due, _) in found.items()}
    other, third = 1795537708961 + 60_000, 1795537709066 + 70_000
    assert dues == {
        (0, 0): 1795537799955,
        (0, 2): POPPED + 60_000,
        (0, 3): POPPED + 60_000,
        (1, 0): third,
        (1, 1): other,
        (1, 2): third,
    }
    assert found[0, 0][1].startswith("group g1 popped it in order at ")
    assert "(attempt at-3), having had it once before: unless it is acknowledged, handed out again from " in found[0, 0][1]
    assert "having had it" not in found[0, 3][1]
    assert found[1, 1][1].count("popped it in order") == 2


def test_all_batches(store: Path) -> None:
    counted = collect(list_store(store)).as_json()
    assert counted["orderedPopsUnread"] is None
    assert counted["stillToCome"]["in flight"]["messages"] == 6
    batches = {(one["topic"], one["group"], one["queueId"]): one for one in counted["orderedPops"]}
    assert list(batches) == [
        ("Orders2", "g1", 0),
        ("Orders2", "g2", 0),
        ("Orders", "g1", 0),
        ("Orders", "g1", 1),
        ("Orders", "g2", 1),
    ]
    one = batches["Orders", "g1", 0]
    assert (one["popTimestamp"], one["freeTimestamp"], one["attemptId"]) == (POPPED, 1795537799955, "at-3")
    assert one["messages"] == [
        {"queueOffset": 0, "acked": False, "visibleTimestamp": 1795537799955, "consumedTimes": 1},
        {"queueOffset": 1, "acked": True, "visibleTimestamp": None, "consumedTimes": 1},
        {"queueOffset": 2, "acked": False, "visibleTimestamp": POPPED + 60_000, "consumedTimes": 1},
        {"queueOffset": 3, "acked": False, "visibleTimestamp": POPPED + 60_000, "consumedTimes": 0},
    ]


def test_as_a_table(store: Path) -> None:
    lines = look("stats", store).out.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("ordered pops, topic@group"))
    rows = [line.split() for line in lines[at + 1 : at + 6]]
    assert [row[0] for row in rows] == ["Orders2@g1", "Orders2@g2", "Orders@g1", "Orders@g1", "Orders@g2"]
    assert rows[2][1:6] == ["0", "0", "to", "3", "1"]
    assert rows[2][-1] == "at-3"
    assert lines[at + 6] == ""
    assert all(len(line) <= 120 for line in lines)


@pytest.mark.parametrize(
    "data",
    [b"{", b"[]", b"", b'{"table":{"T@G":{"0":{"o":"x"}}}}', b'{"table":7}'],
    ids=["torn", "list", "empty", "text", "number"],
)
def test_a_broken_file_is_one_line(store: Path, data: bytes) -> None:
    put(store, data)
    lines = [line for line in look("stats", store).out.splitlines() if "ordered pops" in line]
    assert len(lines) == 1
    assert lines[0].startswith("ordered pops: config/consumerOrderInfo.json: ")
    assert said(store) == {}
    put(store, WRITTEN.read_bytes(), "consumerOrderInfo.json.bak")
    ordered = OrderedPops(list_store(store))
    assert len(ordered.batches) == 5, "a broker that starts takes the backup"
    assert ordered.unread is not None


@pytest.mark.parametrize("kind", ["pop", "mix"])
def test_stores_of_java_without_a_batch(tmp_path: Path, kind: str) -> None:
    assert json.loads((GOLDEN / f"store-5.5.0-{kind}" / "config" / "consumerOrderInfo.json").read_text())["table"] == {}
    store = golden_of(kind, tmp_path / kind)
    ordered = OrderedPops(list_store(store))
    assert (ordered.batches, ordered.unread) == ([], None)
    assert "ordered pops" not in look("stats", store).out


def test_a_file_of_its_own_says_nothing() -> None:
    assert OrderedPops(None).batches == []


@given(
    st.integers(0, 1 << 40),
    st.lists(st.integers(1, 90), unique=True, max_size=31),
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.dictionaries(st.integers(0, 31), st.integers(0, 1 << 45)),
)
def test_what_is_open_and_until_when(first: int, distances: list[int], acked: int, visible: dict[int, int]) -> None:
    offsets = [first, *(first + distance for distance in sorted(distances))]
    times = {offsets[at]: until for at, until in visible.items() if at < len(offsets)}
    info = OrderInfo(pop_time=50, invisible_time=7, offsets=[first, *sorted(distances)], acked=acked, visible=times)
    assert offsets_of(info) == offsets
    expected = {offset: times.get(offset, 57) for at, offset in enumerate(offsets) if not acked >> at & 1}
    assert dict(open_until(info)) == expected
    assert [at for at in range(len(offsets)) if not is_acked(info, at)] == [offsets.index(offset) for offset in expected]
