"""A small life of a store, over and over; each time another call of the disk fails, once or from then on.

What was answered is there after a kill, and what was flushed after a power cut; what was refused is nowhere; reads go on.
"""

from __future__ import annotations

import errno
from collections import Counter
from typing import NamedTuple

import pytest

from rmq_store.disk_space import RetentionRules
from rmq_store.errors import Closed, CommitFailed, StoreRefused, Unwritable
from rmq_store.flush import Ticket
from rmq_store.log.commit_log import CommitLog
from rmq_store.results import IndexType
from rmq_store.settings import FlushDiskType
from rmq_store.store import Store
from tests.support.memory_disk import Fault, MemoryDisk
from tests.support.planting import Plant, find
from tests.support.store_rig import Rig, draft, number_of, small, units_of

FOR_EVER = 1 << 30
PARTS = (0, 100, 1000, 2400)
"""Bytes that a failing write still writes: none, of the first unit, one and two whole units of three."""
KEEP_ALL = RetentionRules(delete_when=frozenset(), disk_space_warning_level_ratio=None)


class Life(NamedTuple):
    """What came of it."""

    rig: Rig
    answered: list[int]
    flushed: list[int]
    """answered, and on the medium"""
    refused: list[int]


def born(disk: MemoryDisk, flush: FlushDiskType) -> Rig:
    return Rig(disk, small(mapped_file_size_commit_log=8192, max_index_num=16, flush_disk_type=flush, max_message_size=2000))


def live(rig: Rig) -> Life:
    """Nine turns of three messages over four log files, a sync after every other turn, time for queues, index and checkpoint."""
    rig.store.retain_by(KEEP_ALL)
    life = Life(rig, [], [], [])
    for turn in range(9):
        numbers = [3 * turn + n for n in range(3)]
        try:
            rig.put(*[draft(number, queue_id=number % 2, body_bytes=700) for number in numbers])
        except (CommitFailed, Unwritable):
            rig.store.rollback_to(0)
            life.refused.extend(numbers)
        else:
            life.answered.extend(numbers)
        if turn % 2:
            rig.sync()
            rig.store.dispatch(rig.wall_ms)
        rig.wait(700)
        if rig.store.refusal is not Closed.FENCED and rig.store.flushed_offset == rig.store.written_offset:
            life.flushed[:] = life.answered
    return life


def calls() -> Counter[str]:
    """How often each operation is called in that life, from its first message on."""
    disk = MemoryDisk()
    found: Counter[str] = Counter()

    def count(operation: str, _path: str) -> None:
        found[operation] += 1

    disk.before = count
    live(born(disk, FlushDiskType.ASYNC_FLUSH))
    return found


CALLS = calls()


def numbers_of(rig: Rig) -> list[int]:
    return sorted(rig.numbers(queue_id=0) + rig.numbers(queue_id=1))


def look(after: MemoryDisk, life: Life, must: list[int]) -> None:
    """A start on what is left."""
    rig = Rig(after, life.rig.settings)
    found = numbers_of(rig)
    assert set(must) <= set(found), "answered, and gone"
    assert not set(life.refused) & set(found), "refused, and there"
    assert found == sorted(life.answered)[: len(found)], "a prefix, each once"
    offsets = sum(high - low for low, high in (rig.store.queue_bounds("TopicA", queue_id) for queue_id in (0, 1)))
    assert offsets == len(found), "an offset for each, and no other"
    for number in found[-3:]:
        hits = rig.store.query("TopicA", f"key{number}", 10, 0, 1 << 60, IndexType.KEY).units
        assert [number_of(unit.body) for unit in units_of(hits)] == [number]
    rig.put(draft(1000))


@pytest.mark.parametrize("flush", list(FlushDiskType))
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("times", [1, FOR_EVER])
@pytest.mark.parametrize("operation", ["write", "create", "sync", "sync_directory", "unlink", "mkdir", "open"])
def test_every_call_fails_once_or_for_ever(operation: str, times: int, error: int, flush: FlushDiskType) -> None:
    """G1, G2, G3 (S6, S7, S9, S10): by the fault's number the sentence of pytest names the life that broke."""
    opened = 0
    for first in range(1, CALLS[operation] + 1):
        disk = MemoryDisk()
        disk.faults = [Fault(operation, first=first, times=times, error=error, partial=PARTS[first % len(PARTS)])]
        try:
            rig = born(disk, flush)
        except (OSError, StoreRefused):
            continue
        life = live(rig)
        opened += 1
        disk.faults = []
        for number in numbers_of(life.rig):
            assert number in life.answered, "seen, and never answered"
        where = f"call {first} of {operation}"
        try:
            look(disk.crash("all"), life, life.answered)
            look(disk.crash("synced"), life, life.flushed)
        except AssertionError as reason:
            reason.add_note(where)
            raise
    assert opened or not CALLS[operation] or operation == "mkdir"


def test_every_operation_was_called() -> None:
    assert min(CALLS[operation] for operation in ("write", "create", "sync", "sync_directory", "open")) > 3, CALLS


# --- planted bugs


def sync_tried_again(patch: pytest.MonkeyPatch) -> None:
    """S6"""

    def forgiving(self: Store, ticket: Ticket, error: OSError | None) -> None:
        if error is None:
            self._flusher.end(ticket)
        else:
            self._flusher.is_out = False

    patch.setattr(Store, "end_sync", forgiving)


def flushed_in_spite_of_the_error(patch: pytest.MonkeyPatch) -> None:
    """S7"""
    patch.setattr(Store, "end_sync", lambda self, ticket, error: self._flusher.end(ticket))


def directories_left_out(patch: pytest.MonkeyPatch) -> None:
    """S5"""
    run = Ticket.run

    def files_only(self: Ticket) -> None:
        self._directories.clear()
        run(self)

    patch.setattr(Ticket, "run", files_only)


def offsets_kept(patch: pytest.MonkeyPatch) -> None:
    """S9"""
    rollback = CommitLog.rollback_to

    def planted(self: CommitLog, savepoint: int) -> None:
        kept = [(staged.queue, staged.queue.next_offset) for staged in self.staged[savepoint:]]
        rollback(self, savepoint)
        for queue, offset in kept:
            queue.next_offset = offset

    patch.setattr(CommitLog, "rollback_to", planted)


def refused_bytes_left(patch: pytest.MonkeyPatch) -> None:
    """What a failed turn has written stays, and the next start takes it for messages."""
    patch.setattr(CommitLog, "_zero", lambda self, at, size: True)


@pytest.mark.parametrize(
    ("plant", "operation", "error"),
    [
        (sync_tried_again, "sync", errno.EIO),
        (flushed_in_spite_of_the_error, "sync", errno.EIO),
        (directories_left_out, "sync", errno.EIO),
        (offsets_kept, "write", errno.ENOSPC),
        (refused_bytes_left, "write", errno.ENOSPC),
    ],
)
def test_planted_bugs_are_found(plant: Plant, operation: str, error: int) -> None:
    find(plant, test_every_call_fails_once_or_for_ever, operation, 1, error, FlushDiskType.SYNC_FLUSH)
