"""What an unclean stop leaves of the index, mended from the entries themselves.

Entries are only ever appended, so what was lost shows as the first entry that cannot follow the ones before: its position goes
back, or its link is not what its slot held.  Everything from there on goes, with whatever there is of the message it stops in;
so does what belongs behind the log's end.  Slots are filled anew and headers computed.
(Java deletes every file newer than the checkpoint and loses the keys of older messages in it.)
After a clean stop only the headers are looked at, and the log where one file ends and the next begins: whether a file is missing.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final, NamedTuple

from rmq_store.index.index import Index
from rmq_store.index.index_file import ENTRY_BYTES, IndexFile
from rmq_store.layouts import INDEX_ENTRY
from rmq_store.recovery.boot_mark import Cache
from rmq_store.recovery.queue_repair import write_again, zero_from

SCAN_ENTRIES: Final = 16_384
SECTOR_BYTES: Final = 512
"""What a disk writes whole or not at all."""
WHOLE_AT_MAX: Final = SECTOR_BYTES - ENTRY_BYTES
"""An entry that begins farther within a sector goes over its edge."""
NOWHERE: Final = -1


class Implied(NamedTuple):
    """What a unit means for the index."""

    store_timestamp: int
    hashes: tuple[int, ...]
    """of its entries, in their order"""


class AboutLog(NamedTuple):
    """What mending has to ask about the log."""

    min_offset: int
    entries_of: Callable[[int], Implied | None]
    """what the unit that begins here has in the index; None when no unit does"""
    next_indexed: Callable[[int, int], int]
    """position of the first unit with an index entry, walking from the unit at the first number, behind the second number"""
    has_keyed: Callable[[int, int, int], bool]
    """whether a unit with a unique key or keys begins behind the second number and before the third, walking as above"""


class _Ended(Enum):
    """Why reading a file's entries stopped."""

    CUT = "an entry belongs behind the log's end"
    FULL = "no more room"
    LOST = "the next entry cannot be one"


def mend(index: Index, first: int, end: int, log: AboutLog, cache: Cache) -> int:
    """Mend the files that may be incomplete and drop what belongs to log positions from the log's `end` on.

    `first`: so many of the oldest are known to be complete (`count_safe`). `cache`: when nothing that was written is lost, no
    entry is half written. Returns the log position from which messages have to be
    indexed again, NOWHERE when nothing is left. Raises OSError.
    """
    ended = _Ended.LOST
    for number, file in enumerate(index.files[first:], first):
        if cache is Cache.UNKNOWN:
            write_again(file.file)
        ended = _rebuild(file, end, log, are_entries_whole=cache is Cache.WHOLE)
        keep = number + 1
        has_entries = ended is _Ended.CUT or file.count > 1
        if has_entries and not _follows(index, number, end, log):
            ended, keep = _Ended.LOST, number
        if ended is not _Ended.FULL or keep == number:
            for later in index.files[keep:]:
                index.remove(later)
            break
    resume = end if ended is _Ended.CUT else _drop_last_message(index, log, cache)
    _finish(index, log)
    return resume if index.files else NOWHERE


def count_safe(index: Index, safe_timestamp: int, end: int, log: AboutLog) -> int:
    """How many of the oldest files are complete on disk, end before the log does and lack none before them; never the newest one.

    `safe_timestamp`: full files that end before it are known to be complete on disk (several may end at it).
    """
    first = 0
    while (
        first < len(index.files) - 1
        and _is_safe(index.files[first], safe_timestamp, end)
        and not _is_behind_hole(index, first, log)
    ):
        first += 1
    return first


def cut_at_hole(index: Index, log: AboutLog) -> int | None:
    """After a clean stop: if a file is missing before, between or behind others, drop what follows the hole.

    Returns the log position from which messages have to be indexed again (NOWHERE: all of them), None when no file is missing.
    Raises OSError.
    """
    number = next((number for number in range(len(index.files)) if _is_behind_hole(index, number, log)), len(index.files))
    if number == len(index.files) and not _ends_within_message(index, log):
        return None
    for file in index.files[number:]:
        index.remove(file)
    resume = _drop_last_message(index, log, Cache.WHOLE)
    _finish(index, log)
    return resume if index.files else NOWHERE


def _is_behind_hole(index: Index, number: int, log: AboutLog) -> bool:
    """Whether the log has messages with keys before this file's first, and behind the last of the file before it.

    Tags alone do not count: brokers before 5.5 have no entries for them.
    """
    file = index.files[number]
    if file.count <= 1:
        return False
    before = index.files[number - 1].end_physical if number else NOWHERE
    if before < log.min_offset:
        return log.has_keyed(log.min_offset, log.min_offset - 1, file.begin_physical)
    return log.has_keyed(before, before, file.begin_physical)


def _ends_within_message(index: Index, log: AboutLog) -> bool:
    """Whether the newest file is full and its last message has more entries, in a file that is gone."""
    newest = index.files[-1]
    implied = log.entries_of(newest.end_physical) if newest.is_full else None
    if implied is None or not implied.hashes:
        return False
    return _entries_before(index, len(index.files), newest.end_physical) % len(implied.hashes) > 0


