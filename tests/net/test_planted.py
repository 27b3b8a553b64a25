"""Bugs that servers like this one have had, planted one by one: each check passes on ours and catches its bug.

V1 to V6, V15 and V16 of the list of server bugs; a check is a function of the engine's and the reactor's class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from broker_impl.engine.deadlines import Deadline
from broker_impl.engine.engine import Engine
from broker_impl.engine.limits import Limits
from broker_impl.engine.peer import Peer
from rmq_net.reactor import Link, Reactor
from rmq_net.service import Buffer
from rmq_wire.command import Command, Unreadable, encode_request
from rmq_wire.conversation import Conversation
from rmq_wire.headers.clients import Heartbeat
from rmq_wire.headers.query import ViewMessage
from tests.net.fake_net import FakeNet, FakeSocket
from tests.support.bare_engine import Server, where
from tests.support.planting import Planter, find

Check = Callable[[type[Engine], type[Reactor]], None]


def connected(
    count: int, engine_class: type[Engine], reactor_class: type[Reactor], limits: Limits | None = None
) -> tuple[Server, FakeNet, list[FakeSocket]]:
    server = Server(limits=limits, engine_class=engine_class)
    net = FakeNet(server.engine, reactor_class=reactor_class)
    socks = [net.connect() for _ in range(count)]
    net.rest()
    return server, net, socks


def ask(queue_id: int, opaque: int) -> bytes:
    request = where(queue_id)
    return encode_request(request.code, request, opaque=opaque)


def offsets(sock: FakeSocket) -> dict[int, str]:
    """Which number was answered with which offset."""
    commands = list(Conversation().feed(bytes(sock.sent)))
    return {c.opaque: c.ext_map().get("offset", "") for c in commands if isinstance(c, Command)}


# V1: a view of the receive buffer is kept over a turn


class Viewing(Conversation):
    """Hands out bodies as views of what was received."""

    def feed(self, data: Buffer) -> Iterator[Command | Unreadable]:
        whole = bytes(data)
        for command in super().feed(data):
            if isinstance(command, Command) and command.body:
                at = whole.index(command.body)
                command.body = memoryview(data)[at : at + len(command.body)]
            yield command


class KeepsViews(Engine):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, converse=Viewing, **options)

    def _keep(self, peer: Peer, commands: Iterator[Command | Unreadable], *, large: bool = False) -> None:
        peer.backlog.extend(commands)
        if peer.backlog:
            self._backlogs.add(peer, large=large)


class CopiesViews(Engine):
    """Ours, were bodies still views."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, converse=Viewing, **options)


def test_backlogs_copy_views() -> None:
    bodies_are_what_was_sent(CopiesViews, Reactor)


def bodies_are_what_was_sent(engine_class: type[Engine], reactor_class: type[Reactor]) -> None:
    server, net, [sock] = connected(1, engine_class, reactor_class, Limits(requests_max=2))
    request = Heartbeat()
    sock.incoming.append(b"".join(encode_request(request.code, request, b"body %d" % n, opaque=n) for n in range(6)))
    seen: list[bytes] = []
    server.kit.seen = SeenAtOnce(seen)
    net.rest()
    assert seen == [b"body %d" % n for n in range(6)]


class SeenAtOnce(list[Any]):
    """Copies what a handler notes at the moment it does."""

    def __init__(self, copies: list[bytes]) -> None:
        super().__init__()
        self._copies = copies

    def append(self, noted: Any) -> None:
        self._copies.append(bytes(noted))


# V2: what the cap left over is forgotten


class ForgetsReady(Engine):
    def _keep(self, peer: Peer, commands: Iterator[Command | Unreadable], *, large: bool = False) -> None:
        peer.backlog.extend(command.kept() for command in commands)


def all_of_a_flood_is_answered(engine_class: type[Engine], reactor_class: type[Reactor]) -> None:
    _server, net, [sock] = connected(1, engine_class, reactor_class, Limits(requests_max=5))
    sock.incoming.append(b"".join(ask(n, n) for n in range(17)))
    net.rest()
    assert sorted(offsets(sock)) == list(range(17))


# V3: the answer of one request goes out under another's number


class MixesNumbers(Engine):
    def _serve(self, peer: Peer, command: Command | Unreadable) -> None:
        last = getattr(self, "last", command.opaque)
        self.last = command.opaque
        command.opaque = last
        super()._serve(peer, command)


def each_number_gets_its_own_answer(engine_class: type[Engine], reactor_class: type[Reactor]) -> None:
    _server, net, socks = connected(2, engine_class, reactor_class)
    for who, sock in enumerate(socks):
        sock.incoming.append(b"".join(ask(100 * who + n, n) for n in range(3)))
    net.rest()
    for who, sock in enumerate(socks):
        assert offsets(sock) == {n: str(100 * who + n) for n in range(3)}


# V4: one peer's bad frame closes another


class ClosesAll(Engine):
    def close(self, peer: Peer, why: str, *, level: int = 30) -> None:
        for other in list(self.peers.values()):
            super().close(other, why, level=level)


class OneFailureStopsTheTurn(Engine):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)

        def excuse(error: Exception, peer: Peer, code: int) -> Any:
            raise error

        self._loop.excuse = excuse  # type: ignore[method-assign]


