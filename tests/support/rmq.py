"""The command `rmq` as a child process.

Nothing here sleeps: a server is ready when its line comes, a process has ended when the system says so.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from tests.support.process import ServerProcess, until
from tests.support.talk import PATIENCE_S

ROOT = Path(__file__).parents[2]
NOT_COPIED = shutil.ignore_patterns(
    "build", ".git", ".venv", ".rmq", ".hypothesis", "*_cache", "__pycache__", "lib-*", "target", "*.egg-info"
)
"""Of a checkout, for a copy as a newcomer has it."""
DEV = ("dev", "--namesrv-port", "0", "--broker-port", "0", "--json")
NOT_HANDED_ON = {"NAMESRV_ADDR", "ROCKETMQ_HOME", "PYTHONPATH", "COLUMNS", "MAKEFLAGS", "MAKELEVEL", "MFLAGS", "MAKEOVERRIDES"}


def environment(home: Path) -> dict[str, str]:
    """Ours without what would be a configuration or comes of a `make` that runs the tests, and a home of its own."""
    return {
        **{name: value for name, value in os.environ.items() if name not in NOT_HANDED_ON},
        "HOME": str(home),
        "PYTHONPATH": str(ROOT),
    }


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "rmq_cli.main", *arguments]


def limited(descriptors: int, *arguments: str) -> list[str]:
    """The command, where a process may have so many descriptors and cannot ask for more."""
    code = (
        f"import resource, sys\nresource.setrlimit(resource.RLIMIT_NOFILE, ({descriptors}, {descriptors}))\n"
        "from rmq_cli.main import main\nmain(sys.argv[1:])\n"
    )
    return [sys.executable, "-c", code, *arguments]


def run(*arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
    """Run a subcommand to its end."""
    return subprocess.run(
        command(*arguments), capture_output=True, text=True, timeout=PATIENCE_S, cwd=home, env=environment(home), check=False
    )


class Server(ServerProcess):
    """A server subcommand, ready when it prints its first line, which is JSON: `ready`.  Its log is the file `log`."""

    def __init__(self, home: Path, *arguments: str, program: Sequence[str] | None = None, name: str = "rmq") -> None:
        super().__init__(name, home)
        self.log = home / f"{name}.log"
        self._command = list(program) if program is not None else command(*arguments)
        self._printed = b""

    def command(self) -> Sequence[str]:
        return self._command

    def environment(self) -> Mapping[str, str | None]:
        return {**dict.fromkeys(os.environ), **environment(self.directory)}

    def start(self, *, wait: bool = True) -> Self:
        with self.log.open("ab") as log:
            self._process = self.spawn(stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log)
        if wait:
            self.ready: dict[str, Any] = json.loads(self.line())
        return self

    def line(self) -> bytes:
        """The next line that it prints.  Fails with its log when none comes."""
        assert self._process is not None
        assert self._process.stdout is not None
        poll = select.poll()  # `select` takes no descriptor above 1,023
        poll.register(self._process.stdout, select.POLLIN)
        while b"\n" not in self._printed:
            ready = poll.poll(PATIENCE_S * 1000)
            more = os.read(self._process.stdout.fileno(), 65_536) if ready else b""
            assert more, f"nothing printed\n{self.log_tail()}"
            self._printed += more
        line, _, self._printed = self._printed.partition(b"\n")
        return line

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Signal it and wait; its exit status.  Whatever else it printed is in `rest`."""
        status = self._end(number)
        assert self._process is not None
        assert self._process.stdout is not None
        self.rest = self._printed + self._process.stdout.read()
        return status

    def last_stop(self) -> None:
        self.kill()
        if self._process is not None and self._process.stdout is not None:
            self._process.stdout.close()

    def logged(self, *parts: str) -> list[str]:
        """Lines of the log, as far as it is written, that hold all of these."""
        return [line for line in self.log.read_text(errors="replace").splitlines() if all(part in line for part in parts)]

    def wait_logged(self, *parts: str) -> str:
        """The first such line, once it is there: a thread of the server writes its log, in order, when it comes to it."""
        return until(lambda: self.logged(*parts), f"a line with {parts} in {self.log}", seconds=PATIENCE_S)[0]
