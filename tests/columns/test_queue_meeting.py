"""Messages and queue units that meet elsewhere: what is recorded of a part of the log, and when no more has to be looked at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmq_columns import Options
from rmq_columns.checks import meeting, queues
from rmq_columns.checks.meeting import ROW, WHOLE, Recorded, meet
from rmq_columns.checks.queues import Key, LogBounds, check_queue
from rmq_columns.checks.report import Entry, Known, LogReport
from rmq_columns.checks.sequence import Numbers, grouped
from rmq_columns.checks.trees import TreeFile
from rmq_columns.decode.dtypes import BATCH_UNIT, QUEUE_UNIT
from rmq_columns.decode.queues import EXTENSION_ADDRESS_MAX, FILLER_SIZE
from rmq_wire.names import SCHEDULE_TOPIC

FILE_UNITS = 4
FILE_BYTES = FILE_UNITS * QUEUE_UNIT.itemsize
TOPICS = ["A", "B", "C"]
UNITS = st.lists(st.tuples(st.integers(0, 2), st.integers(-1, 2), st.integers(-2, 11)), max_size=12)
"""topic, queue id, queue offset"""
BLOCKS = st.lists(st.tuples(st.booleans(), UNITS), max_size=5)
"""whether topics are numbered anew; units"""
KNOWN = Known({}, [], {}, 0, ())
NOBODY = LogReport("", 0, 0)


def entry(rows: list[int]) -> Entry:
    """Of messages that lie one behind the other, with these queue offsets."""
    places = np.arange(len(rows), dtype=np.int64)
    return Entry(np.array(rows, np.int64), places * 100, places + 90, places - 7, places + 1000)


@given(BLOCKS)
def test_what_is_recorded_is_cut_by_queue_and_file(blocks: list[tuple[bool, list[tuple[int, int, int]]]]) -> None:
    """In the order of the log, however topics are numbered; of a queue that is apart all together, and odd offsets."""
    recorded, wanted = Recorded(FILE_BYTES, frozenset({("B", 1)})), dict[tuple[Key, int], list[int]]()
    names, generation, number = list(TOPICS), 0, 0
    for is_anew, units in blocks:
        if is_anew:
            names, generation = names[::-1], generation + 1
        topics = np.array([names.index(TOPICS[topic]) for topic, _, _ in units], np.int64)
        groups = grouped(np.arange(len(units)), topics, np.array([one for _, one, _ in units], np.int32), names, generation)
        at = np.arange(number, number + len(units))
        recorded.compare_all(groups, entry([offset for _, _, offset in units]), at, NOBODY, KNOWN)
        for topic, queue_id, offset in units:
            key = (TOPICS[topic], queue_id)
            is_placed = offset >= 0 and key != ("B", 1)
            file = offset // FILE_UNITS * FILE_BYTES if is_placed else WHOLE
            wanted.setdefault((key, file), []).append(number)
            number += 1
    found = [((key, file), np.frombuffer(rows, ROW)["at"].tolist()) for key, file, rows in recorded.rows()]
    assert len(found) == len(wanted)
    assert dict(found) == wanted
    assert list(recorded.rows()) == []


def test_a_queue_that_is_named_by_itself_is_the_same() -> None:
    recorded, one = Recorded(FILE_BYTES, frozenset()), np.array([0])
    groups = grouped(one, one, np.array([1], np.int32), ["A"])
    recorded.compare_all(groups, entry([0]), one, NOBODY, KNOWN)
    recorded.compare(("A", 1), entry([1]), np.array([5]), NOBODY, KNOWN)
    recorded.compare(("L", 0), entry([0]), np.array([6]), NOBODY, KNOWN)
    found = [(key, file, np.frombuffer(rows, ROW)["at"].tolist()) for key, file, rows in recorded.rows()]
    assert found == [(("A", 1), 0, [0, 5]), (("L", 0), 0, [6])]


def test_no_more_queues_than_so_many_get_a_number() -> None:
    numbers = Numbers(2)

    def of(topics: list[int], generation: int = 0) -> tuple[list[int], list[bool]]:
        ids = np.zeros(len(topics), np.int32)
        found, is_new = numbers.of(grouped(np.arange(len(topics)), np.array(topics), ids, TOPICS, generation))
        return found.tolist(), is_new.tolist()

    assert of([1]) == ([0], [True])
    assert of([0, 1, 2]) == ([1, 0, -1], [True, False, True])
    assert of([2]) == ([-1], [True])
    assert of([0, 1], 1) == ([1, 0], [False, False])
    assert numbers.of_key == {("B", 0): 0, ("A", 0): 1}


CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["physical_offset", "size", "tags_code", "gone"]), st.integers(0, 4), st.sampled_from([0, 1, -1, 7])
    ),
    max_size=1,
)


@given(
    key=st.sampled_from([*[("A", 0)] * 4, (SCHEDULE_TOPIC, 2)]),
    first=st.integers(0, 3),
    count=st.integers(0, 4),
    cut=st.integers(0, 6),
    changes=CHANGES,
    more=st.sampled_from([*[0] * 4, 1, 2]),
    code=st.sampled_from([*[5] * 4, EXTENSION_ADDRESS_MAX]),
)
def test_nothing_is_overlooked_where_a_file_is_seen_at_once(
    tmp_path_factory: pytest.TempPathFactory,
    key: Key,
    first: int,
    count: int,
    cut: int,
    changes: list[tuple[str, int, int]],
    more: int,
    code: int,
) -> None:
    """The same is found as message by message: units that are changed, that lack, that are too many; two parts."""
    units = np.zeros(8 + 4, QUEUE_UNIT)
    places = np.arange(count + more) * 100
    units["physical_offset"][first : first + count + more] = places
    units["size"][first : first + count + more] = 90
    units["tags_code"][first : first + count + more] = code
    for name, at, by in changes:
        if name == "gone":
            units[first + at : first + at + 1] = 0
        else:
            units[name][first + at] += by
    path = tmp_path_factory.mktemp("queue") / ("0" * 20)
    path.write_bytes(units.tobytes())
    file = TreeFile("", str(path), f"consumequeue/{path.name}", 0, units.nbytes, *key, Options(("",)).filesystem)
    state, _ = check_queue([file], LogBounds(0, 10_000), units.nbytes, is_batch=False)
    rows = np.zeros(count, ROW)
    rows["queue_offset"], rows["physical_offset"], rows["size"] = np.arange(first, first + count), places[:count], 90
    rows["tags_code"], rows["store_timestamp"], rows["at"] = code, 1000, places[:count]
    parts = [(0, 0, rows[:cut].tobytes()), (0, 700, rows[cut:].tobytes())]
    parts = [part for part in parts if part[2]]
    known = Known({}, [], {}, 10_000, ())

    def found() -> Any:
        met = meet(key, state, parts, known, True)
        return met.dangling, {part: (one.findings, one.waiting_count, one.superseded) for part, one in met.reports.items()}

    at_once = found()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(meeting, "_is_sound", lambda *_: False)
        assert found() == at_once


def test_a_sound_file_is_seen_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No queue of many is looked at message by message."""
    units = np.zeros(FILE_UNITS, QUEUE_UNIT)
    units["physical_offset"], units["size"] = np.arange(FILE_UNITS) * 100, 90
    (tmp_path / "q").write_bytes(units.tobytes())
    file = TreeFile("", str(tmp_path / "q"), "q", 0, units.nbytes, "A", 0, Options(("",)).filesystem)
    state, _ = check_queue([file], LogBounds(0, 10_000), units.nbytes, is_batch=False)
    rows = np.zeros(FILE_UNITS, ROW)
    rows["queue_offset"], rows["physical_offset"], rows["size"] = np.arange(FILE_UNITS), np.arange(FILE_UNITS) * 100, 90
    monkeypatch.setattr(meeting, "Places", None)
    assert meet(("A", 0), state, [(0, 0, rows[:1].tobytes()), (0, 100, rows[1:].tobytes())], KNOWN, True) == ({}, [])


