"""Bodies unpacked by what their sysFlag says; what lies or explodes is refused."""

from __future__ import annotations

import zlib

import numpy as np
import pyarrow as pa
import pytest

from rmq_columns.decode import bodies
from rmq_wire import sys_flag

PLAIN = b"some text, some text, some text" * 20
PACKED = {
    0: zlib.compress(PLAIN),
    sys_flag.COMPRESSION_ZLIB: zlib.compress(PLAIN),
    sys_flag.COMPRESSION_LZ4: pa.Codec("lz4").compress(PLAIN, asbytes=True),
    sys_flag.COMPRESSION_ZSTD: pa.Codec("zstd").compress(PLAIN, asbytes=True),
}


@pytest.mark.parametrize("kind", PACKED)
def test_unpack(kind: int) -> None:
    packed = PACKED[kind]
    assert bodies.unpack(packed, sys_flag.COMPRESSED | kind) == PLAIN
    for bad in (packed[: len(packed) // 2], b"", b"nonsense", b"\xff" + packed[1:]):
        with pytest.raises(bodies.BadBody):
            bodies.unpack(bad, sys_flag.COMPRESSED | kind)


@pytest.mark.parametrize("kind", PACKED)
def test_what_explodes_is_refused(kind: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "BODY_BYTES_MAX", len(PLAIN) - 1)
    with pytest.raises(bodies.BadBody):
        bodies.unpack(PACKED[kind], sys_flag.COMPRESSED | kind)


def test_a_codec_that_there_is_not() -> None:
    with pytest.raises(bodies.BadBody, match="type 4"):
        bodies.unpack(b"", sys_flag.COMPRESSED | 0x400)


def test_columns_of_bodies(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = pa.array([b"x", PACKED[0], b"bad", PACKED[sys_flag.COMPRESSION_ZSTD]], pa.binary())
    flags = np.array([0, 1, 1, 1 | sys_flag.COMPRESSION_ZSTD], np.int32)
    found, bad = bodies.decompressed(stored, flags)
    assert found.to_pylist() == [b"x", PLAIN, b"bad", PLAIN]
    assert bad.tolist() == [False, False, True, False]
    monkeypatch.setattr(bodies, "BATCH_BYTES_MAX", len(PLAIN) + 10)
    with pytest.raises(OverflowError):
        bodies.decompressed(stored, flags)
