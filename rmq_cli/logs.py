"""Where a server's log goes: standard error, one line a record, times with their zone; and nobody ever waits for it.

Whoever started the server may not read its standard error, and a pipe is full after 64 KiB.  So the loop only puts lines into a
queue with an end; a thread writes them, waits as long as it must, and says how many it had no room for.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import sys
import threading
import time
from collections import deque
from typing import Final

WAITING_MAX: Final = 1_024
"""Lines that wait for a reader, 200 bytes each as a rule; further ones are counted and dropped."""
LEAVE_S_MAX: Final = 1.0
"""At the end what waits has so long to be taken."""


class _Line(logging.Formatter):
    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(record.created))
        return f"{stamp}.{int(record.msecs):03d}{time.strftime('%z', time.localtime(record.created))}"


class PatientHandler(logging.Handler):
    """Writes to a descriptor from a thread of its own.  `emit` never waits, whether anybody reads or not."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._waiting: deque[bytes] = deque()
        self._dropped = 0
        self._more = threading.Condition()
        self._ending = False
        self._thread = threading.Thread(target=self._write_all, name="log", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Lines that the thread has not taken yet."""
        return len(self._waiting)

    def emit(self, record: logging.LogRecord) -> None:
        """Queue the line, or count it when too many wait."""
        try:
            line = self.format(record)
        except Exception as bug:  # logging would print a traceback: to the standard error that may not be read
            line = f"a line of {record.name} cannot be formatted: {bug!r}"
        with self._more:
            if len(self._waiting) < WAITING_MAX:
                self._waiting.append(f"{line}\n".encode(errors="backslashreplace"))
                self._more.notify()
            else:
                self._dropped += 1

    def close(self) -> None:
        """Let what waits be taken, for `LEAVE_S_MAX` at most; a reader that does not read holds nobody up."""
        with self._more:
            self._ending = True
            self._more.notify()
        self.join(LEAVE_S_MAX)
        super().close()

    def join(self, seconds: float | None = None) -> None:
        """After `close`: until the thread has ended, or for so long."""
        self._thread.join(seconds)

    def _write_all(self) -> None:
        while (data := self._next()) is not None:
            with contextlib.suppress(OSError):  # there is no other place to say so
                self._write(data)

    def _next(self) -> bytes | None:
        """Everything that waits, and how much did not get in; None at the end."""
        with self._more:
            while not self._waiting and not self._ending:
                self._more.wait()
            lines, dropped = b"".join(self._waiting), self._dropped
            self._waiting.clear()
            self._dropped = 0
        if dropped:
            lines += b"%d lines were dropped: nobody read the log\n" % dropped
        return lines or None

    def _write(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            try:
                left = left[os.write(self._descriptor, left) :]
            except BlockingIOError:  # whoever shares the descriptor made it non-blocking
                select.select([], [self._descriptor], [])


def log_to_stderr(level: str) -> None:
    """Set up logging for a server process; `level` is a name of `logging`."""
    try:
        handler: logging.Handler = PatientHandler(sys.stderr.fileno())
    except (AttributeError, OSError, ValueError):  # closed, or somebody's object instead of a file
        handler = logging.StreamHandler()
    handler.setFormatter(_Line("%(asctime)s %(levelname)-7s %(name)s %(message)s"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
