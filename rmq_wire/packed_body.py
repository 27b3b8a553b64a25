"""Bodies that a producer packs: zlib by the standard library, LZ4 and Zstandard by pyarrow (the extra `columns`).

What unpacks to more than a limit is left packed: a small body may claim to be a terabyte.  It is unpacked a portion at a time, so
no claim of a length makes us take memory either.  Nobody waits for pyarrow's import before the first such body comes.
Sources: `CompressionType`, `Lz4Compressor` (the frame format), `ZstdCompressor`, `ZlibCompressor` of the reference.
"""

from __future__ import annotations

import zlib
from typing import Final

from rmq_wire import sys_flag as flags

BODY_BYTES_MAX: Final = 64 << 20
"""A packed body is not unpacked beyond this."""
PORTION_BYTES: Final = 1 << 20
BY_PYARROW: Final = ("lz4", "zstd")
COMPRESSIONS: Final = {0: "zlib", flags.COMPRESSION_LZ4: "lz4", flags.COMPRESSION_ZSTD: "zstd", flags.COMPRESSION_ZLIB: "zlib"}
"""By the bits of the sysFlag; 0 is what clients before 5.0 wrote."""
FLAGS: Final = {"zlib": flags.COMPRESSION_ZLIB, "lz4": flags.COMPRESSION_LZ4, "zstd": flags.COMPRESSION_ZSTD}
"""What a producer of 5.x sets besides `COMPRESSED` (`CompressionType.getCompressionFlag`)."""
INSTALL: Final = "pip install -e '.[columns]'"
"""From the checkout: no index has this package."""
HINT: Final = f"to unpack it: {INSTALL}"


class StillPacked(Exception):
    """The body cannot be unpacked; why, in a few words."""


class CannotPack(Exception):
    """This way of packing needs what is not installed; what to do, in a few words."""


def pack(body: bytes, how: str, level: int) -> bytes:
    """how: `zlib`, `lz4` (the frame format, which has no levels here) or `zstd`.  Raises `CannotPack`."""
    if how == "zlib":
        return zlib.compress(body, level)
    if how not in BY_PYARROW:
        raise CannotPack(f"{how!r} is no way to pack a body: zlib, lz4 and zstd are")
    try:
        import pyarrow as pa
    except ImportError:
        raise CannotPack(f"{how} needs pyarrow: {INSTALL}") from None
    codec = pa.Codec(how, compression_level=level) if how == "zstd" else pa.Codec(how)
    return bytes(codec.compress(body, asbytes=True))


def compression_of(sys_flag: int) -> str | None:
    """How a body is packed; None: not at all."""
    return COMPRESSIONS.get(sys_flag & flags.COMPRESSION_MASK, "unknown") if sys_flag & flags.COMPRESSED else None


def unpack(body: bytes, packed: str) -> bytes:
    """packed: `zlib`, `lz4` or `zstd`.  Raises `StillPacked`."""
    if not body:
        raise StillPacked("cut short")
    if packed == "zlib":
        return _zlib(body)
    if packed in BY_PYARROW:
        return _by_pyarrow(body, packed)
    raise StillPacked("nobody knows how")


def _zlib(body: bytes) -> bytes:
    try:
        engine = zlib.decompressobj()
        plain = engine.decompress(body, BODY_BYTES_MAX)
    except zlib.error:
        raise StillPacked("spoilt") from None
    if engine.unconsumed_tail:
        raise StillPacked("larger than we unpack")
    if not engine.eof:
        raise StillPacked("cut short")
    return plain


def _by_pyarrow(body: bytes, packed: str) -> bytes:
    try:
        import pyarrow as pa
    except ImportError:
        raise StillPacked(HINT) from None
    plain = bytearray()
    try:
        with pa.CompressedInputStream(pa.BufferReader(body), packed) as stream:
            while portion := stream.read(PORTION_BYTES):
                plain += portion
                if len(plain) > BODY_BYTES_MAX:
                    raise StillPacked("larger than we unpack")
    except NotImplementedError:
        raise StillPacked(f"this pyarrow was built without {packed}") from None
    except (OSError, ValueError) as reason:  # pyarrow's own are of these
        raise StillPacked("cut short" if "runcated" in str(reason) else "spoilt") from None
    return bytes(plain)
