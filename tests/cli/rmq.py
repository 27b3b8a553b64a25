"""The command `rmq` as a child process, and the smallest client that can send and pull over a socket.

Nothing here sleeps: a server is ready when its line comes, a process has ended when the system says so, and a socket is waited
for by its own time-out.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from rmq_wire.command import Command, Form, encode_request
from rmq_wire.conversation import Conversation
from rmq_wire.declare import Request
from tests.broker.house import pull, send, units

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60.0
"""A start takes half a second, an answer a millisecond; this is for a machine whose cores are all taken."""
DEV = ("dev", "--namesrv-port", "0", "--broker-port", "0", "--json")


def environment(home: Path) -> dict[str, str]:
    """Ours without what would be a configuration, and a home of its own."""
    kept = {name: value for name, value in os.environ.items() if name not in ("NAMESRV_ADDR", "ROCKETMQ_HOME", "PYTHONPATH")}
    return {**kept, "HOME": str(home), "PYTHONPATH": str(ROOT)}


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "rmq_cli.main", *arguments]


def run(*arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
    """Run a subcommand to its end."""
    return subprocess.run(
        command(*arguments), capture_output=True, text=True, timeout=PATIENCE_S, cwd=home, env=environment(home), check=False
    )


def complaint(*arguments: str, home: Path) -> str:
    """The one line with which a subcommand refuses; exit status 1 and nothing else printed."""
    done = run(*arguments, home=home)
    assert done.returncode == 1, (done.returncode, done.stdout, done.stderr)
    assert done.stdout == ""
    [line] = done.stderr.splitlines()
    assert line.startswith("rmq: ")
    return line


class Server:
    """A server subcommand; a context manager that ends it.  `told`: its JSON line.  Its log is the file `log`."""

    def __init__(self, home: Path, *arguments: str, program: Sequence[str] | None = None, name: str = "rmq") -> None:
        self.home = home
        self.log = home / f"{name}.log"
        self._command = list(program) if program is not None else command(*arguments)
        self._process: subprocess.Popen[bytes] | None = None
        self._printed = b""

    def start(self) -> Self:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=self.home,
                env=environment(self.home),
                preexec_fn=_die_with_parent,
            )
        self.told: dict[str, Any] = json.loads(self.line())
        return self

    def line(self) -> bytes:
        """The next line that it prints.  Fails with its log when none comes."""
        while b"\n" not in self._printed:
            assert self.process.stdout is not None
            ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE_S)
            more = os.read(self.process.stdout.fileno(), 65_536) if ready else b""
            assert more, f"nothing printed\n{self.log.read_text()}"
            self._printed += more
        line, _, self._printed = self._printed.partition(b"\n")
        return line

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Signal it and wait; its exit status.  Whatever else it printed is in `rest`."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        out, _ = self.process.communicate(timeout=PATIENCE_S)
        self.rest = self._printed + out
        return self.process.returncode

    def logged(self, *parts: str) -> list[str]:
        """Lines of the log that hold all of these."""
        return [line for line in self.log.read_text(errors="replace").splitlines() if all(part in line for part in parts)]

    def wait_logged(self, *parts: str) -> str:
        """The first such line.  The log is written before the connection it tells of is closed, so no wait is needed."""
        found = self.logged(*parts)
        assert found, f"no line with {parts} in\n{self.log.read_text(errors='replace')[-2000:]}"
        return found[0]

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


def _die_with_parent() -> None:
    """In the child, before exec: prctl(PR_SET_PDEATHSIG = 1, SIGKILL)."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


class Talk:
    """One connection to a server."""

    def __init__(self, address: str) -> None:
        self.sock = socket.create_connection(split(address), timeout=PATIENCE_S)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.conversation = Conversation()
        self.answers: dict[int, Command] = {}
        self.opaque = 0

    @property
    def name(self) -> str:
        """`host:port` as the server's log calls us."""
        return "{}:{}".format(*self.sock.getsockname())

    def raw(self, data: bytes) -> None:
        self.sock.sendall(data)

    def frame(self, request: Request, body: bytes = b"", *, form: Form = Form.JSON) -> bytes:
        self.opaque += 1
        return encode_request(request.code, request, body, opaque=self.opaque, form=form)

    def ask(self, request: Request, body: bytes = b"", *, form: Form = Form.JSON) -> Command:
        self.raw(self.frame(request, body, form=form))
        return self.answer(self.opaque)

    def answer(self, opaque: int) -> Command:
        """Wait for one answer.  Raises `ConnectionError` when the server closes instead."""
        while opaque not in self.answers:
            data = self.sock.recv(1 << 20)
            if not data:
                raise ConnectionError("closed by the server")
            for command in self.conversation.feed(data):
                assert isinstance(command, Command)
                self.answers[command.opaque] = command.kept()
        return self.answers.pop(opaque)

    def closed_by_server(self) -> bool:
        """Wait until the server closes; false when it sends something instead."""
        try:
            return self.sock.recv(1) == b""
        except ConnectionError:
            return True

    def send(self, topic: str, body: bytes, queue_id: int = 0) -> Command:
        """Send a message; the topic is made after TBW102 when it is new."""
        return self.ask(send(topic, queue_id), body)

    def read(self, topic: str, queue_id: int = 0) -> list[bytes]:
        """All bodies of a queue."""
        found: list[bytes] = []
        while True:
            answer = self.ask(pull(topic, queue_id, len(found)))
            if answer.code != 0:
                return found
            found += [bytes(unit.body) for unit in units(answer.body)]

    def close(self) -> None:
        self.sock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
