"""Columns of bodies, unpacked by what their sysFlag says; what lies or explodes stays as it is stored."""

from __future__ import annotations

import zlib

import numpy as np
import pyarrow as pa
import pytest

from rmq_columns.decode import bodies
from rmq_wire import packed_body, sys_flag

PLAIN = b"some text, some text, some text" * 20
PACKED = {
    0: zlib.compress(PLAIN),
    sys_flag.COMPRESSION_ZLIB: zlib.compress(PLAIN),
    sys_flag.COMPRESSION_LZ4: pa.Codec("lz4").compress(PLAIN, asbytes=True),
    sys_flag.COMPRESSION_ZSTD: pa.Codec("zstd").compress(PLAIN, asbytes=True),
}
NO_CODEC = 0x400


def column(kind: int, *stored: bytes) -> tuple[list[bytes], list[bool]]:
    """What comes of bodies that are all packed like this, and which of them could not be unpacked."""
    flags = np.full(len(stored), sys_flag.COMPRESSED | kind, np.int32)
    found, bad = bodies.decompressed(pa.array(stored, pa.binary()), flags)
    return found.to_pylist(), bad.tolist()


@pytest.mark.parametrize("kind", PACKED)
def test_unpacked(kind: int) -> None:
    good = PACKED[kind]
    wrong = (good[: len(good) // 2], b"", b"nonsense", b"\xff" + good[1:])
    assert column(kind, good, *wrong) == ([PLAIN, *wrong], [False, True, True, True, True])


@pytest.mark.parametrize("kind", PACKED)
def test_what_explodes_stays_packed(kind: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_body, "BODY_BYTES_MAX", len(PLAIN) - 1)
    assert column(kind, PACKED[kind]) == ([PACKED[kind]], [True])


def test_a_codec_that_there_is_not() -> None:
    assert column(NO_CODEC, PLAIN) == ([PLAIN], [True])


def test_columns_of_bodies(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = pa.array([b"x", PACKED[0], b"bad", PACKED[sys_flag.COMPRESSION_ZSTD]], pa.binary())
    flags = np.array([0, 1, 1, 1 | sys_flag.COMPRESSION_ZSTD], np.int32)
    found, bad = bodies.decompressed(stored, flags)
    assert found.to_pylist() == [b"x", PLAIN, b"bad", PLAIN]
    assert bad.tolist() == [False, False, True, False]
    monkeypatch.setattr(bodies, "BATCH_BYTES_MAX", len(PLAIN) + 10)
    with pytest.raises(OverflowError):
        bodies.decompressed(stored, flags)
