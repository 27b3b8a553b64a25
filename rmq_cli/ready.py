"""Does a name server know a broker?  `python -m rmq_cli.ready HOST:PORT` exits with 0 when it does (for health checks)."""

from __future__ import annotations

import sys

import trio

from rmq_net.connection import Connection, ConnectionLost
from rmq_wire.codes import ResponseCode
from rmq_wire.headers.naming import GetRouteInfo
from rmq_wire.names import AUTO_CREATE_TOPIC

READY_S_MAX = 30.0
"""How long a server may take until its name server lists the broker; a Java name server may still be starting."""
ASK_MS_MAX = 3_000
AGAIN_S = 0.02


async def answers_default_route(address: str, seconds: float) -> bool:
    """Ask the name server for the route of TBW102 until it has one; False when it has none in time."""
    with trio.move_on_after(seconds):
        while True:
            code: int | None = None
            try:
                code = await _route_code(address)
            except* (OSError, ConnectionLost, trio.TooSlowError):  # it comes out of a nursery, so in a group
                pass
            if code == ResponseCode.SUCCESS:
                return True
            await trio.sleep(AGAIN_S)
    return False


async def _route_code(address: str) -> int:
    async with trio.open_nursery() as nursery:
        host, _, port = address.rpartition(":")
        connection = await Connection.connect(host.strip("[]"), int(port), nursery=nursery)
        answer = await connection.ask(GetRouteInfo(topic=AUTO_CREATE_TOPIC), timeout_ms=ASK_MS_MAX)
        await connection.close()
    return answer.code


def main() -> None:
    """Exit status 0: the name server given (default 127.0.0.1:9876) has the default route."""
    address = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"
    raise SystemExit(0 if trio.run(answers_default_route, address, 1.0) else 1)


if __name__ == "__main__":
    main()
