"""How far each broker's log is exported, and what an increment takes: for each log on its own what stands behind that.

The next increment begins where the last sound message ends that was exported, or where a file ends behind which the broker had
begun another when it was planned; of files whose units say that they are elsewhere only that counts.  Bytes behind it that are no
message are looked at again: a broker that recovers writes there.
A log is known by where it lies; the name under which its broker was first exported stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby

from rmq_columns.errors import BadOption
from rmq_columns.export.manifest import CannotExport, Done
from rmq_columns.export.plan import (
    NOTHING,
    Behind,
    LogKey,
    Numbered,
    Plan,
    is_misplaced,
    log_key,
    next_number,
    print_at,
    prints_of,
)
from rmq_columns.read.options import Options
from rmq_columns.read.plan import Part, Split, plan_store
from rmq_columns.read.stores import LogFile, Store, list_stores


@dataclass
class Reached:
    """Of one broker's log.  Offsets are physical; messages: place -> print, of some by which it is known again."""

    broker_name: str
    next: int | None = None
    """where the next increment begins; None when nothing of it was there"""
    reported: set[int] = field(default_factory=set)
    """of what is no message, from there on"""
    last: tuple[int, int] | None = None
    """the last message that was exported: place and print"""
    top: tuple[int, int] | None = None
    """the first message of the last file that had one: place and print"""
    misplaced: str = ""
    """the file that was written to last, if its units say that they are elsewhere: what came since is unknown"""


def reached(plans: Iterable[Plan], done: Mapping[int, Done]) -> dict[LogKey, Reached]:
    """done: of every split that has an entry that holds; others are passed over."""
    found: dict[LogKey, Reached] = {}
    for plan in plans:
        for one in plan.splits:
            state = found.setdefault(log_key(one.split.store), Reached(one.split.store.broker_name))
            _note_files(state, one)
            entry = done.get(one.number)
            if entry is None:
                continue
            if entry.next is not None and (state.next is None or entry.next >= state.next):
                state.next = entry.next
                state.reported.clear()
                state.last = (entry.last or 0, entry.print) if entry.print is not None else None
            state.reported.update(entry.trailing)
            for part in one.split.parts:
                if part.is_active and is_misplaced(one.split):
                    state.misplaced = part.path
                if part.ends_file and not part.is_active:
                    state.next = max(state.next or 0, part.file_start + part.end)
    return found


def _note_files(state: Reached, one: Numbered) -> None:
    for part, made in zip(one.split.parts, one.prints, strict=True):
        if made != NOTHING and not part.displaced_by and (state.top is None or part.file_start >= state.top[0]):
            state.top = part.file_start, made


def new_plan(identity: str, plans: list[Plan], done: Mapping[int, Done], asked: dict[str, object], reading: Options) -> Plan:
    """All there is, or what came since all that was planned was done.

    Raises `CannotRead`, `BadOption`, `CannotExport` when a log was cut off meanwhile.
    """
    states = reached(plans, done)
    number = next_number(plans)
    splits: list[Numbered] = []
    stores = list_stores(reading)
    _follow(stores, reading, states)
    for store in _named(stores, states):
        state = states.get(log_key(store))
        start = reading.starting_offset
        if state is not None:
            check_kept(store, reading, state)
            if state.misplaced:
                raise _misplaced(state.misplaced)
            start = start if state.next is None else state.next
        reported = frozenset(state.reported) if state is not None else frozenset[int]()
        for split in _split(store, replace(reading, starting_offset=start), None if state is None else state.next):
            splits.append(Numbered(identity, number, split, prints_of(store.tree(reading), split), reported))
            number += 1
    if not plans:
        return Plan(identity, identity, 0, "", 0, asked, tuple(splits))
    before = plans[-1]
    behind = {number: Behind(one.data[1], one.rows, one.next, one.trailing, one.pruned) for number, one in _of(before, done)}
    return Plan(identity, identity, 0, before.line, len(plans), asked, tuple(splits), behind)


def _of(plan: Plan, done: Mapping[int, Done]) -> Iterator[tuple[int, Done]]:
    return ((one.number, done[one.number]) for one in plan.splits)


