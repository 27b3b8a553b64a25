"""An export has exactly the rows of the store, where and how it was asked for, in bounded files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from planted_stores.generate import Wanted, generate
from planted_stores.plan import Sizes
from rmq_columns import BadOption, Malformed, parse_options
from rmq_columns.export.manifest import CannotExport
from rmq_columns.export.options import FileOptions, parse_file_options
from rmq_columns.export.parquet import export_store
from tests.support.exports import data_files, exported, log_of_days, options_of, stored
from tests.support.logs import write_log
from tests.support.stores import golden_of


def files_of(**given: Any) -> FileOptions:
    return parse_file_options(given)


def manifest_of(to: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (to / "_manifest" / "manifest.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("kind", ["batch", "mix"])
def test_every_kind_of_message(tmp_path: Path, kind: str) -> None:
    """A store that Java wrote, system topics and all."""
    root = golden_of(kind, tmp_path / "broker-a")
    options = {"includeSystemTopics": "true"}
    done = export_store(str(tmp_path / "out"), options_of(root, **options))
    assert exported(tmp_path / "out") == stored(root, **options)
    assert done.rows == done.verified_rows == len(exported(tmp_path / "out")) > 0


@pytest.mark.parametrize("sort", ["physicalOffset", "queue"])
@pytest.mark.parametrize("names", ["none", "brokerName,date", "topic", "topic,queueId", "date,brokerName,queueId,topic"])
def test_partitions(tmp_path: Path, names: str, sort: str) -> None:
    root = golden_of("mix", tmp_path / "broker-a")
    options = {"includeSystemTopics": "true"}  # with % in their names
    export_store(str(tmp_path / "out"), options_of(root, **options), files_of(partition_by=names, order=sort))
    assert exported(tmp_path / "out") == stored(root, **options)
    levels = [] if names == "none" else names.split(",")
    for name in data_files(tmp_path / "out"):
        assert [part.partition("=")[0] for part in name.split("/")[:-1]] == levels
        table = pq.read_table(tmp_path / "out" / name, partitioning=None)
        assert not set(levels) & set(table.schema.names)
        order = (
            ["physicalOffset"]
            if sort == "physicalOffset"
            else [one for one in ("topic", "queueId", "queueOffset") if one not in levels]
        )
        keys = list(zip(*(table[one].to_pylist() for one in order), strict=True))
        assert keys == sorted(keys)


def test_others_read_the_directories(tmp_path: Path) -> None:
    root = golden_of("mix", tmp_path / "broker-a")
    options = {"includeSystemTopics": "true"}
    to = tmp_path / "out"
    export_store(str(to), options_of(root, **options), files_of(partition_by="brokerName,date,topic"))
    wanted = [
        (row["brokerName"], f"{row['storeTimestamp']:%Y-%m-%d}", row["topic"], row["queueOffset"], row["body"])
        for row in stored(root, **options)
    ]
    text = {name: pa.string() for name in ("brokerName", "date", "topic")}
    kind = ds.partitioning(pa.schema(list(text.items())), flavor="hive")
    arrow = ds.dataset(to, format="parquet", partitioning=kind).to_table(columns=[*text, "queueOffset", "body"])
    assert sorted(zip(*(column.to_pylist() for column in arrow.columns), strict=True)) == sorted(wanted)
    duckdb = pytest.importorskip("duckdb")
    found = duckdb.sql(
        f'select "brokerName", "date"::varchar, topic, "queueOffset", body '
        f"from read_parquet('{to}/brokerName=*/**/*.parquet', hive_partitioning=true)"
    ).fetchall()
    assert sorted(found) == sorted(wanted)


def test_dates(tmp_path: Path) -> None:
    """In UTC, each message in the directory of its day."""
    log = log_of_days(tmp_path / "broker-a")
    export_store(str(tmp_path / "out"), options_of(log.root))
    days = {name.split("/")[1] for name in data_files(tmp_path / "out")}
    assert days == {"date=1970-01-01", "date=1970-01-02", "date=1970-01-03"}
    rows = {row["physicalOffset"]: f"{row['storeTimestamp']:%Y-%m-%d}" for row in stored(log.root)}
    for entry in manifest_of(tmp_path / "out"):
        for file in entry["files"]:
            table = pq.read_table(tmp_path / "out" / file["name"], partitioning=None)
            assert {rows[place] for place in table["physicalOffset"].to_pylist()} == {file["partition"]["date"]}


def test_the_manifest_says_what_is_there(tmp_path: Path) -> None:
    import zlib

    log = log_of_days(tmp_path / "broker-a")
    to = tmp_path / "out"
    done = export_store(str(to), options_of(log.root))
    entries = manifest_of(to)
    assert sorted(file["name"] for entry in entries for file in entry["files"]) == data_files(to)
    assert len(entries) == len(log.files) == done.splits
    for entry in entries:
        for file in entry["files"]:
            raw = (to / file["name"]).read_bytes()
            assert (file["bytes"], file["crc32"]) == (len(raw), zlib.crc32(raw))
            read = pq.ParquetFile(to / file["name"])
            assert (file["rows"], file["rowGroups"]) == (read.metadata.num_rows, read.metadata.num_row_groups)
            places = read.read(columns=["physicalOffset"])["physicalOffset"].to_pylist()
            assert (file["firstPhysicalOffset"], file["lastPhysicalOffset"]) == (places[0], places[-1])
    assert json.loads((to / "_SUCCESS").read_text())["rows"] == len(log.places)


@pytest.mark.parametrize("sort", ["physicalOffset", "queue"])
def test_files_and_row_groups_are_bounded(tmp_path: Path, sort: str) -> None:
    log = write_log(tmp_path / "broker-a", [bytes(900)] * 400, file_bytes=1 << 20)
    sizes = {"row_group_bytes": 80_000, "file_bytes": 100_000, "buffer_bytes": 160_000}
    options = options_of(log.root, batchRows=32, splitBytes="1m")
    export_store(str(tmp_path / "out"), options, files_of(partition_by="none", compression="none", order=sort, **sizes))
    assert exported(tmp_path / "out") == stored(log.root)
    metadata = [pq.read_metadata(tmp_path / "out" / name) for name in data_files(tmp_path / "out")]
    groups = [one.row_group(number).num_rows for one in metadata for number in range(one.num_row_groups)]
    assert len(metadata) > 2
    assert all(30 < rows < 130 for rows in groups[:-1]), groups


def test_many_topics_in_little_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many directories, few open files, no more rows held than allowed, and each row there once."""
    import rmq_columns.export.files as module

    held, opened = [], []
    keep, file = module.SplitFiles._keep, module.SplitFiles._file

    def keeping(self: Any, *arguments: Any) -> None:
        keep(self, *arguments)
        held.append(self._held_bytes)

    def opening(self: Any, *arguments: Any) -> Any:
        found = file(self, *arguments)
        opened.append(len(self._open))
        return found

    monkeypatch.setattr(module, "OPEN_MAX", 3)
    monkeypatch.setattr(module, "STAGE_BYTES", 100_000)
    monkeypatch.setattr(module.SplitFiles, "_keep", keeping)
    monkeypatch.setattr(module.SplitFiles, "_file", opening)
    made = generate(tmp_path / "made", Wanted(4 << 20, sizes=Sizes(log_file_bytes=8 << 20), with_index=False, with_sent=False))
    options = parse_options({"path": str(made.store), "includeSystemTopics": "true"})
    files = files_of(partition_by="topic,queueId", buffer_bytes=300_000)
    export_store(str(tmp_path / "out"), options, files)
    assert exported(tmp_path / "out") == stored(made.store, includeSystemTopics="true")
    assert max(held) <= 300_000
    assert max(opened) == 3
    entry = manifest_of(tmp_path / "out")[0]
    directories = {file["name"].rpartition("/")[0] for file in entry["files"]}
    assert len(directories) > 10
    with pytest.raises(BadOption, match="has more than 5 of topic, queueId, which would"):
        export_store(str(tmp_path / "few"), options, files_of(partition_by="topic,queueId", partitions_max=5))
    assert not data_files(tmp_path / "few")


