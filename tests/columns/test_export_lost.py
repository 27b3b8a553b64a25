"""A task that everybody takes for lost ends when the export is complete: whoever reads the directory sees each row once.

Spark repeats a task whose executor it does not hear of any more; the Python beneath may live, and go on where it stood.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread, current_thread
from types import SimpleNamespace

import pyarrow.dataset as ds
import pytest

from rmq_columns.errors import SeamMismatch
from rmq_columns.export import manifest, split
from rmq_columns.export.destination import Destination, destination
from rmq_columns.export.files import SplitFiles
from rmq_columns.export.manifest import TakenOver
from rmq_columns.export.options import FileOptions
from rmq_columns.export.parquet import Finished, Prepared, export_split, export_store, finish, prepare
from rmq_columns.export.sinks import Sink
from tests.support.exports import log_of_days, options_of, stopped_at
from tests.support.logs import Log, write_log
from tests.support.planting import Plant, planted

FILES = FileOptions()
PLACES = ["physicalOffset"]
WAIT_S_MAX = 90.0


def places_in(to: str) -> list[int]:
    """As Spark, DuckDB or anybody reads the directory who does not know of the manifest."""
    filesystem, path = destination(to).where("")
    table = ds.dataset(path.rstrip("/"), filesystem=filesystem, format="parquet", partitioning="hive").to_table(columns=PLACES)
    return sorted(table["physicalOffset"].to_pylist())


def names_in(to: str) -> list[str]:
    """Of every file, without its directory."""
    return [name.rpartition("/")[2] for name, _ in destination(to).walk()]


class Lost:
    """One split's task stands before step `number` that changes the destination while all others, and its repetition, end.

    above: where the exports lie; in the directory itself, unless it is said.
    """

    def __init__(self, path: Path, above: str = "") -> None:
        self.log: Log = log_of_days(path / "broker-a", 40, days=1.5)
        self.above = above or str(path)
        with stopped_at(-1, lambda: None) as steps:
            prepared = self.prepared("whole")
            steps.clear()
            export_split(prepared.job, prepared.todo[0])
        self.steps = list(steps)

    def prepared(self, name: str) -> Prepared:
        return prepare(f"{self.above}/{name}", options_of(self.log.root), FILES)

    def at(self, number: int, meanwhile: Callable[[Prepared], None] | None = None) -> tuple[str, bool]:
        """Where the export is, and whether the lost task was stopped by what it found."""
        to = f"{self.above}/lost-{number}"
        prepared = self.prepared(f"lost-{number}")
        finished: list[Finished] = []

        def others() -> None:
            for one in prepared.todo:
                export_split(prepared.job, one)
            finished.append(finish(prepared))
            assert places_in(to) == sorted(self.log.places), "before it ends"

        with stopped_at(number, lambda: (meanwhile or (lambda _: others()))(prepared)):
            try:
                export_split(prepared.job, prepared.todo[0])
            except TakenOver:
                return to, True
        return to, False


def hold(lost: Lost) -> None:
    stopped = []
    for number in range(len(lost.steps)):
        to, was_stopped = lost.at(number)
        stopped.append(was_stopped)
        assert places_in(to) == sorted(lost.log.places), f"after it ended, from {lost.steps[number]}"
        again = export_store(to, options_of(lost.log.root), FILES)
        assert again.rows == len(lost.log.places)
        assert places_in(to) == sorted(lost.log.places), "the next start"
        names = names_in(to)
        assert not [name for name in names if name.endswith(".part")], "what it left is gone"
        assert len([name for name in names if name.startswith("closed-")]) == 1
    first = lost.steps.index("appear")
    assert all(stopped[:first]), "before it gives a file its name it asks"


def test_it_changes_nothing(tmp_path: Path) -> None:
    lost = Lost(tmp_path)
    assert {"create", "write", "complete", "appear", "put"} <= set(lost.steps)
    assert lost.steps.count("appear") > 2, "several files, and the entry"
    hold(lost)


def test_it_changes_nothing_where_nothing_can_be_renamed(tmp_path: Path) -> None:
    """In an object store a file's name is given by a copy: one that fails takes nothing away that is there."""
    pytest.importorskip("fsspec")
    lost = Lost(tmp_path, f"memory://{tmp_path.name}")
    assert {"create", "write", "complete", "appear", "put"} <= set(lost.steps)
    hold(lost)


def hold_while_clearing_up(lost: Lost) -> None:
    """Its files get their names when `finish` has looked what is there, and has not yet removed what does not count."""
    to = f"{lost.above}/race"
    prepared = lost.prepared("race")
    ready, go = Event(), Event()
    appear, portions, thread = SplitFiles.appear, manifest.portions, Thread(target=lambda: None)

    def late(self: SplitFiles) -> None:
        if current_thread() is thread:
            ready.set()
            assert go.wait(WAIT_S_MAX)
        appear(self)

    def listed(names: Iterable[str]) -> Iterator[list[str]]:
        found = list(portions(names))
        go.set()
        thread.join(WAIT_S_MAX)
        yield from found

    def task() -> None:
        with suppress(TakenOver):
            export_split(prepared.job, prepared.todo[0])

    thread = Thread(target=task)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SplitFiles, "appear", late)
        thread.start()
        assert ready.wait(WAIT_S_MAX)
        for one in prepared.todo:
            export_split(prepared.job, one)
        patch.setattr(manifest, "portions", listed)
        finish(prepared)
    assert not thread.is_alive()
    assert places_in(to) == sorted(lost.log.places)


