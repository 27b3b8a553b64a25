"""What the caller may not read is not empty: every command says so, with the path, and ends with status 2."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rmq_spark.jobs import JOBS
from tests.support.rmq import DEV, Server
from tests.support.spark_words import needed
from tests.support.stores import golden_store
from tests.support.talk import Talk
from tests.support.unprivileged import seen_by_somebody_else

LOG = "commitlog/00000000000000000000"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("permissions")
    golden_store(home / "store")
    shutil.copytree(home / "store", home / "other")
    (home / "broker.conf").write_text("brokerName=a\n")
    return home


@contextmanager
def closed(path: Path, mode: int = 0) -> Iterator[None]:
    before = path.stat().st_mode
    path.chmod(mode)
    try:
        yield
    finally:
        path.chmod(before)


LOOKS = (
    ("stats", "store"),
    ("show", "store"),
    ("find", "store", "a-key"),
    ("explain", "store", "--offset", "0"),
    ("verify", "store"),
    ("repair", "store", "--to", "new"),
    ("diff", "store", "other"),
    ("diff", "other", "store"),
    ("export", "store", "--to", "new.jsonl"),
)
MORE = {"diff": ["other"]}


def test_a_directory_or_file_that_may_not_be_read(home: Path) -> None:
    """A log that may not be listed, not be entered, one of its files, a store, what lies beside the log."""
    commands = [("inspect", *words) for words in LOOKS]
    for place, mode in (
        ("commitlog", 0),
        ("commitlog", 0o400),
        (LOG, 0),
        (".", 0),
        (".", 0o400),
        ("consumequeue", 0),
        ("config", 0),
    ):
        path = home / "store" / place
        with closed(path, mode):
            seen = seen_by_somebody_else(commands, home)
        for words, one in zip(commands, seen, strict=True):
            assert one.status == 2, (place, words, one)
            assert not one.out or words[1] == "explain", "which shows the way to the file"
            line = one.err.splitlines()[-1]
            assert line.startswith("rmq: Permission denied: "), (place, words, line)
            assert f"store/{place}".removesuffix("/.") in line, (place, words, line)
        assert not (home / "new").exists(), "nothing is begun that cannot be ended"


def test_jobs_say_so_before_spark_starts(home: Path) -> None:
    commands = [("spark", name, "store", *needed(job, ledger="sent.jsonl"), *MORE.get(name, [])) for name, job in JOBS.items()]
    for place in ("commitlog", ".", "consumequeue", "config", "index"):
        with closed(home / "store" / place):
            seen = seen_by_somebody_else(commands, home)
        for words, one in zip(commands, seen, strict=True):
            path = home / "store" / place
            assert one == (2, "", f"rmq: Permission denied: {path}\n"), words


def test_servers_say_so(home: Path) -> None:
    """Of a broker's store every directory and file that a start reads, and what it was asked to read."""
    with Server(home, *DEV, "--store", "ours") as server, Talk(server.ready["broker"]) as talk:
        assert talk.send("T", b"x").code == 0
        assert server.stop() == 0
    commands = [
        (*DEV, "--store", "ours"),
        ("broker", "--set", "listenPort=0", "--set", f"storePathRootDir={home / 'ours'}"),
    ]
    places = ("commitlog", LOG, "consumequeue", "consumequeue/T", "config", "config/topics.json", "checkpoint", ".")
    for place, mode in ((".", 0o500), *((place, 0) for place in places)):
        path = home / "ours" / place
        with closed(path, mode):
            seen = seen_by_somebody_else(commands, home)
        for words, one in zip(commands, seen, strict=True):
            assert (one.status, one.out) == (2, ""), (place, words, one)
            assert one.err.splitlines()[-1].startswith(f"rmq: Permission denied: {path}"), (place, words, one)
    with closed(home / "broker.conf"):
        for one in seen_by_somebody_else([("broker", "-c", "broker.conf"), ("namesrv", "-c", "broker.conf")], home):
            assert one == (2, "", "rmq: Permission denied: broker.conf\n")
