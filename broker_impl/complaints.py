"""Log lines that strangers can cause: one line each, escaped, and only so many in a while.

What was left out is counted and said with the next line that is written.
"""

from __future__ import annotations

import logging

from broker_impl.call import plain_text
from broker_impl.env import Env

LINES_MAX = 20
"""Lines per window: enough to see what is going on, too few to fill a disk (about 200 bytes each)."""
WINDOW_MS = 10_000


class Complaints:
    """Writes to `log` at most `LINES_MAX` lines in `WINDOW_MS`.  Arguments are made safe by `plain_text`."""

    def __init__(self, env: Env, log: logging.Logger) -> None:
        self._env = env
        self._log = log
        self._window_ends_ms = env.mono_ms + WINDOW_MS
        self._said = 0
        self.left_out = 0

    def say(self, level: int, text: str, *arguments: object, error: BaseException | None = None) -> None:
        """One line; `error` adds its traceback (our own bugs only)."""
        now = self._env.mono_ms
        if now >= self._window_ends_ms:
            self._window_ends_ms = now + WINDOW_MS
            self._said = 0
        if self._said >= LINES_MAX:
            self.left_out += 1
            return
        self._said += 1
        if self.left_out:
            self._log.warning("%d lines left out", self.left_out)
            self.left_out = 0
        self._log.log(level, text, *(plain_text(a) if isinstance(a, str) else a for a in arguments), exc_info=error)
