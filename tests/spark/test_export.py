"""The job `export`: rows as in the store, once each, whatever dies on the way; Spark and DuckDB read the directories."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rmq_columns import read_store
from rmq_columns.export.manifest import CannotExport, entries_of
from rmq_columns.export.options import FileOptions
from rmq_columns.export.parquet import export_store
from rmq_spark.jobs import Source
from rmq_spark.reasons import reason_of
from tests.spark.cluster import DRIVER_S_MAX, own_environment
from tests.support.exports import FILE_BYTES, data_files, exported, forged_log, log_of_days, options_of, stored
from tests.support.stores import golden_of

ROOT = Path(__file__).parents[2]
SPLITS = {"splitBytes": FILE_BYTES}
DRIVER = """
import json, os, sys
from rmq_spark.arguments import arguments_of
from rmq_spark.jobs import Source
from rmq_spark.jobs.export import JOB, write
from rmq_spark.session import make_session, silent
from tests.spark.exporting import dying
master, store, calls = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
spark = make_session(master, {"spark.local.dir": sys.argv[4]})
for to, step, split, mark, kill in calls:
    with dying(step, split, mark, kill or str(os.getpid())):
        write(spark, Source((store,), {"splitBytes": "FILE_BYTES"}), JOB.arguments({"to": to})[0], silent)
    print("whole", to)
