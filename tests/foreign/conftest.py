"""What the clients of other languages need: a server, the C++ client's wheel, the Go program; what is not to be had skips."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.support.java import missing
from tests.support.subject import SUBJECTS, Subject, start_subject

HERE = Path(__file__).parent
BUILD = HERE.parents[1] / "build" / "foreign"
WHEEL = "rocketmq==0.4.4"
"""The last one that holds the C++ client itself; for Linux on x86-64."""
FETCH_S_MAX = 600
PROGRAM_S_MAX = 180

Program = Callable[[Sequence[str]], list[tuple[int, str]]]
"""Run with NAMESRV TOPIC GROUP COUNT HOW; queue and body of each message that it consumed, in order."""


@pytest.fixture(scope="session", params=SUBJECTS)
def subject(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Subject]:
    """A name server and a master, ours or Java's (RMQ_SUBJECT)."""
    running = start_subject(request.param, tmp_path_factory.mktemp(request.param))
    yield running
    running.end()


@pytest.fixture(scope="session")
def cpp(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """The C++ client, fetched once into `build`."""
    where = BUILD / WHEEL
    environment = {**os.environ, "PYTHONPATH": str(where), "HOME": str(tmp_path_factory.mktemp("home"))}
    if not where.is_dir():
        half = where.with_suffix(".half")
        shutil.rmtree(half, ignore_errors=True)
        pip = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "-q",
            "--disable-pip-version-check",
            "--no-deps",
            "--target",
            str(half),
            WHEEL,
        ]
        _done("no wheel of the C++ client", pip, dict(os.environ), HERE)
        half.rename(where)
    _done("the C++ client cannot be loaded", [sys.executable, "-c", "import rocketmq.client"], environment, HERE)
    return lambda words: _consumed([sys.executable, str(HERE / "cpp_client.py"), *words], environment)


@pytest.fixture(scope="session")
def go(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """The Go client, compiled."""
    command = shutil.which("go") or missing("foreign", "no `go`")
    made = tmp_path_factory.mktemp("go") / "foreign"
    _done("the Go client cannot be fetched", [command, "mod", "download"], dict(os.environ), HERE / "go")
    built = subprocess.run([command, "build", "-o", made, "."], cwd=HERE / "go", capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    environment = {**os.environ, "HOME": str(made.parent)}
    return lambda words: _consumed([str(made), *words], environment)


def _done(what: str, command: Sequence[str], environment: dict[str, str], where: Path) -> None:
    try:
        done = subprocess.run(
            command, env=environment, cwd=where, capture_output=True, text=True, timeout=FETCH_S_MAX, check=False
        )
    except subprocess.TimeoutExpired:
        missing("foreign", f"{what}: not within {FETCH_S_MAX} s")
    if done.returncode:
        missing("foreign", f"{what}: {done.stderr.strip()[-300:]}")


def _consumed(command: Sequence[str], environment: dict[str, str]) -> list[tuple[int, str]]:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PROGRAM_S_MAX, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    rows = [line.split(" ") for line in done.stdout.splitlines()]
    return [(int(queue), body) for queue, body in rows]