ODD = st.tuples(
    st.integers(0, 6),
    st.integers(-1, 2),
    st.sampled_from([90, 100, 150, 0, -5, FILLER_SIZE, FILLER_SIZE]),
    st.sampled_from([0, 5]),
)
"""A unit that is not as the others: its number, steps of 100 from the one before, size, tags code."""


@given(
    st.integers(0, 7),
    st.lists(ODD, max_size=1),
    st.integers(0, 3),
    st.sampled_from([-2, 0, 0, 100, 250]),
    st.sampled_from([10_000, 10_000, 600, 300]),
    st.sampled_from([False, False, True]),
    st.integers(0, 3),
)
@settings(max_examples=400)
def test_a_queue_is_the_same_however_quickly_it_is_seen(
    tmp_path_factory: pytest.TempPathFactory,
    count: int,
    odd: list[tuple[int, int, int, int]],
    empty: int,
    begin: int,
    end: int,
    is_batch: bool,
    cut: int,
) -> None:
    """In two files; sizes that are none, fillers, what points before or behind, empty units between, a log that is shorter."""
    dtype = BATCH_UNIT if is_batch else QUEUE_UNIT
    units, place = np.zeros(count + empty, dtype), -100
    other = {number: rest for number, *rest in odd}
    for number in range(count):
        step, size, code = other.get(number, (1, 90, 5))
        place += step * 100
        units[number]["physical_offset"], units[number]["size"], units[number]["tags_code"] = place, size, code
    directory, files = tmp_path_factory.mktemp("queue"), []
    for first, some in ((0, units[: cut + 1]), (cut + 1, units[cut + 1 :])):
        path = directory / f"{first * dtype.itemsize:020}"
        path.write_bytes(some.tobytes())
        start = first * dtype.itemsize
        files.append(TreeFile("", str(path), path.name, start, some.nbytes, "A", 0, Options(("",)).filesystem))

    def found() -> Any:
        return check_queue(files, LogBounds(begin, end), (cut + 1) * dtype.itemsize, is_batch=is_batch)

    quickly = found()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(queues._QueueFile, "_sound_run", lambda *_: None)
        assert found() == quickly
