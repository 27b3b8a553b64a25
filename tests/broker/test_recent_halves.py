"""Half messages that are kept for their ends: that nothing else changes by it, and what is never kept."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker_impl import recent_halves
from broker_impl.recent_halves import OVERHEAD_BYTES, RecentHalf, RecentHalves
from rmq_store.log.draft import Draft
from rmq_wire.codes import ResponseCode
from rmq_wire.sys_flag import TRANSACTION_COMMIT, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from tests.support.engine import Harness, failing_commits
from tests.support.requests import pairs, props, send
from tests.support.transactions import HALF, UNIQUE, bodies, end, ending, half, learn_at_once


@pytest.fixture
def harness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Harness:
    learn_at_once(monkeypatch)
    return Harness(tmp_path).begun()


def recent(harness: Harness) -> RecentHalves:
    return harness.node.halves.recent


IMMUNE = "CHECK_IMMUNITY_TIME_IN_SECONDS"
NAMES = st.sampled_from(["KEYS", "TAGS", "WAIT", "POP_CK", "CLUSTER", "__transactionId__", "REAL_QID", IMMUNE, "a", "b%s", "é"])
SENT = st.dictionaries(NAMES, st.text("xy %é{}", min_size=1, max_size=6), max_size=8)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(SENT, st.permutations(["TRAN_MSG", "PGROUP", "UNIQ_KEY"]), st.integers(0, 3), st.sampled_from([b"x", b"longer " * 99]))
def test_both_ways_store_the_same(harness: Harness, sent: dict[str, str], own: list[str], queue_id: int, body: bytes) -> None:
    given = {"TRAN_MSG": "true", "PGROUP": "P", "UNIQ_KEY": UNIQUE.format(1)}
    values = {**{name: given[name] for name in own}, **sent}
    client = harness.connect()
    request = send(queue_id=queue_id, properties=pairs(**values), sys_flag=TRANSACTION_PREPARED | 1, flag=7)
    capability = harness.capability(310)
    units: list[list[Any]] = []
    for rules_first in (True, False):
        quick = capability._half_shapes
        if rules_first:
            capability._half_shapes = Never()
        assert client.ask(request, body).code == 0
        capability._half_shapes = quick
        stored = harness.stored(HALF)[-1]
        kept = recent(harness).find(stored.physical_offset)
        assert (kept is None) == (rules_first or IMMUNE in values or "REAL_QID" in values)
        assert end(harness, stored, TRANSACTION_COMMIT).code == 0
        assert recent(harness).find(stored.physical_offset) is None
        copy = harness.stored("T", queue_id)[-1]
        assert copy.prepared_transaction_offset == stored.physical_offset
        units.append([_but_place(stored), _but_place(copy)])
    assert units[0] == units[1]


class Never:
    """Shapes that know none."""

    def rewrite(self, text: str) -> None:
        return None


def _but_place(unit: Any) -> Any:
    return unit._replace(queue_offset=0, physical_offset=0, prepared_transaction_offset=0, born_host=b"", store_timestamp=0)


def test_found_by_both_kinds_of_keys(harness: Harness) -> None:
    unit = half(harness, TAGS="A", KEYS="k1 k2")
    end(harness, unit, TRANSACTION_COMMIT)
    for topic in (HALF, "T"):
        for key in ("k1", "k2", UNIQUE.format(0)):
            assert len(harness.node.store.query(topic, key, 32, 0, 1 << 62).units) == 1


def test_the_log_is_not_read(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    units = [half(harness, number) for number in range(2)]
    monkeypatch.setattr(type(harness.node.store), "lookup_message", lambda *_: pytest.fail("it was read"))
    for unit, how in zip(units, (TRANSACTION_COMMIT, TRANSACTION_ROLLBACK), strict=True):
        assert end(harness, unit, how).code == 0
    assert recent(harness).size == 0


def test_one_that_was_not_written_is_not_known(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    unit = half(harness)
    end(harness, unit, TRANSACTION_ROLLBACK)
    broken = failing_commits(harness, monkeypatch)
    given = pairs(TRAN_MSG="true", PGROUP="P", UNIQ_KEY=UNIQUE.format(1))
    request = send(queue_id=1, properties=given, sys_flag=TRANSACTION_PREPARED)
    assert harness.connect().ask(request, b"lost").code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert recent(harness).size == 0
    assert harness.node.transaction_metrics.counts["T"][0] == 0
    broken.clear()
    assert end(harness, half(harness, 2, body=b"kept"), TRANSACTION_COMMIT).code == 0
    assert bodies(harness.stored("T", 1)) == [b"kept"]


def test_an_end_that_was_not_written_may_come_again(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    unit = half(harness)
    broken = failing_commits(harness, monkeypatch)
    assert end(harness, unit, TRANSACTION_COMMIT).code == ResponseCode.SERVICE_NOT_AVAILABLE
    broken.clear()
    assert end(harness, unit, TRANSACTION_COMMIT).code == 0
    assert end(harness, unit, TRANSACTION_COMMIT).code == 1
    assert bodies(harness.stored("T", 1)) == [b"half"]


def test_a_bug_in_a_late_end_is_reported(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One that had to wait for the log: its asker gets an answer, the log a line, and what it had staged is gone."""
    unit = half(harness, CHECK_IMMUNITY_TIME_IN_SECONDS="10")
    capability = harness.capability(37)
    harness.node.halves.loaded = False
    monkeypatch.setattr(harness.node.halves, "end", lambda *_: 1 / 0)
    client = harness.connect()
    opaque = client.send(ending(unit, TRANSACTION_COMMIT))
    assert client.answers == {}
    with caplog.at_level(logging.ERROR):
        harness.node.halves._load_ended(None, None)
        harness.driver.run()
    assert client.answers[opaque].code == ResponseCode.SYSTEM_ERROR
    assert "ZeroDivisionError" in (client.answers[opaque].remark or "")
    assert any(capability.__class__.__name__ in line and "division by zero" in line for line in caplog.messages)
    assert harness.stored("T", 1) == []