def test_it_ends_while_the_export_is_cleared_up(tmp_path: Path) -> None:
    hold_while_clearing_up(Lost(tmp_path))


def names_of_its_own(patch: pytest.MonkeyPatch) -> None:
    """Each attempt has other names."""
    numbers = iter(range(10_000))
    patch.setattr(split, "_label", lambda one, tally: f"{next(numbers):08x}")


def never_closed(patch: pytest.MonkeyPatch) -> None:
    """Who finishes does not say so."""
    patch.setattr(manifest, "close_run", lambda there, run: None)


def takes_away(patch: pytest.MonkeyPatch) -> None:
    """Who cannot give its file the name removes what has it, and tries again."""

    def instead(self: Sink) -> bool:
        self._filesystem.delete_file(self._path)
        self._filesystem.move(self._part, self._path)
        return True

    patch.setattr(Sink, "_is_there", instead)


PLANTS: dict[Plant, tuple[Callable[[Lost], None], str]] = {
    names_of_its_own: (hold_while_clearing_up, ""),
    never_closed: (hold, ""),
    takes_away: (hold, "memory://"),
}
"""What must notice it, and where the exports lie; in a directory of this machine, unless it is said."""


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_a_planted_fault_shows_itself(tmp_path: Path, plant: Plant) -> None:
    check, scheme = PLANTS[plant]
    lost = Lost(tmp_path, f"{scheme}{tmp_path.name}" if scheme else "")
    with planted(plant), pytest.raises(AssertionError):
        check(lost)


def test_what_it_left_is_counted_by_the_next_start(tmp_path: Path) -> None:
    """It was killed before it had named its files: they stay hidden until then."""
    lost = Lost(tmp_path)

    class Killed(BaseException):
        pass

    def kill(prepared: Prepared) -> None:
        with pytest.MonkeyPatch.context() as patch:  # nothing is cleared up behind it
            patch.setattr("rmq_columns.export.files.SplitFiles.__exit__", lambda *_: None)
            raise Killed

    number = lost.steps.index("appear")
    to = Path(lost.above, f"lost-{number}")
    with pytest.MonkeyPatch.context() as patch, suppress(Killed):
        patch.setattr("rmq_columns.export.files.SplitFiles.__exit__", lambda *_: None)
        lost.at(number, kill)
    hidden = list(to.rglob(".part-*.part"))
    assert hidden
    prepared = lost.prepared(to.name)
    for one in prepared.todo:
        export_split(prepared.job, one)
    assert finish(prepared).strays == len(hidden)
    assert not list(to.rglob(".part-*.part"))
    assert places_in(str(to)) == sorted(lost.log.places)


# --- two faults, and a log that grows


class Late:
    """A split's task that reads what is there, and stands before its files get their names until it is let go."""

    def __init__(self, prepared: Prepared) -> None:
        self._prepared = prepared
        self._ready, self._go = Event(), Event()
        self._thread = Thread(target=self._run)

    def _run(self) -> None:
        with suppress(TakenOver):
            export_split(self._prepared.job, self._prepared.todo[-1])

    def begin(self) -> None:
        appear = SplitFiles.appear

        def late(made: SplitFiles) -> None:
            if current_thread() is self._thread:
                self._ready.set()
                assert self._go.wait(WAIT_S_MAX)
            appear(made)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(SplitFiles, "appear", late)
            self._thread.start()
            assert self._ready.wait(WAIT_S_MAX)

    def end(self) -> None:
        """Its files and, since the start that made it is not known to be over when it asks, its entry."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(manifest, "check_open", lambda *_: None)
            self._go.set()
            self._thread.join(WAIT_S_MAX)
        assert not self._thread.is_alive()


def grows(root: Path, messages: int) -> Log:
    return write_log(root, [b"x" * 200] * messages)


def hold_while_it_grows(path: Path, *, reads_more: bool) -> None:
    """A task is lost; its driver dies; the next start goes on with an increment; the task ends; a third start finds all of it."""
    root, to = path / "broker-a", str(path / "out")
    options = options_of(grows(root, 20).root)
    first = prepare(to, options, FILES)
    late = Late(first)
    if reads_more:
        write = manifest.write_entry

        def slow(there: Destination, entry: manifest.Entry) -> None:
            grows(root, 25)
            late.begin()
            write(there, entry)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(manifest, "write_entry", slow)
            export_split(first.job, first.todo[-1])
    else:
        late.begin()
        grows(root, 25)
        export_split(first.job, first.todo[-1])
    log = grows(root, 30)
    second = prepare(to, options, FILES, increment=True)
    late.end()
    for one in second.todo:
        export_split(second.job, one)
    assert finish(second).summary.rows == len(log.places)
    assert places_in(to) == log.places
    assert export_store(to, options, FILES, increment=True).rows == len(log.places)
    assert places_in(to) == log.places


@pytest.mark.parametrize("reads_more", [False, True])
@pytest.mark.parametrize("comes_first", [False, True])
def test_an_increment_goes_on_behind_what_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reads_more: bool, comes_first: bool
) -> None:
    """Whatever the lost task has read, and whichever entry has the first name."""
    names = iter(["%08x" % (one if comes_first else 0xFFFF - one) for one in range(0xFF, 0, -1)])
    monkeypatch.setattr(split.uuid, "uuid4", lambda: SimpleNamespace(hex=next(names)))
    hold_while_it_grows(tmp_path, reads_more=reads_more)


def test_what_an_increment_goes_on_behind_is_made_again_as_it_was(tmp_path: Path) -> None:
    """Its entry is gone, too, and in no manifest: the increment's plan knows where it ended."""
    root, to = tmp_path / "broker-a", tmp_path / "out"
    options = options_of(grows(root, 20).root)
    export_store(str(to), options, FILES)
    log = grows(root, 30)
    export_store(str(to), options, FILES, increment=True)
    for lost in (*to.glob("_manifest/split-00000/*"), to / "_manifest" / "manifest.jsonl", *to.rglob("part-00000-*")):
        lost.unlink()
    assert export_store(str(to), options, FILES).rows == len(log.places)
    assert places_in(str(to)) == log.places


