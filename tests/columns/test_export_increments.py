"""Increments: each broker's log goes on where its last sound message ended, and what was exported is never given up."""

from __future__ import annotations

import json
import shutil
import weakref
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

from rmq_columns import Options, SeamMismatch, parse_options, plan_splits, read_split
from rmq_columns.export import manifest as parquet_manifest
from rmq_columns.export import parquet as parquet_export
from rmq_columns.export.manifest import CannotExport, TakenOver
from rmq_columns.export.options import FileOptions
from rmq_columns.export.parquet import export_split, export_store, finish, prepare
from tests.columns.courses import DAY_MS, FILE_BYTES, Broker
from tests.support.exports import data_files, exported, forged_log, stopped_at, stored
from tests.support.logs import OWN_OFFSET_AT, unit
from tests.support.loops import each, strided

FILES = FileOptions()


def broker(root: Path, count: int, seed: int = 1) -> Broker:
    made = Broker(root, Random(seed))
    made.append(count)
    return made


def options_of(*roots: Path, **options: Any) -> Options:
    given = {"paths": [str(root) for root in roots], "mode": "PERMISSIVE", "splitBytes": FILE_BYTES, "blockBytes": 1024}
    return parse_options(given | options)


def bodies(to: Path) -> list[bytes]:
    return sorted(row["body"] for row in exported(to))


def bodies_of(*brokers: Broker) -> list[bytes]:
    return sorted(body for one in brokers for body in one.units.values())


def test_a_new_broker_begins_at_its_beginning(tmp_path: Path) -> None:
    """Also when the others are far ahead of its first file."""
    brokers = [broker(tmp_path / "in" / "a", 80), broker(tmp_path / "in" / "b", 60)]
    to, options = tmp_path / "out", options_of(tmp_path / "in")
    export_store(str(to), options, FILES)
    brokers.append(broker(tmp_path / "in" / "c", 30))
    assert min(max(one.units) for one in brokers[:2]) > FILE_BYTES < brokers[2].end
    export_store(str(to), options, FILES, increment=True)
    assert bodies(to) == bodies_of(*brokers)


def test_a_new_broker_and_the_users_range(tmp_path: Path) -> None:
    """Its beginning is the one that was asked for."""
    first = broker(tmp_path / "in" / "a", 80)
    to, options = tmp_path / "out", options_of(tmp_path / "in", startingPhysicalOffset=FILE_BYTES + 1)
    export_store(str(to), options, FILES)
    second = broker(tmp_path / "in" / "b", 60)
    export_store(str(to), options, FILES, increment=True)
    assert bodies(to) == sorted(body for one in (first, second) for place, body in one.units.items() if place >= FILE_BYTES + 1)


def test_a_torn_end_that_recovers(tmp_path: Path) -> None:
    """The message that comes to stand in its place is exported; what was torn is shown once."""
    one = broker(tmp_path / "a", 20)
    to, options = tmp_path / "out", options_of(one.root)
    one.tear()
    torn = one.end
    assert export_store(str(to), options, FILES).corrupt_rows == 1
    assert export_store(str(to), options, FILES, increment=True).corrupt_rows == 1
    one.append(10)
    assert torn in one.units
    assert export_store(str(to), options, FILES, increment=True).corrupt_rows == 1
    assert bodies(to) == bodies_of(one)
    assert [row["physicalOffset"] for row in exported(to, corrupt=True)] == [torn]


def test_a_message_that_claims_a_place_far_away(tmp_path: Path) -> None:
    """It is no sound one: the next increment does not begin there."""
    one = broker(tmp_path / "a", 10)
    at = one.end
    strange = unit(1 << 40, b"strange")
    one._put(at, strange)
    one.end = at + len(strange)
    one.save()
    to, options = tmp_path / "out", options_of(one.root)
    assert export_store(str(to), options, FILES).corrupt_rows == 1
    one.append(30)
    assert export_store(str(to), options, FILES, increment=True).corrupt_rows == 1
    assert bodies(to) == bodies_of(one)


def test_a_name_that_another_broker_has(tmp_path: Path) -> None:
    """The log is known by where it lies: the name under which it was exported stays, the new one gets another."""
    first = broker(tmp_path / "one" / "a", 20)
    broker(tmp_path / "two" / "b", 5)
    to, options = tmp_path / "out", options_of(tmp_path / "one", tmp_path / "two")
    export_store(str(to), options, FILES)
    second = broker(tmp_path / "two" / "a", 15, seed=2)
    first.append(10)
    export_store(str(to), options, FILES, increment=True)
    rows = exported(to)
    assert sorted(row["body"] for row in rows if row["brokerName"] == "a") == bodies_of(first)
    assert sorted(row["body"] for row in rows if row["brokerName"] == str(tmp_path / "two" / "a")) == bodies_of(second)
    shutil.rmtree(tmp_path / "one" / "a")
    broker(tmp_path / "one" / "z", 3)
    second.append(5)
    export_store(str(to), options, FILES, increment=True)  # now it alone would be called `a`
    assert sorted(row["body"] for row in exported(to) if row["brokerName"] == "a") == bodies_of(first)


