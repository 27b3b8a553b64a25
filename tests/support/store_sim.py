"""A store that lives through random days: turns, syncs, refusals, stops and crashes by seed, beside a model that knows the truth.

The model is given what was staged, what was answered and what consumers saw; after each start it demands
- G1/G2: the log is a prefix of what was committed; nothing answered is missing, nothing refused is there;
- G3: queues and index are what that prefix makes;
- whatever a consumer saw under SYNC_FLUSH is still there.
Old log files go, and may come back when the power is cut before their directory is synced.
What became of a turn is open when the process ended within its commit, or when the commit failed and the store gave itself up:
then a prefix of it may be there.  A deleted topic stays deleted or comes back as it was, until it has a new message.
`rare` counts situations; `store_seeds` runs many seeds and demands that each situation came up.
"""

from __future__ import annotations

import errno
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from rmq_store.disk_space import RetentionRules
from rmq_store.errors import Closed, CommitFailed, Unwritable
from rmq_store.log.draft import Draft, Placed
from rmq_store.recovery import boot_mark
from rmq_store.settings import FlushDiskType
from rmq_wire.message import read_unit, unit_size
from tests.support.index_model import IndexModel
from tests.support.memory_disk import Fault, MemoryDisk, Stopped
from tests.support.store_rig import ROOT, Rig, Stored, draft, number_of, small, stage_batch

TOPICS = ("TopicA", "B")
QUEUES = 2
STEPS = 30
NESTED_MAX = 3
"""Crashes while starting, one in the other."""
ALWAYS_LOOKED_AT = 12
"""Newest messages that are looked up one by one after each start; of older ones some."""
USER_PROPERTY_BYTES = (5, 700, 1300)
"""Some go over a sector."""
SMALL_FILE_BYTES = 4096
RULES = RetentionRules(file_reserved_time=0, disk_space_warning_level_ratio=None)
RETENTION_LOOK_MS = 75_000
BIG_BODY_BYTES = 6000
"""Over a page of the disk."""


def size_of(one: Draft) -> int:
    """Of the unit that it becomes."""
    return unit_size(sys_flag=0, body_size=len(one.body), topic_size=len(one.topic), properties_size=len(one.properties))