def _follow(stores: list[Store], options: Options, states: dict[LogKey, Reached]) -> None:
    """A log that lies elsewhere now goes on where it was: it is known by its messages."""
    gone = [states[key] for key in states.keys() - {log_key(store) for store in stores}]
    for store in stores if gone else ():
        for before in gone:
            now = states.get(log_key(store), before)
            if _is_same(store, options, before):
                further = before if (now.next or 0) < (before.next or 0) else now
                states[log_key(store)] = replace(
                    further,
                    broker_name=now.broker_name,
                    reported=before.reported | now.reported,
                    top=now.top or before.top,
                    misplaced=before.misplaced or now.misplaced,
                )


def _is_same(store: Store, options: Options, state: Reached) -> bool:
    """Whether messages by which a log is known are in this one, at their places."""
    if store.lone:
        return False
    tree = store.tree(options)
    files = store.log_files(tree)
    found = []
    for place, made in filter(None, (state.top, state.last)):
        file = next((one for one in files if one.start <= place < one.end), None)
        if file is not None:
            found.append(print_at(tree, Part(file.path, file.start, 0, file.size), place - file.start) == made)
    return bool(found) and all(found)


def _named(stores: list[Store], states: Mapping[LogKey, Reached]) -> Iterator[Store]:
    """A broker keeps the name that it was exported under; a new one gets one that no other has had."""
    used = {state.broker_name: key for key, state in states.items()}
    for store in stores:
        key = log_key(store)
        if key in states:
            yield replace(store, broker_name=states[key].broker_name)
            continue
        names = (store.broker_name, store.root or store.logs[0])
        free = next((name for name in names if store.lone or used.setdefault(name, key) == key), None)
        if free is None:
            raise BadOption(f"brokerName: {names[1]} has the name of another broker that was exported: {names[0]}")
        yield replace(store, broker_name=free)


def _split(store: Store, options: Options, before: int | None) -> Iterator[Split]:
    """before: what was exported ends here; if the log begins later, the first split says that bytes are missing.

    Files whose units say that they are elsewhere are split from others.  Raises `CannotExport` where an increment meets one.
    """
    late = None if before is None or store.lone else _behind_a_gap(store, options, before)
    for split in plan_store(options, store):
        first = split.parts[0]
        if late is not None and before is not None and first.path == late.path and not first.start and not first.displaced_by:
            parts = (first._replace(missing_before=late.start - before), *split.parts[1:])
            split = replace(split, parts=parts)
        for is_apart, some in groupby(split.parts, lambda part: part.displaced_by != 0):
            parts = tuple(some)
            if is_apart and before is not None and not store.lone and parts[0].displaced_by < 0:
                raise _misplaced(parts[0].path)  # places that are behind us: they would be left out
            yield replace(split, parts=parts)


def _behind_a_gap(store: Store, options: Options, before: int) -> LogFile | None:
    """The file with which the log goes on behind this place, if bytes between are in none.

    Among all files, not only those that are read: one outside the range of time is there nevertheless.
    """
    following = next((file for file in store.log_files(store.tree(options)) if file.end > before), None)
    return following if following is not None and following.start > before else None


def _misplaced(path: str) -> CannotExport:
    return CannotExport(
        path,
        0,
        "the units of this file say that they are elsewhere in the log: what of it came since is unknown.  What is "
        "exported stays; export the log as it is now to another directory",
    )


def check_kept(store: Store, options: Options, state: Reached) -> None:
    """The messages by which a log is known again are there, or its beginning was removed: retention does that.

    Raises `CannotExport` when it was cut off, or written anew, before the place up to which it is exported.
    """
    known = [one for one in (state.top, state.last) if one is not None]
    if not known or store.lone:
        return
    tree = store.tree(options)
    files = store.log_files(tree)
    for place, made in known:
        file = next((one for one in files if one.start <= place < one.end), None)
        if file is None and (not files or files[-1].end > place):
            continue  # removed
        now = None if file is None else print_at(tree, Part(file.path, file.start, 0, file.size), place - file.start)
        if now != made:
            where = file.path if file is not None else (store.root or store.logs[0])
            raise CannotExport(
                where,
                -1 if file is None else place - file.start,
                "the log has not the message any more that was exported from here: it was cut off (a broker does so when it "
                "recovers) or begun anew.  What is exported stays; export the log as it is now to another directory",
            )
