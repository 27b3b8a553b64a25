"""A relay on loopback in front of a name server and a broker, which lets a mutator change what passes.

A mutator sees each request, each response together with its request, and each request of the server's own, and says what goes on
instead, when, and whether somebody is answered right here.  Cases must not notice the relay itself: the broker's address in
routes and cluster tables becomes the relay's, and where the server names the client's address (born hosts, connection lists) the
relay's own end is replaced by the client's.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from socket import create_server
from struct import error as PackedError
from typing import Any, Final

import trio

from conformance.controls import frames
from conformance.controls.frames import Message
from conformance.relay import Address, Step, Watch, bound_to, relay, text_of
from conformance.subjects.base import Target
from conformance.subjects.remoting import split_address
from rmq_wire.codes import RequestCode as Code
from rmq_wire.codes import ResponseCode

__all__ = ["Mutate", "Seen", "Step", "answering", "passing", "proxied", "unchanged"]

HOST: Final = "127.0.0.1"
ROUTES: Final = frozenset({Code.GET_ROUTEINFO_BY_TOPIC, Code.GET_BROKER_CLUSTER_INFO, Code.GET_BROKER_MEMBER_GROUP})
"""Their answers name the broker's address."""
CONNECTIONS: Final = frozenset({Code.GET_PRODUCER_CONNECTION_LIST, Code.GET_CONSUMER_CONNECTION_LIST})
"""Their answers name clients' addresses."""
UNITS: Final = frozenset(
    {Code.PULL_MESSAGE, Code.LITE_PULL_MESSAGE, Code.QUERY_MESSAGE, Code.VIEW_MESSAGE_BY_ID, Code.POP_MESSAGE}
)
"""Their answers hold message units."""


@dataclass
class Seen:
    """What passes: a request on its way, a response with its request, or the server's own request."""

    request: Message
    answer: Message | None
    own: bool
    """It is the server that asks."""
    frame: bytes = b""
    """As it came."""
    nth: int = 0
    """Which one of those that came in one piece, from 0."""
    state: dict[Any, Any] = field(default_factory=dict)
    """The mutator's memory, over all connections of a run."""

    @property
    def reply(self) -> Message:
        """The response, which there is."""
        assert self.answer is not None
        return self.answer


Mutate = Callable[[Seen], Iterable[Step] | None]
"""Changes the message that passes in place, or says what is done instead of passing it."""


def unchanged(seen: Seen) -> None:
    """The mutator that does nothing."""


def passing(message: Message) -> Step:
    """It goes on."""
    return Step(message.encode())


def answering(message: Message) -> Step:
    """It goes back to the asker, who is answered here."""
    return Step(message.encode(), back=True)


class _World:
    """What all connections of a proxy share."""

    def __init__(self, target: Target, mutate: Mutate) -> None:
        self.mutate = mutate
        self.state: dict[Any, Any] = {}
        self.target_broker = target.broker.encode()
        self.broker = b""
        """The relay's address in its place."""
        self.clients: dict[int, int] = {}
        """Port of the relay's end towards the server -> port of the client."""

    def meet(self, client: Address, here: Address) -> _Spoiled:
        """A new connection."""
        self.clients[here[1]] = client[1]
        return _Spoiled(self)


@asynccontextmanager
async def proxied(target: Target, mutate: Mutate = unchanged) -> AsyncIterator[Target]:
    """The same target behind a relay, for as long as the block lasts."""
    world = _World(target, mutate)
    broker, names = create_server((HOST, 0)), create_server((HOST, 0))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(relay, broker, split_address(target.broker), world.meet)
        nursery.start_soon(relay, names, split_address(target.namesrv), world.meet)
        world.broker = text_of(bound_to(broker)).encode()
        try:
            yield replace(target, broker=text_of(bound_to(broker)), namesrv=text_of(bound_to(names)))
        finally:
            nursery.cancel_scope.cancel()


class _Spoiled(Watch):
    """One connection, as the mutator wants it."""

    def __init__(self, world: _World) -> None:
        self._world = world
        self._asked: dict[int, Message] = {}

    def passes(self, to_server: bool, frame: bytes, nth: int) -> Iterable[Step]:
        message = _read(frame)
        if message is None:
            return [Step(frame)]
        return self._of_client(message, frame, nth) if to_server else self._of_server(message, frame, nth)

    def _of_client(self, message: Message, frame: bytes, nth: int) -> Iterable[Step]:
        if message.is_response:
            return [Step(frame)]
        steps = self._mutated(frame, Seen(message, None, False, frame, nth, self._world.state), message)
        if not message.is_one_way:
            self._asked[message.opaque] = message
        return steps

    def _of_server(self, message: Message, frame: bytes, nth: int) -> Iterable[Step]:
        if not message.is_response:
            return self._mutated(frame, Seen(message, None, True, frame, nth, self._world.state), message)
        request = self._asked.pop(message.opaque, None)
        if request is None:
            return [Step(frame)]
        if self._translate(request, message):
            frame = message.encode()
        return self._mutated(frame, Seen(request, message, False, frame, nth, self._world.state), message)

    def _mutated(self, frame: bytes, seen: Seen, message: Message) -> Iterable[Step]:
        """What goes on: the frame itself where nothing was changed."""
        before = message.encode()
        steps = self._world.mutate(seen)
        if steps is not None:
            return list(steps)
        after = message.encode()
        return [Step(frame if after == before else after)]

    def _translate(self, request: Message, answer: Message) -> bool:
        """Addresses that would show the relay; whether there were any."""
        world, before = self._world, answer.body
        if request.code in ROUTES:
            answer.body = before.replace(b'"' + world.target_broker + b'"', b'"' + world.broker + b'"')
        elif request.code in CONNECTIONS:
            answer.body = re.sub(rb"127\.0\.0\.1:(\d+)", self._client_of, before)
        elif request.code in UNITS and answer.code in (ResponseCode.SUCCESS,):
            try:
                answer.body = frames.edit_units(before, self._born_at_client)
            except ValueError:
                return False
        return answer.body != before

    def _client_of(self, found: re.Match[bytes]) -> bytes:
        port = self._world.clients.get(int(found[1]), int(found[1]))
        return b"127.0.0.1:%d" % port

    def _born_at_client(self, unit: bytearray) -> bytearray:
        address, port = frames.born_at(unit)
        return frames.put_born_at(unit, address, self._world.clients.get(port, port))


def _read(frame: bytes) -> Message | None:
    try:
        return Message.read(frame)
    except (ValueError, TypeError, PackedError, RecursionError):
        return None
