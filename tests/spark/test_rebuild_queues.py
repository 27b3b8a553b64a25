"""The job rebuild-queues: in tasks, from splits of any size, the queues that the broker had."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pyarrow as pa
import pytest

from rmq_columns.decode.dtypes import BATCH_UNIT
from rmq_spark.jobs import Source
from tests.support.logs import QUEUE_OFFSET_AT, write_behind, write_log
from tests.support.queue_files import files_of, store_of
from tests.support.stores import spoil

pytest.importorskip("pyspark", reason="needs PySpark: the extra [spark]")
from planted_stores.generate import Wanted, generate
from planted_stores.plan import Sizes
from rmq_columns import BadOption, CannotRead
from rmq_spark.jobs import rebuild_queues as job
from rmq_spark.jobs import rebuild_rounds
from rmq_spark.session import silent

SPLIT = {"splitBytes": "20000"}


def given(to: Path | str, **more: Any) -> dict[str, Any]:
    return job.JOB.arguments({"to": to, **more})[0]


SHUFFLE = "shuffle"
WAYS = (None, "TASKS_TAKEN_MAX", "RUNS_TAKEN_MAX", SHUFFLE)
"""Runs come to the driver straight from the tasks; counted first; or, being too many, put together by Spark; all units meet."""


def by_shuffle(spark: Any, source: Source, asked: dict[str, Any], progress: Any) -> Any:
    return rebuild_rounds.build(spark, source, {**asked, "shuffle": True}, progress)


def narrowed(patch: pytest.MonkeyPatch, way: str | None) -> None:
    if way == SHUFFLE:
        patch.setattr(job, "build", by_shuffle)
    elif way is not None:
        patch.setattr(rebuild_rounds, way, 0)


def figures(outcome: Any) -> dict[str, Any]:
    return {one.name: one.value for one in outcome.figures}


@pytest.mark.parametrize("way", WAYS)
def test_queues_of_the_real_broker(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str | None) -> None:
    """Batch queues, extensions and delayed messages among them; put together on the driver, or by Spark."""
    narrowed(monkeypatch, way)
    store = store_of("batch", tmp_path / "store")
    outcome = job.run(spark, Source((str(store),), SPLIT), given(tmp_path / "to", compare=True), silent)
    assert files_of(tmp_path / "to") == files_of(store)
    assert outcome.is_clean, outcome.verdict
    assert outcome.verdict.endswith("equal to the store's")
    assert figures(outcome)["differentQueues"] == 0
    assert figures(outcome)["comparedQueues"] == figures(outcome)["queues"] == outcome.frames["queues"].count()
    json.dumps(outcome.as_json())


def test_goes_on_where_it_was_interrupted(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the first start had written is not read again: the log has been ruined since, and nobody sees that."""
    store, to = store_of("plain", tmp_path / "store"), tmp_path / "to"
    with monkeypatch.context() as patch:
        patch.setattr("rmq_columns.rebuild.work.take_rows", MagicMock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            job.run(spark, Source((str(store),), SPLIT), given(to), silent)
    wanted = files_of(store)
    log = min((store / "commitlog").iterdir())
    written = log.stat()
    spoil(log, 1000, bytes(5000))
    os.utime(log, ns=(written.st_atime_ns, written.st_mtime_ns))
    assert sorted(one.name for one in to.iterdir()) == ["rebuilt-queues.json", "unfinished"]
    outcome = job.run(spark, Source((str(store),), SPLIT), given(to), silent)
    assert figures(outcome)["damagedBytes"] == 0
    assert files_of(to) == wanted
    again = job.run(spark, Source((str(store),), SPLIT), given(to), silent)
    assert figures(again)["damagedBytes"] > 0, "of another start all is read"


def test_as_a_function(spark: Any, tmp_path: Path) -> None:
    store = store_of("mix", tmp_path / "store")
    rows = job.rebuild_queues(spark, str(store), to=str(tmp_path / "to"), splitBytes=20000).collect()
    files = {name.rpartition("/")[0] for name in files_of(tmp_path / "to")}
    assert {f"consumequeue/{row.topic}/{row.queueId}" for row in rows} == files
    assert all(row.lastOffset - row.firstOffset + 1 == row.units > 0 for row in rows)
    found = job.comparison(spark, str(store), to=str(tmp_path / "to")).groupBy("outcome").count().collect()
    assert {row.outcome for row in found} == {"equal", "deleted topic"}


def test_generated_store(spark: Any, tmp_path: Path) -> None:
    sizes = Sizes()
    made = generate(tmp_path / "gen", Wanted(4 << 20, sizes=sizes, with_index=False, with_sent=False))
    outcome = job.run(spark, Source((str(made.store),), {"splitBytes": "1m"}), given(tmp_path / "to", compare=True), silent)
    assert outcome.is_clean, outcome.verdict
    assert files_of(tmp_path / "to") == files_of(made.store)


def test_topics_that_were_made_again(spark: Any, tmp_path: Path) -> None:
    """A queue that begins anew in the log, in another split than it began in first: its last life counts."""
    store = tmp_path / "store"
    log = write_behind(write_log(store, [b"a" * 300] * 40, queue=False), [b"b" * 300] * 12)
    for way in WAYS:
        with pytest.MonkeyPatch.context() as patch:
            narrowed(patch, way)
            [row] = job.rebuild_queues(
                spark, str(store), to=str(tmp_path / "to"), splitBytes=4096, queue_file_bytes=200, mode="PERMISSIVE"
            ).collect()
        assert (row.units, row.lives, row.firstOffset, row.lastOffset) == (12, 2, 0, 11)
        assert (row.breaks, row.dropped) == (0, 40)
        units = b"".join(files_of(tmp_path / "to").values())
        places = [int.from_bytes(units[at : at + 8], "big") for at in range(0, 240, 20)]
        assert places == log.places
        assert not any(units[240:])


def test_damage_is_reported(spark: Any, tmp_path: Path) -> None:
    log = write_log(tmp_path / "store", [b"%d" % number for number in range(20)], file_bytes=1 << 16)
    spoil(log.files[0], log.places[7] + 4, b"\0\0\0\0")
    outcome = job.run(spark, Source((str(tmp_path / "store"),)), given(tmp_path / "to", compare=True), silent)
    assert not outcome.is_clean
    reported = figures(outcome)
    assert (reported["bridgedUnits"], reported["damagedBytes"]) == (1, log.places[8] - log.places[7])
    [row] = outcome.tables[0].rows
    assert (
        dict(zip([one.name for one in outcome.tables[0].columns], row, strict=True)).items()
        >= {
            "topic": "T",
            "queueId": 0,
            "outcome": "different",
            "differentUnits": 20,
            "firstDifferentOffset": 0,
            "field": "tags_code",
        }.items()
    )


@pytest.mark.parametrize("way", WAYS)
def test_batches_that_go_back_keep_what_is_before(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str | None
) -> None:
    narrowed(monkeypatch, way)
    log = write_log(tmp_path / "store", [b"%d" % number for number in range(20)], file_bytes=1 << 16)
    spoil(log.files[0], log.places[19] + QUEUE_OFFSET_AT, (3).to_bytes(8, "big"))
    source = Source((str(tmp_path / "store"),), {"splitBytes": "1000"})
    outcome = job.run(spark, source, given(tmp_path / "to", batch_topic=["T"]), silent)
    made = np.fromfile(next((tmp_path / "to" / "batchconsumequeue" / "T" / "0").iterdir()), BATCH_UNIT, 5)
    assert made["physical_offset"].tolist() == [*log.places[:3], log.places[19], 0]
    assert made["base_offset"].tolist() == [0, 1, 2, 3, 0]
    assert outcome.verdict == "1 queues with 4 units; 1 queue(s) begin anew elsewhere than at offset 0"


@pytest.mark.parametrize("way", WAYS)
def test_one_wild_offset_is_reported(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str | None) -> None:
    """Half of the queue is left out, as a broker would: that is not clean."""
    narrowed(monkeypatch, way)
    log = write_log(tmp_path / "store", [b"%d" % number for number in range(20)], file_bytes=1 << 16)
    spoil(log.files[0], log.places[7] + QUEUE_OFFSET_AT, (1 << 40).to_bytes(8, "big"))
    outcome = job.run(spark, Source((str(tmp_path / "store"),)), given(tmp_path / "to"), silent)
    assert not outcome.is_clean
    assert outcome.verdict == "1 queues with 12 units; 1 queue(s) begin anew elsewhere than at offset 0"
    assert figures(outcome)["brokenQueues"] == 1
    table = next(one for one in outcome.tables if one.name == "broken")
    assert table.is_finding
    [row] = [dict(zip([one.name for one in table.columns], row, strict=True)) for row in table.rows]
    assert row == {
        "brokerName": tmp_path.name,
        "topic": "T",
        "queueId": 0,
        "bridged": 0,
        "lives": 3,
        "breaks": 2,
        "dropped": 8,
        "breakPhysicalOffset": log.places[7],
        "firstOffset": 8,
        "lastOffset": 19,
    }
    [frame] = outcome.frames["queues"].collect()
    assert (frame.lives, frame.breaks, frame.dropped) == (3, 2, 8)


def test_a_task_that_does_not_see_the_directory(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The workers of these tests have another working directory than the driver; a relative one is the driver's."""
    store = store_of("plain", tmp_path / "store")
    monkeypatch.chdir(tmp_path)
    job.rebuild_queues(spark, str(store), to="to", **SPLIT)
    assert files_of(tmp_path / "to") == files_of(store)


def test_refused(spark: Any, tmp_path: Path) -> None:
    store = store_of("plain", tmp_path / "store")
    with pytest.raises(BadOption, match="to:"):
        job.rebuild_queues(spark, str(store))
    with pytest.raises(BadOption, match="delay_levels"):
        job.rebuild_queues(spark, str(store), to=str(tmp_path / "to"), delay_levels="5 minutes")
    with pytest.raises(CannotRead, match="object store"):
        job.rebuild_queues(spark, str(store), to="s3://bucket/queues")
    with pytest.raises(CannotRead, match="within it"):
        job.rebuild_queues(spark, str(store), to=str(store / "queues"))


def test_a_run_that_failed_goes_on(spark: Any, tmp_path: Path) -> None:
    """By a shuffle: files that are there as they should be stay, one of the same size with something else in it is put anew."""
    store, to = store_of("plain", tmp_path / "store"), tmp_path / "to"

    def end(*_: Any) -> None:
        raise OSError("planted")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rmq_spark.jobs.rebuild_directory.end", end)
        with pytest.raises(OSError, match="planted"):
            job.rebuild_queues(spark, str(store), to=str(to), shuffle=True, **SPLIT)
    gone, other, *kept = sorted(path for path in to.rglob("0*") if path.is_file())
    gone.unlink()
    other.write_bytes(bytes(other.stat().st_size))
    before = {path: path.stat().st_ino for path in kept}
    job.rebuild_queues(spark, str(store), to=str(to), shuffle=True, **SPLIT)
    assert files_of(to) == files_of(store)
    assert {path: path.stat().st_ino for path in kept} == before, "none of them was put again"
    assert json.loads((to / "rebuilt-queues.json").read_text())["complete"]


ONE_FILE = "consumequeue/T/0/00000000000000000000"


def writing(to: str, run: str, units: int, *, may_be_there: bool = False) -> Any:
    """A task that has all pieces of a file of a hundred units, some of them written."""
    from rmq_spark.jobs.rebuild_shuffle import Writing

    made = Writing((to, run, may_be_there))
    columns = {"file": [ONE_FILE], "fileBytes": [2_000], "at": [0], "data": [b"u" * 20 * units]}
    made.take(pa.record_batch(columns))
    return made


def written_in(to: str) -> int:
    """Units in the file."""
    from rmq_columns.export.destination import destination

    return (destination(to).read(ONE_FILE) or b"").count(b"u" * 20)


def second_start(to: str) -> None:
    """A whole one, of a log that has grown."""
    from rmq_spark.jobs.rebuild_directory import begin, end

    begin(to, "second", [""])
    list(writing(to, "second", 60).end())
    end(to, "second", [ONE_FILE])


def second_start_before(patch: pytest.MonkeyPatch, owner: type, method: str, to: str) -> None:
    """Whoever calls this method next goes on when the second start is through."""
    real = getattr(owner, method)

    def late(*arguments: Any) -> Any:
        patch.setattr(owner, method, real)
        second_start(to)
        return real(*arguments)

    patch.setattr(owner, method, late)


@pytest.mark.parametrize("scheme", ["", "memory://"])
def test_a_file_of_an_earlier_run_is_none_of_this_one(tmp_path: Path, scheme: str) -> None:
    """The log has grown, or was written anew, and the run after the one that failed is to make the same: sizes are equal."""
    from rmq_spark.jobs.rebuild_directory import begin, end

    if scheme:
        pytest.importorskip("fsspec")
    to = f"{scheme}{tmp_path}/to"
    assert not begin(to, "first", [""])
    list(writing(to, "first", 30).end())
    end(to, "first", [ONE_FILE])
    for run in ("second", "third"):
        assert begin(to, run, [""])
    list(writing(to, "third", 60, may_be_there=True).end())
    end(to, "third", [ONE_FILE])
    assert written_in(to) == 60


def test_a_lost_task_of_an_earlier_start_puts_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stands before the file gets its name; the log grows, and a new start makes all files and ends."""
    from rmq_columns.export.sinks import LocalSink
    from rmq_spark.jobs.rebuild_directory import begin

    to = str(tmp_path / "to")
    begin(to, "first", [""])
    second_start_before(monkeypatch, LocalSink, "appear", to)
    with pytest.raises(CannotRead, match="another start took this directory over"):
        list(writing(to, "first", 30).end())
    assert written_in(to) == 60
    assert json.loads((tmp_path / "to" / "rebuilt-queues.json").read_text())["run"] == "second"
    assert not list((tmp_path / "to").rglob(".*.part"))


def test_a_start_that_stalls_ends_nothing_of_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has listed what is there, and goes on when another start is through."""
    from rmq_columns.export.destination import LocalDestination
    from rmq_spark.jobs.rebuild_directory import begin, end

    to = str(tmp_path / "to")
    begin(to, "first", [""])
    second_start_before(monkeypatch, LocalDestination, "walk", to)
    with pytest.raises(CannotRead, match="another start took this directory over"):
        end(to, "first", [])
    assert written_in(to) == 60
    marked = json.loads((tmp_path / "to" / "rebuilt-queues.json").read_text())
    assert (marked["run"], marked["complete"]) == ("second", True)


def test_who_died_as_he_began_keeps_nobody_out(tmp_path: Path) -> None:
    """Half of the first mark, under its hidden name."""
    from rmq_spark.jobs.rebuild_directory import begin

    (tmp_path / ".rebuilt-queues.json.0a1b2c3d.part").write_bytes(b"{")
    assert not begin(str(tmp_path), "second", [""])
    assert [path.name for path in tmp_path.iterdir()] == ["rebuilt-queues.json"]


def test_to_s3(spark: Any, tmp_path: Path, bucket: str) -> None:
    """One object for each file; those of an earlier run that this one does not make go."""
    from rmq_columns.export.destination import destination

    store = store_of("batch", tmp_path / "store")
    to = bucket.format("queues")
    there = destination(to)
    there.put("rebuilt-queues.json", b'{"made": ["consumequeue"], "complete": true, "run": ""}')
    there.put("consumequeue/Old/0/00000000000000000000", b"old")
    with pytest.raises(BadOption, match="compare: of queues on a disk only"):
        job.comparison(spark, str(store), to=to, shuffle=True)
    outcome = job.run(spark, Source((str(store),), SPLIT), given(to, shuffle=True), silent)
    assert outcome.is_clean
    names = [name for name, _ in there.walk() if name != "rebuilt-queues.json"]
    assert {name: there.read(name) for name in names} == files_of(store)


def test_whoever_is_at_work_is_asked(tmp_path: Path) -> None:
    """A task of a start that another took over writes nothing; nor is a directory taken that is somebody else's."""
    from rmq_spark.jobs.rebuild_directory import begin, end
    from rmq_spark.jobs.rebuild_shuffle import Writing

    to = str(tmp_path / "to")
    for run in ("first", "second"):
        begin(to, run, [""])
    late = Writing((to, "first", False))
    late.take(pa.record_batch({"file": ["consumequeue/T/0/0"], "fileBytes": [40], "at": [20], "data": [b"x" * 20]}))
    with pytest.raises(CannotRead, match="another start took this directory over"):
        list(late.end())
    with pytest.raises(CannotRead, match="another start"):
        end(to, "first", [])
    with pytest.raises(CannotRead, match="not there, although a task wrote it"):
        end(to, "second", ["consumequeue/T/0/0"])
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes").touch()
    with pytest.raises(CannotRead, match="is not empty, and nothing that an earlier run made: notes"):
        begin(str(tmp_path / "other"), "first", [""])
