"""The commit log: message units of both versions, the filler at a file's end, and the items of a batch body.

A unit's hosts are 8 or 20 bytes wide by two bits of its sysFlag, and its topic has a length of one byte, or of two when the magic
says version 2.  Sources: `MessageExtEncoder`, `MessageDecoder`, `MessageVersion`, `CommitLog` of the reference.
"""

from __future__ import annotations

from typing import Any, Final

from construct import (
    Bytes,
    Check,
    Construct,
    GreedyBytes,
    GreedyRange,
    IfThenElse,
    Int8sb,
    Int16sb,
    Int32sb,
    Int64sb,
    Prefixed,
    Struct,
    Terminated,
    this,
)

from rmq_wire.layout.flat import Flat, flat

MAGIC_V1: Final = 0xDAA320A7 - (1 << 32)
MAGIC_V2: Final = 0xDAA320AB - (1 << 32)
MAGIC_BLANK: Final = 0xCBD43194 - (1 << 32)
BORN_V6: Final = 0x10
STORE_V6: Final = 0x20

HOST_V4: Final = Struct("ip" / Bytes(4) * "address", "port" / Int32sb * "TCP")
HOST_V6: Final = Struct("ip" / Bytes(16) * "address", "port" / Int32sb * "TCP")
HOST_V4_SIZE: Final = HOST_V4.sizeof()
HOST_V6_SIZE: Final = HOST_V6.sizeof()

BODY: Final = Prefixed(Int32sb, GreedyBytes)
TOPIC_V1: Final = Prefixed(Int8sb, GreedyBytes)
TOPIC_V2: Final = Prefixed(Int16sb, GreedyBytes)
PROPERTIES: Final = Prefixed(Int16sb, GreedyBytes)

HEAD: Final = Struct(
    "total_size" / Int32sb * "bytes of the whole unit, this field included",
    "magic" / Int32sb * "DAA320A7 version 1, DAA320AB version 2",
    "body_crc" / Int32sb * "CRC-32 of the body as stored, top bit cleared; 0 without a body",
    "queue_id" / Int32sb * "which queue of the topic",
    "flag" / Int32sb * "the client's own, never looked at",
    "queue_offset" / Int64sb * "place in the queue, counted in messages",
    "physical_offset" / Int64sb * "where this unit begins in the commit log",
    "sys_flag" / Int32sb * "MessageSysFlag; bit 10 widens born_host, bit 20 store_host",
    "born_timestamp" / Int64sb * "ms, the producer's clock",
)
BETWEEN: Final = Struct("store_timestamp" / Int64sb * "ms, the broker's clock")
REST: Final = Struct(
    "reconsume_times" / Int32sb * "how often it was sent back",
    "prepared_transaction_offset" / Int64sb * "of a commit message: where its half message begins; else 0",
)


def _host(v6: bool, meaning: str) -> Construct[Any, Any]:
    return Bytes(HOST_V6_SIZE if v6 else HOST_V4_SIZE) * meaning


_BORN: Final = "the producer: address, then port in 4 bytes"
_STORE: Final = "the broker: address, then port in 4 bytes"

UNIT: Final = Struct(
    *HEAD.subcons,
    "born_host" / IfThenElse(this.sys_flag & BORN_V6, _host(True, _BORN), _host(False, _BORN)) * _BORN,
    *BETWEEN.subcons,
    "store_host" / IfThenElse(this.sys_flag & STORE_V6, _host(True, _STORE), _host(False, _STORE)) * _STORE,
    *REST.subcons,
    "body" / BODY * "as the producer sent it, compressed or not; 4-byte length before it",
    "topic"
    / IfThenElse(this.magic == MAGIC_V2, TOPIC_V2, TOPIC_V1)
    * "UTF-8; length before it of 1 byte in version 1, of 2 in version 2",
    "properties" / PROPERTIES * "name 01 value 02 and so on, UTF-8; 2-byte length before it",
)
"""One stored message.  construct checks neither magic nor total size: `rmq_wire.message` does."""

BLANK: Final = Struct(
    "total_size" / Int32sb * "bytes left in this file, this field included",
    "magic" / Int32sb * "CBD43194: the rest of the file means nothing",
)

ITEM_HEAD: Final = Struct(
    "total_size" / Int32sb * "bytes of the whole item, this field included",
    "magic" / Int32sb * "0",
    "body_crc" / Int32sb * "0",
    "flag" / Int32sb * "the client's own",
    "body_size" / BODY.lengthfield * "bytes of the body that follows",
)
ITEM: Final = Struct(
    *ITEM_HEAD.subcons[:-1],
    "body" / BODY * "4-byte length before it",
    "properties" / PROPERTIES * "of this message; 2-byte length before it",
)
ITEMS: Final = Struct("items" / GreedyRange(ITEM) * "until the body ends", Terminated, Check(this.items))
"""The body of a send with code 320.  A judge for tests, too slow for anything else."""


def fixed(born_v6: bool, store_v6: bool) -> Struct:
    """The part of a unit before its body, for hosts of this width, the body's length included."""
    return Struct(
        *HEAD.subcons,
        "born_host" / _host(born_v6, _BORN),
        *BETWEEN.subcons,
        "store_host" / _host(store_v6, _STORE),
        *REST.subcons,
        "body_size" / BODY.lengthfield * "bytes of the body that follows",
    )


FIXED: Final[dict[int, Flat]] = {
    born | store: flat(fixed(bool(born), bool(store))) for born in (0, BORN_V6) for store in (0, STORE_V6)
}
"""By the two host bits of the sysFlag."""

HEAD_FLAT: Final = flat(HEAD)
BLANK_FLAT: Final = flat(BLANK)
ITEM_HEAD_FLAT: Final = flat(ITEM_HEAD)
HOST_V4_FLAT: Final = flat(HOST_V4)
