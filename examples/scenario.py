"""What the scenarios share: names that nobody else uses, and waiting for what must come."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

NAMESRV = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")
FIRST = "CONSUME_FROM_FIRST_OFFSET"
PATIENCE_S = 120


def fresh(stem: str) -> str:
    """A name for this run."""
    return f"{stem}-{os.urandom(3).hex()}"


def wait_for(what: str, question: Callable[[], bool]) -> None:
    """Until it is so.  Ends the program where it does not come."""
    ends = time.monotonic() + PATIENCE_S
    while not question():
        if time.monotonic() > ends:
            raise SystemExit(f"after {PATIENCE_S} s still not: {what}")
        time.sleep(0.05)
