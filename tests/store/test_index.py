"""The key index against a slow model that writes the same bytes with construct, and key queries against a plain search."""

from __future__ import annotations

import errno

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rmq_store.index.index_file import WALK_STEPS_MAX
from rmq_store.index.key_hashes import CACHED_TAILS_MAX, KeyHashes
from rmq_store.layouts import INDEX_HEADER
from rmq_store.log.draft import Draft
from rmq_store.log.walk import CHUNK_BYTES_MIN
from rmq_store.queues.key_heads import CACHED_HEADS_MAX, KeyHeads
from rmq_store.results import IndexType
from rmq_wire.implied.index_keys import index_hash, index_keys, key_hash
from rmq_wire.java import string_hash
from rmq_wire.layout import index as layout
from rmq_wire.message import read_unit
from rmq_wire.sys_flag import TRANSACTION_ROLLBACK
from tests.support.index_model import IndexModel
from tests.support.memory_disk import Fault, MemoryDisk, MemoryFile
from tests.support.store_rig import HOST, ROOT, START_MS, Rig, draft, number_of, small

SLOTS, ENTRIES = 97, 64


def index_files(disk: MemoryDisk) -> list[bytes]:
    return [data for path, data in disk.contents().items() if path.startswith(f"{ROOT}/index/")]


KEYS = st.text(st.sampled_from("abAB01é "), max_size=6)


def test_a_header_waits_for_its_entries() -> None:
    """It counts none that a kill would leave out, also when they cannot be written just now."""
    disk = MemoryDisk()
    rig = Rig(disk)
    rig.put(draft(0))
    rig.wait(1000)
    rig.put(draft(1), draft(2))
    disk.faults = [Fault("write", error=errno.ENOSPC, path_part="/index/")]
    rig.wait(1000)
    [data] = index_files(disk)
    *_, count = INDEX_HEADER.unpack(data[: INDEX_HEADER.size])
    entries = data[INDEX_HEADER.size + SLOTS * 4 :]
    assert all(any(entries[at * 20 : at * 20 + 20]) for at in range(1, count))
    rig.wait(1000)
    assert INDEX_HEADER.unpack(index_files(disk)[0][: INDEX_HEADER.size])[-1] > count


@given(
    messages=st.lists(
        st.tuples(st.sampled_from(["TopicA", "B"]), KEYS, KEYS, st.sampled_from([None, "TagA", "TagB"]), st.integers(0, 3000)),
        max_size=60,
    ),
    turn=st.integers(1, 20),
    unclean=st.booleans(),
)
@settings(max_examples=80)
def test_the_files_are_those_of_the_model(
    messages: list[tuple[str, str, str, str | None, int]], turn: int, unclean: bool
) -> None:
    disk, model = MemoryDisk(), IndexModel(SLOTS, ENTRIES)
    rig = Rig(disk)
    now = START_MS
    for number, (topic, unique, text, tags, step) in enumerate(messages):
        now += step
        keys = index_keys(unique.strip(), text, tags)
        properties = "".join(
            f"{name}\x01{value}\x02" for name, value in (("UNIQ_KEY", unique.strip()), ("KEYS", text), ("TAGS", tags)) if value
        ).encode()
        placed = rig.store.stage(Draft(topic, 0, b"%d:" % number, properties, now, HOST, HOST, keys=keys), now)
        model.put(topic, keys, placed.physical_offset, now)
        if number % turn == 0:
            rig.store.commit()
            rig.store.dispatch(now)
    rig.store.commit()
    rig.store.dispatch(now)
    if unclean:
        rig.disk = disk = disk.crash("all")
        rig.open()
        assert not rig.store.report.clean
    rig.store.close(now)
    found = index_files(disk)
    if not model.files:
        assert all(not any(data) for data in found)
    else:
        assert found == model.contents()


@given(st.lists(st.text(max_size=40), max_size=30), st.sampled_from(["T", "Töpic"]))
@example(["T@0@5@g@17@b@ck", "T@0@-1@g@17@b@ack", "@ck", "ack", "é@ck", "ck"], "T")
def test_remembered_hashes_are_the_hashes(keys: list[str], topic: str) -> None:
    rig = Rig()
    queue = rig.store._queues.get("T", 0)
    queue.hash_heads = KeyHeads(topic)
    hashes = KeyHashes()
    for key in [*keys, *keys]:
        expected = string_hash(f"{topic}#{key}") % (1 << 32)
        assert hashes.of(queue, key) == expected
        assert key_hash(queue.hash_heads.prefix, key) == index_hash(topic, key)


