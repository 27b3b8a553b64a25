"""A store that lives through random days: turns, syncs, refusals, stops and crashes by seed, beside a model that knows the truth.

The model is told what was staged, what was answered and what consumers saw; after each start it demands
- G1/G2: the log is a prefix of what was committed; nothing answered is missing, nothing refused is there;
- G3: queues and index are what that prefix makes;
- whatever a consumer saw under SYNC_FLUSH is still there.
`rare` counts situations; a suite in which one never happened has shown nothing about it.
"""

from __future__ import annotations

import errno
import random
from collections import Counter
from dataclasses import dataclass

from rmq_store.errors import CommitFailed, Unwritable
from rmq_store.settings import FlushDiskType
from rmq_store.values import Draft, Placed
from rmq_wire.message import read_unit
from tests.support.index_model import IndexModel
from tests.support.memory_disk import Fault, MemoryDisk
from tests.support.store_rig import ROOT, Rig, draft, number_of, small

TOPICS = ("TopicA", "B")


class Stopped(BaseException):
    """The process ends in the middle of an operation of the disk."""


@dataclass(slots=True)
class Stored:
    """A committed message."""

    number: int
    topic: str
    queue_id: int
    placed: Placed
    keys: tuple[str, ...]
    wall_ms: int
    body: bytes
    acked: bool = False


