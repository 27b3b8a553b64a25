"""Where a server's log goes: standard error, one line a record, times with their zone."""

from __future__ import annotations

import logging
import time


class _Line(logging.Formatter):
    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(record.created))
        return f"{stamp}.{int(record.msecs):03d}{time.strftime('%z', time.localtime(record.created))}"


def log_to_stderr(level: str) -> None:
    """Set up logging for a server process; `level` is a name of `logging`."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Line("%(asctime)s %(levelname)-7s %(name)s %(message)s"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
