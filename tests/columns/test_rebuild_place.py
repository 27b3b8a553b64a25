"""Where queues are made anew: tasks that were given up for dead, disks that nobody shares, several brokers, earlier runs."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from rmq_columns import BadOption, CannotRead, Malformed, parse_options
from rmq_columns.read.stores import list_stores
from rmq_columns.rebuild.entries import Key, Kind
from rmq_columns.rebuild.place import MARK, check_place, finish, making
from rmq_columns.rebuild.plan import Task, directories, plan_build
from rmq_columns.rebuild.work import Made, build_split, rebuild
from tests.support.logs import FILE_BYTES, Log, unit, write_behind, write_log
from tests.support.queue_files import built, files_of, options_of
from tests.support.stores import golden_store, spoil

HOW: dict[str, Any] = {"queue_file_bytes": 200}
SPLIT = {"splitBytes": FILE_BYTES, "mode": "PERMISSIVE"}
T = Key("T", 0, Kind.PLAIN)


def made_again(store: Path) -> tuple[Log, Log]:
    """A topic of 40 messages, deleted, made again with 12: the queue begins anew in another split."""
    first = write_log(store, [b"a" * 300] * 40, queue=False)
    return first, write_behind(first, [b"b" * 300] * 12)


def units_of(root: Path) -> list[int]:
    """Physical offsets."""
    data = b"".join(files_of(root).values())
    return [int.from_bytes(data[at : at + 8], "big") for at in range(0, len(data), 20) if any(data[at : at + 20])]


def left(to: Path) -> list[str]:
    return sorted(path.name for path in to.iterdir())


# --- tasks that were given up for dead, and go on


class Zombies:
    """Does tasks; those of the first round once more whenever a task of the second begins and ends."""

    def __init__(self, again: int = 0) -> None:
        self.first: list[Task] = []
        self.again = again

    def __call__(self, tasks: Sequence[Task]) -> Iterator[Any]:
        for task in tasks:
            if task.pieces is None:
                self.first.append(task)
            yield from build_split(task)
            if task.pieces is not None:
                self.again += 1
                for one in reversed(self.first):
                    assert list(build_split(one)), "it still writes"


def test_a_zombie_of_the_first_round(tmp_path: Path) -> None:
    _, second = made_again(tmp_path / "store")
    zombies = Zombies()
    [made] = rebuild(options_of(tmp_path / "store", **SPLIT), str(tmp_path / "to"), zombies, **HOW)
    assert zombies.again
    assert made.queues[T].lives == 2
    assert units_of(tmp_path / "to") == second.places
    before = files_of(tmp_path / "to")
    for task in zombies.first:
        with pytest.raises(CannotRead, match="another start took it over"):
            list(build_split(task))
    assert files_of(tmp_path / "to") == before
    assert left(tmp_path / "to") == ["consumequeue", MARK], "nothing came back"


def test_a_zombie_that_saw_more_of_a_log_that_grows(tmp_path: Path) -> None:
    """The task that took its place had read the end before messages came; the other comes back and writes them, too."""
    log = write_log(tmp_path / "store", [b"a" * 100] * 28, file_bytes=1 << 16, queue=False)

    def run(tasks: Sequence[Task]) -> Iterator[Any]:
        for task in tasks:
            yield from build_split(task)
        end = log.places[-1] + len(unit(0, b"a" * 100, number=27))
        for number in range(28, 45):
            more = unit(end, b"a" * 100, number=number)
            spoil(log.files[0], end, more)
            end += len(more)
        for task in tasks:
            list(build_split(task))

    [made] = rebuild(options_of(tmp_path / "store"), str(tmp_path / "to"), run, **HOW)
    assert made.queues[T].units == 28
    assert units_of(tmp_path / "to") == log.places
    assert len(files_of(tmp_path / "to")) == 3


def test_two_starts(tmp_path: Path) -> None:
    """The first goes on until it meets the second's."""
    store = golden_store(tmp_path / "store")

    def run(tasks: Sequence[Task]) -> Iterator[Any]:
        yield from build_split(tasks[0])
        built(store, tmp_path / "to")
        yield from build_split(tasks[0])

    with pytest.raises(CannotRead, match="took it over"):
        rebuild(options_of(store), str(tmp_path / "to"), run)
    assert files_of(tmp_path / "to") == files_of(store)
    assert left(tmp_path / "to") == ["consumequeue", MARK]

    plans, _ = plan_build(options_of(store), str(tmp_path / "to"))
    targets = [plan.target for plan in plans]
    with making(plans[0].to, plans[0].run, targets):
        built(store, tmp_path / "to")
        with pytest.raises(CannotRead, match="another start took this directory over"):
            finish(plans[0].to, plans[0].run, targets)
    assert files_of(tmp_path / "to") == files_of(store)


