"""Staging, committing, taking back: what the log holds after good turns and after bad ones."""

from __future__ import annotations

import errno
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmq_store.errors import Closed, CommitFailed, CreateFailed, Illegal, IllegalKind, Unwritable
from rmq_store.log import batch
from rmq_store.log.draft import Draft
from rmq_store.log.staging import Staged, with_seal_place
from rmq_store.settings import EXTRA_UNIT_BYTES
from rmq_wire import sys_flag
from rmq_wire.implied.index_keys import index_keys
from rmq_wire.implied.tags import tags_code
from rmq_wire.message import MAGIC_BLANK, MAGIC_V2, pack_unit, read_size_and_magic, read_unit
from tests.support.memory_disk import Fault, MemoryDisk
from tests.support.store_rig import HOST, HOST_V6, ROOT, START_MS, Rig, draft, number_of, small, stage_batch

FILE = small().mapped_file_size_commit_log
SECOND = f"{ROOT}/commitlog/{FILE:020d}"


def log_bytes(rig: Rig) -> bytes:
    """The log's files in order."""
    assert isinstance(rig.disk, MemoryDisk)
    return b"".join(data for path, data in rig.disk.contents().items() if "/commitlog/" in path)


def test_the_units_of_a_java_store() -> None:
    """Two units that the reference's own store wrote (facts: store.md 2.9), at positions 0 and 165."""
    rig = Rig(wall_ms=0x18BCFE5687B)
    born = bytes((10, 1, 2, 3)) + (54321).to_bytes(4, "big")
    store_host = bytes((127, 0, 0, 1)) + (10911).to_bytes(4, "big")
    unique = "A0102030405060708090A0B0C0D0E0F0"
    first = bytes.fromhex(
        "000000a5daa320a73610a686000000000000000700000000000000000000000000000000000000000000018bcfe5687b0a0102030000d431000001a1fb73"
        "a6047f00000100002a9f0000000000000000000000000000000568656c6c6f06546f70696341003f4b455953016b31206b3202554e49515f4b455901413031"
        "30323033303430353036303730383039304130423043304430453046300254414753015461674102"
    )
    unit = read_unit(first)
    keys = index_keys(unique, "k1 k2", "TagA")
    one = Draft(
        "TopicA",
        0,
        unit.body,
        unit.properties,
        unit.born_timestamp,
        born,
        store_host,
        flag=7,
        tags_code=tags_code("TagA"),
        keys=keys,
    )
    rig.store.stage(one, unit.store_timestamp)
    second = bytes.fromhex(
        "0000007cdaa320a7431726fb0000000100000007000000000000000000000000000000a5000000300000018bcfe5687b20010db8000000000000000000"
        "000001000004d2000001a1fb73a6310000000000000000000000000000000100002a9f0000000000000000000000000000000373697806546f70696341"
        "0000"
    )
    unit = read_unit(second)
    other = Draft("TopicA", 1, unit.body, b"", unit.born_timestamp, unit.born_host, unit.store_host, flag=7)
    rig.store.stage(other, unit.store_timestamp)
    rig.store.commit()
    assert log_bytes(rig)[: 165 + 124] == first + second


HOSTS = st.sampled_from([HOST, HOST_V6])


@given(
    topic=st.sampled_from(["T", "TopicA", "%RETRY%" + "g" * 121]),
    body=st.binary(max_size=300),
    properties=st.binary(max_size=200),
    born=HOSTS,
    stored=HOSTS,
    flag=st.integers(-(1 << 31), (1 << 31) - 1),
    bits=st.integers(0, 0x7FF),
    numbers=st.tuples(st.integers(0, 7), st.integers(0, 1 << 40), st.integers(0, 99), st.integers(0, 1 << 40)),
)
def test_a_staged_unit_is_the_packed_one(
    topic: str, body: bytes, properties: bytes, born: bytes, stored: bytes, flag: int, bits: int, numbers: tuple[int, ...]
) -> None:
    rig = Rig()
    queue_id, born_timestamp, times, prepared = numbers
    made = Draft(topic, queue_id, body, properties, born_timestamp, born, stored, flag, bits, times, prepared)
    rig.put(made)
    placed = rig.store.stage(made, START_MS + 5)
    rig.store.commit()
    hosts = (sys_flag.BORN_HOST_V6 if born is HOST_V6 else 0) | (sys_flag.STORE_HOST_V6 if stored is HOST_V6 else 0)
    stored_flag = bits & ~0x30 | hosts
    queued = stored_flag & sys_flag.TRANSACTION_MASK in (sys_flag.TRANSACTION_NOT, sys_flag.TRANSACTION_COMMIT)
    expected = pack_unit(
        queue_id,
        flag,
        1 if queued else 0,
        placed.physical_offset,
        stored_flag,
        born_timestamp,
        born,
        START_MS + 5,
        stored,
        times,
        prepared,
        body,
        topic.encode(),
        properties,
    )
    assert placed.size == len(expected)
    assert log_bytes(rig)[placed.physical_offset : placed.end_offset] == expected
    assert (read_size_and_magic(expected, 0)[1] == MAGIC_V2) == (len(topic) > 127)


