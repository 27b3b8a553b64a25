"""A start after one that was killed goes on: what was done is not done again, and all files are as they must be."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from rmq_columns import CannotRead
from rmq_columns.rebuild import notes
from rmq_columns.rebuild.place import MARK, UNFINISHED
from rmq_columns.rebuild.plan import Task
from rmq_columns.rebuild.work import _Builder, build_split, rebuild
from tests.support.logs import write_log
from tests.support.queue_files import files_of, options_of, store_of
from tests.support.stores import golden_store

SPLIT = 3000


class Killed(KeyboardInterrupt):
    """As a signal ends a driver: nothing is cleared up."""


class Counted:
    """Does tasks, up to so many; which ones were really read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, most: int = 1000) -> None:
        self.read: list[int] = []
        self.most = most
        run = _Builder.run

        def counting(builder: _Builder) -> Any:
            self.read.append(builder.task.number)
            return run(builder)

        monkeypatch.setattr(_Builder, "run", counting)

    def __call__(self, tasks: Sequence[Task]) -> Iterator[Any]:
        for task in tasks:
            if len(self.read) >= self.most:
                raise Killed
            yield from build_split(task)


def killed(store: Path, to: Path, monkeypatch: pytest.MonkeyPatch, most: int, split: int = SPLIT) -> list[int]:
    with monkeypatch.context() as patch:
        counted = Counted(patch, most)
        with pytest.raises(Killed):
            rebuild(options_of(store, splitBytes=split), str(to), counted)
    return counted.read


def gone_on(store: Path, to: Path, monkeypatch: pytest.MonkeyPatch, split: int = SPLIT) -> list[int]:
    with monkeypatch.context() as patch:
        counted = Counted(patch)
        rebuild(options_of(store, splitBytes=split), str(to), counted)
    return counted.read


@pytest.mark.parametrize("kind", ["plain", "batch", "mix"])
@pytest.mark.parametrize("most", [1, 3])
def test_what_was_done_is_not_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, most: int) -> None:
    store = store_of(kind, tmp_path / "store")
    whole = gone_on(store, tmp_path / "whole", monkeypatch)
    to = tmp_path / "to"
    first = killed(store, to, monkeypatch, most)
    assert sorted(os.listdir(to)) == [MARK, UNFINISHED]
    second = gone_on(store, to, monkeypatch)
    assert not set(first) & set(second[: len(set(whole)) - most])
    assert sorted([*first, *second]) == sorted(whole), "but for what the second round reads"
    assert files_of(to) == files_of(tmp_path / "whole") != {}
    assert UNFINISHED not in os.listdir(to)


def test_killed_again_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = golden_store(tmp_path / "store")
    read = []
    for _ in range(3):
        read += killed(store, tmp_path / "to", monkeypatch, 1)
    read += gone_on(store, tmp_path / "to", monkeypatch)
    assert sorted(read) == list(range(len(read)))
    assert files_of(tmp_path / "to") == files_of(store)


@pytest.mark.parametrize("other", ["a longer log", "a log that was written to", "other splits", "another delay", "a new boot"])
def test_of_something_else_all_is_done_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: str) -> None:
    log = write_log(tmp_path / "store", [b"x" * 300] * 40)
    store, to = tmp_path / "store", tmp_path / "to"
    all_of = gone_on(store, tmp_path / "whole", monkeypatch)
    assert len(killed(store, to, monkeypatch, 3)) == 3
    split = SPLIT
    match other:
        case "a longer log":
            write_log(store, [b"x" * 300] * 52)
            all_of = gone_on(store, tmp_path / "longer", monkeypatch)
        case "a log that was written to":
            os.utime(log.files[0], ns=(1, 1))
        case "other splits":
            split = 2 * SPLIT
            all_of = gone_on(store, tmp_path / "others", monkeypatch, split)
        case "another delay":
            (store / "config").mkdir()
            (store / "config" / "topics.json").write_text(
                '{"topicConfigTable": {"B": {"attributes": {"queue.type": "BatchCQ"}}}}'
            )
        case "a new boot":
            monkeypatch.setattr(notes, "_boot", lambda: "another")
    assert gone_on(store, to, monkeypatch, split) == all_of


def test_a_note_that_is_torn_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = golden_store(tmp_path / "store")
    [done] = killed(store, tmp_path / "to", monkeypatch, 1)
    [note] = (tmp_path / "to" / UNFINISHED).glob(f"*/0/{notes.NOTES}/*")
    os.truncate(note, note.stat().st_size // 2)
    assert done in gone_on(store, tmp_path / "to", monkeypatch)
    assert files_of(tmp_path / "to") == files_of(store)


def test_killed_while_queues_are_put_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some of them have been moved away: all is done anew."""
    store = golden_store(tmp_path / "store")
    all_of = gone_on(store, tmp_path / "whole", monkeypatch)

    def die(*_: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("rmq_columns.rebuild.work.finish", die)
        with pytest.raises(Killed):
            rebuild(options_of(store, splitBytes=SPLIT), str(tmp_path / "to"))
    assert gone_on(store, tmp_path / "to", monkeypatch) == all_of
    assert files_of(tmp_path / "to") == files_of(store)


def test_the_other_start_writes_nothing_any_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was only thought to be dead: its directory has another name."""
    store = golden_store(tmp_path / "store")
    held: list[Task] = []

    def run(tasks: Sequence[Task]) -> Iterator[Any]:
        held.extend(tasks)
        yield from build_split(tasks[0])
        assert 0 not in gone_on(store, tmp_path / "to", monkeypatch)
        yield from build_split(tasks[1])

    with pytest.raises(CannotRead, match="another start took it over"):
        rebuild(options_of(store, splitBytes=SPLIT), str(tmp_path / "to"), run)
    assert files_of(tmp_path / "to") == files_of(store)
    assert UNFINISHED not in os.listdir(tmp_path / "to")
