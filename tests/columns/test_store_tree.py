"""One walk for all: a directory full of odd things has the same files for the inspector, for columns and through pyarrow."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import fs

from rmq_columns import parse_options
from rmq_columns.files.filesystem import Entry, LocalTree, listed, path_of
from rmq_columns.files.store_tree import StoreTree
from rmq_columns.read.options import Options
from rmq_columns.read.stores import Store, list_stores
from rmq_inspect.decode.directory import list_store
from rmq_wire.store_names import BATCH_QUEUES, EXTENSIONS, INDEX, QUEUE_ID_MAX, QUEUES

TREES = (QUEUES, BATCH_QUEUES, EXTENSIONS)
OFFSET, NEXT = f"{0:020}", f"{1000:020}"
QUEUE_NAMES = st.sampled_from(["0", "1", "2", "10", "007", "-1", "x", " 1", "\u0661", str(QUEUE_ID_MAX), str(QUEUE_ID_MAX + 1)])
FILE_NAMES = st.sampled_from([OFFSET, NEXT, f"{2**63:020}", "0", OFFSET[1:], f"{OFFSET}.bak", "tmp", "\u0660" * 20])
INDEX_NAMES = st.sampled_from(["2" * 17, "1" * 17, "1" * 16, "1" * 18, "x" * 17])
NODES = st.one_of(st.just(None), st.integers(0, 9))
"""A directory, or a file of so many bytes."""


def oddities(root: Path) -> None:
    """What belongs beside what does not."""
    for parts in ((QUEUES, "T", "10"), (QUEUES, "T", "2"), (QUEUES, "T", "007"), (QUEUES, "U", "x"), (BATCH_QUEUES, "B", "0")):
        root.joinpath(*parts).mkdir(parents=True)
        root.joinpath(*parts, NEXT).write_bytes(b"x" * 20)
        root.joinpath(*parts, OFFSET).write_bytes(b"x" * 1000)
        root.joinpath(*parts, "notes").touch()
        root.joinpath(*parts, f"{2000:020}").mkdir()
        root.joinpath(*parts, f"{3000:020}").symlink_to(root.joinpath(*parts, OFFSET))
    (root / QUEUES / "file").touch()
    (root / QUEUES / "T" / "3").touch()
    (root / QUEUES / "V").symlink_to(root / QUEUES / "T")
    (root / EXTENSIONS / "T" / "2").mkdir(parents=True)
    (root / "commitlog").mkdir()
    for name in (NEXT, OFFSET, "readme"):
        (root / "commitlog" / name).write_bytes(b"\0" * 8)
    (root / INDEX).mkdir()
    for name in ("2" * 17, "1" * 17, "1" * 16):
        (root / INDEX / name).touch()
    (root / INDEX / ("3" * 17)).mkdir()
    os.mkfifo(root / INDEX / ("4" * 17))


def files_of(store: Store, options: Options) -> dict[str, tuple[int, int]]:
    """Name -> (start, size) of everything with a place in the tree."""
    tree = store.tree(options)
    own = [file for queue in store.queues(tree, options, TREES) for file in queue.files]
    found = [*store.log_files(tree), *own, *store.index_files(tree)]
    return {file.path.removeprefix(store.root + "/"): (file.start, file.size) for file in found}


def test_the_same_files_for_everybody(tmp_path: Path) -> None:
    oddities(tmp_path)
    options = parse_options({"path": str(tmp_path), "includeSystemTopics": True})
    [store] = list_stores(options)
    seen = list_store(tmp_path)
    by_path = files_of(store, options)
    assert by_path == {file.name: (max(file.start, 0), file.size) for file in seen.files()}
    assert [key for key in seen.queues if key[0] == "T"] == [("T", 2), ("T", 10)]
    assert seen.extensions == {("T", 2): []}, "a queue without files is one"
    assert len(by_path) == 2 + 3 * 2 + 2

    through_arrow = replace(options, filesystem=fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem()), paths=("/",))
    tree = Store("", "/", "/", ("/commitlog",)).tree(through_arrow)
    entries = StoreTree(lambda parts: tree.entries(path_of(*parts)) or ())
    arrow = {(one.topic, one.queue_id) for one in entries.queues(BATCH_QUEUES)}
    assert arrow == seen.batch_queues.keys()


def test_what_is_left_out_is_told(tmp_path: Path) -> None:
    oddities(tmp_path)
    why = dict(list_store(tmp_path).strays)
    assert why[f"{QUEUES}/file"] == "a file where directories of topics are"
    assert why[f"{QUEUES}/T/3"] == "a file where directories of queues are"
    assert why[f"{QUEUES}/T/007/"] == why[f"{QUEUES}/U/x/"] == "not a queue number"
    assert why[f"{QUEUES}/T/2/{2000:020}/"] == "a directory among the files of a log or queue"
    assert why[f"{QUEUES}/T/2/{3000:020}"] == why[f"{QUEUES}/V"] == "a link; links are not followed"
    assert why["commitlog/readme"].startswith("not an offset of 20 digits")
    assert why[f"{INDEX}/{'1' * 16}"] == "not a time of 17 digits"
    assert why[f"{INDEX}/{'3' * 17}/"] == "a directory among the index files"
    assert why[f"{INDEX}/{'4' * 17}"].startswith("a pipe")
    assert f"{QUEUES}/T/007/notes" not in why, "what is no queue is not looked into"


def test_strays_of_a_log_elsewhere_are_named_in_full(tmp_path: Path) -> None:
    elsewhere = tmp_path / "log"
    elsewhere.mkdir()
    (elsewhere / "readme").touch()
    (elsewhere / OFFSET).symlink_to("/etc/passwd")
    (tmp_path / "s").mkdir()
    assert {stray.name for stray in list_store(tmp_path / "s", [elsewhere]).strays} == {
        str(elsewhere / "readme"),
        str(elsewhere / OFFSET),
    }


@given(
    st.dictionaries(QUEUE_NAMES, st.one_of(NODES, st.dictionaries(FILE_NAMES, NODES))),
    st.dictionaries(INDEX_NAMES, NODES),
)
def test_all_of_it_is_found_or_left_out(queues: dict[str, object], index: dict[str, object]) -> None:
    """Each once; what is found ascends."""
    nodes: dict[str, object] = {QUEUES: {"T": queues}, INDEX: index}
    told: list[str] = []

    def entries(parts: tuple[str, ...]) -> list[Entry]:
        there: object = nodes
        for part in parts:
            there = there.get(part) if isinstance(there, dict) else None
        return sorted(
            Entry(name, not isinstance(one, int), one if isinstance(one, int) else 0)
            for name, one in (there.items() if isinstance(there, dict) else ())
        )

    walk = StoreTree(entries, lambda name, _: told.append(name.rstrip("/")))
    found = list(walk.queues(QUEUES))
    assert [one.queue_id for one in found] == sorted({one.queue_id for one in found})
    held = [path_of(*file.parts) for one in found for file in one.files]
    held += [path_of(*file.parts) for file in walk.index_files()]
    expected = [path_of(INDEX, name) for name in index]
    for name, below in queues.items():
        is_queue = path_of(QUEUES, "T", name) not in told
        assert is_queue == (name in ("0", "1", "2", "10", str(QUEUE_ID_MAX)) and not isinstance(below, int))
        expected += [path_of(QUEUES, "T", name)] if not is_queue else []
        expected += [path_of(QUEUES, "T", name, file) for file in below] if is_queue and isinstance(below, dict) else []
    assert sorted([*held, *told]) == sorted(expected)
    for one in found:
        assert [file.start for file in one.files] == sorted({file.start for file in one.files})


def test_only_what_is_wanted_is_listed() -> None:
    asked: list[tuple[str, ...]] = []

    def entries(parts: tuple[str, ...]) -> list[Entry]:
        asked.append(parts)
        return [Entry(name, True, 0) for name in (("T", "U"), ("0", "1", "2"), ())[len(parts) - 1]]

    found = StoreTree(entries).queues(QUEUES, lambda topic: topic == "U", range(1, 2))
    assert not asked
    assert [(one.topic, one.queue_id) for one in found] == [("U", 1)]
    assert asked == [(QUEUES,), (QUEUES, "U"), (QUEUES, "U", "1")]


def test_a_directory_is_listed_by_path_or_by_descriptor(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "a").write_bytes(b"123")
    (tmp_path / "c").symlink_to("a")
    expected = [Entry("a", False, 3), Entry("b", True, 0)]
    assert LocalTree().entries(str(tmp_path)) == expected
    descriptor = os.open(tmp_path, os.O_RDONLY)
    told: list[str] = []
    there = listed("as it is called", lambda name, _: told.append(name), descriptor)
    os.close(descriptor)
    assert list(there) == expected, "all of it has been looked at"
    assert told == ["c"]
    assert LocalTree().entries(str(tmp_path / "none")) is LocalTree().entries(str(tmp_path / "a")) is None
    with pytest.raises(FileNotFoundError):
        listed(str(tmp_path / "none"))