# --- disks


def test_relative_from_another_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An executor has a working directory of its own."""
    store = golden_store(tmp_path / "store")
    for name in ("driver", "executor"):
        (tmp_path / name).mkdir()

    def run(tasks: Sequence[Task]) -> Iterator[Any]:
        for task in tasks:
            with monkeypatch.context() as patch:
                patch.chdir(tmp_path / "executor")
                yield from build_split(task)

    monkeypatch.chdir(tmp_path / "driver")
    rebuild(options_of(store), "to", run)
    assert files_of(tmp_path / "driver" / "to") == files_of(store)
    assert not list((tmp_path / "executor").iterdir())


def test_a_disk_that_executors_do_not_share(tmp_path: Path) -> None:
    store = golden_store(tmp_path / "store")
    to = tmp_path / "to"

    def elsewhere(tasks: Sequence[Task]) -> Iterator[Any]:
        """The directory of the driver is not there, another one of its name is."""
        for task in tasks:
            away = Path(f"{to}-of-the-driver")
            to.rename(away)
            to.mkdir()
            try:
                yield from build_split(task)
            finally:
                shutil.rmtree(to)
                away.rename(to)

    with pytest.raises(CannotRead, match="that the driver and all executors share"):
        rebuild(options_of(store), str(to), elsewhere)
    assert left(to) == [MARK]


@pytest.mark.parametrize("harm", ["gone", "short", "directory"])
def test_every_file_is_there_in_the_end(tmp_path: Path, harm: str) -> None:
    store = golden_store(tmp_path / "store")

    def run(tasks: Sequence[Task]) -> Iterator[Any]:
        for task in tasks:
            yield from build_split(task)
        file = next((tmp_path / "to").rglob("0" * 20))
        if harm == "gone":
            file.unlink()
        elif harm == "short":
            os.truncate(file, 20)
        else:
            shutil.rmtree(file.parent)

    reported = {"gone": "not there, although a task wrote it", "short": "20 bytes instead of", "directory": "no such file"}
    with pytest.raises(CannotRead, match=reported[harm]):
        rebuild(options_of(store), str(tmp_path / "to"), run)
    assert left(tmp_path / "to") == [MARK]


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was written is gone: a full disk must not stay full."""
    store = golden_store(tmp_path / "store")
    write, written = os.pwrite, [0]

    def pwrite(handle: int, data: Any, at: int) -> int:
        written[0] += 1
        if written[0] > 10:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(handle, data, at)

    monkeypatch.setattr(os, "pwrite", pwrite)
    with pytest.raises(CannotRead, match=r"consumequeue/.*/0{20}: No space left on device"):
        built(store, tmp_path / "to", splitBytes=2000)
    assert left(tmp_path / "to") == [MARK]
    assert json.loads((tmp_path / "to" / MARK).read_bytes())["complete"] is False
    monkeypatch.undo()
    built(store, tmp_path / "to")
    assert files_of(tmp_path / "to") == files_of(store)


def test_nobody_may_write_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(os, "makedirs", refuse)
    with pytest.raises(CannotRead, match="to: Permission denied"):
        built(golden_store(tmp_path / "store"), tmp_path / "to")


# --- what was there before


