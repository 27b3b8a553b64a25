"""Random days of a store whose old files go all the time: kills, cuts, full and failing disks between any two steps, by seed.

The model knows every message and the highest beginning that the log has ever had.  After each start what lies behind that is all
there, each once, at its old offset; what lies before it may be there (a power cut undoes a removal) or not, never anything else.
"""

from __future__ import annotations

import errno
import random
from collections import Counter
from typing import NamedTuple

import pytest

from rmq_store import retention
from rmq_store.disk_space import RetentionRules
from rmq_store.errors import Closed, CommitFailed, StoreDamaged, Unwritable
from rmq_store.flush import Flusher
from rmq_store.results import GetStatus
from rmq_store.retention import Retention
from tests.store.retention_kit import step
from tests.support.memory_disk import Fault, MemoryDisk, Stopped
from tests.support.night_seeds import seeds_of_the_night
from tests.support.planting import FAILURES, Errors, Plant, find_by_seed
from tests.support.store_rig import Rig, draft, number_of, small, units_of

SEEDS = 60
NIGHTLY_SEEDS = 5000
STEPS = 60
GREEDY = RetentionRules(
    file_reserved_time=0, delete_when=frozenset(range(24)), disk_space_warning_level_ratio=None, delete_file_batch_max=2
)
RARE = (
    "a log file went",
    "a queue file went",
    "an index file went",
    "a removal failed",
    "a stop within a look",
    "a kill",
    "a cut",
    "a clean stop",
    "a removal was undone",
    "a commit failed",
)


class Stored(NamedTuple):
    number: int
    queue_id: int
    queue_offset: int
    at: int


class Days:
    """One seed."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.rare: Counter[str] = Counter()
        settings = small(
            mapped_file_size_commit_log=8192, max_index_num=24, max_message_size=2000, mapped_file_size_consume_queue=80
        )
        self.disk = MemoryDisk()
        self.rig = Rig(self.disk, settings)
        self.rig.store.retain_by(GREEDY)
        self.log: list[Stored] = []
        self.beginning = 0
        self.has_gaps = False
        self.number = 0

    def run(self) -> None:
        actions = [self.put] * 6 + [self.sync] * 3 + [self.look] * 8 + [self.wait, self.fault, self.restart, self.crash]
        for _ in range(STEPS):
            self.chance.choice(actions)()
            self.beginning = max(self.beginning, self.rig.store.min_offset)
        self.crash()
        self.restart()

    def put(self) -> None:
        made = [
            draft(self.number + n, queue_id=self.chance.randrange(2), body_bytes=self.chance.choice([50, 400, 900]))
            for n in range(4)
        ]
        self.number += 4
        try:
            placed = self.rig.put(*made)
        except (CommitFailed, Unwritable):
            self.rig.store.rollback_to(0)
            self.rare["a commit failed"] += 1
            return
        self.log += [
            Stored(number_of(one.body), one.queue_id, at.queue_offset, at.physical_offset)
            for one, at in zip(made, placed, strict=True)
        ]

    def sync(self) -> None:
        self.rig.sync()

    def wait(self) -> None:
        self.rig.wait(self.chance.choice([100, 1000, 60_000]))

    def look(self) -> None:
        """Some steps of retention."""
        before = self.files()
        for _ in range(self.chance.randrange(1, 12)):
            try:
                step(self.rig)
            except OSError:
                return
        if self.rig.store.retention._steps is None and self.rig.store.refusal is not Closed.FENCED:
            self.check_minimums()
        gone = before - self.files()
        for part, name in (("/commitlog/", "a log file"), ("/consumequeue/", "a queue file"), ("/index/", "an index file")):
            self.rare[f"{name} went"] += any(part in path for path in gone)

    def check_minimums(self) -> None:
        """After a whole look: no queue begins before the log does."""
        store = self.rig.store
        for queue_id, (low, high) in store.topics().get("TopicA", {}).items():
            assert low == high or store.queue_unit("TopicA", queue_id, low)[0] >= store.min_offset

    def files(self) -> set[str]:
        return set(self.disk.contents())

    def fault(self) -> None:
        operation, error = self.chance.choice(
            [("unlink", errno.EACCES), ("unlink", errno.EACCES), ("write", errno.ENOSPC), ("sync_directory", errno.EIO)]
        )
        self.rare["a removal failed"] += operation == "unlink"
        self.disk.faults.append(Fault(operation, times=self.chance.choice([1, 3]), error=error))

    # --- ends and starts

    def restart(self) -> None:
        self.disk.faults = []
        self.rare["a clean stop"] += self.rig.store.close(self.rig.wall_ms)
        self.start(len(self.log))

    def crash(self) -> None:
        if self.chance.random() < 0.5:
            self.stop_within_a_look()
        flushed = sum(one.at < self.rig.store.flushed_offset for one in self.log)
        self.beginning = max(self.beginning, self.rig.store.min_offset)
        kind = self.chance.choice(["all", "synced", "power"])
        self.rare["a kill" if kind == "all" else "a cut"] += 1
        self.disk.faults = []
        self.disk = self.rig.disk = self.disk.crash(self.chance if kind == "power" else kind)
        self.start(len(self.log) if kind == "all" else flushed)

    def stop_within_a_look(self) -> None:
        self.disk.stop_after(self.chance.randrange(1, 30))
        try:
            for _ in range(20):
                step(self.rig)
        except Stopped:
            self.rare["a stop within a look"] += 1
        except OSError:
            pass
        self.disk.before = None

    def start(self, least: int) -> None:
        """`least` messages must have survived."""
        self.rig.open()
        store = self.rig.store
        self.has_gaps |= bool(store.report.bridged)
        store.retain_by(GREEDY)
        kept = [one for one in self.log if one.at < store.written_offset]
        assert len(kept) >= least
        self.log = kept
        self.rare["a removal was undone"] += store.min_offset < self.beginning
        for queue_id in range(2):
            mine = [one for one in kept if one.queue_id == queue_id]
            low, high = store.queue_bounds("TopicA", queue_id)
            assert low <= high
            if not high:
                assert all(one.at < self.beginning for one in mine)
                continue
            # A queue whose last messages a cut took goes on behind their offsets, when nothing before them is left to say so.
            assert high == mine[-1].queue_offset + 1 or (low == high > mine[-1].queue_offset)
            found = self.rig.numbers(queue_id=queue_id)
            assert len(found) == high - low
            if self.has_gaps:  # an offset without a message leads to the next one
                found = list(dict.fromkeys(found))
            assert found == [one.number for one in mine[-len(found) :]] if found else True
            assert set(found) >= {one.number for one in mine if one.at >= self.beginning}
            if low:
                assert store.read_queue("TopicA", queue_id, 0, 1, 1 << 20).status is GetStatus.OFFSET_TOO_SMALL
        for one in kept[-3:]:
            hits = store.query("TopicA", f"key{one.number}", 10, 0, 1 << 60).units
            found = [number_of(unit.body) for unit in units_of(hits)]
            assert found == [one.number] or (one.at < self.beginning and not found)


def live(seeds: range) -> Counter[str]:
    rare: Counter[str] = Counter()
    for seed in seeds:
        days = Days(seed)
        try:
            days.run()
        except BaseException as reason:
            reason.add_note(f"seed {seed}: from tests.store.test_retention_days import Days; Days({seed}).run()")
            raise
        rare += days.rare
    return rare


def test_a_day_that_a_night_found() -> None:
    """A cut takes a queue's last message, and its next one has the offset behind that."""
    live(range(28144571, 28144572))


