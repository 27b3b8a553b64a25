"""Exports to where nothing can be renamed: S3 (moto; skips without it) and a file system of fsspec."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from rmq_columns.export.destination import RemoteDestination, destination
from rmq_columns.export.manifest import TakenOver, entries_of
from rmq_columns.export.options import FileOptions
from rmq_columns.export.parquet import export_split, export_store, finish, prepare
from rmq_columns.export.sinks import CannotWrite
from tests.support.exports import exported, log_of_days, options_of, stored
from tests.support.object_store import KEYS, object_store

FILES = FileOptions()


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with object_store() as address, pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", KEYS["access_key"])
        patch.setenv("AWS_SECRET_ACCESS_KEY", KEYS["secret_key"])
        yield address


@pytest.fixture(params=[pytest.param("s3", marks=pytest.mark.s3), "memory"])
def to(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A place of its own."""
    if request.param == "memory":
        pytest.importorskip("fsspec")
        return f"memory://{tmp_path.name}"
    endpoint = request.getfixturevalue("endpoint")
    return f"s3://bucket/{tmp_path.name}?endpoint_override={endpoint}&scheme=http&region=us-east-1"


class Stop(Exception):
    """In place of a death: objects in memory do not outlive this process."""


def assert_whole(to: str, root: Path) -> None:
    assert exported(to) == stored(root)
    there = destination(to)
    assert isinstance(there, RemoteDestination)
    listed = {name for name, _ in there.walk()}
    assert "_SUCCESS" in listed
    data = there.read("_manifest/manifest.jsonl")
    assert data is not None
    assert all(name.encode() in data for name in listed if name.endswith(".parquet"))


def test_there_and_back(to: str, tmp_path: Path) -> None:
    log = log_of_days(tmp_path / "broker-a")
    done = export_store(to, options_of(log.root), FILES)
    assert done.rows == done.verified_rows == len(log.places)
    assert_whole(to, log.root)
    export_store(to, options_of(log.root), FILES)
    log_of_days(tmp_path / "broker-a", 120, days=4)
    assert export_store(to, options_of(log.root), FILES, increment=True).rows == 120
    assert_whole(to, log.root)