def test_a_directory_that_was_renamed(tmp_path: Path) -> None:
    """The log is known by its messages where it lies elsewhere now."""
    one, other = broker(tmp_path / "in" / "a", 20), broker(tmp_path / "in" / "b", 20, seed=2)
    to, options = tmp_path / "out", options_of(tmp_path / "in")
    export_store(str(to), options, FILES)
    one.root = one.root.rename(tmp_path / "in" / "z")
    for count in (0, 10, 0, 10):
        one.append(count)
        other.append(count)
        export_store(str(to), options, FILES, increment=True)
        assert bodies(to) == bodies_of(one, other)
        assert {row["brokerName"] for row in exported(to)} == {"a", "b"}


def test_a_log_that_is_not_there_at_the_moment(tmp_path: Path) -> None:
    """A disk that is not mounted is no log whose files retention has removed."""
    one = broker(tmp_path / "a", 40)
    to, options = tmp_path / "out", options_of(one.root)
    prepared = prepare(str(to), options, FILES)
    export_split(prepared.job, prepared.todo[0])
    away = one.root.rename(tmp_path / "away")
    for attempt in (lambda: export_split(prepared.job, prepared.todo[1]), lambda: export_store(str(to), options, FILES)):
        with pytest.raises(CannotExport, match="the log is not where it was"):
            attempt()
    away.rename(one.root)
    export_store(str(to), options, FILES)
    assert bodies(to) == bodies_of(one)


# --- what goes away


def test_a_directory_that_was_removed_and_a_log_that_is_gone(tmp_path: Path) -> None:
    """That is said, nothing else is touched, and with the directory back in its place it goes on."""
    one = broker(tmp_path / "a", 60)
    to, options = tmp_path / "out", options_of(one.root)
    export_store(str(to), options, FILES)
    day = sorted(to.glob("brokerName=a/date=*"))[0]
    shutil.move(day, tmp_path / "kept")
    one.retain(2)
    one.append(5)
    before = {path: path.read_bytes() for path in to.rglob("*") if path.is_file() and path.name != "run.json"}
    with pytest.raises(CannotExport, match=r"date=.*part-00000.* is gone or was changed, and so is the log .*/0{20}\. "):
        export_store(str(to), options, FILES, increment=True)
    assert {path: path.read_bytes() for path in to.rglob("*") if path.is_file() and path.name != "run.json"} == before
    shutil.move(tmp_path / "kept", day)
    export_store(str(to), options, FILES, increment=True)
    assert set(bodies(to)) == one.seen
    assert len(bodies(to)) == len(one.seen)


def test_a_directory_that_was_removed_for_good(tmp_path: Path) -> None:
    """Its messages stay away, whether the log has them or not; everything else goes on."""
    one = broker(tmp_path / "a", 60)
    to, options = tmp_path / "out", options_of(one.root)
    export_store(str(to), options, FILES)
    one.append(20)
    export_store(str(to), options, FILES, increment=True)
    days = sorted(to.glob("brokerName=a/date=*"))
    gone = {row["body"] for row in exported(to) if f"{row['storeTimestamp']:%Y-%m-%d}" in {day.name[5:] for day in days[:2]}}
    for day in days[:2]:
        shutil.rmtree(day)
    one.retain(7)
    one.append(10)
    done = export_store(str(to), options, FILES, increment=True, pruned=True)
    assert set(bodies(to)) == one.seen - gone
    assert done.rows == len(bodies(to)) == len(one.seen) - len(gone)
    export_store(str(to), options, FILES, increment=True)
    assert set(bodies(to)) == one.seen - gone
    several = next(day for day in sorted(to.glob("brokerName=a/date=*")) if len(list(day.iterdir())) > 1)
    sorted(several.iterdir())[0].unlink()  # a file is no directory: this was not meant
    with pytest.raises(CannotExport, match="and so is the log"):
        export_store(str(to), options, FILES, increment=True, pruned=True)