def test_columns(tmp_path: Path) -> None:
    log = log_of_days(tmp_path / "broker-a")
    names = "queueOffset,body,topic"
    export_store(str(tmp_path / "out"), options_of(log.root, columns=names))
    one = data_files(tmp_path / "out")[0]
    assert pq.read_schema(tmp_path / "out" / one).names == names.split(",")
    export_store(str(tmp_path / "raw"), options_of(log.root, includeProperties="raw", includeBody="false"))
    schema = pq.read_schema(tmp_path / "raw" / data_files(tmp_path / "raw")[0])
    assert schema.field("properties").type == pa.binary()
    assert "body" not in schema.names
    done = export_store(str(tmp_path / "some"), options_of(log.root, topics="nobody", startingPhysicalOffset=5))
    assert (done.rows, done.files) == (0, 0)
    assert (tmp_path / "some" / "_SUCCESS").exists()


def test_damage_is_not_lost(tmp_path: Path) -> None:
    log = log_of_days(tmp_path / "broker-a")
    file = log.files[1]
    raw = bytearray(file.read_bytes())
    at = next(place for place in log.places if place >= int(file.name)) - int(file.name)
    raw[at + 4] ^= 0xFF
    file.write_bytes(raw)
    done = export_store(str(tmp_path / "out"), options_of(log.root))
    wrong = exported(tmp_path / "out", corrupt=True)
    assert done.corrupt_rows == len(wrong) == 1
    assert wrong[0]["physicalOffset"] == at + int(file.name)
    assert wrong[0]["_corrupt"].startswith(f"{file}, byte {at}: ")
    assert exported(tmp_path / "out") == stored(log.root)
    assert done.rows == len(log.places) - 1
    assert {name.split("/")[0] for name in data_files(tmp_path / "out")} == {"_corrupt", "brokerName=broker-a"}
    with pytest.raises(Malformed):
        export_store(str(tmp_path / "strict"), options_of(log.root, mode="FAILFAST"))
    assert export_store(str(tmp_path / "less"), options_of(log.root, mode="DROPMALFORMED")).corrupt_rows == 0