def test_few_hashes_are_remembered() -> None:
    rig = Rig()
    queue, hashes = rig.store._queues.get("T", 0), KeyHashes()
    for number in range(2 * CACHED_TAILS_MAX):
        hashes.of(queue, f"{number:032x}{chr(65 + number % 26)}{number % 100:02}")
        hashes.of(queue, f"{number:0100}")
        assert len(queue.hash_heads) <= CACHED_HEADS_MAX
    for number in range(1 << 14):
        hashes.of(queue, f"key{chr(32 + number // 128 % 96)}{chr(32 + number % 96)}{chr(48 + number % 70)}")
        assert len(hashes.tails) <= CACHED_TAILS_MAX


def test_the_hash_that_has_no_positive() -> None:
    """A text whose hash is Integer.MIN_VALUE is indexed under 0."""
    key = "polygenelubricants"
    assert string_hash(key) == -(1 << 31)
    assert key_hash(0, key) == 0


def numbers(
    rig: Rig, key: str, index_type: IndexType = IndexType.KEY, count: int = 64, begin: int = 0, end: int = 1 << 60
) -> list[int]:
    return [number_of(read_unit(unit).body) for unit in rig.store.query("TopicA", key, count, begin, end, index_type).units]


def test_queries() -> None:
    rig = Rig()
    for number in range(60):
        rig.store.stage(draft(number), START_MS + number * 1000)
        rig.store.commit()
        rig.store.dispatch(START_MS)
    assert len(index_files(rig.disk)) > 2  # type: ignore[arg-type]
    assert numbers(rig, "key7") == [7]
    assert numbers(rig, f"7F0000010007AAAA{31:016X}", IndexType.UNIQUE_KEY) == [31]
    assert numbers(rig, "Tag1", IndexType.TAG) == list(range(1, 60, 3))
    assert numbers(rig, "Tag1") == []
    assert numbers(rig, "shared") == list(range(60))
    assert numbers(rig, "shared", count=5) == [55, 56, 57, 58, 59], "the newest are found first"
    assert numbers(rig, "shared", begin=START_MS + 20_000, end=START_MS + 23_000) == [20, 21, 22, 23]
    assert numbers(rig, "nothing") == []
    assert rig.store.query("Other", "key7", 64, 0, 1 << 60).units == []
    result = rig.store.query("TopicA", "key7", 64, 0, 1 << 60)
    assert result.index_last_update_timestamp == START_MS + 59_000
    assert result.index_last_update_phyoffset == max(at for at in range(rig.store.written_offset) if rig.store.lookup(at))


def test_never_more_than_the_limit() -> None:
    rig = Rig(settings=small(max_index_num=1000))
    rig.put(*[draft(number) for number in range(100)])
    assert len(numbers(rig, "shared", count=1 << 31)) == 64


def test_colliding_keys_are_told_apart() -> None:
    rig = Rig()
    assert string_hash("TopicA#Aa") == string_hash("TopicA#BB")
    for number, key in enumerate(["Aa", "BB", "Aa"]):
        rig.put(Draft("TopicA", 0, b"%d:" % number, f"KEYS\x01{key}\x02".encode(), START_MS, HOST, HOST, keys=(key,)))
    assert numbers(rig, "Aa") == [0, 2]
    assert numbers(rig, "BB") == [1]


def test_a_message_with_one_key_twice_is_found_once() -> None:
    rig = Rig()
    rig.put(Draft("TopicA", 0, b"1:", b"UNIQ_KEY\x01k\x02KEYS\x01k k\x02", START_MS, HOST, HOST, keys=("k", "k", "k")))
    assert numbers(rig, "k") == [1]


def test_a_chain_that_bites_its_tail() -> None:
    disk = MemoryDisk()
    rig = Rig(disk)
    rig.put(*[draft(number) for number in range(10)])
    rig.store.close(START_MS)
    [path] = [path for path in disk.contents() if "/index/" in path]
    entries = [layout.HEADER.sizeof() + SLOTS * 4 + number * 20 for number in range(1, 40)]
    for at in entries:
        disk.open(path).write_at(at + 16, (5).to_bytes(4, "big"))
    rig.open()
    assert rig.store.report.clean
    for number in range(10):
        assert numbers(rig, f"key{number}") in ([number], [])


