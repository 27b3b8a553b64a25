"""Index entries and keys that meet by stretches of the log: as who reads the log with the index at hand finds it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from planted_stores.faults import KINDS
from planted_stores.generate import Wanted, generate
from planted_stores.plan import Sizes
from rmq_columns import parse_options
from rmq_columns.checks import meeting
from rmq_columns.checks.findings import Findings
from rmq_columns.checks.index import IndexState, IndexTold
from rmq_columns.checks.log import check_log
from rmq_columns.checks.meeting import Located, meet_keys, stretches, take
from rmq_columns.checks.report import LogPart, LogReport
from rmq_columns.checks.scope import Scope
from rmq_columns.checks.trees import listed_stores
from rmq_columns.checks.whole import Whole

OF_INDEX = {"index-missing", "index-wrong", "index-time"}
SIZES = Sizes(log_file_bytes=1 << 20, queue_file_bytes=4000, hash_slots=500, index_entries=2000)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("index")
    faults = {kind: 3 for kind in KINDS if kind.startswith("index-")} | {"corrupt-magic": 2}
    generate(root, Wanted(3 << 20, 128, faults=faults, sizes=SIZES))
    return root / "store"


def whole_of(store: Path) -> Whole:
    [listed] = listed_stores(parse_options({"path": str(store)}))
    whole = Whole(listed.files, Scope(with_queues=False), listed.condition, Findings(), [])
    whole.look_at_log_files()
    whole.take_index([task.check() for task in whole.index_tasks()])
    return whole


def logs(whole: Whole, known: Any) -> list[LogReport]:
    return [check_log(LogPart(file, file is whole.log[-1]), known) for file in whole.log]


def counts(reports: list[LogReport]) -> dict[tuple[str, str], int]:
    found: dict[tuple[str, str], int] = defaultdict(int)
    for report in reports:
        for (code, file), count in report.findings.counts.items():
            found[code, file] += count
    return dict(found)


@pytest.mark.parametrize("stretch", [32 << 20, 1 << 20, 5000])
def test_as_with_the_index_at_hand(store: Path, stretch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meeting, "STRETCH_BYTES", stretch)
    whole = whole_of(store)
    near = logs(whole, whole.known())
    known = replace(whole.known(), index=[], queue_file_bytes=20)
    far = logs(whole, known)
    assert {code for code, _ in counts(far)} & OF_INDEX == set()
    entries, rows = defaultdict(list), defaultdict(list)
    for task in whole.index_tasks():
        state = IndexState(task.file)
        for number, offsets in task.walked(state, Findings()):
            assert state.geometry is not None
            for at, first, behind in stretches(number, offsets):
                entries[at].append((Located(task.file, state.geometry, state.begin_timestamp), first, behind))
    for report in far:
        for at, low, high, held in report.keys:
            rows[at].append((report.start, report.begin, low, high, held))
    for at, own in rows.items():
        for (start, _), found in meet_keys(entries[at], own, known).items():
            take(next(one for one in far if one.start == start), found)
    assert counts(far) == counts(near)
    assert {code for code, _ in counts(near)} & OF_INDEX
    for name in ("index_waiting", "index_before", "without_tag_entries"):
        assert [getattr(one, name) for one in far] == [getattr(one, name) for one in near]


def test_what_is_told_of_index_files_adds_up(store: Path) -> None:
    """In any order, of any share of them: nothing of a single file is needed."""
    whole = whole_of(store)
    assert len(whole.index) > 5
    parts = [IndexTold(), IndexTold()]
    for number, state in enumerate(reversed(whole.index)):
        parts[number % 2].take(state)
    parts[0].merge(parts[1])
    assert parts[0] == whole.index_told
    assert whole.index_entries == sum(state.count - 1 for state in whole.index)


def test_the_oldest_files_that_are_gone_have_expired(store: Path) -> None:
    whole = whole_of(store)
    told = IndexTold()
    for number, state in enumerate(whole.index):
        told.take(replace(state, is_gone=number in (0, 1, 3)))
    assert told.expired() == [one.file.name for one in whole.index[:2]]
