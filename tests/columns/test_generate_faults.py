"""Every planted fault is in the store, at the place that the ledger names, and nothing else is wrong.

What `rmq inspect verify` can see it must find, and only that; what no look for damage can see (a lost, doubled,
reordered, late message) is found here by reading every unit, so that the ledger is no mere claim.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pytest

from planted_stores.faults import KINDS
from planted_stores.pattern import DELAY_MS, SHARDED_TOPIC
from rmq_columns.checks.scope import Scope
from rmq_inspect.decode.directory import list_store
from rmq_inspect.verify.verify import verify
from rmq_wire import fastjson, properties
from tests.support.generated import BIG, VISIBLE, make
from tests.support.planted_kinds import PERHAPS
from tests.support.store_differ import read_files
from tests.support.store_view import Stored, units_of

EACH = 2
LATE_MS = 1000
"""A clean store has nothing that is stored, or delivered, so long after it could be."""
DELIVERED_MS_MAX = 200
"""What waits comes with the next round of the pattern, sooner than this after it is due."""

INVISIBLE = {
    *("lost", "duplicate", "duplicate-key", "reorder", "late", "half-open", "half-committed"),
    *("timer-late", "delay-pending", "timer-pending"),
}


def test_every_kind_is_in_one_table() -> None:
    assert VISIBLE.keys() | INVISIBLE == KINDS.keys()
    assert not VISIBLE.keys() & INVISIBLE


@pytest.mark.parametrize("kind", VISIBLE)
def test_verify_finds_it_where_the_ledger_says(tmp_path: Path, kind: str) -> None:
    count = 1 if kind == "torn-tail" else EACH
    store, ledger = make(tmp_path, {kind: count})
    assert [row["kind"] for row in ledger] == [kind] * count
    report = verify(list_store(store), Scope(workers=1))
    codes = {code for code, _ in report.findings.counts}
    assert VISIBLE[kind] <= codes <= VISIBLE[kind] | PERHAPS.get(kind, set())
    assert not report.is_clean
    for row in ledger:
        if kind.startswith("index-"):
            continue  # of which the ledger names the message
        if row["fileOffset"] < 0:
            assert any(found.file == row["file"] and str(row["queueOffset"]) in found.detail for found in report.findings.kept)
            continue
        near = (row["fileOffset"], row["fileOffset"] + 700)
        assert any(found.file == row["file"] and near[0] <= found.offset < near[1] for found in report.findings.kept), row


def read(store: Path) -> list[tuple[Stored, dict[str, str]]]:
    return [(one, properties.decode(one.unit.properties.decode())) for one in units_of(read_files(store, ("commitlog/",)))]


def doubled(units: list[tuple[Stored, dict[str, str]]], name: str) -> set[int]:
    """Where messages are that have the key of one before them in their topic."""
    places = defaultdict(list)
    for one, own in units:
        if name in own:
            places[one.topic, own[name]].append(one.unit.physical_offset)
    return {place for found in places.values() for place in found[1:]}


def late(units: list[tuple[Stored, dict[str, str]]]) -> set[int]:
    found = set()
    for one, own in units:
        is_own = not ("DELAY" in own or "TIMER_OUT_MS" in own or one.topic.startswith("%"))
        if is_own and one.unit.store_timestamp - one.unit.born_timestamp > LATE_MS:
            found.add(one.unit.physical_offset)
    return found


def delivered_late(units: list[tuple[Stored, dict[str, str]]]) -> set[int]:
    return {
        one.unit.physical_offset
        for one, own in units
        if one.topic == "payments" and "TIMER_OUT_MS" in own and one.unit.store_timestamp - int(own["TIMER_OUT_MS"]) > LATE_MS
    }


def undelivered(units: list[tuple[Stored, dict[str, str]]], topic: str) -> set[int]:
    """Where messages wait that were due before the last delivery to their topic, and have no copy there."""
    came, due = set(), {}
    last = 0
    for one, own in units:
        if own.get("REAL_TOPIC") == one.topic:
            came.add(own["UNIQ_KEY"])
            last = one.unit.store_timestamp
        elif one.topic == topic:
            due[own["UNIQ_KEY"]] = one.unit.physical_offset, one.unit.store_timestamp + DELAY_MS + DELIVERED_MS_MAX
    return {place for key, (place, until) in due.items() if key not in came and until < last}


def open_halves(units: list[tuple[Stored, dict[str, str]]]) -> dict[str, set[int]]:
    """Kind -> half messages of which no op speaks, but for the last ones."""
    halves = [one.unit for one, _ in units if one.topic == "RMQ_SYS_TRANS_HALF_TOPIC"][:-1]
    ended = {int(bytes(one.unit.body).rstrip(b",")) for one, _ in units if one.topic == "RMQ_SYS_TRANS_OP_HALF_TOPIC"}
    committed = {one.unit.prepared_transaction_offset for one, _ in units}
    found: dict[str, set[int]] = {"half-open": set(), "half-committed": set()}
    for unit in halves:
        if unit.queue_offset not in ended:
            found["half-committed" if unit.physical_offset in committed else "half-open"].add(unit.physical_offset)
    return found


def reordered(units: list[tuple[Stored, dict[str, str]]]) -> set[int]:
    """Sharded messages that stand before the one that should be before them."""
    following: dict[str, int] = defaultdict(int)
    found = set()
    for one, own in units:
        if one.topic == SHARDED_TOPIC:
            key = own["__SHARDINGKEY"]
            if int(own["sequence"]) > following[key]:
                found.add(one.unit.physical_offset)
            following[key] += 1
    return found


def test_the_ledger_names_every_wrong_message_and_no_other(tmp_path: Path) -> None:
    store, ledger = make(tmp_path, dict.fromkeys(INVISIBLE, 3), BIG)
    report = verify(list_store(store), Scope(workers=1))
    assert report.is_clean, report.findings.kept  # where only the meaning is wrong
    units = read(store)
    own: dict[str, set[int]] = defaultdict(set)
    for row in ledger:
        own[row["kind"]].add(row["physicalOffset"])
    assert doubled(units, "UNIQ_KEY") == own["duplicate"]
    assert doubled(units, "KEYS") == own["duplicate"] | own["duplicate-key"]
    assert late(units) == own["late"]
    assert delivered_late(units) == own["timer-late"]
    assert reordered(units) == own["reorder"]
    assert undelivered(units, "SCHEDULE_TOPIC_XXXX") == own["delay-pending"]
    assert undelivered(units, "rmq_sys_wheel_timer") == own["timer-pending"]
    assert open_halves(units) == {kind: own[kind] for kind in ("half-open", "half-committed")}
    positions = fastjson.loads((store / "config" / "consumerOffset.json").read_bytes())["offsetTable"]
    first = min(row["queueOffset"] for row in ledger if row["kind"].startswith("half-"))
    assert positions["RMQ_SYS_TRANS_HALF_TOPIC@CID_RMQ_SYS_TRANS"]["0"] == first
    stored = {properties.get("UNIQ_KEY") for _, properties in units}
    sent = [json.loads(line) for path in (tmp_path / "sent").iterdir() for line in path.read_text().splitlines()]
    lost = {row["uniqKey"] for row in ledger if row["kind"] == "lost"}
    assert {row["uniqKey"] for row in sent} - stored == lost
    assert len(lost) == 3
    keys = {one.unit.physical_offset: own.get("UNIQ_KEY") for one, own in units}
    assert all(keys[row["physicalOffset"]] == row["uniqKey"] for row in ledger if row["kind"] != "lost")


def test_a_clean_store_has_none_of_it(tmp_path: Path) -> None:
    store, ledger = make(tmp_path, {}, BIG)
    units = read(store)
    assert ledger == []
    assert not (doubled(units, "UNIQ_KEY") | doubled(units, "KEYS") | late(units) | delivered_late(units) | reordered(units))
    assert not (undelivered(units, "SCHEDULE_TOPIC_XXXX") | undelivered(units, "rmq_sys_wheel_timer"))
    assert not any(open_halves(units).values())


def test_all_kinds_at_once(tmp_path: Path) -> None:
    wanted = {kind: 1 if kind == "torn-tail" else 3 for kind in KINDS}
    store, ledger = make(tmp_path, wanted, BIG)
    assert {kind: sum(row["kind"] == kind for row in ledger) for kind in KINDS} == wanted
    report = verify(list_store(store), Scope(workers=1))
    expected = set().union(*VISIBLE.values()) - {"position-ahead"}  # of which nothing is said where the stop was not clean
    codes = {code for code, _ in report.findings.counts}
    assert expected <= codes <= expected | PERHAPS["queue-wrong"]
