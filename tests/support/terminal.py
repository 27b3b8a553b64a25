"""A terminal of a few lines for a command that redraws its window, and what stands in it.

It knows what `rmq` writes: text, line ends, home, clearing to the end, and no more.
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from tests.support.talk import PATIENCE_S

CTRL_C = b"\x03"
CLEARED = "\x1b[H\x1b[J"


class Screen:
    """`rows`: what stands there.  A line that is too wide goes on in the next row; at the bottom all rows move up."""

    def __init__(self, lines: int, columns: int) -> None:
        self.lines, self.columns = lines, columns
        self.rows = [""]

    def write(self, data: bytes) -> None:
        at = 0
        text = data.decode()
        while at < len(text):
            if text.startswith(CLEARED, at):
                self.rows = [""]
                at += len(CLEARED)
                continue
            one = text[at]
            assert one != "\x1b", f"an unknown sequence: {text[at : at + 8]!r}"
            at += 1
            if one == "\n":
                self._down()
            elif one != "\r":
                if len(self.rows[-1]) == self.columns:
                    self._down()
                self.rows[-1] += one

    def _down(self) -> None:
        self.rows = [*self.rows, ""][-self.lines :]


class Terminal:
    """A command on a terminal of its own."""

    def __init__(self, command: Sequence[str], *, lines: int, columns: int, environment: dict[str, str], home: Path) -> None:
        self._ours, theirs = pty.openpty()
        self.screen = Screen(lines, columns)
        self.resize(lines, columns)
        plain = {name: value for name, value in environment.items() if name not in ("COLUMNS", "LINES")}
        self.process = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, env=plain, cwd=home, start_new_session=True, preexec_fn=_owned
        )
        os.close(theirs)
        self.written = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._ours)

    def resize(self, lines: int, columns: int) -> None:
        """From the next look on."""
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.screen.lines, self.screen.columns = lines, columns

    def type(self, keys: bytes) -> None:
        os.write(self._ours, keys)

    def until(self, holds: Callable[[list[str]], bool]) -> list[str]:
        """The rows, once they are so."""
        ends = time.monotonic() + PATIENCE_S
        while not holds(self.screen.rows):
            assert time.monotonic() < ends, self.screen.rows
            if not self._read(ends - time.monotonic()):
                raise AssertionError(f"it ended: {self.screen.rows}")
        return list(self.screen.rows)

    def end(self) -> int:
        """Its status, when it has ended and all was read."""
        while self._read(PATIENCE_S):
            pass
        return self.process.wait(PATIENCE_S)

    def _read(self, seconds: float) -> bool:
        ready, _, _ = select.select([self._ours], [], [], seconds)
        assert ready, "it writes nothing"
        try:
            data = os.read(self._ours, 1 << 16)
        except OSError:  # nobody has the other end any more
            return False
        self.written += data
        self.screen.write(data)
        return bool(data)


def _owned() -> None:
    """Ctrl-C on standard input is the new session's."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
