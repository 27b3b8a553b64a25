"""How a table in memory becomes a configuration file of Java's form, and comes back.

A table keeps one encoded fragment per row and a set of rows that changed since; a save encodes only those, then joins.  Saving
is a generator of chunks, so that a large table can be written a slice per turn: rows are encoded between yields, the document
itself is a snapshot of one moment.  `dirty` is a count of changes against the count that was last written, so that a change
during a slow write is not lost.  A file that cannot be read is never replaced by an empty table: the start fails.

Java: `ConfigManager` (encode, decode, persist), `RemotingSerializable.toJson(obj, true)` for the pretty form.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Generator, Iterable, Iterator
from typing import Any, ClassVar, Generic, TypeVar
from weakref import WeakSet

from broker_impl.engine.answers import Pause, Refusal
from broker_impl.engine.slices import BYTES_PER_SLICE
from broker_impl.state.java_order import BUCKETS, JavaOrder, Portion, as_copied
from rmq_net.log import Log, plain_text
from rmq_store.advice import repair_command
from rmq_store.disk.config_files import load_config, persist_config
from rmq_store.disk.disk import Disk
from rmq_store.errors import InvariantBroken, StoreDamaged, StoreError
from rmq_wire import fastjson
from rmq_wire.codes import ResponseCode
from rmq_wire.errors import BadBody

Row = TypeVar("Row")

ROWS_PER_SLICE = 32
"""Rows that are encoded between two yields: some 10 µs each, so a slice stays below the 0.5 ms of a background task."""
ROWS_AT_ONCE_MAX = 1_024
"""Rows that change while others are encoded are encoded in longer and longer slices, up to this, so that a write comes to its end
however many changes come in between: 10 ms.
"""
UNSAVED_ROWS_MAX = 4_096
"""Rows that a failed write takes back, 4 µs each, at once: who came in between would change what is about to be undone."""
BUSY = "[TABLESBUSY]too many changes wait for the disk, try again"


class Rows(Generic[Row]):
    """The rows of one member of the document, each with its encoded text; `plain` gives the JSON value of a row."""

    def __init__(self, plain: Callable[[str, Row], Any], *, buckets: int = BUCKETS, concurrent: bool = True) -> None:
        self._plain = plain
        self.rows: dict[str, Row] = {}
        self.order = JavaOrder(buckets, concurrent=concurrent)
        self._fragments: dict[str, bytes] = {}
        self._stale: set[str] = set()
        self._snapshots: WeakSet[_Snapshot] = WeakSet()
        """Those that somebody still writes."""

    def get(self, key: str) -> Row | None:
        """The row, or None."""
        return self.rows.get(key)

    def put(self, key: str, row: Row) -> Row | None:
        """Set a row and return the one it replaces."""
        old = self.rows.get(key)
        if key not in self.rows:
            self.order.add(key)
        self.rows[key] = row
        self._stale.add(key)
        return old

    def touch(self, key: str) -> None:
        """The row was changed in place."""
        if key in self.rows:
            self._stale.add(key)

    def drop(self, key: str) -> Row | None:
        """Remove a row and return it."""
        if key not in self.rows:
            return None
        self.order.remove(key)
        self._stale.discard(key)
        self._keep(key)
        self._fragments.pop(key, None)
        return self.rows.pop(key)

    def read_anew(self) -> None:
        """The rows to come are the first of a new map."""
        self.order = JavaOrder()
        for key in self.rows:
            self.order.add(key)

    @property
    def stale(self) -> int:
        """Rows that are to be encoded."""
        return len(self._stale)

    def refresh(self, rows_per_slice: int = ROWS_PER_SLICE) -> Iterator[None]:
        """Encode as many as have changed, yielding between slices; more may change in between."""
        rows = size = 0
        for _ in range(len(self._stale)):
            if rows >= rows_per_slice or size >= BYTES_PER_SLICE:
                yield
                rows = size = 0
            if not self._stale:
                return
            key = self._stale.pop()
            text = fastjson.dumps_strict(key) + b":" + fastjson.dumps_pretty(self._plain(key, self.rows[key]))
            self._keep(key)
            self._fragments[key] = b"\t\t" + indented(text, 2)
            rows += 1
            size += len(text)

    def snapshot(self) -> Iterator[bytes]:
        """The object of all rows as it is now, one level deep, in chunks that are made when they are asked for."""
        for _ in self.refresh():
            pass
        found = _Snapshot(self._fragments)
        self._snapshots.add(found)
        return found.chunks(self.order.portions())

    def _keep(self, key: str) -> None:
        """Its text is about to change or to go: whoever is still to write it has it from here."""
        if self._snapshots:
            for one in self._snapshots:
                one.keep(key)


class _Snapshot:
    """The encoded rows of one moment.  They are not copied: what changes afterwards is kept for them as it was."""

    def __init__(self, fragments: dict[str, bytes]) -> None:
        self._fragments = fragments
        self._kept: dict[str, bytes] = {}

    def keep(self, key: str) -> None:
        old = self._fragments.get(key)
        if old is not None:
            self._kept.setdefault(key, old)

    def chunks(self, portions: Iterator[Portion]) -> Iterator[bytes]:
        kept, fragments = self._kept, self._fragments
        begin = b"{\n"
        for portion in portions:
            rows = [kept.get(key) or fragments[key] for _, key, _ in portion]
            if rows:
                yield begin + b",\n".join(rows)
                begin = b",\n"
            else:
                yield b""
        yield b"{}" if begin == b"{\n" else b"\n\t}"


class PersistedTable:
    """A table with a file.  A subclass names the file, and gives the members of its document in the order of their names."""

    file: ClassVar[str]
    """Name below `config/`."""
    replaced: ClassVar[frozenset[str]] = frozenset()
    """Members in whose place Java puts the map that its JSON reader has made, where it copies rows to others."""
    copied: ClassVar[frozenset[str]] = frozenset()
    """Members of which Java copies the rows to its own map, from the one that its JSON reader has made."""
    written_at_stop: ClassVar[bool] = True
    """At a clean stop, also when nothing changed; else only what was changed is ever written, as Java has it with some files."""

    def __init__(self) -> None:
        self.changes = 0
        self._written = 0
        self._in_writing = 0
        self.unknown: dict[str, Any] = {}
        """Members of the file that we do not know: a newer version's; written back as they were."""
        self.on_dirty: Callable[[PersistedTable], None] | None = None
        """Called at each change that Java writes to disk at once.  None: nobody writes this table."""
        self.when_saved: Callable[[Callable[[Any], None]], None] = lambda then: then(None)
        """Calls somebody when all changes so far are on the disk (None), or are taken back (the refusal to answer with)."""
        self._undos: deque[tuple[int, int, Callable[[], object]]] = deque()
        """(change, its rows, what takes it back) of those that the disk does not have."""
        self._unsaved_rows = 0
        """Of all of them."""

    @property
    def dirty(self) -> bool:
        """Something changed that no finished write contains."""
        return self.changes != self._written

    @property
    def written_changes(self) -> int:
        """How many of the changes the disk has."""
        return self._written

    def check_unsaved(self) -> None:
        """Before a change that can be taken back.  Raises `Refusal` when too many wait for the disk."""
        if self._unsaved_rows >= UNSAVED_ROWS_MAX:
            raise Refusal(ResponseCode.SYSTEM_BUSY, BUSY)

    def changed(self, *, at_once: bool = True, undo: Callable[[], object] | None = None, rows: int = 1) -> None:
        """Count a change; `at_once` when Java writes the file before it goes on.  `undo` takes its `rows` back if that fails."""
        self.changes += 1
        if at_once and self.on_dirty is not None:
            if undo is not None:
                self._undos.append((self.changes, rows, undo))
                self._unsaved_rows += rows
            self.on_dirty(self)

    def leaned_on(self) -> None:
        """An answer says what a change said that is perhaps still on its way to the disk: it must not leave before it."""
        if self._undos and self.on_dirty is not None:
            self.on_dirty(self)

    @property
    def in_writing(self) -> int:
        """How many of the changes are in the document that `encode_slices` gave last."""
        return self._in_writing

    def check_written(self) -> None:
        """Whether that document may be on the disk.  Raises InvariantBroken."""
        if not self._written <= self._in_writing <= self.changes:
            seen = f"{self.file}: {self._written}, {self._in_writing}, {self.changes}"
            raise InvariantBroken("a table on the disk grows newer, up to the one in memory", seen)

    def written(self) -> None:
        """That document is safely on disk.  Raises InvariantBroken."""
        self.check_written()
        self._written = self._in_writing
        while self._undos and self._undos[0][0] <= self._written:
            self._unsaved_rows -= self._undos.popleft()[1]

    def take_back(self) -> int:
        """Undo what the disk does not have, the newest first, and say how much that was.

        The table stays dirty: the disk may have it all the same.
        """
        count = len(self._undos)
        while self._undos:
            self._undos.pop()[2]()
        self._unsaved_rows = 0
        self.changes += 1
        return count

    def members(self) -> dict[str, Rows[Any] | Any]:
        """The document: by member name its rows, or a plain JSON value."""
        raise NotImplementedError

    def take(self, document: dict[str, Any]) -> None:
        """Put what a file said over what is in memory.  Raises `BadBody` and then has changed nothing."""
        raise NotImplementedError

    def load(self, text: bytes) -> None:
        """Read a file that Java or we wrote.  Raises `BadBody`."""
        document = fastjson.loads(text)
        if not isinstance(document, dict):
            raise BadBody(f"{self.file}: a {type(document).__name__} where an object should be")
        self._check_own(document)
        for name in document.keys() & self.replaced:
            self.members()[name].read_anew()
        for name in document.keys() & self.copied:
            document[name] = as_copied(document[name], self.members()[name].order)
        self.take(document)

    def _check_own(self, document: dict[str, Any]) -> None:
        """Another table's file under this name would be an empty table.  Raises `BadBody`; `{}` is one that is meant to be."""
        if type(self).members is PersistedTable.members:
            return  # its file is no document of tables
        members = self.members()
        own = [name for name, member in members.items() if isinstance(member, Rows)]
        foreign = sorted(document.keys() - members.keys())
        if own and foreign and document.keys().isdisjoint(own):
            raise BadBody(f"{self.file}: without {own[0]}, but with {plain_text(foreign[0])}: another file's content")

    def encode_slices(self) -> Iterator[bytes]:
        """The document in chunks; an empty chunk is only a place to pause."""
        tables = [member for member in self.members().values() if isinstance(member, Rows)]
        at_once = ROWS_PER_SLICE
        while sum(table.stale for table in tables) > at_once or at_once == ROWS_PER_SLICE:
            for table in tables:
                for _ in table.refresh(at_once):
                    yield b""
            at_once = min(2 * at_once, ROWS_AT_ONCE_MAX)
        yield from self._snapshot()

    def encode(self) -> bytes:
        """The whole document at once."""
        return b"".join(self.encode_slices())

    def _snapshot(self) -> Iterator[bytes]:
        self._in_writing = self.changes
        members = {**self.unknown, **self.members()}
        taken = {name: member.snapshot() if isinstance(member, Rows) else _value(member) for name, member in members.items()}
        for number, name in enumerate(sorted(taken)):
            yield (b",\n\t" if number else b"{\n\t") + fastjson.dumps_strict(name) + b":"
            yield from taken[name]
        yield b"\n}" if taken else b"{}"


