"""A server whose standard error nobody reads: a pipe that is full from the beginning."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from rmq_cli.logs import WAITING_MAX, PatientHandler, log_to_stderr
from rmq_wire.codes import RequestCode
from tests.support.rmq import DEV, Server, command
from tests.support.talk import Talk

ASKED = 300
"""More lines than a pipe of 64 KiB holds, were it empty: with 315 bytes each it took 208."""
FILLED = b"x" * 4_096


@contextlib.contextmanager
def full_pipe(path: Path) -> Iterator[int]:
    """A named pipe without room for another byte; its reading end."""
    os.mkfifo(path)
    reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    writing = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    try:
        fill(writing)
        yield reading
    finally:
        os.close(writing)
        os.close(reading)


def fill(descriptor: int) -> None:
    for size in (len(FILLED), 1):
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(descriptor, FILLED[:size])


def drained(descriptor: int) -> bytes:
    """What is in it now."""
    found = b""
    with contextlib.suppress(BlockingIOError):
        while more := os.read(descriptor, 1 << 16):
            found += more
    return found


@pytest.mark.parametrize("shell", [(), ("--plain-streams",)], ids=["epoll", "streams"])
def test_neither_server_waits_for_a_reader_of_its_log(tmp_path: Path, shell: tuple[str, ...]) -> None:
    pipe = tmp_path / "full"
    said = command(*DEV, "--ephemeral", "--set", "autoCreateTopicEnable=false", "--log-level", "INFO", *shell)
    program = ["sh", "-c", 'exec "$@" 2>"$0"', str(pipe), *said]
    with full_pipe(pipe), Server(tmp_path, program=program) as server:
        with Talk(server.ready["namesrv"]) as names, Talk(server.ready["broker"]) as broker:
            for number in range(ASKED):
                gone = {"brokerName": f"b{number}", "brokerAddr": "h:1", "clusterName": "C" * 64, "brokerId": 0}
                assert names.call(RequestCode.UNREGISTER_BROKER, gone).code == 0
                assert broker.send(f"T{number}", b"x").code != 0
        assert server.stop(signal.SIGTERM) == 0


def handler_on(descriptor: int) -> tuple[PatientHandler, logging.Logger]:
    handler, logger = PatientHandler(descriptor), logging.Logger("of this test")
    logger.addHandler(handler)
    return handler, logger


def test_lines_wait_for_a_reader_and_what_does_not_fit_is_counted(tmp_path: Path) -> None:
    with full_pipe(tmp_path / "full") as reading:
        writing = os.open(tmp_path / "full", os.O_WRONLY)
        handler, logger = handler_on(writing)
        logger.warning("first")
        while handler.waiting:  # the thread has taken it, and waits for room
            pass
        for number in range(WAITING_MAX + 7):
            logger.warning("line %d", number)
        text = drained(reading).lstrip(b"x")
        while not text.endswith(b"the log\n"):
            text += drained(reading).lstrip(b"x")
        handler.close()
        os.close(writing)
    lines = [f"line {number}" for number in range(WAITING_MAX)]
    assert text.decode().splitlines() == ["first", *lines, "7 lines were dropped: nobody read the log"]


def test_what_waits_at_the_end_is_written(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as file:
        handler, logger = handler_on(file.fileno())
        for number in range(WAITING_MAX - 1):
            logger.warning("line %d\udc80", number)
        logger.warning("%d", "no number")
        handler.close()
    lines = (tmp_path / "log").read_text().splitlines()
    assert lines[:-1] == [f"line {number}\\udc80" for number in range(WAITING_MAX - 1)]
    assert "cannot be formatted" in lines[-1]


def test_an_end_without_a_reader_comes_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rmq_cli.logs.LEAVE_S_MAX", 0.01)
    with full_pipe(tmp_path / "full"):
        writing = os.open(tmp_path / "full", os.O_WRONLY)
        handler, logger = handler_on(writing)
        logger.warning("nobody reads this")
        handler.close()
    handler.join()
    os.close(writing)


def test_a_standard_error_that_is_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    root, said = logging.getLogger(), io.StringIO()
    handlers, level = root.handlers[:], root.level
    monkeypatch.setattr("sys.stderr", said)
    try:
        log_to_stderr("INFO")
        root.info("here")
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
    assert said.getvalue().endswith("here\n")
