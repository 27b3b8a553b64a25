"""Message units as Arrow record batches: the columns that the Spark source and every other reader of tables will show.

Only the columns that are asked for are made.  Numbers were gathered by `rmq_columns.decode.units`; ragged ones come from
`rmq_columns.decode.ragged`, hosts (which are few) are written out once each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rmq_columns.decode.bodies import decompressed
from rmq_columns.decode.dtypes import Bytes, Mask, gather
from rmq_columns.decode.ragged import as_text, picked, ragged
from rmq_columns.decode.units import Units, bad_crcs
from rmq_columns.read.pairs import Pairs
from rmq_columns.read.schema import CORRUPT, TIME
from rmq_wire import property_names as prop
from rmq_wire.layout.message import BORN_V6, FIXED, HOST_V6_SIZE, STORE_V6
from rmq_wire.message_id import host_address, offset_message_id

NUMBERS: Final = {
    "queueId": ("queue_id", pa.int32()),
    "queueOffset": ("queue_offset", pa.int64()),
    "bodySize": ("body_size", pa.int32()),
    "bornTimestamp": ("born_timestamp", TIME),
    "storeTimestamp": ("store_timestamp", TIME),
    "reconsumeTimes": ("reconsume_times", pa.int32()),
    "flag": ("flag", pa.int32()),
    "sysFlag": ("sys_flag", pa.int32()),
    "bodyCrc": ("body_crc", pa.int32()),
    "preparedTransactionOffset": ("prepared_transaction_offset", pa.int64()),
    "physicalOffset": ("physical_offset", pa.int64()),
    "storeSize": ("total_size", pa.int32()),
}
"""Column -> field of the layout, type."""
VALUES: Final = {"tags": prop.TAGS, "keys": prop.KEYS, "uniqKey": prop.UNIQ_KEY}
"""Column -> property."""
KAFKA_NAMES: Final = {"value": "body", "partition": "queueId", "offset": "queueOffset", "timestamp": "storeTimestamp"}
"""Column of a Kafka record -> column of a message."""
BODIES: Final = frozenset({"body", *(name for name, own in KAFKA_NAMES.items() if own == "body")})
"""Columns that hold bodies."""
LOG_APPEND_TIME: Final = 1
"""Kafka's `TimestampType.LOG_APPEND_TIME`: the broker's clock, as storeTimestamp is."""
HOSTS_KEPT: Final = 4096
"""Texts of hosts that are remembered: every connection of every client has one."""
_US_PER_MS: Final = 1000
_PACKED_V6: Final = np.dtype((np.void, HOST_V6_SIZE))
_WORD: Final = np.dtype(np.int64)
"""As large as a packed IPv4 host: compared as a number it costs a tenth."""
_HOSTS: Final = {"bornHost": ("born_host", BORN_V6), "storeHost": ("store_host", STORE_V6)}


@dataclass
class Rows:
    """Units, all sound and ascending, of which columns are made.  topic: when it was made already."""

    buffer: Bytes
    units: Units
    broker_name: str = ""
    decompress: bool = False
    topic: Any = None
    corrupt: list[str | None] | None = None

    def __post_init__(self) -> None:
        if self.units.fault.any():
            raise ValueError("a unit with a fault has no columns")

    def __len__(self) -> int:
        return len(self.units)

    def take(self, which: slice | Mask) -> Rows:
        """Some of the rows, nothing decoded twice."""
        topic = self.topic
        if topic is not None:
            topic = topic[which] if isinstance(which, slice) else topic.filter(pa.array(which))
        corrupt = None
        if self.corrupt is not None:
            corrupt = self.corrupt[which] if isinstance(which, slice) else [self.corrupt[i] for i in np.flatnonzero(which)]
        return Rows(self.buffer, self.units.take(which), self.broker_name, self.decompress, topic, corrupt)

    def record_batch(self, schema: pa.Schema) -> pa.RecordBatch:
        """Raises KeyError for an unknown column, ValueError for wrong places, or for a null where the schema has none."""
        made = {}
        if "properties" in schema.names:  # first: single values are then picked from it
            made["properties"] = self._properties(schema.field("properties").type)
        columns = [made[name] if name in made else self._column(name) for name in schema.names]
        if any(column.null_count for column, field in zip(columns, schema, strict=True) if not field.nullable):
            raise ValueError("a message without what every message has")
        return pa.record_batch(columns, schema=schema)

    def record_batches(self, schema: pa.Schema, bytes_max: int | None) -> Iterator[pa.RecordBatch]:
        """The same, with bodies in pieces of about so many bytes: what is copied then is in the core's cache when it is sent."""
        bodies = [place for place, name in enumerate(schema.names) if name in BODIES]
        pieces = -(-self.log_bytes() // bytes_max) if bytes_max else 1
        count = -(-len(self) // pieces)
        if pieces == 1 or len(bodies) == len(schema):
            whole = self.record_batch(schema)
            yield from (whole.slice(begin, count) for begin in range(0, len(self), count))
            return
        others = self.record_batch(pa.schema([field for place, field in enumerate(schema) if place not in bodies]))
        for begin in range(0, len(self), count):
            rows = slice(begin, begin + count)
            copied = self._bodies[0][rows] if self.decompress else self._stored_bodies(rows)
            piece = others.slice(begin, count)
            for place in bodies:
                piece = piece.add_column(place, schema.field(place), copied)
            yield piece

    def log_bytes(self) -> int:
        """Of all rows, in the log."""
        return int(self.units["total_size"].sum())

    def _column(self, name: str) -> Any:
        name, units = KAFKA_NAMES.get(name, name), self.units
        if name in NUMBERS:
            field, kind = NUMBERS[name]
            values = units[field]
            return pa.array(microseconds(values)).cast(kind) if kind is TIME else pa.array(values, kind)
        if name in _HOSTS:
            return self._hosts(*_HOSTS[name])
        if name in VALUES:
            return self._pairs.value(VALUES[name])
        match name:
            case "brokerName":
                return pa.repeat(pa.scalar(self.broker_name, pa.string()), len(units))
            case "topic":
                return self.topic if self.topic is not None else self.topics()
            case "body":
                return self._bodies[0] if self.decompress else self._stored_bodies()
            case "crcOk":
                return pa.array(~bad_crcs(self.buffer.data, units))
            case "offsetMsgId":
                return self._message_ids()
            case "key":
                return self._pairs.value(prop.KEYS, is_raw=True)
            case "headers":
                return self._pairs.headers()
            case "timestampType":
                return pa.repeat(pa.scalar(LOG_APPEND_TIME, pa.int32()), len(units))
            case "_corrupt":
                return pa.array(self.corrupt, pa.string()) if self.corrupt else pa.nulls(len(units), pa.string())
        raise KeyError(name)

    def topics(self) -> Any:
        """The topic of each, as text."""
        return as_text(ragged(self.buffer, self.units.topic_at, self.units.topic_size))

    def bad_bodies(self) -> Mask:
        """Which bodies are said to be compressed and cannot be decompressed."""
        return self._bodies[1]

    @cached_property
    def _bodies(self) -> tuple[Any, Mask]:
        return decompressed(self._stored_bodies(), self.units["sys_flag"])

    def _stored_bodies(self, which: slice = slice(None)) -> Any:
        return ragged(self.buffer, self.units.body_at[which], self.units.body_size[which].astype(np.int64))

    @cached_property
    def _pairs(self) -> Pairs:
        return Pairs(self.buffer, self.units)

    def _properties(self, kind: pa.DataType) -> Any:
        if kind == pa.binary():
            return ragged(self.buffer, self.units.properties_at, self.units.properties_size)
        made = self._pairs.map()
        return made if made.type == kind else made.view(kind)

    def _message_ids(self) -> Any:
        hosts = self._packed_hosts("store_host", STORE_V6)
        offsets = self.units["physical_offset"].tolist()
        return pa.array([offset_message_id(host, offset) for host, offset in zip(hosts, offsets, strict=True)], pa.string())

    def _packed_hosts(self, field: str, bit: int) -> list[bytes]:
        found = np.empty(len(self.units), object)
        for rows, hosts in self._each_host(field, bit):
            found[rows] = [host.tobytes() for host in hosts]
        return list(found)

    def _hosts(self, field: str, bit: int) -> Any:
        """Hosts are few, so each is written out once; one that all have is repeated."""
        units = self.units
        texts: list[str] = []
        codes = np.zeros(len(units), np.int64)
        for rows, hosts in self._each_host(field, bit):
            found, which = _distinct(hosts)
            codes[rows] = which + len(texts)
            texts += map(host_text, found)
        if len(texts) == 1:
            return pa.repeat(pa.scalar(texts[0], pa.string()), len(units))
        return picked(pa.array(texts, pa.string()), codes)

    def _each_host(self, field: str, bit: int) -> Iterator[tuple[Any, npt.NDArray[Any]]]:
        """(rows, their hosts, packed) of one size and place."""
        units = self.units
        is_v6 = units.host_bits & bit != 0
        if not is_v6.any():
            yield slice(None), np.ascontiguousarray(units.fixed[field])
            return
        if not is_v6.all():
            yield ~is_v6, units.fixed[field][~is_v6]
        for bits in units.kinds_of_hosts():
            if bits & bit:
                rows = np.flatnonzero(units.host_bits == bits)
                yield rows, gather(self.buffer, units.at[rows] + FIXED[bits].at[field], _PACKED_V6)


def _distinct(hosts: npt.NDArray[Any]) -> tuple[list[bytes], Any]:
    """Packed hosts, each once, and for each row which of them it has."""
    is_same = hosts.view(_WORD) == hosts[:1].view(_WORD) if hosts.itemsize == _WORD.itemsize else hosts == hosts[0]
    if is_same.all():
        return [hosts[0].tobytes()], 0
    packed = pa.py_buffer(np.ascontiguousarray(hosts))
    encoded = pa.Array.from_buffers(pa.binary(hosts.itemsize), len(hosts), [None, packed]).dictionary_encode()
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy()


def record_batch(buffer: Bytes, units: Units, schema: pa.Schema) -> pa.RecordBatch:
    """The units, all sound and ascending, as rows.  Raises KeyError for an unknown column, ValueError for wrong places."""
    return Rows(buffer, units).record_batch(schema)


@lru_cache(HOSTS_KEPT)
def host_text(host: bytes) -> str:
    """`ip:port`, an IPv6 address in brackets."""
    ip, port = host_address(host)
    return f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"


def microseconds(values: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Of milliseconds; what does not fit stays at the end of time."""
    limit = np.iinfo(np.int64).max // _US_PER_MS
    return np.clip(values, -limit, limit).astype(np.int64) * _US_PER_MS


__all__ = ["CORRUPT", "Rows", "host_text", "microseconds", "record_batch"]
