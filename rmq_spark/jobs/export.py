"""Messages as Parquet, written inside the tasks: partitioned, sorted, with a manifest; goes on where it was interrupted.

The driver plans splits once and keeps the plan at the destination; each task writes the files of one split and then its entry in
the manifest (`rmq_columns.export.parquet`), so a task may fail, be repeated or run twice, and a start with the same arguments
does what is left.  Only one row for each split comes back through Spark.

Not clean: bytes of the log that are no message, or messages that are not what they say; they are in `_corrupt`, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from rmq_columns.errors import without_keys
from rmq_spark.arguments import Parameter
from rmq_spark.jobs import Job, Source
from rmq_spark.measuring import source_of
from rmq_spark.outcome import Figure, Outcome, Plot, Unit
from rmq_spark.session import Progress, silent, watched
from rmq_spark.tables import Shown, names_of, rows_of, tables_of
from rmq_spark.work import Given, Work, of_text

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from rmq_columns.export.parquet import Finished, Prepared
    from rmq_columns.export.plan import Numbered
    from rmq_columns.read.options import Options

FIELDS: Final = {
    "partition_by": "partition_by",
    "sort": "order",
    "compression": "compression",
    "row_group": "row_group_bytes",
    "file_size": "file_bytes",
    "buffer": "buffer_bytes",
    "max_partitions": "partitions_max",
}
"""Parameter -> field of `FileOptions`."""
ENTRIES_AT_ONCE: Final = 256
"""Of the manifest, read by one task."""
_CORRUPT: Final = "brokerName string, startPhysicalOffset long, endPhysicalOffset long, corruptRows long"
_DIRECTORIES: Final = "directory string, rows long, files long, bytes long"
REPORT: Final = (
    Shown("corrupt", "Stretches of log with what is no sound message", names_of(_CORRUPT), is_finding=True),
    Shown("partitions", "Directories", names_of(_DIRECTORIES)),
)
TOP: Final = 20
"""Bars of the plot."""


def export(spark: SparkSession, paths: Any, **options: Any) -> DataFrame:
    """Exports, and gives the manifest: brokerName, split, file, rows, bytes, crc32, rowGroups, firstPhysicalOffset,
    lastPhysicalOffset, partition (map), corrupt.

    options: `to` and the other parameters of the job; the rest are the format's.  Raises `BadOption`, `StoreError` (also as the
    cause of Spark's own error, when a task met it).
    """
    given, rest = JOB.arguments(options)
    prepared, finished = write(spark, source_of(paths, rest), given, silent)
    return manifest_frame(spark, prepared.job.to, finished)


def run(spark: SparkSession, source: Source, given: dict[str, Any], progress: Progress) -> Outcome:
    """Raises `BadOption`, `StoreError`."""
    prepared, finished = write(spark, source, given, progress)
    return _outcome(spark, prepared, finished)


def write(spark: SparkSession, source: Source, given: Mapping[str, Any], progress: Progress) -> tuple[Prepared, Finished]:
    """Plans or goes on, writes, and makes it complete.

    Raises `BadOption`, `StoreError`.
    """
    from rmq_columns.export.options import parse_file_options
    from rmq_columns.export.parquet import finish, is_cut_anew, is_torn, prepare
    from rmq_spark.options import located
    from rmq_spark.reading import worked
    from rmq_spark.work import as_text

    options: dict[str, Any] = {**source.options, "paths": list(source.paths), "columns": given["columns"]}
    chosen = {FIELDS[name]: value for name, value in given.items() if name in FIELDS}
    files = parse_file_options({**chosen, "verify": not given["no_verify"]})
    has_split_bytes = any(name.lower() == "splitbytes" for name in options)
    begin = partial(prepare, given["to"], _permissive(located, options), files, wide=not has_split_bytes, pruned=given["pruned"])
    prepared = begin(given["increment"])
    while prepared.todo:
        try:
            with watched(spark, "write Parquet", progress):
                worked(spark, "exported", splits=prepared.todo, job=as_text(prepared.job)).collect()
            break
        except Exception:  # whatever Spark makes of what a task met
            if not is_torn(prepared):
                raise
            before, prepared = prepared, begin()
            if not is_cut_anew(before, prepared):
                raise
    return prepared, finish(prepared)


def _permissive(located: Callable[[Mapping[str, Any]], Options], options: Mapping[str, Any]) -> Options:
    """What is no message is exported too, unless the user says otherwise."""
    if any(name.lower() == "mode" for name in options):
        return located(options)
    return located({**options, "mode": "PERMISSIVE"})


def _exported(given: Given, one: Numbered) -> Iterator[pa.RecordBatch]:
    """One task: a split is written and noted; one row that says so."""
    import pyarrow as pa

    from rmq_columns.export.parquet import export_split

    entry = export_split(given["job"], one)
    yield pa.record_batch([[entry.split], [entry.rows + entry.corruptRows]], schema=_done_schema(given))


def _done_schema(given: Given) -> pa.Schema:
    import pyarrow as pa

    return pa.schema([("split", pa.int32()), ("rows", pa.int64())])


EXPORTED: Final = Work(_done_schema, _exported, parameters={"job": of_text})
"""To read this table is to write its splits.  job: of this start."""


def manifest_frame(spark: SparkSession, to: str, finished: Finished) -> DataFrame:
    """A row for each file, read by tasks."""
    from rmq_spark.reading import worked

    names = finished.entries
    chunks = [names[begin : begin + ENTRIES_AT_ONCE] for begin in range(0, len(names), ENTRIES_AT_ONCE)]
    return worked(spark, "manifest", splits=chunks, to=to)


def _manifest_schema(given: Given) -> pa.Schema:
    from rmq_columns.export.reading import MANIFEST

    return MANIFEST


def _manifest(given: Given, names: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    from rmq_columns.export.reading import manifest_rows

    return manifest_rows(given["to"], names)


LISTED: Final = Work(_manifest_schema, _manifest, parameters={"to": str})
"""The files of an export.  to: where it is; a split: names of entries of its manifest."""


def _outcome(spark: SparkSession, prepared: Prepared, finished: Finished) -> Outcome:
    summary = finished.summary
    to = without_keys(prepared.job.to)
    verdict = f"{summary.rows:,} messages in {summary.files:,} files, {to}"
    if summary.corrupt_rows:
        verdict += f"; {summary.corrupt_rows:,} places of the log are no sound message: see _corrupt"
    everything = summary.rows + summary.corrupt_rows
    notes = []
    if 0 < summary.verified_rows == everything:
        notes.append(f"Counted once more in the log and in the files: {everything:,} rows.")
    elif summary.verified_rows:
        notes.append(f"Counted once more in the log and in the files: {summary.verified_rows:,} of {everything:,} rows.")
    if prepared.done:
        notes.append(f"{prepared.done:,} of {summary.splits:,} splits were there already, {len(prepared.todo):,} written now.")
    if finished.strays:
        notes.append(f"Removed: {finished.strays:,} files that tasks had left which were lost.")
    partitions = sorted(finished.directories.items(), key=lambda one: -one[1][0])
    return Outcome(
        "export",
        verdict,
        not summary.corrupt_rows,
        figures=[
            Figure("rows", "messages", summary.rows),
            Figure("corruptRows", "no sound message", summary.corrupt_rows),
            Figure("files", "files", summary.files),
            Figure("bytes", "size of the files", summary.bytes, Unit.BYTES),
            Figure("logBytes", "of log", summary.log_bytes, Unit.BYTES),
            Figure("splits", "splits", summary.splits),
            Figure("splitsWritten", "written now", len(prepared.todo)),
            Figure("increments", "increments", summary.increments),
            Figure("verifiedRows", "rows counted twice", summary.verified_rows),
            Figure("to", "at", to, Unit.TEXT),
        ],
        tables=tables_of(
            REPORT,
            {
                "corrupt": rows_of([(one.broker_name, one.start, one.end, one.corrupt_rows) for one in finished.worst], _CORRUPT),
                "partitions": rows_of([(name, *sums) for name, sums in partitions], _DIRECTORIES),
            },
            corrupt=finished.damaged,
            partitions=len(partitions),
        ),
        plots=[Plot("Messages by directory", bars=[(name, sums[0]) for name, sums in partitions[:TOP]], y_unit=Unit.COUNT)],
        notes=notes,
        frames={"files": manifest_frame(spark, prepared.job.to, finished)},
    )


JOB: Final = Job(
    name="export",
    line="Write messages as Parquet: partitioned, sorted, with a manifest; goes on where it stopped.",
    parameters=(
        Parameter(
            "to",
            "path",
            "A directory that driver and executors share, or a URI (s3://bucket/export); empty, or with this export begun.",
            metavar="DIR",
            is_required=True,
        ),
        Parameter(
            "partition_by",
            "names",
            "Directories for brokerName, topic, date (of the store time, UTC), queueId.  Or: none.",
            "brokerName,date",
        ),
        Parameter(
            "sort",
            str,
            "Order of the rows in a file.  queue is topic, queueId, queueOffset: smaller where a topic's bodies are alike.",
            "physicalOffset",
            choices=("physicalOffset", "queue"),
        ),
        Parameter("compression", str, "zstd, gzip, brotli, snappy, lz4, none; with a level: zstd:3.", "zstd:1", "CODEC[:LEVEL]"),
        Parameter(
            "columns", "names", "Which, and in which order.  All by default.  Those that name directories are not in the files."
        ),
        Parameter("row_group", "size", "Bytes of rows in memory that make a row group.", "32MiB"),
        Parameter("file_size", "size", "A file ends with the row group that reaches it.", "256MiB"),
        Parameter("buffer", "size", "Bytes of rows that a task holds at once, in at most 16 open files.", "128MiB"),
        Parameter(
            "max_partitions",
            int,
            "More directories than this from one split of log are refused: they would be as many small files.",
            2048,
            least=1,
        ),
        Parameter(
            "increment",
            bool,
            "Of an export that is complete: what came since behind the last message of each log, and all of new brokers.",
        ),
        Parameter(
            "pruned", bool, "Directories that were removed from the export (old days) stay away; else their files are made again."
        ),
        Parameter("no_verify", bool, "Do not count the rows once more in log and files."),
    ),
    examples=(
        "/data/broker-a/store --to /data/export",
        "/data/brokers --to /data/orders --topic Orders --sort queue",
        "/data/broker-a/store --to /data/export --increment",
    ),
    found="a place of the log is no sound message (see _corrupt)",
    run=run,
    function=export,
)
