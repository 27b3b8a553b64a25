"""The ids of messages, as bytes before they become hexadecimal.  With IPv6 the address is wider, nothing else.

Sources: `MessageDecoder.createMessageId`, `MessageClientIDSetter` of the reference.
"""

from __future__ import annotations

from typing import Any, Final

from construct import Bytes, Int16ub, Int32sb, Int32ub, Int64sb, Struct

from rmq_wire.layout.flat import flat
from rmq_wire.layout.message import HOST_V4, HOST_V6


def _offset_id(host: Any) -> Struct:
    return Struct(
        "host" / Bytes(host.sizeof()) * "the broker: address, then port in 4 bytes",
        "physical_offset" / Int64sb * "where the message unit begins in its commit log",
    )


def _unique_key(host: Any) -> Struct:
    return Struct(
        "ip" / Bytes(host.ip.sizeof()) * "of the producer",
        "pid" / Int16ub * "of the producer, its low 16 bits",
        "process_number" / Int32sb * "tells apart processes with one pid: Java has the class loader's hash",
        "span_ms" / Int32ub * "since the month began in local time",
        "serial" / Int16ub * "counts the process's messages",
    )


OFFSET_ID_V4: Final = _offset_id(HOST_V4)
OFFSET_ID_V6: Final = _offset_id(HOST_V6)
UNIQUE_KEY_V4: Final = _unique_key(HOST_V4)
UNIQUE_KEY_V6: Final = _unique_key(HOST_V6)

OFFSET_ID_V4_FLAT: Final = flat(OFFSET_ID_V4)
OFFSET_ID_V6_FLAT: Final = flat(OFFSET_ID_V6)
UNIQUE_KEY_V4_FLAT: Final = flat(UNIQUE_KEY_V4)
UNIQUE_KEY_V6_FLAT: Final = flat(UNIQUE_KEY_V6)
