"""What rebuilding queues needs to know that is not in the log, found in the store: kinds of queues, sizes of files, delay levels.

Everything here is small: directories are listed, one message of each delay level is read.
Sources: `MessageStoreConfig`, `TopicAttributes.QUEUE_TYPE_ATTRIBUTE`, `ScheduleMessageService`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, islice
from typing import Final
from uuid import uuid4

from rmq_columns.decode.dtypes import BATCH_UNIT, QUEUE_UNIT
from rmq_columns.decode.queues import is_written, queue_units
from rmq_columns.decode.scan import FIXED_SIZE_MAX
from rmq_columns.errors import BadOption, CannotRead
from rmq_columns.files.filesystem import Tree, joined, local_path
from rmq_columns.read.options import Options, Table
from rmq_columns.read.plan import Split, plan_splits
from rmq_columns.read.stores import LogFile, Store, list_stores
from rmq_columns.rebuild.entries import Key, Rules
from rmq_columns.rebuild.files import EXTENSION_BYTES, EXTENSION_FILE_BYTES, UNITS_PER_FILE, Target
from rmq_columns.rebuild.pieces import gathering
from rmq_columns.rebuild.place import MARK, UNFINISHED, check_place, place_of, work_of
from rmq_columns.rebuild.runs import Piece
from rmq_wire.implied.delay_levels import DELAY_LEVELS_MS, parse_delay_levels
from rmq_wire.layout.consume_queue import EXT_END_BYTES
from rmq_wire.layout.message import BORN_V6, FIXED, HEAD_FLAT, MAGIC_V1, MAGIC_V2, STORE_V6
from rmq_wire.names import SCHEDULE_TOPIC
from rmq_wire.store_names import BATCH_QUEUES, EXTENSIONS, QUEUES

LOOKED_AT_MAX: Final = 256
"""Queues whose files show how large files of queues are."""
UNITS_READ: Final = 1024
"""Of a queue of delayed messages, in search of one whose message is still in the log."""
NOT_IN_NAMES: Final = re.compile(r"[\x00-\x1f/\\]")
NAME_CHARACTERS_MAX: Final = 60
"""Of a directory: four bytes each at most, and file systems take 255."""
DELAY_MS_MAX: Final = 40 * 86_400_000
"""A longer one was not meant as a delay."""
_HEAD: Final = HEAD_FLAT


@dataclass(frozen=True)
class Plan:
    """Of one store.  number: of the store among those that were named.  to: of all stores.  run: of this start alone."""

    number: int
    store: Store
    rules: Rules
    target: Target
    to: str = ""
    run: str = ""


@dataclass(frozen=True)
class Task:
    """One split of the log of a store.  pieces: of the second round, None in the first.

    broken_at: only to say the runs of these queues again, broken at these offsets; nothing is written.
    """

    plan: Plan
    split: Split
    number: int
    pieces: Mapping[Key, tuple[Piece, ...]] | None = None
    broken_at: Mapping[Key, tuple[int, ...]] | None = None


def log_options(options: Options) -> Options:
    """The same for the log as a whole.  Raises `BadOption` for ranges: a queue with half of its units is none."""
    if options.wants_time() or options.wants_offset() or options.wants_queue_offset():
        raise BadOption("a range of timestamps, physical or queue offsets: a queue is made whole")
    return replace(options, table=Table.MESSAGES, include_system_topics=True, columns=None, topics=None, queue_ids=None)


def plan_build(
    options: Options,
    to: str,
    *,
    levels: str | None = None,
    queue_file_bytes: int | None = None,
    batch_topics: Sequence[str] = (),
    extensions: bool = False,
    shuffle: bool = False,
) -> tuple[list[Plan], list[Task]]:
    """What is to be made, and the tasks of the first round.

    levels: `messageDelayLevel`; without it the store's own delayed messages say, and what they do not is Java's default.
    queue_file_bytes: `mappedFileSizeConsumeQueue` where no queue file says.  batch_topics: with queue.type=BatchCQ, beside
    those that the stores name.  extensions: `enableConsumeQueueExt` was on from the beginning, also of queues that have none now.
    shuffle: pieces of files meet, and each file is put whole (`pieces`): `to` may be a URI then.

    Nothing is written yet; that the place can be used is known.  Raises `BadOption`, `CannotRead`, ValueError.
    """
    is_uri = shuffle and local_path(to) is None
    to = to.rstrip("/") if is_uri else place_of(to)
    wanted, options = options, log_options(options)
    delays = DELAY_LEVELS_MS if levels is None else parse_delay_levels(levels)
    rules = Rules(delays, topics=wanted.topics, queue_ids=wanted.queue_ids)
    stores = list_stores(options)
    if len({store.broker_name for store in stores}) < len(stores):
        raise BadOption("path: several files of one log, of each of which queues would be made; name the log's directory")
    if not is_uri:
        check_place(to, stores)
    run = uuid4().hex
    plans = []
    for number, (store, name) in enumerate(zip(stores, directories([one.broker_name for one in stores]), strict=True)):
        tree = store.tree(options)
        known = frozenset(batch_topics) | _batch_topics(tree, store)
        inside = name if len(stores) > 1 else ""
        root = joined(to, inside) if inside else to
        own = replace(rules, batch_topics=known, extended=None if extensions else _extended(tree, store))
        if levels is None:
            own = replace(own, delay_levels_ms=seen_levels(tree, store, own.delay_levels_ms))
        target = _target(tree, store, root, "" if shuffle else work_of(to, run, number), queue_file_bytes)
        if shuffle:
            target = gathering(target, inside)
        plans.append(Plan(number, store, own, target, to, run))
    by_store = {plan.store: plan for plan in plans}
    splits = plan_splits(options)
    if any(split.store not in by_store for split in splits):
        raise CannotRead(options.paths[0], -1, "stores came or went while they were listed: start again")
    return plans, [Task(by_store[split.store], split, number) for number, split in enumerate(splits)]


def directories(names: Sequence[str]) -> list[str]:
    """A directory for each broker: its name, or what is left of one that cannot be a directory's; no two are equal."""
    found: list[str] = []
    for name in names:
        plain = NOT_IN_NAMES.sub("_", name)[-NAME_CHARACTERS_MAX:]
        if plain.startswith((".", MARK)) or plain in ("", UNFINISHED):
            plain = f"_{plain}"
        tries = (plain if not number else f"{plain}-{number + 1}" for number in count())
        found.append(next(one for one in tries if one.casefold() not in {other.casefold() for other in found}))
    return found


