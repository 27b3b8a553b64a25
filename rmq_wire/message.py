"""Stored messages: a hand walk over the unit of `rmq_wire.layout.message`.  What one implies elsewhere: `rmq_wire.implied`.

The fixed part of a unit is unpacked and packed by structs derived from the layout, one for each pair of host widths; body, topic
and properties are sliced by their lengths, and the walk must end exactly where the unit says that it ends.
Sources: `MessageDecoder.decode`, `CommitLog.checkMessageAndReturnSize`, `MessageExtEncoder`.
"""

from __future__ import annotations

from struct import error as PackedError
from typing import Final, NamedTuple

from rmq_wire import property_names as prop
from rmq_wire.checksum import body_crc
from rmq_wire.errors import BadRecord
from rmq_wire.layout.flat import Packed, length_of
from rmq_wire.layout.message import (
    BLANK_FLAT,
    BORN_V6,
    FIXED,
    HEAD_FLAT,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    STORE_V6,
    TOPIC_V1,
    TOPIC_V2,
    UNIT,
)

__all__ = [
    "MAGIC_BLANK",
    "MAGIC_V1",
    "MAGIC_V2",
    "StoredMessage",
    "pack_unit",
    "read_unit",
    "unit_parts",
]

Buffer = bytes | bytearray | memoryview

TOPIC_V1_BYTES_MAX: Final = 127
"""Longer topics make a version 2 unit: the length of version 1 is a signed byte."""
_HEAD: Final = HEAD_FLAT
_BLANK: Final = BLANK_FLAT
"""A unit begins with the same two fields (a test looks)."""
TAIL_MIN: Final = _BLANK.size
"""Bytes that a file keeps free after its last unit, for the blank."""
_SYS_FLAG: Final = _HEAD.field("sys_flag")
_SYS_FLAG_AT: Final = _HEAD.at["sys_flag"]
_HOST_BITS: Final = BORN_V6 | STORE_V6
_FIXED: Final[dict[int, Packed]] = {bits: layout.packed for bits, layout in FIXED.items()}
_SIZING_V4: Final = FIXED[0].rows(1, "magic", "sys_flag", "body_size")
_PLACING: Final = FIXED[0].rows(1, "total_size", "queue_offset")
_PARTS_V4: Final = FIXED[0].rows(1, "total_size", "magic", "queue_offset", "sys_flag", "born_timestamp", "body_size").unpack_from
_FIXED_V4_SIZE: Final = FIXED[0].size
TOPIC_LENGTHS: Final = {MAGIC_V1: length_of(TOPIC_V1), MAGIC_V2: length_of(TOPIC_V2)}
"""Magic -> how the topic's length is written."""
PROPERTIES_LENGTH: Final = length_of(UNIT, "properties")
_TOPIC_LENGTH_V1: Final = TOPIC_LENGTHS[MAGIC_V1]
_TOPIC_LENGTH_V2: Final = TOPIC_LENGTHS[MAGIC_V2]
_PROPERTIES_LENGTH_SIZE: Final = PROPERTIES_LENGTH.size
_LENGTH_V1_SIZE: Final = _TOPIC_LENGTH_V1.size
_V4_SIZE: Final = FIXED[0].size
_MAGIC_FIELD: Final = FIXED[0].names.index("magic")
_SYS_FLAG_FIELD: Final = FIXED[0].names.index("sys_flag")
"""Before the hosts, whose widths it says: every kind of unit has it at this place."""
_unpack_v4: Final = FIXED[0].packed.unpack_from
_unpack_length_v1: Final = _TOPIC_LENGTH_V1.unpack_from
_unpack_properties_length: Final = PROPERTIES_LENGTH.unpack_from
_as_tuple: Final = tuple.__new__
"""`StoredMessage._make` without its frame."""

PHYSICAL_OFFSET_AT: Final = _HEAD.at["physical_offset"]
QUEUE_OFFSET_AT: Final = _HEAD.at["queue_offset"]


class StoredMessage(NamedTuple):
    """One message unit, field by field as it is laid out.  Body, topic and properties are slices of what was read."""

    total_size: int
    magic: int
    body_crc: int
    queue_id: int
    flag: int
    queue_offset: int
    physical_offset: int
    sys_flag: int
    born_timestamp: int
    born_host: bytes
    store_timestamp: int
    store_host: bytes
    reconsume_times: int
    prepared_transaction_offset: int
    body: Buffer
    topic: bytes
    properties: bytes


