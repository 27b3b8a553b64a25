"""Light queues and check sums over whole units: bytes as the Java broker writes them, and their counters through anything."""

from __future__ import annotations

from pathlib import Path
from random import Random
from zlib import crc32

import pytest

from rmq_store.errors import Illegal, IllegalKind
from rmq_wire import property_names as prop
from rmq_wire.message import StoredMessage, crc32_property, read_unit
from rmq_wire.properties import decode, delete
from tests.support.golden_formats import LIGHT, draft_of, files, in_queue, restore, settings, units
from tests.support.loops import each
from tests.support.memory_disk import MemoryDisk
from tests.support.store_rig import LIGHT_QUEUES_ON, Rig, draft, lit, open_store, small, stage_batch

UNITS = units(LIGHT)
DATA = ("logs-a", "logs-b", "consumequeue", "index")
TWICE = b"twice"
"""It names a queue twice: Java counts two offsets for one unit, we count one."""


def before(properties: bytes) -> bytes:
    """What the broker staged: without what the append adds."""
    text = delete(properties.decode(), prop.CRC32)
    return delete(text, prop.INNER_MULTI_QUEUE_OFFSET).encode()


def test_the_same_units_in_the_same_directories(tmp_path: Path) -> None:
    store = open_store(settings(tmp_path, LIGHT), UNITS[0].store_timestamp)
    for unit in UNITS:
        one = draft_of(unit, before(unit.properties))
        if unit.topic == b"Plain" and bytes(unit.body) in (b"one", b"two", b"three", b"four"):
            if bytes(unit.body) == b"two":  # Java puts the check sum into the value of the property before it
                one.properties = b"A\x01b"
            stage_batch(store, [one], unit.store_timestamp)
        else:
            store.stage(one, unit.store_timestamp)
        store.commit()
        store.dispatch(unit.store_timestamp)
        at = unit.physical_offset
        if bytes(unit.body) == b"two":
            break
        ours = bytes(store.lookup(at) or b"")
        assert read_unit(ours) == unit
    assert store.close(UNITS[-1].store_timestamp)
    written = files(LIGHT, "logs-a", "logs-b")
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.glob("logs-*/*")) == sorted(written)


def test_an_item_without_a_last_separator_gets_one(tmp_path: Path) -> None:
    [item] = [unit for unit in UNITS if bytes(unit.body) == b"two"]
    assert item.properties.startswith(b"A\x01b__CRC32#\x01"), "Java: the value swallows the name of the check sum"
    store = open_store(settings(tmp_path, LIGHT), 1)
    stage_batch(store, [draft_of(item, b"A\x01b")], 1)
    store.commit()
    values = decode(read_unit(bytes(store.lookup(0) or b"")).properties.decode())
    assert (values["A"], len(values[prop.CRC32])) == ("b", 10)


