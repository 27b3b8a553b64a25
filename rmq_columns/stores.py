"""Which stores the paths mean, and the files of each, listed when they are asked for and not before.

A path is a store directory, a directory of brokers, a commit log directory or one file; `auto` looks at what lies in it.
Sources of the tree: `StorePathConfigHelper`, `MultiPathMappedFileQueue`, `BrokerPathConfigHelper` of the reference.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from rmq_columns.errors import CannotRead
from rmq_columns.filesystem import Tree, joined, resolve
from rmq_columns.options import Layout, Options

OFFSET_DIGITS: Final = 20
"""`UtilAll.offset2FileName`: where a file begins."""
INDEX_DIGITS: Final = 17
"""Local wall time, yyyyMMddHHmmssSSS."""
COMMIT_LOG: Final = "commitlog"
QUEUES: Final = "consumequeue"
BATCH_QUEUES: Final = "batchconsumequeue"
EXTENSIONS: Final = "consumequeue_ext"
SIGNS: Final = frozenset({COMMIT_LOG, QUEUES, BATCH_QUEUES, "config", "checkpoint", "index"})
"""A directory with two of these, or with a commit log, is a store."""
STORE: Final = "store"
"""What store directories are mostly called: it says nothing of the broker, so the name above it is taken."""
CONFIG_BYTES_MAX: Final = 256 << 20
"""A larger configuration is not parsed: consumer offsets of a million queues take some 50 MB."""


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
        return sorted((file for log in self.logs for file in _offset_files(tree, log)), key=_start)

    def queues(self, tree: Tree, options: Options, trees: Sequence[str] = (QUEUES, BATCH_QUEUES)) -> Iterator[Queue]:
        """Those that the options choose, by topic and queue id."""
        for directory in trees if self.root else ():
            above = joined(self.root, directory)
            for topic in tree.entries(above) or ():
                if not topic.is_directory or not chosen(options, topic.name):
                    continue
                below = [one.name for one in tree.entries(joined(above, topic.name)) or () if one.is_directory]
                for queue_id in sorted(int(name) for name in below if _is_number(name, 10)):
                    if options.queue_ids is None or queue_id in options.queue_ids:
                        files = tuple(_offset_files(tree, joined(above, topic.name, str(queue_id))))
                        yield Queue(topic.name, queue_id, files, directory)

    def index_files(self, tree: Tree) -> list[LogFile]:
        """By name, that is by time; start is 0."""
        if not self.root:
            return []
        above = joined(self.root, "index")
        found = [one for one in tree.entries(above) or () if not one.is_directory]
        return [LogFile(joined(above, one.name), 0, one.size) for one in found if _is_number(one.name, INDEX_DIGITS, True)]

    def config(self, tree: Tree, name: str) -> tuple[str, Any] | None:
        """Path and value of a configuration file, or of its backup when it is empty; None where there is none.

        Raises `CannotRead` when neither is the JSON of a broker.
        """
        from rmq_wire.errors import WireError
        from rmq_wire.fastjson import loads

        problem: CannotRead | None = None
        for path in (joined(self.root, "config", name), joined(self.root, "config", f"{name}.bak")) if self.root else ():
            size = tree.file_size(path)
            if not size:
                continue
            if size > CONFIG_BYTES_MAX:
                raise CannotRead(path, -1, f"{size} bytes are no configuration")
            with tree.open(path) as file:
                data = file.read(0, size)
            try:
                return path, loads(data)
            except (WireError, ValueError, RecursionError) as reason:
                problem = problem or CannotRead(path, -1, f"not the JSON of a broker: {reason}")
        if problem is not None:
            raise problem
        return None

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
    """Raises `CannotRead` for a path at which there is no store."""
    found: list[Store] = []
    for number, uri in enumerate(options.paths):
        tree, path = resolve(uri, options.filesystem)
        name = options.broker_names[number % len(options.broker_names)] if options.broker_names else ""
        found += [
            Store(name or _broker_name(root or logs[0]), uri, root, logs, lone)
            for root, logs, lone in _stores_at(tree, path, options)
        ]
    return found if options.broker_names else _told_apart(found)


def _stores_at(tree: Tree, path: str, options: Options) -> list[tuple[str, tuple[str, ...], str]]:
    layout = options.path_layout
    own = tuple(resolve(log, options.filesystem)[1] for log in options.commit_logs)
    if layout in (Layout.AUTO, Layout.FILE) and tree.file_size(path) is not None:
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
        raise CannotRead(path, -1, "no store: neither a commit log nor a broker's directory lies in it")
    return found


def _is_store(names: Iterator[str]) -> bool:
    signs = SIGNS.intersection(names)
    return COMMIT_LOG in signs or len(signs) > 1


def _broker_name(root: str) -> str:
    above, _, name = root.rstrip("/").rpartition("/")
    if name in (STORE, COMMIT_LOG) and above:
        return _broker_name(above)
    return name or root


def _told_apart(stores: list[Store]) -> list[Store]:
    """Names that two stores have are replaced by their paths."""
    names = [store.broker_name for store in stores]
    return [
        Store(store.root or store.logs[0], store.uri, store.root, store.logs, store.lone)
        if names.count(store.broker_name) > 1 and not store.lone
        else store
        for store in stores
    ]


def _offset_files(tree: Tree, directory: str) -> list[LogFile]:
    found = []
    for one in tree.entries(directory) or ():
        start = _start_of(one.name)
        if not one.is_directory and start is not None:
            found.append(LogFile(joined(directory, one.name), start, one.size))
    return sorted(found, key=_start)


def _start(file: LogFile) -> int:
    return file.start


def _start_of(path: str) -> int | None:
    name = path.rpartition("/")[2]
    return int(name) if _is_number(name, OFFSET_DIGITS, True) and int(name) < 1 << 63 else None


def _is_number(name: str, digits: int, exactly: bool = False) -> bool:
    return name.isascii() and name.isdigit() and (len(name) == digits if exactly else len(name) <= digits)