def _batch_topics(tree: Tree, store: Store) -> frozenset[str]:
    """With queue.type=BatchCQ, as topics.json has it; else those that have such queues."""
    try:
        table = store.topics(tree)
    except CannotRead:
        table = None
    if table is not None:
        return frozenset(
            topic
            for topic, config in table.items()
            if isinstance(config, dict)
            and isinstance(said := config.get("attributes"), dict)
            and said.get("queue.type") == "BatchCQ"
        )
    return store.queue_topics(tree, (BATCH_QUEUES,))


def _extended(tree: Tree, store: Store) -> frozenset[tuple[str, int]]:
    return frozenset((queue.topic, queue.queue_id) for queue in store.queues_in(tree, EXTENSIONS))


def seen_levels(tree: Tree, store: Store, levels: tuple[int, ...]) -> tuple[int, ...]:
    """The delay levels, those corrected of which a queue unit says when its message was due: queue n has level n + 1."""
    found = list(levels)
    logs = store.log_files(tree)
    for queue in store.queues_in(tree, QUEUES, lambda topic: topic == SCHEDULE_TOPIC, range(len(found))):
        for file in reversed([file for file in queue.files if file.size]):
            with tree.open(file.path) as opened:
                units = queue_units(opened.read(0, UNITS_READ * QUEUE_UNIT.itemsize))
            for unit in units[is_written(units)][::-1]:
                stored = _stored_ms(tree, logs, int(unit["physical_offset"]))
                delay = int(unit["tags_code"]) - stored
                if stored > 0 and 0 < delay < DELAY_MS_MAX:
                    found[queue.queue_id] = delay
                    break
            else:
                continue
            break
    return tuple(found)


def _stored_ms(tree: Tree, logs: Sequence[LogFile], physical: int) -> int:
    """Store time of the message at this place of the log; -1 when none begins there."""
    for file in logs:
        if file.start <= physical < file.end:
            with tree.open(file.path) as opened:
                head = opened.read(physical - file.start, FIXED_SIZE_MAX)
            if len(head) == FIXED_SIZE_MAX:
                fields = dict(zip(_HEAD.names, _HEAD.packed.unpack_from(head), strict=True))
                fixed = FIXED[fields["sys_flag"] & (BORN_V6 | STORE_V6)]
                if fields["magic"] in (MAGIC_V1, MAGIC_V2) and fields["physical_offset"] == physical:
                    return int(fixed.field("store_timestamp").unpack_from(head, fixed.at["store_timestamp"])[0])
    return -1


def _target(tree: Tree, store: Store, root: str, work: str, given: int | None) -> Target:
    """File sizes: those that most files of the store's queues have."""
    units = QUEUE_UNIT.itemsize
    own = _file_bytes(tree, store, QUEUES, units) or UNITS_PER_FILE * units
    own = own if given is None else -(-given // units) * units
    batch = _file_bytes(tree, store, BATCH_QUEUES, BATCH_UNIT.itemsize) or UNITS_PER_FILE * BATCH_UNIT.itemsize
    extension = _file_bytes(tree, store, EXTENSIONS, 1)
    least = EXTENSION_BYTES + EXT_END_BYTES
    return Target(root, work, own, batch, extension if extension >= least else EXTENSION_FILE_BYTES)


def _file_bytes(tree: Tree, store: Store, name: str, unit: int) -> int:
    sizes = Counter(
        file.size
        for queue in islice(store.queues_in(tree, name), LOOKED_AT_MAX)
        for file in queue.files
        if file.size and file.size % unit == 0
    )
    return sizes.most_common(1)[0][0] if sizes else 0
