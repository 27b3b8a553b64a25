"""The job rebuild-queues: in tasks, from splits of any size, the queues that the broker had."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
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
from rmq_spark.arguments import arguments_of
from rmq_spark.jobs import rebuild_queues as job
from rmq_spark.jobs import rebuild_rounds
from rmq_spark.session import silent

SPLIT = {"splitBytes": "20000"}


def given(to: Path, **more: Any) -> dict[str, Any]:
    return arguments_of(job.PARAMETERS, {"to": to, **more})[0]


WAYS = (None, "TASKS_TAKEN_MAX", "RUNS_TAKEN_MAX")
"""Runs come to the driver straight from the tasks; counted first; or, being too many, put together by Spark."""


def narrowed(patch: pytest.MonkeyPatch, way: str | None) -> None:
    if way is not None:
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
