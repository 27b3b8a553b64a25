"""The store of a real 5.5.0 broker (`conformance/golden/store-5.5.0`), every kind of message in it, taken apart and made again.

What was stored is compared with what the producers had sent, queues and index with what the log implies, and our own recovery
has to make the very same queue and index files from the log alone.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

import rmq_wire.headers.all  # noqa: F401  (fills the registry)
from rmq_store.settings import StoreSettings
from rmq_wire import properties
from rmq_wire.batch import read_items
from rmq_wire.codes import RequestCode
from rmq_wire.command import Command
from rmq_wire.conversation import Conversation
from rmq_wire.headers.send import SendMessageV2
from rmq_wire.implied.index_keys import index_hash, index_keys
from rmq_wire.implied.tags import tags_code
from rmq_wire.layout.consume_queue import UNIT
from rmq_wire.layout.flat import flat
from rmq_wire.layout.index import ENTRY, HEADER, SLOT
from rmq_wire.message import MAGIC_BLANK, StoredMessage, has_good_crc, pack_unit, read_size_and_magic, read_unit
from tests.support.golden import STORE, answered, exchanges, store_files
from tests.support.store_rig import open_store

LOG_FILE_BYTES = 16_384
QUEUE_FILE_BYTES = 2_000
SLOTS, ENTRIES = 100, 400
"""maxHashSlotNum, maxIndexNum of the broker that wrote the store."""
SCHEDULE = b"SCHEDULE_TOPIC_XXXX"
DELAY_LEVEL_1_MS, SECOND_MS = 1_000, 1_000


def units() -> Iterator[StoredMessage]:
    for data in store_files("commitlog").values():
        at = 0
        while at + 8 <= len(data):
            size, magic = read_size_and_magic(data, at)
            if magic == MAGIC_BLANK or size == 0:
                break
            yield read_unit(data, at)
            at += size


UNITS = list(units())


def pairs(unit: StoredMessage) -> dict[str, str]:
    return properties.decode(unit.properties.decode())


def topics() -> dict[bytes, list[StoredMessage]]:
    found: dict[bytes, list[StoredMessage]] = defaultdict(list)
    for unit in UNITS:
        found[unit.topic].append(unit)
    return found


def test_the_log_is_units_without_a_gap_and_blanks_at_the_ends() -> None:
    files = store_files("commitlog")
    assert [name.rpartition("/")[2] for name in files] == [f"{i * LOG_FILE_BYTES:020}" for i in range(len(files))]
    at = 0
    for unit in UNITS:
        if unit.physical_offset != at:  # a blank says how much of its file is left
            data = files[f"commitlog/{at // LOG_FILE_BYTES * LOG_FILE_BYTES:020}"]
            assert read_size_and_magic(data, at % LOG_FILE_BYTES) == (LOG_FILE_BYTES - at % LOG_FILE_BYTES, MAGIC_BLANK)
            at = (at // LOG_FILE_BYTES + 1) * LOG_FILE_BYTES
        assert unit.physical_offset == at
        assert has_good_crc(unit)
        at += unit.total_size
    assert not any(list(files.values())[-1][at % LOG_FILE_BYTES :])


def test_every_unit_packs_to_the_same_bytes() -> None:
    files = store_files("commitlog")
    for unit in UNITS:
        base = unit.physical_offset // LOG_FILE_BYTES * LOG_FILE_BYTES
        stored = files[f"commitlog/{base:020}"][unit.physical_offset - base :][: unit.total_size]
        assert pack_unit(*unit[3:]) == stored


def test_every_kind_of_message_is_there() -> None:
    names = {topic.decode() for topic in topics()}
    for version in ("5_5_0", "4_9_8"):
        assert {f"kinds-{version}", f"%RETRY%GID-{version}", f"%DLQ%GID-{version}"} <= names
    assert {"SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer", "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"} <= names
    assert {unit.sys_flag & 0b1 for unit in UNITS} == {0, 1}  # compressed or not
    assert {unit.sys_flag & 0b1100 for unit in UNITS} >= {0b0000, 0b1000}  # ordinary, committed


def sent() -> Iterator[tuple[Command, SendMessageV2]]:
    for data, _, is_response in exchanges("frames", STORE):
        [command] = Conversation().feed(data)
        assert isinstance(command, Command)
        if not is_response and command.code in (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE):
            yield command.kept(), command.header(SendMessageV2)


def by_unique_key() -> dict[str, list[StoredMessage]]:
    found: dict[str, list[StoredMessage]] = defaultdict(list)
    for unit in UNITS:
        if key := pairs(unit).get("UNIQ_KEY"):
            found[key].append(unit)
    return found


def never() -> str:
    raise AssertionError("stock producers set the unique key")


CHANGED = {"DELAY", "TRAN_MSG", "TIMER_DELAY_MS", "_SYS_MSG_PRIORITY_"}
"""With one of these the broker does more than add its own names."""


def test_properties_of_a_send_are_stored_in_javas_order() -> None:
    rewriter = properties.Rewriter(cluster="DefaultCluster", region="DefaultRegion", trace_on=True)
    stored = by_unique_key()
    compared = 0
    for command, header in sent():
        if command.code != RequestCode.SEND_MESSAGE_V2:
            continue
        asked = properties.decode(header.properties or "")
        unit = stored[asked["UNIQ_KEY"]][0]
        if CHANGED & asked.keys():
            continue
        ours, _ = rewriter.rewrite(header.properties, never)
        assert unit.properties == ours
        assert bytes(unit.body) == bytes(command.body)
        assert (unit.flag, unit.topic, unit.born_timestamp) == (header.flag, header.topic.encode(), header.born_timestamp)
        compared += 1
    assert compared >= 20


def test_a_delayed_message_waits_under_its_real_names() -> None:
    stored = by_unique_key()
    delayed = [(c, h) for c, h in sent() if "DELAY" in properties.decode(h.properties or "")]
    assert delayed
    for _, header in delayed:
        asked = properties.decode(header.properties or "")
        waiting, delivered = (stored[asked["UNIQ_KEY"]] + [None])[:2]
        assert waiting is not None
        assert delivered is not None
        assert waiting.topic == SCHEDULE
        assert waiting.queue_id == int(asked["DELAY"]) - 1
        added = {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true", "CLUSTER": "DefaultCluster"}
        real = {"REAL_TOPIC": header.topic, "REAL_QID": str(header.queue_id)}
        assert pairs(waiting) == {**asked, **added, **real}
        assert pairs(delivered) == {**asked, **added, **real}
        assert delivered.topic == header.topic.encode()
        assert delivered.store_timestamp - waiting.store_timestamp >= DELAY_LEVEL_1_MS


def test_items_of_a_batch_are_stored_as_they_came() -> None:
    stored = by_unique_key()
    batches = [command for command, _ in sent() if command.code == RequestCode.SEND_BATCH_MESSAGE]
    assert len(batches) == 2
    for command in batches:
        items = read_items(command.body)
        assert len(items) == 4
        for item in items:
            unit, *_ = stored[properties.decode(bytes(item.properties).decode())["UNIQ_KEY"]]
            assert unit.properties == bytes(item.properties)
            assert bytes(unit.body) == bytes(item.body)


def test_senders_were_answered_where_their_messages_are() -> None:
    stored = by_unique_key()
    ids = [(answer, key, at) for entry in answered() for answer in entry["answers"] if answer for key, at in _ids(answer)]
    assert len(ids) > 20
    for answer, key, offset_id in ids:
        first = stored[key][0]
        host = first.store_host
        assert offset_id == (host + struct.pack(">q", first.physical_offset)).hex().upper()
        assert answer["queue"] == int(pairs(first).get("REAL_QID", first.queue_id))


def _ids(answer: dict[str, str]) -> list[tuple[str, str]]:
    if answer["offset_msg_id"] is None:  # a transaction's result
        return []
    return list(zip(answer["msg_id"].split(","), answer["offset_msg_id"].split(","), strict=True))


def test_every_queue_unit_follows_from_the_log() -> None:
    expected: dict[str, bytearray] = defaultdict(bytearray)
    packed = flat(UNIT).packed
    for unit in UNITS:
        if unit.sys_flag & 0b1100 in (0b0100, 0b1100):  # half messages and rollbacks have no entry of their own
            continue
        queue = expected[f"consumequeue/{unit.topic.decode()}/{unit.queue_id}/{0:020}"]
        assert unit.queue_offset == len(queue) // packed.size
        code = tags_code(pairs(unit).get("TAGS"))
        if unit.topic == SCHEDULE:
            code = unit.store_timestamp + DELAY_LEVEL_1_MS if unit.queue_id == 0 else code
        queue += packed.pack(unit.physical_offset, unit.total_size, code)
    found = store_files("consumequeue")
    assert found.keys() == expected.keys()
    for name, data in found.items():
        assert data == bytes(expected[name]).ljust(QUEUE_FILE_BYTES, b"\0"), name


def test_the_index_follows_from_the_log() -> None:
    [data] = store_files("index").values()
    header, slot, entry = flat(HEADER).packed, flat(SLOT).packed, flat(ENTRY).packed
    slots = [0] * SLOTS
    entries = bytearray(entry.pack(0, 0, 0, 0))
    indexed = [u for u in UNITS if u.sys_flag & 0b1100 != 0b1100]
    begin = None
    used = 0
    for unit in indexed:
        values = pairs(unit)
        for key in index_keys(values.get("UNIQ_KEY"), values.get("KEYS"), values.get("TAGS")):
            begin = begin or unit
            end = unit
            key_hash = index_hash(unit.topic.decode(), key)
            place = key_hash % SLOTS
            used += slots[place] == 0
            number = len(entries) // entry.size
            seconds = (unit.store_timestamp - begin.store_timestamp) // SECOND_MS
            entries += entry.pack(key_hash, unit.physical_offset, seconds, slots[place])
            slots[place] = number
    assert begin is not None
    count = len(entries) // entry.size
    head = header.pack(begin.store_timestamp, end.store_timestamp, begin.physical_offset, end.physical_offset, used, count)
    made = head + b"".join(slot.pack(number) for number in slots) + entries
    assert data == made.ljust(header.size + SLOTS * slot.size + ENTRIES * entry.size, b"\0")


@pytest.fixture
def log_alone(tmp_path: Path) -> Path:
    """A store directory with nothing but the log, as after the loss of everything else."""
    (tmp_path / "commitlog").mkdir()
    for name, data in store_files("commitlog").items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "abort").write_bytes(b"")
    return tmp_path


def test_our_recovery_makes_the_same_queues_and_index(log_alone: Path) -> None:
    settings = StoreSettings(
        store_path_root_dir=str(log_alone),
        mapped_file_size_commit_log=LOG_FILE_BYTES,
        mapped_file_size_consume_queue=QUEUE_FILE_BYTES,
        max_hash_slot_num=SLOTS,
        max_index_num=ENTRIES,
        disk_space_warning_level_ratio=None,
    )
    last = UNITS[-1]
    store = open_store(settings, last.store_timestamp + SECOND_MS)
    store.dispatch(last.store_timestamp + SECOND_MS)
    assert store.written_offset == last.physical_offset + last.total_size
    assert store.close(last.store_timestamp + SECOND_MS)
    for name, data in store_files("consumequeue").items():
        assert (log_alone / name).read_bytes() == data, name
    [index] = (log_alone / "index").iterdir()
    [theirs] = store_files("index").values()
    assert index.read_bytes() == theirs
    for name, data in store_files("commitlog").items():
        assert (log_alone / name).read_bytes() == data