def test_of_the_oldest_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_halves, "BYTES_MAX", 3 * (OVERHEAD_BYTES + 100))
    subject = RecentHalves()
    for number in range(5):
        subject.keep(number, made(100))
    subject.keep(9, made(recent_halves.BYTES_OF_ONE_MAX + 1))
    assert [number for number in range(10) if subject.find(number)] == [2, 3, 4]
    subject.take(3)
    subject.keep(5, made(100))
    assert subject.size == recent_halves.BYTES_MAX
    for number in (2, 4, 5):
        subject.take(number)
    assert subject.size == 0


def test_one_of_the_largest_size_is_kept() -> None:
    subject = RecentHalves()
    for size in (recent_halves.BYTES_OF_ONE_MAX, recent_halves.BYTES_OF_ONE_MAX + 1):
        subject.keep(size, made(size))
    assert subject.find(recent_halves.BYTES_OF_ONE_MAX) is not None
    assert subject.find(recent_halves.BYTES_OF_ONE_MAX + 1) is None


def made(size: int) -> RecentHalf:
    return RecentHalf(Draft(HALF, 0, b"", b"", 0, b"", b""), "T", 0, "P", 0, size)


def test_one_whose_place_is_forged_is_not_ended(harness: Harness) -> None:
    unit = half(harness)
    for change in ({"producer_group": "Q"}, {"tran_state_table_offset": 1}, {"commit_log_offset": unit.physical_offset + 1}):
        assert end(harness, unit, TRANSACTION_COMMIT, **change).code == 1
    assert recent(harness).find(unit.physical_offset) is not None
    assert end(harness, unit, TRANSACTION_COMMIT).code == 0
    assert props(harness.stored("T", 1)[0])["PGROUP"] == "P"