def unit_size(*, sys_flag: int, body_size: int, topic_size: int, properties_size: int) -> int:
    """Bytes of a unit with these parts (`MessageExtEncoder.calMsgLength`)."""
    topic_length = _TOPIC_LENGTH_V1 if topic_size <= TOPIC_V1_BYTES_MAX else _TOPIC_LENGTH_V2
    lengths = topic_length.size + _PROPERTIES_LENGTH_SIZE
    return _FIXED[sys_flag & _HOST_BITS].size + lengths + body_size + topic_size + properties_size


def pack_unit(
    queue_id: int,
    flag: int,
    queue_offset: int,
    physical_offset: int,
    sys_flag: int,
    born_timestamp: int,
    born_host: bytes,
    store_timestamp: int,
    store_host: bytes,
    reconsume_times: int,
    prepared_transaction_offset: int,
    body: Buffer,
    topic: bytes,
    properties: bytes,
) -> bytes:
    """The bytes of one unit.  The hosts must be as wide as the sysFlag says; the topic's length chooses the version.

    Raises `struct.error` for a number out of range: lengths have been checked by whoever accepted the message.
    """
    fixed = _FIXED[sys_flag & _HOST_BITS]
    body_size, topic_size, properties_size = len(body), len(topic), len(properties)
    magic, topic_length = (MAGIC_V1, _TOPIC_LENGTH_V1) if topic_size <= TOPIC_V1_BYTES_MAX else (MAGIC_V2, _TOPIC_LENGTH_V2)
    size = fixed.size + topic_length.size + _PROPERTIES_LENGTH_SIZE + body_size + topic_size + properties_size
    head = fixed.pack(
        size,
        magic,
        body_crc(body),
        queue_id,
        flag,
        queue_offset,
        physical_offset,
        sys_flag,
        born_timestamp,
        born_host,
        store_timestamp,
        store_host,
        reconsume_times,
        prepared_transaction_offset,
        body_size,
    )
    return b"".join((head, body, topic_length.pack(topic_size), topic, PROPERTIES_LENGTH.pack(properties_size), properties))


def read_unit(log: Buffer, at: int = 0) -> StoredMessage:
    """The unit that begins at this byte.  Raises `BadRecord` unless it is whole and its lengths add up.

    A blank is a `BadRecord`, too: ask `blank_size` first where a file may end.  The check sum is not looked at.
    """
    if at < 0:
        raise BadRecord(f"unit at {at}")
    try:
        fields = _unpack_v4(log, at)
        body_at = at + _V4_SIZE
        hosts = fields[_SYS_FLAG_FIELD] & _HOST_BITS
        if hosts:
            fields = _FIXED[hosts].unpack_from(log, at)
            body_at = at + _FIXED[hosts].size
        magic, body_size = fields[_MAGIC_FIELD], fields[-1]
        body_end = topic_at = body_at + body_size
        if body_size < 0:
            raise BadRecord(f"unit at {at}: body of {body_size} bytes")
        if magic == MAGIC_V1:
            [topic_size] = _unpack_length_v1(log, body_end)
            topic_at += _LENGTH_V1_SIZE
        elif magic == MAGIC_V2:
            [topic_size] = _TOPIC_LENGTH_V2.unpack_from(log, body_end)
            topic_at += _TOPIC_LENGTH_V2.size
        else:
            raise BadRecord(f"unit at {at}: magic {magic & 0xFFFFFFFF:08X}")
        if topic_size < 0:
            raise BadRecord(f"unit at {at}: topic of {topic_size} bytes")
        topic_end = topic_at + topic_size
        [properties_size] = _unpack_properties_length(log, topic_end)
    except PackedError as reason:
        raise BadRecord(f"unit at {at}: {reason}") from None
    properties_at = topic_end + _PROPERTIES_LENGTH_SIZE
    end = properties_at + properties_size
    if properties_size < 0 or end > len(log) or end - at != fields[0]:
        raise BadRecord(f"unit at {at}: its fields end after {end - at} bytes, it says {fields[0]}")
    parts = (*fields[:-1], log[body_at:body_end], bytes(log[topic_at:topic_end]), bytes(log[properties_at:end]))
    return _as_tuple(StoredMessage, parts)


