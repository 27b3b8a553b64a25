"""A store whose messages have no keys has an index without entries: its log is not read again for it at every start."""

from __future__ import annotations

import pytest

from rmq_store.log.draft import Draft
from rmq_store.log.walk import LogWalk
from rmq_store.recovery import index_recovery, recovery
from tests.support.memory_disk import MemoryDisk
from tests.support.store_rig import HOST, ROOT, START_MS, Rig, draft


def keyless(number: int) -> Draft:
    return Draft("TopicA", 0, b"%d:" % number, b"", START_MS, HOST, HOST)


@pytest.fixture
def walked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Where the walks over the log began, for queues or index."""
    begun: list[int] = []

    class Seen(LogWalk):
        def __init__(self, segments: object, start: int, *more: object, **options: object) -> None:
            begun.append(start)
            super().__init__(segments, start, *more, **options)  # type: ignore[arg-type]

    for module in (recovery, index_recovery):
        monkeypatch.setattr(module, "LogWalk", Seen)
    return begun


def index_files(rig: Rig) -> list[str]:
    assert isinstance(rig.disk, MemoryDisk)
    return [path for path in rig.disk.contents() if f"{ROOT}/index/" in path]


def test_a_start_reads_nothing_of_a_log_without_keys(walked: list[int]) -> None:
    """Each start read the whole log, twice."""
    rig = Rig()
    for number in range(300):
        rig.put(keyless(number))
    end = rig.store.written_offset
    for _ in range(2):
        walked.clear()
        rig.reopen()
        assert min(walked) >= end
    assert rig.numbers() == list(range(300))


def test_the_first_key_is_indexed_whatever_stop_follows(walked: list[int]) -> None:
    rig = Rig()
    for number in range(50):
        rig.put(keyless(number))
    rig.reopen()
    rig.put(draft(50))
    rig.store.begin_sync(0)
    assert isinstance(rig.disk, MemoryDisk)
    rig.disk = rig.disk.crash("all")
    rig.open()
    assert len(rig.store.query("TopicA", "key50", 64, 0, 1 << 60).units) == 1
    rig.reopen()
    assert len(rig.store.query("TopicA", "key50", 64, 0, 1 << 60).units) == 1


def test_an_index_that_is_taken_away_is_made_again() -> None:
    """What is noted says that there was one."""
    rig = Rig()
    rig.put(keyless(0), draft(1))
    assert rig.store.close(rig.wall_ms)
    assert isinstance(rig.disk, MemoryDisk)
    for path in index_files(rig):
        rig.disk.unlink(path)
    rig.open()
    assert len(rig.store.query("TopicA", "key1", 64, 0, 1 << 60).units) == 1


def test_a_start_that_has_to_read_the_whole_log_reads_it_once(walked: list[int]) -> None:
    """For queues and index."""
    rig = Rig()
    for number in range(30):
        rig.put(draft(number))
    assert isinstance(rig.disk, MemoryDisk)
    rig.disk = rig.disk.crash("all")
    for path in index_files(rig):
        rig.disk.unlink(path)
    walked.clear()
    rig.open()
    assert walked == [0]
    assert len(rig.store.query("TopicA", "key29", 64, 0, 1 << 60).units) == 1
