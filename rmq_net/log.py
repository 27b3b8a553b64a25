"""What a server writes into its log: one printable line at a time, and only so many of a kind in a while.

Whoever connects can cause lines.  So all lines of a server go through here: foreign text is escaped, and of one kind (one text
before its arguments are filled in) a window has `LINES_MAX`.  A kind that floods hides no other, and since every text is a
constant of the program (`tests/tidy/test_log.py`), kinds are few.  What was left out is counted and said with the first line of
a later window.  Where the lines go, and that nobody waits there, is the business of whoever sets up logging (`rmq_cli.logs`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

LINES_MAX: Final = 20
"""Lines of a kind per window: enough to see what is going on.  Unknown peers cause some 15 kinds at WARNING: 5 KB a second."""
WINDOW_MS: Final = 10_000
NAMES_MAX: Final = 16
"""Of a list so many are shown."""
SETTINGS_CHARS_MAX: Final = 1024
"""Of a dictionary, which a change of the configuration is."""


class Log:
    """Writes to the logger of this name.  `now_ms()`: monotonic milliseconds, handed in."""

    def __init__(self, name: str, now_ms: Callable[[], int]) -> None:
        self._logger = logging.getLogger(name)
        self._now_ms = now_ms
        self._window_ends_ms = 0
        self._said: dict[str, int] = {}
        """By kind: lines wanted in this window."""
        self.left_out = 0
        """Lines left out that nobody has heard of yet."""

    def rename(self, name: str) -> None:
        """From now on to the logger of this name."""
        self._logger = logging.getLogger(name)

    def debug(self, text: str, *arguments: object) -> None:
        """Of use to who looks for a fault of ours."""
        self.say(logging.DEBUG, text, *arguments)

    def info(self, text: str, *arguments: object) -> None:
        """What happens every day."""
        self.say(logging.INFO, text, *arguments)

    def warning(self, text: str, *arguments: object) -> None:
        """What the operator may want to know of."""
        self.say(logging.WARNING, text, *arguments)

    def error(self, text: str, *arguments: object, error: BaseException | None = None) -> None:
        """What has failed here; `error` adds its traceback (our own bugs only)."""
        self.say(logging.ERROR, text, *arguments, error=error)

    def say(self, level: int, text: str, *arguments: object, error: BaseException | None = None) -> None:
        """One line.  Arguments other than numbers are shown by `plain_text`; a line that is not wanted costs next to nothing."""
        logger = self._logger
        if not logger.isEnabledFor(level):
            return
        now = self._now_ms()
        if now >= self._window_ends_ms:
            self._begin_window(now)
        wanted = self._said[text] = self._said.get(text, 0) + 1
        if wanted > LINES_MAX:
            self.left_out += 1
            return
        logger.log(level, text, *(_shown(argument) for argument in arguments), exc_info=error)

    def _begin_window(self, now_ms: int) -> None:
        said, self._said = self._said, {}
        self._window_ends_ms = now_ms + WINDOW_MS
        if self.left_out:
            self._logger.warning("%d lines left out, most of them like %r", self.left_out, max(said, key=lambda text: said[text]))
            self.left_out = 0


def _shown(argument: object) -> object:
    if isinstance(argument, int | float):
        return argument
    if isinstance(argument, list) and len(argument) > NAMES_MAX:
        return f"{plain_text(argument[:NAMES_MAX])} and {len(argument) - NAMES_MAX} more"
    return plain_text(argument, SETTINGS_CHARS_MAX) if isinstance(argument, dict) else plain_text(argument)


def plain_text(value: Any, limit: int = 256) -> str:
    """Foreign text made safe for a log line or a remark: one line, printable, at most `limit` characters of it.

    Control characters, line separators, bidirectional marks and lone surrogates show as escapes.
    """
    text = str(value)
    cut = text[:limit]
    safe = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cut)
    return safe if len(text) <= limit else f"{safe}… ({len(text)} characters)"
