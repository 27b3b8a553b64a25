"""Message trace as a table: what stock clients report of each send and each consumption.

A trace body is text: records that end with 0x02, fields with 0x01 between them, the first of which names the record's kind
(`TraceDataEncoder` of the clients).  Fields that a client did not know are the word `null`; older ones leave the last fields out.
Bodies are few beside the log's other messages, so they are parsed one by one, in Python.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from rmq_columns.read.options import Mode
from rmq_columns.read.plan import Split
from rmq_columns.read.reading import read_split
from rmq_columns.read.schema import TIME
from rmq_wire.names import TRACE_TOPIC

RECORD_END: Final = "\x02"
FIELD_END: Final = "\x01"
UNREADABLE: Final = "unreadable"
"""`traceType` of a record that is none."""
COLUMNS: Final = ("physicalOffset", "body")

TRACES: Final = pa.schema(
    [
        ("brokerName", pa.string()),
        ("physicalOffset", pa.int64()),
        ("traceType", pa.string()),
        ("timestamp", TIME),
        ("regionId", pa.string()),
        ("group", pa.string()),
        ("requestId", pa.string()),
        ("topic", pa.string()),
        ("msgId", pa.string()),
        ("tags", pa.string()),
        ("keys", pa.string()),
        ("storeHost", pa.string()),
        ("bodyLength", pa.int32()),
        ("costTime", pa.int32()),
        ("msgType", pa.string()),
        ("offsetMsgId", pa.string()),
        ("success", pa.bool_()),
        ("clientHost", pa.string()),
        ("retryTimes", pa.int32()),
        ("contextCode", pa.string()),
        ("transactionId", pa.string()),
        ("transactionState", pa.string()),
        ("fromTransactionCheck", pa.bool_()),
    ]
)
"""brokerName and physicalOffset are the trace message's own.  costTime: ms; of a consumption its listener's, divided by the
messages that it was given at once.  requestId joins SubBefore and SubAfter."""

MESSAGE_TYPES: Final = ("Normal_Msg", "Trans_Msg_Half", "Trans_msg_Commit", "Delay_Msg", "Order_Msg")
"""`MessageType`, in order."""
RETURN_TYPES: Final = ("SUCCESS", "TIME_OUT", "EXCEPTION", "RETURNNULL", "FAILED")
"""`ConsumeReturnType`, in order."""


def _text(value: str) -> str | None:
    return None if value in ("", "null") else value


def _micros(value: str) -> int:
    return int(value) * 1000


def _small(value: str) -> int:
    number = int(value)
    if not -(1 << 31) <= number < 1 << 31:
        raise ValueError(value)
    return number


def _truth(value: str) -> bool:
    return value.lower() == "true"


def _one_of(words: tuple[str, ...]) -> Callable[[str], str | None]:
    def read(value: str) -> str:
        number = int(value)
        return words[number] if 0 <= number < len(words) else value

    return read


_READ: Final[dict[str, Callable[[str], Any]]] = {
    "timestamp": _micros,
    "bodyLength": _small,
    "costTime": _small,
    "success": _truth,
    "retryTimes": _small,
    "fromTransactionCheck": _truth,
    "msgType": _one_of(MESSAGE_TYPES),
    "contextCode": _one_of(RETURN_TYPES),
}
_SENT: Final = ("timestamp", "regionId", "group", "topic", "msgId", "tags", "keys", "storeHost")
_PUB: Final = (*_SENT, "bodyLength", "costTime", "msgType")
_FIELDS: Final[dict[str, tuple[str, ...]]] = {
    "Pub": (*_PUB, "offsetMsgId", "success", "clientHost"),
    "SubBefore": ("timestamp", "regionId", "group", "requestId", "msgId", "retryTimes", "keys"),
    "SubAfter": ("requestId", "msgId", "costTime", "success", "keys", "contextCode", "timestamp", "group"),
    "EndTransaction": (*_SENT, "msgType", "transactionId", "transactionState", "fromTransactionCheck"),
    "Recall": ("timestamp", "regionId", "group", "topic", "msgId", "success"),
}
_OLD_PUB: Final = (*_PUB, "success")
_NEEDED: Final = {"Pub": 11, "SubBefore": 6, "SubAfter": 4, "EndTransaction": 12, "Recall": 6}
"""Fields without which Java's own decoder would not read the record either."""


def parse_trace(body: bytes) -> Iterator[dict[str, Any]]:
    """The records of one body; a record that cannot be read comes as `UNREADABLE`."""
    for record in body.decode("utf-8", "replace").split(RECORD_END):
        if record:
            yield _record(record.split(FIELD_END))


def _record(words: list[str]) -> dict[str, Any]:
    kind, values = words[0], words[1:]
    if len(values) < _NEEDED.get(kind, 1 << 31):
        return {"traceType": UNREADABLE}
    names = _OLD_PUB if kind == "Pub" and len(values) == len(_OLD_PUB) else _FIELDS[kind]
    try:
        found = {
            name: _READ.get(name, _text)(value) for name, value in zip(names, values, strict=False) if value not in ("", "null")
        }
    except ValueError:
        return {"traceType": UNREADABLE}
    return {"traceType": kind, **found}


def traces_in(split: Split, topic: str = TRACE_TOPIC) -> Iterator[pa.RecordBatch]:
    """The trace records among the messages of one split of the table `messages`, with the schema `TRACES`.

    Raises what `read_split` raises.  Damage is left out unless the split's mode is FAILFAST.
    """
    mode = Mode.DROPMALFORMED if split.options.mode is Mode.PERMISSIVE else split.options.mode
    options = replace(split.options, topics=frozenset({topic}), columns=COLUMNS, include_body=True, decompress=True, mode=mode)
    for batch in read_split(replace(split, options=options)):
        rows = [
            {"brokerName": split.store.broker_name, "physicalOffset": place.as_py(), **record}
            for place, body in zip(batch["physicalOffset"], batch["body"], strict=True)
            for record in parse_trace(body.as_py() or b"")
        ]
        if rows:
            yield pa.RecordBatch.from_pylist(rows, TRACES)
