"""Time, chance, identity and the log, handed in.

An `Env` is a bundle of plain values; everything that serves a request reads the time there and nowhere else.  The engine
refreshes it once a turn: `SystemEnv` then reads the clocks, a test's `Env` keeps what the test has set.  Deadlines use
`mono_ms`; stored and wire times use `wall_ms`.  Its `log` counts lines by that time.
"""

from __future__ import annotations

import os
import random
import time
from datetime import UTC, datetime, tzinfo

from rmq_net.log import Log

NS_PER_MS = 1_000_000


class Env:
    """Values of this turn.  `wall_ms`: since the epoch.  `mono_ms`: never steps.  `host`: our address as stored and
    registered.  `log`: where a server says what happens, each one with an `Env` of its own.
    """

    __slots__ = ("host", "log", "mono_ms", "pid", "rng", "wall_ms", "zone")

    def __init__(
        self,
        *,
        wall_ms: int = 0,
        mono_ms: int = 0,
        zone: tzinfo = UTC,
        rng: random.Random | None = None,
        host: str = "127.0.0.1",
        pid: int = 1,
    ) -> None:
        self.wall_ms = wall_ms
        self.mono_ms = mono_ms
        self.zone = zone
        self.rng = rng or random.Random(0)
        self.host = host
        self.pid = pid
        self.log = Log("rmq", lambda: self.mono_ms)

    def refresh(self) -> None:
        """A new turn begins."""

    def advance(self, ms: int) -> None:
        """Let time pass on both clocks."""
        self.wall_ms += ms
        self.mono_ms += ms


class SystemEnv(Env):
    """The machine's clocks, zone and process."""

    __slots__ = ()

    def __init__(self, host: str = "127.0.0.1") -> None:
        zone = datetime.now().astimezone().tzinfo
        super().__init__(zone=zone or UTC, rng=random.Random(), host=host, pid=os.getpid())
        self.refresh()

    def refresh(self) -> None:
        self.wall_ms = time.time_ns() // NS_PER_MS
        self.mono_ms = time.monotonic_ns() // NS_PER_MS
