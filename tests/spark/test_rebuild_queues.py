"""The job rebuild-queues: in tasks, from splits of any size, the queues that the broker had."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rmq_spark.jobs import Source
from tests.columns.logs import write_log
from tests.columns.test_queue_build import files_of, store_of
from tests.inspect.kit import spoil

pytest.importorskip("pyspark", reason="needs PySpark: the extra [spark]")
from rmq_columns import BadOption, CannotRead
from rmq_columns.generate import Wanted, generate
from rmq_columns.generate_plan import Sizes
from rmq_spark.jobs import rebuild_queues as job

SPLIT = {"splitBytes": "20000"}


def silent(what: str, done: int, of: int) -> None:
    pass


def given(to: Path, **more: Any) -> dict[str, Any]:
    return {one.name: one.default for one in job.PARAMETERS} | {"to": str(to), "batch_topic": ()} | more


def figures(outcome: Any) -> dict[str, Any]:
    return {one.name: one.value for one in outcome.figures}


@pytest.mark.parametrize("runs_taken", [job.RUNS_TAKEN_MAX, 0])
def test_queues_of_the_real_broker(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runs_taken: int) -> None:
    """Batch queues, extensions and delayed messages among them; put together on the driver, or by Spark."""
    monkeypatch.setattr(job, "RUNS_TAKEN_MAX", runs_taken)
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
    write_log(store, [b"a" * 300] * 40, queue=False)
    first = sorted((store / "commitlog").iterdir())
    log = write_log(tmp_path / "again", [b"b" * 300] * 12, queue=False)
    start = len(first) * 4096
    for file in log.files:
        data = bytearray(file.read_bytes())
        for place in (one - int(file.name) for one in log.places if int(file.name) <= one < int(file.name) + 4096):
            own = int.from_bytes(data[place + 28 : place + 36], "big") + start
            data[place + 28 : place + 36] = own.to_bytes(8, "big")
        (store / "commitlog" / f"{int(file.name) + start:020}").write_bytes(data)
    for runs_taken in (job.RUNS_TAKEN_MAX, 0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(job, "RUNS_TAKEN_MAX", runs_taken)
            [row] = job.rebuild_queues(
                spark, str(store), to=str(tmp_path / "to"), splitBytes=4096, queue_file_bytes=200, mode="PERMISSIVE"
            ).collect()
        assert (row.units, row.lives, row.firstOffset, row.lastOffset) == (12, 2, 0, 11)
        units = b"".join(files_of(tmp_path / "to").values())
        places = [int.from_bytes(units[at : at + 8], "big") for at in range(0, 240, 20)]
        assert places == [place + start for place in log.places]
        assert not any(units[240:])


def test_damage_is_told(spark: Any, tmp_path: Path) -> None:
    log = write_log(tmp_path / "store", [b"%d" % number for number in range(20)], file_bytes=1 << 16)
    spoil(log.files[0], log.places[7] + 4, b"\0\0\0\0")
    outcome = job.run(spark, Source((str(tmp_path / "store"),)), given(tmp_path / "to", compare=True), silent)
    assert not outcome.is_clean
    told = figures(outcome)
    assert (told["bridgedUnits"], told["damagedBytes"]) == (1, log.places[8] - log.places[7])
    [row] = outcome.tables[0].rows
    assert dict(zip([one.name for one in outcome.tables[0].columns], row, strict=True)).items() >= {
        "topic": "T", "queueId": 0, "outcome": "different", "differentUnits": 20, "firstDifferentOffset": 0, "field": "tags_code",
    }.items()  # fmt: skip


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
