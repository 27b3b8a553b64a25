"""An index that a power cut left torn, or that lacks a file: after the start every key that the log has is found, once."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from rmq_store.disk.checkpoint import open_checkpoint
from rmq_store.log.draft import Draft
from rmq_wire.sys_flag import TRANSACTION_ROLLBACK
from tests.store.retention_kit import filled as with_old_files
from tests.support.memory_disk import MemoryDisk
from tests.support.store_rig import HOST, ROOT, START_MS, Rig, draft

ENTRIES = 63
"""Of a small index file."""
FIRST_AT = 40 + 97 * 4 + 20
"""Byte of a small file's first entry: header, slots, the entry that is never used."""
ENTRY_BYTES, SECTOR_BYTES = 20, 512
ACROSS = [at for number in range(60) if (at := FIRST_AT + number * ENTRY_BYTES) % SECTOR_BYTES > SECTOR_BYTES - ENTRY_BYTES]
"""Entries that lie across two sectors."""


def contents(rig: Rig) -> dict[str, bytes]:
    assert isinstance(rig.disk, MemoryDisk)
    return {path: data for path, data in rig.disk.contents().items() if "/index/" in path}


def written(messages: int) -> Rig:
    """Four entries a message, all of it on the medium."""
    rig = Rig(MemoryDisk())
    for number in range(messages):
        rig.put(draft(number))
    rig.wait(1500)
    rig.sync_queues()
    return rig


def found(rig: Rig, key: str, topic: str = "TopicA") -> int:
    return len(rig.store.query(topic, key, 100, 0, START_MS * 2).units)


def keyed(number: int, *keys: str) -> Draft:
    """A message with these entries and no others."""
    return replace(draft(number), keys=keys, properties=f"KEYS\x01{' '.join(keys)}\x02".encode())


def without_power(rig: Rig, *, damaged: tuple[str, int, int] | None = None, removed: str = "") -> None:
    """Everything came to the medium by chance; but for these zeros (path, from, to), and this file."""
    assert isinstance(rig.disk, MemoryDisk)
    rig.disk = rig.disk.crash("all")
    rig.disk.boot += 1
    if damaged is not None:
        path, low, high = damaged
        rig.disk.open(path).write_at(low, bytes(high - low))
    if removed:
        rig.disk.unlink(removed)
    rig.open()


