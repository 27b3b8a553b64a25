"""What an export has promised and what it has done: the plan, an entry for each split that is done, the end.

    _manifest/plan-00000.json     made at the first start and never changed; further ones of later increments
    _manifest/run.json            which start is at work: a task of an earlier one, still alive somewhere, gives up
    _manifest/split-00007.json    written when all files of the split are in place: without it they do not count
    _manifest/manifest.jsonl      all entries, when all is done
    _SUCCESS                      the sums, last of all

An entry holds while its files are there with the size that it says.  Nothing but files with names of our own is ever removed.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Final, NamedTuple, TypeVar

from rmq_columns.errors import StoreError
from rmq_columns.filesystem import Tree
from rmq_columns.options import Options
from rmq_columns.parquet_destination import Destination
from rmq_columns.parquet_files import NAME, FileEntry
from rmq_columns.parquet_options import FileOptions
from rmq_columns.plan import Part, Split
from rmq_columns.stores import Store

VERSION: Final = 1
DIRECTORY: Final = "_manifest"
RUN: Final = f"{DIRECTORY}/run.json"
WHOLE: Final = f"{DIRECTORY}/manifest.jsonl"
SUCCESS: Final = "_SUCCESS"
NO_MATTER: Final = frozenset({"filesystem", "block_bytes", "batch_rows"})
"""Options that may differ at the next start."""
PRINT_BYTES: Final = 4096
"""From the beginning of a log file, by which it is known again."""
AT_ONCE: Final = 16
"""Small files that are read together: each may be a round trip."""
Input = TypeVar("Input")
Output = TypeVar("Output")


class CannotExport(StoreError):
    """What is at the destination does not go with what is asked for."""


class Numbered(NamedTuple):
    """A split of an export.  plan: its identity.  prints: of its log files, CRC of the first message; -1 where there is none."""

    plan: str
    number: int
    split: Split
    prints: tuple[int, ...]


@dataclass(frozen=True)
class Plan:
    """One increment: the first, or what came since.  identity: of nothing else.  asked: the options as they were given."""

    identity: str
    increment: int
    asked: dict[str, Any]
    splits: tuple[Numbered, ...]

    @property
    def name(self) -> str:
        return plan_name(self.increment)


@dataclass
class Entry:
    """One split that is done."""

    split: int
    plan: str
    run: str
    brokerName: str
    store: str
    startPhysicalOffset: int
    endPhysicalOffset: int
    rows: int
    corruptRows: int
    storeBytes: int
    firstPhysicalOffset: int | None
    lastPhysicalOffset: int | None
    verified: bool
    files: list[FileEntry]
    version: int = VERSION

    def as_json(self) -> dict[str, Any]:
        """One line of the manifest."""
        return asdict(self)


def plan_name(increment: int) -> str:
    return f"{DIRECTORY}/plan-{increment:05}.json"


def entry_name(split: int) -> str:
    return f"{DIRECTORY}/split-{split:05}.json"


def asked_for(options: Options, files: FileOptions) -> dict[str, Any]:
    """What two starts must have in common."""
    found: dict[str, Any] = {}
    for one in fields(options):
        value = getattr(options, one.name)
        if one.name not in NO_MATTER:
            found[one.name] = sorted(value) if isinstance(value, frozenset) else value
    made: dict[str, Any] = json.loads(json.dumps(found | files.as_json()))
    return made


def compare(where: str, kept: dict[str, Any], asked: dict[str, Any]) -> None:
    """Raises `CannotExport` that names what is different."""
    if kept["paths"] != asked["paths"]:
        raise CannotExport(where, -1, f"holds the export of {', '.join(kept['paths'])}, not of {', '.join(asked['paths'])}")
    for name in sorted(kept.keys() | asked.keys()):
        before, now = kept.get(name), asked.get(name)
        if before != now:
            raise CannotExport(
                where, -1, f"holds an export with other arguments: {name} was {_shown(before)}, now it is {_shown(now)}"
            )


def _shown(value: Any) -> str:
    return "not given" if value is None else json.dumps(value, ensure_ascii=False)


def write_plan(destination: Destination, plan: Plan) -> None:
    """Raises `CannotWrite`."""
    splits = [
        {
            "number": one.number, "store": asdict(one.split.store), "startingPhysicalOffset": one.split.options.starting_offset,
            "parts": [list(part) for part in one.split.parts], "prints": list(one.prints),
        }
        for one in plan.splits
    ]  # fmt: skip
    made = {"version": VERSION, "identity": plan.identity, "increment": plan.increment, "asked": plan.asked, "splits": splits}
    destination.put(plan.name, json.dumps(made, ensure_ascii=False, indent=1).encode())


def read_plan(destination: Destination, increment: int, options: Options) -> Plan | None:
    """options: with which its splits are to be read.  None also when it was being written as somebody died.

    Raises `CannotRead`, `CannotExport`.
    """
    name = plan_name(increment)
    data = destination.read(name)
    if data is None:
        return None
    found = _json(data)
    if found is None:
        return None
    try:
        if found["version"] != VERSION:
            raise CannotExport(name, -1, f"version {found['version']}; this program knows {VERSION}")
        splits = tuple(
            Numbered(
                found["identity"],
                one["number"],
                Split(
                    replace(options, starting_offset=one["startingPhysicalOffset"]),
                    Store(**one["store"] | {"logs": tuple(one["store"]["logs"])}),
                    tuple(Part(*part) for part in one["parts"]),
                ),
                tuple(one["prints"]),
            )
            for one in found["splits"]
        )
        return Plan(found["identity"], increment, found["asked"], splits)
    except (TypeError, KeyError) as reason:
        raise CannotExport(name, -1, f"no plan of an export: {reason!r}") from reason


def write_entry(destination: Destination, entry: Entry) -> None:
    """Raises `CannotWrite`."""
    destination.put(entry_name(entry.split), json.dumps(entry.as_json(), ensure_ascii=False).encode())


def read_entry(destination: Destination, split: int) -> Entry | None:
    """Raises `CannotRead`, `CannotExport`."""
    data = destination.read(entry_name(split))
    found = None if data is None else _json(data)
    if found is None:
        return None
    try:
        return Entry(**found | {"files": [FileEntry(**one) for one in found["files"]]})
    except (TypeError, KeyError) as reason:
        raise CannotExport(entry_name(split), -1, f"no entry of an export: {reason!r}") from reason


def _json(data: bytes) -> Any:
    """None for half of one: only some file systems let nobody see that."""
    try:
        return json.loads(data)
    except ValueError:
        return None


def read_entries(destination: Destination, plans: Iterable[Plan], listed: dict[str, int]) -> dict[int, Entry]:
    """Split -> entry, of those that hold."""
    splits = [one for plan in plans for one in plan.splits if entry_name(one.number) in listed]
    found = at_once(lambda one: (one, read_entry(destination, one.number)), splits)
    return {one.number: entry for one, entry in found if entry is not None and holds(entry, one, listed)}


def holds(entry: Entry, one: Numbered, listed: dict[str, int]) -> bool:
    """Whether it is this split's, and every file of it is there with its size."""
    return entry.plan == one.plan and all(listed.get(file.name) == file.bytes for file in entry.files)


