"""The remoting frame, and the binary (ROCKETMQ) form of its header.  The JSON form has no layout: it is text.

All numbers are big-endian.  The length does not count itself.  Sources: `RemotingCommand.decode`, `NettyDecoder`,
`RocketMQSerializable` of the reference.
"""

from __future__ import annotations

from typing import Final

from construct import (
    Bytes,
    FocusedSeq,
    GreedyBytes,
    GreedyRange,
    Int8sb,
    Int16sb,
    Int32sb,
    Int32ub,
    Prefixed,
    Struct,
    Terminated,
    this,
)

from rmq_wire.layout.flat import flat

FRAME_BYTES_MAX: Final = 16_777_216
"""`com.rocketmq.remoting.frameMaxLength`, the length field included."""
HEADER_SIZE_MASK: Final = 0xFFFFFF
TYPE_SHIFT: Final = 24

PREFIX: Final = Struct(
    "length" / Int32ub * "bytes of the frame after this field; at most 16777212",
    "mark" / Int32ub * "top byte: form of the header, 0 JSON, 1 ROCKETMQ; low 3 bytes: its size",
)
FRAME: Final = Struct(
    *PREFIX.subcons,
    "header" / Bytes(this.mark & HEADER_SIZE_MASK) * "in the form that the mark says",
    "body" / Bytes(this.length - 4 - (this.mark & HEADER_SIZE_MASK)) * "the rest of the frame",
)

REMARK: Final = Prefixed(Int32sb, GreedyBytes)
BINARY_HEAD: Final = Struct(
    "code" / Int16sb * "of the request or the response; POP codes lose their high bits here",
    "language" / Int8sb * "LanguageCode",
    "version" / Int16sb * "of the sender's library",
    "opaque" / Int32sb * "number of the request, repeated by its response",
    "flag" / Int32sb * "bit 0: response; bit 1: one-way",
    "remark_size" / REMARK.lengthfield * "bytes of the remark that follows; 0 is no remark",
)
EXT_ENTRY: Final = Struct(
    "name" / Prefixed(Int16sb, GreedyBytes) * "UTF-8; 2-byte length before it; empty is null",
    "value" / Prefixed(Int32sb, GreedyBytes) * "UTF-8; 4-byte length before it; empty is null",
)
BINARY_HEADER: Final = Struct(
    *BINARY_HEAD.subcons[:-1],
    "remark" / REMARK * "UTF-8; 4-byte length before it",
    "ext"
    / Prefixed(Int32sb, FocusedSeq("entries", "entries" / GreedyRange(EXT_ENTRY), Terminated))
    * "name, value, name, value; 4-byte length of all before them",
    Terminated,
)

PREFIX_FLAT: Final = flat(PREFIX)
BINARY_HEAD_FLAT: Final = flat(BINARY_HEAD)