@pytest.mark.parametrize("at", ACROSS)
@pytest.mark.parametrize("lost", ["first sector", "second sector"])
def test_an_entry_of_which_a_power_cut_took_one_sector_is_made_again(at: int, lost: str) -> None:
    rig = Rig(MemoryDisk())
    for number in range(60):
        rig.put(keyed(number, f"only{number}"))
    rig.wait(1500)
    [path] = contents(rig)
    border = (at // SECTOR_BYTES + 1) * SECTOR_BYTES
    low, high = (at, border) if lost == "first sector" else (border, at + ENTRY_BYTES)
    without_power(rig, damaged=(path, low, high))
    assert [found(rig, f"only{number}") for number in range(60)] == [1] * 60


def test_whole_files_stay_as_they_are_over_a_power_cut() -> None:
    rig = written(60)
    before = contents(rig)
    without_power(rig)
    assert list(contents(rig)) == list(before)
    assert not [line for line in rig.store.report.sentences() if "index" in line]
    assert [found(rig, f"key{number}") for number in range(60)] == [1] * 60


@pytest.mark.parametrize("stop", ["clean", "power cut"])
def test_whole_files_that_begin_with_a_message_stay(stop: str) -> None:
    """Before it there may be messages that have no entries."""
    rig = Rig(MemoryDisk())
    for number in range(2 * ENTRIES + 10):
        rig.put(keyed(number, f"only{number}"))
        if number % ENTRIES in (ENTRIES - 2, ENTRIES - 1):
            rig.put(Draft("TopicA", 0, b"0:", b"", START_MS, HOST, HOST), draft(1, sys_flag=TRANSACTION_ROLLBACK))
    rig.wait(1500)
    rig.sync_queues()
    before = contents(rig)
    assert len(before) == 3
    if stop == "clean":
        assert rig.store.close(rig.wall_ms)
        rig.open()
    else:
        without_power(rig)
    assert list(contents(rig)) == list(before)
    assert rig.store.report.index_from == -1
    assert [found(rig, f"only{number}") for number in range(2 * ENTRIES + 10)] == [1] * (2 * ENTRIES + 10)


@pytest.mark.parametrize(("stop", "gone"), [("clean", 0), ("clean", 1), ("clean", 2), ("power cut", 0), ("power cut", 1)])
@pytest.mark.parametrize("properties", [b"KEYS\x01only%d\x02", b"UNIQ_KEY\x01only%d\x02"], ids=["keys", "unique key"])
def test_a_file_that_is_missed_is_made_again_from_the_message_before_it_on(properties: bytes, gone: int, stop: str) -> None:
    """After a power cut nobody knows that there was a newest one."""
    rig = Rig(MemoryDisk())
    placed = []
    for number in range(2 * ENTRIES + 10):
        one = replace(draft(number), keys=(f"only{number}",), properties=properties % number)
        placed += rig.put(one)
    rig.wait(1500)
    rig.sync_queues()
    if stop == "clean":
        assert rig.store.close(rig.wall_ms)
    before = contents(rig)
    lost = list(before)[gone]
    if stop == "clean":
        assert isinstance(rig.disk, MemoryDisk)
        rig.disk.unlink(lost)
        rig.open()
    else:
        without_power(rig, removed=lost)
    assert rig.store.report.clean is (stop == "clean")
    assert rig.store.report.index_from == (placed[gone * ENTRIES - 1].physical_offset if gone else 0)
    assert "the index lacked entries or files" in " ".join(rig.store.report.sentences())
    assert [found(rig, f"only{number}") for number in range(2 * ENTRIES + 10)] == [1] * (2 * ENTRIES + 10)


@pytest.mark.parametrize("gone", [0, 1, 2])
def test_a_file_that_is_missed_among_safe_ones_is_made_again(gone: int) -> None:
    """After a power cut, too: that those behind it are complete on the medium says nothing of it."""
    rig = Rig(MemoryDisk())
    for number in range(5 * ENTRIES + 10):
        rig.put(keyed(number, f"only{number}"))
        if number % ENTRIES == ENTRIES - 1:
            rig.put(draft(1, sys_flag=TRANSACTION_ROLLBACK))  # it has keys, and no entries
            rig.wait(1500)
    rig.wait(1500)
    rig.sync_queues()
    rig.wait(1500)  # the checkpoint is written
    before = list(contents(rig))
    safe_ms = open_checkpoint(rig.disk, ROOT).index_message_timestamp
    assert [file.end_timestamp < safe_ms for file in rig.store._index.files] == [True] * 4 + [False] * 2
    without_power(rig, removed=before[gone])
    assert "the index lacked entries or files" in " ".join(rig.store.report.sentences())
    assert [found(rig, f"only{number}") for number in range(5 * ENTRIES + 10)] == [1] * (5 * ENTRIES + 10)


def test_a_file_that_goes_does_not_come_back() -> None:
    """Its messages are lost: after one more power cut it would stand beside entries that are made anew."""
    rig = Rig(MemoryDisk())
    placed = [rig.put(keyed(number, f"only{number}"))[0] for number in range(ENTRIES + 10)]
    rig.wait(1500)
    rig.sync_queues()
    kept, gone = contents(rig)
    assert isinstance(rig.disk, MemoryDisk)
    at = placed[ENTRIES].physical_offset
    rig.disk.open(f"{ROOT}/checkpoint").write_at(0, bytes(4096))  # it would refuse the loss
    rig.disk.open(f"{ROOT}/commitlog/{0:020d}").write_at(at, bytes(1024))
    without_power(rig)
    assert rig.store.written_offset == at
    assert list(contents(rig)) == [kept]
    assert gone not in rig.disk.crash("synced").contents()


def test_the_only_entry_of_an_index_is_not_made_twice() -> None:
    rig = Rig(MemoryDisk())
    rig.put(keyed(0, "only0"))
    assert rig.store.close(rig.wall_ms)
    before = contents(rig)
    rig.open()
    assert rig.store.close(rig.wall_ms)
    assert contents(rig) == before


def test_files_whose_first_messages_went_with_old_log_files_stay() -> None:
    rig = with_old_files()
    rig.retain(80 * 3_600_000)
    assert rig.store.min_offset > 0
    before = list(contents(rig))
    without_power(rig)
    assert rig.store.min_offset > 0
    assert list(contents(rig)) == before
    assert not [line for line in rig.store.report.sentences() if "index" in line]


@pytest.mark.parametrize("messages", [0, 16], ids=["the log's first", "one in the middle"])
def test_a_file_with_the_first_entries_of_a_message_is_missed(messages: int) -> None:
    """The message before it ends its file, so the next file begins with a later entry of the message that comes next."""
    rig = Rig(MemoryDisk())
    for number in range(messages):
        rig.put(draft(number) if number else replace(draft(0), keys=draft(0).keys[:3]))
    keys = tuple(f"many{number}" for number in range(ENTRIES + 37))
    rig.put(keyed(1000, *keys))
    rig.put(*[draft(number) for number in range(2000, 2100)])
    rig.wait(1500)
    rig.sync_queues()
    gone = list(contents(rig))[1 if messages else 0]
    without_power(rig, removed=gone)
    assert [found(rig, key) for key in keys] == [1] * len(keys)
    assert found(rig, "key2099") == 1
