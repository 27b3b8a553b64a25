"""The checked statements about store files (001-8 to 001-33), each shown by a test that names it."""

from __future__ import annotations

from datetime import UTC, timedelta, timezone

import pytest

from broker_impl.config import BrokerConfig, Machine
from broker_impl.store_settings import store_settings
from rmq_store.disk.disk import File, RealDisk
from rmq_store.errors import StoreLocked
from rmq_store.log.draft import Draft
from rmq_store.retention import HOUR_MS
from rmq_store.settings import StoreSettings
from rmq_wire.implied.index_keys import index_hash
from rmq_wire.implied.tags import tags_code
from rmq_wire.java import string_hash
from rmq_wire.layout import checkpoint, consume_queue, index, message
from rmq_wire.message import MAGIC_BLANK, MAGIC_V1, MAGIC_V2, read_unit
from rmq_wire.sys_flag import TRANSACTION_ROLLBACK
from tests.store.retention_kit import AT_ALL_HOURS
from tests.support.memory_disk import MemoryDisk
from tests.support.store_rig import HOST, HOST_V6, ROOT, START_MS, Rig, draft, number_of, open_store, small, units_of

LOG_FILE = small().mapped_file_size_commit_log
SLOTS, ENTRIES = 97, 64
HEADER_BYTES, SLOT_BYTES, ENTRY_BYTES = 40, 4, 20


def contents(rig: Rig, under: str = "") -> dict[str, bytes]:
    assert isinstance(rig.disk, MemoryDisk)
    prefix = f"{ROOT}/{under}"
    return {path.removeprefix(f"{ROOT}/"): data for path, data in rig.disk.contents().items() if path.startswith(prefix)}


def the_index(rig: Rig) -> bytes:
    rig.store.close(rig.wall_ms)
    [data] = contents(rig, "index/").values()
    return data


def entry(data: bytes, number: int) -> dict[str, int]:
    at = HEADER_BYTES + SLOTS * SLOT_BYTES + number * ENTRY_BYTES
    parsed = index.ENTRY.parse(data[at : at + ENTRY_BYTES])
    return {name: parsed[name] for name in ("key_hash", "physical_offset", "seconds", "previous")}


def keyed(number: int, *keys: str, at_ms: int = START_MS) -> Draft:
    properties = f"KEYS\x01{' '.join(keys)}\x02".encode() if keys else b""
    return Draft("TopicA", 0, b"%d:" % number, properties, at_ms, HOST, HOST, keys=keys)


# --- the root


def test_001_8_the_root_is_store_in_the_home_directory() -> None:
    found = store_settings(BrokerConfig({}, Machine(home="/home/u")))
    assert found.store_path_root_dir == "/home/u/store"
    assert found.commit_log_directories == ("/home/u/store/commitlog",)


def test_001_9_abort_lies_there_while_the_store_is_open() -> None:
    rig = Rig()
    assert contents(rig)["abort"] == b"4711"
    rig.put(draft(0))
    assert isinstance(rig.disk, MemoryDisk)
    left = rig.disk.crash("all")
    assert rig.store.close(rig.wall_ms)
    assert "abort" not in contents(rig)
    assert rig.open().report.clean
    assert not Rig(disk=left).store.report.clean


def test_001_10_checkpoint_has_six_numbers_in_a_page() -> None:
    rig = Rig()
    rig.put(draft(0), draft(1))
    rig.wait(2_000)
    rig.sync()
    assert rig.store.close(rig.wall_ms)
    data = contents(rig)["checkpoint"]
    assert len(data) == checkpoint.FILE_SIZE == 4096
    fields = checkpoint.FIELDS.parse(data)
    assert len(checkpoint.FIELDS.subcons) == 6
    assert fields.physic_msg_timestamp == fields.logics_msg_timestamp == START_MS
    second = units_of(rig.open().read_queue("TopicA", 0, 1, 1, 1 << 20).chunks)[0]
    assert fields.logics_physical_offset == second.physical_offset
    assert not any(data[48:])


def test_001_11_the_tree_and_its_lock(tmp_path: object) -> None:
    rig = Rig()
    rig.put(draft(0))
    wanted = {"abort", "checkpoint", "commitlog", "consumequeue", "index", "lock"}
    assert wanted == {path.split("/")[0] for path in contents(rig)} - {"abort.boot"}
    settings = small(store_path_root_dir=str(tmp_path))
    store = open_store(settings)
    with pytest.raises(StoreLocked):
        open_store(settings, pid=2)
    assert store.close(START_MS)


