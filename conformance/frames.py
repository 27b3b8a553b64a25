"""Frames cut out of a stream of bytes and glanced at, without a word of `rmq_wire`.

What is kept as evidence, recorded or spoiled on its way is cut here: these frames are to judge `rmq_wire`, which must not have
had a hand in them.  Whoever wants to know what a frame says asks `rmq_wire`.
"""

from __future__ import annotations

import json
import struct
from typing import Final, NamedTuple

FRAME_BYTES_MAX: Final = 16_777_216
"""The reference's `com.rocketmq.remoting.frameMaxLength`; a greater length is not a frame of this protocol."""
RESPONSE: Final = 1
"""Bit of a command's flag."""
PREFIX_BYTES: Final = 8
"""Before the header: the length of what follows, and the header's form and length."""


class Glance(NamedTuple):
    """What tells frames apart.  `code` of a response is its response code."""

    form: int
    code: int
    opaque: int
    is_response: bool


def glance(data: bytes) -> Glance:
    """Code, number and direction of a frame, from its JSON (form 0) or binary (form 1) header."""
    form, header, _ = split(data)
    if form == 0:
        read = json.loads(header)
        return Glance(0, read["code"], read["opaque"], bool(read.get("flag", 0) & RESPONSE))
    code, _, _, opaque, flag = struct.unpack_from(">hbhii", header)
    return Glance(form, code, opaque, bool(flag & RESPONSE))


def split(data: bytes) -> tuple[int, bytes, bytes]:
    """Form, header and body of a frame."""
    _, word = struct.unpack_from(">iI", data)
    form, body_at = word >> 24, PREFIX_BYTES + (word & 0xFFFFFF)
    return form, data[PREFIX_BYTES:body_at], data[body_at:]


class Cutter:
    """Cuts a byte stream at its length fields.  Gives up for good at a length that no frame has."""

    def __init__(self, bytes_max: int = FRAME_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._pending = bytearray()
        self.lost = False

    def feed(self, data: bytes) -> list[bytes]:
        """The frames that are complete now."""
        frames: list[bytes] = []
        self._pending += data
        while not self.lost and len(self._pending) >= 4:
            end = 4 + int(struct.unpack_from(">i", self._pending)[0])
            if not PREFIX_BYTES <= end <= self._bytes_max:
                self.lost = True
                break
            if len(self._pending) < end:
                break
            frames.append(bytes(self._pending[:end]))
            del self._pending[:end]
        return frames

    def rest(self) -> bytes:
        """What no frame has been made of, taken out."""
        rest = bytes(self._pending)
        self._pending.clear()
        return rest
