"""An export that is stopped anywhere goes on, and in the end each row is there exactly once."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import shutil
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

from rmq_columns import BadOption, CannotRead, Options, Split, read_split
from rmq_columns.errors import NotPermitted
from rmq_columns.export.manifest import CannotExport, entries_of
from rmq_columns.export.options import FileOptions, parse_file_options
from rmq_columns.export.parquet import export_split, export_store, finish, prepare
from rmq_columns.export.reading import read_export
from rmq_columns.export.sinks import CannotWrite
from tests.support.exports import FILE_BYTES, data_files, die, exported, log_of_days, options_of, stopped_at, stored
from tests.support.logs import write_log
from tests.support.loops import each, strided

FILES = FileOptions()


def killed(to: Path, options: Options, number: int, increment: bool = False) -> bool:
    """An export in a process of its own that dies before its step `number`; False when it came to its end before that."""
    context = multiprocessing.get_context("forkserver")  # plain fork would take pyarrow's threads for granted
    context.set_forkserver_preload(["rmq_columns.export.parquet", "tests.support.exports"])
    child = context.Process(target=export_until, args=(str(to), options, number, increment))
    child.start()
    child.join()
    assert child.exitcode in (0, -signal.SIGKILL)
    return child.exitcode != 0


def export_until(to: str, options: Options, number: int, increment: bool) -> None:
    with stopped_at(number, die):
        export_store(to, options, FILES, increment=increment)


def steps_of(to: Path, options: Options) -> list[str]:
    with stopped_at(-1, die) as steps:
        export_store(str(to), options, FILES)
    return steps


def assert_whole(to: Path, root: Path, **options: str) -> None:
    """Every row once, no file that does not count, the end said."""
    assert exported(to) == stored(root, **options)
    lines = (to / "_manifest" / "manifest.jsonl").read_text().splitlines()
    assert sorted(file["name"] for line in lines for file in json.loads(line)["files"]) == data_files(to)
    assert not list(to.rglob(".*.part"))
    assert json.loads((to / "_SUCCESS").read_text())["rows"] == len(stored(root))


class Killed:
    """Before each write, each rename, each removal: started again once, it is whole."""

    FEW: Final = {"columns": "brokerName,body,physicalOffset"}
    """Each column is a few writes more."""

    def __init__(self, tmp_path: Path) -> None:
        self.path = tmp_path
        self.root = log_of_days(tmp_path / "broker-a", 40, days=1.5).root
        self.options = options_of(self.root, **self.FEW)
        self.steps = steps_of(tmp_path / "whole", self.options)
        assert {"create", "put", "remove", "write", "complete", "appear"} == set(self.steps)
        assert not killed(tmp_path / "end", self.options, len(self.steps))

    def at(self, number: int) -> None:
        to = self.path / f"killed-{number}"
        assert killed(to, self.options, number)
        assert not (to / "_SUCCESS").exists()
        export_store(str(to), self.options, FILES)
        assert_whole(to, self.root, **self.FEW)


def test_killed_at_some_steps(tmp_path: Path) -> None:
    start = Killed(tmp_path)
    first_of_its_kind = [start.steps.index(kind) for kind in set(start.steps)]
    each(strided(range(len(start.steps)), 4, first_of_its_kind), start.at)


@pytest.mark.nightly
def test_killed_at_every_step(tmp_path: Path) -> None:
    start = Killed(tmp_path)
    each(range(len(start.steps)), start.at)


def test_killed_again_and_again(tmp_path: Path) -> None:
    """Each start dies a few steps later than it began; what is done stays done."""
    log = log_of_days(tmp_path / "broker-a", 200)
    options, to = options_of(log.root), tmp_path / "out"
    assert len(log.files) > 3
    done, deaths = [], 0
    some = 2 * len(steps_of(tmp_path / "whole", options)) // len(log.files)
    while killed(to, options, some + deaths):
        deaths += 1
        done.append(sum((to / entries_of(number)).exists() for number in range(len(log.files))))
    assert deaths > 1
    assert done == sorted(done)
    assert done[-1] > 0
    assert_whole(to, log.root)


def test_what_is_done_is_not_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = log_of_days(tmp_path / "broker-a", 200)
    options, to = options_of(log.root), tmp_path / "out"
    prepared = prepare(str(to), options, FILES)
    for one in prepared.todo[:2]:
        export_split(prepared.job, one)
    before = data_files(to)
    read: list[Any] = []

    def reading(split: Split) -> Iterator[pa.RecordBatch]:
        read.append(split.parts)
        return read_split(split)

    monkeypatch.setattr("rmq_columns.export.split.read_split", reading)
    again = prepare(str(to), options, FILES)
    assert [one.number for one in again.todo] == [one.number for one in prepared.todo[2:]]
    for one in again.todo:
        export_split(again.job, one)
    export_split(again.job, again.todo[0])  # a task that is repeated
    finish(again)
    assert len(read) == 2 * len(again.todo)  # once to write, once to count
    assert set(before) < set(data_files(to))
    assert_whole(to, log.root)
    assert not prepare(str(to), options, FILES).todo
    assert_whole(to, log.root)


def test_two_attempts_at_once(tmp_path: Path) -> None:
    """The second begins and ends while the first is at work: one of them counts."""
    log = log_of_days(tmp_path / "broker-a")
    options, to = options_of(log.root), tmp_path / "out"
    prepared = prepare(str(to), options, FILES)
    slow = prepared.todo[0]

    def other() -> None:
        export_split(prepared.job, slow)

    for number in range(8):
        with stopped_at(number, other):
            export_split(prepared.job, slow)
        shutil.rmtree(to / entries_of(slow.number), ignore_errors=True)
    for one in prepared.todo:
        export_split(prepared.job, one)
    finish(prepared)
    assert_whole(to, log.root)


def test_an_earlier_start_that_is_still_alive_gives_up(tmp_path: Path) -> None:
    log = log_of_days(tmp_path / "broker-a")
    options, to = options_of(log.root), tmp_path / "out"
    early = prepare(str(to), options, FILES)
    late = prepare(str(to), options, FILES)
    with pytest.raises(CannotExport, match="another start of this export has taken over"):
        export_split(early.job, early.todo[0])
    assert not data_files(to)
    for one in late.todo:
        export_split(late.job, one)
    with pytest.raises(CannotExport, match="taken over"):
        finish(early)
    finish(late)
    assert_whole(to, log.root)


@pytest.mark.parametrize("harm", ["gone", "shorter"])
def test_a_file_that_does_not_hold_any_more(tmp_path: Path, harm: str) -> None:
    log = log_of_days(tmp_path / "broker-a")
    options, to = options_of(log.root), tmp_path / "out"
    export_store(str(to), options, FILES)
    file = to / data_files(to)[0]
    file.unlink() if harm == "gone" else file.write_bytes(file.read_bytes()[:-1])
    export_store(str(to), options, FILES)
    assert_whole(to, log.root)


def test_not_complete(tmp_path: Path) -> None:
    log = log_of_days(tmp_path / "broker-a")
    prepared = prepare(str(tmp_path / "out"), options_of(log.root), FILES)
    export_split(prepared.job, prepared.todo[0])
    with pytest.raises(CannotExport, match=r"split 1 is not done \(\d+ in all\): start the export again"):
        finish(prepared)
    with pytest.raises(Exception, match="no complete export"):
        read_export(str(tmp_path / "out"))


@pytest.mark.parametrize(
    ("options", "files", "said"),
    [
        ({"topics": "T"}, {}, 'topics was not given, now it is ["T"]'),
        ({"decompress": "true"}, {}, "decompress was false, now it is true"),
        ({"columns": "body,topic"}, {}, 'columns was not given, now it is ["body", "topic"]'),
        ({"startingTimestamp": 7}, {}, "starting_ms was not given, now it is 7"),
        ({}, {"compression": "snappy"}, 'compression was "zstd", now it is "snappy"'),
        ({}, {"partition_by": "topic"}, 'partition_by was ["brokerName", "date"], now it is ["topic"]'),
    ],
)
def test_other_arguments(tmp_path: Path, options: dict[str, Any], files: dict[str, Any], said: str) -> None:
    log = log_of_days(tmp_path / "broker-a")
    to = tmp_path / "out"
    export_store(str(to), options_of(log.root), FILES)
    with pytest.raises(CannotExport) as refused:
        export_store(str(to), options_of(log.root, **options), parse_file_options(files))
    assert said in str(refused.value)
    assert str(refused.value).startswith(f"{to}: ")
    assert_whole(to, log.root)


def test_how_it_is_read_may_differ(tmp_path: Path) -> None:
    log = log_of_days(tmp_path / "broker-a")
    prepared = prepare(str(tmp_path / "out"), options_of(log.root), FILES)
    export_split(prepared.job, prepared.todo[0])
    export_store(str(tmp_path / "out"), options_of(log.root, batchRows=7, blockBytes=5000), FILES)
    assert_whole(tmp_path / "out", log.root)


def test_another_store(tmp_path: Path) -> None:
    log = log_of_days(tmp_path / "broker-a")
    to = tmp_path / "out"
    prepared = prepare(str(to), options_of(log.root), FILES)
    export_split(prepared.job, prepared.todo[0])
    other = log_of_days(tmp_path / "broker-b")
    with pytest.raises(CannotExport, match=r"holds the export of .*broker-a, not of .*broker-b"):
        prepare(str(to), options_of(other.root), FILES)
    write_log(log.root, [bytes([number]) * 290 for number in range(90)], file_bytes=FILE_BYTES, topic=b"Another")
    with pytest.raises(CannotExport, match=r"another store: .* began with another message"):
        prepare(str(to), options_of(log.root), FILES)


def test_what_others_put_there(tmp_path: Path) -> None:
    """Nothing of theirs is removed, and nothing is written into a directory that is theirs."""
    log = log_of_days(tmp_path / "broker-a")
    to = tmp_path / "out"
    to.mkdir()
    (to / "notes.txt").write_text("mine")
    with pytest.raises(CannotExport, match=r"is not empty and holds no export that could go on: notes\.txt"):
        export_store(str(to), options_of(log.root), FILES)
    assert [path.name for path in to.iterdir()] == ["notes.txt"]
    (to / "notes.txt").unlink()
    export_store(str(to), options_of(log.root), FILES)
    (to / "notes.txt").write_text("mine")
    (to / "part-of-mine.parquet").write_text("mine")
    export_store(str(to), options_of(log.root), FILES)
    assert (to / "notes.txt").exists()
    assert (to / "part-of-mine.parquet").exists()


def test_a_directory_that_cannot_be_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not taken for one that was removed."""
    log, to = log_of_days(tmp_path / "broker-a"), tmp_path / "out"
    export_store(str(to), options_of(log.root), FILES)
    before, day = data_files(to), min(to.glob("brokerName=*/date=*"))
    scandir = os.scandir

    def failing(path: str) -> Any:
        if path == str(day):
            raise OSError(errno.EIO, "Input/output error", path)
        return scandir(path)

    with monkeypatch.context() as patch:
        patch.setattr("os.scandir", failing)
        with pytest.raises(CannotRead, match="Input/output error"):
            export_store(str(to), options_of(log.root), FILES, pruned=True)
    export_store(str(to), options_of(log.root), FILES)
    assert data_files(to) == before
    assert exported(to) == stored(log.root)