LEFTOVERS = (
    "timerwheel",
    "timerlog/00000000000000000000",
    "config/timercheck",
    "config/timermetrics",
    "config/transactionMetrics",
    "compaction/position-checkpoint",
    "rocksdbstore/CURRENT",
    "abort.bak",
    "epochFileCheckpoint",
    "kvStore/LOCK",
    "tieredstore/x",
    "consumequeue_rocksdb/CURRENT",
)


@pytest.mark.parametrize("stop", ["clean", "killed"])
def test_001_11_what_else_a_stock_broker_leaves_is_not_touched(stop: str) -> None:
    rig = Rig()
    rig.put(draft(0))
    assert rig.store.close(rig.wall_ms)
    assert isinstance(rig.disk, MemoryDisk)
    for name in LEFTOVERS:
        rig.disk.make_directories(f"{ROOT}/{name}".rpartition("/")[0])
        rig.disk.create(f"{ROOT}/{name}", 100).write_at(0, name.encode())
    was = {name: contents(rig)[name] for name in LEFTOVERS}
    rig.open()
    rig.put(draft(1))
    if stop == "killed":
        rig = Rig(disk=rig.disk.crash("all"))
    assert rig.numbers() == [0, 1]
    assert rig.store.close(rig.wall_ms)
    assert {name: contents(rig)[name] for name in LEFTOVERS} == was


# --- the commit log


def test_001_12_files_of_a_gibibyte_named_by_their_first_byte() -> None:
    assert StoreSettings(store_path_root_dir="/x").mapped_file_size_commit_log == 1 << 30
    rig = Rig()
    rig.put(*[draft(number, body_bytes=900) for number in range(40)])
    names = [path.removeprefix("commitlog/") for path in contents(rig, "commitlog/")]
    assert names == [f"{n * LOG_FILE:020d}" for n in range(len(names))]
    assert len(names) >= 3
    assert {len(data) for data in contents(rig, "commitlog/").values()} == {LOG_FILE}


@pytest.mark.parametrize("born", [HOST, HOST_V6])
@pytest.mark.parametrize("store_host", [HOST, HOST_V6])
@pytest.mark.parametrize("topic", ["TopicA", "%RETRY%" + "g" * 200])
@pytest.mark.parametrize(("spare", "rolls"), [(9, False), (8, False), (7, True), (0, True), (-1, True)])
def test_001_13_no_unit_straddles_two_files(topic: str, born: bytes, store_host: bytes, spare: int, rolls: bool) -> None:
    """Eight bytes must be left behind a unit; else a blank says what is left, and the next file begins with it."""
    rig = Rig()
    [first] = rig.put(Draft(topic, 0, b"0:", b"", START_MS, born, store_host))
    room = LOG_FILE - first.end_offset - (first.size - 2) - spare
    while room > 8000:
        [first] = rig.put(Draft(topic, 0, b"0:".ljust(4000, b"."), b"", START_MS, born, store_host))
        room -= first.size
    [placed] = rig.put(Draft(topic, 0, b"1:".ljust(room, b"."), b"", START_MS, born, store_host))
    data = contents(rig)[f"commitlog/{0:020d}"]
    if rolls:
        assert placed.physical_offset == LOG_FILE
        blank = message.BLANK.parse(data[first.end_offset :])
        assert (blank.total_size, blank.magic) == (LOG_FILE - first.end_offset, MAGIC_BLANK)
        assert blank.total_size >= 8
        assert not any(data[first.end_offset + 8 :])
    else:
        assert placed.physical_offset == first.end_offset
        assert LOG_FILE - placed.end_offset == spare
    rig.reopen()
    assert rig.numbers(topic)[-1] == 1


def test_001_14_one_log_for_all_topics() -> None:
    rig = Rig()
    rig.put(draft(0, "A"), draft(1, "B", 3), draft(2, "A"))
    data = contents(rig)[f"commitlog/{0:020d}"]
    at, topics = 0, []
    for _ in range(3):
        unit = read_unit(data, at)
        topics.append(unit.topic.decode())
        at += unit.total_size
    assert topics == ["A", "B", "A"]