def test_nothing_shows_before_the_commit() -> None:
    rig = Rig()
    placed = rig.store.stage(draft(1), START_MS)
    assert rig.store.dispatch(START_MS) == []
    assert rig.store.queue_bounds("TopicA", 0) == (0, 0)
    assert rig.store.lookup(placed.physical_offset) is None
    assert rig.store.read_queue("TopicA", 0, 0, 32, 1 << 20).message_count == 0
    assert rig.store.written_offset == 0
    assert f"{ROOT}/commitlog/" not in " ".join(rig.disk.contents())  # type: ignore[attr-defined]


def filler(rig: Rig, leave: int) -> None:
    """Fill the first file up to `leave` bytes before its end."""
    while FILE - rig.store.written_offset - leave > 8000:
        rig.put(draft(0, "Fill", body_bytes=4000))
    rest = FILE - rig.store.written_offset - leave
    overhead = rig.store.stage(draft(0, "Fill", body_bytes=40), START_MS).size - 40
    rig.store.rollback_to(0)
    rig.put(draft(0, "Fill", body_bytes=rest - overhead))
    assert rig.store.written_offset == FILE - leave


@pytest.mark.parametrize(("more", "rolls"), [(8, False), (7, True), (0, True), (4000, False)])
def test_a_unit_needs_eight_bytes_behind_it(more: int, rolls: bool) -> None:
    rig = Rig()
    size = rig.store.stage(draft(1), START_MS).size
    rig.store.rollback_to(0)
    filler(rig, size + more)
    [placed] = rig.put(draft(1))
    assert (placed.physical_offset == FILE) is rolls
    if rolls:
        left = size + more
        assert read_size_and_magic(log_bytes(rig), FILE - left) == (left, MAGIC_BLANK)
        assert log_bytes(rig)[FILE - left + 8 : FILE] == bytes(left - 8)
    assert rig.numbers() == [1]


def test_a_batch_stays_in_one_file() -> None:
    rig = Rig()
    filler(rig, 600)
    placed = stage_batch(rig.store, [draft(n) for n in range(5)], START_MS)
    rig.store.commit()
    rig.store.dispatch(START_MS)
    assert placed[0].physical_offset == FILE
    assert [one.queue_offset for one in placed] == [0, 1, 2, 3, 4]
    assert rig.numbers() == [0, 1, 2, 3, 4]


def test_a_batch_comes_from_one_host_and_has_one_time() -> None:
    rig = Rig()
    other = draft(2)
    other.born_host = HOST_V6
    with pytest.raises(Illegal, match="one host"):
        stage_batch(rig.store, [draft(1), other], START_MS)
    staged = [cast(Staged, one) for one in stage_batch(rig.store, [draft(n) for n in range(3)], START_MS + 7)]
    assert [one.store_timestamp for one in staged] == [START_MS + 7] * 3


def test_a_batch_is_not_longer_than_one_turn_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "UNITS_MAX", 3)
    rig = Rig()
    with pytest.raises(Illegal, match="more than 3 messages"):
        stage_batch(rig.store, [draft(n) for n in range(4)], START_MS)
    assert len(stage_batch(rig.store, [draft(n) for n in range(3)], START_MS)) == 3


def test_the_check_sum_s_place_begins_behind_a_whole_pair() -> None:
    assert with_seal_place(b"a\1b") == with_seal_place(b"a\1b\2")
    assert with_seal_place(b"a\1b").startswith(b"a\1b\2")


def test_a_batch_that_fits_in_no_file_or_has_a_bad_member_leaves_nothing() -> None:
    rig = Rig()
    with pytest.raises(Illegal):
        stage_batch(rig.store, [draft(n, body_bytes=8000) for n in range(5)], START_MS)
    with pytest.raises(Illegal):
        stage_batch(rig.store, [draft(1), draft(2, body_bytes=9000)], START_MS)
    [placed] = rig.put(draft(3))
    assert (placed.physical_offset, placed.queue_offset) == (0, 0)
    assert rig.numbers() == [3]


