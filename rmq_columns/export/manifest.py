"""What an export has done: an entry for each split that is done, the start that is at work, the end.

    _manifest/plan-00000-5f0c9a1e.json    the splits (`rmq_columns.export.plan`)
    _manifest/run.json                    which start is at work, by which plans: a task of an earlier one gives up
    _manifest/closed-8d21c07b.json        that start clears up, or is through: a task of it that is still alive gives up, too
    _manifest/split-00007/c3d2e1f0.json   an attempt at the split that is whole: written when all of its files are in place
    _manifest/seam-00007-5f0c9a1e.json    the split did not end where the next one begins: it is to be cut anew
    _manifest/manifest.jsonl              an entry for each split, when all is done
    _SUCCESS                              the sums, last of all

The names of data follow from what was read: attempts at a split that read the same rows give them the same names, and whoever was
slow writes over a file what is in it.  So he who reads the directory without the manifest has each row once, too.  Every other
file but the last two and run.json has a name that nobody else uses.  An entry holds while its files are there with the sizes that
it says; which of several that hold counts `rmq_columns.export.parquet.holding` says.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Any, Final, NamedTuple, TypeVar

from rmq_columns.errors import StoreError
from rmq_columns.export.destination import Destination
from rmq_columns.export.files import CORRUPT_DIRECTORY, NAME, FileEntry
from rmq_columns.export.options import PARTITIONS

VERSION: Final = 2
DIRECTORY: Final = "_manifest"
RUN: Final = f"{DIRECTORY}/run.json"
WHOLE: Final = f"{DIRECTORY}/manifest.jsonl"
SUCCESS: Final = "_SUCCESS"
PLAN: Final = re.compile(rf"{DIRECTORY}/plan-(\d{{5,}})-[0-9a-f]{{8}}\.json")
ENTRY: Final = re.compile(rf"{DIRECTORY}/split-(\d{{5,}})/([0-9a-f]{{8}})\.json")
SEAM: Final = re.compile(rf"{DIRECTORY}/seam-(\d{{5,}})-[0-9a-f]{{8}}\.json")
CLOSED: Final = re.compile(rf"{DIRECTORY}/closed-[0-9a-f]{{8}}\.json")
DATA: Final = re.compile(r"part-(\d{5,})-([0-9a-f]{8})-\d{3,}\.parquet")
PLACE: Final = re.compile(rf"(({'|'.join(PARTITIONS)})=[^/]+(/(?!$)|$))*|{CORRUPT_DIRECTORY}|{DIRECTORY}(/split-\d{{5,}})?")
"""A directory of ours: what lies elsewhere (another export in a directory of its own) is not touched, whatever its name."""
AT_ONCE: Final = 16
"""Small files that are read together: each may be a round trip."""
CHUNK: Final = 256
"""Entries, or names, that are in memory together."""
_WORD: Final = (1 << 64) - 1
Input = TypeVar("Input")
Output = TypeVar("Output")
Attempt = tuple[int, str]
"""Of files: (number of a split, 8 hex digits: label)"""


class CannotExport(StoreError):
    """What is at the destination does not go with what is asked for."""


class TakenOver(CannotExport):
    """Another start is at work."""

    def __init__(self, path: str, at: int = -1, why: str = "another start of this export has taken over") -> None:
        super().__init__(path, at, why)


class IsClosed(TakenOver):
    """All is done: somebody who was thought to be lost comes too late."""

    def __init__(self, path: str) -> None:
        super().__init__(path, -1, "this export was made without this task, which was thought to be lost")


@dataclass
class Entry:
    """One attempt at one split, whole.  Offsets are physical."""

    split: int
    attempt: str
    plan: str
    run: str
    brokerName: str
    store: str
    startPhysicalOffset: int
    endPhysicalOffset: int
    rows: int
    corruptRows: int
    storeBytes: int
    """of the messages"""
    firstPhysicalOffset: int | None
    lastPhysicalOffset: int | None
    """where the last sound message begins"""
    nextPhysicalOffset: int | None
    """where it ends; None when the units of the split's files say that they are elsewhere: it says nothing of the log's end"""
    lastPrint: int | None
    """by which it is known again; None where that is no longer known"""
    trailing: list[int]
    """physicalOffset of the rows behind it that are no sound message: what follows may come to stand in their place"""
    verified: bool
    files: list[FileEntry]
    pruned: list[str] = field(default_factory=list)
    """directories that were removed for good: the files in them do not count any more"""
    version: int = VERSION
    label: str = ""
    """in the names of its files, made of what was read; older entries have `attempt` there"""

    @property
    def name(self) -> str:
        return entry_name(self.split, self.attempt)

    @property
    def data(self) -> Attempt:
        """By which its files are known."""
        return self.split, self.label or self.attempt

    def as_json(self) -> dict[str, Any]:
        """One line of the manifest."""
        return asdict(self)


@dataclass(frozen=True)
class Done:
    """An entry without its files.  files, bytes: how many, and of them together.  holds: whether they are all there."""

    name: str
    split: int
    data: Attempt
    plan: str
    rows: int
    corrupt_rows: int
    store_bytes: int
    last: int | None
    next: int | None
    print: int | None
    trailing: tuple[int, ...]
    verified: bool
    files: int
    bytes: int
    pruned: tuple[str, ...]
    holds: bool


class Sizes(NamedTuple):
    """Of files: how many, and the sum of what is made of name and size, by which two sets of them are known to be equal."""

    files: int = 0
    total: int = 0

    def plus(self, name: str, size: int) -> Sizes:
        """With one more."""
        digest = zlib.crc32(name.encode()) << 32 ^ zlib.crc32(b"%d %d" % (size, len(name)))
        return Sizes(self.files + 1, (self.total + digest) & _WORD)


@dataclass
class Survey:
    """What lies at a destination, without the names of the data."""

    plans: list[str] = field(default_factory=list)
    entries: list[str] = field(default_factory=list)
    seams: list[str] = field(default_factory=list)
    data: dict[Attempt, Sizes] = field(default_factory=dict)
    foreign: str | None = None
    """a file that is none of ours"""


def survey(destination: Destination) -> Survey:
    """Raises `CannotRead`."""
    found = Survey()
    for name, size in destination.walk():
        if (matched := _own(DATA, name)) is not None:
            attempt = int(matched[1]), matched[2]
            found.data[attempt] = found.data.get(attempt, Sizes()).plus(name, size)
        elif PLAN.fullmatch(name):
            found.plans.append(name)
        elif ENTRY.fullmatch(name):
            found.entries.append(name)
        elif SEAM.fullmatch(name):
            found.seams.append(name)
        elif name not in (RUN, WHOLE, SUCCESS) and not CLOSED.fullmatch(name) and not _own(NAME, name):
            found.foreign = min(found.foreign or name, name)
    return found


def _own(kind: re.Pattern[str], name: str) -> re.Match[str] | None:
    """Of a file of this kind in a directory of ours."""
    directory, _, base = name.rpartition("/")
    return kind.fullmatch(base) if PLACE.fullmatch(directory) else None


def plans_there(destination: Destination) -> set[str]:
    """Names.  Raises `CannotRead`."""
    return {name for name, _ in destination.walk(DIRECTORY) if PLAN.fullmatch(name)}


def entry_name(split: int, attempt: str) -> str:
    return f"{entries_of(split)}/{attempt}.json"


def entries_of(split: int) -> str:
    """The directory of a split's entries."""
    return f"{DIRECTORY}/split-{split:05}"


