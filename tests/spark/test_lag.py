"""Job `lag`: every number against a plain Python reading of the same store; what is planted, and nothing else, is a finding."""

from __future__ import annotations

import json
import shutil
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from planted_stores.generate import Made, Wanted, generate
from planted_stores.plan import Sizes
from rmq_columns import read_store
from rmq_spark.jobs import lag as job
from rmq_spark.jobs.lag import retry_group, wanted_of
from rmq_wire.fastjson import loads
from tests.spark.kit import outcome_of
from tests.support.generated import idled
from tests.support.stores import golden_of

SIZES = Sizes(1 << 20, 4000, 100, 400)
AHEAD = 3


def made(tmp_path: Path, **faults: int) -> Made:
    return generate(tmp_path / "made", Wanted(3 << 20, 300, faults=faults, sizes=SIZES, with_index=False, with_sent=False))


def plainly(store: Path) -> dict[tuple[str, str, int], dict[str, Any]]:
    """(group, topic, queue) with a position -> what `lag` should say, counted message by message."""
    log = {row["physicalOffset"]: row for row in rows_of(store, "messages", columns="physicalOffset,storeTimestamp")}
    queues: dict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    for row in rows_of(store, "consumequeue"):
        queues[row["topic"], row["queueId"]].append(row)
    found = {}
    for row in rows_of(store, "consumerOffsets"):
        units = sorted(queues[row["topic"], row["queueId"]], key=lambda unit: unit["queueOffset"])
        left = [unit for unit in units if unit["queueOffset"] >= (row["offset"] or 0)]
        times = [log[unit["physicalOffset"]]["storeTimestamp"] for unit in left]
        found[row["group"], row["topic"], row["queueId"]] = {
            "lag": len(left),
            "bytesBehind": sum(unit["size"] for unit in left),
            "offset": row["offset"],
            "minOffset": units[0]["queueOffset"] if units else 0,
            "maxOffset": units[-1]["queueOffset"] + 1 if units else 0,
            "lagMs": round((times[-1] - times[0]).total_seconds() * 1000) if times else 0,
        }
    return found


def rows_of(store: Path, table: str, **options: str) -> list[dict[str, Any]]:
    return read_store(str(store), table=table, includeSystemTopics="true", **options).read_all().to_pylist()


def frame_rows(frame: Any) -> dict[tuple[str, str, int], dict[str, Any]]:
    return {(row["group"], row["topic"], row["queueId"]): row.asDict() for row in frame.collect()}


def assert_agrees(frame: Any, store: Path) -> None:
    found, expected = frame_rows(frame), plainly(store)
    assert expected
    for key, values in expected.items():
        assert {name: found[key][name] for name in values} == values, key


@pytest.mark.parametrize("split", ["256m", "4k"])
def test_generated(spark: Any, tmp_path: Path, split: str) -> None:
    store = made(tmp_path).store
    assert_agrees(job.lag(spark, str(store), includeSystemTopics="true", splitBytes=split), store)


def test_java_store(spark: Any, tmp_path: Path) -> None:
    store = golden_of("mix", tmp_path)
    found = job.lag(spark, store, includeSystemTopics="true")
    assert_agrees(found, store)
    readers = {key[0]: row["isRetry"] for key, row in frame_rows(found).items() if key[1] == "%RETRY%GID_mix"}
    assert readers.pop("GID_mix")  # even where it has no position in its own retry topic
    assert not any(readers.values())


def test_light_queues_of_java(spark: Any, tmp_path: Path) -> None:
    store = golden_of("light", tmp_path)
    (store / "config").mkdir(exist_ok=True)
    light = {"offsetTable": {}, "lmqOffsetTable": {"%LMQ%a@GID_light": 1}}
    (store / "config" / "lmqConsumerOffset.json").write_text(json.dumps(light))
    log = sorted(path for path in store.iterdir() if path.is_dir() and path.name.startswith("commitlog"))
    found = frame_rows(job.lag(spark, store, storePathCommitLog=",".join(map(str, log))))
    [row] = [row for key, row in found.items() if key[0] == "GID_light"]
    units = [unit for unit in rows_of(store, "consumequeue") if unit["topic"] == "%LMQ%a"]
    assert (row["offset"], row["maxOffset"], row["lag"]) == (1, len(units), max(len(units) - 1, 0))


def test_clean_store_is_clean(spark: Any, tmp_path: Path) -> None:
    outcome = outcome_of(spark, "lag", made(tmp_path).store)
    assert outcome.is_clean
    assert not outcome.tables[0].rows
    assert outcome.as_json()["figures"]["lag"] > 0