def unit_parts(log: Buffer, at: int) -> tuple[int, int, int, Buffer, bytes]:
    """Of the unit that begins at this byte where it ends, its queue offset, its born time, body and properties.

    Less than `read_unit`, and in less time for the usual one; raises what that does.
    """
    try:
        total_size, magic, queue_offset, sys_flag, born_timestamp, body_size = _PARTS_V4(log, at)
        if magic == MAGIC_V1 and body_size >= 0 and not sys_flag & _HOST_BITS:
            body_at = at + _V4_SIZE
            body_end = body_at + body_size
            [topic_size] = _unpack_length_v1(log, body_end)
            topic_end = body_end + _LENGTH_V1_SIZE + topic_size
            [properties_size] = _unpack_properties_length(log, topic_end)
            properties_at = topic_end + _PROPERTIES_LENGTH_SIZE
            end = properties_at + properties_size
            if topic_size >= 0 and properties_size >= 0 and end <= len(log) and end - at == total_size:
                return end, queue_offset, born_timestamp, log[body_at:body_end], bytes(log[properties_at:end])
    except PackedError:
        pass
    unit = read_unit(log, at)
    return at + unit.total_size, unit.queue_offset, unit.born_timestamp, unit.body, unit.properties


def stored_properties(unit: memoryview) -> bytes:
    """The properties of a whole unit, and nothing else of it; none where the lengths lead out of it.  Raises `BadRecord`."""
    try:
        magic, sys_flag, body_size = _SIZING_V4.unpack_from(unit)
        fixed_size = _FIXED_V4_SIZE
        if sys_flag & _HOST_BITS:
            layout = FIXED[sys_flag & _HOST_BITS]
            fixed_size = layout.size
            [body_size] = layout.field("body_size").unpack_from(unit, layout.at["body_size"])
        length = _TOPIC_LENGTH_V2 if magic == MAGIC_V2 else _TOPIC_LENGTH_V1
        topic_at = fixed_size + body_size
        [topic_size] = length.unpack_from(unit, topic_at)
    except PackedError as reason:
        raise BadRecord(f"unit: {reason}") from None
    return bytes(unit[topic_at + length.size + topic_size + _PROPERTIES_LENGTH_SIZE :])


def queue_offsets(units: Buffer) -> list[int]:
    """The queue offsets of whole units that lie back to back.  Raises `BadRecord`."""
    found: list[int] = []
    at, end = 0, len(units)
    try:
        while at < end:
            size, queue_offset = _PLACING.unpack_from(units, at)
            found.append(queue_offset)
            at += size if size > 0 else end
    except PackedError as reason:
        raise BadRecord(f"unit at {at}: {reason}") from None
    return found


def read_size_and_magic(log: Buffer, at: int) -> tuple[int, int]:
    """How a unit or a blank begins.  Raises `BadRecord` where there are fewer."""
    try:
        size, magic = _BLANK.packed.unpack_from(log, at)
    except PackedError as reason:
        raise BadRecord(f"unit at {at}: {reason}") from None
    return size, magic


def pack_blank(left: int) -> bytes:
    """The 8 bytes that say that the rest of a file means nothing.  left: bytes to the file's end, these included."""
    return _BLANK.packed.pack(left, MAGIC_BLANK)


def has_good_crc(unit: StoredMessage) -> bool:
    """Whether the body is the one that was stored.  An empty body is not checked, as in the reference."""
    return not unit.body or body_crc(memoryview(unit.body)) == unit.body_crc


def has_good_seal(raw: bytes | memoryview) -> bool:
    """Whether a whole unit ends with the check sum over all before it (`__CRC32#`, enabledAppendPropCRC)."""
    end = len(raw) - SEAL_BYTES
    return end > 0 and bytes(raw[end:]) == crc32_property(body_crc(memoryview(raw)[:end]))


CRC32_PROPERTY_SIZE: Final = 20
"""`CommitLog.CRC32_RESERVED_LEN`: the property at the very end of the string, when enabledAppendPropCRC is on."""


def crc32_property(crc: int) -> bytes:
    """`__CRC32#`, 01, ten digits with the lowest first, 02 (`MessageDecoder.createCrc32`)."""
    digits = f"{crc:010d}"[::-1]
    return f"{prop.CRC32}\x01{digits}\x02".encode()


SEAL_BYTES: Final = len(crc32_property(0))
"""Java: CRC32_RESERVED_LEN."""


def parse_crc32_property(value: str) -> int:
    """The number in the value of `__CRC32#`.  Raises `BadRecord` unless it is ten digits."""
    if len(value) != 10 or not (value.isascii() and value.isdigit()):
        raise BadRecord(f"not a reversed CRC-32: {value[:64]!r}")
    return int(value[::-1])
