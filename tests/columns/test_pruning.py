"""Ranges of time and place leave files unread, and give the rows that a filter of the whole would give."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rmq_columns import parse_options, plan_splits, read_split, read_store
from rmq_columns.files.filesystem import File, LocalFile, LocalTree
from rmq_columns.read.plan import CLOCK_STEP_MS
from tests.support.logs import FILE_BYTES, Log, write_log
from tests.support.loops import each, strided
from tests.support.stores import golden_of, golden_store

STEP_MS = CLOCK_STEP_MS // 4
BODIES = [bytes(number * 31 % 200) for number in range(90)]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Log:
    return write_log(tmp_path_factory.mktemp("pruned"), BODIES, ms_step=STEP_MS)


def planned(log: Log, **options: Any) -> list[int]:
    """Number of each file that would be read."""
    splits = plan_splits(parse_options({"path": log.root, **options}))
    return [part.file_start // FILE_BYTES for split in splits for part in split.parts]


def places(log: Log, **options: Any) -> list[int]:
    return list(read_store(log.root, columns="physicalOffset", **options).read_all()["physicalOffset"].to_pylist())


CALM = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@CALM
@given(st.integers(-5, 95), st.integers(-5, 95))
def test_a_range_of_time(log: Log, low: int, high: int) -> None:
    chosen = {"startingTimestamp": low * STEP_MS, "endingTimestamp": high * STEP_MS}
    assert places(log, **chosen) == [place for number, place in enumerate(log.places) if low <= number < high]


def test_a_file_that_is_being_written_is_cut_where_it_has_data(tmp_path: Path) -> None:
    """Its end is a hole as yet: one of two parts would have next to nothing in it."""
    size = 1 << 20
    [file] = write_log(tmp_path, [bytes(900)] * 300, file_bytes=size).files
    data = file.read_bytes()
    end = len(data.rstrip(b"\0"))
    with file.open("wb") as again:
        again.write(data[:end])
        again.truncate(size)
    with LocalTree().open(str(file)) as opened:
        [[_, hole], *more] = opened.data_ranges()
    if hole >= size or more:
        pytest.skip("this file system keeps no holes")
    split_bytes = hole // 2 + 5000
    splits = plan_splits(parse_options({"path": tmp_path, "splitBytes": split_bytes}))
    [[first], [second]] = (split.parts for split in splits)
    assert (first.start, first.end, second.end) == (0, second.start, size)
    assert abs(first.end - hole // 2) < 2000
    assert sum(len(batch) for split in splits for batch in read_split(split)) == 300


def test_a_range_of_time_leaves_files_out(log: Log) -> None:
    by_file: dict[int, list[int]] = {}
    for number, place in enumerate(log.places):
        by_file.setdefault(place // FILE_BYTES, []).append(number)
    assert len(by_file) > 4
    last = max(by_file)
    assert planned(log, startingTimestamp=by_file[last][0] * STEP_MS + CLOCK_STEP_MS + 1) == [last]
    assert planned(log, startingTimestamp=by_file[last][0] * STEP_MS) == [last - 1, last]
    assert planned(log, startingTimestamp=10**12) == [last]
    assert planned(log, endingTimestamp=by_file[1][0] * STEP_MS - CLOCK_STEP_MS) == [0]
    assert planned(log, endingTimestamp=-CLOCK_STEP_MS) == []
    iso = "1970-01-01T00:00:00+00:00"
    assert planned(log, startingTimestamp=iso) == planned(log)


@CALM
@given(
    st.integers(-10, 6 * FILE_BYTES), st.integers(-10, 6 * FILE_BYTES), st.sampled_from(["auto", "file", "consumequeue", "magic"])
)
def test_a_range_of_places(log: Log, low: int, high: int, strategy: str) -> None:
    chosen = {"startingPhysicalOffset": low, "endingPhysicalOffset": high, "splitStrategy": strategy}
    wanted = [place for place in log.places if low <= place < high]
    assert places(log, **chosen) == wanted
    splits = plan_splits(parse_options({"path": log.root, "splitBytes": 700, "includeBody": "false", **chosen}))
    assert [row["physicalOffset"] for split in splits for batch in read_split(split) for row in batch.to_pylist()] == wanted
    queue = read_store(log.root, table="consumequeue", startingPhysicalOffset=low, endingPhysicalOffset=high).read_all()
    assert queue["physicalOffset"].to_pylist() == wanted


STRATEGIES = ["auto", "file", "consumequeue", "magic"]


class Queues:
    """A store of many queues: none of them names every place."""

    def __init__(self, tmp_path: Path) -> None:
        self.root = golden_of("mix", tmp_path / "broker-a")
        self.places = self.read()
        files = sorted(int(path.name) for path in (self.root / "commitlog").iterdir())
        behind = [sum(place < start for place in self.places) for start in files]
        self.edges = sorted({edge for first in behind for edge in (first - 1, first) if 0 <= edge < len(self.places)})
        """of each file the first message and the one before it"""

    def read(self, **options: Any) -> list[int]:
        return sorted(read_store(self.root, includeSystemTopics=True, **options).read_all()["physicalOffset"].to_pylist())

    def check(self, number: int, strategy: str) -> None:
        """What lies between a range's end and the next unit of a queue is not left out."""
        low = self.places[number]
        assert self.read(startingPhysicalOffset=low, splitStrategy=strategy) == self.places[number:]
        assert self.read(endingPhysicalOffset=low + 1, splitStrategy=strategy) == self.places[: number + 1]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_range_of_places_among_many_queues(tmp_path: Path, strategy: str) -> None:
    store = Queues(tmp_path)
    assert len(store.edges) > 4
    each(strided(range(len(store.places)), 16, store.edges), lambda number: store.check(number, strategy))