def test_what_an_earlier_run_made_stays_until_there_is_better(tmp_path: Path) -> None:
    store = golden_store(tmp_path / "store")
    built(store, tmp_path / "to")
    file = sorted((store / "commitlog").iterdir())[0]
    spoil(file, 4, b"\0\0\0\0")
    with pytest.raises(Malformed):
        built(store, tmp_path / "to", mode="FAILFAST")
    assert files_of(tmp_path / "to") == files_of(store)
    reported = json.loads((tmp_path / "to" / MARK).read_bytes())
    assert (reported["complete"], reported["made"]) == (True, ["consumequeue"])


def test_a_last_step_that_fails_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = golden_store(tmp_path / "store")
    built(store, tmp_path / "to")
    rename = os.rename

    def fail(source: str, target: str) -> None:
        if target == str(tmp_path / "to" / "consumequeue") and "whole" in source:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        rename(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", fail)
        with pytest.raises(CannotRead, match="to: Input/output error"):
            built(store, tmp_path / "to")
    assert files_of(tmp_path / "to") == files_of(store)
    assert left(tmp_path / "to") == ["consumequeue", MARK]
    assert json.loads((tmp_path / "to" / MARK).read_bytes())["complete"] is True
    built(store, tmp_path / "to")
    assert files_of(tmp_path / "to") == files_of(store)


def test_strange_files_are_never_removed(tmp_path: Path) -> None:
    store = golden_store(tmp_path / "store")
    built(store, tmp_path / "to")
    (tmp_path / "to" / "notes").write_text("mine")
    with pytest.raises(CannotRead, match="holds notes, which no earlier run made"):
        built(store, tmp_path / "to")
    assert (tmp_path / "to" / "notes").read_text() == "mine"
    (tmp_path / "to" / "notes").unlink()
    for wrong in ("{", "[]", '{"made": ["../x"]}', '{"made": [""]}', "{}"):
        (tmp_path / "to" / MARK).write_text(wrong)
        with pytest.raises(CannotRead, match="does not say what"):
            built(store, tmp_path / "to")
    assert files_of(tmp_path / "to") == files_of(store)


def test_no_directory(tmp_path: Path) -> None:
    store = golden_store(tmp_path / "store")
    (tmp_path / "file").touch()
    for to in (tmp_path / "file", tmp_path / "file" / "to"):
        with pytest.raises(CannotRead, match="Not a directory"):
            built(store, to)


# --- several brokers


def test_brokers_with_one_name_have_their_own_directories(tmp_path: Path) -> None:
    """Their names are their paths, of which `_` for `/` would make one."""
    places = [tmp_path / "x_a" / "store", tmp_path / "x" / "a" / "store", tmp_path / "y" / "x_a" / "store"]
    for number, place in enumerate(places):
        write_log(place, [b"x" * 100] * (5 + number))
    options = options_of(tmp_path, paths=json.dumps([str(place) for place in places]), path=None)
    made = rebuild(options, str(tmp_path / "to"), **HOW)
    assert [one.queues[T].units for one in made] == [5, 6, 7]
    assert len({one.plan.target.root for one in made}) == 3
    assert [len(units_of(Path(one.plan.target.root))) for one in made] == [5, 6, 7]
    assert left(tmp_path / "to") == sorted([MARK, *(os.path.basename(one.plan.target.root) for one in made)])
    rebuild(options, str(tmp_path / "to"), **HOW)
    built(places[0], tmp_path / "to")
    assert left(tmp_path / "to") == ["consumequeue", MARK], "those of the other brokers were an earlier run's"


def test_files_of_one_log_are_no_brokers(tmp_path: Path) -> None:
    """Queues of each alone would be found as those of two brokers, each with half of the units."""
    files = write_log(tmp_path / "store", [b"x" * 900] * 8).files
    with pytest.raises(BadOption, match="several files of one log"):
        rebuild(parse_options({"paths": [str(file) for file in files[:2]]}), str(tmp_path / "to"), **HOW)
    assert not (tmp_path / "to").exists()


@pytest.mark.parametrize("attributes", ["queue.type", ["queue.type"], 1, None])
def test_attributes_of_a_topic_that_are_none(tmp_path: Path, attributes: Any) -> None:
    write_log(tmp_path / "store", [b"x" * 100] * 5)
    (tmp_path / "store" / "config").mkdir(exist_ok=True)
    table = {"topicConfigTable": {"T": {"attributes": attributes}}}
    (tmp_path / "store" / "config" / "topics.json").write_text(json.dumps(table))
    [made] = rebuild(options_of(tmp_path / "store"), str(tmp_path / "to"), **HOW)
    assert [key.kind for key in made.queues] == [Kind.PLAIN]


def test_directories_of_brokers() -> None:
    names = ["a", "b/c", "b_c", "b_c-2", "..", ".", "unfinished", MARK, "A", "x" * 300, "y" + "x" * 300, "\0", ""]
    found = directories(names)
    assert found[:3] == ["a", "b_c", "b_c-2"]
    assert len({one.casefold() for one in found}) == len(names)
    for one in found:
        assert os.path.basename(one) == one
        assert one not in ("", ".", "..", "unfinished", MARK)
        assert len(one) < 100
        assert "\0" not in one


# --- never into a store


def test_a_log_elsewhere_is_a_store_too(tmp_path: Path) -> None:
    store = tmp_path / "store"
    logs = write_log(store, [b"x" * 100] * 5).files[0].parent.rename(tmp_path / "logs")
    lone = next(logs.iterdir())
    golden_store(tmp_path / "other")
    before = sorted(tmp_path.rglob("*"))
    for path, more in ((store, {"storePathCommitLog": str(logs)}), (logs, {}), (lone, {})):
        for to in (logs / "to", f"file://{logs}/to", f"file:{logs}"):
            with pytest.raises(CannotRead, match="never written to"):
                rebuild(options_of(path, **more), str(to))
    with pytest.raises(CannotRead, match="never written to"):
        rebuild(options_of(logs), f"file://{tmp_path}/other/to")
    assert sorted(tmp_path.rglob("*")) == before


def test_a_uri_of_this_machine_is_a_directory(tmp_path: Path) -> None:
    store = golden_store(tmp_path / "store")
    rebuild(options_of(store), (tmp_path / "a b").as_uri())
    assert files_of(tmp_path / "a b") == files_of(store)
    with pytest.raises(CannotRead, match="another machine"):
        rebuild(options_of(store), "file://tmp/x")


def test_a_log_that_goes_while_it_is_read(tmp_path: Path) -> None:
    """Retention of a broker that runs: an error with the file; or, leniently, so many bytes less, which is reported."""
    log = write_log(tmp_path / "store", [b"x" * 500] * 30)
    first = sum(place < FILE_BYTES for place in log.places)

    def run(tasks: Sequence[Task]) -> Iterator[Any]:
        log.files[0].unlink(missing_ok=True)
        for task in tasks:
            yield from build_split(task)

    [made] = rebuild(options_of(tmp_path / "store", **SPLIT), str(tmp_path / "to"), run, **HOW)
    assert (made.damaged_bytes, made.queues[T].start) == (FILE_BYTES, first)
    write_log(tmp_path / "store", [b"x" * 500] * 30)
    with pytest.raises(Malformed, match=f"{log.files[0]}.*deleted while it was read"):
        rebuild(options_of(tmp_path / "store", splitBytes=FILE_BYTES), str(tmp_path / "to"), run, **HOW)
    assert left(tmp_path / "to") == ["consumequeue", MARK]


def test_a_log_that_is_not_there(tmp_path: Path) -> None:
    """What an earlier run made is not replaced by nothing."""
    store = golden_store(tmp_path / "store")
    built(store, tmp_path / "to")
    before = files_of(tmp_path / "to")
    (store / "commitlog").rename(tmp_path / "logs")
    with pytest.raises(CannotRead, match="commitlog: no such directory"):
        built(store, tmp_path / "to")
    assert files_of(tmp_path / "to") == before
    built(store, tmp_path / "to", storePathCommitLog=str(tmp_path / "logs"))
    assert files_of(tmp_path / "to") == before


def test_an_empty_log(tmp_path: Path) -> None:
    (tmp_path / "store" / "commitlog").mkdir(parents=True)
    made: list[Made] = built(tmp_path / "store", tmp_path / "to")
    assert not made[0].queues
    assert left(tmp_path / "to") == [MARK]
    check_place(str(tmp_path / "to"), list_stores(options_of(tmp_path / "store")))