@pytest.mark.parametrize(
    ("made", "kind"),
    [
        (draft(1, body_bytes=8193), IllegalKind.MESSAGE),
        (Draft("TopicA", 0, b"", b"x" * 32768, 0, HOST, HOST), IllegalKind.PROPERTIES),
        (Draft("../etc", 0, b"", b"", 0, HOST, HOST), IllegalKind.MESSAGE),
        (Draft("a/b", 0, b"", b"", 0, HOST, HOST), IllegalKind.MESSAGE),
        (Draft("nul\0", 0, b"", b"", 0, HOST, HOST), IllegalKind.MESSAGE),
        (Draft("TopicA", -1, b"", b"", 0, HOST, HOST), IllegalKind.MESSAGE),
        (Draft("TopicA", 1 << 31, b"", b"", 0, HOST, HOST), IllegalKind.MESSAGE),
    ],
)
def test_illegal_messages_change_nothing(made: Draft, kind: IllegalKind) -> None:
    rig = Rig()
    with pytest.raises(Illegal) as caught:
        rig.store.stage(made, START_MS)
    assert caught.value.kind is kind
    rig.store.commit()
    assert rig.store.written_offset == 0
    assert rig.numbers() == []
    assert not [path for path in rig.disk.contents() if "consumequeue" in path]  # type: ignore[attr-defined]


def test_a_whole_unit_may_be_a_little_bigger_than_a_body() -> None:
    rig = Rig(settings=small(mapped_file_size_commit_log=1 << 20, max_message_size=100_000))
    room = 100_000 + EXTRA_UNIT_BYTES
    rig.put(Draft("TopicA", 0, b"b" * 100_000, b"p" * 32_767, 0, HOST, HOST))
    assert rig.store.written_offset < room


def test_rolling_back_gives_everything_back() -> None:
    rig = Rig()
    rig.store.stage(draft(1), START_MS)
    mark = rig.store.savepoint()
    rig.store.stage(draft(2), START_MS)
    rig.store.stage(draft(3, queue_id=1), START_MS)
    rig.store.rollback_to(mark)
    [placed] = rig.put(draft(4))
    assert placed.queue_offset == 1
    assert rig.numbers() == [1, 4]
    assert rig.numbers(queue_id=1) == []


def test_rolling_back_over_a_file_s_end() -> None:
    rig = Rig()
    filler(rig, 300)
    rig.store.stage(draft(1), START_MS)
    mark = rig.store.savepoint()
    for number in range(2, 6):
        rig.store.stage(draft(number), START_MS)
    rig.store.rollback_to(mark)
    assert rig.store.stage(draft(6, body_bytes=8), START_MS).physical_offset == FILE
    rig.store.rollback_to(mark)
    rig.store.commit()
    rig.store.dispatch(START_MS)
    assert rig.numbers() == [1]
    assert rig.store.written_offset < FILE
    rig.put(draft(7), draft(8))
    assert rig.numbers() == [1, 7, 8]


@given(data=st.data())
@settings(max_examples=60)
def test_any_order_of_staging_and_taking_back(data: st.DataObject) -> None:
    """What was not taken back is in the log, in order, without a gap; whatever was taken back left no trace."""
    rig = Rig(settings=small(mapped_file_size_commit_log=4096, max_message_size=2000))
    expected: dict[int, list[int]] = {0: [], 1: []}
    number = 0
    for _ in range(data.draw(st.integers(1, 12))):
        turn: list[tuple[int, int, int]] = []
        for _ in range(data.draw(st.integers(0, 8))):
            action = data.draw(st.sampled_from(["stage", "stage", "batch", "back"]))
            if action == "back":
                mark = data.draw(st.integers(0, len(turn)))
                rig.store.rollback_to(turn[mark][0] if mark < len(turn) else rig.store.savepoint())
                turn = turn[:mark]
                continue
            count = data.draw(st.integers(1, 3)) if action == "batch" else 1
            queue_id = data.draw(st.integers(0, 1))
            sizes = [data.draw(st.integers(10, 900)) for _ in range(count)]
            made = [draft(number + n, queue_id=queue_id, body_bytes=size) for n, size in enumerate(sizes)]
            mark = rig.store.savepoint()
            if action == "batch":
                stage_batch(rig.store, made, START_MS)
            else:
                rig.store.stage(made[0], START_MS)
            turn += [(mark + n, queue_id, number + n) for n in range(count)]
            number += count
        rig.store.commit()
        rig.store.dispatch(START_MS)
        for _, queue_id, one in turn:
            expected[queue_id].append(one)
    for queue_id, numbers in expected.items():
        assert rig.numbers(queue_id=queue_id) == numbers
        assert rig.store.queue_bounds("TopicA", queue_id)[1] == len(numbers)
    rig.reopen()
    assert rig.store.report.clean
    for queue_id, numbers in expected.items():
        assert rig.numbers(queue_id=queue_id) == numbers


