"""Positions held against queues, without Spark: all splits together say what a plain reading says, in queues of either kind."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from planted_stores.generate import Wanted, generate
from planted_stores.plan import Sizes
from rmq_columns import parse_options, plan_splits, read_store
from rmq_columns.read.positions import asked_of, positions_in
from tests.support.generated import idled
from tests.support.logs import write_log
from tests.support.stores import golden_of

SIZES = Sizes(1 << 20, 4000, 100, 400)
Key = tuple[str, int]


def store_of(kind: str, tmp_path: Path) -> Path:
    if kind != "generated":
        return golden_of(kind, tmp_path)
    return generate(tmp_path / "made", Wanted(2 << 20, 300, sizes=SIZES, with_index=False, with_sent=False)).store


def rows_of(store: Path, table: str) -> list[dict[str, Any]]:
    return read_store(str(store), table=table, includeSystemTopics="true", mode="DROPMALFORMED").read_all().to_pylist()


def units_of(store: Path) -> dict[Key, list[dict[str, Any]]]:
    found: dict[Key, list[dict[str, Any]]] = defaultdict(list)
    for row in rows_of(store, "consumequeue"):
        found[row["topic"], row["queueId"]].append(row)
    return found


def asked(store: Path, positions: dict[Key, set[int]], split_bytes: str) -> list[dict[str, Any]]:
    given = {"path": str(store), "table": "consumequeue", "includeSystemTopics": "true", "splitBytes": split_bytes}
    given["batchRows"] = "7"  # several batches of each file
    splits = plan_splits(parse_options({**given, "brokerName": "b"}))
    items = asked_of(splits, {("b", *key): places for key, places in positions.items()})
    return [row for item in items for batch in positions_in(item) for row in batch.to_pylist()]


@pytest.mark.parametrize("split_bytes", ["1", "8k", "256m"])
@pytest.mark.parametrize("kind", ["generated", "mix", "batch", "trace"])
def test_every_position_of_every_queue(tmp_path: Path, kind: str, split_bytes: str) -> None:
    store = store_of(kind, tmp_path)
    units = units_of(store)
    assert kind != "batch" or any(row["batchSize"] > 1 for rows in units.values() for row in rows)
    times = {row["physicalOffset"]: row["storeTimestamp"] for row in rows_of(store, "messages")}
    ends = {key: max(row["queueOffset"] + row["batchSize"] for row in rows) for key, rows in units.items()}
    step = 17 if kind == "generated" else 1
    found = asked(store, {key: set(range(0, end + 2, step)) for key, end in ends.items()}, split_bytes)
    of: dict[tuple[Key, int | None], list[dict[str, Any]]] = defaultdict(list)
    for row in found:
        of[(row["topic"], row["queueId"]), row["position"]].append(row)
    for key, rows in units.items():
        own = of[key, None]
        assert min(row["firstOffset"] for row in own) == rows[0]["queueOffset"]
        assert max(row["endOffset"] for row in own) == ends[key]
        last = max(own, key=lambda row: row["endOffset"])
        assert last["lastStoreTimestamp"] == times[rows[-1]["physicalOffset"]]
        for position in range(0, ends[key] + 2, step):
            left = [row for row in rows if row["queueOffset"] + row["batchSize"] > position]
            there = of[key, position]
            assert sum(row["bytes"] for row in there) == sum(row["size"] for row in left)
            expected = sum(row["queueOffset"] + row["batchSize"] - max(row["queueOffset"], position) for row in left)
            assert sum(row["messages"] for row in there) == expected
            if left:
                first = min(there, key=lambda row: row["nextOffset"])
                assert first["nextOffset"] == max(left[0]["queueOffset"], position)
                assert first["nextStoreTimestamp"] == times[left[0]["physicalOffset"]]


def test_what_the_log_has_no_longer(tmp_path: Path) -> None:
    store = store_of("generated", tmp_path)
    sorted((store / "commitlog").iterdir())[0].unlink()
    start = min(int(path.name) for path in (store / "commitlog").iterdir())
    units = units_of(store)
    bounds = bounds_of(asked(store, {}, "256m"))
    ends = {key: rows[-1]["queueOffset"] + 1 for key, rows in units.items()}
    expected = {
        key: (min((row["queueOffset"] for row in rows if row["physicalOffset"] >= start), default=ends[key]), ends[key])
        for key, rows in units.items()
    }
    assert bounds == expected
    assert any(first for first, _ in bounds.values())
    assert any(first < end for first, end in bounds.values())


def bounds_of(rows: list[dict[str, Any]]) -> dict[Key, tuple[int, int]]:
    """Beginning and end of each queue, as all rows together have them."""
    own: dict[Key, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        if row["position"] is None:
            own[row["topic"], row["queueId"]].append(row)
    found = {}
    for key, reported in own.items():
        end = max(row["endOffset"] for row in reported)
        found[key] = min((row["firstOffset"] for row in reported if row["firstOffset"] is not None), default=end), end
    return found


@pytest.mark.parametrize("split_bytes", ["1", "256m"])
def test_queues_of_which_everything_has_expired(tmp_path: Path, split_bytes: str) -> None:
    """As `ConsumeQueue.correctMinOffset`: they begin where their next message will be."""
    store = store_of("generated", tmp_path)
    units = units_of(store)
    start, key = idled(store), ("orders", 0)
    ends = {one: sum(row["physicalOffset"] < start for row in rows) for one, rows in units.items() if one == key}
    rows = asked(store, {key: {0, ends[key]} for key in units if key in ends}, split_bytes)
    assert bounds_of(rows)[key] == (ends[key], ends[key])
    assert not [row for row in rows if row["position"] is not None]
    assert ends[key] > SIZES.queue_file_bytes // 20, "more than one file"


def test_a_time_that_no_calendar_has(tmp_path: Path) -> None:
    """It is the end of time, as in every other table."""
    log = write_log(tmp_path, [b"first", b"last"], ms_step=1 << 62)
    items = asked_of(plan_splits(parse_options({"path": str(log.root), "table": "consumequeue"})), {})
    [times] = [batch.column("lastStoreTimestamp").cast("int64").to_pylist() for item in items for batch in positions_in(item)]
    assert times == [((1 << 63) - 1) // 1000 * 1000]


def test_a_log_file_that_goes_meanwhile(tmp_path: Path) -> None:
    store = store_of("generated", tmp_path)
    given = {"path": str(store), "table": "consumequeue", "topics": "orders", "brokerName": "b"}
    items = asked_of(plan_splits(parse_options(given)), {("b", "orders", 0): {0}})
    sorted((store / "commitlog").iterdir())[0].unlink()
    rows = [row for item in items for batch in positions_in(item) for row in batch.to_pylist()]
    first = min((row for row in rows if row["position"] == 0), key=lambda row: row["nextOffset"])
    assert first["nextOffset"] == 0
    assert first["nextStoreTimestamp"] is None