def test_a_file_that_is_made_again_has_what_it_had(tmp_path: Path) -> None:
    """Of the log's end, behind which another increment began."""
    one = broker(tmp_path / "a", 10)
    to, options = tmp_path / "out", options_of(one.root, splitBytes="1m")
    export_store(str(to), options, FILES)
    first = data_files(to)[-1]
    one.append(8)
    export_store(str(to), options, FILES, increment=True)
    (to / first).unlink()
    export_store(str(to), options, FILES)
    assert bodies(to) == bodies_of(one)


def test_a_log_that_was_cut_off_behind_what_was_exported(tmp_path: Path) -> None:
    """Messages of a broker's other life at the same places are no increment."""
    one = broker(tmp_path / "a", 30)
    to, options = tmp_path / "out", options_of(one.root)
    export_store(str(to), options, FILES)
    shutil.rmtree(one.root)
    other = broker(tmp_path / "a", 60, seed=9)
    before = bodies(to)
    with pytest.raises(CannotExport, match="the message any more that was exported from here"):
        export_store(str(to), options, FILES, increment=True)
    shutil.rmtree(other.root)
    broker(tmp_path / "a", 2, seed=9)
    with pytest.raises(CannotExport, match="the message any more that was exported from here"):
        export_store(str(to), options, FILES, increment=True)
    assert bodies(to) == before