# --- errors of the disk


@pytest.mark.parametrize("partial", [0, 1, 100, 250, 100_000])
def test_a_full_disk_takes_the_whole_turn_back(partial: int) -> None:
    disk = MemoryDisk()
    rig = Rig(disk)
    rig.put(draft(1))
    written = rig.store.written_offset
    before = log_bytes(rig)
    disk.faults = [Fault("write", error=errno.ENOSPC, partial=partial, path_part="/commitlog/")]
    rig.store.stage(draft(2), START_MS)
    rig.store.stage(draft(3), START_MS)
    with pytest.raises(CommitFailed) as caught:
        rig.store.commit()
    assert caught.value.why is Closed.DISK_FULL
    assert not isinstance(caught.value, CreateFailed)
    assert log_bytes(rig) == before, "bytes of the failed turn stay behind and would come back to life"
    assert rig.store.written_offset == written
    assert rig.store.dispatch(START_MS) == []
    assert rig.numbers() == [1]
    with pytest.raises(Unwritable):
        rig.store.stage(draft(4), START_MS)
    rig.wait(1000)
    rig.wait(1000)
    rig.wait(1000)
    [placed] = rig.put(draft(5))
    assert (placed.physical_offset, placed.queue_offset) == (written, 1)
    assert rig.numbers() == [1, 5]
    assert rig.store.statistics.put_failed_times == 2


def test_a_full_disk_at_a_file_s_end_takes_both_files_back() -> None:
    disk = MemoryDisk()
    rig = Rig(disk)
    filler(rig, 400)
    before = log_bytes(rig)
    disk.faults = [Fault("write", error=errno.ENOSPC, partial=50, path_part=SECOND)]
    for number in range(4):
        rig.store.stage(draft(number), START_MS)
    with pytest.raises(CommitFailed):
        rig.store.commit()
    assert log_bytes(rig)[:FILE] == before[:FILE]
    assert not any(log_bytes(rig)[FILE:])
    rig.wait(2000)
    rig.wait(2000)
    rig.put(*[draft(number) for number in range(4)])
    assert rig.numbers() == [0, 1, 2, 3]


def test_a_file_that_cannot_be_made() -> None:
    disk = MemoryDisk()
    rig = Rig(disk)
    disk.faults = [Fault("create", error=errno.ENOSPC, path_part="/commitlog/")]
    rig.store.stage(draft(1), START_MS)
    with pytest.raises(CreateFailed):
        rig.store.commit()
    rig.wait(2000)
    rig.wait(2000)
    rig.put(draft(2))
    assert rig.numbers() == [2]


def test_the_file_ahead_is_no_condition() -> None:
    disk = MemoryDisk()
    disk.faults = [Fault("create", error=errno.ENOSPC, path_part=SECOND, times=1)]
    rig = Rig(disk)
    rig.put(draft(1))
    assert rig.numbers() == [1]
    assert SECOND not in disk.contents()
    rig.put(draft(2))
    assert SECOND in disk.contents()


def test_an_io_error_fences_for_good() -> None:
    disk = MemoryDisk()
    rig = Rig(disk)
    rig.put(draft(1))
    disk.faults = [Fault("write", error=errno.EIO, partial=30, path_part="/commitlog/")]
    rig.store.stage(draft(2), START_MS)
    with pytest.raises(CommitFailed) as caught:
        rig.store.commit()
    assert caught.value.why is Closed.FENCED
    for _ in range(20):
        rig.wait(1000)
    with pytest.raises(Unwritable):
        rig.store.stage(draft(3), START_MS)
    assert rig.numbers() == [1]
    assert not rig.store.close(rig.wall_ms)
    assert f"{ROOT}/abort" in disk.contents()


def test_zeros_that_cannot_be_written_fence() -> None:
    disk = MemoryDisk()
    rig = Rig(disk)
    rig.put(draft(1))
    disk.faults = [Fault("write", times=2, error=errno.ENOSPC, partial=30, path_part="/commitlog/")]
    rig.store.stage(draft(2), START_MS)
    with pytest.raises(CommitFailed) as caught:
        rig.store.commit()
    assert caught.value.why is Closed.FENCED


def test_a_short_write_is_finished() -> None:
    disk = MemoryDisk()
    rig = Rig(disk)
    disk.faults = [Fault("write", error=0, partial=70, path_part="/commitlog/")]
    rig.put(draft(1), draft(2))
    assert rig.numbers() == [1, 2]
    assert [number_of(read_unit(log_bytes(rig), at).body) for at in (0, rig.store.written_offset // 2)] == [1, 2]
