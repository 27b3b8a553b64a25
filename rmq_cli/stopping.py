"""SIGTERM and Ctrl-C while a server starts, or a command works: they unwind what was begun, so that no temporary directory, no
half-written file and no process of ours stays behind.

Once it serves, the server waits for both itself (`broker_impl.broker.run`).  Until then Ctrl-C is Python's `KeyboardInterrupt`,
and SIGTERM is made the same here.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

STATUS_OF_SIGNAL = 128
"""Exit status of a program that a signal has ended, as shells report it: 128 and the signal's number."""
INTERRUPTED = STATUS_OF_SIGNAL + signal.SIGINT


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """Inside, SIGTERM and Ctrl-C raise `KeyboardInterrupt`; outside, that is exit status 143 or 130 without a word."""
    ended_by = signal.SIGINT

    def unwind(_number: int, frame: FrameType | None) -> None:
        nonlocal ended_by
        ended_by = signal.SIGTERM
        interrupt = signal.getsignal(signal.SIGINT)
        if callable(interrupt):  # trio's knows where it must not raise
            interrupt(signal.SIGINT, frame)
        else:  # a shell has its background jobs ignore Ctrl-C
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, unwind)
    try:
        yield
    except KeyboardInterrupt:
        raise SystemExit(STATUS_OF_SIGNAL + ended_by) from None
    except BaseExceptionGroup as group:  # it came while tasks were at work
        if group.subgroup(KeyboardInterrupt) is None:
            raise
        raise SystemExit(STATUS_OF_SIGNAL + ended_by) from None
    finally:
        signal.signal(signal.SIGTERM, before)
