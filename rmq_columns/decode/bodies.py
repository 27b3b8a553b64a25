"""Bodies that producers compressed, as they were before: zlib, LZ4 frames and Zstandard, by the bits of the sysFlag.

A body that grows above `BODY_BYTES_MAX` is taken for an attack, not unpacked.  Sources: `CompressorFactory`, `ZlibCompressor`,
`Lz4Compressor`, `ZstdCompressor`, `MessageDecoder.decode`.
"""

from __future__ import annotations

import io
import zlib
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rmq_columns.decode.dtypes import Mask
from rmq_wire import sys_flag

BODY_BYTES_MAX: Final = 64 << 20
"""Of one body, unpacked.  A client sends at most 4 MiB before compression unless it was told otherwise."""
BATCH_BYTES_MAX: Final = 256 << 20
"""Of all bodies of a batch; above it the caller makes smaller batches."""
PIECE_BYTES: Final = 1 << 20
"""Unpacked at once."""
_CODECS: Final = {sys_flag.COMPRESSION_LZ4: "lz4", sys_flag.COMPRESSION_ZSTD: "zstd"}


class BadBody(ValueError):
    """It is not what its sysFlag says."""


def unpack(body: bytes, flag: int) -> bytes:
    """One body whose sysFlag says that it is compressed.  Raises `BadBody`."""
    kind = flag & sys_flag.COMPRESSION_MASK
    if kind in (0, sys_flag.COMPRESSION_ZLIB):
        return _inflate(body)
    codec = _CODECS.get(kind)
    if codec is None:
        raise BadBody(f"compression type {kind >> 8}")
    if not body:
        raise BadBody("empty")
    found = bytearray()
    try:
        with pa.CompressedInputStream(io.BytesIO(body), codec) as stream:
            while piece := stream.read(min(PIECE_BYTES, BODY_BYTES_MAX + 1 - len(found))):
                found += piece
                if len(found) > BODY_BYTES_MAX:
                    raise BadBody(f"more than {BODY_BYTES_MAX} bytes")
    except (OSError, pa.ArrowInvalid) as reason:
        raise BadBody(str(reason)) from reason
    return bytes(found)


def _inflate(body: bytes) -> bytes:
    stream = zlib.decompressobj()
    try:
        found = stream.decompress(body, BODY_BYTES_MAX)
    except zlib.error as reason:
        raise BadBody(str(reason)) from reason
    if not stream.eof:
        raise BadBody("cut off, or too large")
    return found


def decompressed(stored: Any, flags: npt.NDArray[np.int32]) -> tuple[Any, Mask]:
    """Bodies unpacked where they are said to be packed, and which of them could not be (those stay as they were stored).

    Raises OverflowError when several of them are too large together.
    """
    packed = np.flatnonzero(flags & sys_flag.COMPRESSED)
    bad = np.zeros(len(stored), np.bool_)
    if not len(packed):
        return stored, bad
    bodies: list[bytes] = stored.to_pylist()
    room = BATCH_BYTES_MAX - sum(map(len, bodies))
    for row in packed.tolist():
        try:
            bodies[row] = unpack(bodies[row], int(flags[row]))
        except BadBody:
            bad[row] = True
            continue
        room -= len(bodies[row])
        if room < 0 and len(bodies) > 1:
            raise OverflowError(f"bodies of more than {BATCH_BYTES_MAX} bytes in one batch")
    return pa.array(bodies, pa.binary()), bad