def test_planted_positions_are_the_findings(spark: Any, tmp_path: Path) -> None:
    planted = made(tmp_path, **{"position-ahead": AHEAD, "lost": 1, "corrupt-size": 1, "queue-missing": 2})
    outcome = outcome_of(spark, "lag", planted.store)
    reported = {(one.topic, one.queueId) for one in planted.planted.faults if one.kind == "position-ahead"}
    assert len(reported) == AHEAD
    assert not outcome.is_clean
    columns = [column.name for column in outcome.tables[0].columns]
    rows = [dict(zip(columns, row, strict=True)) for row in outcome.tables[0].rows]
    assert {(row["topic"], row["queueId"]) for row in rows} == reported
    assert {row["state"] for row in rows} == {"ahead"}


def test_below_never_and_gone(spark: Any, tmp_path: Path) -> None:
    store = made(tmp_path).store
    path = store / "config" / "consumerOffset.json"
    value = loads(path.read_bytes())
    value["offsetTable"] = {"orders@late": {"1": 0}, "vanished@late": {"0": 7}}
    path.write_text(json.dumps(value))
    first = sorted((store / "commitlog").iterdir())[0]
    first.unlink()
    start = min(int(one.name) for one in (store / "commitlog").iterdir())
    units = [u for u in rows_of(store, "consumequeue") if u["topic"] == "orders" and u["queueId"] == 1]
    minimum = min(unit["queueOffset"] for unit in units if unit["physicalOffset"] >= start)
    found = frame_rows(job.lag(spark, store))
    below = found["late", "orders", 1]
    assert (below["state"], below["lost"], below["minOffset"]) == ("below", minimum, minimum)
    assert below["lag"] == below["maxOffset"] - minimum
    assert below["isFinding"]
    assert found["late", "vanished", 0]["state"] == "gone"
    never = found["late", "orders", 0]
    assert (never["state"], never["offset"], never["isFinding"]) == ("never", None, False)


def test_limits(spark: Any, tmp_path: Path) -> None:
    store = made(tmp_path).store
    every = frame_rows(job.lag(spark, store))
    worst = max(row["lag"] for row in every.values() if row["state"] != "never")
    some = frame_rows(job.lag(spark, store, max_lag=worst - 1))
    expected = {key for key, row in every.items() if row["lag"] >= worst}
    assert expected
    assert {key for key, row in some.items() if row["isFinding"]} == expected
    longest = max(row["lagMs"] for row in every.values())
    timed = frame_rows(job.lag(spark, store, max_lag_time=f"{longest - 1}ms"))
    assert {key for key, row in timed.items() if row["isFinding"]} == {
        key for key, row in every.items() if row["lagMs"] == longest
    }


def test_now(spark: Any, tmp_path: Path) -> None:
    store = made(tmp_path).store
    every = frame_rows(job.lag(spark, store))
    key, row = next((key, row) for key, row in every.items() if row["lag"])
    now = round(row["nextStoreTimestamp"].timestamp() * 1000) + 5000
    assert frame_rows(job.lag(spark, store, now=now))[key]["lagMs"] == 5000


def test_whose_retry_topic() -> None:
    groups = {"a", "a_b"}
    assert retry_group("%RETRY%a", groups) == "a"
    assert retry_group("%RETRY%a_b_orders", groups) == "a_b"
    assert retry_group("%RETRY%a+orders", groups) == "a"
    assert retry_group("%RETRY%c", groups) == "c"
    assert retry_group("orders", groups) is None


def test_queues_without_a_position() -> None:
    topics = [{"brokerName": "b", "topic": topic, "readQueueNums": 2} for topic in ("t", "%RETRY%g")]
    offsets = [{"brokerName": "b", "group": "g", "topic": "t", "queueId": 1, "offset": 5, "pullOffset": None}]
    found = [(one.topic, one.queueId, one.offset, one.isRetry) for one in wanted_of(offsets, topics, {"b"})]
    assert found == [("%RETRY%g", 0, None, True), ("%RETRY%g", 1, None, True), ("t", 0, None, False), ("t", 1, 5, False)]
    assert [one.hasTopic for one in wanted_of([{**offsets[0], "topic": "gone"}], topics, {"b"})] == [True, True, False]
    assert [one.hasTopic for one in wanted_of([{**offsets[0], "topic": "gone"}], [], ())] == [True], "nobody knows"