@pytest.mark.parametrize(("mode", "wrong"), [("PERMISSIVE", 1), ("DROPMALFORMED", 0)])
def test_a_column_that_reports_damage(tmp_path: Path, mode: str, wrong: int) -> None:
    """With `crcOk` a message with another CRC is none, also when it is counted once more."""
    log = log_of_days(tmp_path / "broker-a")
    raw = bytearray(log.files[1].read_bytes())
    at = raw.index(b"\x30" * 200)  # in the middle of a body
    raw[at + 100] ^= 0xFF
    log.files[1].write_bytes(raw)
    done = export_store(str(tmp_path / "out"), options_of(log.root, mode=mode, columns="topic,body,crcOk"))
    assert (done.rows, done.corrupt_rows) == (len(log.places) - 1, wrong)


def test_partitions_are_counted_without_damage(tmp_path: Path) -> None:
    log = log_of_days(tmp_path / "broker-a", days=0.001)
    raw = bytearray(log.files[0].read_bytes())
    raw[log.places[1] + 4] ^= 0xFF
    log.files[0].write_bytes(raw)
    done = export_store(str(tmp_path / "out"), options_of(log.root), files_of(partitions_max=1))
    assert (done.rows, done.corrupt_rows) == (len(log.places) - 1, 1)
    log, whole = log_of_days(tmp_path / "broker-b", days=2), 1 << 20
    export_store(str(tmp_path / "two"), options_of(log.root, splitBytes=whole), files_of(partitions_max=2))
    with pytest.raises(BadOption, match="more than 1 of"):
        export_store(str(tmp_path / "more"), options_of(log.root, splitBytes=whole), files_of(partitions_max=1))


def test_row_groups_of_few_rows(tmp_path: Path) -> None:
    """Five rows in four row groups are two in each of three."""
    log = write_log(tmp_path / "broker-a", [bytes([number]) * 1000 for number in range(5)], file_bytes=1 << 14)
    export_store(str(tmp_path / "out"), options_of(log.root), files_of(order="queue", row_group_bytes=1500))
    [file] = manifest_of(tmp_path / "out")[0]["files"]
    assert file["rowGroups"] == pq.read_metadata(tmp_path / "out" / file["name"]).num_row_groups == 3


@pytest.mark.parametrize(
    "given",
    [
        {"partition_by": "tags"},
        {"partition_by": "topic,topic"},
        {"compression": "zip"},
        {"compression": "zstd:40"},
        {"compression": "snappy:1"},
        {"row_group_bytes": "0"},
        {"order": "body"},
        {"partitions_max": 0},
        {"verify": "perhaps"},
    ],
)
def test_options_that_cannot_be(given: dict[str, Any]) -> None:
    with pytest.raises(BadOption, match=next(iter(given))):
        files_of(**given)


def test_options_that_do_not_fit(tmp_path: Path) -> None:
    root = log_of_days(tmp_path / "broker-a").root
    with pytest.raises(BadOption, match="only messages"):
        export_store(str(tmp_path / "out"), options_of(root, table="index"))
    with pytest.raises(BadOption, match="queueOffset"):
        export_store(str(tmp_path / "out"), options_of(root, columns="body,topic,queueId"), files_of(order="queue"))
    with pytest.raises(BadOption, match="none is left"):
        export_store(str(tmp_path / "out"), options_of(root, columns="brokerName"))


@pytest.mark.parametrize("compression", ["zstd:5", "gzip", "brotli:1", "snappy", "lz4", "none"])
def test_compressions(tmp_path: Path, compression: str) -> None:
    root = log_of_days(tmp_path / "broker-a", 5).root
    export_store(str(tmp_path / "out"), options_of(root), files_of(compression=compression))
    assert exported(tmp_path / "out") == stored(root)
    found = pq.read_metadata(tmp_path / "out" / data_files(tmp_path / "out")[0]).row_group(0).column(0).compression
    assert found.lower().startswith({"none": "uncompressed"}.get(compression, compression.partition(":")[0]))


def test_rows_are_counted_once_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that loses a row is noticed, and leaves nothing."""
    import rmq_columns.export.files as module

    log = log_of_days(tmp_path / "broker-a")
    add = module.SplitFiles.add
    monkeypatch.setattr(module.SplitFiles, "add", lambda self, batch: add(self, batch.slice(1)))
    with pytest.raises(CannotExport, match="rows were written of"):
        export_store(str(tmp_path / "out"), options_of(log.root))
    assert not data_files(tmp_path / "out")
