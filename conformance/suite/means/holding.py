"""Pulls that wait for a message: held in a task of their own, and known to be parked."""

from __future__ import annotations

from typing import Final

import trio

from conformance.suite.link import Link
from conformance.suite.trial import Pulled, Trial

HOLD_MS: Final = 45_000
"""Longer than a busy machine takes for all that a case does meanwhile."""
WOKEN_S: Final = 20.0
"""Less than that.  The reference parks a pull a moment after it has looked: what comes in between waits for its next sweep, which
comes every 5 s."""
BEHIND: Final = 3
"""So many answers show that what was asked before them on the same connection has been dealt with: a server may work on several
requests side by side."""
FAR: Final = 1 << 40
"""An offset where nothing is: answered at once."""


def hold_ms(t: Trial) -> int:
    """That, on this machine."""
    return int(HOLD_MS * t.patience)


def woken_s(t: Trial) -> float:
    """That, on this machine."""
    return WOKEN_S * t.patience


class Holding:
    """A pull that waits in a task of its own, on a connection of its own."""

    def __init__(self, t: Trial, nursery: trio.Nursery, topic: str, offset: int = 0, **options: object) -> None:
        self.pulled: Pulled | None = None
        self.came = trio.Event()
        self.link = t.connect()
        nursery.start_soon(self._run, t, topic, offset, options)

    async def _run(self, t: Trial, topic: str, offset: int, options: dict[str, object]) -> None:
        self.pulled = await t.pull(topic, offset, link=self.link, **{"hold_ms": hold_ms(t), **options})  # type: ignore[arg-type]
        self.came.set()

    async def bodies(self, t: Trial, what: str) -> list[bytes]:
        """What it brought, which must come long before its time is up."""
        with trio.move_on_after(woken_s(t)):
            await self.came.wait()
        t.check(f"{what}: the answer comes within {woken_s(t):g} s", self.came.is_set())
        assert self.pulled is not None
        return [bytes(unit.body) for unit in self.pulled.messages]


async def parked(t: Trial, topic: str, *links: Link, pulls: int = 1) -> None:
    """Until so many pulls, the only requests on each of these connections, are parked: they have gone out, and the server has
    answered what came behind them."""
    for link in links:

        async def gone_out(link: Link = link) -> bool:
            return sum(frame.to_server and frame.connection == link.number for frame in t.evidence) >= pulls

        await t.until(f"what waits on connection {link.number} has gone out", gone_out)
        await dealt_with(t, topic, link)


async def dealt_with(t: Trial, topic: str, link: Link) -> None:
    """Until the server has answered several requests on this connection, one after the other."""
    for _ in range(BEHIND):
        await t.pull(topic, FAR, link=link)