spark.stop()
""".replace("FILE_BYTES", str(FILE_BYTES))


def assert_whole(to: Path, root: Path) -> None:
    assert exported(to) == stored(root)
    lines = (to / "_manifest" / "manifest.jsonl").read_text().splitlines()
    assert sorted(file["name"] for line in lines for file in json.loads(line)["files"]) == data_files(to)


def driver(master: str, root: Path, calls: list[tuple[Any, ...]], local: Path) -> subprocess.CompletedProcess[str]:
    """A session of its own, in which one export after another is written."""
    listed = json.dumps([[value if isinstance(value, int) else str(value) for value in call] for call in calls])
    words = [sys.executable, "-c", DRIVER, master, str(root), listed, str(local)]
    return subprocess.run(words, env=own_environment(), capture_output=True, text=True, timeout=DRIVER_S_MAX, check=False)


def test_rows(spark: Any, tmp_path: Path) -> None:
    """Several brokers, all kinds of messages; what comes back is the manifest."""
    from rmq_spark.jobs.export import export

    roots = [golden_of("mix", tmp_path / "broker-a"), golden_of("batch", tmp_path / "broker-b")]
    to = tmp_path / "out"
    frame = export(spark, roots, to=str(to), includeSystemTopics="true")
    wanted = stored(list(map(str, roots)), includeSystemTopics="true")
    assert exported(to) == wanted
    rows = frame.collect()
    assert sum(row.rows for row in rows) == len(wanted)
    assert sorted(row.file for row in rows) == data_files(to)
    assert {row.partition["brokerName"] for row in rows} == {"broker-a", "broker-b"}
    assert not any(row.corrupt for row in rows)


def test_spark_and_duckdb_read_it(spark: Any, tmp_path: Path) -> None:
    from pyspark.sql import functions as F

    from rmq_spark.jobs.export import export

    root = golden_of("mix", tmp_path / "broker-a")
    to = tmp_path / "out"
    export(spark, str(root), to=str(to), partition_by="topic,date", sort="queue", includeSystemTopics="true")
    wanted = sorted(
        (row["topic"], f"{row['storeTimestamp']:%Y-%m-%d}", row["queueId"], row["queueOffset"], row["body"], row["properties"])
        for row in stored(root, includeSystemTopics="true")
    )
    read = spark.read.parquet(str(to))
    kept = read.select("topic", F.col("date").cast("string"), "queueId", "queueOffset", "body", "properties")
    found = sorted((*row[:4], bytes(row[4]), list(row[5].items())) for row in kept.collect())
    assert [row[:5] for row in found] == [row[:5] for row in wanted]
    assert [dict(row[5]) for row in found] == [dict(row[5]) for row in wanted]
    assert {"topic", "date", "body", "storeTimestamp"} < set(read.columns)
    duckdb = pytest.importorskip("duckdb")
    text = f'select topic, "date"::varchar, "queueId", "queueOffset", body from read_parquet(\'{to}/topic=*/*/*.parquet\')'
    assert sorted(duckdb.sql(text).fetchall()) == [row[:5] for row in wanted]


def test_the_job(spark: Any, tmp_path: Path) -> None:
    """What it says of a clean store, of one that is there already, and of damage."""
    from rmq_spark.jobs.export import JOB, run

    log = log_of_days(tmp_path / "broker-a")
    source = Source((str(log.root),), {"splitBytes": str(FILE_BYTES)})
    reported: list[tuple[str, int, int]] = []
    given, _ = JOB.arguments({"to": tmp_path / "out"})
    first = run(spark, source, given, lambda *step: reported.append(step))
    figures = {one.name: one.value for one in first.figures}
    assert first.is_clean
    assert figures["rows"] == figures["verifiedRows"] == len(log.places)
    assert figures["splitsWritten"] == figures["splits"] == len(log.files)
    again = run(spark, source, given, lambda *step: None)
    assert {one.name: one.value for one in again.figures}["splitsWritten"] == 0
    assert again.frames["files"].count() == figures["files"]

    file = log.files[1]
    raw = bytearray(file.read_bytes())
    at = next(place for place in log.places if place >= int(file.name)) - int(file.name)
    raw[at + 4] ^= 0xFF
    file.write_bytes(raw)
    hurt = run(spark, source, given | {"to": str(tmp_path / "hurt")}, lambda *step: None)
    assert not hurt.is_clean
    assert hurt.tables[0].total == 1
    assert {one.name: one.value for one in hurt.figures}["rows"] == len(log.places) - 1
    assert len(exported(tmp_path / "hurt", corrupt=True)) == 1
    assert spark.read.parquet(str(tmp_path / "hurt")).count() == len(log.places) - 1


def test_refusals(spark: Any, tmp_path: Path) -> None:
    """Before Spark does anything, and from within a task: one line says why."""
    from rmq_spark.jobs.export import export

    log = log_of_days(tmp_path / "broker-a", 200)
    to = str(tmp_path / "out")
    export(spark, log.root, to=to)
    with pytest.raises(CannotExport, match='compression was "zstd", now it is "lz4"'):
        export(spark, log.root, to=to, compression="lz4")
    log.files[1].unlink()
    with pytest.raises(Exception, match=r"deleted|no file") as refused:
        export(spark, log.root, to=str(tmp_path / "strict"), mode="FAILFAST", splitStrategy="file")
    assert "\n" not in reason_of(refused.value)


def test_goes_on_where_another_began(spark: Any, tmp_path: Path) -> None:
    """With Spark or without: the same plan, the same entries."""
    from rmq_columns.export.parquet import export_split, prepare
    from rmq_spark.jobs.export import export

    log = log_of_days(tmp_path / "broker-a", 200)
    to = tmp_path / "out"
    prepared = prepare(str(to), options_of(log.root), FileOptions())
    export_split(prepared.job, prepared.todo[1])
    before = data_files(to)
    export(spark, log.root, to=str(to), **SPLITS)
    assert set(before) < set(data_files(to))
    assert_whole(to, log.root)
    log_of_days(log.root, 260, days=3 * 260 / 200)
    assert export(spark, log.root, to=str(to), **SPLITS).count() == len(data_files(to))
    assert len(exported(to)) == 200
    export(spark, log.root, to=str(to), increment=True, **SPLITS)
    assert_whole(to, log.root)
    assert export_store(str(to), options_of(log.root)).rows == 260


def test_a_forged_cut_is_cut_anew(spark: Any, tmp_path: Path) -> None:
    """A task meets it; the file is exported as one split, without being asked."""
    from rmq_spark.jobs.export import export

    log = forged_log(tmp_path / "broker-a")
    to = tmp_path / "out"
    export(spark, log.root, to=str(to), splitBytes=1500, splitStrategy="magic")
    assert_whole(to, log.root)
    assert len(exported(to)) == len(log.places)
    assert len(list(to.glob("_manifest/plan-00000-*.json"))) == 1


@pytest.mark.parametrize("step", ["create", "put", "done"])
def test_driver_killed(spark: Any, tmp_path: Path, step: str) -> None:
    """`kill -9` from within a task: before its first file, before its entry, behind it."""
    from rmq_spark.jobs.export import export

    log = log_of_days(tmp_path / "broker-a", 200)
    to = tmp_path / "out"
    ended = driver("local[2]", log.root, [(to, step, 2, tmp_path / "mark", "")], tmp_path / "local")
    assert ended.returncode == -signal.SIGKILL, ended.stderr[-3000:]
    assert (tmp_path / "mark").exists()
    assert not (to / "_SUCCESS").exists()
    assert (to / entries_of(2)).exists() == (step == "done")
    export(spark, log.root, to=str(to), **SPLITS)
    assert_whole(to, log.root)


def test_failed_tasks_are_repeated(tmp_path: Path, spark: Any) -> None:
    """A worker that is killed, one that raises, each at each step: Spark tries again, and nobody else notices."""
    log = log_of_days(tmp_path / "broker-a", 200)
    calls = [
        (tmp_path / f"{kill}-{step}", step, split, tmp_path / f"{kill}-{step}.mark", kill)
        for split, (kill, step) in enumerate((kill, step) for kill in ("worker", "raise") for step in ("create", "put", "done"))
    ]
    calls = [(to, step, split % len(log.files), mark, kill) for to, step, split, mark, kill in calls]
    ended = driver("local[2,4]", log.root, calls, tmp_path / "local")
    assert ended.returncode == 0, ended.stderr[-3000:]
    for to, _, _, mark, _ in calls:
        assert mark.exists()
        assert_whole(to, log.root)


def test_to_s3(spark: Any, tmp_path: Path, bucket: str) -> None:
    from rmq_spark.jobs.export import export

    log = log_of_days(tmp_path / "broker-a")
    to = bucket.format("export")
    manifest = export(spark, log.root, to=to, **SPLITS).collect()
    assert sum(row.rows for row in manifest) == len(log.places) == read_store(log.root).read_all().num_rows
    assert exported(to) == stored(log.root)
