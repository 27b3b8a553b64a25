"""A JVM that is started quietly: what it and Spark's workers print goes to a file that nobody sees, unless there is need.

The JVM warns of incubator modules, of its options, of native access, before any setting of Spark's logging is read, so its
descriptors are turned elsewhere while it starts.  Python's own are put back at once.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from typing import IO, Final

LAST_LINES_MAX: Final = 20
_NOISE: Final = ("WARNING: ", "Setting default log level", "To adjust logging level", "Using Spark's default log4j", "Picked up ")
_TAIL_BYTES: Final = 8192


class Said:
    """What was printed meanwhile, and is still printed by what was started meanwhile."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def lines(self) -> list[str]:
        """The last ones."""
        end = os.fstat(self._file.fileno()).st_size
        tail = os.pread(self._file.fileno(), _TAIL_BYTES, max(end - _TAIL_BYTES, 0)).decode(errors="replace")
        return [line for line in tail.splitlines() if line.strip() and not line.startswith(_NOISE)][-LAST_LINES_MAX:]


@contextlib.contextmanager
def quietly() -> Iterator[Said]:
    """Processes that are started inside the block have the file for standard output and error.  It lives as long as `Said`."""
    file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - it outlives the block
    os.set_inheritable(file.fileno(), False)
    _flush()
    kept = {number: os.dup(number) for number in (1, 2)}
    try:
        for number in kept:
            os.dup2(file.fileno(), number)
        yield Said(file)
    finally:
        _flush()
        for number, old in kept.items():
            os.dup2(old, number)
            os.close(old)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
