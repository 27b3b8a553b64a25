"""Which stores the paths mean, and the files of each, listed when they are asked for and not before.

A path is a store directory, a directory of brokers, a commit log directory or one file; `auto` looks at what lies in it.
Sources of the tree: `StorePathConfigHelper`, `MultiPathMappedFileQueue`, `BrokerPathConfigHelper` of the reference.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from rmq_columns.errors import BadOption, CannotRead
from rmq_columns.files.config import config_bytes, config_value
from rmq_columns.files.filesystem import SCHEME, Tree, joined
from rmq_columns.files.resolve import resolve
from rmq_columns.files.store_tree import Found, StoreTree
from rmq_columns.read.options import Layout, Options
from rmq_wire.layout.message import BLANK_FLAT, MAGIC_BLANK, MAGIC_V1, MAGIC_V2
from rmq_wire.store_names import BATCH_QUEUES, CHECKPOINT, COMMIT_LOG, CONFIG, INDEX, QUEUES, offset_of

SIGNS: Final = frozenset({COMMIT_LOG, QUEUES, BATCH_QUEUES, CONFIG, CHECKPOINT, INDEX})
"""A directory with two of these, or with a commit log, is a store."""
STORE: Final = "store"
"""What store directories are mostly called: it says nothing of the broker, so the name above it is taken."""
NO_STORE: Final = "not a RocketMQ store"
_BLANK: Final = BLANK_FLAT
_MAGICS: Final = tuple(_BLANK.packed.pack(0, magic)[_BLANK.at["magic"] :] for magic in (MAGIC_V1, MAGIC_V2, MAGIC_BLANK))
"""One of them stands behind the size of every unit of a log, as behind that of a blank."""
HEAD_BYTES: Final = 4 << 20
"""In so many of a log's file a magic word stands, however damaged it is."""


class LogFile(NamedTuple):
    """A file of a log or queue.  start: its first byte's place in the log or queue.  size: bytes when it was listed."""

    path: str
    start: int
    size: int

    @property
    def end(self) -> int:
        return self.start + self.size


class Queue(NamedTuple):
    """One queue's files, in order.  tree: the directory of the store in which they lie."""

    topic: str
    queue_id: int
    files: tuple[LogFile, ...]
    tree: str

    @property
    def is_batch(self) -> bool:
        """Whether its units are those of a batch consume queue."""
        return self.tree == BATCH_QUEUES