@pytest.mark.parametrize("unit", [u for u in UNITS if bytes(u.body) != b"two"], ids=lambda u: str(u.physical_offset))
def test_javas_check_sums_are_over_all_before_them(unit: StoredMessage) -> None:
    at = unit.physical_offset
    name, data = next((n, d) for n, d in files(LIGHT, "logs-a", "logs-b").items() if int(Path(n).name) == at // 8192 * 8192)
    raw = data[at % 8192 :][: unit.total_size]
    assert raw[-20:] == crc32_property(crc32(raw[:-20]) & 0x7FFFFFFF), name


def test_queues_and_index_made_from_the_log_alone_are_javas(tmp_path: Path) -> None:
    restore(LIGHT, tmp_path, "logs-")
    (tmp_path / "abort").write_bytes(b"")
    now = UNITS[-1].store_timestamp + 1000
    store = open_store(settings(tmp_path, LIGHT), now)
    assert store.close(now)
    theirs = files(LIGHT, "consumequeue", "logs-a", "logs-b")
    ours = {str(path.relative_to(tmp_path)): path.read_bytes() for path in tmp_path.glob("consumequeue/*/*/*")}
    assert ours.keys() == {name for name in theirs if name.startswith("consumequeue")}
    for name, data in theirs.items():
        assert (tmp_path / name).read_bytes() == data, name
    [index] = (tmp_path / "index").iterdir()
    assert index.read_bytes() == next(iter(files(LIGHT, "index").values()))


def test_javas_directory_opens_clean_and_stays_as_it_is(tmp_path: Path) -> None:
    restore(LIGHT, tmp_path)
    was = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    now = UNITS[-1].store_timestamp + 1000
    store = open_store(settings(tmp_path, LIGHT), now)
    assert store.report.clean
    assert store.queue_bounds("%LMQ%a", 0) == (0, 10)
    assert in_queue(store, "%LMQ%b") == [b"lit 1", b"lit 2", b"lit 4", b"lit 5"]
    assert in_queue(store, "%LMQ%a")[6:] == [b"slash", b"comma", b"offsets", b"late"]
    assert in_queue(store, "%LMQ%d") == [TWICE]
    assert store.queue_bounds("%LMQ%x/y", 0) == (0, 0)
    assert store.close(now)
    for path, data in was.items():
        if path.name != "checkpoint":
            assert path.read_bytes() == data, path


def offsets(rig: Rig, at: int) -> str | None:
    unit = read_unit(bytes(rig.store.lookup(at) or b""))
    return decode(unit.properties.decode()).get(prop.INNER_MULTI_QUEUE_OFFSET)


def test_counters_go_back_with_what_is_taken_back() -> None:
    rig = Rig(settings=small(**LIGHT_QUEUES_ON))
    rig.put(lit(0, "%LMQ%a,%LMQ%b"))
    mark = rig.store.savepoint()
    rig.store.stage(lit(1, "%LMQ%b,%LMQ%c"), rig.wall_ms)
    rig.store.stage(lit(2, "%LMQ%b"), rig.wall_ms)
    rig.store.rollback_to(mark)
    [placed] = rig.put(lit(3, "%LMQ%c,%LMQ%b,%LMQ%b"))
    assert offsets(rig, placed.physical_offset) == "0,1,1"
    [placed] = rig.put(lit(4, "%LMQ%b"))
    assert offsets(rig, placed.physical_offset) == "2", "a queue named twice takes one unit and counts one"
    assert rig.numbers("%LMQ%b") == [0, 3, 4]
    assert [(a.topic, a.next_queue_offset) for a in rig.arrived] == [("%LMQ%b", 3), ("TopicA", 3)]


@pytest.mark.parametrize("topic", ["SCHEDULE_TOPIC_XXXX", "%RETRY%g", "%DLQ%g", "rmq_sys_x"])
def test_some_topics_take_no_part(topic: str) -> None:
    rig = Rig(settings=small(**LIGHT_QUEUES_ON))
    [placed] = rig.put(lit(0, "%LMQ%a", topic))
    assert offsets(rig, placed.physical_offset) is None
    assert rig.store.queue_bounds("%LMQ%a", 0) == (0, 0)


def test_without_multi_dispatch_offsets_are_only_counted() -> None:
    rig = Rig(settings=small(enable_lmq=True))
    for number in range(3):
        [placed] = rig.put(lit(number, "%LMQ%a"))
        assert offsets(rig, placed.physical_offset) == str(number)
    assert rig.store.queue_bounds("%LMQ%a", 0) == (0, 0)


def test_the_number_of_light_queues_has_a_limit() -> None:
    rig = Rig(settings=small(**LIGHT_QUEUES_ON, max_lmq_consume_queue_num=2))
    rig.put(lit(0, "%LMQ%a,%LMQ%b"))
    with pytest.raises(Illegal) as caught:
        rig.store.stage(lit(1, "%LMQ%b,%LMQ%c"), rig.wall_ms)
    assert caught.value.kind is IllegalKind.LIGHT_QUEUES
    [placed] = rig.put(lit(2, "%LMQ%b"))
    assert offsets(rig, placed.physical_offset) == "1"
    rig.store.delete_topics(["%LMQ%a"])
    rig.put(lit(3, "%LMQ%c"))
    assert rig.numbers("%LMQ%c") == [3]


def counters_and_queues_survive(seed: int) -> None:
    """Whatever a power cut leaves, light queues hold what the log holds, in its order."""
    rng = Random(seed)
    changes = {**LIGHT_QUEUES_ON, "enabled_append_prop_crc": True, "force_verify_prop_crc": seed % 2 == 0}
    rig = Rig(settings=small(**changes, mapped_file_size_commit_log=4096))
    number = 0
    for _ in range(4):
        for _ in range(rng.randrange(25)):
            chosen = [f"%LMQ%{name}" for name in "abcde" if rng.random() < 0.5] or ["%LMQ%a"]
            rig.put(lit(number, ",".join(chosen), queue_id=rng.randrange(2)))
            number += 1
            if rng.random() < 0.1:
                rig.wait(700)
                rig.sync()
        disk = rig.disk
        assert isinstance(disk, MemoryDisk)
        if rng.random() < 0.7:
            rig = Rig(disk=disk.crash(rng), settings=rig.settings, wall_ms=rig.wall_ms)
        else:
            rig.reopen()
        there = sorted([*rig.numbers("TopicA", 0), *rig.numbers("TopicA", 1)])
        for name in "abcde":
            found = rig.numbers(f"%LMQ%{name}")
            assert found == sorted(set(found))
            assert set(found) <= set(there)
        union = sorted({n for name in "abcde" for n in rig.numbers(f"%LMQ%{name}")})
        assert union == there
        number = max(there, default=-1) + 1


def test_counters_and_queues_survive_crashes() -> None:
    each(range(40), counters_and_queues_survive)


def test_forced_verification_ends_the_log_where_topic_or_properties_changed() -> None:
    """No other check sum looks at them: without it the same damage is believed."""
    rig = Rig(settings=small(enabled_append_prop_crc=True))
    placed = [rig.put(draft(number))[0] for number in range(5)]
    assert isinstance(rig.disk, MemoryDisk)
    disk = rig.disk.crash("all")
    at = placed[3].end_offset - 30
    disk.open(f"{rig.settings.commit_log_directories[0]}/{0:020d}").write_at(at, b"?")
    believed = Rig(disk=disk.crash("all"), settings=rig.settings)
    assert believed.numbers() == list(range(5))
    forced = Rig(disk=disk, settings=small(enabled_append_prop_crc=True, force_verify_prop_crc=True))
    assert "forceVerifyPropCRC" in forced.store.report.reason
    assert forced.numbers() == list(range(3))


def test_a_light_queue_that_lost_entries_is_made_again() -> None:
    """The walk begins behind them; it has to go back to the first file."""
    rig = Rig(settings=small(**LIGHT_QUEUES_ON, mapped_file_size_commit_log=4096))
    for number in range(40):
        rig.put(lit(number, "%LMQ%a" if number % 2 else "%LMQ%b"))
    rig.wait(2000)
    rig.sync()
    rig.wait(1000)
    rig.put(lit(40, "%LMQ%a"))
    assert isinstance(rig.disk, MemoryDisk)
    disk = rig.disk.crash("all")
    newest = max(path for path in disk.contents() if "/%LMQ%a/" in path)
    assert newest.endswith(f"{400:020d}")
    disk.unlink(newest)
    disk.unlink(newest.replace("400", "200"))
    after = Rig(disk=disk, settings=rig.settings, wall_ms=rig.wall_ms)
    assert after.store.report.rebuilt
    assert after.numbers("%LMQ%a") == [*range(1, 40, 2), 40]
    assert after.numbers("%LMQ%b") == list(range(0, 40, 2))
    [placed] = after.put(lit(41, "%LMQ%a"))
    assert offsets(after, placed.physical_offset) == "21"


def without_queues(rig: Rig, *more: str) -> Rig:
    """Killed; then its queues went, and these files."""
    assert isinstance(rig.disk, MemoryDisk)
    disk = rig.disk.crash("all")
    for path in list(disk.contents()):
        if "/consumequeue/" in path or path in more:
            disk.unlink(path)
    return Rig(disk=disk, settings=rig.settings, wall_ms=rig.wall_ms)


def test_a_light_queue_that_was_deleted_and_made_again_has_what_came_since() -> None:
    rig = Rig(settings=small(**LIGHT_QUEUES_ON))
    for number in range(25):
        rig.put(lit(number, "%LMQ%a,%LMQ%b"))
    rig.store.delete_topics(["%LMQ%a"])
    for number in range(25, 28):
        rig.put(lit(number, "%LMQ%a,%LMQ%b"))
    assert rig.numbers("%LMQ%a") == [25, 26, 27]
    after = without_queues(rig)
    for _ in "as it is made", "once more":
        assert after.numbers("%LMQ%a") == [25, 26, 27]
        assert after.numbers("%LMQ%b") == after.numbers() == list(range(28))
        assert after.store.report.bridged == 0
        after.reopen()


def test_an_offset_that_was_counted_twice_leaves_no_gap() -> None:
    """Java counts two for a message that names a queue twice."""
    rig = Rig(settings=small(**LIGHT_QUEUES_ON))
    placed = [rig.put(lit(number, "%LMQ%a"))[0] for number in range(5)]
    assert isinstance(rig.disk, MemoryDisk)
    log = rig.disk.open(f"{rig.settings.commit_log_directories[0]}/{0:020d}")
    for number, one in enumerate(placed):
        said = b"INNER_MULTI_QUEUE_OFFSET\x01%d"
        unit = log.read_at(one.physical_offset, one.size)
        log.write_at(one.physical_offset, unit.replace(said % number, said % (number + (number > 2))))
    after = without_queues(rig)
    assert offsets(after, placed[3].physical_offset) == "4"
    assert after.numbers("%LMQ%a") == list(range(5))
    assert after.store.report.bridged == 0


def test_a_light_queue_begins_where_the_log_does() -> None:
    rig = Rig(settings=small(**LIGHT_QUEUES_ON, mapped_file_size_commit_log=4096))
    placed = [rig.put(lit(number, "%LMQ%a"))[0] for number in range(40)]
    after = without_queues(rig, f"{rig.settings.commit_log_directories[0]}/{0:020d}")
    first = next(number for number, one in enumerate(placed) if one.physical_offset >= 4096)
    assert after.store.queue_bounds("%LMQ%a", 0) == (first, 40)
    assert after.numbers("%LMQ%a") == after.numbers() == list(range(first, 40))


def test_a_walk_from_the_checkpoint_goes_on_with_light_queues() -> None:
    rig = Rig(settings=small(**LIGHT_QUEUES_ON))
    for number in range(10):
        rig.put(lit(number, "%LMQ%a"))
    rig.sync_queues()
    rig.wait(1_000)
    for number in range(10, 13):
        rig.put(lit(number, "%LMQ%a"))
    assert isinstance(rig.disk, MemoryDisk)
    rig.disk = rig.disk.crash("all")
    rig.open()
    assert rig.store.report.walked_from > 0
    assert not rig.store.report.rebuilt
    assert rig.numbers("%LMQ%a") == list(range(13))