@pytest.mark.parametrize("born", [HOST, HOST_V6])
@pytest.mark.parametrize("store_host", [HOST, HOST_V6])
@pytest.mark.parametrize("topic", ["T", "x" * 127, "%RETRY%" + "g" * 121])
def test_001_15_a_units_fields_in_both_versions_and_all_widths(topic: str, born: bytes, store_host: bytes) -> None:
    rig = Rig()
    [placed] = rig.put(
        Draft(
            topic,
            3,
            b"body",
            b"a\x01b\x02",
            5,
            born,
            store_host,
            flag=7,
            sys_flag=1,
            reconsume_times=2,
            prepared_transaction_offset=9,
        )
    )
    unit = message.UNIT.parse(contents(rig)[f"commitlog/{0:020d}"])
    assert unit.magic == (MAGIC_V2 if len(topic) > 127 else MAGIC_V1)
    assert (unit.total_size, unit.queue_id, unit.flag, unit.queue_offset, unit.physical_offset) == (placed.size, 3, 7, 0, 0)
    assert unit.sys_flag == 1 | (0x10 if born == HOST_V6 else 0) | (0x20 if store_host == HOST_V6 else 0)
    assert (unit.born_host, unit.store_host, unit.born_timestamp, unit.store_timestamp) == (born, store_host, 5, START_MS)
    assert (unit.reconsume_times, unit.prepared_transaction_offset) == (2, 9)
    assert (unit.body, unit.topic, unit.properties) == (b"body", topic.encode(), b"a\x01b\x02")
    overhead = 91 + (1 if len(topic) > 127 else 0) + 12 * [born, store_host].count(HOST_V6)
    assert placed.size == overhead + 4 + len(topic) + 4


# --- consume queues


def test_001_16_queue_files_are_named_by_bytes() -> None:
    rig = Rig()
    rig.put(*[draft(number, "T", 5) for number in range(23)])
    assert list(contents(rig, "consumequeue/")) == [f"consumequeue/T/5/{at:020d}" for at in (0, 200, 400)]


def test_001_17_twenty_bytes_an_entry_of_position_size_and_hash() -> None:
    assert StoreSettings(store_path_root_dir="/x").consume_queue_file_bytes == 300_000 * 20 == 6_000_000
    rig = Rig()
    [first, second] = rig.put(draft(0, "T", tags="TagA"), draft(1, "T", tags=""))
    [late] = rig.put(draft(2, "SCHEDULE_TOPIC_XXXX", tags="TagA", deliver_delay_ms=5000))
    data = contents(rig)[f"consumequeue/T/0/{0:020d}"]
    parsed = [consume_queue.UNIT.parse(data[at : at + 20]) for at in (0, 20)]
    assert [tuple(unit[name] for name in ("physical_offset", "size", "tags_code")) for unit in parsed] == [
        (first.physical_offset, first.size, tags_code("TagA")),
        (second.physical_offset, second.size, 0),
    ]
    waiting = consume_queue.UNIT.parse(contents(rig)[f"consumequeue/SCHEDULE_TOPIC_XXXX/0/{0:020d}"])
    assert (waiting.physical_offset, waiting.tags_code) == (late.physical_offset, START_MS + 5000)


def test_001_18_offset_then_log_then_queue() -> None:
    rig = Rig()
    assert rig.store.stage(draft(0), START_MS).queue_offset == 0
    assert not any(contents(rig, "commitlog/").values())
    rig.store.commit()
    assert any(contents(rig)[f"commitlog/{0:020d}"])
    assert rig.store.queue_bounds("TopicA", 0) == (0, 0)
    assert [arrived.next_queue_offset for arrived in rig.store.dispatch(START_MS)] == [1]
    assert rig.store.queue_bounds("TopicA", 0) == (0, 1)


def test_001_19_maps_are_for_reading_only(tmp_path: object) -> None:
    """Java also writes through maps; we never do (docs/durability.md)."""
    file: File = RealDisk().create(f"{tmp_path}/x", 4096)
    view = file.map()
    assert view.readonly
    file.write_at(5, b"seen")
    assert bytes(view[5:9]) == b"seen"