def strays(listed: Iterable[str], entries: Iterable[Entry]) -> list[str]:
    """Files of ours that no entry names."""
    named = {one.name for entry in entries for one in entry.files}
    return [name for name in listed if name not in named and NAME.fullmatch(name.rpartition("/")[2])]


def take_over(destination: Destination) -> str:
    """A new run, from now on the only one that may write entries; its name."""
    run = uuid.uuid4().hex
    destination.put(RUN, json.dumps({"run": run}).encode())
    return run


def is_current(destination: Destination, run: str) -> bool:
    """Whether no other start has taken over."""
    data = destination.read(RUN)
    found = None if data is None else _json(data)
    return found is not None and found["run"] == run


def prints_of(tree: Tree, split: Split) -> tuple[int, ...]:
    """By which each log file of a split is known again: its first message never changes.  -1: it has none, or is gone."""
    return tuple(at_once(lambda part: _print(tree, part.path), split.parts, 1 if tree.is_local else AT_ONCE))


def _print(tree: Tree, path: str) -> int:
    import zlib

    from rmq_columns.errors import FileGone

    try:
        with tree.open(path) as file:
            head = file.read(0, PRINT_BYTES)
    except FileGone:
        return -1
    size = int.from_bytes(head[:4])
    return zlib.crc32(head[:size]) if size else -1


def check_prints(where: str, one: Numbered) -> None:
    """Raises `CannotExport` when a file is another one than when it was planned.  One that is gone is the reader's matter."""
    tree = one.split.store.tree(one.split.options)
    for part, before, now in zip(one.split.parts, one.prints, prints_of(tree, one.split), strict=True):
        if now not in (before, -1) and before != -1:
            raise CannotExport(where, -1, f"holds the export of another store: {part.path} began with another message")


def at_once(what: Callable[[Input], Output], inputs: Iterable[Input], count: int = AT_ONCE) -> list[Output]:
    """The results, in order."""
    if count == 1:
        return list(map(what, inputs))
    with ThreadPoolExecutor(count, "manifest") as pool:
        return list(pool.map(what, inputs))
