"""Job `latency`: classes, percentiles, late messages, traced consumption, against plain Python and what Java's listeners saw."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from planted_stores.generate import Made, Wanted, generate
from planted_stores.plan import Sizes
from rmq_columns import read_store
from rmq_columns.read.traces import UNREADABLE, parse_trace
from rmq_spark.jobs import latency as job
from rmq_wire.layout.message import FIXED
from tests.spark.kit import outcome_of
from tests.support.golden import GOLDEN
from tests.support.stores import golden_of, spoil

SIZES = Sizes(1 << 20, 4000, 100, 400)
COLUMNS = "topic,queueId,bornTimestamp,storeTimestamp,properties,sysFlag,physicalOffset,queueOffset,uniqKey"
LATE, AHEAD_MS = 3, 2500
LIMIT = "100ms"
"""Plain messages of the generator take less than 8 ms, its late ones more than 1 s."""


def made(tmp_path: Path, **faults: int) -> Made:
    return generate(tmp_path / "made", Wanted(3 << 20, 300, faults=faults, sizes=SIZES, with_index=False, with_sent=False))


def class_of(row: dict[str, Any]) -> str:
    names = dict(row["properties"])
    if row["topic"].startswith("%DLQ%"):
        return "dead"
    if row["topic"].startswith("%RETRY%"):
        return "retried"
    if "TIMER_OUT_MS" in names:
        return "timed"
    if int(names.get("DELAY", "0")) > 0:
        return "delayed"
    return "committed" if row["sysFlag"] & 8 else "plain"


def latencies(store: Path) -> dict[tuple[str, int, str], list[int]]:
    found: dict[tuple[str, int, str], list[int]] = defaultdict(list)
    for row in read_store(str(store), columns=COLUMNS).read_all().to_pylist():
        ms = round((row["storeTimestamp"] - row["bornTimestamp"]).total_seconds() * 1000)
        found[row["topic"], row["queueId"], class_of(row)].append(ms)
    return found


def assert_agrees(frame: Any, store: Path) -> None:
    expected = latencies(store)
    rows = {(row["topic"], row["queueId"], row["class"]): row for row in frame.collect()}
    assert rows.keys() == expected.keys()
    for key, values in expected.items():
        row, there = rows[key], [one for one in values if one >= 0]
        assert row["messages"] == len(values)
        assert row["clockSkew"] == len(values) - len(there)
        assert (row["minMs"], row["maxMs"]) == (min(there), max(there))
        for name, percent in (("p50", 50), ("p99", 99), ("p99_9", 99.9)):
            assert row[name] == pytest.approx(float(np.percentile(there, percent))), (key, name)


@pytest.mark.parametrize("kind", ["mix", "trace"])
def test_java_store(spark: Any, tmp_path: Path, kind: str) -> None:
    store = golden_of(kind, tmp_path)
    assert_agrees(job.latency(spark, store), store)


def test_generated(spark: Any, tmp_path: Path) -> None:
    store = made(tmp_path, late=LATE).store
    assert_agrees(job.latency(spark, store), store)


def test_approximation_is_bounded(spark: Any, tmp_path: Path) -> None:
    store = made(tmp_path, late=LATE).store
    exact = {tuple(row[name] for name in job.KEY): row for row in job.latency(spark, store).collect()}
    near = {tuple(row[name] for name in job.KEY): row for row in job.latency(spark, store, approximate="yes").collect()}
    assert exact.keys() == near.keys()
    for key, row in near.items():
        for name in ("p50", "p99", "maxMs"):
            assert exact[key][name] * (1 - 1 / 128) <= row[name] <= exact[key][name]
    assert any(row["maxMs"] != exact[key]["maxMs"] for key, row in near.items())


def test_late_messages_are_the_findings(spark: Any, tmp_path: Path) -> None:
    planted = made(tmp_path, late=LATE, **{"duplicate": 1, "corrupt-size": 1})
    outcome = outcome_of(spark, "latency", planted.store, max_latency=LIMIT)
    reported = {one.physicalOffset for one in planted.planted.faults if one.kind == "late"}
    [table] = [one for one in outcome.tables if one.is_finding]
    at = [column.name for column in table.columns].index("physicalOffset")
    assert len(reported) == LATE
    assert not outcome.is_clean
    assert {row[at] for row in table.rows} == reported
    assert table.total == LATE
    assert {row["physicalOffset"] for row in outcome.frames["worst"].collect()} == reported
    assert any("no message that can be read" in note for note in outcome.notes)


def test_clean_store_is_clean(spark: Any, tmp_path: Path) -> None:
    outcome = outcome_of(spark, "latency", made(tmp_path).store, max_latency=LIMIT)
    assert outcome.is_clean
    assert outcome.as_json()["figures"]["clockSkew"] == 0
    assert not any(table.is_finding for table in outcome.tables)
    assert any("no message trace" in note for note in outcome.notes)


def test_clock_that_is_ahead(spark: Any, tmp_path: Path) -> None:
    store = made(tmp_path).store
    rows = read_store(str(store), columns=f"{COLUMNS},bornHost").read_all().to_pylist()
    row = next(one for one in rows if class_of(one) == "plain" and not one["sysFlag"])
    ahead = round(row["storeTimestamp"].timestamp() * 1000) + AHEAD_MS
    log = sorted((store / "commitlog").iterdir())[0]
    spoil(log, row["physicalOffset"] + FIXED[0].at["born_timestamp"], ahead.to_bytes(8, "big"))
    assert_agrees(job.latency(spark, store), store)
    outcome = outcome_of(spark, "latency", store)
    [table] = [one for one in outcome.tables if one.name == "clockSkew"]
    assert table.rows == [(row["bornHost"].rpartition(":")[0], 1, AHEAD_MS)]
    assert outcome.as_json()["figures"]["clockSkew"] == 1


def test_consumption_as_the_listener_saw_it(spark: Any, tmp_path: Path) -> None:
    store = golden_of("trace", tmp_path)
    reported = json.loads((GOLDEN / "store-5.5.0-trace" / "told.json").read_text())
    found = [row for row in job.consumption_times(spark, store).collect() if row["group"] == "GID_traced"]
    key = Counter((one["msg_id"], one["reconsume_times"]) for one in reported)
    assert Counter((row["msgId"], row["retryTimes"]) for row in found) == key
    by_key = {(one["msg_id"], one["reconsume_times"]): one for one in reported}
    checked = 0
    for row in found:
        one = by_key[row["msgId"], row["retryTimes"]]
        assert row["topic"] == one["topic"]
        assert row["state"] == ("ok" if row["retryTimes"] else "failed")  # the listener fails each message once
        if key[row["msgId"], row["retryTimes"]] > 1:
            continue  # committed twice, under one key: which copy it was nobody can tell
        checked += 1
        assert round(row["storeTimestamp"].timestamp() * 1000) == one["store_ms"]
        assert abs(row["waitMs"] - (int(one["properties"]["CONSUME_START_TIME"]) - one["store_ms"])) <= 5
    assert checked > len(reported) // 2


def test_groups_of_the_trace(spark: Any, tmp_path: Path) -> None:
    store = golden_of("trace", tmp_path)
    outcome = outcome_of(spark, "latency", store)
    [table] = [one for one in outcome.tables if one.name == "consumption"]
    names = [column.name for column in table.columns]
    rows = {row[0]: dict(zip(names, row, strict=True)) for row in table.rows}
    assert rows["GID_traced_strict"]["successRate"] == 0
    assert rows["GID_traced"]["successRate"] == 0.5
    assert rows["GID_traced"]["deliveries"] == 20
    assert rows["GID_traced"]["topic"] == "traced"


def test_topics_choose_consumption_too(spark: Any, tmp_path: Path) -> None:
    store = golden_of("trace", tmp_path)
    assert job.consumption_times(spark, store, topics="other").count() == 0
    assert job.consumption_times(spark, store, topics="traced").count() == 22


def test_trace_records_of_java(tmp_path: Path) -> None:
    store = golden_of("trace", tmp_path)
    bodies = [row["body"] for row in read_store(str(store), topics="RMQ_SYS_TRACE_TOPIC").read_all().to_pylist()]
    records = [record for body in bodies for record in parse_trace(body)]
    assert Counter(one["traceType"] for one in records) == Counter(
        part.split(b"\x01")[0].decode() for body in bodies for part in body.split(b"\x02") if part
    )
    sent = next(one for one in records if one["traceType"] == "Pub" and one["keys"] == "late")
    assert (sent["topic"], sent["msgType"], sent["success"], sent["bodyLength"]) == ("traced", "Delay_Msg", True, 7)
    begun = {(one["requestId"], one["msgId"]) for one in records if one["traceType"] == "SubBefore"}
    assert {(one["requestId"], one["msgId"]) for one in records if one["traceType"] == "SubAfter"} == begun
    ended = [one for one in records if one["traceType"] == "EndTransaction"]
    assert {one["transactionState"] for one in ended} == {"COMMIT_MESSAGE", "ROLLBACK_MESSAGE"}


def test_trace_records_of_other_clients() -> None:
    old = "\x01".join(("Pub", "1000", "null", "g", "t", "id", "null", "", "h", "2", "3", "0", "true"))
    short = "\x01".join(("SubAfter", "r", "id", "7", "false", "k"))
    wrong = "\x01".join(("SubBefore", "when", "null", "g", "r", "id", "0", "k"))
    found = list(parse_trace(f"{old}\x02{short}\x02{wrong}\x02Pub\x01\x02What\x02".encode() + b"\xff\x02"))
    assert [one["traceType"] for one in found] == ["Pub", "SubAfter", *[UNREADABLE] * 4]
    assert (found[0]["success"], found[0].get("offsetMsgId"), found[0].get("regionId")) == (True, None, None)
    assert (found[1]["costTime"], found[1]["success"], found[1].get("contextCode")) == (7, False, None)