def seam_name(split: int, plan: str) -> str:
    return f"{DIRECTORY}/seam-{split:05}-{plan[:8]}.json"


def write_entry(destination: Destination, entry: Entry) -> None:
    """Raises `CannotWrite`."""
    destination.put(entry.name, json.dumps(entry.as_json(), ensure_ascii=False).encode())


def read_entry(destination: Destination, name: str) -> Entry | None:
    """None also for half of one: only some file systems let nobody see that.  Raises `CannotRead`, `CannotExport`."""
    return versioned(destination, name, "entry", entry_of)


def entry_of(found: dict[str, Any]) -> Entry:
    """Of its JSON."""
    return Entry(**found | {"files": [FileEntry(**one) for one in found["files"]]})


def versioned(destination: Destination, name: str, what: str, make: Callable[[Any], Output]) -> Output | None:
    """`make` of a JSON file of ours; None also for half of one.  Raises `CannotRead`, `CannotExport` for what is none of ours."""
    found = read_json(destination, name)
    if found is None:
        return None
    try:
        if found["version"] != VERSION:
            raise CannotExport(name, -1, f"version {found['version']}; this program knows {VERSION}")
        return make(found)
    except (TypeError, KeyError) as reason:
        raise CannotExport(name, -1, f"no {what} of an export: {reason!r}") from reason


def read_json(destination: Destination, name: str) -> Any:
    """None for what is not there, or no JSON.  Raises `CannotRead`."""
    data = destination.read(name)
    try:
        return None if data is None else json.loads(data)
    except ValueError:
        return None


def read_done(destination: Destination, there: Survey) -> list[Done]:
    """All entries, those that do not hold among them, by name."""
    found = at_once(lambda name: _done(destination, name, there), sorted(there.entries))
    return [one for one in found if one is not None]


def _done(destination: Destination, name: str, there: Survey) -> Done | None:
    entry = read_entry(destination, name)
    return None if entry is None else done_of(entry, sizes_of(entry) == there.data.get(entry.data, Sizes()))


