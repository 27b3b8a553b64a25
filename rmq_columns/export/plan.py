"""What an export has promised: splits with a number each, the same for every start, one plan for each increment.

A plan is never changed.  Two starts at once may make two of one increment; `choose` says which counts, the same for everybody
who sees the same.  A split that did not end where the next one begins was cut at a forged place: `mended` makes a plan in which
the files it touches are one split; all others keep their entries.
"""

from __future__ import annotations

import json
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Final, NamedTuple

from rmq_columns.decode.scan import Seeker
from rmq_columns.decode.units import FIXED_SIZE_MIN
from rmq_columns.errors import BadOption, FileGone, without_keys
from rmq_columns.export.destination import Destination
from rmq_columns.export.manifest import AT_ONCE, DIRECTORY, VERSION, CannotExport, Done, at_once, versioned
from rmq_columns.export.options import FileOptions
from rmq_columns.files.filesystem import Tree
from rmq_columns.read.options import Options
from rmq_columns.read.plan import Part, Split
from rmq_columns.read.stores import Store

NO_MATTER: Final = frozenset({"filesystem", "block_bytes", "batch_rows", "split_bytes", "split_strategy"})
"""Options that may differ at the next start: the splits that there are stay as they are."""
CUT: Final = ("batch_rows", "block_bytes")
"""Of these, by which its files are cut, each plan keeps its own: attempts by two starts are to make the same files."""
PROBE_BYTES: Final = 1
"""Nothing is searched for."""
NOTHING: Final = -1
"""In place of a print: no message began there, or the file was gone."""
LogKey = tuple[str, str, tuple[str, ...], str]
"""By which a broker's log is known in all plans: path or URI, directory, log directories, single file.  Not its name."""


class Had(NamedTuple):
    """What a split had whose files are not all there any more: it is made again with just these."""

    rows: int
    next: int
    """where the last of its messages ends"""
    trailing: frozenset[int]
    pruned: frozenset[str]
    """directories whose files stay away"""


class Behind(NamedTuple):
    """What a split had when the next increment was planned, which begins where that ends.  label: in the names of its files."""

    label: str
    rows: int
    next: int | None
    """where the last of its messages ends"""
    trailing: Sequence[int]
    pruned: Sequence[str]


class Numbered(NamedTuple):
    """A split of an export.  plan: identity of the one in which it was first.  prints: of its log files' first messages."""

    plan: str
    number: int
    split: Split
    prints: tuple[int, ...]
    reported: frozenset[int] = frozenset()
    """physicalOffset of what is no message and was exported as such by an earlier increment"""
    had: Had | None = None


@dataclass(frozen=True)
class Plan:
    """One increment: the first, or what came since.  asked: the options as they were given.

    line: the same for a plan and for those in which it was mended; revision: how often that was.  after: line of the plan before.
    behind: of each split of that one the entry that counted then, and counts from then on: a task that was lost may end later,
    and what it read of a log that grows is something else.  Plans of older versions do not say it.
    """

    identity: str
    line: str
    revision: int
    after: str
    increment: int
    asked: dict[str, Any]
    splits: tuple[Numbered, ...]
    behind: Mapping[int, Behind] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{DIRECTORY}/plan-{self.increment:05}-{self.identity[:8]}.json"


def log_key(store: Store) -> LogKey:
    """Of the log of a store."""
    return store.uri, store.root, store.logs, store.lone


def is_misplaced(split: Split) -> bool:
    """Whether its units say that they are elsewhere than their files' names say: `next` of it would not be of this log.

    A file without a directory is what it says itself.
    """
    return not split.store.lone and any(part.displaced_by for part in split.parts)


def asked_for(options: Options, files: FileOptions) -> dict[str, Any]:
    """What two starts must have in common: it is written down.  Raises `BadOption` for what must not be."""
    for uri in options.paths:
        if (shown := without_keys(uri)) != uri:
            raise BadOption(f"{shown}: the URI has keys in it, which an export would write down: give them by the environment")
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
            "plan": one.plan,
            "number": one.number,
            "store": asdict(one.split.store),
            "startingPhysicalOffset": one.split.options.starting_offset,
            "parts": [list(part) for part in one.split.parts],
            "prints": list(one.prints),
            "reported": sorted(one.reported),
        }
        for one in plan.splits
    ]
    made = {name: getattr(plan, name) for name in ("identity", "line", "revision", "after", "increment", "asked")}
    made["behind"] = [[number, *one] for number, one in plan.behind.items()]
    if plan.splits:
        made |= {name: getattr(plan.splits[0].split.options, name) for name in CUT}
    destination.put(plan.name, json.dumps({"version": VERSION, **made, "splits": splits}, ensure_ascii=False, indent=1).encode())


def read_plan(destination: Destination, name: str, options: Options) -> Plan | None:
    """options: with which its splits are to be read, but for `CUT`.  None also when it was being written as somebody died.

    Raises `CannotRead`, `CannotExport`.
    """
    return versioned(destination, name, "plan", lambda found: _plan_of(found, options))


def _plan_of(found: Mapping[str, Any], options: Options) -> Plan:
    cut = {name: found[name] for name in CUT if name in found}
    splits = tuple(
        Numbered(
            one["plan"],
            one["number"],
            Split(
                replace(options, starting_offset=one["startingPhysicalOffset"], **cut),
                Store(**one["store"] | {"logs": tuple(one["store"]["logs"])}),
                tuple(Part(*part) for part in one["parts"]),
            ),
            tuple(one["prints"]),
            frozenset(one["reported"]),
        )
        for one in found["splits"]
    )
    kept = {name: found[name] for name in ("identity", "line", "revision", "after", "increment", "asked")}
    behind = {number: Behind(*one) for number, *one in found.get("behind", ())}
    return Plan(**kept, splits=splits, behind=behind)


