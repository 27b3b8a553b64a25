"""The walk over log files: pieces lie side by side, whatever the bytes, and damage costs what it covers."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from rmq_inspect.decode.directory import list_store
from rmq_inspect.decode.log import UNIT_BYTES_MIN, Blank, Log, Piece, Unit, Unused, pieces
from rmq_wire.errors import BadRecord
from rmq_wire.message import pack_blank, pack_unit
from tests.support.store_rig import HOST, HOST_V6

FILE_BYTES = 4096
bodies = st.lists(st.tuples(st.binary(max_size=300), st.booleans(), st.sampled_from([b"T", b"topic" * 40])), max_size=25)
damages = st.lists(st.tuples(st.integers(0, 3 * FILE_BYTES), st.binary(min_size=1, max_size=200)), max_size=4)


def make(root: Path, messages: list[tuple[bytes, bool, bytes]]) -> list[tuple[int, bytes]]:
    """Log files of these messages as a broker writes them; (physical offset, unit)."""
    (root / "commitlog").mkdir()
    log, made = b"", []
    for body, v6, topic in messages:
        left = FILE_BYTES - len(log) % FILE_BYTES
        hosts = (HOST_V6, HOST_V6) if v6 else (HOST, HOST)
        size = len(unit_at(0, body, v6, topic, hosts))
        if size + 8 > left:
            log += pack_blank(left).ljust(left, b"\0")
        unit = unit_at(len(log), body, v6, topic, hosts)
        made.append((len(log), unit))
        log += unit
    files = max(-(-len(log) // FILE_BYTES), 1)
    log = log.ljust(files * FILE_BYTES, b"\0")
    for number in range(files):
        path = root / "commitlog" / f"{number * FILE_BYTES:020}"
        path.write_bytes(log[number * FILE_BYTES : (number + 1) * FILE_BYTES])
    return made


def unit_at(offset: int, body: bytes, v6: bool, topic: bytes, hosts: tuple[bytes, bytes]) -> bytes:
    return pack_unit(0, 0, 0, offset, 0x30 if v6 else 0, 1, hosts[0], 2, hosts[1], 0, 0, body, topic, b"a\x01b\x02")


def walked(root: Path, start: int = 0) -> list[Piece]:
    return list(pieces(list_store(root).commit_log, start))


def side_by_side(found: list[Piece]) -> None:
    """Every byte of every file belongs to exactly one piece."""
    at: dict[int, int] = {}
    for piece in found:
        assert piece.at == at.get(piece.file.start, 0)
        assert piece.end > piece.at
        at[piece.file.start] = piece.end
    assert all(end == FILE_BYTES for end in at.values())


@settings(deadline=None, max_examples=150)
@given(messages=bodies, spoilt=damages)
def test_damage_costs_what_it_covers(messages: list[tuple[bytes, bool, bytes]], spoilt: list[tuple[int, bytes]]) -> None:
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        made = make(root, messages)
        before = b"".join(path.read_bytes() for path in sorted((root / "commitlog").iterdir()))
        after = bytearray(before)
        for at, data in spoilt:
            after[at : at + len(data)] = data[: max(len(before) - at, 0)]
        for number in range(len(before) // FILE_BYTES):
            path = root / "commitlog" / f"{number * FILE_BYTES:020}"
            path.write_bytes(after[number * FILE_BYTES : (number + 1) * FILE_BYTES])
        found = walked(root)
        side_by_side(found)
        read = {piece.message.physical_offset: piece.raw for piece in found if isinstance(piece, Unit)}
        for offset, unit in made:
            if after[offset : offset + len(unit)] == unit:
                assert read[offset] == unit
        if after == before:
            assert all(isinstance(piece, Unit | Blank | Unused) for piece in found)


@settings(deadline=None, max_examples=60)
@given(messages=bodies.filter(bool), start=st.integers(0, 2 * FILE_BYTES))
def test_a_walk_may_begin_anywhere(messages: list[tuple[bytes, bool, bytes]], start: int) -> None:
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        made = make(root, messages)
        found = [piece.message.physical_offset for piece in walked(root, start) if isinstance(piece, Unit)]
        assert found == [offset for offset, _ in made if offset >= start]


@settings(deadline=None, max_examples=60)
@given(messages=bodies.filter(bool))
def test_single_units_by_position(messages: list[tuple[bytes, bool, bytes]]) -> None:
    with tempfile.TemporaryDirectory() as place:
        made = make(Path(place), messages)
        with Log(list_store(place).commit_log) as log:
            for offset, unit in made:
                for expect in (0, len(unit), 1 << 20):
                    assert log.unit(offset, expect).raw == unit
                for wrong in (offset + 1, offset + len(unit) // 2):
                    try:
                        log.unit(wrong)
                    except BadRecord:
                        continue
                    raise AssertionError(wrong)


@settings(deadline=None, max_examples=100)
@given(data=st.binary(max_size=2 * UNIT_BYTES_MIN))
def test_any_bytes_at_all(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "commitlog").mkdir()
        (Path(place) / "commitlog" / f"{0:020}").write_bytes(data)
        found = walked(Path(place))
        assert sum(piece.end - piece.at for piece in found) == len(data)


def test_a_unit_is_not_looked_for_in_another_file(tmp_path: Path) -> None:
    """A copy of the log's beginning, under the name of its second file, is nothing."""
    make(tmp_path, [(b"x" * 200, False, b"T")] * 12)
    shutil.copy(tmp_path / "commitlog" / f"{0:020}", tmp_path / "commitlog" / f"{FILE_BYTES:020}")
    assert {piece.file.start for piece in walked(tmp_path) if isinstance(piece, Unit)} == {0}


def test_a_message_within_a_message_is_not_found(tmp_path: Path) -> None:
    """Someone mirrors logs through a topic: behind damage, what lies in a body is one spoilt stretch, not a place to go on."""
    inner = b"".join(unit_at(number * 150, b"inner", False, b"T", (HOST, HOST)) for number in range(3))
    made = make(tmp_path, [(inner, False, b"T"), (b"next", False, b"T")])
    path = tmp_path / "commitlog" / f"{0:020}"
    data = bytearray(path.read_bytes())
    data[0:8] = bytes(8)
    path.write_bytes(data)
    spoilt, unit, _ = walked(tmp_path)
    assert (spoilt.at, spoilt.end) == (0, made[1][0])
    assert isinstance(unit, Unit)
    assert unit.raw == made[1][1]
