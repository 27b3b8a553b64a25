"""Planted damage: each kind is found, named, and said to be where it is; nothing else is said of a sound store."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from rmq_wire.layout import checkpoint, consume_queue
from rmq_wire.layout.flat import flat
from rmq_wire.message import pack_unit
from tests.inspect.damaged_store import LOG_FILE_BYTES, QUEUE_FILE_UNITS, Subject, add_config, fill

QUEUE_UNIT = flat(consume_queue.UNIT)
CHECKPOINT = flat(checkpoint.FIELDS)
WHOLE_FILE = -1


class Where(NamedTuple):
    """What must be found: a finding of this kind there, and besides it only kinds that follow from it."""

    code: str
    file: str
    offset: int
    along: frozenset[str] = frozenset()


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("sound")
    fill(root)
    add_config(root)
    return root


@pytest.fixture
def subject(sound: Path, tmp_path: Path) -> Subject:
    shutil.copytree(sound, tmp_path / "store")
    return Subject(tmp_path / "store")


def name(path: Path) -> str:
    return "/".join(path.parts[-2:]) if path.parent.name in ("commitlog", "index", "config") else "/".join(path.parts[-4:])


def test_a_sound_store_is_clean(subject: Subject) -> None:
    report = subject.report()
    assert report.listed() == []
    assert report.notes == []
    assert len(subject.log_files) > 4
    assert len(subject.index_files) > 1
    assert report.messages == 300
    assert report.queue_units == 300
    assert report.queues == 4
    assert report.is_clean


Plant = Callable[[Subject], Where]
PLANTS: list[Plant] = []


def plant(function: Plant) -> Plant:
    PLANTS.append(function)
    return function


def flip(s: Subject, path: Path, at: int, bits: int = 0x40) -> None:
    s.write(path, at, bytes([s.read(path, at, 1)[0] ^ bits]))


LOST = frozenset({"queue-dangling", "index-wrong", "index-missing"})


@plant
def flip_in_a_body(s: Subject) -> Where:
    at, _ = s.units()[5]
    flip(s, s.log_files[1], at + 91)
    return Where("log-body-crc", name(s.log_files[1]), at)


@plant
def wrong_total_size(s: Subject) -> Where:
    at, unit = s.units()[5]
    s.set_head(s.log_files[1], at, "total_size", unit.total_size + 1)
    return Where("log-unit-broken", name(s.log_files[1]), at, LOST)


@plant
def huge_total_size(s: Subject) -> Where:
    at, _ = s.units()[5]
    s.set_head(s.log_files[1], at, "total_size", 0x7FFFFFF0)
    return Where("log-unit-broken", name(s.log_files[1]), at, LOST)


@plant
def wrong_magic(s: Subject) -> Where:
    at, _ = s.units()[0]
    s.set_head(s.log_files[1], at, "magic", 0x12345678)
    return Where("log-unit-broken", name(s.log_files[1]), at, LOST)


@plant
def wrong_own_offset(s: Subject) -> Where:
    at, unit = s.units()[7]
    s.set_head(s.log_files[1], at, "physical_offset", unit.physical_offset + 8)
    return Where("log-own-offset", name(s.log_files[1]), at)


@plant
def queue_offset_skipped(s: Subject) -> Where:
    at, unit = s.units()[7]
    s.set_head(s.log_files[1], at, "queue_offset", unit.queue_offset + 3)
    return Where("log-sequence-gap", name(s.log_files[1]), at, LOST | {"log-sequence-back", "queue-unit-wrong"})


@plant
def zeros_in_the_log(s: Subject) -> Where:
    (begin, _), (end, _) = s.units()[3], s.units()[6]
    s.write(s.log_files[1], begin, bytes(end - begin))
    return Where("log-zeroed", name(s.log_files[1]), begin, LOST)


@plant
def log_file_cut_short(s: Subject) -> Where:
    path, end = s.log_files[1], s.units()[6][0]
    os.truncate(path, end)
    return Where("log-file-size", name(path), WHOLE_FILE, LOST | {"log-sequence-gap", "log-cut"})


@plant
def log_file_without_its_end(s: Subject) -> Where:
    path, end = s.log_files[1], s.units()[6][0]
    s.write(path, end, bytes(LOG_FILE_BYTES - end))
    return Where("log-cut", name(path), end, LOST)


@plant
def log_file_missing(s: Subject) -> Where:
    following = s.log_files[3]
    s.log_files[2].unlink()
    return Where("log-file-missing", name(following), WHOLE_FILE, LOST)


@plant
def log_file_under_a_wrong_name(s: Subject) -> Where:
    last = s.log_files[-1]
    wrong = last.with_name(f"{int(last.name) + LOG_FILE_BYTES:020}")
    last.rename(wrong)
    return Where("log-displaced", name(wrong), 0, frozenset({"log-file-missing", "checkpoint-future"}) | LOST)


@plant
def a_unit_twice(s: Subject) -> Where:
    """The unit before in the place of another one, its own offset put right."""
    (_, first), *_ = s.units()
    same_queue = [(at, u) for at, u in s.units()[1:] if (u.topic, u.queue_id) == (first.topic, first.queue_id)]
    at, second = next((at, unit) for at, unit in same_queue if unit.total_size >= first.total_size)
    body = bytes(first.body) + bytes(second.total_size - first.total_size)
    fields = first._replace(physical_offset=second.physical_offset, body=body)
    s.write(s.log_files[1], at, pack_unit(*fields[3:]))
    return Where("log-sequence-back", name(s.log_files[1]), at, LOST | {"log-sequence-gap", "queue-unit-wrong"})


@plant
def wrong_blank(s: Subject) -> Where:
    at, unit = s.units()[-1]
    at += unit.total_size
    s.set_head(s.log_files[1], at, "total_size", 64)
    return Where("log-blank-size", name(s.log_files[1]), at)


@plant
def torn_tail(s: Subject) -> Where:
    at, unit = s.units(-1)[-1]
    at += unit.total_size
    s.write(s.log_files[-1], at, b"\x00\x00\x00\xa5\xda\xa3\x20\xa7 half a unit")
    return Where("log-torn", name(s.log_files[-1]), at)


@plant
def a_queue_unit_wrong(s: Subject) -> Where:
    path, at = s.queue_file(number=1), 5 * QUEUE_UNIT.size
    s.set_field(path, QUEUE_UNIT, at, "size", 77)
    return Where("queue-unit-wrong", name(path), at, frozenset())


@plant
def queue_units_shifted(s: Subject) -> Where:
    path = s.queue_file(number=1)
    raw = path.read_bytes()
    at = 5 * QUEUE_UNIT.size
    path.write_bytes(raw[:at] + raw[at + QUEUE_UNIT.size :] + raw[-QUEUE_UNIT.size :])
    return Where("queue-shifted", name(path), at, frozenset({"queue-order", "queue-dangling", "queue-unit-wrong"}))


@plant
def wrong_tags_code(s: Subject) -> Where:
    path, at = s.queue_file(number=0), 3 * QUEUE_UNIT.size
    s.set_field(path, QUEUE_UNIT, at, "tags_code", 12345)
    return Where("queue-tags-code", name(path), at)


@plant
def queue_file_cut_short(s: Subject) -> Where:
    path = s.queue_file(number=1)
    os.truncate(path, 7 * QUEUE_UNIT.size)
    return Where("queue-file-size", name(path), WHOLE_FILE, frozenset({"queue-unit-missing", "queue-hole"}))


@plant
def queue_without_its_end(s: Subject) -> Where:
    path = s.queue_file(number=-1)
    s.write(path, 4 * QUEUE_UNIT.size, bytes((QUEUE_FILE_UNITS - 4) * QUEUE_UNIT.size))
    return Where("queue-unit-missing", name(path), 4 * QUEUE_UNIT.size)


@plant
def queue_file_missing(s: Subject) -> Where:
    following = s.queue_file(number=2)
    s.queue_file(number=1).unlink()
    return Where("queue-file-missing", name(following), WHOLE_FILE, frozenset({"queue-unit-missing"}))


@plant
def first_queue_file_missing(s: Subject) -> Where:
    s.queue_file(number=0).unlink()
    at = next(at for at, unit in s.units(0) if (unit.topic, unit.queue_id, unit.queue_offset) == (b"TopicA", 0, 0))
    return Where("queue-unit-missing", name(s.log_files[0]), at)


@plant
def a_queue_missing(s: Subject) -> Where:
    shutil.rmtree(s.path("consumequeue/TopicB"))
    return Where("queue-missing", "consumequeue/TopicB/0", WHOLE_FILE)


@plant
def a_hole_in_a_queue(s: Subject) -> Where:
    path, at = s.queue_file(number=1), 5 * QUEUE_UNIT.size
    s.write(path, at, bytes(2 * QUEUE_UNIT.size))
    return Where("queue-hole", name(path), at, frozenset({"queue-unit-missing"}))


@plant
def a_queue_file_of_zeros(s: Subject) -> Where:
    path = s.queue_file(number=-1)
    new = path.with_name(f"{int(path.name) + QUEUE_FILE_UNITS * QUEUE_UNIT.size:020}")
    new.write_bytes(bytes(QUEUE_FILE_UNITS * QUEUE_UNIT.size))
    s.write(path, 0, path.read_bytes())
    return Where("queue-file-empty", name(new), 0, frozenset({"queue-hole"}))


@plant
def a_queue_unit_past_the_log(s: Subject) -> Where:
    path = s.queue_file(number=-1)
    used = -(-len(path.read_bytes().rstrip(b"\0")) // QUEUE_UNIT.size)
    s.write(path, used * QUEUE_UNIT.size, QUEUE_UNIT.packed.pack(1 << 40, 100, 0))
    return Where("queue-past-log", name(path), used * QUEUE_UNIT.size)


@plant
def a_queue_unit_into_the_midst_of_a_message(s: Subject) -> Where:
    path = s.queue_file(number=-1)
    used = -(-len(path.read_bytes().rstrip(b"\0")) // QUEUE_UNIT.size)
    _, unit = s.units(-1)[-1]
    s.write(path, used * QUEUE_UNIT.size, QUEUE_UNIT.packed.pack(unit.physical_offset + unit.total_size, 100, 0))
    return Where("queue-dangling", name(path), used * QUEUE_UNIT.size)


@plant
def an_index_cycle(s: Subject) -> Where:
    at = s.set_entry(s.index_files[0], 30, "previous", 30)
    return Where("index-cycle", name(s.index_files[0]), at)


@plant
def an_index_chain_broken(s: Subject) -> Where:
    path = s.index_files[0]
    number = next(n for n in range(200, 400) if s.entry(path, n)[3] > 0)
    at = s.set_entry(path, number, "previous", 0)
    return Where("index-chain", name(path), at)


@plant
def an_index_entry_past_the_log(s: Subject) -> Where:
    at = s.set_entry(s.index_files[0], 30, "physical_offset", 1 << 40)
    return Where("index-past-log", name(s.index_files[0]), at, frozenset({"index-missing"}))


@plant
def the_last_index_entry_past_the_log(s: Subject) -> Where:
    path = s.index_files[-1]
    at = s.set_entry(path, s.index_header(path)["index_count"] - 1, "physical_offset", 1 << 40)
    return Where("index-past-log", name(path), at, frozenset({"index-missing", "index-header"}))


@plant
def an_index_entry_of_another_key(s: Subject) -> Where:
    path = s.index_files[0]
    key_hash, offset, *_ = s.entry(path, 30)
    s.set_entry(path, 30, "key_hash", key_hash + 97)  # the same slot
    return Where("index-wrong", name(s.log_files[0]), offset, frozenset({"index-missing"}))


@plant
def a_wrong_time_in_the_index(s: Subject) -> Where:
    path = s.index_files[0]
    s.set_entry(path, 30, "seconds", 4711)
    return Where("index-time", name(s.log_files[0]), s.entry(path, 30)[1])


@plant
def a_wrong_store_time(s: Subject) -> Where:
    at, unit = s.units(0)[9]
    s.write(s.log_files[0], at + 56, (unit.store_timestamp + 3_600_000).to_bytes(8, "big"))
    return Where("index-time", name(s.log_files[0]), at)


@plant
def an_index_entry_before_its_time(s: Subject) -> Where:
    at = s.set_entry(s.index_files[0], 30, "physical_offset", 0)
    return Where("index-order", name(s.index_files[0]), at, frozenset({"index-missing", "index-wrong"}))


@plant
def a_message_without_its_last_index_entry(s: Subject) -> Where:
    """The entry has become one more of the message before."""
    path = s.index_files[0]
    number = next(n for n in range(40, 60) if s.entry(path, n)[1] != s.entry(path, n - 1)[1])
    offset = s.entry(path, number)[1]
    s.set_entry(path, number, "physical_offset", s.entry(path, number - 1)[1])
    file = s.log_files[offset // LOG_FILE_BYTES]
    return Where("index-missing", name(file), offset % LOG_FILE_BYTES, frozenset({"index-wrong"}))


@plant
def an_index_file_cut_short(s: Subject) -> Where:
    path = s.index_files[-1]
    os.truncate(path, 3000)
    return Where(
        "index-file-size", name(path), WHOLE_FILE, frozenset({"index-count", "index-header", "index-slot", "index-missing"})
    )


@plant
def index_files_zeroed(s: Subject) -> Where:
    for path in s.index_files:
        s.write(path, 0, bytes(path.stat().st_size))
    return Where("index-missing", name(s.log_files[0]), 0)


@plant
def index_files_overwritten(s: Subject) -> Where:
    for path in s.index_files:
        s.write(path, 20, b"\x55" * (path.stat().st_size - 20))
    return Where("index-geometry", name(s.index_files[0]), WHOLE_FILE)


@plant
def queue_units_exchanged(s: Subject) -> Where:
    path, at = s.queue_file(number=1), 5 * QUEUE_UNIT.size
    one, other = s.read(path, at, QUEUE_UNIT.size), s.read(path, at + QUEUE_UNIT.size, QUEUE_UNIT.size)
    s.write(path, at, other + one)
    return Where("queue-order", name(path), at + QUEUE_UNIT.size, frozenset({"queue-unit-wrong", "queue-dangling"}))


@plant
def a_wrong_index_slot(s: Subject) -> Where:
    path = s.index_files[0]
    slot = s.entry(path, 399)[0] % 97
    s.write(path, 40 + 4 * slot, (7).to_bytes(4, "big"))
    return Where("index-slot", name(path), 40 + 4 * slot)


@plant
def index_count_too_low(s: Subject) -> Where:
    path = s.index_files[-1]
    s.set_index_header(path, "index_count", s.index_header(path)["index_count"] - 3)
    return Where("index-count", name(path), 36, frozenset({"index-slot", "index-header", "index-missing"}))


@plant
def index_count_too_high(s: Subject) -> Where:
    path = s.index_files[-1]
    s.set_index_header(path, "index_count", s.index_header(path)["index_count"] + 3)
    return Where("index-count", name(path), 36)


@plant
def index_count_absurd(s: Subject) -> Where:
    s.set_index_header(s.index_files[-1], "index_count", -5)
    return Where("index-count", name(s.index_files[-1]), 36, frozenset({"index-slot", "index-header", "index-missing"}))


@plant
def index_bounds_wrong(s: Subject) -> Where:
    s.set_index_header(s.index_files[0], "end_physical_offset", 5)
    return Where("index-header", name(s.index_files[0]), 24)


@plant
def checkpoint_in_the_future(s: Subject) -> Where:
    s.set_field(s.path("checkpoint"), CHECKPOINT, 0, "logics_msg_timestamp", 9_999_999_999_999)
    return Where("checkpoint-future", "checkpoint", 8)


@plant
def checkpoint_negative(s: Subject) -> Where:
    s.set_field(s.path("checkpoint"), CHECKPOINT, 0, "physic_msg_timestamp", -5)
    return Where("checkpoint-wrong", "checkpoint", 0)


@plant
def checkpoint_short(s: Subject) -> Where:
    os.truncate(s.path("checkpoint"), 100)
    return Where("checkpoint-size", "checkpoint", WHOLE_FILE)


@plant
def config_broken(s: Subject) -> Where:
    s.path("config/consumerOffset.json").write_text('{"offsetTable": {')
    return Where("config-broken", "config/consumerOffset.json", WHOLE_FILE)


@plant
def config_broken_with_backup(s: Subject) -> Where:
    s.path("config/topics.json").write_text("[" * 100_000)
    return Where("config-backup", "config/topics.json", WHOLE_FILE)


@plant
def a_stray_file(s: Subject) -> Where:
    s.path("commitlog/core.1234").write_bytes(b"x")
    return Where("stray", "commitlog/core.1234", WHOLE_FILE)


@plant
def a_link(s: Subject) -> Where:
    last = s.log_files[-1]
    (last.parent / f"{int(last.name) + LOG_FILE_BYTES:020}").symlink_to(last)
    return Where("stray", f"commitlog/{int(last.name) + LOG_FILE_BYTES:020}", WHOLE_FILE)


@plant
def a_pipe(s: Subject) -> Where:
    os.mkfifo(s.path("consumequeue/TopicA/0/pipe"))
    return Where("stray", "consumequeue/TopicA/0/pipe", WHOLE_FILE)


@plant
def a_position_behind_the_queues_end(s: Subject) -> Where:
    s.path("config/consumerOffset.json").write_text('{"offsetTable":{"TopicA@G":{0:5,1:70000}, "Gone@G":{0:9}}}')
    return Where("position-ahead", "config/consumerOffset.json", WHOLE_FILE)


@plant
def a_timer_wheel_of_a_wrong_size(s: Subject) -> Where:
    s.path("timerwheel").write_bytes(bytes(100))
    return Where("timer-size", "timerwheel", WHOLE_FILE)


@pytest.mark.parametrize("damage", PLANTS, ids=lambda f: f.__name__)
def test_planted_damage_is_found_and_named(subject: Subject, damage: Plant) -> None:
    where = damage(subject)
    report = subject.report()
    found = [(one.code, one.file, one.offset) for one in report.listed()]
    assert (where.code, where.file, where.offset) in found, found
    others = {code for code, _, _ in found} - {where.code}
    assert others <= where.along, report.listed()
    for one in report.listed():
        assert one.kind.title
        assert one.kind.consequence
        assert one.kind.remedy


def test_every_message_behind_a_lost_index_file_is_counted(subject: Subject) -> None:
    first = min(subject.entry(path, 1)[1] for path in subject.index_files[-2:])
    for path in subject.index_files[-2:]:
        path.unlink()
    report = subject.report()
    assert report.findings.codes() == {"index-missing"}
    behind = sum(unit.physical_offset >= first for number in range(len(subject.log_files)) for _, unit in subject.units(number))
    assert report.findings.total == behind > 1


def test_at_least_twenty_kinds_are_planted() -> None:
    assert len(PLANTS) >= 20