def choose(to: str, plans: Iterable[Plan], done: Iterable[Done], recorded: frozenset[str]) -> list[Plan]:
    """The plans that count, one for each increment.  recorded: identities that the last start went by.

    An increment is planned when the one before is complete, so the longest line of plans counts; of two of equal length the one
    that was gone by and has entries, then the one with more of them.  Raises `CannotExport` when one is gone.
    """
    listed = list(plans)
    if not listed:
        return []
    entries: dict[tuple[str, int], int] = defaultdict(int)
    for one in done:
        entries[one.plan, one.split] = 1

    def rank(plan: Plan) -> tuple[Any, ...]:
        count = sum(entries.get((one.plan, one.number), 0) for one in plan.splits)
        is_recorded = plan.identity in recorded
        return is_recorded and count > 0, count, is_recorded, plan.identity

    last = max(one.increment for one in listed)
    lines: dict[str, list[Plan]] = defaultdict(list)
    for plan in listed:
        lines[plan.line].append(plan)
    newest = {line: max(of, key=lambda plan: (plan.revision, *rank(plan))) for line, of in lines.items()}
    found = [max((plan for plan in newest.values() if plan.increment == last), key=rank)]
    while found[0].increment:
        before = newest.get(found[0].after)
        if before is None:
            raise CannotExport(to, -1, f"the plan of increment {found[0].increment - 1} is gone: {DIRECTORY} must stay whole")
        found.insert(0, before)
    return found


def mended(plan: Plan, seams: set[tuple[int, str]], identity: str, number: int) -> Plan | None:
    """A plan in which the files of these splits (number, first 8 digits of the plan) are not cut; None where none is.

    identity: of the new plan; number: the first that is free.
    """
    torn = {one.number for one in plan.splits if (one.number, one.plan[:8]) in seams}
    paths = {(log_key(one.split.store), part.path) for one in plan.splits if one.number in torn for part in one.split.parts}
    made: list[Numbered] = []
    has_changed = False
    for one in plan.splits:
        key = log_key(one.split.store)
        before = made[-1] if made else None
        is_one_file = (
            before is not None and log_key(before.split.store) == key and before.split.parts[-1].path == one.split.parts[0].path
        )
        if before is not None and is_one_file and (key, one.split.parts[0].path) in paths:
            made[-1] = _joined(before, one)._replace(plan=identity)
            has_changed = True
        else:
            made.append(one)
    if not has_changed:
        return None
    for at, one in enumerate(made):
        if one.plan == identity:
            made[at], number = one._replace(number=number), number + 1
    return Plan(identity, plan.line, plan.revision + 1, plan.after, plan.increment, plan.asked, tuple(made), plan.behind)


def _joined(first: Numbered, second: Numbered) -> Numbered:
    """One split, in which the last part of one and the first of the other, of one file, are one."""
    left, right = first.split.parts[-1], second.split.parts[0]
    part = left._replace(end=right.end, ends_file=right.ends_file)
    parts = (*first.split.parts[:-1], part, *second.split.parts[1:])
    split = replace(first.split, parts=parts)
    return first._replace(split=split, prints=first.prints + second.prints[1:], reported=first.reported | second.reported)


# --- by what a log is known again


def prints_of(tree: Tree, split: Split) -> tuple[int, ...]:
    """Of the first message of each file of a split; `NOTHING` where no whole one begins it, or the file is gone."""
    return tuple(at_once(lambda part: _first_print(tree, part), split.parts, 1 if tree.is_local else AT_ONCE))


def _first_print(tree: Tree, part: Part) -> int:
    found = print_at(tree, part, 0)
    return NOTHING if found is None else found


def print_at(tree: Tree, part: Part, at: int) -> int | None:
    """Of the message at this byte of a part's file: CRC of its head, which is written at once and never changes."""
    try:
        with tree.open(part.path) as file:
            if Seeker(file, part.file_start + part.displaced_by, file.size(), PROBE_BYTES).next_place(at) < 0:
                return None
            return zlib.crc32(file.read(at, FIXED_SIZE_MIN))
    except FileGone:
        return None


def check_prints(where: str, one: Numbered) -> None:
    """Raises `CannotExport` when a file is another one than when it was planned.  One that is gone is the reader's matter."""
    tree = one.split.store.tree(one.split.options)
    for part, before, now in zip(one.split.parts, one.prints, prints_of(tree, one.split), strict=True):
        if before != NOTHING and now not in (before, NOTHING):
            raise CannotExport(where, -1, f"holds the export of another store: {part.path} began with another message")


def check_there(where: str, one: Numbered) -> None:
    """Raises `CannotExport` when the whole log is gone: nobody but retention, which leaves the directory, takes files away."""
    store = one.split.store
    tree = store.tree(one.split.options)
    if (store.lone and tree.file_size(store.lone) is None) or all(tree.entries(log) is None for log in store.logs):
        raise CannotExport(where, -1, f"the log is not where it was: {store.lone or ', '.join(store.logs)}")


def next_number(plans: Iterable[Plan]) -> int:
    """The first that no split has."""
    return max((one.number for plan in plans for one in plan.splits), default=-1) + 1


def by_number(done: Iterable[Done], plans: Iterable[Plan]) -> Mapping[int, list[Done]]:
    """Split -> its entries, by name; those of splits of other plans are left out."""
    wanted = {(one.plan, one.number) for plan in plans for one in plan.splits}
    found: dict[int, list[Done]] = defaultdict(list)
    for one in done:
        if (one.plan, one.split) in wanted:
            found[one.split].append(one)
    return found
