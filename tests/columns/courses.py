"""Exports in a course of events: brokers whose logs grow, tear, recover and lose their first files; starts that die or meet.

Everything happens in this process.  A start is stopped before any step by which it changes the destination: it dies there
(nothing of it is cleared up), or something happens meanwhile, such as another start.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rmq_columns import Options, StoreError, parse_options
from rmq_columns.decode.dtypes import QUEUE_UNIT
from rmq_columns.export.destination import LocalDestination, destination
from rmq_columns.export.manifest import Entry, current, read_done, read_entry, survey
from rmq_columns.export.options import FileOptions
from rmq_columns.export.parquet import export_store, holding
from rmq_columns.export.plan import choose, read_plan
from rmq_columns.export.sinks import LocalSink, Sink
from rmq_wire.message import pack_blank
from tests.support.logs import BLANK_BYTES, unit

FILE_BYTES: Final = 2048
QUEUES: Final = 3
DAY_MS: Final = 86_400_000
FILES: Final = FileOptions()


@dataclass
class Broker:
    """A log on disk that is written as a broker does.  units: place -> body of every sound message that is there."""

    root: Path
    random: Random
    name: str = ""
    units: dict[int, bytes] = field(default_factory=dict)
    files: dict[int, bytearray] = field(default_factory=dict)
    end: int = 0
    is_torn: bool = False
    written: int = 0
    queue_units: list[list[tuple[int, int]]] = field(default_factory=lambda: [[] for _ in range(QUEUES)])
    seen: set[bytes] = field(default_factory=set)
    """bodies of every message that there ever was"""

    def __post_init__(self) -> None:
        self.name = f"{self.root.parent.name}/{self.root.name}/{self.random.randrange(10**6)}"

    def append(self, count: int, is_damaged: bool = False) -> None:
        """Messages, of which one may be damaged, each a day's part later."""
        self.recover()
        for number in range(count):
            body = f"{self.name} {self.written} ".encode().ljust(self.random.randint(20, 260), b".")
            queue = self.random.choice([0, 0, 1, 2])
            at, one = self._fitting(body, queue)
            if is_damaged and number == count // 2:
                one = one[:4] + b"\x55" + one[5:]
            else:
                self.units[at] = body
                self.seen.add(body)
                self.queue_units[queue].append((at, len(one)))
            self._put(at, one)
            self.end = at + len(one)
            self.written += 1
        self.save()

    def _fitting(self, body: bytes, queue: int) -> tuple[int, bytes]:
        at = self.end
        made = self._unit(at, body, queue)
        left = FILE_BYTES - at % FILE_BYTES
        if len(made) + BLANK_BYTES > left:
            self._put(at, pack_blank(left))
            at += left
            made = self._unit(at, body, queue)
        return at, made

    def _unit(self, at: int, body: bytes, queue: int) -> bytes:
        return unit(at, body, number=self.written, store_ms=self.written * DAY_MS // 20, queue=queue)

    def _put(self, at: int, data: bytes) -> None:
        start = at // FILE_BYTES * FILE_BYTES
        file = self.files.setdefault(start, bytearray(FILE_BYTES))
        file[at - start : at - start + len(data)] = data

    def tear(self) -> None:
        """A message of which only the first part is on the disk."""
        self.recover()
        at, one = self._fitting(b"torn".ljust(200, b"."), 0)
        self.end = at
        self._put(at, one[: self.random.randint(60, 150)])
        self.is_torn = True
        self.save()

    def recover(self) -> None:
        """What is torn is cut off."""
        if self.is_torn:
            start = self.end // FILE_BYTES * FILE_BYTES
            self.files[start][self.end - start :] = bytes(FILE_BYTES - (self.end - start))
            self.is_torn = False
            self.save()

    def open_next(self) -> None:
        """The file behind the last one is made before it is needed."""
        if self.files:
            self.files.setdefault(max(self.files) + FILE_BYTES, bytearray(FILE_BYTES))
            self.save()

    def retain(self, count: int) -> None:
        """The first files are removed; never the one that is written to."""
        for start in sorted(self.files)[:count]:
            if start + FILE_BYTES <= self.end // FILE_BYTES * FILE_BYTES:
                del self.files[start]
                for place in [one for one in self.units if start <= one < start + FILE_BYTES]:
                    del self.units[place]
        self.save()

    def move(self) -> None:
        """The whole directory gets another name."""
        to = self.root.parent / f"moved-{self.random.randrange(1000)}"
        if not to.exists():
            self.root = self.root.rename(to)

    def save(self) -> None:
        log = self.root / "commitlog"
        log.mkdir(parents=True, exist_ok=True)
        wanted = {f"{start:020}": bytes(data) for start, data in self.files.items()}
        for path in list(log.iterdir()):
            if path.name not in wanted:
                path.unlink()
        for name, data in wanted.items():
            if not (log / name).exists() or (log / name).read_bytes() != data:
                (log / name).write_bytes(data)
        for number, units in enumerate(self.queue_units):
            queue = self.root / "consumequeue" / "T" / str(number)
            queue.mkdir(parents=True, exist_ok=True)
            rows = np.array([(at, size, 0) for at, size in units], QUEUE_UNIT)
            (queue / f"{0:020}").write_bytes(rows.tobytes() + bytes(100))


def read_file(path: Path, *columns: str) -> pa.Table:
    """Of one file.  (`read_table` looks for a data set first, which takes longer than to read so few rows.)"""
    return pq.ParquetFile(path).read(columns=list(columns), use_threads=False)


class Death(BaseException):
    """As `kill -9`: nothing is cleared up behind it."""


class Steps:
    """Of the start that is at work: which happen, what happens before them."""

    def __init__(self, actions: dict[int, Callable[[], None]] | None = None) -> None:
        self.actions = actions or {}
        self.count = 0
        self.is_dead = False

    def step(self) -> None:
        if self.is_dead:
            raise Death
        action = self.actions.pop(self.count, None)
        self.count += 1
        if action is not None:
            action()

    def die(self) -> None:
        self.is_dead = True
        raise Death


class World:
    """Brokers in two directories, one destination, and everything that was exported of them once."""

    def __init__(self, above: Path, random: Random) -> None:
        self.above, self.random = above, random
        self.to = above / "out"
        self.brokers: list[Broker] = []
        self.roots: set[Path] = set()
        self.steps = Steps()
        self.kept: set[bytes] = set()
        """bodies that entries have that hold"""
        self.pruned: set[bytes] = set()
        """bodies in directories that were removed for good"""
        self.add("first", "a")

    def add(self, directory: str, name: str) -> None:
        root = self.above / directory / name
        if root not in self.roots:  # a log of another life at the place of one that was exported is refused
            self.roots.add(root)
            self.brokers.append(Broker(root, self.random))
            self.brokers[-1].append(self.random.randint(1, 25))

    @property
    def options(self) -> Options:
        paths = [str(self.above / "first"), *([str(self.above / "second")] if (self.above / "second").exists() else [])]
        return parse_options(
            {"paths": paths, "pathLayout": "brokers", "mode": "PERMISSIVE", "splitBytes": FILE_BYTES // 2, "blockBytes": 1024}
        )

    # --- starts

    def start(self, increment: bool, actions: dict[int, Callable[[], None]] | None = None, pruned: bool = False) -> str:
        """whole, dead, or why it was refused."""
        before, self.steps = self.steps, Steps(actions)
        try:
            export_store(str(self.to), self.options, FILES, increment=increment, pruned=pruned)
        except Death:
            return "dead"
        except StoreError as reason:
            return str(reason)
        finally:
            self.steps = before
        return "whole"

    @contextmanager
    def patched(self) -> Iterator[None]:
        """Every change of the destination is a step."""
        with pytest.MonkeyPatch.context() as patch:
            for owner, name in (
                (LocalDestination, "create"),
                (LocalDestination, "put"),
                (LocalDestination, "remove"),
                (LocalSink, "complete"),
                (LocalSink, "appear"),
            ):
                patch.setattr(owner, name, self._stepping(getattr(owner, name)))
            patch.setattr(LocalSink, "abort", self._alive(Sink.abort))
            patch.setattr("os.fsync", lambda descriptor: None)  # nobody pulls the plug of this machine
            yield

    def _stepping(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def called(own: LocalDestination | Sink, *arguments: Any) -> Any:
            self.steps.step()
            return call(own, *arguments)

        return called

    def _alive(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def called(own: Sink) -> None:
            if not self.steps.is_dead:
                call(own)

        return called

    # --- what is there

    def entries(self) -> list[Entry]:
        """Those that count, as the next start would see them."""
        there = destination(str(self.to))
        seen = survey(there)
        found = [plan for name in seen.plans if (plan := read_plan(there, name, self.options)) is not None]
        done = read_done(there, seen)
        chosen = choose(str(self.to), found, done, current(there)[1])
        listed = [read_entry(there, one.name) for one in holding(done, chosen).values()]
        return [one for one in listed if one is not None]

    def rows(self, corrupt: bool = False, below: Path | None = None) -> list[tuple[str, int, bytes]]:
        """brokerName, physicalOffset, body; of entries that count.  below: only of files in this directory."""
        found = []
        for entry in self.entries():
            for file in entry.files:
                if file.corrupt == corrupt and (below is None or (self.to / file.name).parent == below):
                    table = read_file(self.to / file.name, "physicalOffset", "body")
                    found += [(entry.brokerName, row["physicalOffset"], row["body"]) for row in table.to_pylist()]
        return found

    def in_directory(self) -> list[bytes]:
        """Bodies of all data files, as somebody reads them who does not know of the manifest."""
        files = [path for path in self.to.rglob("part-*.parquet") if "_corrupt" not in path.parts]
        return [body for path in files for body in read_file(path, "body")["body"].to_pylist()]

    def check(self, is_whole: bool, is_increment: bool) -> None:
        """Nothing that was exported is gone; what is there was in a log, once; a whole increment has all that the logs have."""
        rows = self.rows()
        bodies = [body for _, _, body in rows]
        found = set(bodies)
        assert self.kept <= found, f"exported once, and gone: {sorted(self.kept - found)[:3]}"
        self.kept = found
        assert not found & self.pruned, "pruned, and there again"
        assert found <= set().union(*(one.seen for one in self.brokers))
        assert len(bodies) == len(found), "twice"
        assert len({(name, place) for name, place, _ in rows}) == len(rows), "two brokers have one name"
        wrong = [(name, place) for name, place, _ in self.rows(corrupt=True)]
        assert len(wrong) == len(set(wrong)), "the same damage twice"
        if is_whole:
            assert sorted(self.in_directory()) == sorted(bodies)
        if is_whole and is_increment:
            for broker in self.brokers:
                missing = set(broker.units.values()) - found - self.pruned
                assert not missing, f"in the log, and not exported: {sorted(missing)[:3]}"

    # --- the course

    def happen(self) -> None:
        """Something to a log."""
        broker = self.random.choice(self.brokers)
        match self.random.randrange(8):
            case 0 | 1 | 2:
                broker.append(self.random.randint(1, 20), self.random.random() < 0.2)
            case 3:
                broker.tear()
            case 4:
                broker.recover()
            case 5:
                broker.retain(self.random.randint(1, 3))
            case 6:
                broker.open_next()
            case 7:
                self.add(self.random.choice(["first", "second"]) if self.two else "first", self.random.choice("abc"))

    @property
    def two(self) -> bool:
        return (self.above / "second").exists()

    def run(self, count: int) -> None:
        """So many events, each checked; at the end a whole increment."""
        with self.patched():
            if self.random.random() < 0.5:
                self.add("second", self.random.choice("bc"))
            for _ in range(count):
                self.event()
            self.settle()

    def event(self) -> None:
        match self.random.randrange(10):
            case 0 | 1 | 2 | 3:
                self.happen()
            case 4:
                self.prune()
            case 5:
                self.settle()
                if self.random.random() < 0.5:
                    self.random.choice(self.brokers).move()
            case _:
                increment = self.random.random() < 0.7
                outcome = self.start(increment, self.actions(2))
                if self.to.exists():
                    self.check(is_whole=False, is_increment=False)
                    assert outcome in ("whole", "dead") or "taken over" in outcome or "changed meanwhile" in outcome, outcome

    def settle(self) -> None:
        """Starts that nobody disturbs end well."""
        assert self.start(False) == "whole"
        self.check(is_whole=True, is_increment=False)
        assert self.start(True) == "whole"
        self.check(is_whole=True, is_increment=True)

    def actions(self, depth: int) -> dict[int, Callable[[], None]]:
        """What happens during a start: it dies, a log changes, another start comes."""
        found: dict[int, Callable[[], None]] = {}
        for _ in range(self.random.randint(0, 3)):
            at = int(self.random.expovariate(1 / 12))
            match self.random.randrange(3):
                case 0:
                    found[at] = lambda: self.steps.die()
                case 1:
                    found[at] = self.happen
                case 2 if depth:
                    found[at] = self.other(depth - 1)
        return found

    def other(self, depth: int) -> Callable[[], None]:
        increment, actions = self.random.random() < 0.5, self.actions(depth)

        def started() -> None:
            self.start(increment, actions)
            self.kept |= {body for _, _, body in self.rows()}

        return started

    def prune(self) -> None:
        """A directory of the export goes away.  It is made again, or that is refused and it can be put back."""
        days = sorted(path for path in self.to.glob("brokerName=*/date=*") if path.is_dir())
        if not days:
            return
        day = self.random.choice(days)
        before = {path: path.read_bytes() for path in day.iterdir()}
        bodies = {body for _, _, body in self.rows(below=day)}
        shutil.rmtree(day)
        if self.random.random() < 0.3:
            self.pruned |= bodies
            self.kept -= bodies
            outcome = self.start(True, pruned=True)
            assert outcome == "whole", outcome
        else:
            outcome = self.start(True)
        if outcome != "whole":
            assert "and so is the log from which it was made" in outcome or "are left of" in outcome, outcome
            for path, data in before.items():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
        with suppress(FileNotFoundError):
            self.check(is_whole=outcome == "whole", is_increment=False)
