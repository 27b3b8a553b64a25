"""Job `skew`: counts, max/mean, Gini and keys against plain Python."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from planted_stores.generate import Made, Wanted, generate
from planted_stores.plan import Sizes
from rmq_columns import read_store
from rmq_spark.jobs import skew as job
from rmq_spark.jobs.skew import gini, queue_counts, summed
from rmq_spark.measuring import source_of
from tests.spark.kit import outcome_of
from tests.support.stores import golden_of

SIZES = Sizes(1 << 20, 4000, 100, 400)
COLUMNS = "topic,queueId,keys,storeSize,bornHost,storeTimestamp"


def made(tmp_path: Path, **faults: int) -> Made:
    return generate(tmp_path / "made", Wanted(3 << 20, 300, faults=faults, sizes=SIZES, with_index=False, with_sent=False))


def rows_of(store: Path, **more: str) -> list[dict[str, Any]]:
    return read_store(str(store), columns=COLUMNS, **more).read_all().to_pylist()


def table_of(outcome: Any, name: str) -> list[dict[str, Any]]:
    [table] = [one for one in outcome.tables if one.name == name]
    return [dict(zip((column.name for column in table.columns), row, strict=True)) for row in table.rows]


def naive_gini(values: list[int]) -> float:
    """By its definition: the mean difference of all pairs, over twice the mean."""
    pairs = sum(abs(one - other) for one in values for other in values)
    return pairs / (2 * len(values) * sum(values))


@pytest.mark.parametrize("kind", ["generated", "mix"])
def test_queues(spark: Any, tmp_path: Path, kind: str) -> None:
    store = made(tmp_path).store if kind == "generated" else golden_of(kind, tmp_path)
    rows = rows_of(store)
    counts = Counter((row["topic"], row["queueId"]) for row in rows)
    topics = Counter(row["topic"] for row in rows)
    found = {(row["topic"], row["queueId"]): row for row in job.skew(spark, store).collect()}
    assert {key: row["messages"] for key, row in found.items()} == counts
    for key, row in found.items():
        sizes = [one["storeSize"] for one in rows if (one["topic"], one["queueId"]) == key]
        assert (row["bytes"], row["minSize"], row["maxSize"]) == (sum(sizes), min(sizes), max(sizes))
        assert row["share"] == pytest.approx(counts[key] / topics[key[0]])


def test_a_range_of_queue_offsets(spark: Any, tmp_path: Path) -> None:
    outcome = outcome_of(spark, "skew", made(tmp_path).store, startingOffsets='{"orders": {"0": 3}}')
    rows = rows_of(tmp_path / "made" / "store", topics="orders", startingOffsets='{"orders": {"0": 3}}')
    [orders] = table_of(outcome, "topics")
    assert (orders["topic"], orders["messages"]) == ("orders", len(rows))


def test_topics_windows_and_producers(spark: Any, tmp_path: Path) -> None:
    store = made(tmp_path).store
    outcome = outcome_of(spark, "skew", store, window="1s")
    rows = rows_of(store)
    queues = {row["topic"]: row["writeQueueNums"] for row in read_store(str(store), table="topics").read_all().to_pylist()}
    counts: dict[str, Counter[int]] = defaultdict(Counter)
    windows: dict[tuple[str, int], Counter[int]] = defaultdict(Counter)
    for row in rows:
        counts[row["topic"]][row["queueId"]] += 1
        second = int(row["storeTimestamp"].timestamp()) * 1000
        windows[row["topic"], second][row["queueId"]] += 1
    found = {row["topic"]: row for row in table_of(outcome, "topics")}
    assert found.keys() == counts.keys()
    for topic, row in found.items():
        values = [counts[topic][queue] for queue in range(queues[topic])]
        assert row["queues"] == queues[topic]
        assert row["maxMean"] == pytest.approx(max(values) * len(values) / sum(values))
        assert row["gini"] == pytest.approx(naive_gini(values))
    course = {(row["topic"], row["windowMs"]): row for row in outcome.frames["windows"].collect()}
    assert len(windows) > len(counts)
    assert course.keys() == windows.keys()
    for (topic, second), row in course.items():
        values = [windows[topic, second][queue] for queue in range(queues[topic])]
        assert row["gini"] == pytest.approx(naive_gini(values), abs=1e-12)
        assert row["maxMean"] == pytest.approx(max(values) * len(values) / sum(values))
    hosts = Counter((row["topic"], row["bornHost"].rpartition(":")[0]) for row in rows)
    assert {(row["topic"], row["bornHost"]): row["messages"] for row in outcome.frames["producers"].collect()} == hosts


def keys_plainly(rows: list[dict[str, Any]]) -> dict[tuple[str, str], tuple[int, int]]:
    found: dict[tuple[str, str], tuple[int, int]] = defaultdict(lambda: (0, 0))
    for row in rows:
        for key in (row["keys"] or "").split(" "):
            if key:
                count, size = found[row["topic"], key]
                found[row["topic"], key] = (count + 1, size + row["storeSize"])
    return dict(found)


@pytest.mark.parametrize("approximate", ["no", "yes"])
def test_keys_of_java(spark: Any, tmp_path: Path, approximate: str) -> None:
    store = golden_of("trace", tmp_path)
    found = job.hot_keys(spark, store, approximate=approximate).collect()
    assert {(row["topic"], row["key"]): (row["messages"], row["bytes"]) for row in found} == keys_plainly(rows_of(store))
    assert max(row["messages"] for row in found) > 1


def test_hot_keys_survive_the_buckets(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "KEY_BUCKETS", 512)
    monkeypatch.setattr(job, "BUCKETS_KEPT", 8)
    store = made(tmp_path, **{"duplicate-key": 6}).store
    expected = keys_plainly(rows_of(store))
    found, missed = job.keys_of(spark, source_of(store, {}), job.JOB.arguments({"approximate": "yes"})[0])
    kept = {(row["topic"], row["key"]): (row["messages"], row["bytes"]) for row in found.collect()}
    assert 0 < len(kept) < len(expected)
    assert kept.items() <= expected.items()
    assert missed >= max(count for key, (count, _) in expected.items() if key not in kept)


def test_limit(spark: Any, tmp_path: Path) -> None:
    store = made(tmp_path).store
    worst = table_of(outcome_of(spark, "skew", store), "topics")
    assert worst[0]["maxMean"] > worst[1]["maxMean"]
    outcome = outcome_of(spark, "skew", store, max_skew=worst[1]["maxMean"])
    assert not outcome.is_clean
    assert [row["topic"] for row in table_of(outcome, "findings")] == [worst[0]["topic"]]
    assert outcome_of(spark, "skew", store, max_skew=worst[0]["maxMean"]).is_clean


def test_damage_is_reported(spark: Any, tmp_path: Path) -> None:
    store = made(tmp_path, **{"corrupt-size": 2}).store
    outcome = outcome_of(spark, "skew", store)
    assert outcome.is_clean
    assert any("no message that can be read" in note for note in outcome.notes)
    sound = rows_of(store, mode="DROPMALFORMED")
    assert outcome.as_json()["figures"]["messages"] == len(sound)


def test_gini() -> None:
    assert gini([]) == 0
    assert gini([0, 0]) == 0
    assert gini([5, 5, 5]) == pytest.approx(0)
    assert gini([0, 0, 0, 9]) == pytest.approx(0.75)
    assert gini([1, 2, 3, 10]) == pytest.approx(naive_gini([1, 2, 3, 10]))


def test_empty_queues_count() -> None:
    held = [{"brokerName": "b", "topic": "t", "queueId": 5, "messages": 4, "bytes": 40}]
    counts = queue_counts([{"brokerName": "b", "topic": "t", "writeQueueNums": 3}], held)
    assert counts == {("b", "t"): 4}  # three that may be written to, and the one that has messages
    chosen = queue_counts([{"brokerName": "b", "topic": "t", "writeQueueNums": 3}], held, frozenset({0, held[0]["queueId"]}))
    assert chosen == {("b", "t"): 2}, "queues that were not looked at are not empty"
    [row] = summed(held, counts)
    assert (row["maxMean"], row["gini"], row["meanSize"]) == (4, 0.75, 10)
