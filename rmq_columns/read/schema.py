"""Names, types and order of the columns of each table.

Types are those that Spark takes without a change: `string` and `binary` with 32-bit offsets, no dictionaries, times in
microseconds UTC.  In Arrow every column may be null; what Spark is given stands in `rmq_spark.types`.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from rmq_columns.errors import BadOption
from rmq_columns.read.options import Kept, Mode, Options, Table

TIME: Final = pa.timestamp("us", tz="UTC")
TEXTS: Final = pa.map_(pa.string(), pa.string())
CORRUPT: Final = "_corrupt"
"""Only in mode PERMISSIVE: what is wrong with this row; null for a sound one."""

MESSAGES: Final = pa.schema(
    [
        ("brokerName", pa.string()),
        ("topic", pa.string()),
        ("queueId", pa.int32()),
        ("queueOffset", pa.int64()),
        ("body", pa.binary()),
        ("bodySize", pa.int32()),
        ("tags", pa.string()),
        ("keys", pa.string()),
        ("uniqKey", pa.string()),
        ("properties", TEXTS),
        ("bornTimestamp", TIME),
        ("storeTimestamp", TIME),
        ("bornHost", pa.string()),
        ("storeHost", pa.string()),
        ("reconsumeTimes", pa.int32()),
        ("flag", pa.int32()),
        ("sysFlag", pa.int32()),
        ("bodyCrc", pa.int32()),
        ("preparedTransactionOffset", pa.int64()),
        ("physicalOffset", pa.int64()),
        ("storeSize", pa.int32()),
        ("offsetMsgId", pa.string()),
        ("crcOk", pa.bool_()),
    ]
)
"""offsetMsgId comes only when it is named, crcOk with verifyCrc or when it is named."""

HEADERS: Final = pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))
KAFKA: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", TIME),
        ("timestampType", pa.int32()),
        ("headers", HEADERS),
    ]
)
"""Of messages with kafkaCompatible, as Spark's own Kafka source names them; every column of MESSAGES may be named besides.

key: KEYS.  value: body.  partition: queueId.  offset: queueOffset.  timestamp: storeTimestamp.  headers: properties.
"""

TABLES: Final = {
    Table.MESSAGES: MESSAGES,
    Table.CONSUME_QUEUE: pa.schema(
        [
            ("brokerName", pa.string()),
            ("topic", pa.string()),
            ("queueId", pa.int32()),
            ("queueOffset", pa.int64()),
            ("physicalOffset", pa.int64()),
            ("size", pa.int32()),
            ("tagsCode", pa.int64()),
            ("batchSize", pa.int32()),
        ]
    ),
    Table.INDEX: pa.schema(
        [
            ("brokerName", pa.string()),
            ("file", pa.string()),
            ("number", pa.int32()),
            ("keyHash", pa.int32()),
            ("phyOffset", pa.int64()),
            ("storeTime", TIME),
            ("slot", pa.int32()),
            ("previous", pa.int32()),
        ]
    ),
    Table.FILES: pa.schema(
        [
            ("brokerName", pa.string()),
            ("kind", pa.string()),
            ("path", pa.string()),
            ("topic", pa.string()),
            ("queueId", pa.int32()),
            ("startOffset", pa.int64()),
            ("size", pa.int64()),
            ("firstStoreTimestamp", TIME),
        ]
    ),
    Table.TOPICS: pa.schema(
        [
            ("brokerName", pa.string()),
            ("topic", pa.string()),
            ("readQueueNums", pa.int32()),
            ("writeQueueNums", pa.int32()),
            ("perm", pa.int32()),
            ("topicFilterType", pa.string()),
            ("topicSysFlag", pa.int32()),
            ("order", pa.bool_()),
            ("attributes", TEXTS),
        ]
    ),
    Table.CONSUMER_OFFSETS: pa.schema(
        [
            ("brokerName", pa.string()),
            ("group", pa.string()),
            ("topic", pa.string()),
            ("queueId", pa.int32()),
            ("offset", pa.int64()),
            ("pullOffset", pa.int64()),
        ]
    ),
    Table.GAPS: pa.schema(
        [
            ("brokerName", pa.string()),
            ("file", pa.string()),
            ("startOffset", pa.int64()),
            ("endOffset", pa.int64()),
            ("size", pa.int64()),
            ("kind", pa.string()),
        ]
    ),
}


def schema_of(options: Options) -> pa.Schema:
    """The columns that will come, in this order.  Raises `BadOption` for a name that there is not."""
    whole = TABLES[options.table]
    fields = {name: whole.field(name) for name in whole.names}
    if options.table is Table.MESSAGES and options.properties is Kept.RAW:
        fields["properties"] = pa.field("properties", pa.binary())
    if options.kafka_compatible:
        fields = {name: KAFKA.field(name) for name in KAFKA.names} | fields
    if options.mode is Mode.PERMISSIVE:
        fields[CORRUPT] = pa.field(CORRUPT, pa.string())
    if options.columns is not None:
        if strange := [name for name in options.columns if name not in fields]:
            raise BadOption(f"columns: no {', '.join(strange)}; there are {', '.join(fields)}")
        return pa.schema([fields[name] for name in options.columns])
    if options.kafka_compatible:
        left_out = set() if options.include_body else {"value"}
        left_out |= {"headers"} if options.properties is Kept.NONE else set()
        return pa.schema([one for name, one in fields.items() if name in {*KAFKA.names, CORRUPT} - left_out])
    if options.table is Table.MESSAGES:
        left_out = {"offsetMsgId"}
        left_out |= set() if options.verify_crc else {"crcOk"}
        left_out |= set() if options.include_body else {"body"}
        left_out |= {"properties"} if options.properties is Kept.NONE else set()
        return pa.schema([one for name, one in fields.items() if name not in left_out])
    return pa.schema(list(fields.values()))