@dataclass(frozen=True)
class Store:
    """One broker's directory.  uri: by which its file system is found again.  root: empty when there is only a log."""

    broker_name: str
    uri: str
    root: str
    logs: tuple[str, ...]
    lone: str = ""
    """the one file of a log without a directory"""

    def log_files(self, tree: Tree) -> list[LogFile]:
        """Of all its commit log directories, in order."""
        if self.lone:
            return [LogFile(self.lone, _start_of(self.lone) or 0, tree.file_size(self.lone) or 0)]
        return sorted((file for log in self.logs for file in _files(log, _walk(tree, log).offset_files())), key=_start)

    def check_log(self, tree: Tree) -> None:
        """Raises `CannotRead` where a log directory is missing: a table without its rows would say that there are none."""
        for log in () if self.lone else self.logs:
            if tree.entries(log) is None:
                raise CannotRead(log, -1, "no such directory; where a store's log lies is said by storePathCommitLog")

    def queues(self, tree: Tree, options: Options, trees: Sequence[str] = (QUEUES, BATCH_QUEUES)) -> Iterator[Queue]:
        """Those that the options choose, by topic and queue id."""
        for directory in trees:
            yield from self.queues_in(tree, directory, lambda topic: chosen(options, topic), options.queue_ids)

    def queues_in(
        self, tree: Tree, directory: str, topics: Callable[[str], bool] | None = None, queue_ids: Container[int] | None = None
    ) -> Iterator[Queue]:
        """Those in one tree of queues, all of them or of these topics and ids."""
        for one in _walk(tree, self.root).queues(directory, topics, queue_ids) if self.root else ():
            yield Queue(one.topic, one.queue_id, tuple(_files(self.root, one.files)), directory)

    def queue_topics(self, tree: Tree, trees: Sequence[str] = (QUEUES, BATCH_QUEUES)) -> frozenset[str]:
        """Those that have a directory of queues."""
        return frozenset(topic for directory in trees if self.root for topic in _walk(tree, self.root).topics(directory))

    def index_files(self, tree: Tree) -> list[LogFile]:
        """By name, that is by time; start is 0."""
        return _files(self.root, _walk(tree, self.root).index_files()) if self.root else []

    def config(self, tree: Tree, name: str) -> tuple[str, Any] | None:
        """Path and value of a configuration file, or of its backup when it is empty; None where there is none.

        Raises `CannotRead` when neither is the JSON of a broker.
        """
        problem: CannotRead | None = None
        for path in (joined(self.root, CONFIG, name), joined(self.root, CONFIG, f"{name}.bak")) if self.root else ():
            if not tree.file_size(path):
                continue
            with tree.open(path) as file:
                data = config_bytes(file, path)
            try:
                return path, config_value(data, path)
            except CannotRead as reason:
                problem = problem or reason
        if problem is not None:
            raise problem
        return None

    def config_table(self, tree: Tree, name: str, table: str) -> dict[str, Any] | None:
        """One table of a configuration file, as `topicConfigTable` of topics.json; None where there is none.

        Raises `CannotRead`.
        """
        found = self.config(tree, name)
        held = found[1].get(table) if found is not None and isinstance(found[1], dict) else None
        return held if isinstance(held, dict) else None

    def topics(self, tree: Tree) -> dict[str, Any] | None:
        """Topic -> its configuration, as topics.json has it; None where that is unknown.  Raises `CannotRead`."""
        return self.config_table(tree, "topics.json", "topicConfigTable")

    def tree(self, options: Options) -> Tree:
        """Its file system."""
        return resolve(self.uri, options.filesystem)[0]


def chosen(options: Options, topic: str) -> bool:
    """Whether rows of this topic are wanted.  A system topic is wanted when it is named, or all of them are."""
    from rmq_wire.names import is_system_topic

    if options.topics is not None:
        return topic in options.topics
    return options.include_system_topics or not is_system_topic(topic)


def list_stores(options: Options) -> list[Store]:
    """Those that the paths mean, each with a name of its own.

    Raises `CannotRead` for a path at which there is no store, `BadOption` where two have one name or one log is named twice.
    """
    found: list[Store] = []
    for number, uri in enumerate(options.paths):
        tree, path = resolve(uri, options.filesystem)
        name = options.broker_names[number % len(options.broker_names)] if options.broker_names else ""
        found += [
            Store(name or _broker_name(root or logs[0]), uri, root, logs, lone)
            for root, logs, lone in _stores_at(tree, path, options)
        ]
    _refuse_twice(found)
    found = found if options.broker_names else _distinguished(found)
    _refuse_equal_names(found)
    return found


def store_around(path: str) -> str | None:
    """The nearest directory that is this one or holds it, on this machine, and looks like a store; None when there is none."""
    there = os.path.realpath(path)
    while not any(os.path.isdir(os.path.join(there, tree)) for tree in (COMMIT_LOG, QUEUES)):
        if (above := os.path.dirname(there)) == there:
            return None
        there = above
    return there


