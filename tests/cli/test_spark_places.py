"""Where `rmq spark` may write what it found: never into a store, never over what is there, and never where nobody can."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from rmq_cli import spark_run
from rmq_cli.spark import command
from rmq_columns.errors import BadOption, CannotRead
from rmq_columns.files.counted import Asked
from rmq_spark.jobs import Job, Jobs
from rmq_spark.outcome import Outcome
from rmq_spark.writing import check_file, check_free, check_outside


@pytest.fixture
def store(tmp_path: Path) -> Path:
    made = tmp_path / "brokers" / "a"
    (made / "commitlog").mkdir(parents=True)
    return made


def test_nothing_is_written_into_a_store(store: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(store)
    for place in (store, store / "x", store / "commitlog" / "x", link / "x"):
        for written in (str(place), place.as_uri(), f"file:{place}"):
            with pytest.raises(BadOption, match="lies in a store"):
                check_outside(written, [])
    lone = tmp_path / "logs"
    lone.mkdir()
    with pytest.raises(BadOption, match="lies in a store"):
        check_outside(str(lone / "x"), [lone.as_uri()])
    (lone / "0").touch()
    with pytest.raises(BadOption, match="lies in a store"):
        check_outside(str(lone / "x"), [str(lone / "0")])
    with pytest.raises(BadOption, match="lies in a store"):
        check_outside("s3://bucket/store/x", ["s3://bucket/store"])
    check_outside(str(tmp_path / "found"), [str(store), "s3://bucket/store"])
    check_outside("s3://bucket/store-2", ["s3://bucket/store"])


def test_a_log_elsewhere_is_a_store_too(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_run, "need", lambda: None)
    logs = tmp_path / "logs"
    logs.mkdir()
    words = ["skew", str(store), "--option", f"storePathCommitLog={logs}", "--out", str(logs / "x")]
    seen = CliRunner().invoke(command, words)
    assert seen.exit_code == 2
    assert seen.stderr == f"rmq: {logs}/x: lies in a store, into which nothing is written; name a place elsewhere\n"


def test_what_is_there_stays(tmp_path: Path) -> None:
    check_free(str(tmp_path / "new"), overwrite=False)
    check_free(str(tmp_path), overwrite=False)
    (tmp_path / "file").write_text("")
    with pytest.raises(BadOption, match="is not empty"):
        check_free(str(tmp_path), overwrite=False)
    check_free(str(tmp_path), overwrite=True)
    for directory in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(BadOption, match=r"/file: is no directory"):
            check_free(str(directory), overwrite=True)
    with pytest.raises(BadOption, match="holds the store"):
        check_free(str(tmp_path), overwrite=True, stores=["s3://bucket/a", str(tmp_path / "brokers" / "a")])
    check_free("s3://bucket/found", overwrite=False)


def test_nobody_may_write_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)
    (tmp_path / "page").touch()
    with pytest.raises(BadOption, match=f"nothing may be written in {tmp_path}$"):
        check_free(str(tmp_path / "x" / "y"), overwrite=True)
    with pytest.raises(BadOption, match=f"nothing may be written in {tmp_path}$"):
        check_file(str(tmp_path / "x"))
    with pytest.raises(BadOption, match=f"nothing may be written in {tmp_path}/page$"):
        check_file(str(tmp_path / "page"))


def test_where_a_page_may_be(tmp_path: Path) -> None:
    (tmp_path / "page").touch()
    check_file(str(tmp_path / "page"))
    check_file(str(tmp_path / "new"))
    for wrong, said in (("no/page", f"no directory {tmp_path}/no"), ("page/x", "no directory"), ("", "is a directory")):
        with pytest.raises(BadOption, match=said):
            check_file(str(tmp_path / wrong))
    with pytest.raises(BadOption, match="no directory"):
        check_file("s3://bucket/page.html")


def test_what_was_found_is_reported_when_it_cannot_be_written(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full after hours."""

    def run(*_: Any) -> Outcome:
        return Outcome("skew", "a queue is hot", False)

    def full(*_: Any, **__: Any) -> None:
        raise CannotRead(str(tmp_path / "out"), -1, "No space left on device")

    stand_ins = {
        "need": bool,
        "check_java": bool,
        "session": lambda *_: nullcontext(),
        "asked": lambda *_: nullcontext(Asked()),
        "check_shared": lambda *_: None,
        "write_frames": full,
    }
    for name, value in stand_ins.items():
        monkeypatch.setattr(spark_run, name, value)
    monkeypatch.setattr(Jobs, "__getitem__", lambda _jobs, name: Job(name, "", (), (), "", run, run))
    words = ["skew", str(store), "--out", str(tmp_path / "out"), "--html", str(tmp_path / "page.html")]
    for form in ([], ["--json"]):
        seen = CliRunner().invoke(command, [*words, *form])
        assert (seen.exit_code, seen.stderr) == (2, f"rmq: {tmp_path}/out: No space left on device\n")
        assert "a queue is hot" in seen.stdout