def test_a_slot_with_very_many_entries() -> None:
    rig = Rig(settings=small(max_index_num=WALK_STEPS_MAX + 3000, max_hash_slot_num=1))
    for first in range(0, WALK_STEPS_MAX // 4 + 500, 100):
        rig.put(*[draft(number, body_bytes=8) for number in range(first, first + 100)])
    assert numbers(rig, "key0") == [], "farther than anybody walks"
    assert numbers(rig, f"key{WALK_STEPS_MAX // 4 + 400}") == [WALK_STEPS_MAX // 4 + 400]


def test_an_index_file_that_cannot_be_made_delays_the_dispatch() -> None:
    disk = MemoryDisk()
    rig = Rig(disk)
    disk.faults = [Fault("create", error=errno.ENOSPC, path_part="/index/", times=2)]
    rig.store.stage(draft(1), START_MS)
    rig.store.commit()
    assert rig.store.dispatch(START_MS) == []
    assert rig.store.dispatch(START_MS) == []
    [arrived] = rig.store.dispatch(START_MS)
    assert arrived.next_queue_offset == 1
    assert numbers(rig, "key1") == [1]


def test_an_index_that_cannot_be_written_keeps_answering() -> None:
    disk = MemoryDisk()
    rig = Rig(disk)
    rig.put(draft(1))
    disk.faults = [Fault("write", error=errno.ENOSPC, path_part="/index/", times=3)]
    rig.wait(1000)
    assert rig.store.refusal is not None
    assert numbers(rig, "key1") == [1]
    rig.wait(1000)
    rig.wait(1000)
    rig.wait(1000)
    rig.wait(1000)
    assert rig.store.refusal is None
    assert any(map(any, index_files(disk)))


def test_no_index_when_it_is_off() -> None:
    disk = MemoryDisk()
    rig = Rig(disk, settings=small(message_index_enable=False))
    rig.put(draft(1))
    rig.reopen()
    assert rig.numbers() == [1]
    assert index_files(disk) == []
    assert rig.store.query("TopicA", "key1", 10, 0, 1 << 60).units == []


def test_switched_on_later_it_covers_what_was_there() -> None:
    disk = MemoryDisk()
    rig = Rig(disk, settings=small(message_index_enable=False))
    rig.put(*[draft(number) for number in range(30)])
    rig.store.close(START_MS)
    rig.settings = small()
    rig.open()
    assert rig.store.report.clean
    assert numbers(rig, "shared") == list(range(30))


@pytest.mark.parametrize("stop", ["clean", "kill"])
def test_names_never_go_back(stop: str) -> None:
    """The clock may; a file's name must not sort before an older one."""
    disk = MemoryDisk()
    rig = Rig(disk)
    rig.put(*[draft(number) for number in range(15)])
    if stop == "clean":
        rig.store.close(START_MS)
    else:
        rig.disk = disk = disk.crash("all")
    rig.wall_ms = START_MS - 86_400_000
    rig.open()
    for number in range(15, 60):
        rig.put(draft(number))
    names = [path.rpartition("/")[2] for path in disk.contents() if "/index/" in path]
    assert len(names) > 3
    assert names == sorted(names)
    assert all(len(name) == 17 for name in names)
    assert numbers(rig, "shared") == list(range(60))


@pytest.mark.parametrize("gone", range(4))
def test_no_key_is_missed_when_an_index_file_is_gone(gone: int) -> None:
    """A power cut may take any file that was not synced, and the log's end; each message's entries go over a file's end here."""
    disk = MemoryDisk()
    rig = Rig(disk, settings=small(max_index_num=15))
    placed = [rig.put(draft(number))[0] for number in range(14)]
    assert rig.store._index is not None
    rig.store._index.write_gathered()
    paths = [path for path in disk.contents() if "/index/" in path]
    assert len(paths) == 4
    log = f"{ROOT}/commitlog/{0:020d}"
    for kept in range(1, 15):
        rig.disk = after = disk.crash("all")
        after.unlink(paths[gone])
        if kept < 14:
            end = placed[kept].physical_offset
            after.open(log).write_at(end, bytes(placed[-1].end_offset - end))
        rig.open()
        assert rig.store.written_offset == placed[kept - 1].end_offset
        for number in range(14):
            assert numbers(rig, f"key{number}") == [number] * (number < kept), f"{kept} messages are left"
        assert numbers(rig, "shared") == list(range(kept))
        assert sorted(n for tag in range(3) for n in numbers(rig, f"Tag{tag}", IndexType.TAG)) == list(range(kept))


def test_a_message_rolled_back_begins_no_file() -> None:
    """Its keys would not fit into the newest, but it has no entry."""
    disk = MemoryDisk()
    rig = Rig(disk)
    rig.put(*[draft(number) for number in range(15)])
    rig.put(draft(15, sys_flag=TRANSACTION_ROLLBACK))
    assert len(index_files(disk)) == 1
    rig.put(draft(15, sys_flag=TRANSACTION_ROLLBACK), draft(16))
    assert rig.store._index is not None
    first, second = rig.store._index.files
    assert first.is_full
    assert second.count == 2
    assert numbers(rig, "key16") == [16]


@pytest.mark.parametrize("gone", [(0,), (1,), (2,), (3,), (1, 2), (0, 3)], ids=str)
@pytest.mark.parametrize("beside", [True, False], ids=["entries go over files' ends", "files end with messages"])
def test_a_clean_start_notices_that_an_index_file_is_gone(gone: tuple[int, ...], beside: bool) -> None:
    disk = MemoryDisk()
    rig = Rig(disk, settings=small(max_index_num=15 if beside else 17))  # a message has four entries
    for number in range(14):
        rig.put(draft(number))
    rig.store.close(rig.wall_ms)
    before = index_files(disk)
    assert len(before) == 4
    paths = [path for path in disk.contents() if "/index/" in path]
    for number in gone:
        disk.unlink(paths[number])
    rig.open()
    assert rig.store.report.clean
    said = rig.store.report.sentences()
    assert [sentence.partition(":")[0] for sentence in said] == ["the index lacked entries or files"]
    for number in range(14):
        assert numbers(rig, f"key{number}") == [number]
    assert numbers(rig, "shared") == list(range(14))
    rig.store.close(rig.wall_ms)
    assert index_files(disk) == before
    rig.open()
    assert rig.store.report.sentences() == []


def test_index_files_that_went_with_old_messages_are_not_missed() -> None:
    disk = MemoryDisk()
    rig = Rig(disk)
    for number in range(120):
        rig.put(draft(number, body_bytes=800))
    rig.store.close(rig.wall_ms)
    paths = [path for path in disk.contents() if "/index/" in path]
    log_bytes = rig.settings.mapped_file_size_commit_log
    for start in (0, log_bytes):
        disk.unlink(f"{ROOT}/commitlog/{start:020d}")
    old = [path for path in paths if INDEX_HEADER.unpack(disk.contents()[path][: INDEX_HEADER.size])[3] < 2 * log_bytes]
    assert len(old) > 1
    for path in old:
        disk.unlink(path)
    kept = {path: data for path, data in disk.contents().items() if "/index/" in path}
    rig.open()
    [reported] = rig.store.report.sentences()
    assert reported.startswith(f"log files before {2 * log_bytes} are gone")
    rig.store.close(rig.wall_ms)
    assert {path: data for path, data in disk.contents().items() if "/index/" in path} == kept


def test_messages_without_keys_between_index_files_are_no_hole() -> None:
    """Nor are such with tags alone: brokers before 5.5 wrote no entries for them."""
    disk = MemoryDisk()
    rig = Rig(disk, settings=small(max_index_num=5))
    rig.put(draft(0))
    for number in range(1, 40):
        tags = f"TAGS\x01Tag{number}\x02".encode() if number % 2 else b""
        rig.put(Draft("TopicA", 0, b"%d:" % number, tags, START_MS, HOST, HOST, keys=()))
    rig.put(draft(40))
    assert len(index_files(disk)) == 2
    rig.store.close(rig.wall_ms)
    before = index_files(disk)
    rig.open()
    assert rig.store.report.sentences() == []
    rig.store.close(rig.wall_ms)
    assert index_files(disk) == before


def test_a_clean_start_with_a_whole_index_reads_a_little_of_each_file(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = MemoryDisk()
    rig = Rig(disk, settings=small(mapped_file_size_commit_log=1 << 20))
    for number in range(400):
        rig.put(draft(number, body_bytes=1000))
    rig.store.close(rig.wall_ms)
    files = len(index_files(disk))
    assert files > 20
    reads: list[int] = []
    read_at = MemoryFile.read_at

    def counted(self: MemoryFile, offset: int, size: int) -> bytes:
        if "/commitlog/" in self.path:
            reads.append(size)
        return read_at(self, offset, size)

    monkeypatch.setattr(MemoryFile, "read_at", counted)
    rig.open()
    assert files < len(reads) < 3 * files
    assert sum(reads) < 2 * files * CHUNK_BYTES_MIN
    assert rig.store.report.sentences() == []


@pytest.mark.parametrize("changed", ["max_index_num", "max_hash_slot_num"])
def test_an_index_of_another_size_is_made_again_and_that_is_said(changed: str) -> None:
    disk = MemoryDisk()
    rig = Rig(disk)
    for number in range(40):
        rig.put(draft(number))
    rig.store.close(rig.wall_ms)
    count = len(index_files(disk))
    rig.settings = small(**{changed: 50})
    rig.open()
    assert rig.store.report.clean
    assert rig.store.report.sentences() == [
        f"{count} index files have another size than maxHashSlotNum and maxIndexNum ask for: they were removed, their entries"
        " made again from the log"
    ]
    assert numbers(rig, "shared") == list(range(40))


def test_an_index_file_cut_short_among_others_is_made_again() -> None:
    disk = MemoryDisk()
    rig = Rig(disk)
    for number in range(60):
        rig.put(draft(number))
    rig.store.close(rig.wall_ms)
    before = index_files(disk)
    path = sorted(path for path in disk.contents() if "/index/" in path)[1]
    disk.open(path).set_length(100)
    rig.open()
    assert [said.partition(" have")[0] for said in rig.store.report.sentences()] == ["1 index files"]
    assert numbers(rig, "shared") == list(range(60))
    rig.store.close(rig.wall_ms)
    assert index_files(disk) == before
