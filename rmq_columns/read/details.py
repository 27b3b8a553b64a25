"""A second look of a comparison: parts of blocks within bounds, as `digests` has them, and the fields of single messages."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from rmq_columns.decode.dtypes import Bytes, Ints, gather
from rmq_columns.decode.units import Units
from rmq_columns.read.digests import BLOCK_OFFSETS, DIGESTS, Digester, DigestTask, Queues, batches, hashes, kept
from rmq_wire.layout.message import BORN_V6, FIXED, HOST_V4_SIZE, HOST_V6_SIZE, STORE_V6

DETAILS: Final = pa.schema(
    [
        ("side", pa.int32()),
        ("brokerName", pa.string()),
        ("topic", pa.string()),
        ("queueId", pa.int32()),
        ("queueOffset", pa.int64()),
        ("physicalOffset", pa.int64()),
        ("digest", pa.binary()),
        ("body", pa.binary()),
        ("bodySize", pa.int32()),
        ("bodyCrc", pa.int32()),
        ("properties", pa.binary()),
        ("flag", pa.int32()),
        ("sysFlag", pa.int32()),
        ("bornTimestamp", pa.int64()),
        ("bornHost", pa.binary()),
        ("reconsumeTimes", pa.int32()),
        ("preparedTransactionOffset", pa.int64()),
        ("storeTimestamp", pa.int64()),
        ("storeHost", pa.binary()),
    ]
)
"""body: its hash."""
LOOKED: Final = pa.schema([*DIGESTS, *(one for one in DETAILS if one.name not in DIGESTS.names)])
"""Rows of either kind: those of messages have a digest."""


def look_split(task: DigestTask) -> Iterator[pa.RecordBatch]:
    """Parts of the wanted blocks, and messages of those that are looked into, with the schema `LOOKED`.

    Raises `SeamMismatch`, `CannotRead`.
    """
    queues, digester = Queues(replace(task, wanted=task.looked)), Digester(task)
    for batch in batches(task, []):
        units, queue, _ = queues.choose(batch.buffer, batch.units, within=True)
        for begin in range(0, len(units), BLOCK_OFFSETS):
            chosen = slice(begin, begin + BLOCK_OFFSETS)
            yield _wide(_details(task, queues, batch.buffer, units.take(chosen), queue[chosen]))
        yield from map(_wide, digester.take(batch))
    yield from map(_wide, digester.summed())


def _wide(batch: pa.RecordBatch) -> pa.RecordBatch:
    there = set(batch.schema.names)
    columns = [batch.column(one.name) if one.name in there else pa.nulls(len(batch), one.type) for one in LOOKED]
    return pa.record_batch(columns, schema=LOOKED)


def _details(task: DigestTask, queues: Queues, buffer: Bytes, units: Units, queue: Ints) -> pa.RecordBatch:
    names = [queues.names[number] for number in queue.tolist()]
    view = buffer.data
    bodies = zip(units.body_at.tolist(), (units.body_at + units.body_size).tolist(), strict=True)
    texts = zip(units.properties_at.tolist(), (units.properties_at + units.properties_size).tolist(), strict=True)
    columns: dict[str, Any] = {
        "side": np.full(len(units), task.side),
        "brokerName": [task.broker] * len(units),
        "topic": [name[0] for name in names],
        "queueId": [name[1] for name in names],
        "queueOffset": units["queue_offset"],
        "physicalOffset": units["physical_offset"],
        "body": [hashlib.sha256(view[start:end]).digest()[:16] for start, end in bodies],
        "bodySize": units["body_size"],
        "bodyCrc": units["body_crc"],
        "properties": [kept(bytes(view[start:end]), task.how.ignored) for start, end in texts],
        "flag": units["flag"],
        "sysFlag": units["sys_flag"] & (-1 if task.how.is_exact else ~STORE_V6),
        "bornTimestamp": units["born_timestamp"],
        "bornHost": _hosts(buffer, units, "born_host", BORN_V6),
        "reconsumeTimes": units["reconsume_times"],
        "preparedTransactionOffset": units["prepared_transaction_offset"],
        "storeTimestamp": units["store_timestamp"],
        "storeHost": _hosts(buffer, units, "store_host", STORE_V6),
    }
    columns["digest"] = hashes(buffer, units, task.how)  # last: it overwrites some of the fields
    return pa.record_batch([pa.array(columns[one.name], one.type) for one in DETAILS], schema=DETAILS)


def _hosts(buffer: Bytes, units: Units, field: str, bit: int) -> list[bytes]:
    found: list[bytes] = [b""] * len(units)
    for bits in units.kinds_of_hosts():
        rows = np.flatnonzero(units.host_bits == bits)
        size = HOST_V6_SIZE if bits & bit else HOST_V4_SIZE
        hosts = gather(buffer, units.at[rows] + FIXED[bits].at[field], np.dtype((np.void, size)))
        for row, host in zip(rows.tolist(), hosts, strict=True):
            found[row] = host.tobytes()
    return found
