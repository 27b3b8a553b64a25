"""Subcommands of `rmq` run against one cluster."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support import rmq
from tests.support.talk import PATIENCE_S


class Shell:
    """Runs subcommands against one cluster."""

    def __init__(self, namesrv: str, home: Path) -> None:
        self.environment = {**rmq.environment(home), "NAMESRV_ADDR": namesrv}
        self.home = home

    def program(self, *words: str, typed: bytes = b"") -> subprocess.CompletedProcess[str]:
        """A run of any program, to its end."""
        ran = subprocess.run(
            words, input=typed, capture_output=True, timeout=PATIENCE_S, cwd=self.home, env=self.environment, check=False
        )
        return subprocess.CompletedProcess(ran.args, ran.returncode, ran.stdout.decode(), ran.stderr.decode())

    def run(self, *arguments: str, typed: bytes = b"") -> subprocess.CompletedProcess[str]:
        return self.program(*rmq.command(*arguments), typed=typed)

    def redirected(self, where: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A run whose input or output goes where the shell's words say, as `>&-`."""
        return self.program("bash", "-c", f'"$@" {where}', "bash", *rmq.command(*arguments))

    def good(self, *arguments: str, typed: bytes = b"") -> list[str]:
        """The lines of a run that must succeed."""
        ran = self.run(*arguments, typed=typed)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout.splitlines()

    def bad(self, *arguments: str, status: int = 1) -> str:
        """What a run says that must fail: of a complaint, its one line."""
        ran = self.run(*arguments)
        assert ran.returncode == status, (ran.stdout, ran.stderr)
        assert "Traceback" not in ran.stderr
        if status == 1:
            assert ran.stderr.count("\n") == 1
        return ran.stderr

    @contextmanager
    def running(self, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
        """One that goes on; killed at the end of the block unless it has ended."""
        process = subprocess.Popen(
            rmq.command(*arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.home,
            env=self.environment,
        )
        with process:
            try:
                yield process
            finally:
                if process.poll() is None:
                    process.send_signal(signal.SIGKILL)