class Sim:
    """One seed. `run` raises AssertionError when a promise is broken."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.rare: Counter[str] = Counter()
        self.is_sync = self.chance.random() < 0.5
        settings = small(
            mapped_file_size_commit_log=self.chance.choice([4096, 8192, 16384]),
            max_message_size=1200,
            flush_disk_type=FlushDiskType.SYNC_FLUSH if self.is_sync else FlushDiskType.ASYNC_FLUSH,
            message_index_enable=self.chance.random() < 0.8,
        )
        self.disk = MemoryDisk()
        self.rig = Rig(self.disk, settings)
        self.log: list[Stored] = []
        self.seen: dict[tuple[str, int], int] = {}
        self.number = 0

    def run(self, steps: int = 40) -> None:
        actions = (
            [self.turn] * 10 + [self.sync] * 3 + [self.wait] * 2 + [self.full_disk] + [self.broken_disk, self.restart, self.crash]
        )
        for _ in range(steps):
            self.chance.choice(actions)()
        self.crash()
        self.restart()

    # --- what happens

    def make(self) -> Draft:
        self.number += 1
        topic = self.chance.choice(TOPICS)
        return draft(self.number, topic, self.chance.randrange(2), self.chance.choice([10, 50, 200, 700, 1150]))

    def turn(self) -> None:
        store = self.rig.store
        staged: list[Stored] = []
        try:
            for _ in range(self.chance.randrange(1, 6)):
                mark = store.savepoint()
                made = [self.make() for _ in range(self.chance.choice([1, 1, 1, 3]))]
                placed = store.stage_batch(made, self.rig.wall_ms) if len(made) > 1 else [store.stage(made[0], self.rig.wall_ms)]
                if self.chance.random() < 0.15:
                    self.rare["a handler failed"] += 1
                    store.rollback_to(mark)
                    continue
                staged += [
                    Stored(number_of(one.body), one.topic, one.queue_id, at, one.keys, self.rig.wall_ms, bytes(one.body))
                    for one, at in zip(made, placed, strict=True)
                ]
            store.commit()
        except CommitFailed:
            self.rare["a commit failed"] += 1
            return
        except Unwritable:
            self.rare["appends were refused"] += 1
            store.rollback_to(0)
            return
        if staged and staged[0].placed.physical_offset // self.rig.settings.mapped_file_size_commit_log != (
            staged[-1].placed.physical_offset // self.rig.settings.mapped_file_size_commit_log
        ):
            self.rare["a turn went over a file's end"] += 1
        self.log += staged
        if self.chance.random() < 0.9:
            self.dispatch()
        else:
            self.rare["dispatch lagged"] += 1
        self.answer()

    def dispatch(self) -> None:
        for one in self.rig.store.dispatch(self.rig.wall_ms):
            self.seen[one.topic, one.queue_id] = one.next_queue_offset

    def answer(self) -> None:
        """A send is answered after its commit; under SYNC_FLUSH once it is flushed."""
        for one in self.log:
            one.acked = one.acked or not self.is_sync or one.placed.end_offset <= self.rig.store.flushed_offset

    def sync(self) -> None:
        store = self.rig.store
        ticket = store.begin_sync(self.rig.mono_ms, self.chance.random() < 0.8)
        if ticket is None:
            return
        beside = self.chance.random() < 0.3
        if beside:
            self.rare["appends beside a sync"] += 1
            self.turn()
        try:
            ticket.run()
        except OSError as reason:
            self.rare["a sync failed"] += 1
            store.end_sync(ticket, reason)
        else:
            store.end_sync(ticket, None)
        self.dispatch()
        self.answer()
        if beside and self.chance.random() < 0.2:
            self.crash()

    def wait(self) -> None:
        self.rig.wait(self.chance.choice([10, 600, 1500, 30_000]))

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

    def restart(self) -> None:
        self.disk.faults = []
        self.dispatch()
        clean = self.rig.store.close(self.rig.wall_ms)
        if clean:
            self.rare["a clean stop"] += 1
            if self.rig.settings.message_index_enable:
                assert self.index_on_disk() == self.model_of_index(), "the index is not what the log makes"
            if self.chance.random() < 0.3:
                self.disk = self.rig.disk = self.disk.crash("synced")  # the plug is pulled right after it
        self.answer()
        self.start(lossless=True)

    def crash(self) -> None:
        kind = self.chance.choice(["kill", "kill", "synced", "power"])
        self.rare[f"crash: {kind}"] += 1
        flushed = self.rig.store.flushed_offset
        self.cut(kind)
        if self.chance.random() < 0.4:
            self.interrupted_start(kind)
        self.start(lossless=kind == "kill", at_least=flushed)

    def cut(self, kind: str) -> None:
        keep = {"kill": "all", "synced": "synced", "power": self.chance}[kind]
        self.disk = self.rig.disk = self.disk.crash(keep)  # type: ignore[arg-type]

    def interrupted_start(self, kind: str) -> None:
        left = self.chance.randrange(1, 60)

        def before(_operation: str, _path: str) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise Stopped

        self.disk.before = before
        try:
            self.rig.open()
        except Stopped:
            self.rare["a crash while starting"] += 1
        self.disk.before = None
        self.cut(kind)

    def start(self, lossless: bool, at_least: int = 0) -> None:
        self.rig.open()
        end = self.rig.store.written_offset
        assert end >= at_least, "the log is shorter than what was flushed"
        kept = [one for one in self.log if one.placed.end_offset <= end]
        lost = self.log[len(kept) :]
        assert kept == self.log[: len(kept)]
        assert not lossless or not lost, "a stop without a power cut lost something"
        if lost:
            self.rare["something was lost"] += 1
        for one in lost:
            assert not one.acked or not self.is_sync, f"message {one.number} was answered and is gone"
            offset = self.seen.get((one.topic, one.queue_id), 0)
            assert not self.is_sync or offset <= one.placed.queue_offset, f"message {one.number} was read and is gone"
        self.log = kept
        self.check()

    # --- what must hold

    def check(self) -> None:
        store = self.rig.store
        for topic in TOPICS:
            for queue_id in range(2):
                expected = [one.number for one in self.log if (one.topic, one.queue_id) == (topic, queue_id)]
                assert self.rig.numbers(topic, queue_id) == expected
                assert store.queue_bounds(topic, queue_id) == (0, len(expected))
                self.seen[topic, queue_id] = len(expected)
        for one in self.log:
            view = store.lookup(one.placed.physical_offset, checked=True)
            assert view is not None
            unit = read_unit(view)
            assert (bytes(unit.body), unit.queue_offset) == (one.body, one.placed.queue_offset)
        for path, data in self.disk.contents().items():
            assert "/consumequeue/" not in path or any(data), f"{path} has no entry"
        if self.rig.settings.message_index_enable:
            for one in self.log[-8:] + self.log[:3]:
                found = store.query(one.topic, one.keys[0], 10, 0, 1 << 60).units
                assert [number_of(read_unit(unit).body) for unit in found] == [one.number]

    def index_on_disk(self) -> list[bytes]:
        return [data for path, data in self.disk.contents().items() if path.startswith(f"{ROOT}/index/")]

    def model_of_index(self) -> list[bytes]:
        model = IndexModel(self.rig.settings.max_hash_slot_num, self.rig.settings.max_index_num)
        for one in self.log:
            model.put(one.topic, one.keys, one.placed.physical_offset, one.wall_ms)
        return model.contents()
