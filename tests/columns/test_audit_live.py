"""The audit of a store that a broker writes to meanwhile: queues and files grow and roll between any two of its looks.

The store is our own, written to by the hook through which the audit has its pieces done; so each look meets other files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rmq_columns import parse_options
from rmq_columns.checks.audit import StoreAudit, audit
from rmq_columns.checks.scope import Scope
from rmq_inspect.decode.directory import list_store
from rmq_inspect.verify.verify import verify
from rmq_store.disk.disk import RealDisk
from tests.support.store_rig import Rig, draft, small

FILE_BYTES = 16_384
"""Of the log: some 80 messages."""
UNIT_BYTES = 20
QUEUES = 3
BEGUN = 150


class Writer:
    """Puts messages whenever it is asked to."""

    def __init__(self, root: Path, queue_units: int = 10) -> None:
        settings = small(
            store_path_root_dir=str(root),
            mapped_file_size_commit_log=FILE_BYTES,
            max_message_size=4096,
            max_index_num=600,
            mapped_file_size_consume_queue=queue_units * UNIT_BYTES,
        )
        self.rig, self.count = Rig(RealDisk(), settings), 0

    def put(self, count: int) -> None:
        for _ in range(count):
            self.rig.put(draft(self.count, queue_id=self.count % QUEUES))
            self.count += 1
        self.rig.sync_queues()

    def close(self) -> None:
        assert self.rig.store.close(self.rig.wall_ms)


@pytest.fixture(params=[10, 1000], ids=lambda units: f"{units} units a file")
def writer(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Writer]:
    made = Writer(tmp_path / "store", request.param)
    made.put(BEGUN)
    yield made
    made.close()


def look(root: Path, between: Callable[[str, int], None]) -> StoreAudit:
    """between: called before each piece with what is done, and its number."""

    def in_turn(what: str, work: Callable[[Any], Any], pieces: Sequence[Any]) -> list[Any]:
        answers = []
        for number, piece in enumerate(pieces):
            between(what, number)
            answers.append(work(piece))
        return answers

    [found] = audit(parse_options({"path": str(root), "splitBytes": "4000"}), Scope(), in_turn)
    return found


def messages(found: StoreAudit) -> int:
    return sum(one.units for one in found.reports)


@pytest.mark.parametrize("step", [1, 17, 90, 400])
def test_nothing_is_found_while_it_grows(writer: Writer, tmp_path: Path, step: int) -> None:
    """However fast: within a file, over one border, over several files between any two pieces."""
    found = look(tmp_path / "store", lambda _what, _number: writer.put(step))
    assert [*found.all_findings()] == []
    assert BEGUN <= messages(found) <= writer.count


@pytest.mark.parametrize("phase", ["queues and index", "log", "queues against the log"])
def test_nothing_is_found_when_it_grew_before_one_look(writer: Writer, tmp_path: Path, phase: str) -> None:
    def between(what: str, number: int) -> None:
        if what == phase and number == 0:
            writer.put(500)

    found = look(tmp_path / "store", between)
    assert [*found.all_findings()] == []


@pytest.mark.parametrize("number", [0, 4, 8, 9, 10])
def test_nothing_is_found_when_it_grew_before_one_piece_of_log(writer: Writer, tmp_path: Path, number: int) -> None:
    """Also a file that was there already, but empty, when the store was listed."""
    log = tmp_path / "store" / "commitlog"
    following = log / f"{len(list(log.iterdir())) * FILE_BYTES:020}"
    following.write_bytes(bytes(FILE_BYTES))  # as Java makes them, before they are needed

    def between(what: str, piece: int) -> None:
        if (what, piece) == ("log", number):
            following.unlink(missing_ok=True)
            writer.put(120)

    found = look(tmp_path / "store", between)
    following.unlink(missing_ok=True)
    assert [*found.all_findings()] == []


@pytest.mark.parametrize("phase", ["queues and index", "log", "queues against the log"])
@pytest.mark.parametrize("count", [1, 2])
def test_nothing_is_found_when_the_oldest_files_are_deleted(writer: Writer, tmp_path: Path, phase: str, count: int) -> None:
    """As retention does it: the log first, then what leads to nothing any more."""
    writer.put(1500)
    root = tmp_path / "store"

    def between(what: str, number: int) -> None:
        if what == phase and number == 0:
            for path in sorted((root / "commitlog").iterdir())[:count]:
                path.unlink()
            sorted((root / "index").iterdir())[0].unlink()
            for queue in (root / "consumequeue" / "TopicA").iterdir():
                for path in sorted(queue.iterdir())[:1] if len(list(queue.iterdir())) > 1 else ():
                    path.unlink()

    found = look(root, between)
    assert [*found.all_findings()] == []


def test_a_file_that_is_deleted_in_the_middle_is_found(writer: Writer, tmp_path: Path) -> None:
    writer.put(500)
    gone = sorted((tmp_path / "store" / "commitlog").iterdir())[2]

    def between(what: str, number: int) -> None:
        if what == "log" and number == 0:
            gone.unlink()

    found = look(tmp_path / "store", between)
    assert "file-unreadable" in {one.code for one in found.all_findings()}


def quiet(_what: str, _number: int) -> None:
    """Nobody writes."""


def codes(found: StoreAudit) -> set[str]:
    return {one.code for one in found.all_findings()}


def newest(root: Path) -> Path:
    """The file of the log to which messages were put last."""
    return [path for path in sorted((root / "commitlog").iterdir()) if any(path.read_bytes())][-1]


@contextmanager
def gone(paths: Sequence[Path]) -> Iterator[None]:
    """The broker has them open, and finds them again in the end."""
    for path in paths:
        path.rename(path.parents[2] / path.name)
    try:
        yield
    finally:
        for path in paths:
            (path.parents[2] / path.name).rename(path)


def test_queues_that_point_behind_a_log_in_use_are_found(writer: Writer, tmp_path: Path) -> None:
    """Its last files are gone, and nobody writes so much that they could be there by now."""
    root = tmp_path / "store"
    with gone([path for path in (root / "commitlog").iterdir() if path >= newest(root)]):
        assert codes(look(root, quiet)) == {"queue-past-log"}
        assert verify(list_store(root)).findings.codes() >= {"queue-past-log"}


def test_queues_without_a_log_in_use_are_found(writer: Writer, tmp_path: Path) -> None:
    with gone([*(tmp_path / "store" / "commitlog").iterdir()]):
        assert "queue-past-log" in codes(look(tmp_path / "store", quiet))


@pytest.mark.parametrize("beneath", ["", "commitlog"])
def test_zeros_at_the_begin_of_the_newest_file_are_found(writer: Writer, tmp_path: Path, beneath: str) -> None:
    """A file that begins so is not one to which nothing was written yet."""
    with newest(tmp_path / "store").open("r+b") as file:
        file.write(bytes(600))
    assert "log-unit-broken" in codes(look(tmp_path / "store" / beneath, quiet))


def test_verify_takes_retention_for_no_damage(writer: Writer, tmp_path: Path) -> None:
    """The oldest files of log, queues and index are deleted between two of its looks."""
    writer.put(1500)
    root = tmp_path / "store"

    def progress(what: str, _done: int, _of: int) -> None:
        if what == "queues":
            for path in sorted((root / "commitlog").iterdir())[:1]:
                path.unlink()

    report = verify(list_store(root), progress=progress)
    assert not report.findings.codes()
    assert any("deleted meanwhile" in note for note in report.notes)


@pytest.mark.parametrize("pieces", [("log 0", "queues against the log 0"), ("log 3", "log 8", "log 20", "log 40")])
def test_nothing_is_found_when_retention_goes_on(writer: Writer, tmp_path: Path, pieces: tuple[str, ...]) -> None:
    """Files of the log are deleted again and again, some of them after they were read."""
    writer.put(1500)

    def between(what: str, number: int) -> None:
        if f"{what} {number}" in pieces:
            for path in sorted((tmp_path / "store" / "commitlog").iterdir())[:2]:
                path.unlink()

    assert [*look(tmp_path / "store", between).all_findings()] == []
