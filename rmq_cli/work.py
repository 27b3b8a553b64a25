"""What is done with each message: it is printed, a command gets it, a function is called; and how long that took.

Of the time of a message T1 is what a processor computed for it, T2 the rest: it waited for a disk, a server, a lock, or for a
processor.  The first is counted by the system, for a thread or for a child process.
"""

from __future__ import annotations

import contextlib
import importlib
import math
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self

import click
import trio

from rmq_cli.complaint import Complaint
from rmq_cli.message_lines import line

_THREADS = trio.CapacityLimiter(math.inf)
"""How many are at work at once the consumer says."""


class Spent(NamedTuple):
    """On one message, in seconds.  `done`: it need not come again."""

    done: bool
    computing_s: float
    passed_s: float


class Work(Protocol):
    """`cores`: how many may compute at once."""

    cores: int

    async def __call__(self, message: Any) -> Spent:
        """Do it."""

    def __enter__(self) -> Self:
        """For as long as messages come."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """None come any more, whether all are finished or not."""


class Print:
    """A line for each message.  Where it cannot be written the message is not done, and the complaint goes on."""

    cores = 1

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json

    async def __call__(self, message: Any) -> Spent:
        began_s, computed_s = time.perf_counter(), time.thread_time()
        click.echo(line(message, self._as_json))
        return Spent(True, time.thread_time() - computed_s, time.perf_counter() - began_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class Call:
    """A function of a module here, called in threads, which in Python compute in turns."""

    cores = 1

    def __init__(self, place: str) -> None:
        """place: `module:name`.  Raises `Complaint`."""
        self._function = _found(place)
        self._place = place
        self._said = False

    async def __call__(self, message: Any) -> Spent:
        return await trio.to_thread.run_sync(self._call, message, abandon_on_cancel=True, limiter=_THREADS)

    def _call(self, message: Any) -> Spent:
        began_s, computed_s = time.perf_counter(), time.thread_time()
        try:
            done = self._function(message) is not False
            if not done:
                _say(f"{message!r} is not done: {self._place} returned False")
        except (Exception, SystemExit) as error:
            _say(f"{message!r} is not done: {type(error).__name__}: {error}")
            done = False
        return Spent(done, time.thread_time() - computed_s, time.perf_counter() - began_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class Shell:
    """A command line of the shell for each message: the body is its input, RMQ_TOPIC and the like say what else is known."""

    def __init__(self, command: str) -> None:
        self.cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self._command = command
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()

    async def __call__(self, message: Any) -> Spent:
        return await trio.to_thread.run_sync(self._run, message, abandon_on_cancel=True, limiter=_THREADS)

    def _run(self, message: Any) -> Spent:
        from rmq_client.errors import UnreadableBody

        began_s = time.perf_counter()
        sys.stdout.flush()
        try:
            body = message.body  # before the command starts: without its input it must not run
        except UnreadableBody as reason:
            _say(f"{message!r} is not done: {reason}")
            return Spent(False, 0.0, time.perf_counter() - began_s)
        try:
            child = subprocess.Popen(
                self._command,
                shell=True,
                stdin=subprocess.PIPE,
                env={**os.environ, **_environment(message)},
                process_group=0,  # Ctrl-C is for us: what is at work is finished
            )
        except (OSError, ValueError) as reason:
            _say(f"{message!r} is not done: the command cannot be started: {reason}")
            return Spent(False, 0.0, time.perf_counter() - began_s)
        with self._lock:
            self._running.add(child)
        assert child.stdin is not None
        with contextlib.suppress(BrokenPipeError), child.stdin:  # it need not read
            child.stdin.write(body)
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        with self._lock:
            self._running.discard(child)
        if child.returncode:
            _say(f"{message!r} is not done: the command ended with {child.returncode}")
        return Spent(not child.returncode, used.ru_utime + used.ru_stime, time.perf_counter() - began_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            left = list(self._running)
        for child in left:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, 15)


def _environment(message: Any) -> dict[str, str]:
    return {
        "RMQ_TOPIC": message.topic,
        "RMQ_MSG_ID": message.message_id,
        "RMQ_TAGS": message.tags or "",
        "RMQ_KEYS": " ".join(message.keys),
        "RMQ_BROKER": message.queue.broker_name,
        "RMQ_QUEUE_ID": str(message.queue.queue_id),
        "RMQ_QUEUE_OFFSET": str(message.queue_offset),
        "RMQ_RECONSUME_TIMES": str(message.reconsume_times),
    }


def _found(place: str) -> Callable[[Any], object]:
    module, colon, name = place.partition(":")
    if not colon or not module or not name:
        raise click.UsageError(f"--call {place}: MODULE:NAME is expected")
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found = getattr(importlib.import_module(module), name)
    except (Exception, SystemExit) as reason:  # whatever the module does when it is imported
        first_line = str(reason).partition("\n")[0]
        raise Complaint(f"--call {place}: {type(reason).__name__}: {first_line}") from None
    if not callable(found):
        raise Complaint(f"--call {place}: {name} is no function")
    function: Callable[[Any], object] = found
    return function


def _say(text: str) -> None:
    with contextlib.suppress(OSError):
        click.echo(f"rmq: {text}", err=True)