def saving(table: PersistedTable) -> Generator[Pause, None, None]:
    """For a background task: write the table, and wait until the file has all changes so far.  Raises `Refusal`."""
    pause, refusals = Pause(), list[Refusal]()

    def saved(no: Refusal | None) -> None:
        refusals.extend(() if no is None else (no,))
        pause.end()

    table.changed()
    table.when_saved(saved)
    yield pause
    for no in refusals:
        raise no


def _value(value: Any) -> Iterator[bytes]:
    return iter((indented(fastjson.dumps_pretty(value), 1),))


def indented(text: bytes, levels: int) -> bytes:
    """Move a pretty-printed value `levels` TABs to the right; a line break is never inside a JSON string."""
    return text.replace(b"\n", b"\n" + b"\t" * levels)


def leftover(document: dict[str, Any], known: Iterable[str]) -> dict[str, Any]:
    """The members of `document` that nobody here knows."""
    names = set(known)
    return {name: value for name, value in document.items() if name not in names}


def load_tables(disk: Disk, directory: str, tables: Iterable[PersistedTable], log: Log) -> None:
    """Read each table's file, or its backup, below `directory`.

    Raises `StoreDamaged` that names all of which no copy can be read, and the command that makes them again.
    """
    failures: list[str] = []
    for table in tables:
        try:
            load_config(disk, f"{directory}/{table.file}", table.load, log.warning)
        except StoreDamaged as damaged:
            failures.append(str(damaged))
    if failures:
        repair = repair_command(directory.rpartition("/")[0], "--tables")
        raise StoreDamaged(
            f"{'; '.join(failures)}. Topics and groups are made again from the store's queues and log by:"
            f" {repair} (positions are not: it says what follows)"
        )


