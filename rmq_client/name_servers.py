"""Several name servers, each of which knows everything: one is asked until it fails, then the next.

They may differ for a moment, so an answer that says that there is nothing is believed only from the one that was asked.
Source: `NettyRemotingClient.getAndCreateNameserverChannel`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import trio

from rmq_client.connections import Connections, split
from rmq_client.errors import CallerError, NetworkError, Unreachable
from rmq_client.world import World
from rmq_wire.command import Command
from rmq_wire.declare import Request

ASK_MS: Final = 3_000
"""Java: `mqClientApiTimeout`."""


def addresses_of(text: str | Sequence[str] | None) -> tuple[str, ...]:
    """`host:port;host:port` (commas do, too) as a tuple.  Raises `CallerError` when there is none, or one is no address."""
    given = text.replace(",", ";").split(";") if isinstance(text, str) else list(text or ())
    found = tuple(dict.fromkeys(one.strip() for one in given if one.strip()))
    if not found:
        raise CallerError("no name server: name one (HOST:PORT), or set NAMESRV_ADDR")
    for one in found:
        try:
            split(one)
        except NetworkError as wrong:
            raise CallerError(f"name server: {wrong}") from None
    return found


class NameServers:
    """Asks whichever of them answers."""

    def __init__(self, addresses: Sequence[str], connections: Connections, world: World) -> None:
        self.addresses = tuple(addresses)
        self._connections = connections
        self._at = world.rng.randrange(len(self.addresses))

    @property
    def chosen(self) -> str:
        """The one that is asked first."""
        return self.addresses[self._at]

    async def ask(self, request: Request, body: bytes = b"", *, timeout_ms: int = ASK_MS) -> Command:
        """The answer of the first that gives one; each gets its share of the time that is left.

        Raises `Unreachable` with what each of them did.
        """
        ends = trio.current_time() + timeout_ms / 1e3
        failed = []
        for tries_left in range(len(self.addresses), 0, -1):
            left_ms = max(int((ends - trio.current_time()) * 1e3), 1)
            address = self.chosen
            try:
                return await self._connections.ask(address, request, body, timeout_ms=max(left_ms // tries_left, 1))
            except NetworkError as error:
                failed.append(str(error))
                if self.chosen == address:  # nobody else has moved on meanwhile
                    self._at = (self._at + 1) % len(self.addresses)
        raise Unreachable(f"no name server answers: {'; '.join(failed)}")
