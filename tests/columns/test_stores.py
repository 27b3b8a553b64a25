"""Which stores the paths mean: each has a name of its own, no log is read twice, a `file:` URI is the path that it means."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rmq_columns import BadOption, CannotRead, parse_options, read_store
from rmq_columns.files.filesystem import absolute, lies_in, local_path
from rmq_columns.read.stores import list_stores
from tests.support.logs import write_log

BODIES = [b"x"] * 3


def names_of(paths: Any, **more: Any) -> list[str]:
    return [store.broker_name for store in list_stores(parse_options({"paths": paths, **more}))]


@pytest.fixture
def brokers(tmp_path: Path) -> Path:
    for name in ("a", "b"):
        write_log(tmp_path / "brokers" / name / "store", BODIES)
    return tmp_path / "brokers"


def test_one_name_for_two_brokers_is_refused(brokers: Path) -> None:
    for paths in ([brokers], [brokers / "a", brokers / "b"], [brokers / "a" / "store", brokers / "b" / "store" / "commitlog"]):
        given = [str(path) for path in paths]
        with pytest.raises(BadOption, match="would both be x"):
            names_of(given, brokerName="x")
        assert names_of(given) == ["a", "b"]
    assert names_of([str(brokers / "a"), str(brokers / "b")], brokerName="x,y") == ["x", "y"]


def test_files_of_one_log_are_one_broker(tmp_path: Path) -> None:
    first = write_log(tmp_path / "1" / "store", [b"x" * 900] * 8).files
    files = [str(file) for file in first]
    assert len(files) > 1
    assert set(names_of(files)) == {"1"}
    assert set(names_of(files, brokerName="x")) == {"x"}
    other = write_log(tmp_path / "2" / "1" / "store", BODIES).files
    named = names_of([*files, str(other[0])])
    assert len(set(named[:-1])) == 1
    assert named[-1] not in named[:-1], "another broker, whose directory has the same name"


@pytest.mark.parametrize("path", ["", " ", [""], ["/a", ""], '["/a", ""]'])
def test_an_empty_path_names_nothing(path: Any) -> None:
    """As of a variable that is not set; never the root, nor where we are."""
    with pytest.raises(BadOption, match="where the store is"):
        parse_options({"path": path})


def test_a_log_that_is_named_twice(brokers: Path, tmp_path: Path) -> None:
    store = brokers / "a" / "store"
    log = next((store / "commitlog").iterdir())
    (tmp_path / "link").symlink_to(store)
    for other in (store, f"{store}/", store / "commitlog", log, brokers, tmp_path / "link", f"file://{store}"):
        for paths in ([store, other], [other, store]):
            with pytest.raises(BadOption, match="read twice"):
                names_of([str(path) for path in paths])
    with pytest.raises(BadOption, match="read twice"):
        names_of([str(log), str(log)])
    with pytest.raises(BadOption, match="read twice"):
        names_of([str(store), str(brokers / "b" / "store")], storePathCommitLog=str(store / "commitlog"))


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("/data/a", "/data/a"),
        ("data/a", "data/a"),
        ("file:///data/a", "/data/a"),
        ("file:/data/a", "/data/a"),
        ("file://localhost/data/a", "/data/a"),
        ("file:///a%20b/%25RETRY%25x", "/a b/%RETRY%x"),
        ("file:///", "/"),
        ("/a%20b", "/a%20b"),
        ("s3://bucket/a", None),
        ("s3a://bucket/file:/a", None),
    ],
)
def test_local_paths(given: str, meant: str | None) -> None:
    assert local_path(given) == meant


def test_a_file_of_another_machine() -> None:
    with pytest.raises(CannotRead, match="another machine, data; a local path is written file:///data/a"):
        local_path("file://data/a")
    with pytest.raises(BadOption, match="another machine"):
        parse_options({"path": "file://data/a"})


def test_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert absolute("x/../y") == absolute(f"file://{tmp_path}/y/") == str(tmp_path / "y")
    assert absolute("s3://bucket/y/") == "s3://bucket/y/"


def test_lies_in(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "store")
    store = str(tmp_path / "store")
    for inside in (store, f"{store}/x", f"{tmp_path}/link/x/y", f"file://{store}/x", f"file:{store}", f"{store}/../store"):
        assert lies_in(inside, store), inside
        assert lies_in(inside, f"file://{store}"), inside
    for outside in (f"{store}-2", str(tmp_path), f"file://{tmp_path}", f"s3:/{store}"):
        assert not lies_in(outside, store), outside
    assert lies_in("s3://b/store/x", "s3://b/store/")
    assert lies_in("S3A://b//store/x/", "s3://b/store"), "as Hadoop writes it"
    assert not lies_in("s3://b/store-2", "s3://b/store")
    assert not lies_in("gs://b/store", "s3://b/store")


def test_file_uris_are_read(tmp_path: Path) -> None:
    root = tmp_path / "a b"
    log = write_log(root, BODIES)
    assert read_store(root.as_uri()).read_all().num_rows == len(BODIES)
    above = write_log(tmp_path / "logs", BODIES).files[0].parent
    for logs in (above.as_uri(), f"{above.as_uri()},{log.files[0].parent.as_uri()}", str(above)):
        [store] = list_stores(parse_options({"path": str(root), "storePathCommitLog": logs}))
        assert store.logs[0] == str(above)
        assert len(store.logs) == logs.count(",") + 1


def test_a_log_that_is_not_there(tmp_path: Path) -> None:
    """It lies elsewhere, or somebody misspelt where: that is no log without messages."""
    log = write_log(tmp_path / "store", BODIES)
    logs = log.files[0].parent.rename(tmp_path / "logs")
    (tmp_path / "store" / "config").mkdir()
    with pytest.raises(CannotRead, match=f"{tmp_path}/store/commitlog: no such directory; .* storePathCommitLog"):
        read_store(tmp_path / "store")
    with pytest.raises(CannotRead, match="log: no such directory"):
        read_store(tmp_path / "store", storePathCommitLog=f"{logs}:{tmp_path}/log")
    assert read_store(tmp_path / "store", storePathCommitLog=str(logs)).read_all().num_rows == len(BODIES)
    assert read_store(tmp_path / "store", table="consumequeue").read_all().num_rows == len(BODIES)
    (tmp_path / "store" / "commitlog").mkdir()
    assert read_store(tmp_path / "store").read_all().num_rows == 0