@pytest.mark.parametrize("call", ["create", "put", "remove"])
def test_stopped_at_every_step(to: str, tmp_path: Path, call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each attempt gets one step further; what was half written when it stopped is there, and does not count."""
    log = log_of_days(tmp_path / "broker-a", 60)
    done: Any = getattr(RemoteDestination, call)
    left = 0

    def counted(self: Any, *arguments: Any) -> Any:
        nonlocal left
        if not left:
            raise Stop
        left -= 1
        made = done(self, *arguments)
        if call == "create" and not left:
            made.write(b"half")
            made.commit()
            raise Stop
        return made

    prepare(to, options_of(log.root), FILES)
    half = destination(to).create("part-00000-00000000-000.parquet")  # of an attempt that died
    half.write(b"half")
    half.commit()
    monkeypatch.setattr(RemoteDestination, call, counted)
    stops = 0
    while True:
        left = stops + 1
        try:
            export_store(to, options_of(log.root), FILES)
        except Stop:
            stops += 1
            continue
        break
    assert stops > (0 if call == "remove" else 1)
    monkeypatch.undo()
    assert_whole(to, log.root)


def test_an_object_that_went_away(to: str, tmp_path: Path) -> None:
    """Its split is written again."""
    log = log_of_days(tmp_path / "broker-a")
    prepared = prepare(to, options_of(log.root), FILES)
    for one in prepared.todo:
        export_split(prepared.job, one)
    there = destination(to)
    assert list(there.walk(entries_of(0)))
    there.remove([next(name for name, _ in there.walk() if "part-00000" in name)])
    again = prepare(to, options_of(log.root), FILES)
    assert [one.number for one in again.todo] == [0]
    export_split(again.job, again.todo[0])
    finish(again)
    assert_whole(to, log.root)


@pytest.mark.parametrize("number", range(5))
def test_two_first_starts_at_once(to: str, tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing can be renamed there, and no write asks whether somebody else has written: one plan counts nevertheless."""
    log = log_of_days(tmp_path / "broker-a", 60)
    done, steps = RemoteDestination.put, 0

    def counted(self: Any, name: str, data: bytes, *check: Any) -> None:
        nonlocal steps
        steps += 1
        if steps == number + 1:
            log_of_days(tmp_path / "broker-a", 75, days=3 * 75 / 60)
            export_store(to, options_of(log.root), FILES)
        done(self, name, data, *check)

    monkeypatch.setattr(RemoteDestination, "put", counted)
    with suppress(TakenOver):
        export_store(to, options_of(log.root), FILES)
    assert steps > number
    export_store(to, options_of(log.root), FILES, increment=True)
    assert_whole(to, log.root)


MEGABYTES = 12
"""More than one part of an upload."""


def test_a_cancelled_upload_leaves_nothing(to: str) -> None:
    """Not even a hidden object, or the parts of one: what was written before it is whole never left this machine."""
    there = destination(to)
    assert isinstance(there, RemoteDestination)
    sink = there.create("data/one.parquet")
    for number in range(MEGABYTES):
        sink.write(bytes([number]) * (1 << 20))
    sink.abort()
    sink.write(b"a writer's footer")
    assert list(there.walk()) == []
    if to.startswith("s3:"):
        assert uploads_at(to) == []
    whole = there.create("data/two.parquet")
    for number in range(MEGABYTES):
        whole.write(bytes([number]) * (1 << 20))
    whole.commit()
    assert list(there.walk()) == [("data/two.parquet", MEGABYTES << 20)]


class Broken:
    """A stream of an upload that ends in the midst; `closed` says whether it was closed by hand."""

    def __init__(self) -> None:
        self.came, self.closed = 0, False

    def write(self, data: bytes) -> None:
        self.came += len(data)
        raise OSError(5, "Input/output error")

    def close(self) -> None:
        self.closed = True


def test_an_upload_that_fails_is_never_closed(to: str, monkeypatch: pytest.MonkeyPatch) -> None:
    there = destination(to)
    assert isinstance(there, RemoteDestination)
    stream = Broken()
    monkeypatch.setattr(there, "_opened", lambda written, path: stream)
    sink = there.create("one.parquet")
    sink.write(b"abc")
    with pytest.raises(CannotWrite, match="Input/output error"):
        sink.commit()
    assert (stream.came, stream.closed) == (3, False)
    with pytest.raises(CannotWrite, match="Input/output error"):
        there.put("two.json", b"abc")
    assert (stream.came, stream.closed) == (6, False), "nor is that of a small file"
    monkeypatch.undo()
    assert list(there.walk()) == []


def test_who_cannot_give_a_file_its_name_takes_nothing_away(to: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one is there.  What is the same is his, however it came there."""
    there = destination(to)
    assert isinstance(there, RemoteDestination)
    there.put("one.parquet", b"abc")
    for data, is_his in ((b"abc", True), (b"xyz", False), (b"abcd", False)):
        sink = there.create("one.parquet")
        sink.write(data)
        sink.complete()
        with monkeypatch.context() as patch:
            patch.setattr(sink, "_filesystem", Unmoving(sink._filesystem))
            if is_his:
                sink.appear()
            else:
                with pytest.raises(CannotWrite, match="Input/output error"):
                    sink.appear()
        assert there.read("one.parquet") == b"abc"
        sink.abort()
        assert [name for name, _ in there.walk()] == ["one.parquet"]


class Unmoving:
    """A file system that is not well: it gives no file another name."""

    def __init__(self, held: Any) -> None:
        self._held = held

    def __getattr__(self, name: str) -> Any:
        return getattr(self._held, name)

    def move(self, _from: str, _to: str) -> None:
        raise OSError(5, "Input/output error")


def uploads_at(to: str) -> list[str]:
    """Keys of uploads that were begun and neither ended nor aborted."""
    host = to.partition("endpoint_override=")[2].partition("&")[0]
    with urllib.request.urlopen(f"http://{host}/bucket?uploads") as answer:
        return re.findall(r"<Key>(.*?)</Key>", answer.read().decode())
