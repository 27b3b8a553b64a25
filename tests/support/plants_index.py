"""Damage of the index."""

from __future__ import annotations

import os

from tests.support.damaged_store import LOG_FILE_BYTES, Subject
from tests.support.plants import WHOLE_FILE, Plants, Where, name

PLANTS = Plants()


@PLANTS.add
def an_index_cycle(s: Subject) -> Where:
    at = s.set_entry(s.index_files[0], 30, "previous", 30)
    return Where("index-cycle", name(s.index_files[0]), at)


@PLANTS.add
def an_index_chain_broken(s: Subject) -> Where:
    path = s.index_files[0]
    number = next(n for n in range(200, 400) if s.entry(path, n)[3] > 0)
    at = s.set_entry(path, number, "previous", 0)
    return Where("index-chain", name(path), at)


@PLANTS.add
def an_index_entry_past_the_log(s: Subject) -> Where:
    at = s.set_entry(s.index_files[0], 30, "physical_offset", 1 << 40)
    return Where("index-past-log", name(s.index_files[0]), at, frozenset({"index-missing"}))


@PLANTS.add
def the_last_index_entry_past_the_log(s: Subject) -> Where:
    path = s.index_files[-1]
    at = s.set_entry(path, s.index_header(path)["index_count"] - 1, "physical_offset", 1 << 40)
    return Where("index-past-log", name(path), at, frozenset({"index-missing", "index-header"}))


@PLANTS.add
def an_index_entry_of_another_key(s: Subject) -> Where:
    path = s.index_files[0]
    key_hash, offset, *_ = s.entry(path, 30)
    s.set_entry(path, 30, "key_hash", key_hash + 97)  # the same slot
    return Where("index-wrong", name(s.log_files[0]), offset, frozenset({"index-missing"}))


@PLANTS.add
def a_wrong_time_in_the_index(s: Subject) -> Where:
    path = s.index_files[0]
    s.set_entry(path, 30, "seconds", 4711)
    return Where("index-time", name(s.log_files[0]), s.entry(path, 30)[1])


@PLANTS.add
def a_wrong_store_time(s: Subject) -> Where:
    at, unit = s.units(0)[9]
    s.write(s.log_files[0], at + 56, (unit.store_timestamp + 3_600_000).to_bytes(8, "big"))
    return Where("index-time", name(s.log_files[0]), at)


@PLANTS.add
def an_index_entry_before_its_time(s: Subject) -> Where:
    at = s.set_entry(s.index_files[0], 30, "physical_offset", 0)
    return Where("index-order", name(s.index_files[0]), at, frozenset({"index-missing", "index-wrong"}))


@PLANTS.add
def a_message_without_its_last_index_entry(s: Subject) -> Where:
    """The entry has become one more of the message before."""
    path = s.index_files[0]
    number = next(n for n in range(40, 60) if s.entry(path, n)[1] != s.entry(path, n - 1)[1])
    offset = s.entry(path, number)[1]
    s.set_entry(path, number, "physical_offset", s.entry(path, number - 1)[1])
    file = s.log_files[offset // LOG_FILE_BYTES]
    return Where("index-missing", name(file), offset % LOG_FILE_BYTES, frozenset({"index-wrong"}))


@PLANTS.add
def an_index_file_cut_short(s: Subject) -> Where:
    path = s.index_files[-1]
    os.truncate(path, 3000)
    return Where(
        "index-file-size", name(path), WHOLE_FILE, frozenset({"index-count", "index-header", "index-slot", "index-missing"})
    )


@PLANTS.add
def index_files_zeroed(s: Subject) -> Where:
    for path in s.index_files:
        s.write(path, 0, bytes(path.stat().st_size))
    return Where("index-missing", name(s.log_files[0]), 0)


@PLANTS.add
def index_files_overwritten(s: Subject) -> Where:
    for path in s.index_files:
        s.write(path, 20, b"\x55" * (path.stat().st_size - 20))
    return Where("index-geometry", name(s.index_files[0]), WHOLE_FILE)


@PLANTS.add
def a_wrong_index_slot(s: Subject) -> Where:
    path = s.index_files[0]
    slot = s.entry(path, 399)[0] % 97
    s.write(path, 40 + 4 * slot, (7).to_bytes(4, "big"))
    return Where("index-slot", name(path), 40 + 4 * slot)


@PLANTS.add
def index_count_too_low(s: Subject) -> Where:
    path = s.index_files[-1]
    s.set_index_header(path, "index_count", s.index_header(path)["index_count"] - 3)
    return Where("index-count", name(path), 36, frozenset({"index-slot", "index-header", "index-missing"}))


@PLANTS.add
def index_count_too_high(s: Subject) -> Where:
    path = s.index_files[-1]
    s.set_index_header(path, "index_count", s.index_header(path)["index_count"] + 3)
    return Where("index-count", name(path), 36)


@PLANTS.add
def index_count_absurd(s: Subject) -> Where:
    s.set_index_header(s.index_files[-1], "index_count", -5)
    return Where("index-count", name(s.index_files[-1]), 36, frozenset({"index-slot", "index-header", "index-missing"}))


@PLANTS.add
def index_bounds_wrong(s: Subject) -> Where:
    s.set_index_header(s.index_files[0], "end_physical_offset", 5)
    return Where("index-header", name(s.index_files[0]), 24)
