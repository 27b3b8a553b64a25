"""Does a name server know a broker?  `python -m rmq_cli.ready HOST:PORT` exits with 0 when it does (for health checks)."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import trio

from rmq_net.connection import Connection, ConnectionLost
from rmq_wire.bodies.route import TopicRouteData
from rmq_wire.codes import ResponseCode
from rmq_wire.errors import BadBody, BadHeader
from rmq_wire.headers.naming import GetRouteInfo
from rmq_wire.names import AUTO_CREATE_TOPIC, SELF_TEST_TOPIC

READY_S_MAX = 30.0
"""How long a server may take until its name server lists the broker; a Java name server may still be starting."""
ASK_MS_MAX = 3_000
AGAIN_S_MIN = 0.02
"""The first pause: our own name server has the route by then.  Each further one is twice as long."""
AGAIN_S_MAX = 1.0


class Listed(NamedTuple):
    """A broker as a name server lists it: its name, and the `host:port` under which it registers."""

    name: str
    address: str


async def answers_default_route(addresses: Sequence[str], seconds: float, listed: Listed | None = None) -> bool:
    """Ask the name servers for the route of TBW102 until one has it; False when none has it in time.

    `listed`: the route has to lead to this broker, for others may have been there before.

    Each has one connection, made again when it breaks, and is asked at growing intervals.  A broker with
    autoCreateTopicEnable=false has no TBW102: then the self-test topic counts, which comes with the same registration.
    """
    with trio.move_on_after(seconds):
        found = trio.Event()
        async with trio.open_nursery() as nursery:
            for address in addresses:
                nursery.start_soon(_until_route, address, listed, found)
            await found.wait()
            nursery.cancel_scope.cancel()
        return True
    return False


async def _until_route(address: str, listed: Listed | None, found: trio.Event) -> None:
    pauses = _pauses()
    while not found.is_set():
        try:
            await _ask_on_one_connection(address, listed, found, pauses)
        except* (OSError, BadBody, BadHeader, ConnectionLost, trio.TooSlowError):  # they come out of a nursery, so in a group
            pass
        await trio.sleep(next(pauses))


def _pauses() -> Iterator[float]:
    pause_s = AGAIN_S_MIN
    while True:
        yield pause_s
        pause_s = min(2 * pause_s, AGAIN_S_MAX)


async def _ask_on_one_connection(address: str, listed: Listed | None, found: trio.Event, pauses: Iterator[float]) -> None:
    async with trio.open_nursery() as nursery:
        host, _, port = address.rpartition(":")
        connection = await Connection.connect(host.strip("[]"), int(port), nursery=nursery)
        while not await _has_route(connection, listed):
            await trio.sleep(next(pauses))
        found.set()
        await connection.close()


async def _has_route(connection: Connection, listed: Listed | None) -> bool:
    for topic in (AUTO_CREATE_TOPIC, SELF_TEST_TOPIC):
        answer = await connection.ask(GetRouteInfo(topic=topic), timeout_ms=ASK_MS_MAX)
        if answer.code == ResponseCode.SUCCESS and (listed is None or _leads_to(listed, answer.body)):
            return True
    return False


def _leads_to(listed: Listed, body: bytes) -> bool:
    brokers = TopicRouteData.read(body).broker_datas
    return any(broker.broker_name == listed.name and listed.address in broker.broker_addrs.values() for broker in brokers)


def main() -> None:
    """Exit status 0: the name server given (default 127.0.0.1:9876) has the default route."""
    address = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"
    raise SystemExit(0 if trio.run(answers_default_route, [address], 1.0) else 1)


if __name__ == "__main__":
    main()