class Persister:
    """Loads every table, then writes it, below `<root>/config` on the disk handed in; when, others say (`saves`).

    Refuses to write before everything is loaded.
    """

    def __init__(self, disk: Disk, directory: str, tables: Iterable[PersistedTable], log: Log) -> None:
        self._disk = disk
        self._directory = directory
        self._log = log
        self.tables = tuple(tables)
        self._loaded = False

    def load(self, read: Container[PersistedTable] = ()) -> None:
        """Read every table's file, or its backup, but for those that were `read` before.

        Raises `StoreDamaged` when neither can be read; then nothing is written.
        """
        load_tables(self._disk, self._directory, [table for table in self.tables if table not in read], self._log)
        self._loaded = True

    def save(self, table: PersistedTable) -> None:
        """Write the table now, at a start or stop.  Raises `OSError`, `StoreError`; the table then stays dirty."""
        self._check_loaded(table)
        persist_config(self._disk, self._path(table), table.encode_slices())
        table.written()

    def save_all(self, but: Container[PersistedTable] = ()) -> bool:
        """Write every table now, as Java does at its end; `but` those that a thread may be writing still.

        False when a change is lost: the log says of which file.
        """
        lost = False
        for table in self.tables:
            if not table.written_at_stop and not table.dirty:
                continue
            try:
                if table in but:
                    raise OSError("the write that is under way does not end")
                self.save(table)
            except (OSError, StoreError) as error:
                lost = lost or table.dirty
                self._log.error("%s could not be written, its changes since the last write are lost: %s", table.file, error)
        return not lost

    def slices(self, table: PersistedTable) -> Generator[None, None, list[bytes]]:
        """The document in chunks, a slice per step; hand them to `write` (on any thread), then `table.written`."""
        self._check_loaded(table)
        chunks: list[bytes] = []
        for chunk in table.encode_slices():
            if chunk:
                chunks.append(chunk)
            yield
        return chunks

    def write(self, table: PersistedTable, chunks: Iterable[bytes]) -> None:
        """The disk's part of a sliced save; touches no table.  Raises `OSError`, `StoreError`."""
        persist_config(self._disk, self._path(table), chunks)

    def _check_loaded(self, table: PersistedTable) -> None:
        if not self._loaded:
            raise RuntimeError(f"{table.file} would be written before everything was loaded")

    def _path(self, table: PersistedTable) -> str:
        return f"{self._directory}/{table.file}"
