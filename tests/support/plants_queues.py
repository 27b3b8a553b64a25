"""Damage of consume queues."""

from __future__ import annotations

import os
import shutil

from tests.support.damaged_store import QUEUE_FILE_UNITS, Subject
from tests.support.plants import QUEUE_UNIT, WHOLE_FILE, Plants, Where, name

PLANTS = Plants()


@PLANTS.add
def a_queue_unit_wrong(s: Subject) -> Where:
    path, at = s.queue_file(number=1), 5 * QUEUE_UNIT.size
    s.set_field(path, QUEUE_UNIT, at, "size", 77)
    return Where("queue-unit-wrong", name(path), at, frozenset())


@PLANTS.add
def queue_units_shifted(s: Subject) -> Where:
    path = s.queue_file(number=1)
    raw = path.read_bytes()
    at = 5 * QUEUE_UNIT.size
    path.write_bytes(raw[:at] + raw[at + QUEUE_UNIT.size :] + raw[-QUEUE_UNIT.size :])
    return Where("queue-shifted", name(path), at, frozenset({"queue-order", "queue-dangling", "queue-unit-wrong"}))


@PLANTS.add
def wrong_tags_code(s: Subject) -> Where:
    path, at = s.queue_file(number=0), 3 * QUEUE_UNIT.size
    s.set_field(path, QUEUE_UNIT, at, "tags_code", 12345)
    return Where("queue-tags-code", name(path), at)


@PLANTS.add
def queue_file_cut_short(s: Subject) -> Where:
    path = s.queue_file(number=1)
    os.truncate(path, 7 * QUEUE_UNIT.size)
    return Where("queue-file-size", name(path), WHOLE_FILE, frozenset({"queue-unit-missing", "queue-hole"}))


@PLANTS.add
def queue_without_its_end(s: Subject) -> Where:
    path = s.queue_file(number=-1)
    s.write(path, 4 * QUEUE_UNIT.size, bytes((QUEUE_FILE_UNITS - 4) * QUEUE_UNIT.size))
    return Where("queue-unit-missing", name(path), 4 * QUEUE_UNIT.size)


@PLANTS.add
def queue_file_missing(s: Subject) -> Where:
    following = s.queue_file(number=2)
    s.queue_file(number=1).unlink()
    return Where("queue-file-missing", name(following), WHOLE_FILE, frozenset({"queue-unit-missing"}))


@PLANTS.add
def first_queue_file_missing(s: Subject) -> Where:
    s.queue_file(number=0).unlink()
    at = next(at for at, unit in s.units(0) if (unit.topic, unit.queue_id, unit.queue_offset) == (b"TopicA", 0, 0))
    return Where("queue-unit-missing", name(s.log_files[0]), at)


@PLANTS.add
def a_queue_missing(s: Subject) -> Where:
    shutil.rmtree(s.path("consumequeue/TopicB"))
    return Where("queue-missing", "consumequeue/TopicB/0", WHOLE_FILE)


@PLANTS.add
def a_hole_in_a_queue(s: Subject) -> Where:
    path, at = s.queue_file(number=1), 5 * QUEUE_UNIT.size
    s.write(path, at, bytes(2 * QUEUE_UNIT.size))
    return Where("queue-hole", name(path), at, frozenset({"queue-unit-missing"}))


@PLANTS.add
def a_queue_file_of_zeros(s: Subject) -> Where:
    path = s.queue_file(number=-1)
    new = path.with_name(f"{int(path.name) + QUEUE_FILE_UNITS * QUEUE_UNIT.size:020}")
    new.write_bytes(bytes(QUEUE_FILE_UNITS * QUEUE_UNIT.size))
    s.write(path, 0, path.read_bytes())
    return Where("queue-file-empty", name(new), 0, frozenset({"queue-hole"}))


@PLANTS.add
def a_queue_unit_past_the_log(s: Subject) -> Where:
    path = s.queue_file(number=-1)
    used = -(-len(path.read_bytes().rstrip(b"\0")) // QUEUE_UNIT.size)
    s.write(path, used * QUEUE_UNIT.size, QUEUE_UNIT.packed.pack(1 << 40, 100, 0))
    return Where("queue-past-log", name(path), used * QUEUE_UNIT.size)


@PLANTS.add
def a_queue_unit_into_the_midst_of_a_message(s: Subject) -> Where:
    path = s.queue_file(number=-1)
    used = -(-len(path.read_bytes().rstrip(b"\0")) // QUEUE_UNIT.size)
    _, unit = s.units(-1)[-1]
    s.write(path, used * QUEUE_UNIT.size, QUEUE_UNIT.packed.pack(unit.physical_offset + unit.total_size, 100, 0))
    return Where("queue-dangling", name(path), used * QUEUE_UNIT.size)


@PLANTS.add
def queue_units_exchanged(s: Subject) -> Where:
    path, at = s.queue_file(number=1), 5 * QUEUE_UNIT.size
    one, other = s.read(path, at, QUEUE_UNIT.size), s.read(path, at + QUEUE_UNIT.size, QUEUE_UNIT.size)
    s.write(path, at, other + one)
    return Where("queue-order", name(path), at + QUEUE_UNIT.size, frozenset({"queue-unit-wrong", "queue-dangling"}))
