"""A store directory as a list of files by kind, and bounded reading of any of them.

Nothing here writes, locks or maps: a live broker goes on undisturbed, files may grow or vanish while they are read, and every
number a caller gets is what was true at that moment.  (A map would be SIGBUS when somebody shortens the file.)  Links are
never followed, neither the last part of a path nor one before it: whatever is opened lies beneath the root or beneath a
commit-log path that was named by the user.  What does not belong is a `Stray` with a reason; it is listed, never opened.
The walk over log, queues and index is that of columns and Spark, `rmq_columns.files.store_tree`; only here its directories are
opened, one beneath the other, and what it leaves out is kept.
Source of the tree: `StorePathConfigHelper`, `MultiPathMappedFileQueue`, `BrokerPathConfigHelper` of the reference.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple

from rmq_columns.files.filesystem import Entry, LeftOut, listed, path_of, translated, why
from rmq_columns.files.store_tree import Found, StoreTree
from rmq_inspect.decode.reader import Reader as Reader
from rmq_inspect.decode.reader import open_beneath, open_directory
from rmq_inspect.errors import CannotLook
from rmq_wire import store_names
from rmq_wire.store_names import COMMIT_LOG

STRAYS_MAX: Final = 1000
"""Kept by name; more are only counted."""


class Kind(StrEnum):
    """What a file is, by its place in the tree."""

    COMMIT_LOG = "commit log"
    CONSUME_QUEUE = "consume queue"
    EXTENSION = "consume queue extension"
    BATCH_QUEUE = "batch consume queue"
    INDEX = "index"
    CHECKPOINT = "checkpoint"
    ABORT = "abort"
    LOCK = "lock"
    CONFIG = "config"
    TIMER_CHECK = "timer checkpoint"
    TIMER_LOG = "timer log"
    TIMER_WHEEL = "timer wheel"
    OTHER = "other"
    """Known to belong to a broker, but no layout of ours: RocksDB, compaction, backups."""


class Stray(NamedTuple):
    """Something in the store that no broker put there, or that we do not open."""

    name: str
    why: str


@dataclass(frozen=True, slots=True)
class StoreFile:
    """One file.  name: as shown, relative to the root (a foreign commit-log path in full).  size: bytes when it was listed."""

    base: str
    """directory that was named by the user"""
    parts: tuple[str, ...]
    """path beneath it"""
    name: str
    kind: Kind
    size: int
    start: int = -1
    """byte of its log or queue at which it begins, from its name; -1 when the name is no offset"""
    topic: str = ""
    queue_id: int = -1

    @property
    def path(self) -> Path:
        """Where it is; to be shown, open it with `open`."""
        return Path(self.base, *self.parts)

    @property
    def end(self) -> int:
        """Byte of its log or queue behind its last one."""
        return self.start + self.size

    def open(self) -> Reader:
        """Raises `CannotLook` when it is gone, not a regular file any more, or may not be read."""
        return Reader(open_beneath(self.base, self.parts), self.name)


@dataclass
class StoreDirectory:
    """The files of one store.  Lists are sorted by where the files begin; index files by name, that is by time."""

    root: Path
    commit_log: list[StoreFile] = field(default_factory=list)
    """of all commit-log paths together"""
    queues: dict[tuple[str, int], list[StoreFile]] = field(default_factory=dict)
    """(topic, queue id) -> files"""
    extensions: dict[tuple[str, int], list[StoreFile]] = field(default_factory=dict)
    batch_queues: dict[tuple[str, int], list[StoreFile]] = field(default_factory=dict)
    index: list[StoreFile] = field(default_factory=list)
    timer_log: list[StoreFile] = field(default_factory=list)
    config: dict[str, StoreFile] = field(default_factory=dict)
    """file name (`topics.json`, `topics.json.bak`, `timermetrics`) -> file"""
    checkpoint: StoreFile | None = None
    abort: StoreFile | None = None
    lock: StoreFile | None = None
    timer_wheel: StoreFile | None = None
    timer_check: StoreFile | None = None
    others: list[StoreFile] = field(default_factory=list)
    strays: list[Stray] = field(default_factory=list)
    stray_count: int = 0
    """also of those that are not in `strays`"""

    def files(self) -> Iterator[StoreFile]:
        """Every file that has a kind: the log first, then what is derived from it, then the rest."""
        yield from self.commit_log
        for queues in (self.queues, self.extensions, self.batch_queues):
            for key in sorted(queues):
                yield from queues[key]
        yield from self.index
        yield from self.timer_log
        singles = (self.timer_wheel, self.timer_check, self.checkpoint, self.abort, self.lock)
        yield from (file for file in singles if file is not None)
        yield from (self.config[name] for name in sorted(self.config))
        yield from self.others

    @property
    def is_fresh(self) -> bool:
        """Whether a broker has made it and nobody has sent anything yet: there is no log, and nothing that was made of one."""
        derived = (*self.queues.values(), *self.batch_queues.values(), self.index)
        return not self.commit_log and not any(derived) and (self.root / COMMIT_LOG).is_dir()

    def find(self, path: Path) -> StoreFile | None:
        """The file of this path, given from the current directory."""
        wanted = os.path.abspath(path)
        return next((file for file in self.files() if os.path.abspath(file.path) == wanted), None)

    def last_log_start(self) -> int:
        """Where the last file of the log begins, of those that are there now.  Raises `CannotLook`."""
        directories = {(file.base, file.parts[:-1]) for file in self.commit_log}
        ignored = StoreDirectory(self.root)
        starts = (file.start for base, parts in directories for file in _beneath(ignored, base).offset_files(*parts))
        return max(starts, default=0)

    def stray(self, name: str, why: str) -> None:
        self.stray_count += 1
        if len(self.strays) < STRAYS_MAX:
            self.strays.append(Stray(name, why))


def list_store(root: str | os.PathLike[str], commit_logs: Sequence[str | os.PathLike[str]] = ()) -> StoreDirectory:
    """The files beneath root; commit_logs: directories of the log when they are not root/commitlog (`storePathCommitLog`).

    The paths named here may be links, what lies beneath them may not.  Raises `CannotLook` when one of them cannot be listed.
    """
    base = os.fspath(root)
    found = StoreDirectory(Path(base))
    for entry in _beneath(found, base, required=True).entries(()):
        _place(found, base, entry)
    for other in commit_logs:
        path = os.fspath(other)
        if os.path.realpath(path) != os.path.realpath(os.path.join(base, COMMIT_LOG)):
            for file in _beneath(found, path, path, required=True).offset_files():
                shown = os.path.join(path, *file.parts)
                found.commit_log.append(StoreFile(path, file.parts, shown, Kind.COMMIT_LOG, file.size, file.start))
            name = os.path.relpath(os.path.realpath(path), os.path.realpath(base)) + "/"
            others = [stray for stray in found.strays if stray.name != name]
            found.stray_count -= len(found.strays) - len(others)
            found.strays = others
    found.commit_log.sort(key=_start)
    return found


def _start(file: StoreFile) -> int:
    return file.start


QUEUE_TREES: Final = {
    store_names.QUEUES: Kind.CONSUME_QUEUE,
    store_names.EXTENSIONS: Kind.EXTENSION,
    store_names.BATCH_QUEUES: Kind.BATCH_QUEUE,
}
SINGLES: Final = {
    store_names.CHECKPOINT: Kind.CHECKPOINT,
    store_names.ABORT: Kind.ABORT,
    store_names.LOCK: Kind.LOCK,
    "timerwheel": Kind.TIMER_WHEEL,
}
FOREIGN_TREES: Final = {"compaction", "rocksdbstore", "kvStore", "consumequeue_rocksdb", "transaction", "timerrocksdb"}
"""Directories of the reference that hold nothing with a layout of ours."""
NEIGHBOURS: Final = ("namesrv", "broker-")
"""How directories begin that `rmq dev` puts beside its first broker's: the name server's, and the stores of further brokers."""
CONFIG_NAMES: Final = (".json", "timermetrics", "transactionMetrics")
FOREIGN_FILES: Final = {
    "abort.bak",
    "abort.boot",
    "inventory",
    "epochFileCheckpoint",
    "epochFileCheckpoint.bak",
    "brokerIdentity",
    "brokerIdentity-temp",
}


def _place(found: StoreDirectory, base: str, entry: Entry) -> None:
    name = entry.name
    if entry.is_directory:
        _place_directory(found, base, name)
    elif name in SINGLES:
        file = StoreFile(base, (name,), name, SINGLES[name], entry.size)
        setattr(found, {"timerwheel": "timer_wheel"}.get(name, name), file)
    elif name in FOREIGN_FILES or name.startswith("timerwheel."):
        found.others.append(StoreFile(base, (name,), name, Kind.OTHER, entry.size))
    else:
        found.stray(name, "no file of a store has this name")


def _place_directory(found: StoreDirectory, base: str, name: str) -> None:
    if name == COMMIT_LOG:
        found.commit_log = _offset_files(found, base, (name,), Kind.COMMIT_LOG)
    elif name in QUEUE_TREES:
        _queue_tree(found, base, name)
    elif name == store_names.INDEX:
        found.index = [_index_file(base, file) for file in _beneath(found, base).index_files()]
    elif name == "timerlog":
        found.timer_log = _offset_files(found, base, (name,), Kind.TIMER_LOG)
    elif name == store_names.CONFIG:
        _config(found, base)
    elif name not in FOREIGN_TREES and not name.startswith(NEIGHBOURS):
        found.stray(f"{name}/", "no directory of a store has this name")


def _offset_files(found: StoreDirectory, base: str, parts: tuple[str, ...], kind: Kind) -> list[StoreFile]:
    return [_file(base, kind, file) for file in _beneath(found, base).offset_files(*parts)]


def _queue_tree(found: StoreDirectory, base: str, tree: str) -> None:
    kind = QUEUE_TREES[tree]
    queues = {Kind.CONSUME_QUEUE: found.queues, Kind.EXTENSION: found.extensions, Kind.BATCH_QUEUE: found.batch_queues}[kind]
    for topic, queue_id, files in _beneath(found, base).queues(tree):
        queues[topic, queue_id] = [_file(base, kind, file, topic, queue_id) for file in files]


def _file(base: str, kind: Kind, file: Found, topic: str = "", queue_id: int = -1) -> StoreFile:
    return StoreFile(base, file.parts, path_of(*file.parts), kind, file.size, file.start, topic, queue_id)


def _index_file(base: str, file: Found) -> StoreFile:
    return StoreFile(base, file.parts, path_of(*file.parts), Kind.INDEX, file.size)


def _config(found: StoreDirectory, base: str) -> None:
    for name, is_directory, size in _beneath(found, base).entries((store_names.CONFIG,)):
        parts = (store_names.CONFIG, name)
        shown = path_of(*parts)
        if is_directory:  # users, acls, metadata: RocksDB of optional features
            continue
        if name == "timercheck":
            found.timer_check = StoreFile(base, parts, shown, Kind.TIMER_CHECK, size)
        elif name.removesuffix(".tmp").removesuffix(".bak").endswith(CONFIG_NAMES):
            found.config[name] = StoreFile(base, parts, shown, Kind.CONFIG, size)
        else:
            found.stray(shown, "no configuration file has this name")


def _beneath(found: StoreDirectory, base: str, shown: str = "", *, required: bool = False) -> StoreTree:
    """The walk over a directory that the user named; shown: as it is called before the names of what lies there."""

    def left_out(name: str, why: str) -> None:
        found.stray(os.path.join(shown, name), why)

    return StoreTree(lambda parts: _entries(base, parts, left_out, required=required), left_out)


def _entries(base: str, parts: tuple[str, ...], left_out: LeftOut, *, required: bool) -> Iterator[Entry]:
    """Files and directories, by name.  A directory that vanished is empty.  Raises `NotPermitted`, `CannotLook`."""
    path = os.path.join(base, *parts)
    try:
        descriptor = open_directory(base, parts)
    except OSError as reason:
        if required:
            raise CannotLook(f"{path}: {why(reason)}") from reason
        if reason.errno != errno.ENOENT:
            left_out(path_of(*parts, ""), f"cannot be listed: {why(reason)}")
        return
    try:
        with translated(path):
            there = listed(path, lambda name, why: left_out(path_of(*parts, name), why), descriptor)
    finally:
        os.close(descriptor)
    yield from there
