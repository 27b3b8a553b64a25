"""Message units as Arrow record batches: the columns that the Spark source and every other reader of tables will show.

Arrow believes the offsets that it is given (a wrong one is a crash, not an error), so every run of bytes is checked here first.
Ragged columns come without a loop: the whole block becomes an array of payload, gap, payload, gap …, and `take` picks the
payloads.  Texts that are not UTF-8 are shown with U+FFFD, as Java reads them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rmq_columns.dtypes import Bytes, Ints, gather
from rmq_columns.texts import Hasher, Properties, properties_of
from rmq_columns.units import Units, bad_crcs, slices
from rmq_wire import properties as property_text
from rmq_wire import property_names as names
from rmq_wire.layout.message import BORN_V6, FIXED, HOST_V4_SIZE, HOST_V6_SIZE, STORE_V6
from rmq_wire.message_id import host_address

TIME: Final = pa.timestamp("us", tz="UTC")
NUMBERS: Final = {
    "queueId": ("queue_id", pa.int32()), "queueOffset": ("queue_offset", pa.int64()), "bodySize": ("body_size", pa.int32()),
    "bornTimestamp": ("born_timestamp", TIME), "storeTimestamp": ("store_timestamp", TIME),
    "reconsumeTimes": ("reconsume_times", pa.int32()), "flag": ("flag", pa.int32()), "sysFlag": ("sys_flag", pa.int32()),
    "bodyCrc": ("body_crc", pa.int32()), "preparedTransactionOffset": ("prepared_transaction_offset", pa.int64()),
    "physicalOffset": ("physical_offset", pa.int64()), "storeSize": ("total_size", pa.int32()),
}  # fmt: skip
"""Column -> field of the layout, type."""
VALUES: Final = {"tags": names.TAGS, "keys": names.KEYS, "uniqKey": names.UNIQ_KEY}
"""Column -> property."""
SCHEMA: Final = pa.schema(
    [
        ("topic", pa.string()), ("queueId", pa.int32()), ("queueOffset", pa.int64()), ("body", pa.binary()),
        ("bodySize", pa.int32()),
        ("tags", pa.string()), ("keys", pa.string()), ("uniqKey", pa.string()), ("properties", pa.map_(pa.string(), pa.string())),
        ("bornTimestamp", TIME), ("storeTimestamp", TIME), ("bornHost", pa.string()), ("storeHost", pa.string()),
        *((name, NUMBERS[name][1]) for name in ("reconsumeTimes", "flag", "sysFlag", "bodyCrc", "preparedTransactionOffset")),
        ("physicalOffset", pa.int64()), ("storeSize", pa.int32()), ("crcOk", pa.bool_()),
    ]
)  # fmt: skip
"""Every column that there is, in order.  The body is as it was stored, compressed or not."""
_US_PER_MS: Final = 1000
_HOSTS: Final = {"bornHost": ("born_host", BORN_V6), "storeHost": ("store_host", STORE_V6)}
_NEED_PROPERTIES: Final = {*VALUES, "properties"}


def record_batch(buffer: Bytes, units: Units, columns: Sequence[str] = SCHEMA.names) -> pa.RecordBatch:
    """The units, all sound and ascending, as rows.  Raises KeyError for an unknown column, ValueError for wrong places."""
    wanted = [SCHEMA.field(name) for name in columns]
    rows = _Rows(buffer, units, bool(_NEED_PROPERTIES & set(columns)))
    return pa.record_batch([rows.column(field.name) for field in wanted], schema=pa.schema(wanted))


class _Rows:
    def __init__(self, buffer: Bytes, units: Units, with_properties: bool) -> None:
        if units.fault.any():
            raise ValueError("a unit with a fault has no columns")
        self._buffer, self._units = buffer, units
        self._properties: Properties | None = None
        if with_properties:
            cut = list(slices(buffer.data, units.properties_at, units.properties_size))
            self._properties = properties_of(cut, units.properties_size)

    def column(self, name: str) -> Any:
        units = self._units
        if name in NUMBERS:
            field, kind = NUMBERS[name]
            values = units[field]
            return pa.array(_microseconds(values) if kind is TIME else values, kind)
        if name in _HOSTS:
            return self._hosts(*_HOSTS[name])
        if name == "topic":
            return as_text(ragged(self._buffer, units.topic_at, units.topic_size))
        if name == "body":
            return ragged(self._buffer, units.body_at, units.body_size.astype(np.int64))
        if name == "crcOk":
            return pa.array(~bad_crcs(self._buffer.data, units))
        assert self._properties is not None
        return self._map(self._properties) if name == "properties" else self._value(self._properties, VALUES[name])

    def _value(self, properties: Properties, name: str) -> Any:
        spans = properties.values(name.encode())
        present = np.flatnonzero(spans.present)
        found = as_text(ragged(_raw(properties.data), spans.starts[present], spans.sizes[present]))
        where: npt.NDArray[np.int64] = np.cumsum(spans.present) - 1
        return found.take(pa.array(where, mask=~spans.present))

    def _map(self, properties: Properties) -> Any:
        raw, data = _raw(properties.data), properties.data
        hashes = Hasher(data).hashes(properties.name_at, properties.name_size).astype(np.int64) & 0xFFFFFFFF
        if len(np.unique(properties.row << 32 | hashes)) < len(hashes):  # a name twice in a row: the last value wins
            return self._map_slowly()
        keys = as_text(ragged(raw, properties.name_at, properties.name_size))
        values = as_text(ragged(raw, properties.value_at, properties.value_size))
        counts = np.bincount(properties.row, minlength=len(self._units)) if len(hashes) else np.zeros(len(self._units), np.int64)
        offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
        return pa.MapArray.from_arrays(pa.array(offsets), keys, values)

    def _map_slowly(self) -> Any:
        cut = slices(self._buffer.data, self._units.properties_at, self._units.properties_size)
        pairs = [list(property_text.decode(bytes(text).decode("utf-8", "replace")).items()) for text in cut]
        return pa.array(pairs, SCHEMA.field("properties").type)

    def _hosts(self, field: str, bit: int) -> Any:
        """Hosts are few, so each is written out once."""
        units = self._units
        found = np.empty(len(units), object)
        for bits in np.unique(units.host_bits).tolist():
            rows = np.flatnonzero(units.host_bits == bits)
            size = HOST_V6_SIZE if bits & bit else HOST_V4_SIZE
            hosts = gather(self._buffer, units.at[rows] + FIXED[bits].at[field], np.dtype((np.void, size)))
            sortable = hosts.view(np.int64) if size == HOST_V4_SIZE else hosts  # numbers sort faster than bytes
            distinct, which = np.unique(sortable, return_inverse=True)
            found[rows] = np.array([host_text(one.tobytes()) for one in distinct], object)[which]
        return pa.array(found.tolist(), pa.string())


def host_text(host: bytes) -> str:
    """`ip:port`, an IPv6 address in brackets."""
    ip, port = host_address(host)
    return f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"


def _microseconds(values: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Of milliseconds; what does not fit stays at the end of time."""
    limit = np.iinfo(np.int64).max // _US_PER_MS
    return np.clip(values, -limit, limit).astype(np.int64) * _US_PER_MS


def _raw(data: bytes) -> Bytes:
    return np.frombuffer(data, np.uint8)


def ragged(buffer: Bytes, starts: Ints, sizes: Ints) -> Any:
    """Runs of bytes as a binary array, copied.  Raises ValueError unless they ascend and lie within the buffer."""
    count = len(starts)
    if not count:
        return pa.array([], pa.binary())
    offsets = np.empty(2 * count, np.int64)
    offsets[0::2], offsets[1::2] = starts, starts + sizes
    if offsets[0] < 0 or offsets[-1] > min(len(buffer), np.iinfo(np.int32).max) or (np.diff(offsets) < 0).any():
        raise ValueError("runs that do not ascend within their buffer")
    narrow = pa.py_buffer(offsets.astype(np.int32))
    whole = pa.Array.from_buffers(pa.binary(), 2 * count - 1, [None, narrow, pa.py_buffer(buffer)])
    return whole.take(pa.array(np.arange(0, 2 * count - 1, 2)))


def as_text(found: Any) -> Any:
    """Binary as UTF-8."""
    try:
        return found.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([one.decode("utf-8", "replace") for one in found.to_pylist()], pa.string())
