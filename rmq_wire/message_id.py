"""The two ids of a message: where it is stored (offset message id) and who made it when (unique key).

Both are upper-case hexadecimal.  An offset message id is the store host (address, port) and the physical offset: 32
characters for IPv4, 56 for IPv6 (`MessageDecoder.createMessageId`).  A unique key is address, process id, a number of the
process, milliseconds since the month began in local time, and a counter: 32 or 56 characters, too
(`MessageClientIDSetter`).  Clocks and counters are handed in.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Container
from typing import Final, NamedTuple

from rmq_wire.errors import BadHeader
from rmq_wire.layout.message import HOST_V4_FLAT, HOST_V4_SIZE, HOST_V6_SIZE
from rmq_wire.layout.message_id import (
    OFFSET_ID_V4_FLAT,
    OFFSET_ID_V6_FLAT,
    UNIQUE_KEY_V4_FLAT,
    UNIQUE_KEY_V6_FLAT,
)

__all__ = [
    "HOST_V4_SIZE",
    "HOST_V6_SIZE",
    "OffsetMessageId",
    "UniqueKey",
    "UniqueKeyMaker",
    "host_address",
    "month_span",
    "offset_message_id",
    "pack_host",
    "parse_offset_message_id",
    "parse_unique_key",
]

_PORT: Final = HOST_V4_FLAT.field("port")
_OFFSET: Final = OFFSET_ID_V4_FLAT.field("physical_offset")
_OFFSET_IDS: Final = {one.size: one.packed for one in (OFFSET_ID_V4_FLAT, OFFSET_ID_V6_FLAT)}
_UNIQUE_KEYS: Final = {one.size: one.packed for one in (UNIQUE_KEY_V4_FLAT, UNIQUE_KEY_V6_FLAT)}
_UNIQUE_KEY: Final = UNIQUE_KEY_V4_FLAT
_PID: Final = _UNIQUE_KEY.field("pid")
_PROCESS_NUMBER: Final = _UNIQUE_KEY.field("process_number")
_MOVING: Final = "%s" + "".join(f"%0{2 * _UNIQUE_KEY.field(name).size}X" for name in ("span_ms", "serial"))
"""What changes from key to key, as text behind what does not."""
_CLOCK_STEP_MS_MAX: Final = 1_000_000
"""A clock that went back by less counts as standing still (`createUniqID`)."""


class OffsetMessageId(NamedTuple):
    """What an offset message id says.  host: packed address and port, 8 or 20 bytes, as in a message unit."""

    host: bytes
    physical_offset: int

    @property
    def address(self) -> tuple[str, int]:
        """IP text and port."""
        return host_address(self.host)


class UniqueKey(NamedTuple):
    """What a unique key says: packed address, pid (16 bits), the process's own number, ms of the month, serial (16 bits)."""

    ip: bytes
    pid: int
    process_number: int
    span_ms: int
    serial: int


def pack_host(ip: str, port: int) -> bytes:
    """An address as message units hold it: 8 bytes, or 20 for IPv6.  An IPv4 address in IPv6 clothes is IPv4, as in Java."""
    address = ipaddress.ip_address(ip.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address.packed + _PORT.pack(port)


def host_address(host: bytes) -> tuple[str, int]:
    """IP text and port of 8 or 20 packed bytes."""
    return str(ipaddress.ip_address(host[: -_PORT.size])), _PORT.unpack(host[-_PORT.size :])[0]


def offset_message_id(host: bytes, physical_offset: int) -> str:
    """host: packed, 8 or 20 bytes."""
    return (host + _OFFSET.pack(physical_offset)).hex().upper()


def parse_offset_message_id(text: str) -> OffsetMessageId:
    """Raises `BadHeader` unless this is 32 or 56 hexadecimal digits (Java takes lower case, too)."""
    raw = _unhex(text, "message id", _OFFSET_IDS)
    return OffsetMessageId._make(_OFFSET_IDS[len(raw)].unpack(raw))


class UniqueKeyMaker:
    """Makes the unique keys of one process, as `MessageClientIDSetter.createUniqID` does."""

    def __init__(self, *, ip: bytes, pid: int, process_number: int, zone: datetime.tzinfo | None, count: int = 0) -> None:
        """ip: 4 or 16 bytes.  process_number: any 32 bits that tell apart processes with one pid.  zone: whose months count."""
        self._fixed = (ip + _PID.pack(pid & 0xFFFF) + _PROCESS_NUMBER.pack(_signed32(process_number))).hex().upper()
        self._zone = zone
        self._count = count
        self._month_begin_ms = self._month_end_ms = 0

    def make(self, wall_ms: int) -> str:
        """A key that this process has not made before."""
        if wall_ms >= self._month_end_ms:
            self._month_begin_ms, self._month_end_ms = month_span(wall_ms, self._zone)
        span_ms = wall_ms - self._month_begin_ms
        if -_CLOCK_STEP_MS_MAX < span_ms < 0:
            span_ms = 0
        serial, self._count = self._count & 0xFFFF, self._count + 1
        return _MOVING % (self._fixed, span_ms & 0xFFFFFFFF, serial)


def month_span(wall_ms: int, zone: datetime.tzinfo | None) -> tuple[int, int]:
    """First millisecond of the month in that zone, and of the next one."""
    now = datetime.datetime.fromtimestamp(wall_ms // 1000, zone)
    begin = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0, fold=0)
    end = begin.replace(year=begin.year + begin.month // 12, month=begin.month % 12 + 1)
    return int(begin.timestamp()) * 1000, int(end.timestamp()) * 1000


def parse_unique_key(text: str) -> UniqueKey:
    """Raises `BadHeader` unless this is 32 or 56 hexadecimal digits: producers may set any text as their key."""
    raw = _unhex(text, "unique key", _UNIQUE_KEYS)
    return UniqueKey._make(_UNIQUE_KEYS[len(raw)].unpack(raw))


def _unhex(text: str, what: str, sizes: Container[int]) -> bytes:
    if len(text) / 2 in sizes and text.isascii():
        try:
            raw = bytes.fromhex(text)
        except ValueError:
            raw = b""
        if len(raw) * 2 == len(text):  # fromhex skips blanks
            return raw
    raise BadHeader(f"not a {what}: {text[:64]!r}")


def _signed32(number: int) -> int:
    return (number & 0xFFFFFFFF ^ 0x80000000) - 0x80000000