def a_bad_peer_hurts_nobody_else(engine_class: type[Engine], reactor_class: type[Reactor]) -> None:
    _server, net, [bad, buggy, good] = connected(3, engine_class, reactor_class)
    bad.incoming.append(b"\xff" * 8)
    buggy.incoming.append(ask(-2, 1))
    good.incoming.append(ask(3, 1))
    net.rest()
    assert bad.closed
    assert not buggy.closed
    assert not good.closed
    assert offsets(good) == {1: "3"}


# V5: EAGAIN, or a short write, drops the rest


class DropsTheRest(Reactor):
    def _offer(self, link: Link, peer: Any, chunks: list[Buffer]) -> bool:
        alive = super()._offer(link, peer, chunks)
        link.unsent.clear()
        return alive


class ForgetsToWait(Reactor):
    def _watch(self, link: Link) -> None:
        pass


def short_writes_lose_nothing(engine_class: type[Engine], reactor_class: type[Reactor]) -> None:
    _server, net, [sock] = connected(1, engine_class, reactor_class)
    sock.takes.extend([5, 0, 0, 7])
    sock.incoming.append(b"".join(ask(n, n) for n in range(4)))
    net.rest()
    assert sorted(offsets(sock)) == [0, 1, 2, 3]


# V6: the cap on unsent answers is ignored


class NoOutputCap(Engine):
    def opened(self, *arguments: Any) -> Peer | None:
        peer = super().opened(*arguments)
        if peer is not None:
            peer.output_bytes_max = 1 << 40
        return peer


def who_does_not_read_costs_little(engine_class: type[Engine], reactor_class: type[Reactor]) -> None:
    server, net, [sock] = connected(1, engine_class, reactor_class, Limits(output_bytes_max=10_000))
    sock.blocked = True
    request = ViewMessage(offset=1_000)
    sock.incoming.append(b"".join(encode_request(request.code, request, opaque=n) for n in range(200)))
    net.rest()
    [peer] = server.engine.peers.values()
    assert peer.unsent_bytes < 12_000


# V15: a deadline by the wall clock


class WallClockDeadlines(Engine):
    def at(self, mono_ms: int, action: Callable[[], None]) -> Deadline:
        due_wall_ms = self.env.wall_ms + (mono_ms - self.env.mono_ms)

        def look() -> None:
            if self.env.wall_ms >= due_wall_ms:
                action()
            else:
                self._deadlines.at(self.env.mono_ms + 1_000, look)

        return self._deadlines.at(self.env.mono_ms + 1, look)


def clock_steps_move_no_deadline(engine_class: type[Engine], reactor_class: type[Reactor]) -> None:
    for step_ms in (86_400_000, -86_400_000):
        server = Server(engine_class=engine_class)
        idle = server.connect()
        idle.ask(where(1))
        server.env.wall_ms += step_ms
        server.driver.advance(119_000)
        assert not idle.closed
        server.driver.advance(1_000)
        assert idle.closed


# V16: the accept loop spins when there are no descriptors


class SpinsAtEmfile(Reactor):
    def _accept_off(self, error: OSError) -> None:
        pass


def accepting_rests_without_descriptors(engine_class: type[Engine], reactor_class: type[Reactor]) -> None:
    _server, net, _none = connected(0, engine_class, reactor_class)
    net.listener.short_of_descriptors = True
    sock = net.connect()
    net.rest(limit=20)
    net.listener.short_of_descriptors = False
    net.now_ms += 1_000
    sock.incoming.append(ask(1, 1))
    net.rest()
    assert offsets(sock) == {1: "1"}


CHECKS: Sequence[tuple[Check, type[Engine], type[Reactor]]] = [
    (bodies_are_what_was_sent, KeepsViews, Reactor),
    (all_of_a_flood_is_answered, ForgetsReady, Reactor),
    (each_number_gets_its_own_answer, MixesNumbers, Reactor),
    (a_bad_peer_hurts_nobody_else, ClosesAll, Reactor),
    (a_bad_peer_hurts_nobody_else, OneFailureStopsTheTurn, Reactor),
    (short_writes_lose_nothing, Engine, DropsTheRest),
    (short_writes_lose_nothing, Engine, ForgetsToWait),
    (who_does_not_read_costs_little, NoOutputCap, Reactor),
    (clock_steps_move_no_deadline, WallClockDeadlines, Reactor),
    (accepting_rests_without_descriptors, Engine, SpinsAtEmfile),
]


@pytest.mark.parametrize("check", dict.fromkeys(check for check, _e, _r in CHECKS), ids=lambda check: check.__name__)
def test_ours_passes(check: Check) -> None:
    check(Engine, Reactor)


@pytest.mark.parametrize(("check", "engine", "reactor"), CHECKS, ids=lambda value: value.__name__)
def test_the_bug_is_caught(check: Check, engine: type[Engine], reactor: type[Reactor]) -> None:
    def plant(patch: Planter) -> None:
        for one in {engine, reactor} - {Engine, Reactor}:
            patch.watch(one)

    find(plant, check, engine, reactor)