class Sim:
    """One seed. `run` raises AssertionError when a promise is broken."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.rare: Counter[str] = Counter()
        self.is_sync = self.chance.random() < 0.5
        self.is_big = self.chance.random() < 0.15
        settings = small(
            mapped_file_size_commit_log=65536 if self.is_big else self.chance.choice([SMALL_FILE_BYTES, 8192, 16384]),
            max_message_size=BIG_BODY_BYTES if self.is_big else 1200,
            flush_disk_type=FlushDiskType.SYNC_FLUSH if self.is_sync else FlushDiskType.ASYNC_FLUSH,
            message_index_enable=self.chance.random() < 0.8,
        )
        self.sizes = [10, 200, 3000, BIG_BODY_BYTES] if self.is_big else [10, 50, 200, 700, 1150]
        self.disk = MemoryDisk()
        self.rig = Rig(self.disk, settings)
        self.log: list[Stored] = []
        self.open: list[Stored] = []
        """of the last turn, when its end is not known"""
        self.queues: dict[tuple[str, int], list[Stored]] = {(topic, n): [] for topic in TOPICS for n in range(QUEUES)}
        """what each queue has, the first of them at `first`"""
        self.first = dict.fromkeys(self.queues, 0)
        self.ghosts: dict[tuple[str, int], list[list[Stored]]] = {key: [] for key in self.queues}
        """what a queue had when its topic was deleted, each time"""
        self.before: dict[tuple[str, int], list[Stored]] = {key: [] for key in self.queues}
        """the beginning of a queue that came back without it"""
        self.deleted_at = dict.fromkeys(self.queues, 0)
        """number of the newest message when a queue was deleted last"""
        self.seen = dict.fromkeys(self.queues, 0)
        self.endless: set[tuple[str, int]] = set()
        """queues that lost all their messages to a cut, and have none yet"""
        self.retains = self.chance.random() < 0.4
        """Old files go in this life; else topics are deleted."""
        self.removed: list[Stored] = []
        """messages whose log files are gone"""
        self.number = 0
        self.batches = 0
        self.sync_failed = False
        """in the life of this process"""

    def run(self, steps: int = STEPS) -> None:
        actions: list[Callable[[], None]] = (
            [self.turn] * 10 + [self.sync] * 3 + [self.wait] * 2 + [self.full_disk] + [self.broken_disk, self.restart, self.crash]
        )
        for _ in range(steps):
            roll = self.chance.random()
            if roll < 0.02:
                self.retain() if self.retains else self.delete_topic()
            elif roll < 0.03 and self.retains:
                self.crash_within_retention()
            elif roll < 0.06:
                self.crash_within()
            else:
                self.chance.choice(actions)()
        self.crash()
        self.restart()

    # --- what happens

    def make(self) -> Draft:
        self.number += 1
        topic = self.chance.choice(TOPICS)
        made = draft(self.number, topic, self.chance.randrange(QUEUES), self.chance.choice(self.sizes))
        if self.chance.random() < 0.15 and self.rig.settings.mapped_file_size_commit_log > SMALL_FILE_BYTES:
            made.properties += b"user\x01" + b"u" * self.chance.choice(USER_PROPERTY_BYTES) + b"\x02"
        return made

    def stage(self, made: list[Draft]) -> Sequence[Placed]:
        """Messages of one queue as a batch; those of several all in one file, too."""
        store, now = self.rig.store, self.rig.wall_ms
        if len(made) > 1:
            if len({(one.topic, one.queue_id) for one in made}) == 1:
                return stage_batch(store, made, now)
            store._log.make_room(sum(map(size_of, made)))
        return [store.stage(one, now) for one in made]

    def turn(self) -> None:
        store = self.rig.store
        staged: list[Stored] = []
        is_fenced = store.refusal is Closed.FENCED
        if not is_fenced:
            self.open = staged  # else the turn that fenced stays open until the next start
        try:
            for _ in range(self.chance.randrange(1, 6)):
                mark = store.savepoint()
                made = [self.make() for _ in range(self.chance.choice([1, 1, 1, 3]))]
                placed = self.stage(made)
                if self.chance.random() < 0.15:
                    self.rare["a handler failed"] += 1
                    store.rollback_to(mark)
                    continue
                self.batches += 1
                staged += map(self.stored, made, placed)
            store.commit()
        except CommitFailed as reason:
            self.rare["a commit failed"] += 1
            if reason.why is Closed.FENCED:
                self.rare["a commit failed and its state is open"] += 1
            else:
                self.open = []
            return
        except Unwritable:
            self.rare["appends were refused"] += 1
            store.rollback_to(0)
            if not is_fenced:
                self.open = []
            return
        self.open = []
        if staged and self.file_of(staged[0]) != self.file_of(staged[-1]):
            self.rare["a turn went over a file's end"] += 1
        self.take(staged)
        if self.chance.random() < 0.9:
            self.dispatch()
        else:
            self.rare["dispatch lagged"] += 1
        self.answer()

    def stored(self, one: Draft, at: Placed) -> Stored:
        number = number_of(one.body)
        wall_ms = self.rig.wall_ms
        return Stored(
            number, one.topic, one.queue_id, at, one.keys, wall_ms, bytes(one.body), bytes(one.properties), self.batches
        )

    def file_of(self, one: Stored) -> int:
        return one.placed.physical_offset // self.rig.settings.mapped_file_size_commit_log

    def take(self, stored: Iterable[Stored]) -> None:
        for one in stored:
            self.log.append(one)
            self.queues[one.topic, one.queue_id].append(one)

    def dispatch(self) -> None:
        for one in self.rig.store.dispatch(self.rig.wall_ms):
            self.seen[one.topic, one.queue_id] = one.next_queue_offset

    def answer(self) -> None:
        """A send is answered after its commit; under SYNC_FLUSH once it is flushed."""
        flushed = self.rig.store.flushed_offset
        for one in reversed(self.log):
            if one.acked:
                return
            one.acked = not self.is_sync or one.placed.end_offset <= flushed

    def sync(self) -> None:
        store = self.rig.store
        ticket = store.begin_sync(self.rig.mono_ms, self.chance.random() < 0.8)
        if ticket is None:
            return
        if len({one.batch for one in self.log[-8:] if not one.acked}) > 1:
            self.rare["a group of several tickets"] += 1
        beside = self.chance.random() < 0.3
        if beside:
            self.rare["appends beside a sync"] += 1
            self.turn()
        try:
            ticket.run()
        except OSError as reason:
            self.rare["a sync failed"] += 1
            self.sync_failed = True
            store.end_sync(ticket, reason)
        else:
            store.end_sync(ticket, None)
        self.dispatch()
        self.answer()
        if beside and self.chance.random() < 0.2:
            self.crash()

    def wait(self) -> None:
        self.rig.wait(self.chance.choice([10, 600, 1500, 30_000]))

    def delete_topic(self) -> None:
        store = self.rig.store
        if store.refusal is not None:
            return
        topic = self.chance.choice(TOPICS)
        if store.undispatched:
            self.rare["a topic was deleted with messages on their way"] += 1
        store.delete_topics([topic])
        if store.refusal is not None:
            return  # half deleted: what is left is a prefix of each queue, which only a start may find
        self.rare["a topic was deleted"] += 1
        for key in [key for key in self.queues if key[0] == topic]:
            if self.has_new(key):
                self.ghosts[key].append(self.before[key] + self.queues[key])
            self.deleted_at[key] = self.number
            self.queues[key], self.before[key], self.first[key], self.seen[key] = [], [], 0, 0

    def has_new(self, key: tuple[str, int]) -> bool:
        """Since the queue was deleted last, and not lost to a cut since."""
        return any(one.number > self.deleted_at[key] for one in self.queues[key][-1:])

    def retain(self) -> None:
        """The oldest files go, as far as their queues are safe: what keeps them for days sees to that elsewhere."""
        for _ in range(3):
            self.rig.wait(1500)
            self.sync()
        store = self.rig.store
        files = store._checkpoint.logics_physical_offset // self.rig.settings.mapped_file_size_commit_log
        gone = store.min_offset // self.rig.settings.mapped_file_size_commit_log
        if store.refusal is not None or files <= gone:
            return
        store.retain_by(replace(RULES, delete_file_batch_max=self.chance.randrange(1, files - gone + 1)))
        store.retention.delete_now()
        store.retention._manual_looks = 1
        self.rig.retain(RETENTION_LOOK_MS)
        self.follow_min()

    def follow_min(self) -> None:
        """Take over which messages the log has lost to retention, or got back, and say what each queue has."""
        everything = self.removed + self.log
        log_min = self.rig.store.min_offset
        gone = sum(one.placed.physical_offset < log_min for one in everything)
        if gone > len(self.removed):
            self.rare["old files went"] += 1
        if gone == len(self.removed):
            return
        self.removed, self.log = everything[:gone], everything[gone:]
        for key in self.queues:
            mine = [one for one in everything if (one.topic, one.queue_id) == key]
            self.queues[key] = [one for one in mine if one.placed.physical_offset >= log_min]
            if mine:
                self.first[key] = mine[-1].placed.queue_offset + 1 - len(self.queues[key])

    def follow_ends(self, lost: list[Stored]) -> None:
        """Where the log has lost its beginning, a queue that lost all its messages to a cut goes on behind any of them: nothing
        that is left says how many had been before, but for those that went with the log's beginning."""
        self.endless |= {(one.topic, one.queue_id) for one in lost}
        self.endless = {key for key in self.endless if not self.queues[key]}
        for key in self.endless if self.rig.store.min_offset else ():
            low, high = self.rig.store.queue_bounds(*key)
            gone = [one.placed.queue_offset + 1 for one in self.removed if (one.topic, one.queue_id) == key]
            assert max(gone, default=0) <= low == high <= self.number
            self.first[key] = low

    def full_disk(self) -> None:
        part = self.chance.choice(["/commitlog/", "/commitlog/", "/consumequeue/", "/index/"])
        operation = self.chance.choice(["write", "write", "create"])
        partial = self.chance.choice([0, 5, 100, 500])
        error = self.chance.choice([errno.ENOSPC, errno.ENOSPC, 0])
        if operation == "create" and not error:
            return
        if not error:
            partial = max(partial, 1)
            self.rare["a write was short"] += 1
        self.disk.faults.append(Fault(operation, times=self.chance.choice([1, 3]), error=error, partial=partial, path_part=part))

    def broken_disk(self) -> None:
        operation, part = self.chance.choice([("write", "/store/"), ("sync", "/commitlog/"), ("sync", "/store/")])
        self.disk.faults.append(Fault(operation, error=errno.EIO, partial=3, path_part=part))

    # --- the end of a process, and the next one

    def stop(self) -> bool:
        self.disk.faults = []
        self.dispatch()
        return self.rig.store.close(self.rig.wall_ms)

    def restart(self) -> None:
        clean = self.stop()
        if clean:
            self.rare["a clean stop"] += 1
            if self.rig.settings.message_index_enable and not self.removed:
                assert self.index_on_disk() == self.model_of_index(), "the index is not what the log makes"
            if self.chance.random() < 0.3:
                self.disk = self.rig.disk = self.disk.crash("synced")  # the plug is pulled right after it
        self.answer()
        self.start(lossless=True)

    def crash(self, flushed: int | None = None) -> None:
        kind = self.chance.choice(["kill", "kill", "synced", "power"])
        self.rare[f"crash: {kind}"] += 1
        if kind == "kill" and self.sync_failed:
            self.rare["a kill after a failed sync"] += 1
        flushed = self.rig.store.flushed_offset if flushed is None else flushed
        self.cut(kind)
        lossless = kind == "kill"
        for depth in range(NESTED_MAX):
            if self.chance.random() < 0.6:
                break
            kind = self.chance.choice([kind, kind, kind, "kill", "power"])
            lossless &= kind == "kill"
            self.interrupted_start(kind, depth)
        self.start(lossless=lossless, at_least=flushed)

    def crash_within_retention(self) -> None:
        """Right after a file was unlinked, or somewhere near."""
        for _ in range(self.chance.randrange(3)):
            self.turn()
        self.crash_in("retention", self.retain, self.chance.randrange(4), since="unlink")

    def crash_within(self) -> None:
        """The process ends at some operation of the disk."""
        name, action = self.chance.choice(
            [("turn", self.turn), ("turn", self.turn), ("sync", self.sync), ("wait", self.wait), ("stop", self.stop)]
        )
        self.crash_in(name, action, self.chance.randrange(40 if name == "stop" else 8))

    def crash_in(self, name: str, action: Callable[[], object], left: int, since: str = "") -> None:
        """Stop after so many operations, counted from the first of the name `since` on."""
        disk = self.disk
        begun = not since

        def before(operation: str, path: str) -> None:
            nonlocal left, begun
            begun = begun or operation == since
            if not begun:
                return
            if path.endswith(boot_mark.NAME):
                return  # between a sync that fails and the note of it nothing can be promised (docs/durability.md)
            left -= 1
            if left < 0:
                raise Stopped

        disk.before = before
        try:
            action()
        except Stopped:
            self.rare[f"a crash within a {name}"] += 1
            disk.before = None
            self.crash()
            return
        disk.before = None
        if name == "stop":
            self.start(lossless=True)

    def cut(self, kind: str) -> None:
        keep = {"kill": "all", "synced": "synced", "power": self.chance}[kind]
        before = self.disk.live_contents("/commitlog/")[:1]
        self.disk = self.rig.disk = self.disk.crash(keep)  # type: ignore[arg-type]
        after = self.disk.live_contents("/commitlog/")[:1]
        self.rare["an old file came back"] += bool(before and after and after[0][0] < before[0][0])

    def interrupted_start(self, kind: str, depth: int) -> None:
        self.disk.stop_after(self.chance.randrange(1, 60))
        try:
            self.rig.open()
        except Stopped:
            self.rare["a crash while starting" + " after a crash while starting" * (depth > 0)] += 1
        self.disk.before = None
        self.cut(kind)

    def start(self, lossless: bool, at_least: int = 0) -> None:
        self.rig.open()
        self.sync_failed = False
        store = self.rig.store
        end = store.written_offset
        self.count_rare_starts()
        assert end >= at_least, "the log is shorter than what was flushed"
        if self.open and self.open[0].placed.end_offset <= end:
            self.rare["units of an open turn were there"] += 1
            self.take(one for one in self.open if one.placed.end_offset <= end)
        self.open = []
        kept = len(self.log)
        while kept and self.log[kept - 1].placed.end_offset > end:
            kept -= 1
        lost = self.log[kept:]
        assert not lossless or not lost, "a stop without a power cut lost something"
        self.count_rare_losses(lost, kept)
        for one in lost:
            assert not one.acked or not self.is_sync, f"message {one.number} was answered and is gone"
            key = one.topic, one.queue_id
            if one in self.queues[key]:
                assert not self.is_sync or self.seen[key] <= one.placed.queue_offset, f"message {one.number} was read and is gone"
                self.queues[key].remove(one)
        del self.log[kept:]
        if self.retains:
            self.follow_min()
            self.follow_ends(lost)
        else:
            self.adopt_ghosts()
        self.check()

    def count_rare_starts(self) -> None:
        report, rare = self.rig.store.report, self.rare
        file_bytes = self.rig.settings.mapped_file_size_commit_log
        if not report.clean:
            at_file = report.walked_from % file_bytes == 0
            rare["the walk began at a file" if at_file else "the walk began at the checkpoint's message"] += 1
            rare["the walk began behind the log's first file"] += report.walked_from >= file_bytes
            rare["something was cut"] += bool(report.cut_bytes)
            rare["whole units were cut"] += bool(report.cut_units)
            rare["the log ended at a file's end"] += bool(report.end) and report.end % file_bytes == 0
        rare["the index rotated"] += len(self.index_paths()) > 1

    def count_rare_losses(self, lost: list[Stored], kept: int) -> None:
        if lost:
            self.rare["something was lost"] += 1
            if kept:
                self.rare["a roll was lost"] += self.file_of(lost[-1]) != self.file_of(self.log[kept - 1])
                self.rare["a batch was torn"] += self.log[kept - 1].batch == lost[0].batch

    def adopt_ghosts(self) -> None:
        """Queues of deleted topics may come back, in part, as long as they have no new message; more of them later."""
        for key, stored in self.queues.items():
            low, high = self.rig.store.queue_bounds(*key)
            if low < high and not self.has_new(key):
                self.rare["a deleted topic came back"] += 1
                self.before[key], self.queues[key] = self.ghost_of(key)
                assert self.queues[key][0].placed.queue_offset == low
                self.first[key] = low
            elif low < self.first[key] and self.before[key]:
                more = self.first[key] - low
                self.queues[key] = self.before[key][-more:] + stored
                self.before[key] = self.before[key][:-more]
                self.first[key] = low
            elif low == high and not self.has_new(key):
                self.queues[key], self.before[key] = [], []
                self.first[key] = low

    def ghost_of(self, key: tuple[str, int]) -> tuple[list[Stored], list[Stored]]:
        """What the queue had before that which it has now, and that, at one of the times when its topic was deleted."""
        numbers = self.rig.numbers(*key)
        for ghost in reversed(self.ghosts[key]):
            of_ghost = [one.number for one in ghost]
            at = of_ghost.index(numbers[0]) if numbers[0] in of_ghost else len(ghost)
            if of_ghost[at : at + len(numbers)] == numbers:
                return ghost[:at], ghost[at : at + len(numbers)]
        raise AssertionError(f"{key} has {numbers}, of what it never had")

    # --- what must hold

    def check(self) -> None:
        store = self.rig.store
        for (topic, queue_id), stored in self.queues.items():
            assert self.rig.numbers(topic, queue_id) == [one.number for one in stored]
            first = self.first[topic, queue_id]
            assert store.queue_bounds(topic, queue_id) == (first, first + len(stored))
            self.seen[topic, queue_id] = first + len(stored)
            for one in stored[:1] + stored[1:][-3:]:
                view = store.lookup(one.placed.physical_offset, checked=True)
                assert view is not None
                unit = read_unit(view)
                assert (bytes(unit.body), unit.properties) == (one.body, one.properties), f"message {one.number} is not whole"
                assert unit.queue_offset == one.placed.queue_offset
        for path, data in self.disk.live_contents("/consumequeue/"):
            assert any(data), f"{path} has no entry"
        if self.rig.settings.message_index_enable:
            for one in self.log[:2] + self.log[2:][-5:]:
                found = store.query(one.topic, one.keys[0], 10, 0, 1 << 60).units
                assert [number_of(read_unit(unit).body) for unit in found] == [one.number]

    def index_paths(self) -> list[str]:
        return [path for path, _ in self.disk.live_contents(f"{ROOT}/index/")]

    def index_on_disk(self) -> list[bytes]:
        return [bytes(data) for _, data in self.disk.live_contents(f"{ROOT}/index/")]

    def model_of_index(self) -> list[bytes]:
        model = IndexModel(self.rig.settings.max_hash_slot_num, self.rig.settings.max_index_num)
        for one in self.log:
            model.put(one.topic, one.keys, one.placed.physical_offset, one.wall_ms)
        return model.contents()