def test_files_outside_the_range_of_time_are_not_missing(tmp_path: Path) -> None:
    """Nothing of them was taken, though the empty file behind them is looked at."""
    one = broker(tmp_path / "a", 20)
    to, options = tmp_path / "out", options_of(one.root, endingTimestamp=str(40 * DAY_MS // 20))
    export_store(str(to), options, FILES)
    for _ in range(3):
        one.append(40)
        one.open_next()
        assert export_store(str(to), options, FILES, increment=True).corrupt_rows == 0
    assert bodies(to) == sorted(body for body in one.units.values() if int(body.split()[1]) < 40)


def displace(one: Broker, number: int, by: int) -> Path:
    """The units of one file of a log say that they are elsewhere."""
    start = sorted(one.files)[number]
    for at in (place for place in one.units if start <= place < start + FILE_BYTES):
        own = slice(at - start + OWN_OFFSET_AT, at - start + OWN_OFFSET_AT + 8)
        one.files[start][own] = (at + by).to_bytes(8, "big")
    one.save()
    return one.root / "commitlog" / f"{start:020}"


@pytest.mark.parametrize("by", [1 << 30, -FILE_BYTES])
def test_a_file_that_lies_at_the_wrong_place(tmp_path: Path, by: int) -> None:
    """What its units say of their places says nothing of how far the log is exported."""
    one = broker(tmp_path / "a", 80)
    displace(one, 2, by)
    to, options = tmp_path / "out", options_of(one.root, splitBytes=10 * FILE_BYTES)
    export_store(str(to), options, FILES)
    for _ in range(2):
        one.append(30)
        export_store(str(to), options, FILES, increment=True)
        assert bodies(to) == bodies_of(one)
    gone = next(path for path in to.rglob("part-00001-*.parquet"))
    gone.unlink()
    export_store(str(to), options, FILES)  # made again as it was
    assert bodies(to) == bodies_of(one)


def test_a_file_at_the_wrong_place_of_which_nobody_knows_what_came_since(tmp_path: Path) -> None:
    """Nothing is left out silently, nor exported twice."""
    one = broker(tmp_path / "a", 80)
    to, options = tmp_path / "out", options_of(one.root)
    export_store(str(to), options, FILES)
    before = bodies(to)
    one.append(60)
    displace(one, -3, -10 * FILE_BYTES)
    with pytest.raises(CannotExport, match="they are elsewhere in the log"):
        export_store(str(to), options, FILES, increment=True)
    assert bodies(to) == before
    displace(one, -1, 1 << 30)
    export_store(str(tmp_path / "new"), options, FILES)
    assert bodies(tmp_path / "new") == bodies_of(one)
    with pytest.raises(CannotExport, match="they are elsewhere in the log"):
        export_store(str(tmp_path / "new"), options, FILES, increment=True)


def test_what_retention_took_before_it_was_exported_is_reported(tmp_path: Path) -> None:
    one = broker(tmp_path / "a", 20)
    to, options = tmp_path / "out", options_of(one.root)
    export_store(str(to), options, FILES)
    end = one.end
    one.append(60)
    one.retain(4)
    assert export_store(str(to), options, FILES, increment=True).corrupt_rows == 1
    assert export_store(str(to), options, FILES, increment=True).corrupt_rows == 1
    [row] = exported(to, corrupt=True)
    assert (row["physicalOffset"], row["storeSize"]) == (end, min(one.files) - end)
    assert "no file" in row["_corrupt"]
    assert set(bodies_of(one)) < set(bodies(to))


# --- two starts at once


class TwoStarts:
    """Before some step of one start another begins and ends, while the log grows: one plan counts, and no row is there twice."""

    def __init__(self, tmp_path: Path) -> None:
        self.path = tmp_path
        self.steps = self.meet(1 << 30)

    def meet(self, number: int) -> list[str]:
        """The steps of the first; the other comes before that one."""
        one = broker(self.path / str(number) / "a", 15)
        to, options = self.path / f"out-{number}", options_of(one.root)

        def other() -> None:
            one.append(8)
            export_store(str(to), options, FILES)

        with stopped_at(number, other) as steps, suppress(TakenOver):
            export_store(str(to), options, FILES)
        kept = bodies(to) if (to / "_SUCCESS").exists() else []
        export_store(str(to), options, FILES, increment=True)
        export_store(str(to), options, FILES, increment=True)
        assert bodies(to) == bodies_of(one)
        assert set(kept) <= set(bodies(to))
        return steps


def test_two_first_starts_at_once(tmp_path: Path) -> None:
    two = TwoStarts(tmp_path)
    assert len(two.steps) > 20
    kinds = [two.steps.index(kind) for kind in set(two.steps)]
    each(strided(range(len(two.steps)), 6, kinds), two.meet)


@pytest.mark.nightly
def test_two_first_starts_at_any_step(tmp_path: Path) -> None:
    two = TwoStarts(tmp_path)
    each(range(len(two.steps)), two.meet)


def test_a_plan_that_was_made_before_ours_is_seen(tmp_path: Path) -> None:
    """Another start plans, exports and ends between the moment when we look and the moment when our plan is written."""
    one = broker(tmp_path / "a", 40)
    to, options = tmp_path / "out", options_of(one.root)

    def other() -> None:
        export_store(str(to), options, FILES)
        one.retain(2)

    with stopped_at(0, other):
        prepared = prepare(str(to), options, FILES)
    assert data_files(to)
    assert not prepared.todo
    finish(prepared)
    assert set(bodies(to)) == one.seen


# --- forged cuts


def test_a_forged_cut_is_cut_anew(tmp_path: Path) -> None:
    """A body in which units stand that say where they are: the file is exported as one split, without being asked."""
    log = forged_log(tmp_path / "a")
    options = options_of(log.root, splitBytes=1500, splitStrategy="magic")
    with pytest.raises(SeamMismatch):
        [batch for split in plan_splits(options) for batch in read_split(split)]
    to = tmp_path / "out"
    prepared = prepare(str(to), options, FILES)
    for one in reversed(prepared.todo):
        try:
            export_split(prepared.job, one)
        except SeamMismatch:
            continue
    assert parquet_export.is_torn(prepared)
    done = export_store(str(to), options, FILES)
    assert [row["physicalOffset"] for row in exported(to)] == log.places
    assert exported(to) == stored(log.root)
    assert done.splits < len(prepared.todo)
    export_store(str(to), options, FILES, increment=True)
    assert exported(to) == stored(log.root)
    assert export_store(str(tmp_path / "again"), options, FILES).rows == len(log.places)


def test_how_a_file_is_cut_may_differ_at_the_next_start(tmp_path: Path) -> None:
    one = broker(tmp_path / "a", 40)
    to = tmp_path / "out"
    prepared = prepare(str(to), options_of(one.root), FILES)
    export_split(prepared.job, prepared.todo[0])
    export_store(str(to), options_of(one.root, splitStrategy="file", splitBytes="1g"), FILES)
    assert bodies(to) == bodies_of(one)


# --- memory


def test_few_entries_are_in_memory_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many files there are."""
    one = broker(tmp_path / "a", 200)
    to, options = tmp_path / "out", options_of(one.root, splitBytes=600)
    prepared = prepare(str(to), options, FILES)
    for split in prepared.todo:
        export_split(prepared.job, split)
    held: list[Any] = []
    most = [0]
    read = parquet_manifest.read_entry

    def reading(*given: Any) -> Any:
        found = read(*given)
        held.append(weakref.ref(found))
        most[0] = max(most[0], sum(one() is not None for one in held))
        return found

    monkeypatch.setattr(parquet_manifest, "read_entry", reading)
    monkeypatch.setattr(parquet_manifest, "CHUNK", 4)
    monkeypatch.setattr(parquet_manifest, "at_once", lambda what, inputs: list(map(what, inputs)))
    done = finish(prepared)
    assert done.summary.splits > 40
    assert most[0] <= 2 * 4  # two portions, as one follows the other
    lines = (to / "_manifest" / "manifest.jsonl").read_text().splitlines()
    assert [json.loads(line)["split"] for line in lines] == list(range(len(lines)))