def test_another_export_in_a_directory_of_this_one(tmp_path: Path) -> None:
    """Its files are called as ours are, and are not ours."""
    log, other = log_of_days(tmp_path / "broker-a"), log_of_days(tmp_path / "broker-b", 20)
    to = tmp_path / "out"
    export_store(str(to), options_of(log.root), FILES)
    export_store(str(to / "b"), options_of(other.root), FILES)
    part = to / "b" / "brokerName=broker-b" / ".part-00000-01234567-000.parquet.89abcdef.part"
    part.write_bytes(b"somebody is writing this")
    grown(log.root, 100)
    export_store(str(to), options_of(log.root), FILES, increment=True)
    assert exported(to / "b") == stored(other.root)
    assert part.exists()
    assert exported(to) == stored(log.root)


@pytest.mark.parametrize("said", ["[]", "3", '{"runs": 1}'])
def test_who_is_at_work_cannot_be_read(tmp_path: Path, said: str) -> None:
    log = log_of_days(tmp_path / "broker-a", 2)
    to = tmp_path / "out"
    export_store(str(to), options_of(log.root), FILES)
    (to / "_manifest" / "run.json").write_text(said)
    with pytest.raises(CannotExport, match=r"run\.json: does not say which start is at work"):
        export_store(str(to), options_of(log.root), FILES)


