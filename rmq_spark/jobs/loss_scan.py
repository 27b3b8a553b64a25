"""What `loss` reads of the log, within the tasks: a narrow row for each message of the ledger's topics, and few others.

Most messages are only added up (`ROW`).  What has to be looked at whatever the ledger says is handed over by itself in the same
pass: messages that were or are delayed, timed or half, dead letters, bodies with another CRC (`CANDIDATE`), damage (`DAMAGE`),
and the last message of each split (`LAST`), which says where the log ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from rmq_spark.jobs import Source
from rmq_spark.picking import CORRUPT, Picking, columns_of, log_splits, looked_up, picking
from rmq_spark.work import Given, Work
from rmq_wire import property_names as prop
from rmq_wire.names import DLQ_PREFIX, SCHEDULE_TOPIC, TRANS_HALF_TOPIC, WHEEL_TIMER_TOPIC

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from rmq_columns import Split

SYSTEM: Final = (SCHEDULE_TOPIC, WHEEL_TIMER_TOPIC, TRANS_HALF_TOPIC)
"""Where messages wait before they come into their own topic."""
NO_TOPIC: Final = ""
"""Of damage, and of a log's last message: these are of every ledger."""
ROW, CANDIDATE, DAMAGE, LAST = range(4)
IS_WAITING, IS_MOVED, IS_COMMITTED, IS_CORRUPT = 1, 2, 4, 8
"""Flags: it is in a topic of the system's; it was; it is a half message that was committed; its body has another CRC."""
COLUMNS: Final = ("brokerName", "topic", "queueId", "queueOffset", "physicalOffset", "storeSize", "uniqKey", "sysFlag")
PROPERTIES: Final = (
    ("realTopic", prop.REAL_TOPIC),
    ("delay", prop.DELAY),
    ("due", prop.TIMER_OUT_MS),
    ("retryTopic", prop.RETRY_TOPIC),
    ("deadTopic", prop.DLQ_ORIGIN_TOPIC),
    ("recalls", prop.TIMER_DEL_UNIQKEY),
)
TRANSACTION_BITS, COMMITTED = 0xC, 0x8
"""`MessageSysFlag`."""
IDS: Final = "offsetMsgId"


def scanned(
    spark: SparkSession,
    source: Source,
    topics: Sequence[str],
    has_ids: bool,
    verify_crc: bool,
    rest: bool = False,
    part: tuple[int, int] | None = None,
) -> DataFrame:
    """kind; brokerName; topic that it is for; queueId, queueOffset, physicalOffset, storeSize; uniqKey, messageId; flags; own
    (the system's topic, or that of dead letters, null in its own one), deadIn (the group whose dead letter it is).

    rest: only what is no candidate anyway.  topics: none is any.  part: of each log, in which messages begin.
    """
    from rmq_spark.reading import worked

    wanted = Picking((*COLUMNS, *((IDS,) if has_ids else ())), PROPERTIES, among=tuple(topics))
    more = {"verifyCrc": str(verify_crc).lower(), "includeSystemTopics": "true"}
    if part is not None:
        more |= {"startingPhysicalOffset": str(part[0]), "endingPhysicalOffset": str(part[1])}
    options = columns_of(source, wanted, ("topics", "queueIds"), **more)
    return worked(spark, f"{__name__}:SCANNED", options, wanted=asdict(wanted), rest=rest)