@pytest.mark.parametrize("is_first", [False, True])
def test_of_two_that_hold_the_one_with_more_counts(tmp_path: Path, is_first: bool) -> None:
    """Retention took the log's first file while the second attempt read; whichever entry has the first name."""
    root, to = tmp_path / "broker-a", str(tmp_path / "out")
    log = grows(root, 40)
    options = replace(options_of(root), split_bytes=1 << 20)
    prepared = prepare(to, options, FILES)
    [one] = prepared.todo
    first = export_split(prepared.job, one)
    log.files[0].unlink()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(split, "_before", lambda there, one: None)
        patch.setattr(split.uuid, "uuid4", lambda: SimpleNamespace(hex="0" * 32 if is_first else "f" * 32))
        second = export_split(prepared.job, one)
    assert first.rows == len(log.places) > second.rows
    assert finish(prepare(to, options, FILES)).summary.rows == len(log.places)
    assert places_in(to) == log.places


def test_the_next_start_cuts_files_as_the_first_did(tmp_path: Path) -> None:
    """The first died when its files had their names, and its entry was not written; the next is to read other batches."""
    root, to = tmp_path / "broker-a", str(tmp_path / "out")
    log = grows(root, 40)
    few, many = (replace(options_of(root), batch_rows=rows) for rows in (3, 1_000))
    files = FileOptions(row_group_bytes=1, file_bytes=1)

    class Killed(BaseException):
        pass

    def die(*_: object) -> None:
        raise Killed

    with pytest.MonkeyPatch.context() as patch, suppress(Killed):
        patch.setattr(manifest, "write_entry", die)
        export_store(to, few, files)
    before = sorted(names_in(to))
    assert export_store(to, many, files).rows == len(log.places)
    assert places_in(to) == log.places
    assert {name for name in before if name.startswith("part-")} <= set(names_in(to))


def test_a_note_of_a_lost_task_is_none(tmp_path: Path) -> None:
    """It finds that its split does not end where the next begins, for the log is another one by then; the export is complete."""
    root, to = tmp_path / "broker-a", str(tmp_path / "out")
    log = grows(root, 40)
    options = options_of(root)
    prepared = prepare(to, options, FILES)
    export_store(to, options, FILES)

    def torn(one: object, columns: object = None) -> Iterator[object]:
        raise SeamMismatch(str(root), 0, "planted")
        yield

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(split, "_before", lambda there, one: None)
        patch.setattr(split, "rows_of", torn)
        patch.setattr(manifest, "at_work", lambda check: nullcontext())
        with suppress(TakenOver):
            export_split(prepared.job, prepared.todo[0])
    assert not [name for name in names_in(to) if name.startswith("seam-")]
    assert export_store(to, options, FILES).rows == len(log.places)
    assert places_in(to) == log.places


def test_an_entry_that_went_away_is_in_the_manifest(tmp_path: Path) -> None:
    """And so is the log from which its split would be made again."""
    root, to = tmp_path / "broker-a", tmp_path / "out"
    log = grows(root, 40)
    options = options_of(root)
    export_store(str(to), options, FILES)
    [entry, *_] = sorted(to.glob("_manifest/split-00000/*"))
    entry.unlink()
    log.files[0].unlink()
    assert export_store(str(to), options, FILES).rows == len(log.places)
    assert places_in(str(to)) == log.places
    assert entry.exists()
