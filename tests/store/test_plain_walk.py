"""The loop that takes common units without a call says what the careful way says, of sound logs and of spoilt ones."""

from __future__ import annotations

import operator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmq_store.disk.segments import OpenFiles, Segments
from rmq_store.layouts import FIXED
from rmq_store.log import walk as log_walk
from rmq_store.log.walk import Doubts, LogWalk
from rmq_store.recovery import index_recovery, recovery
from rmq_wire.layout.message import BORN_V6, STORE_V6
from rmq_wire.message import StoredMessage, pack_blank, pack_unit, read_size_and_magic
from tests.support.memory_disk import MemoryDisk
from tests.support.store_rig import ROOT, Rig, draft, small

FILE_BYTES = 4096
DIRECTORY = "/store/commitlog"
START_MS = 1_700_000_000_000
V4, V6 = bytes(8), bytes(20)

ODD_TOPICS = st.sampled_from([b"TopicA", b"t" * 127, b"t" * 128, b"t" * 200, b"with\0zero"])
ODD_PROPERTIES = st.sampled_from([b"", b"A\x01" + b"\0" * 600 + b"\x02", b"A\x01b\x02\0"])
BODIES = st.binary(max_size=30)
COMMON = st.tuples(st.sampled_from([b"TopicA", b"B"]), st.sampled_from([b"", b"KEYS\x01k\x02"]), BODIES, st.just(0))
ODD = st.tuples(ODD_TOPICS, ODD_PROPERTIES, BODIES, st.sampled_from([0, BORN_V6, STORE_V6]))
UNITS = st.builds(operator.add, st.lists(COMMON, min_size=1, max_size=6), st.lists(ODD, max_size=3))
DOUBTS = st.builds(
    Doubts,
    st.sampled_from([0, log_walk.NEVER]),
    st.sampled_from([0, 900, log_walk.NEVER]),
    st.sampled_from([False, False, False, True]),
)


def log_of(units: list[tuple[bytes, bytes, bytes, int]]) -> bytearray:
    log = bytearray()
    for number, (topic, properties, body, flags) in enumerate(units):
        born, store = V6 if flags & BORN_V6 else V4, V6 if flags & STORE_V6 else V4
        at = len(log)
        for _ in range(2):
            unit = pack_unit(number % 4, 0, number, at, flags, START_MS, born, START_MS, store, 0, 0, body, topic, properties)
            if at % FILE_BYTES + len(unit) + 8 <= FILE_BYTES:
                break
            blank = pack_blank(FILE_BYTES - at % FILE_BYTES)
            log += blank + bytes(FILE_BYTES - at % FILE_BYTES - len(blank))
            at = len(log)
        log += unit
    return log


def walked(log: bytes, doubts: Doubts, stop: int | None) -> tuple[list[StoredMessage], int, str, int]:
    disk = MemoryDisk()
    disk.make_directories(DIRECTORY)
    for start in range(0, max(len(log), 1), FILE_BYTES):
        file = disk.create(f"{DIRECTORY}/{start:020}", FILE_BYTES)
        file.write_at(0, log[start : start + FILE_BYTES])
    segments = Segments(OpenFiles(disk, 16), DIRECTORY, FILE_BYTES, {})
    segments.load(clean=False)
    walk = LogWalk(segments, 0, stop, doubts)
    units = [unit for batch in walk.batches() for unit in batch]
    return units, walk.end, walk.reason, walk.last_unit_at


def walked_carefully(log: bytes, doubts: Doubts, stop: int | None) -> tuple[list[StoredMessage], int, str, int]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_walk, "_plain_units", lambda *_: ([], 0))
        return walked(log, doubts, stop)


@settings(max_examples=200)
@given(UNITS, DOUBTS, st.data())
def test_both_ways_agree(units: list[tuple[bytes, bytes, bytes, int]], doubts: Doubts, data: Any) -> None:
    log = log_of(units)
    starts = [unit.physical_offset for unit in walked(bytes(log), Doubts(), None)[0]]
    if data.draw(st.booleans()):
        at = data.draw(st.sampled_from(starts)) + data.draw(st.integers(0, 130))
        log[min(at, len(log) - 1)] ^= 1 << data.draw(st.integers(0, 7))
    stop = data.draw(st.none() | st.sampled_from([*starts, len(log)]) | st.integers(0, len(log)))
    assert walked(bytes(log), doubts, stop) == walked_carefully(bytes(log), doubts, stop)


def test_every_bit_of_a_head_is_looked_at_as_carefully() -> None:
    log = log_of([(b"TopicA", b"KEYS\x01k\x02", b"body", 0)] * 3)
    second = len(log) // 3
    for bit in range(second * 8, (second + FIXED[0].size) * 8):
        log[bit // 8] ^= 1 << bit % 8
        assert walked(bytes(log), Doubts(), None) == walked_carefully(bytes(log), Doubts(), None), f"bit {bit}"
        log[bit // 8] ^= 1 << bit % 8


def test_common_units_are_taken_without_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    units = [(b"TopicA", b"KEYS\x01k\x02", b"body", 0)] * 20
    log = bytes(log_of(units))
    careful: list[int] = []

    def noted(data: bytes, at: int) -> tuple[int, int]:
        careful.append(at)
        return read_size_and_magic(data, at)

    monkeypatch.setattr(log_walk, "read_size_and_magic", noted)
    found, _, _, _ = walked(log, Doubts(0, 0), None)
    assert len(found) == len(units)
    assert careful == [len(log)], "only what is behind the end"


def built(disk: MemoryDisk) -> tuple[dict[str, bytes], list[bytes]]:
    """Queue files by path, index files by age: their names say when they were made."""
    contents = disk.contents()
    queues = {path: data for path, data in contents.items() if "/consumequeue/" in path}
    return queues, [contents[path] for path in sorted(contents) if "/index/" in path]


def test_queues_and_index_come_from_one_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = MemoryDisk()
    rig = Rig(disk, small())
    for number in range(300):
        rig.put(draft(number, queue_id=number % 4, body_bytes=40 + number % 90))
    rig.disk = after = disk.crash("all")
    rig.store.close(rig.wall_ms)
    for path in after.contents():
        if path == f"{ROOT}/checkpoint" or "/consumequeue/" in path or "/index/" in path:
            after.unlink(path)
    walks: list[int] = []

    class Counted(LogWalk):
        def __init__(self, segments: Segments, start: int, *rest: Any, **named: Any) -> None:
            walks.append(start)
            super().__init__(segments, start, *rest, **named)

    for module in (recovery, index_recovery):
        monkeypatch.setattr(module, "LogWalk", Counted)
    rig.open()
    assert walks == [0]
    rig.store.close(rig.wall_ms)
    queues, indices = built(after)
    assert len(queues) >= 4
    assert len(indices) > 1, "the index goes over its files' ends"
    assert (queues, indices) == built(disk)