def concerns(batch: pa.RecordBatch, topics: Sequence[str]) -> Any:
    """Rows of the log that can matter for a ledger of these topics; none: of any.

    What recalls a timed message has its unique key and waits behind it, but is not the message.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    topic, real = batch.column("topic"), batch.column("realTopic")
    waits = pc.and_(pc.is_in(topic, value_set=pa.array(SYSTEM)), pc.is_null(batch.column("recalls")))
    if not topics:
        return pc.or_(pc.invert(pc.is_in(topic, value_set=pa.array(SYSTEM))), waits)
    of_ledger = pa.array(topics, pa.string())
    own, waits = pc.is_in(topic, value_set=of_ledger), pc.and_(waits, pc.is_in(real, value_set=of_ledger))
    dies = pc.fill_null(pc.starts_with(topic, DLQ_PREFIX), False)
    return pc.or_(pc.or_(own, waits), dies)


def _schema(given: Given) -> pa.Schema:
    import pyarrow as pa

    texts, ints, longs = ("uniqKey", "messageId", "own", "deadIn"), ("queueId", "storeSize"), ("queueOffset", "physicalOffset")
    return pa.schema(
        [
            ("kind", pa.int32()),
            ("brokerName", pa.string()),
            ("topic", pa.string()),
            *((name, pa.int32()) for name in ints),
            *((name, pa.int64()) for name in longs),
            *((name, pa.string()) for name in texts),
            ("flags", pa.int32()),
        ]
    )


def _scan(given: Given, split: Split) -> Iterator[pa.RecordBatch]:
    import pyarrow.compute as pc

    wanted, is_rest, schema = given["wanted"], given.get("rest", False), _schema(given)
    last = None
    for batch in looked_up(wanted, split):
        is_message = pc.is_valid(batch.column("topic"))
        if not is_rest:
            messages = batch.filter(is_message)
            last = _of_kind(LAST, messages.slice(len(messages) - 1), schema) if len(messages) else last
            yield from _some(_of_kind(DAMAGE, batch.filter(pc.invert(is_message)), schema))
        asked = pc.or_(pc.fill_null(concerns(batch, wanted.among), False), pc.is_valid(batch.column(CORRUPT)))
        rows = _described(batch.filter(pc.and_(is_message, asked)), schema)
        is_candidate = pc.or_(pc.not_equal(rows.column("flags"), 0), pc.is_valid(rows.column("deadIn")))
        yield from _some(rows.filter(pc.invert(is_candidate) if is_rest else pc.is_null(rows.column("deadIn"))))
        if not is_rest:
            yield from _some(_marked(rows.filter(is_candidate), CANDIDATE))
    if last is not None:
        yield last


def _some(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    if len(batch):
        yield batch


def _described(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Messages as rows."""
    import pyarrow as pa
    import pyarrow.compute as pc

    topic, nothing = batch.column("topic"), pa.scalar(None, pa.string())
    is_dead, is_waiting = pc.starts_with(topic, DLQ_PREFIX), pc.is_in(topic, value_set=pa.array(SYSTEM))
    origin = pc.coalesce(batch.column("retryTopic"), batch.column("deadTopic"))
    meant = pc.if_else(is_dead, origin, pc.if_else(is_waiting, batch.column("realTopic"), topic))
    is_committed = pc.equal(pc.bit_wise_and(batch.column("sysFlag"), TRANSACTION_BITS), COMMITTED)
    is_moved = pc.or_(is_committed, pc.or_(pc.is_valid(batch.column("delay")), pc.is_valid(batch.column("due"))))
    flags = pa.nulls(len(batch), pa.int32()).fill_null(0)
    of_each = ((is_waiting, IS_WAITING), (is_moved, IS_MOVED), (is_committed, IS_COMMITTED))
    for is_so, bit in (*of_each, (pc.is_valid(batch.column(CORRUPT)), IS_CORRUPT)):
        flags = pc.bit_wise_or(flags, pc.multiply(pc.fill_null(is_so, False).cast(pa.int32()), pa.scalar(bit, pa.int32())))
    ids = pc.utf8_upper(batch.column(IDS)) if IDS in batch.schema.names else nothing
    made = {
        "kind": pa.scalar(ROW, pa.int32()),
        "topic": meant,
        "messageId": ids,
        "own": pc.if_else(pc.or_(is_dead, is_waiting), topic, nothing),
        "deadIn": pc.if_else(is_dead, pc.utf8_slice_codeunits(topic, len(DLQ_PREFIX)), nothing),
        "flags": flags,
    }
    return _filled(batch, made, schema)


def _of_kind(kind: int, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Places in the log, as rows of this kind."""
    import pyarrow as pa

    nothing = pa.scalar(None, pa.string())
    kept = {name: batch.column(name) for name in ("brokerName", "physicalOffset", "storeSize")}
    made = {"kind": pa.scalar(kind, pa.int32()), "topic": pa.scalar(NO_TOPIC), "flags": pa.scalar(0, pa.int32()), **kept}
    empty = {one.name: nothing if one.type == pa.string() else pa.scalar(None, one.type) for one in schema}
    return _filled(batch, {**empty, **made}, schema)


def _marked(batch: pa.RecordBatch, kind: int) -> pa.RecordBatch:
    import pyarrow as pa

    return _filled(batch, {"kind": pa.scalar(kind, pa.int32())}, batch.schema)


def _filled(batch: pa.RecordBatch, made: dict[str, Any], schema: pa.Schema) -> pa.RecordBatch:
    """The columns of the schema: those made, others as they are."""
    import pyarrow as pa

    def column(name: str) -> pa.Array:
        one = made[name] if name in made else batch.column(name)
        return pa.repeat(one, len(batch)) if isinstance(one, pa.Scalar) else one

    return pa.record_batch([column(one.name).cast(one.type) for one in schema], schema=schema)


SCANNED: Final = Work(_schema, _scan, log_splits, {"wanted": picking, "rest": lambda text: text == "true"})
"""The table of `scanned`."""