def _follows(index: Index, number: int, end: int, log: AboutLog) -> bool:
    """Whether no file is missing before this one: its first entry is the one that comes next."""
    first_hash, first, _, _ = index.files[number].read_entry(1)
    if not number:
        if first < log.min_offset:
            return True
        following = log.next_indexed(log.min_offset, log.min_offset - 1)
        return first <= following and _first_hash(log, first) == first_hash  # a file before it may have had its first entries
    before = index.files[number - 1].end_physical
    if before >= log.min_offset:
        implied = log.entries_of(before)
        if implied is None or not implied.hashes:
            return False
        # Java may have put all entries of a message twice.
        place = _entries_before(index, number, before) % len(implied.hashes)
        if first == before:
            return implied.hashes[place] == first_hash
        if place:
            return False  # more of that message was in a file that is gone
    elif first < log.min_offset:
        return True  # the messages of both went with old log files
    following = log.next_indexed(before, before)
    return min(first, following) >= end or (first == following and _first_hash(log, first) == first_hash)


def _first_hash(log: AboutLog, position: int) -> int:
    """Of the unit's first entry; NOWHERE without one."""
    implied = log.entries_of(position)
    return implied.hashes[0] if implied and implied.hashes else NOWHERE


def _entries_before(index: Index, number: int, physical: int) -> int:
    """How many entries of the message at `physical` the files before this one end with."""
    found = 0
    for file in reversed(index.files[:number]):
        place = file.count - 1
        while place and file.read_entry(place)[1] == physical:
            place -= 1
            found += 1
        if place:
            break
    return found


def _is_safe(file: IndexFile, safe_timestamp: int, end: int) -> bool:
    return file.is_full and 0 < file.end_timestamp < safe_timestamp and file.end_physical < end


def _rebuild(file: IndexFile, cut: int, log: AboutLog, *, are_entries_whole: bool) -> _Ended:
    """Fill the slots from the good entries below `cut`."""
    slots = file.blank_slots()
    slot_num = file.slot_num
    number, last_physical, used = 1, 0, 0
    ended = _Ended.FULL
    edges = None if are_entries_whole else _Edges(log)
    while number < file.index_num and ended is _Ended.FULL:
        count = min(SCAN_ENTRIES, file.index_num - number)
        at = file.entry_at(number)
        data = file.file.read_at(at, count * ENTRY_BYTES)
        for key_hash, physical, seconds, previous in INDEX_ENTRY.iter_unpack(data):
            slot = key_hash % slot_num
            if previous != slots[slot] or physical < last_physical or key_hash < 0 or seconds < 0 or not (key_hash or physical):
                ended = _Ended.LOST
                break
            if physical >= cut:
                ended = _Ended.CUT
                break
            if number == 1 and not _begins_at_a_unit(physical, key_hash, log):
                ended = _Ended.LOST
                break
            if edges is not None and not edges.is_whole(at, number, key_hash, physical, seconds):
                ended = _Ended.LOST
                break
            if not previous:
                used += 1
            slots[slot] = number
            last_physical = physical
            number += 1
            at += ENTRY_BYTES
    file.rebuilt(number, used, last_physical)
    return ended


def _begins_at_a_unit(physical: int, key_hash: int, log: AboutLog) -> bool:
    if physical < log.min_offset:
        return True  # its message went with an old log file
    implied = log.entries_of(physical)
    return implied is not None and key_hash in implied.hashes


class _Edges:
    """Whether entries that lie across two sectors are whole: a power cut may have written one of the two."""

    def __init__(self, log: AboutLog) -> None:
        self._log = log
        self._begin = NOWHERE

    def is_whole(self, at: int, number: int, key_hash: int, physical: int, seconds: int) -> bool:
        """The entry at this byte of its file; the first one of a file is asked about first."""
        if at % SECTOR_BYTES <= WHOLE_AT_MAX and number > 1:
            return True
        if physical < self._log.min_offset:
            return True
        implied = self._log.entries_of(physical)
        if implied is None:
            return False
        if number == 1:
            self._begin = implied.store_timestamp
        return _matches(implied, key_hash, seconds, self._begin if number > 1 else NOWHERE)


def _matches(implied: Implied, key_hash: int, seconds: int, begin: int) -> bool:
    """Whether an entry that lies across two sectors is whole: a power cut may have written one of them."""
    if begin >= 0 and seconds != max(implied.store_timestamp - begin, 0) // 1000:
        return False
    return key_hash in implied.hashes


def _drop_last_message(index: Index, log: AboutLog, cache: Cache) -> int:
    """Drop all entries of the newest message, for there may have been more. Returns its log position."""
    physical = NOWHERE
    while index.files:
        file = index.files[-1]
        number = file.count - 1
        if number and physical == NOWHERE:
            physical = file.read_entry(number)[1]
        while number and file.read_entry(number)[1] == physical:
            number -= 1
        if number:
            if not file.has_slots or number < file.count - 1:
                _rebuild(file, physical, log, are_entries_whole=cache is Cache.WHOLE)
            break
        index.remove(file)
    return physical


def _finish(index: Index, log: AboutLog) -> None:
    """No file without an entry; headers computed; zeros behind the last entry."""
    while index.files and index.files[-1].count <= 1:
        index.remove(index.files[-1])
    for file in index.files:
        if file.has_slots:
            first, last = file.read_entry(1)[1], file.read_entry(file.count - 1)[1]
            file.set_bounds(first, _time_of(log, first), last, _time_of(log, last))
    if index.files:
        newest = index.files[-1]
        if not newest.has_slots:
            newest.load_slots()
        zero_from(newest.file, newest.entry_at(newest.count))
        newest.file.sync()  # or the next power cut brings back entries of positions that are written anew from here on
    index.retiring = [file for file in index.files[:-1] if file.has_slots]


def _time_of(log: AboutLog, position: int) -> int:
    implied = log.entries_of(position)
    return NOWHERE if implied is None else implied.store_timestamp
