"""Are messages in the order in which they should be?  By sharding key, by queue, and in the log.

What counts as a break:

    sequence    of two messages of one topic and sharding key that follow each other in one queue, the later one has the smaller
                sequence number.  Equal numbers are none (`duplicates` has them), nor numbers left out (`loss`).  A message
                without a number, or with one that is no whole number, is passed over and counted.  The order of a queue is that
                of the log, in which its offsets are given: they begin anew where a topic was deleted and made again.  What is
                in no queue (rolled back, a filler of `rmq inspect repair`) is looked at for `clock` alone.
    moved       of two messages of one topic and sharding key that follow each other by store time, the later one stands in
                another queue, or on another broker.  Queues of a topic being added moves keys once; `--allow-moves` then
                reports moves without calling them a finding.
    queueOrder  of two messages of one queue that follow each other in the log, the later one has not the greater queue offset.
                Where it is 0, the topic was made again, or the broker has lost count: a note says how many these are.
    clock       of two messages that follow each other in the log, the later one was stored before the earlier one, by more than
                `--clock-tolerance`.

Each place where order breaks is one row, with the message before it.  The sequence is that of a property (`--sequence
property:NAME`), the time of birth (`bornTimestamp`; as exact as the clocks of the producers), or a number that a ledger has for
each unique key (`ledger:COLUMN`).  Without `--sequence` the other three are looked at.  Retry topics and dead letters have
no order of keys; queues and log are looked at for all topics chosen.

`is_clean`: no row; with `--allow-moves`, none but `moved`.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Final

from rmq_columns.errors import BadOption
from rmq_spark.arguments import Parameter
from rmq_spark.jobs import Job, Source
from rmq_spark.kept import Keep, keeps
from rmq_spark.ledger import LEDGER_PARAMETERS, read_ledger
from rmq_spark.measuring import extent, source_of
from rmq_spark.outcome import Figure, Outcome, Plot, Unit
from rmq_spark.picking import Picking, columns_of, named
from rmq_spark.previous import hot_buckets, stretch_of, with_previous
from rmq_spark.session import Progress, watched
from rmq_spark.tables import Shown, tables_of
from rmq_wire.implied.topics import COPY_PREFIXES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KINDS: Final = ("sequence", "moved", "queueOrder", "clock")
LEDGER: Final = "ledger:"
PREVIOUS: Final = ("brokerName", "queueId", "queueOffset", "physicalOffset", "storeTimestamp", "sequence")
COLUMNS: Final = ("kind", "topic", "key", *PREVIOUS, "previous")
BY_TOPIC: Final = ("kind", "topic", "breaks", "keys")
_BEFORE: Final = """concat(previous.brokerName, '/', previous.queueId, ':', previous.queueOffset, '@', previous.physicalOffset,
    if(previous.sequence is null, '', concat(' #', previous.sequence))) as before"""
REPORT: Final = (
    Shown("topics", "Breaks by topic", BY_TOPIC, units={"keys": Unit.COUNT}),
    Shown(
        "breaks",
        "Where order breaks",
        (
            "kind",
            "topic",
            "key",
            "brokerName",
            "queueId",
            "queueOffset",
            "physicalOffset",
            "sequence",
            "storeTimestamp",
            _BEFORE,
        ),
        (f"array_position(array{KINDS}, kind)", "topic", "key", "storeTimestamp", "physicalOffset"),
        is_finding=True,
    ),
)

KEY: Final = ("topic", "key", "brokerName", "queueId")
"""What is in order in the log."""


def order(spark: SparkSession, paths: Any, **options: Any) -> DataFrame:
    """A row for each break: kind, topic, key, brokerName, queueId, queueOffset, physicalOffset, storeTimestamp, sequence, and
    `previous` with the same of the message before it.

    Looks at once which keys have many messages, which reads the log.  options: the parameters, those of the format.
    Raises `BadOption`.
    """
    given, rest = JOB.arguments(options)
    source = source_of(paths, rest)
    return found_in(spark, source, scanned(spark, source, given), given)


def scanned(spark: SparkSession, source: Source, given: dict[str, Any]) -> DataFrame:
    """What the tasks hand over (`order_scan.look`)."""
    from rmq_spark.jobs.order_scan import PLACE
    from rmq_spark.reading import worked

    key, key_property = named(given["by"], "_key")
    asked = given["sequence"] or ""
    is_ledger = asked.startswith(LEDGER)
    if is_ledger and not given["ledger"]:
        raise BadOption(f"sequence: {asked} needs --ledger")
    sequence, sequence_property = named(asked, "_sequence") if asked and not is_ledger else (None, None)
    columns = ["brokerName", "topic", "queueId", "sysFlag", *PLACE]
    columns += [one for one in (key if key_property is None else "", "uniqKey" if is_ledger else "") if one]
    columns += [sequence] if sequence is not None and sequence_property is None else []
    made_of = [(key, key_property)] if key_property is not None else []
    made_of += [(sequence, sequence_property)] if sequence is not None and sequence_property is not None else []
    wanted = Picking(tuple(dict.fromkeys(columns)), tuple(made_of))
    how = {"key": key, "sequence": sequence, "tolerance": given["clock_tolerance"]}
    return worked(spark, "ordered", columns_of(source, wanted), wanted=asdict(wanted), **how)


def keyed(spark: SparkSession, rows: DataFrame, given: dict[str, Any]) -> DataFrame:
    """Sharded messages with their sequence as a number."""
    from pyspark.sql import functions as F

    own = rows.where("tag = 'keyed'")
    for prefix in COPY_PREFIXES:
        own = own.where(~F.col("topic").startswith(prefix))
    asked = given["sequence"] or ""
    if asked.startswith(LEDGER):
        number = asked[len(LEDGER) :]
        ledger = read_ledger(spark, given["ledger"], given["ledger_format"], given["column"], (number,))
        ledger = ledger.where("uniqKey is not null")
        numbers = ledger.groupBy("topic", "uniqKey").agg(F.min(F.expr(f"try_cast(`{number}` as bigint)")).alias("numbered"))
        return own.drop("sequence").join(numbers, ["topic", "uniqKey"], "left").withColumnRenamed("numbered", "sequence")
    return own.withColumn("sequence", F.expr("try_cast(trim(sequence) as bigint)"))


def found_in(spark: SparkSession, source: Source, rows: DataFrame, given: dict[str, Any]) -> DataFrame:
    """All breaks of what was scanned, as `order` says.  Counts the rows of keys at once."""
    own = keyed(spark, rows, given)
    log_bytes, span_ms = extent(source)
    hot = hot_buckets(rows.where("tag = 'keyed'"), ("topic", "key"))
    found = moves(own, hot, span_ms).unionByName(of_queues(rows)).unionByName(seams(rows, given["clock_tolerance"]))
    if not given["sequence"]:
        return found
    hot = hot_buckets(rows.where("tag = 'keyed'"), KEY) if hot else hot
    return sequence_breaks(own, hot, log_bytes).unionByName(found)


def _place() -> Any:
    from pyspark.sql import functions as F

    return F.struct(*PREVIOUS)


def sequence_breaks(own: DataFrame, hot: list[int], log_bytes: int) -> DataFrame:
    """Within a queue, in the order of the log.  hot: buckets of `KEY`."""
    from pyspark.sql import functions as F

    stretch = F.expr(f"physicalOffset div {stretch_of(log_bytes)}")
    numbered = own.where("sequence is not null")
    rows = with_previous(numbered, KEY, ("physicalOffset",), _place(), hot, stretch)
    return rows.where("sequence < previous.sequence").withColumn("kind", F.lit("sequence")).select(*COLUMNS)


def moves(own: DataFrame, hot: list[int], span_ms: int) -> DataFrame:
    """From queue to queue, by store time.  hot: buckets of topic and key."""
    from pyspark.sql import functions as F

    stretch = F.expr(f"unix_millis(storeTimestamp) div {stretch_of(span_ms)}")
    order = ("storeTimestamp", "brokerName", "physicalOffset")
    rows = with_previous(own, KEY[:2], order, _place(), hot, stretch)
    moved = rows.where("previous.queueId <> queueId or previous.brokerName <> brokerName")
    return moved.withColumn("kind", F.lit("moved")).select(*COLUMNS)


def _previous() -> Any:
    from pyspark.sql import functions as F

    names = ("queueOffset", "physicalOffset", "storeTimestamp")
    of_log = [F.col(f"previous{name[0].upper()}{name[1:]}").alias(name) for name in names]
    return F.struct("brokerName", "queueId", *of_log, F.lit(None).cast("bigint").alias("sequence"))


def of_queues(rows: DataFrame) -> DataFrame:
    """What the tasks found by themselves."""
    from pyspark.sql import functions as F

    found = rows.where(F.col("tag").isin("queueOrder", "clock")).withColumn("previous", _previous())
    return found.withColumn("kind", F.col("tag")).withColumn("sequence", F.lit(None).cast("bigint")).select(*COLUMNS)


def seams(rows: DataFrame, tolerance_ms: int) -> DataFrame:
    """Between the last row of a split and the first one of the next, of each queue and of the log."""
    from pyspark.sql import functions as F
    from pyspark.sql.window import Window

    of_queue = Window.partitionBy("brokerName", "topic", "queueId").orderBy("physicalOffset")
    own = rows.where("tag = 'summary'").withColumn("previous", F.lag(_previous()).over(of_queue))
    own = own.withColumn("sequence", F.lit(None).cast("bigint"))
    order_broken = own.where("topic is not null and queueOffset <= previous.queueOffset").withColumn("kind", F.lit("queueOrder"))
    back = f"unix_millis(previous.storeTimestamp) - unix_millis(storeTimestamp) > {tolerance_ms}"
    clock = own.where(f"topic is null and {back}").withColumn("kind", F.lit("clock"))
    return order_broken.select(*COLUMNS).unionByName(clock.select(*COLUMNS))


@keeps
def run(spark: SparkSession, source: Source, given: dict[str, Any], progress: Progress, keep: Keep) -> Outcome:
    """One pass over the store; windows over what is sharded."""
    from pyspark.sql import functions as F

    rows = keep(scanned(spark, source, given))
    with watched(spark, "reading the log", progress):
        tags = {row["tag"]: row["count"] for row in rows.groupBy("tag").count().collect()}
    found = keep(found_in(spark, source, rows, given))
    with watched(spark, "comparing by key", progress):
        sums = found.groupBy("kind", "topic").agg(F.count("*").alias("breaks"), F.count_distinct("key").alias("keys")).collect()
        unjudged = keyed(spark, rows, given).where("sequence is null").count() if given["sequence"] else 0
    counts = {kind: sum(row["breaks"] for row in sums if row["kind"] == kind) for kind in KINDS}
    wrong = {kind: count for kind, count in counts.items() if count and not (kind == "moved" and given["allow_moves"])}
    labels = ("sequence goes back", "keys' moves to another queue", "queue offsets go back", "store times go back")
    figures = [
        Figure("keyedMessages", "messages with a sharding key", tags.get("keyed", 0)),
        *(Figure(kind, label, counts[kind]) for kind, label in zip(KINDS, labels, strict=True)),
        Figure("withoutSequence", "sharded messages without a number, not judged", unjudged),
    ]
    notes = [f"{tags['damage']} places of the log could not be read"] if tags.get("damage") else []
    again = found.where("kind = 'queueOrder' and queueOffset = 0").count() if counts["queueOrder"] else 0
    notes += [f"{again} queues begin again at 0: a topic that was made again, or a broker that has lost count"] if again else []
    notes += [] if tags.get("keyed") else ["no message has a sharding key: only queues and log were looked at"]
    notes += [] if given["sequence"] else ["no --sequence: whether messages of a key follow each other was not looked at"]
    verdict = ", ".join(f"{label}: {wrong[kind]}" for kind, label in zip(KINDS, labels, strict=True) if kind in wrong)
    topics = sorted(({**row.asDict(), "topic": row["topic"] or ""} for row in sums), key=lambda row: -row["breaks"])
    tables = tables_of(REPORT, {"topics": topics, "breaks": found}, breaks=sum(counts.values()))
    plots = [Plot("Breaks by kind", [(kind, float(count)) for kind, count in counts.items()])] if wrong else []
    verdict = verdict or f"clean: {tags.get('keyed', 0)} sharded messages, all in order"
    met = None if tags else 0
    return Outcome("order", verdict, not wrong, figures, tables, plots, notes, {"breaks": found}, met)


JOB: Final = Job(
    name="order",
    line="Find breaks of order: within a sharding key, in queues, in the log.",
    parameters=(
        Parameter("by", str, "Sharding key: property:NAME, or a column.", "property:__SHARDINGKEY", "KEY"),
        Parameter(
            "sequence",
            str,
            "What must not go back: property:NAME, bornTimestamp or ledger:COLUMN (a number for each unique key).",
            metavar="WHAT",
        ),
        replace(LEDGER_PARAMETERS[0], help="File or directory with numbers of unique keys, for ledger:COLUMN.  May be repeated."),
        *LEDGER_PARAMETERS[1:],
        Parameter("allow_moves", bool, "A sharding key in several queues is reported, but no finding."),
        Parameter("clock_tolerance", "duration", "How far store times may go back: 5ms, 1s.", "0"),
    ),
    examples=(
        "/data/broker-a/store --sequence property:sequence",
        "/data/brokers --by keys --ledger sent.csv --sequence ledger:n",
    ),
    found="order is broken",
    run=run,
    function=order,
)