def test_random_days_of_retention() -> None:
    """G1 to G3, G6; S22, S30."""
    rare = live(range(1, 1 + SEEDS))
    assert not [name for name in RARE if not rare[name]], f"a situation that never came up was not tested: {rare}"


@pytest.mark.nightly
def test_many_random_days_of_retention() -> None:
    live(seeds_of_the_night(NIGHTLY_SEEDS))


# --- planted bugs


def minimum_left_stale(patch: pytest.MonkeyPatch) -> None:
    """S22"""
    patch.setattr(retention, "first_kept", lambda queue, log_min: queue.min_offset)


def last_file_deleted(patch: pytest.MonkeyPatch) -> None:
    """S30"""
    patch.setattr(Retention, "_oldest", lambda self: self._log.segments.starts[0] if self._log.segments.starts else None)


def queue_files_one_too_many(patch: pytest.MonkeyPatch) -> None:
    forget = Retention._forget

    def planted(self: Retention, segments: object, start: int) -> str:
        if "/consumequeue/" in segments.directory and len(segments.starts) > 1:  # type: ignore[attr-defined]
            start = segments.starts[-1]  # type: ignore[attr-defined]
        return forget(self, segments, start)  # type: ignore[arg-type]

    patch.setattr(Retention, "_forget", planted)


def goes_on_behind_a_failure(patch: pytest.MonkeyPatch) -> None:
    """A file that could not be removed, and then a gap."""
    run = retention.Removal.run

    def planted(self: retention.Removal) -> None:
        run(self)
        self.failed = []

    patch.setattr(retention.Removal, "run", planted)


def queues_on_the_medium_or_not(patch: pytest.MonkeyPatch) -> None:
    """The log goes before the queue entries are safe: after a cut, offsets would be given twice."""
    patch.setattr(Flusher, "has_safe_queues", lambda self, end: True)


SEEDS_OF_BUGS: dict[Plant, tuple[int, Errors]] = {
    last_file_deleted: (1, (*FAILURES, StoreDamaged)),
    queue_files_one_too_many: (1, (*FAILURES, FileNotFoundError)),
    minimum_left_stale: (1, FAILURES),
    goes_on_behind_a_failure: (2, StoreDamaged),
    queues_on_the_medium_or_not: (4, FAILURES),
}
"""Bug: the first seed that finds it, and by what."""
SEARCH_MAX = 300


def run_days(seed: int) -> None:
    Days(seed).run()


@pytest.mark.parametrize("plant", SEEDS_OF_BUGS, ids=lambda plant: plant.__name__)
def test_planted_bugs_are_found(plant: Plant) -> None:
    seed, by = SEEDS_OF_BUGS[plant]
    find_by_seed(plant, run_days, [seed], by)


@pytest.mark.nightly
@pytest.mark.parametrize("plant", SEEDS_OF_BUGS, ids=lambda plant: plant.__name__)
def test_the_pinned_seed_is_the_first(plant: Plant) -> None:
    seed, by = SEEDS_OF_BUGS[plant]
    assert find_by_seed(plant, run_days, range(1, SEARCH_MAX), by) == seed