def positions(store: Path, **groups: dict[str, dict[str, int]]) -> None:
    """Committed positions: of each group, topic -> queue -> offset."""
    path = store / "config" / "consumerOffset.json"
    value = loads(path.read_bytes())
    value["offsetTable"] = {f"{topic}@{group}": held for group, topics in groups.items() for topic, held in topics.items()}
    path.write_text(json.dumps(value))


def test_positions_that_cannot_be_read_are_reported(spark: Any, tmp_path: Path) -> None:
    """They are counted and shown, and the others are judged as ever."""
    store = made(tmp_path).store
    positions(store, g={"orders": {"0": 3, "x": 4, "1": "five"}})
    path = store / "config" / "consumerOffset.json"
    value = loads(path.read_bytes())
    value["offsetTable"] |= {"orders": {"0": 1}, "orders@other": "nothing", "orders@large": {"0": 1 << 70}}
    path.write_text(json.dumps(value))
    outcome = outcome_of(spark, "lag", store)
    assert not outcome.is_clean
    assert "5 positions cannot be read" in outcome.verdict
    reported = outcome.as_json()
    assert reported["figures"]["unreadable"] == reported["tables"]["unreadable"]["total"] == 5
    shown = "\n".join(row["position"] for row in reported["tables"]["unreadable"]["rows"])
    for part in (
        "orders@g, queue 'x'",
        "orders@g, queue '1'",
        "'orders': not topic@group",
        "orders@other: ",
        "orders@large, queue ",
    ):
        assert part in shown
    assert frame_rows(job.lag(spark, store))["g", "orders", 0]["offset"] == 3


def test_idle_queues(spark: Any, tmp_path: Path) -> None:
    """Of a queue whose messages have all expired its readers are done; who had not read them is reported so."""
    store = made(tmp_path).store
    start = idled(store)
    end = sum(u["physicalOffset"] < start for u in rows_of(store, "consumequeue", topics="orders", queueIds="0"))
    positions(store, done={"orders": {"0": end}}, late={"orders": {"0": end - 5}}, ahead={"orders": {"0": end + 1}})
    found = frame_rows(job.lag(spark, store))
    wanted = {"done": ("done", 0, False), "late": ("below", 5, True), "ahead": ("ahead", 0, True)}
    for group, expected in wanted.items():
        row = found[group, "orders", 0]
        assert (row["state"], row["lost"], row["isFinding"]) == expected, group
        assert (row["minOffset"], row["maxOffset"], row["lag"], row["lagMs"]) == (end, end, 0, 0)


def test_queues_that_are_not_there(spark: Any, tmp_path: Path) -> None:
    """A position in a queue of which nothing is on disk cannot be judged; 0 in an empty queue is where it should be."""
    store = made(tmp_path).store
    positions(store, g={"orders": {"0": 7, "1": 0, "2": 5}, "vanished": {"0": 7}})
    for queue in ("0", "1"):
        shutil.rmtree(store / "consumequeue" / "orders" / queue)
    found = frame_rows(job.lag(spark, store))
    states = {key[1:]: row["state"] for key, row in found.items()}
    assert states["orders", 0] == "unknown"
    assert states["orders", 1] == "done"
    assert states["orders", 2] == "behind"
    assert states["vanished", 0] == "gone"
    outcome = outcome_of(spark, "lag", store)
    assert not outcome.is_clean
    assert outcome.as_json()["figures"]["unknown"] == 1
    assert any("cannot be judged" in note for note in outcome.notes)
    (store / "config" / "topics.json").unlink()
    found = frame_rows(job.lag(spark, store))
    assert found["g", "vanished", 0]["state"] == "unknown"


def test_without_positions(spark: Any, tmp_path: Path) -> None:
    """A broker that keeps them in RocksDB, or a copy of the log alone: nothing is found, and that is not clean."""
    store = made(tmp_path).store
    (store / "config" / "consumerOffset.json").unlink()
    for path in (store, store / "commitlog"):
        outcome = outcome_of(spark, "lag", path)
        assert not outcome.is_clean
        assert outcome.verdict == "nothing is known of made: no consumerOffset.json"


def test_queues_in_rocksdb(spark: Any, tmp_path: Path) -> None:
    """`storeType=defaultRocksDB` keeps its tables where the queue files are otherwise: no position can be judged."""
    store = made(tmp_path).store
    shutil.rmtree(store / "consumequeue")
    (store / "consumequeue").mkdir()
    (store / "consumequeue" / "CURRENT").write_text("MANIFEST-000004\n")
    positions(store, g={"orders": {"0": 7, "1": 0}})
    found = frame_rows(job.lag(spark, store))
    assert {row["state"] for row in found.values()} == {"unknown"}
    assert all(row["isFinding"] for row in found.values())