def test_001_20_the_entries_of_a_pull_lie_together() -> None:
    rig = Rig(settings=small(mapped_file_size_consume_queue=100 * 20))
    rig.put(*[draft(number, "AB"[number % 2]) for number in range(64)])
    data = contents(rig)[f"consumequeue/A/0/{0:020d}"]
    found = [consume_queue.UNIT.parse(data[at : at + 20]).physical_offset for at in range(0, 32 * 20, 20)]
    read = rig.store.read_queue("A", 0, 0, 32, 1 << 20)
    assert found == [unit.physical_offset for unit in units_of(read.chunks)]
    assert read.message_count == 32
    assert not any(data[32 * 20 :])


def test_001_21_messages_are_read_where_they_lie() -> None:
    rig = Rig()
    rig.put(*[draft(number, "AB"[number % 2]) for number in range(8)], *[draft(number, "A") for number in range(8, 11)])
    mixed = rig.store.read_queue("A", 0, 0, 32, 1 << 20)
    assert [number_of(unit.body) for unit in units_of(mixed.chunks)] == [0, 2, 4, 6, 8, 9, 10]
    alone = rig.store.read_queue("A", 0, 4, 32, 1 << 20)
    assert len(alone.chunks) == 1, "neighbours in the log leave as one piece"


# --- the index


def test_001_22_unique_key_keys_and_tags_are_indexed() -> None:
    rig = Rig()
    [placed] = rig.put(draft(1, tags="TagA"))
    data = the_index(rig)
    wanted = [index_hash("TopicA", key) for key in ("7F0000010007AAAA0000000000000001", "key1", "shared", "T#TagA")]
    assert [entry(data, n)["key_hash"] for n in range(1, 5)] == wanted
    assert {entry(data, n)["physical_offset"] for n in range(1, 5)} == {placed.physical_offset}
    keyless = Rig()
    keyless.put(keyed(0), draft(1, sys_flag=TRANSACTION_ROLLBACK))
    assert not any(the_index(keyless))


@pytest.mark.parametrize(("zone", "name"), [(UTC, "20231114221320000"), (timezone(timedelta(hours=8)), "20231115061320000")])
def test_001_23_an_index_file_is_named_by_its_creation_time(zone: timezone, name: str) -> None:
    disk = MemoryDisk()
    store = open_store(small(), disk=disk, zone=zone)
    store.stage(draft(0), START_MS)
    store.commit()
    store.dispatch(START_MS)
    assert [path for path in disk.contents() if "/index/" in path] == [f"{ROOT}/index/{name}"]


def test_001_24_header_slots_and_entries() -> None:
    settings = StoreSettings(store_path_root_dir="/x")
    whole = HEADER_BYTES + SLOT_BYTES * settings.max_hash_slot_num + ENTRY_BYTES * settings.max_index_num
    assert whole == 420_000_040
    rig = Rig()
    rig.put(draft(0))
    assert len(the_index(rig)) == HEADER_BYTES + SLOT_BYTES * SLOTS + ENTRY_BYTES * ENTRIES


def test_001_25_the_header() -> None:
    assert index.HEADER.sizeof() == HEADER_BYTES
    rig = Rig()
    first = rig.put(keyed(0, "a"))[0]
    rig.wait(5000)
    last = rig.put(keyed(1, "b"))[0]
    header = index.HEADER.parse(the_index(rig))
    assert (header.begin_timestamp, header.end_timestamp) == (START_MS, START_MS + 5000)
    assert (header.begin_physical_offset, header.end_physical_offset) == (first.physical_offset, last.physical_offset)
    assert (header.slot_count, header.index_count) == (2, 3), "two entries: the count begins at 1"


def test_001_25_and_001_27_the_first_entry_of_a_following_file() -> None:
    """It counts from the end of the file before, which the header has until then, and puts its own message there."""
    rig = Rig()
    rig.put(*[keyed(number, f"k{number}") for number in range(ENTRIES - 1)])
    rig.wait(7000)
    first = rig.put(keyed(1, "next"))[0]
    rig.wait(3000)
    rig.put(keyed(2, "and so on"))
    rig.store.close(rig.wall_ms)
    _, data = contents(rig, "index/").values()
    header = index.HEADER.parse(data)
    assert (header.begin_timestamp, header.begin_physical_offset) == (START_MS + 7000, first.physical_offset)
    assert [entry(data, n)["seconds"] for n in (1, 2)] == [7, 3]


def test_001_26_001_27_an_entry_has_seconds_since_the_files_first_message() -> None:
    assert index.ENTRY.sizeof() == ENTRY_BYTES
    rig = Rig()
    rig.wait(60_000)
    rig.put(keyed(0, "a"))
    rig.wait(2999)
    rig.put(keyed(1, "b"))
    data = the_index(rig)
    assert [entry(data, n)["seconds"] for n in (1, 2)] == [0, 2]


