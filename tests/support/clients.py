"""Stock Java clients and mqadmin, driven from Python: one JVM (`tests/java`, class rmq.Driver) for many tests.

`JavaDriver.call("send", producer="p", ...)` runs one operation of the driver and returns its result; operations and their
arguments stand in `Producers.java`, `PushConsumers.java`, `Pullers.java` and `Tools.java`.  What push consumers are given is
collected per consumer: `messages(name)`, `wait_messages(name, count)`.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Self
from urllib.parse import quote

from conformance.subjects.jars import shared_classes
from tests.support.java import OPENED, SMALL, classpath, java, programs, rocketmq_home
from tests.support.process import ServerProcess

CALL_S_MAX: Final = 240.0
"""For one operation: longer than any time-out of the clients inside it."""
MESSAGES_S_MAX: Final = 240.0
TOO_LATE, TRIES_MAX = "RemotingTimeoutException", 5
"""A stock tool waits 5 s for an answer, and says so.  That is asked again: it says nothing of the broker, but that it is busy."""

Message = dict[str, Any]
"""A message as a client saw it: see `Clients.describe(MessageExt)` for the names."""


class JavaError(Exception):
    """The operation threw.  `code` is the broker's response code, 0 when it is not about one."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code


class Printed(NamedTuple):
    """What one mqadmin call did."""

    status: int
    out: str
    err: str
    milliseconds: int


def in_time(begin: Callable[[], Sequence[Callable[[], Printed]]]) -> list[Printed]:
    """What command lines print that are begun together; all of them again, if one was not answered in time."""
    for _ in range(TRIES_MAX):
        printed = [wait() for wait in begin()]
        if not any(TOO_LATE in one.out + one.err for one in printed):
            break
    return printed


class JavaDriver(ServerProcess):
    """The driver with the client jars of one version.  `form` is the header form that its clients speak: JSON or ROCKETMQ."""

    def __init__(
        self, directory: Path, version: str, *, form: str = "JSON", heap: str = "384m", flags: Sequence[str] = ()
    ) -> None:
        super().__init__(f"clients-{version}", directory)
        self.version = version
        self._flags = [
            "-Xms64m",
            f"-Xmx{heap}",
            f"-Drocketmq.serialize.type={form}",
            "-Drocketmq.client.rebalance.lockInterval=1000",
            "-Drocketmq.client.unlockDelayTimeMills=1000",
            "-Drmq.logback.configurationFile=none.xml",
            *flags,
        ]
        self._ids = itertools.count(1)
        self._answers: dict[int, dict[str, Any]] = {}
        self._messages: dict[str, list[Message]] = {}
        self._changed = threading.Condition()
        self._ended = False

    def command(self) -> Sequence[str]:
        flags = [*SMALL, *OPENED, *self._flags, f"-Duser.home={self.directory}", "-Djava.security.manager=allow"]
        shared = shared_classes(self.version, java())
        return [java(), *shared, *flags, "-cp", f"{classpath(self.version)}{os.pathsep}{programs()}", "rmq.Driver"]

    def environment(self) -> Mapping[str, str]:
        return rocketmq_home(self.directory)

    def start(self, *, wait: bool = True) -> Self:
        self.directory.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self._process = self.spawn(stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
        threading.Thread(target=self._read, name=self.name, daemon=True).start()
        if wait:
            self.wait_ready()
        return self

    def ready(self) -> bool:
        return self._ended or bool(self.call("ping"))

    def call(self, operation: str, /, **arguments: object) -> Any:
        """Run one operation and wait for its end.  Raises `JavaError` with what it threw."""
        return self.begin(operation, **arguments)(CALL_S_MAX)

    def begin(self, operation: str, /, **arguments: object) -> Callable[[float], Any]:
        """Run one operation beside others; the function returned waits for its result."""
        number = next(self._ids)
        words = [str(number), operation, *(f"{name}={quote(_text(value), safe='')}" for name, value in arguments.items())]
        assert self._process is not None
        assert self._process.stdin is not None
        with self._changed:
            self._process.stdin.write(" ".join(words).encode() + b"\n")
            self._process.stdin.flush()
        return lambda timeout_s: self._result(number, operation, timeout_s)

    def mqadmin(self, *line: str) -> Printed:
        """Run one mqadmin command line, for example `mqadmin("topicList", "-n", address)`; again, if not answered in time."""
        [printed] = in_time(lambda: [self.begin_mqadmin(*line)])
        return printed

    def begin_mqadmin(self, *line: str) -> Callable[[], Printed]:
        """Once, beside others; the function returned waits for its end.  One JVM runs one after the other."""
        wait = self.begin("mqadmin", **{f"a.{i}": word for i, word in enumerate(line)})

        def printed() -> Printed:
            reported = wait(CALL_S_MAX)
            return Printed(reported["status"], reported["out"], reported["err"], reported["ms"])

        return printed

    def messages(self, consumer: str) -> list[Message]:
        """What this push consumer has been given so far, in order."""
        with self._changed:
            return list(self._messages.get(consumer, ()))

    def wait(self, question: Callable[[], Any], what: str, *, timeout_s: float = MESSAGES_S_MAX) -> Any:
        """Ask again whenever something arrives (and once a second), until the answer is true."""
        ends = time.monotonic() + timeout_s
        with self._changed:
            while not (answer := question()):
                assert not self._ended, f"the driver has ended\n{self.log_tail()}"
                left = ends - time.monotonic()
                assert left > 0, f"{what}: not within {timeout_s:g} s"
                self._changed.wait(min(1.0, left))
        return answer

    def wait_messages(self, consumers: str | Sequence[str], count: int, *, timeout_s: float = MESSAGES_S_MAX) -> list[Message]:
        """Wait until these push consumers together have been given `count` different stored messages; all they were given.

        A queue that moves from one to another may be read again from its last committed offset: those come twice.
        """
        names = [consumers] if isinstance(consumers, str) else list(consumers)

        def seen() -> list[Message]:
            return [message for name in names for message in self._messages.get(name, ())]

        def different() -> int:
            return len({message["offset_msg_id"] for message in seen()})

        try:
            self.wait(lambda: different() >= count, f"{count} messages for {names}", timeout_s=timeout_s)
        except AssertionError as why:
            raise AssertionError(f"{why}; there are {different()}") from None
        return seen()

    def end(self) -> None:
        """End of input ends the JVM at once; clients that a test left open go with it."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
        self.kill()

    def _result(self, number: int, operation: str, timeout_s: float) -> Any:
        answer = self.wait(lambda: self._answers.pop(number, None), f"operation {operation}", timeout_s=timeout_s)
        if "error" in answer:
            raise JavaError(answer["error"], answer["code"])
        return answer["result"]

    def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        for line in self._process.stdout:
            reported = json.loads(line)
            with self._changed:
                if "id" in reported:
                    self._answers[reported["id"]] = reported
                elif reported["event"] == "message":
                    self._messages.setdefault(reported["consumer"], []).append(reported)
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