@pytest.mark.nightly
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_any_range_of_places_among_many_queues(tmp_path: Path, strategy: str) -> None:
    store = Queues(tmp_path)
    each(range(len(store.places)), lambda number: store.check(number, strategy))


def test_a_range_of_places_reads_little(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    total = [0]
    whole, into = LocalTree.open, LocalFile.read_into

    def counted(tree: LocalTree, path: str) -> File:
        opened.append(path)
        return whole(tree, path)

    def counted_into(file: LocalFile, at: int, buffer: memoryview) -> int:
        total[0] += len(buffer)
        return into(file, at, buffer)

    monkeypatch.setattr(LocalTree, "open", counted)
    monkeypatch.setattr(LocalFile, "read_into", counted_into)
    low = log.places[40]
    assert places(log, startingPhysicalOffset=low, endingPhysicalOffset=log.places[42]) == log.places[40:42]
    last = log.files[-1].name  # whose first bytes say whether it was written to
    assert {Path(path).name for path in opened if "commitlog" in path} == {f"{low // FILE_BYTES * FILE_BYTES:020}", last}
    assert total[0] < FILE_BYTES // 2


def test_topics_and_queues_are_chosen(tmp_path: Path) -> None:
    root = golden_store(tmp_path / "golden")
    every = read_store(root, includeSystemTopics=True, columns="topic,queueId").read_all().to_pylist()
    some = (
        read_store(root, topics="kinds-5_5_0,SCHEDULE_TOPIC_XXXX", queueIds="0,3", columns="topic,queueId").read_all().to_pylist()
    )
    assert some == [row for row in every if row["topic"] in ("kinds-5_5_0", "SCHEDULE_TOPIC_XXXX") and row["queueId"] in (0, 3)]
    assert {row["topic"] for row in some} == {"kinds-5_5_0", "SCHEDULE_TOPIC_XXXX"}
    mine = read_store(root, columns="topic").read_all()["topic"].to_pylist()
    assert "SCHEDULE_TOPIC_XXXX" not in mine
    assert "%RETRY%GID-5_5_0" in mine
    queues = read_store(root, table="consumequeue", topics=["kinds-5_5_0"], queueIds=[1]).read_all().to_pylist()
    assert {(row["topic"], row["queueId"]) for row in queues} == {("kinds-5_5_0", 1)}
    files = read_store(root, table="files", topics=["kinds-5_5_0"]).read_all().to_pylist()
    assert {row["queueId"] for row in files} == {0, 1, 2, 3}


def test_the_index_is_chosen_by_time_and_place(tmp_path: Path) -> None:
    root = golden_store(tmp_path / "golden")
    every = read_store(root, table="index").read_all().to_pylist()
    times = sorted({row["storeTime"] for row in every})
    middle = times[len(times) // 2]
    late = read_store(root, table="index", startingTimestamp=middle).read_all().to_pylist()
    assert late == [row for row in every if row["storeTime"] >= middle]
    near = read_store(root, table="index", endingPhysicalOffset=9000).read_all().to_pylist()
    assert near == [row for row in every if row["phyOffset"] < 9000]
    assert read_store(root, table="index", endingTimestamp=5).read_all().num_rows == 0
