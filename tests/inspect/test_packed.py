"""Packed bodies: what the reference's own compressors made is unpacked, what is spoilt or too large is shown as stored."""

from __future__ import annotations

import contextlib
import sys
import zlib
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmq_store.disk.disk import RealDisk
from rmq_wire import packed_body as packed
from rmq_wire import sys_flag as flags
from rmq_wire.packed_body import StillPacked, unpack
from tests.support.command import look
from tests.support.store_rig import Rig, draft, small
from tests.support.stores import SLOTS

PLAIN: Final = b"rocketmq packs this; " * 20
OF_JAVA: Final = {
    "lz4": "04224d1860707321000000ff06726f636b65746d71207061636b7320746869733b201500ff78506869733b2000000000",
    "zstd": "28b52ffd0058e40000a8726f636b65746d71207061636b7320746869733b20010019519d4c010000",
    "zlib": "785e2bca4fce4e2dc92d5428484cce2e5628c9c82cb656281a151c4c820098be9bdd",
}
"""PLAIN through `CompressorFactory.getCompressor(type).compress(plain, 5)` of the 5.5.0 jars."""
TYPES: Final = {"lz4": flags.COMPRESSION_LZ4, "zstd": flags.COMPRESSION_ZSTD, "zlib": flags.COMPRESSION_ZLIB}
NEEDS_PYARROW: Final = [name for name in OF_JAVA if name != "zlib"]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    settings = small(store_path_root_dir=str(tmp_path / "store"), mapped_file_size_commit_log=8192, max_hash_slot_num=SLOTS)
    rig = Rig(RealDisk(), settings)
    for number, (name, body) in enumerate(OF_JAVA.items()):
        made = draft(number, tags=name)
        made.body, made.sys_flag = bytes.fromhex(body), flags.COMPRESSED | TYPES[name]
        rig.put(made)
    assert rig.store.close(rig.wall_ms)
    return tmp_path / "store"


@pytest.fixture
def without_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)


@pytest.mark.parametrize("name", OF_JAVA)
def test_what_java_packed(name: str) -> None:
    if name in NEEDS_PYARROW:
        pytest.importorskip("pyarrow")
    assert unpack(bytes.fromhex(OF_JAVA[name]), name) == PLAIN


def test_a_store_shows_them_unpacked(store: Path) -> None:
    pytest.importorskip("pyarrow")
    rows = look("show", store, "--json").rows
    assert [(row["compression"], row["body"], row.get("bodyPackedAs")) for row in rows] == [
        (name, PLAIN.decode(), None) for name in OF_JAVA
    ]


@pytest.mark.usefixtures("without_pyarrow")
def test_without_pyarrow_they_are_shown_as_stored_with_the_way_out(store: Path) -> None:
    rows = {row["compression"]: row for row in look("show", store, "--json", "--body", "hex").rows}
    for name in NEEDS_PYARROW:
        assert rows[name]["body_hex"] == OF_JAVA[name]
        assert rows[name]["bodyPackedAs"] == f"{name}, to unpack it: pip install -e '.[columns]'"
    assert bytes.fromhex(rows["zlib"]["body_hex"]) == PLAIN


@pytest.mark.parametrize("name", OF_JAVA)
def test_a_body_that_was_cut(name: str) -> None:
    if name in NEEDS_PYARROW:
        pytest.importorskip("pyarrow")
    whole = bytes.fromhex(OF_JAVA[name])
    for size in range(len(whole)):
        with pytest.raises(StillPacked):
            unpack(whole[:size], name)


@pytest.mark.parametrize("name", OF_JAVA)
@given(data=st.data())
def test_random_bytes_raise_nothing_else(name: str, data: st.DataObject) -> None:
    if name in NEEDS_PYARROW:
        pytest.importorskip("pyarrow")
    body = bytearray(bytes.fromhex(OF_JAVA[name]))
    at = data.draw(st.integers(0, len(body) - 1))
    body[at:] = data.draw(st.binary(min_size=1, max_size=64))
    with contextlib.suppress(StillPacked):
        assert len(unpack(bytes(body), name)) <= packed.BODY_BYTES_MAX


@pytest.mark.parametrize("name", OF_JAVA)
def test_a_bomb_is_not_unpacked(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "BODY_BYTES_MAX", 3 << 20)
    body = zlib.compress(bytes(8 << 20)) if name == "zlib" else packed_by_pyarrow(name, bytes(8 << 20))
    assert len(body) < 1 << 16
    with pytest.raises(StillPacked, match="larger than we unpack"):
        unpack(body, name)


def packed_by_pyarrow(name: str, plain: bytes) -> bytes:
    pa = pytest.importorskip("pyarrow")
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, name) as stream:
        stream.write(plain)
    made: bytes = sink.getvalue().to_pybytes()
    return made


def test_an_unknown_way_is_said() -> None:
    with pytest.raises(StillPacked, match="nobody knows how"):
        unpack(PLAIN, "unknown")