def test_keys_in_a_uri_are_neither_written_nor_shown(tmp_path: Path) -> None:
    log = log_of_days(tmp_path / "broker-a", 2)
    secret = "memory://KEY:SECRET@bucket/out"
    with pytest.raises(BadOption, match=r"memory://bucket/out: the URI has keys in it") as refused:
        prepare(str(tmp_path / "out"), replace(options_of(log.root), paths=(secret,)), FileOptions())
    assert "SECRET" not in str(refused.value)
    assert not (tmp_path / "out").exists()
    for kind in (CannotWrite, NotPermitted):
        assert str(kind(secret, -1, "why")).partition("memory")[2].startswith("://bucket/out")


def test_a_destination_that_cannot_be(tmp_path: Path) -> None:
    log = log_of_days(tmp_path / "broker-a", 3)
    (tmp_path / "file").write_text("x")
    with pytest.raises(CannotWrite):
        export_store(str(tmp_path / "file"), options_of(log.root), FILES)


def test_not_into_the_store(tmp_path: Path) -> None:
    log = log_of_days(tmp_path / "broker-a", 3)
    for to in (log.root / "out", log.root / "commitlog"):
        before = sorted(log.root.rglob("*"))
        with pytest.raises(CannotExport, match="lies in the store"):
            export_store(str(to), options_of(log.root), FILES)
        assert sorted(log.root.rglob("*")) == before
    with pytest.raises(CannotRead):
        export_store(str(tmp_path / "out"), options_of(tmp_path / "nothing"), FILES)
    assert not (tmp_path / "out").exists()