def done_of(entry: Entry, holds: bool) -> Done:
    """An entry without its files."""
    return Done(
        entry.name,
        entry.split,
        entry.data,
        entry.plan,
        entry.rows,
        entry.corruptRows,
        entry.storeBytes,
        entry.lastPhysicalOffset,
        entry.nextPhysicalOffset,
        entry.lastPrint,
        tuple(entry.trailing),
        entry.verified,
        len(entry.files),
        sum(one.bytes for one in entry.files),
        tuple(entry.pruned),
        holds,
    )


def sizes_of(entry: Entry) -> Sizes:
    """As they are to be there."""
    found = Sizes()
    for file in entry.files:
        found = found.plus(file.name, file.bytes)
    return found


def missing_file(destination: Destination, name: str) -> str:
    """The first file of an entry that is not there as it should be."""
    entry = read_entry(destination, name)
    files = [] if entry is None else entry.files
    return next((file.name for file in files if destination.size(file.name) != file.bytes), name)


def entries_at(destination: Destination, names: Iterable[str]) -> Iterator[Entry]:
    """One after another, few at once.  Raises `CannotExport` when one is gone."""
    for some in portions(names):
        for name, entry in zip(some, at_once(lambda one: read_entry(destination, one), some), strict=True):
            if entry is None:
                raise CannotExport(name, -1, "is gone: somebody else is at work, or was")
            yield entry


# --- which start is at work


def take_over(destination: Destination, run: str, plans: Iterable[str]) -> None:
    """From now on this run is the only one that may write entries, and its plans are the ones that count."""
    destination.put(RUN, json.dumps({"run": run, "plans": list(plans)}).encode())


def close_run(destination: Destination, run: str) -> None:
    """From now on no task of it may give a file its name: what is there is what it has made.

    A mark of its own, for another start may have taken over this moment, and `run.json` is that one's.
    """
    destination.put(closed_name(run), b"{}")


def closed_name(run: str) -> str:
    return f"{DIRECTORY}/closed-{run[:8]}.json"


def current(destination: Destination) -> tuple[str, frozenset[str]]:
    """Run, and identities of its plans; empty where nobody has begun."""
    found = read_json(destination, RUN)
    if found is None:
        return "", frozenset()
    try:
        return found["run"], frozenset(found.get("plans", ()))
    except (TypeError, KeyError) as reason:
        raise CannotExport(RUN, -1, f"does not say which start is at work: {reason!r}") from reason


def check_current(destination: Destination, to: str, run: str) -> None:
    """Raises `TakenOver`.  For who finishes: that the run is closed is his own doing."""
    if current(destination)[0] != run:
        raise TakenOver(to)


def check_open(destination: Destination, to: str, run: str) -> None:
    """Raises `TakenOver`.  For tasks."""
    check_current(destination, to, run)
    if destination.size(closed_name(run)) is not None:
        raise IsClosed(to)


@contextmanager
def at_work(check: Callable[[], None]) -> Iterator[None]:
    """What goes wrong since another start has taken over (it clears up, among other things) is called that.

    check: raises `TakenOver`.
    """
    check()
    try:
        yield
    except (StoreError, OSError):
        check()
        raise


def remove_strays(destination: Destination, to: str, run: str, kept: set[str], attempts: set[Attempt]) -> int:
    """Files of ours that do not count: plans and entries not in `kept`, data of other attempts, what was being written.

    What was found is removed only while no other start has taken over since, so nothing of a later one is.  How many of them were
    data, or were to become it.  Raises `TakenOver`, `CannotRead`, `CannotWrite`.
    """
    count = 0
    for some in portions(name for name, _ in destination.walk() if _is_stray(name, kept, attempts)):
        check_current(destination, to, run)
        destination.remove(sorted(some, key=lambda name: ENTRY.fullmatch(name) is None))  # an entry goes before its files
        count += sum(_own(DATA, name) is not None or ".parquet" in name for name in some)
    return count


def _is_stray(name: str, kept: set[str], attempts: set[Attempt]) -> bool:
    if (matched := _own(DATA, name)) is not None:
        return (int(matched[1]), matched[2]) not in attempts
    if (matched := PLAN.fullmatch(name)) is not None:  # one of a later increment is of a start that comes behind this one
        return name not in kept and int(matched[1]) <= max((int(one[1]) for one in map(PLAN.fullmatch, kept) if one), default=-1)
    if ENTRY.fullmatch(name) or SEAM.fullmatch(name) or CLOSED.fullmatch(name):
        return name not in kept
    return _own(NAME, name) is not None


def portions(names: Iterable[str]) -> Iterator[list[str]]:
    """`CHUNK` of them at a time."""
    left = iter(names)
    while some := list(islice(left, CHUNK)):
        yield some


def at_once(what: Callable[[Input], Output], inputs: Iterable[Input], count: int = AT_ONCE) -> list[Output]:
    """The results, in order."""
    if count == 1:
        return list(map(what, inputs))
    with ThreadPoolExecutor(count, "manifest") as pool:
        return list(pool.map(what, inputs))
