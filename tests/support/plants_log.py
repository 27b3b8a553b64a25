"""Damage of the commit log."""

from __future__ import annotations

import os

from rmq_wire.message import pack_unit
from tests.support.damaged_store import LOG_FILE_BYTES, Subject
from tests.support.plants import LOST, WHOLE_FILE, Plants, Where, flip, name

PLANTS = Plants()


@PLANTS.add
def flip_in_a_body(s: Subject) -> Where:
    at, _ = s.units()[5]
    flip(s, s.log_files[1], at + 91)
    return Where("log-body-crc", name(s.log_files[1]), at)


@PLANTS.add
def wrong_total_size(s: Subject) -> Where:
    at, unit = s.units()[5]
    s.set_head(s.log_files[1], at, "total_size", unit.total_size + 1)
    return Where("log-unit-broken", name(s.log_files[1]), at, LOST)


@PLANTS.add
def huge_total_size(s: Subject) -> Where:
    at, _ = s.units()[5]
    s.set_head(s.log_files[1], at, "total_size", 0x7FFFFFF0)
    return Where("log-unit-broken", name(s.log_files[1]), at, LOST)


@PLANTS.add
def wrong_magic(s: Subject) -> Where:
    at, _ = s.units()[0]
    s.set_head(s.log_files[1], at, "magic", 0x12345678)
    return Where("log-unit-broken", name(s.log_files[1]), at, LOST)


@PLANTS.add
def wrong_own_offset(s: Subject) -> Where:
    at, unit = s.units()[7]
    s.set_head(s.log_files[1], at, "physical_offset", unit.physical_offset + 8)
    return Where("log-own-offset", name(s.log_files[1]), at)


@PLANTS.add
def queue_offset_skipped(s: Subject) -> Where:
    at, unit = s.units()[7]
    s.set_head(s.log_files[1], at, "queue_offset", unit.queue_offset + 3)
    return Where("log-sequence-gap", name(s.log_files[1]), at, LOST | {"log-sequence-back", "queue-unit-wrong"})


@PLANTS.add
def zeros_in_the_log(s: Subject) -> Where:
    (begin, _), (end, _) = s.units()[3], s.units()[6]
    s.write(s.log_files[1], begin, bytes(end - begin))
    return Where("log-zeroed", name(s.log_files[1]), begin, LOST)


@PLANTS.add
def log_file_cut_short(s: Subject) -> Where:
    path, end = s.log_files[1], s.units()[6][0]
    os.truncate(path, end)
    return Where("log-file-size", name(path), WHOLE_FILE, LOST | {"log-sequence-gap", "log-cut"})


@PLANTS.add
def log_file_without_its_end(s: Subject) -> Where:
    path, end = s.log_files[1], s.units()[6][0]
    s.write(path, end, bytes(LOG_FILE_BYTES - end))
    return Where("log-cut", name(path), end, LOST)


@PLANTS.add
def log_file_missing(s: Subject) -> Where:
    following = s.log_files[3]
    s.log_files[2].unlink()
    return Where("log-file-missing", name(following), WHOLE_FILE, LOST)


@PLANTS.add
def log_file_under_a_wrong_name(s: Subject) -> Where:
    last = s.log_files[-1]
    wrong = last.with_name(f"{int(last.name) + LOG_FILE_BYTES:020}")
    last.rename(wrong)
    return Where("log-displaced", name(wrong), 0, frozenset({"log-file-missing", "checkpoint-future"}) | LOST)


@PLANTS.add
def a_unit_twice(s: Subject) -> Where:
    """The unit before in the place of another one, its own offset put right."""
    (_, first), *_ = s.units()
    same_queue = [(at, u) for at, u in s.units()[1:] if (u.topic, u.queue_id) == (first.topic, first.queue_id)]
    at, second = next((at, unit) for at, unit in same_queue if unit.total_size >= first.total_size)
    body = bytes(first.body) + bytes(second.total_size - first.total_size)
    fields = first._replace(physical_offset=second.physical_offset, body=body)
    s.write(s.log_files[1], at, pack_unit(*fields[3:]))
    return Where("log-sequence-back", name(s.log_files[1]), at, LOST | {"log-sequence-gap", "queue-unit-wrong"})


@PLANTS.add
def wrong_blank(s: Subject) -> Where:
    at, unit = s.units()[-1]
    at += unit.total_size
    s.set_head(s.log_files[1], at, "total_size", 64)
    return Where("log-blank-size", name(s.log_files[1]), at)


@PLANTS.add
def torn_tail(s: Subject) -> Where:
    at, unit = s.units(-1)[-1]
    at += unit.total_size
    s.write(s.log_files[-1], at, b"\x00\x00\x00\xa5\xda\xa3\x20\xa7 half a unit")
    return Where("log-torn", name(s.log_files[-1]), at)


@PLANTS.add
def a_log_of_which_the_prepared_file_is_left(s: Subject) -> Where:
    """A broker has made it before it was needed: nothing else is wrong in what is left."""
    following = s.log_files[-1].with_name(f"{int(s.log_files[-1].name) + LOG_FILE_BYTES:020}")
    for path in s.log_files:
        path.unlink()
    following.write_bytes(bytes(LOG_FILE_BYTES))
    return Where("log-emptied", name(following), WHOLE_FILE)


@PLANTS.add
def a_log_of_zeros(s: Subject) -> Where:
    for path in s.log_files:
        path.write_bytes(bytes(LOG_FILE_BYTES))
    return Where(
        "log-lost", name(s.log_files[0]), WHOLE_FILE, frozenset({"queue-dangling", "index-past-log", "checkpoint-future"})
    )


@PLANTS.add
def a_log_cut_to_nothing(s: Subject) -> Where:
    for path in s.log_files[1:]:
        path.unlink()
    os.truncate(s.log_files[0], 0)
    return Where(
        "log-lost", name(s.log_files[0]), WHOLE_FILE, frozenset({"queue-past-log", "index-past-log", "checkpoint-future"})
    )
