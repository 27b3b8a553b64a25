"""Everything that can be checked of stores: chain, sizes, own offsets, check sums, continuity; queues and index against the log.

The checks are those of `rmq inspect verify` (`rmq_columns.checks`), done in Spark's tasks: queues and index files by themselves,
then the log, read once, cut also inside its files, every message held against its queue unit and its index entries.  Only what
was found comes back; where each queue begins and ends in each part is put together by Spark (`audit_sums`).  What verify checks
besides (checkpoint, configuration, consumer positions, strays) belongs to one machine and stays there.

`is_clean`: no finding, in no store.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from rmq_spark.arguments import Parameter
from rmq_spark.jobs import RANGE, Job, Source
from rmq_spark.local import local
from rmq_spark.measuring import WORST, has, source_of
from rmq_spark.outcome import Figure, Frames, Outcome, Plot, Unit
from rmq_spark.session import cores, silent
from rmq_spark.tables import Shown, names_of, rows_of, tables_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from rmq_columns.checks.audit import StoreAudit
    from rmq_spark.session import Progress

PIECES_PER_CORE: Final = 2
"""A task costs some 30 ms however little it does; two for each core even out what one of them loses."""
FINDINGS: Final = (
    "brokerName string, file string, byte long, severity string, code string, what string, detail string, count long, "
    "consequence string, remedy string"
)
QUEUES: Final = (
    "brokerName string, topic string, queueId int, messages long, firstOffset long, endOffset long, withoutMessage long, "
    "firstPhysicalOffset long, lastPhysicalOffset long, consumeQueueFirstOffset long, consumeQueueEndOffset long"
)
FILES: Final = "brokerName string, file string, startOffset long, messages long, usedBytes long, findings long"


def audit(spark: SparkSession, paths: Any, **options: Any) -> DataFrame:
    """A row for each finding; it has been looked for when this returns.

    brokerName, file (within the store), byte (null: the whole file), severity (`error`, `warning`), code and what (the kind of
    finding, docs/verify.md lists them), detail, count (for how many like it the row stands), consequence, remedy.
    options: `no_queues`, `no_index`, `no_crc`, those of the format.  Raises `BadOption`, `CannotRead`.
    """
    given, rest = JOB.arguments(options)
    found = look(spark, source_of(paths, rest), given, silent)
    return local(spark, finding_rows(found), FINDINGS)


def run(spark: SparkSession, source: Source, given: dict[str, Any], progress: Progress) -> Outcome:
    """Look, and report."""
    found = look(spark, source, given, progress)
    errors, warnings = (sum(row[7] for row in finding_rows(found) if row[3] == severity) for severity in ("error", "warning"))
    findings, queues, files = finding_rows(found), queue_rows(found), file_rows(found)
    messages, used = sum(row[3] for row in files), sum(row[4] for row in files)
    verdict = f"{errors} errors, {warnings} warnings" if findings else f"clean: {messages} messages in {len(queues)} queues"
    figures = [
        Figure("stores", "stores", len(found)),
        Figure("logFiles", "files of the log", len(files)),
        Figure("logBytes", "bytes of the log that hold messages", used, Unit.BYTES),
        Figure("messages", "messages", messages),
        Figure("queues", "queues in the log", len(queues)),
        Figure("queueUnits", "units of consume queues", sum(one.queue_units for one in found)),
        Figure("indexEntries", "entries of the index", sum(one.index_entries for one in found)),
        Figure("errors", "errors", errors),
        Figure("warnings", "warnings", warnings),
    ]
    frames = Frames(
        findings=partial(local, spark, findings, FINDINGS),
        queues=partial(local, spark, queues, QUEUES),
        files=partial(local, spark, files, FILES),
    )
    worst = sorted(queues, key=lambda row: (-row[6], -row[3]))
    shown = {"findings": rows_of(findings, FINDINGS), "queues": rows_of(worst, QUEUES)}
    tables = tables_of(REPORT, shown, findings=len(findings), queues=len(queues))
    return Outcome("audit", verdict, not findings, figures, tables, _plots(found, files), _notes(found), frames, messages)


def look(spark: SparkSession, source: Source, given: dict[str, Any], progress: Progress) -> list[StoreAudit]:
    """The audit of each store, done by Spark's tasks.  Raises `BadOption`, `CannotRead`."""
    from rmq_columns.checks.audit import Sharing, check_small
    from rmq_columns.checks.audit import audit as audit_stores
    from rmq_columns.checks.scope import Scope
    from rmq_spark.jobs.audit_sums import QueueSums
    from rmq_spark.options import located
    from rmq_spark.worker import seldom_collected

    options = located({**source.options, "paths": source.paths})
    pieces = 0 if has(source.options, "splitBytes") else PIECES_PER_CORE * cores(spark)
    scope = Scope(not given["no_queues"], not given["no_index"], not given["no_crc"])
    with seldom_collected(), QueueSums(spark, progress) as sums:

        def in_tasks(what: str, work: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
            if isinstance(work, Sharing):
                return sums.gathered(what, "dangling", items, work.shared)
            assert work is check_small
            return sums.gathered(what, "small", items)

        return audit_stores(options, scope, in_tasks, pieces, sums)


# --- what is reported


def finding_rows(found: Sequence[StoreAudit]) -> list[tuple[Any, ...]]:
    """As `FINDINGS`, errors first."""
    from rmq_columns.checks.findings import NOWHERE, by_severity
    from rmq_columns.checks.kinds import remedy_of

    rows = []
    for store in found:
        for one in by_severity(store.all_findings()):
            byte = None if one.offset == NOWHERE else one.offset
            rows.append(
                (
                    store.broker_name,
                    one.file,
                    byte,
                    str(one.kind.severity),
                    one.code,
                    one.kind.title,
                    one.detail,
                    one.times,
                    one.kind.consequence,
                    remedy_of(one.code, store.log_is_whole),
                )
            )
    return sorted(rows, key=lambda row: row[3])


def queue_rows(found: Sequence[StoreAudit]) -> list[tuple[Any, ...]]:
    """As `QUEUES`.  withoutMessage: queue offsets between first and end that no message has; 0 for queues of batches."""
    rows = []
    for store in found:
        for (topic, queue_id), one in sorted(store.queues.items()):
            own = store.consume_queues.get((topic, queue_id))
            is_batch = own is not None and own.is_batch
            lacking = 0 if is_batch else max(one.end_offset - one.first_offset - one.units, 0)
            bounds = (own.first, own.end) if own is not None and not is_batch else (None, None)
            rows.append(
                (
                    store.broker_name,
                    topic,
                    queue_id,
                    one.units,
                    one.first_offset,
                    one.end_offset,
                    lacking,
                    one.first_physical_offset,
                    one.last_physical_offset,
                    *bounds,
                )
            )
    return rows


def file_rows(found: Sequence[StoreAudit]) -> list[tuple[Any, ...]]:
    """As `FILES`: those of the log."""
    rows = []
    for store in found:
        counts: dict[str, int] = {}
        for (_, file), count in store.findings.counts.items():
            counts[file] = counts.get(file, 0) + count
        files: dict[str, list[int]] = {}
        for part in store.reports:
            one = files.setdefault(part.name, [part.start, 0, 0])
            one[1] += part.units - part.filler_units
            one[2] = max(one[2], part.end_at)
        rows += [(store.broker_name, name, *one, counts.get(name, 0)) for name, one in files.items()]
    return rows


REPORT: Final = (
    Shown("findings", "What is wrong", names_of(FINDINGS), is_finding=True),
    Shown("queues", "Queues in the log, those that lack offsets first", names_of(QUEUES)[:7]),
)


def _plots(found: Sequence[StoreAudit], files: Sequence[tuple[Any, ...]]) -> list[Plot]:
    bad = sorted((row for row in files if row[5]), key=lambda row: -row[5])[:WORST]
    made = [Plot("Findings by file of the log", [(f"{row[0]} {row[1]}", float(row[5])) for row in bad])] if bad else []
    series = {
        store.broker_name: [
            (float(part.first_timestamp), part.units * 1000 / max(part.last_timestamp - part.first_timestamp, 1))
            for part in store.reports
            if part.units > 1
        ]
        for store in found
    }
    if any(len(points) > 1 for points in series.values()):
        made.append(Plot("Messages stored a second", series=series, x_unit=Unit.TIME))
    return made


def _notes(found: Sequence[StoreAudit]) -> list[str]:
    notes = []
    for store in found:
        if store.recut:
            text = f"{store.recut} file(s) hold bodies that look like messages: they were looked at once more, uncut"
            notes.append(f"{store.broker_name}: {text}")
        notes += [f"{store.broker_name}: {note}" for note in store.notes]
    return notes


JOB: Final = Job(
    name="audit",
    line="Check log, queues and index against each other: chain, check sums, sizes, continuity.",
    parameters=(
        Parameter("no_queues", bool, "Leave out consume queues; the continuity of queue offsets in the log is still checked."),
        Parameter("no_index", bool, "Leave out the index."),
        Parameter("no_crc", bool, "Leave out check sums: of bodies, and of whole messages where there are some."),
    ),
    examples=("/data/broker-a/store", "/data/brokers --no-index --html audit.html"),
    found="a finding, error or warning",
    run=run,
    function=audit,
    left_out=("topic", *RANGE),
)
