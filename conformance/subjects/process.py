"""Servers as child processes: started on loopback, known by pid, always ended.

A process writes to a log file in its own directory, never to a pipe that somebody must empty.  It ends by SIGTERM, by SIGKILL
when that takes too long, and dies with us even when we are killed (Linux).  Nobody sleeps until a server is ready: `until`
asks a question again and again, and gives up early when the process has ended.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Final, Self, TypeVar

from conformance.subjects.ports import release_port, reserve_port

T = TypeVar("T")
Stream = int | IO[bytes]
"""What `subprocess.Popen` takes for a standard stream."""

START_S_MAX = 240.0
"""A Java broker is ready after 3 to 5 s on an idle machine; this is for a slow one whose cores are all taken."""
STOP_S_MAX = 120.0
"""A clean stop of a 5.5.0 broker takes up to 13 s on an idle machine."""
POLL_S = 0.05

PR_SET_PDEATHSIG: Final = 1
_LIBC: Final = ctypes.CDLL(None) if sys.platform == "linux" else None
"""Loaded before any fork: a child between fork and exec must not load anything."""
_SPAWNER: Final = ThreadPoolExecutor(1, "spawner")
"""Starts children for other threads than the main one: the kernel ends a child when the *thread* that started it ends, and
a worker of trio's ends after ten idle seconds.  This one stays until the interpreter ends."""


class NotReady(Exception):
    """A server did not come up, or a condition did not come true, in time.  The text holds the end of its log."""


def until(
    question: Callable[[], T | None], what: str, *, seconds: float = START_S_MAX, alive: Callable[[], bool] = lambda: True
) -> T:
    """Ask until the answer is true and return it; `OSError` and false are "not yet".  Raises `NotReady`."""
    ends = time.monotonic() + seconds
    while True:
        running = alive()
        with contextlib.suppress(OSError):
            answer = question()
            if answer:
                return answer
        if not running:
            raise NotReady(f"{what}: the process has ended")
        if time.monotonic() > ends:
            raise NotReady(f"{what}: not within {seconds:g} s")
        time.sleep(POLL_S)


def loopback_v6() -> str:
    """::1, or the IPv4 loopback where the machine has no IPv6."""
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return "127.0.0.1"
    return "::1"


class ServerProcess:
    """One server as a child process; a context manager.  Subclasses say what to run and when it is ready."""

    def __init__(self, name: str, directory: Path) -> None:
        self.name = name
        self.directory = directory
        self.log = directory / f"{name}.out"
        self._process: subprocess.Popen[bytes] | None = None
        self._reserved: list[int] = []

    def reserve(self, *offsets: int) -> int:
        """A port that is this server's until `end`."""
        self._reserved.append(reserve_port(*offsets))
        return self._reserved[-1]

    def command(self) -> Sequence[str]:
        """What to execute."""
        raise NotImplementedError

    def environment(self) -> Mapping[str, str | None]:
        """Variables in addition to our own; None takes one away."""
        return {}

    def ready(self) -> bool:
        """Does it answer?  May raise `OSError` for "not yet"."""
        raise NotImplementedError

    def start(self, *, wait: bool = True) -> Self:
        """Start it and, by default, wait until it is ready."""
        assert not self.running, f"{self.name} runs already"
        self.directory.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self._process = self.spawn(stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        if wait:
            self.wait_ready()
        return self

    def spawn(self, *, stdin: Stream, stdout: Stream, stderr: Stream) -> subprocess.Popen[bytes]:
        """The child process; it dies with us."""
        command = list(self.command())
        if threading.current_thread() is threading.main_thread():
            return self._spawn(command, stdin, stdout, stderr)
        return _SPAWNER.submit(self._spawn, command, stdin, stdout, stderr).result()

    def _spawn(self, command: Sequence[str], stdin: Stream, stdout: Stream, stderr: Stream) -> subprocess.Popen[bytes]:
        variables = {**os.environ, **self.environment()}
        return subprocess.Popen(
            command,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            cwd=self.directory,
            env={name: value for name, value in variables.items() if value is not None},
            preexec_fn=_die_with_parent if _LIBC else None,
            process_group=0,  # Ctrl-C is for us: we end it when we are done with it
        )

    def wait_ready(self) -> None:
        """Wait for `ready`; a server that does not come up is ended and its log shown."""
        try:
            until(self.ready, f"start of {self.name}", alive=lambda: self.running)
        except NotReady as why:
            self.kill()
            raise NotReady(f"{why}\n{self.log_tail()}") from None
        except BaseException:
            self.kill()
            raise

    @property
    def running(self) -> bool:
        """Is the process there?"""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process is not None
        return self._process.pid

    def stop(self) -> int:
        """A clean stop (SIGTERM); returns the exit status.  SIGKILL when it takes longer than `STOP_S_MAX`."""
        return self._end(signal.SIGTERM)

    def kill(self) -> int:
        """SIGKILL: no clean-up of its own."""
        return self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> int:
        if self._process is None:
            return 0
        if self._process.poll() is None:
            self._process.send_signal(number)
        try:
            return self._process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def log_tail(self, characters: int = 4_000) -> str:
        """The end of what it printed."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return f"--- end of {self.log}\n{text[-characters:]}"

    def __enter__(self) -> Self:
        return self if self.running else self.start()

    def last_stop(self) -> None:
        """How it is ended when nobody needs it any more."""
        self.stop()

    def end(self) -> None:
        """Nobody needs it any more: it stops for good, and its ports are anybody's."""
        self.last_stop()
        while self._reserved:
            release_port(self._reserved.pop())

    def __exit__(self, *_: object) -> None:
        self.end()


def _die_with_parent() -> None:
    """In the child, before exec."""
    assert _LIBC is not None
    _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
