"""What a task of `order` finds by itself, against the plain way of finding it.  No Spark."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmq_wire import sys_flag as flags

pa = pytest.importorskip("pyarrow")

TOPICS = ("A", "B")
FLAGS = (0, 0, 0, flags.TRANSACTION_COMMIT, flags.TRANSACTION_PREPARED, flags.TRANSACTION_ROLLBACK)
IN_NO_QUEUE = (flags.TRANSACTION_PREPARED, flags.TRANSACTION_ROLLBACK)
ROW = st.tuples(
    st.sampled_from(TOPICS),
    st.sampled_from((0, 1, -1, -(1 << 31))),
    st.integers(0, 6),
    st.integers(0, 9),
    st.sampled_from(FLAGS),
)
"""Topic, queue, queue offset, store time in ms, system flag."""


def batches(rows: list[tuple[str, int, int, int, int]], cuts: list[int]) -> list[Any]:
    from rmq_columns.read.schema import TIME

    made, edges = [], sorted({0, len(rows), *(cut % (len(rows) + 1) for cut in cuts)})
    for begin, end in pairwise(edges):
        part = rows[begin:end]
        columns = {
            "topic": pa.array([one[0] for one in part]),
            "queueId": pa.array([one[1] for one in part], pa.int32()),
            "queueOffset": pa.array([one[2] for one in part], pa.int64()),
            "physicalOffset": pa.array(range(begin, end), pa.int64()),
            "storeTimestamp": pa.array([one[3] * 1000 for one in part], TIME),
            "sysFlag": pa.array([one[4] for one in part], pa.int32()),
        }
        made.append(pa.record_batch(columns))
    return made


@settings(max_examples=200, deadline=None)
@given(st.lists(ROW, min_size=1, max_size=40), st.lists(st.integers(0, 40), max_size=4), st.integers(0, 3))
def test_rows_that_went_back(rows: list[tuple[str, int, int, int, int]], cuts: list[int], tolerance_ms: int) -> None:
    """However the rows are cut into batches: each row against the one before it in its queue, if it is in one, and in the log."""
    from rmq_spark.jobs.order_scan import _State, _went_back

    wanted: set[tuple[Any, ...]] = set()
    last: dict[tuple[str, int], int] = {}
    for at, (topic, queue_id, offset, time, sys_flag) in enumerate(rows):
        if at and time < rows[at - 1][3] - tolerance_ms:
            wanted.add(("clock", None, -1, at, at - 1))
        if sys_flag in IN_NO_QUEUE:
            continue
        before = last.get((topic, queue_id))
        if before is not None and offset <= rows[before][2]:
            wanted.add(("queueOrder", topic, queue_id, at, before))
        last[topic, queue_id] = at
    state = _State("broker-a")
    found = [
        row for batch in batches(rows, cuts) for made in _went_back(batch, state, tolerance_ms * 1000) for row in made.to_pylist()
    ]
    names = ("tag", "topic", "queueId", "physicalOffset", "previousPhysicalOffset")
    assert {tuple(row[name] for name in names) for row in found} == wanted
    assert len(found) == len(wanted)
    assert {key: seen.last[1] for key, seen in state.queues.items() if key[0] is not None} == last
    assert state.queues[None, -1].first[1] == 0
    assert state.queues[None, -1].last[1] == len(rows) - 1


def test_times_as_numbers() -> None:
    from rmq_columns.read.schema import TIME
    from rmq_spark.jobs.order_scan import _text

    assert _text(pa.array([1_760_000_000_123_000, None], TIME)).to_pylist() == ["1760000000123", None]
    assert _text(pa.array(["7", None])).to_pylist() == ["7", None]