def _stores_at(tree: Tree, path: str, options: Options) -> list[tuple[str, tuple[str, ...], str]]:
    layout = options.path_layout
    own = tuple(resolve(log, options.filesystem)[1] for log in options.commit_logs)
    if layout in (Layout.AUTO, Layout.FILE) and tree.file_size(path) is not None:
        if layout is Layout.AUTO and not _is_log_file(tree, path):
            raise CannotRead(path, -1, f"{NO_STORE}, nor a file of its log")
        return [("", (path.rpartition("/")[0] or "/",), path)]
    listed = tree.entries(path)
    if listed is None or layout is Layout.FILE:
        raise CannotRead(path, -1, "no such file" if layout is Layout.FILE else "no such file or directory")
    if layout is Layout.COMMIT_LOG or (layout is Layout.AUTO and any(_start_of(one.name) is not None for one in listed)):
        return [("", (path, *own), "")]
    if layout is Layout.STORE or own or _is_store(one.name for one in listed):
        return [(path, own or (joined(path, COMMIT_LOG),), "")]
    found: list[tuple[str, tuple[str, ...], str]] = []
    for one in listed if layout in (Layout.AUTO, Layout.BROKERS) else ():
        for below in (joined(path, one.name), joined(path, one.name, STORE)) if one.is_directory else ():
            if _is_store(entry.name for entry in tree.entries(below) or ()):
                found.append((below, (joined(below, COMMIT_LOG),), ""))
                break
    if not found:
        raise CannotRead(path, -1, f"{NO_STORE}: neither a commit log nor a broker's directory lies in it")
    return found


def _is_log_file(tree: Tree, path: str) -> bool:
    """By its first unit; one that is named like a file of a log may be damaged there, or not written to yet."""
    with tree.open(path) as file:
        if file.read(0, _BLANK.size)[_BLANK.at["magic"] :] in _MAGICS:
            return True
        head = file.read(0, HEAD_BYTES) if _start_of(path) is not None else b"."
    return not any(head) or any(magic in head for magic in _MAGICS)


def _is_store(names: Iterator[str]) -> bool:
    signs = SIGNS.intersection(names)
    return COMMIT_LOG in signs or len(signs) > 1


def _broker_name(root: str) -> str:
    above, _, name = root.rstrip("/").rpartition("/")
    if name in (STORE, COMMIT_LOG) and above:
        return _broker_name(above)
    return name or root


def _distinguished(stores: list[Store]) -> list[Store]:
    """Names that two brokers have are replaced by their paths.  Single files of one directory are of one broker."""
    brokers: dict[str, set[str]] = {}
    for store in stores:
        brokers.setdefault(store.broker_name, set()).add(_place(store))
    return [replace(store, broker_name=_place(store)) if len(brokers[store.broker_name]) > 1 else store for store in stores]


def _place(store: Store) -> str:
    """By which a broker is known from all others."""
    return _scheme(store) + (store.root or store.logs[0])


def _scheme(store: Store) -> str:
    """Paths of two file systems may be equal."""
    scheme, is_uri, _ = store.uri.partition(SCHEME)
    return scheme + is_uri if is_uri else ""


def _refuse_equal_names(stores: Sequence[Store]) -> None:
    places: dict[str, str] = {}
    for store in stores:
        if (other := places.setdefault(store.broker_name, _place(store))) != _place(store):
            raise BadOption(
                f"brokerName: {other} and {_place(store)} would both be {store.broker_name}: give each path a name of its own"
            )


def _refuse_twice(stores: Sequence[Store]) -> None:
    """Every row of a log that is named twice would be there twice."""
    seen: dict[str, str] = {}
    named = [(store, log) for store in stores for log in ((store.lone,) if store.lone else store.logs)]
    for store, log in sorted(named, key=lambda one: bool(one[0].lone)):
        scheme = _scheme(store)
        real = scheme + (log if scheme else os.path.realpath(log))
        other = seen.get(real) or (seen.get(real.rpartition("/")[0]) if store.lone else None)
        if other is not None:
            raise BadOption(f"path: {log} would be read twice: it is named as {other} and as {store.uri}")
        seen[real] = store.uri


def _walk(tree: Tree, directory: str) -> StoreTree:
    """A store, or the directory of a log, to be listed by path."""
    return StoreTree(lambda parts: tree.entries(joined(directory, *parts)) or ())


def _files(directory: str, found: Iterable[Found]) -> list[LogFile]:
    return [LogFile(joined(directory, *file.parts), file.start, file.size) for file in found]


def _start(file: LogFile) -> int:
    return file.start


def _start_of(path: str) -> int | None:
    return offset_of(path.rpartition("/")[2])