# --- increments


def grown(root: Path, count: int) -> None:
    """The same log, longer."""
    log_of_days(root, count, days=3 * count / 90)


def test_a_store_that_grew(tmp_path: Path) -> None:
    """Each increment has what came since; without being asked, nothing is added."""
    root, to = tmp_path / "broker-a", tmp_path / "out"
    for number, count in enumerate((30, 60, 60, 90)):
        grown(root, count)
        if number:
            assert export_store(str(to), options_of(root), FILES).rows < count or count == 60
        done = export_store(str(to), options_of(root), FILES, increment=True)
        assert (done.rows, done.increments) == (count, number + 1)
        assert_whole(to, root)


def test_a_store_that_grows_meanwhile(tmp_path: Path) -> None:
    """Between plan and end, and between two attempts: nothing is lost or doubled in the end."""
    root, to = tmp_path / "broker-a", tmp_path / "out"
    grown(root, 50)
    prepared = prepare(str(to), options_of(root), FILES)
    export_split(prepared.job, prepared.todo[-1])
    grown(root, 70)
    summary = export_store(str(to), options_of(root), FILES)
    assert summary.rows == 50
    export_store(str(to), options_of(root), FILES, increment=True)
    assert_whole(to, root)


def test_an_increment_that_is_killed(tmp_path: Path) -> None:
    root, to = tmp_path / "broker-a", tmp_path / "out"
    grown(root, 30)
    export_store(str(to), options_of(root), FILES)
    grown(root, 60)
    number = 0
    while killed(to, options_of(root), number, increment=True):
        number += 3
        if not (to / "_SUCCESS").exists():
            export_store(str(to), options_of(root), FILES)
    assert number > 3
    assert_whole(to, root)


def test_increments_of_several_brokers(tmp_path: Path) -> None:
    """Each goes on at its own place."""
    for name, count in (("broker-a", 60), ("broker-b", 20)):
        grown(tmp_path / "brokers" / name, count)
    to = tmp_path / "out"
    options = options_of(tmp_path / "brokers")
    export_store(str(to), options, FILES)
    for name, count in (("broker-a", 65), ("broker-b", 50), ("broker-c", 10)):
        grown(tmp_path / "brokers" / name, count)
    assert export_store(str(to), options, FILES, increment=True).rows == 125
    assert_whole(to, tmp_path / "brokers")


def test_topics_of_an_increment(tmp_path: Path) -> None:
    """A log of which nothing was chosen so far is looked at from its beginning."""
    root, to = tmp_path / "broker-a", tmp_path / "out"
    grown(root, 20)
    assert export_store(str(to), options_of(root, topics="U"), FILES).rows == 0
    assert export_store(str(to), options_of(root, topics="U"), FILES, increment=True).rows == 0