def test_001_27_a_time_before_the_first_counts_as_none() -> None:
    rig = Rig()
    rig.put(keyed(0, "a"))
    rig.wall_ms -= 60_000
    rig.put(keyed(1, "b"))
    rig.wall_ms += (2**31 + 100) * 1000
    rig.put(keyed(2, "c"))
    assert [entry(the_index(rig), n)["seconds"] for n in (1, 2, 3)] == [0, 0, 2**31 - 1]


def test_001_28_slots_hold_the_newest_of_a_chain() -> None:
    assert abs(string_hash("TopicA#k1")) == index_hash("TopicA", "k1") == 1_903_240_649
    assert index_hash("TopicA", "k1") % 5_000_000 == 3_240_649
    rig = Rig()
    rig.put(*[keyed(number, "same") for number in range(3)])
    data = the_index(rig)
    slot = index_hash("TopicA", "same") % SLOTS
    at = HEADER_BYTES + slot * SLOT_BYTES
    assert index.SLOT.parse(data[at:]).newest == 3
    assert [entry(data, n)["previous"] for n in (3, 2, 1)] == [2, 1, 0]


def test_001_29_a_file_is_full_with_one_entry_less_than_its_number() -> None:
    rig = Rig()
    rig.put(*[keyed(number, f"k{number}") for number in range(ENTRIES - 1)])
    assert len(contents(rig, "index/")) == 1
    rig.put(keyed(ENTRIES, "one more"))
    assert len(contents(rig, "index/")) == 2


def test_001_30_a_query_is_a_window_of_time() -> None:
    rig = Rig()
    for number in range(10):
        rig.put(keyed(number, "k", at_ms=rig.wall_ms))
        rig.wait(1000)
    found = rig.store.query("TopicA", "k", 32, START_MS + 3000, START_MS + 6000)
    assert [number_of(read_unit(unit).body) for unit in found.units] == [3, 4, 5, 6]
    assert len(rig.store.query("TopicA", "k", 3, 0, 1 << 60).units) == 3
    assert StoreSettings(store_path_root_dir="/x").max_msgs_num_batch == 64


def test_001_31_001_32_places_of_slots_and_entries() -> None:
    """Slot numbers begin at 0, entry numbers at 1: the place of entry 0 stays empty."""
    rig = Rig()
    [placed] = rig.put(keyed(0, "a"))
    data = the_index(rig)
    slot_at = HEADER_BYTES + index_hash("TopicA", "a") % SLOTS * SLOT_BYTES
    entries_at = HEADER_BYTES + SLOTS * SLOT_BYTES
    used = [at for at in range(HEADER_BYTES, entries_at, SLOT_BYTES) if any(data[at : at + SLOT_BYTES])]
    assert used == [slot_at]
    assert not any(data[entries_at : entries_at + ENTRY_BYTES])
    assert index.ENTRY.parse(data[entries_at + ENTRY_BYTES :]).physical_offset == placed.physical_offset


def test_001_33_a_foreign_key_with_the_same_hash_is_not_returned() -> None:
    """The reference leaves that to the client; we look at the message's own keys."""
    assert string_hash("Aa") == string_hash("BB")
    rig = Rig()
    rig.put(keyed(0, "Aa"))
    assert len(rig.store.query("TopicA", "Aa", 32, 0, 1 << 60).units) == 1
    assert rig.store.query("TopicA", "BB", 32, 0, 1 << 60).units == []


# --- cleaning up


def test_001_93_dead_letters_go_with_the_files_they_lie_in() -> None:
    rig = Rig()
    rig.store.retain_by(AT_ALL_HOURS)
    topics = ("TopicA", "%DLQ%G")
    for number in range(400):
        rig.put(draft(number, topics[number % 2], body_bytes=700))
    rig.sync_queues()
    rig.retain(71 * HOUR_MS)
    assert [rig.store.queue_bounds(topic, 0)[0] for topic in topics] == [0, 0]
    rig.retain(2 * HOUR_MS)
    lows = [rig.store.queue_bounds(topic, 0)[0] for topic in topics]
    assert min(lows) > 0
    assert abs(lows[0] - lows[1]) <= 1
