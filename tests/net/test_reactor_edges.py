"""The reactor at its edges: events that come alone, errors of the poller and of closing, what it counts and what it says."""

from __future__ import annotations

import errno
import select
from collections.abc import Sequence
from typing import Any

import pytest

from broker_impl.engine.limits import Limits
from broker_impl.engine.peer import Peer
from rmq_net import reactor as module
from rmq_net.reactor import Reactor, Tuning
from rmq_net.service import Address, Buffer, Job, Output
from rmq_wire.command import encode_request
from rmq_wire.headers.query import ViewMessage
from tests.net.fake_net import READ, WRITE, FakeNet, FakeSocket
from tests.support.bare_engine import Server, where

RESET = OSError(errno.ECONNRESET, "Connection reset by peer")


def ask(number: int) -> bytes:
    request = where(number)
    return encode_request(request.code, request, opaque=number)


def blob(size: int, number: int) -> bytes:
    request = ViewMessage(offset=size)
    return encode_request(request.code, request, opaque=number)


class Watched:
    """A net, and why each of its connections ended."""

    def __init__(self, limits: Limits | None = None, tuning: Tuning | None = None) -> None:
        engine = Server(limits=limits).engine
        self.ends: list[str] = []
        self.peers = engine.peers
        ended = engine.closed

        def closed(peer: Peer, why: str) -> None:
            self.ends.append(why)
            ended(peer, why)

        engine.closed = closed  # type: ignore[method-assign]
        self.net = FakeNet(engine, tuning=tuning)

    def connect(self) -> FakeSocket:
        sock = self.net.connect()
        self.net.rest()
        return sock

    def peer(self) -> Peer:
        [peer] = self.peers.values()
        return peer


@pytest.mark.parametrize("how", ["receive", "send", "later send", "end", "bad frame", "stop"])
def test_each_end_says_its_reason_in_words(how: str) -> None:
    watched = Watched()
    sock = watched.connect()
    if how == "receive":
        sock.incoming.append(RESET)
    elif how == "end":
        sock.ended = True
    elif how == "stop":
        watched.net.reactor.close()
    else:
        sock.incoming.append(ask(1) + (b"\xff" * 8 if how == "bad frame" else b""))
        sock.takes.extend({"send": [RESET], "later send": [3, RESET]}.get(how, []))
    watched.net.rest()
    reason = {"end": "closed by the peer", "bad frame": "closed by us", "stop": "the server stops"}.get(how, RESET.strerror)
    assert watched.ends == [reason], "once"
    assert sock.closed


def test_a_peer_that_is_lost_while_it_is_sent_to_is_not_watched_again() -> None:
    """Also when it was to be closed with that answer."""
    watched = Watched()
    sock = watched.connect()
    sock.takes.append(RESET)
    sock.incoming.append(ask(1) + b"\xff" * 8)
    watched.net.rest()
    assert watched.ends == [RESET.strerror]
    assert list(watched.net.poller.masks) == [watched.net.listener.fd]


@pytest.mark.parametrize("event", [select.POLLHUP, select.POLLERR, select.POLLHUP | select.POLLERR])
def test_a_hang_up_that_comes_alone_ends_the_connection(event: int) -> None:
    """Of a peer that is not read because it does not read; epoll would report it for ever."""
    watched = Watched(Limits(output_bytes_max=100))
    sock = watched.connect()
    sock.blocked = True
    sock.incoming.extend([blob(1_000, 1), ask(2)])
    watched.net.rest()
    assert watched.net.poller.masks[sock.fd] == WRITE
    watched.net.reactor.turn([(sock.fd, event)])
    assert watched.ends == ["reset by the peer"]


def test_what_can_still_be_read_is_read_before_a_hang_up_counts() -> None:
    watched = Watched()
    sock = watched.connect()
    sock.incoming.append(ask(1))
    sock.ended = True
    watched.net.reactor.turn([(sock.fd, READ | select.POLLHUP)])
    assert sock.sent
    assert watched.ends == []
    watched.net.rest()
    assert watched.ends == ["closed by the peer"]


def test_a_peer_whose_readings_rest_is_not_taken_for_gone_by_a_hang_up_with_data() -> None:
    watched = Watched(Limits(output_bytes_max=100))
    sock = watched.connect()
    sock.blocked = True
    sock.incoming.extend([blob(1_000, 1), ask(2)])
    watched.net.rest()
    watched.net.reactor.turn([(sock.fd, READ | select.POLLHUP)])
    assert watched.ends == [], "its end is seen when it is read again"


@pytest.mark.parametrize("takes", [[100_000], [100, 50_000, 100_000], [0, 7, 100_000]])
@pytest.mark.parametrize("joined", [True, False])
def test_every_byte_that_the_kernel_takes_is_counted(takes: list[int], joined: bool) -> None:
    watched = Watched(tuning=Tuning(join_bytes_max=1 << 20 if joined else 0))
    sock = watched.connect()
    sock.takes.extend(takes)
    sock.incoming.append(blob(40_000, 1))
    watched.net.rest()
    assert watched.peer().sent_bytes == len(sock.sent) > 40_000
    assert watched.peer().unsent_bytes == 0


def test_a_poller_that_refuses_ends_that_connection_only(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched()
    net = watched.net
    bad, good = watched.connect(), watched.connect()
    modify = net.poller.modify

    def refuses(fd: int, mask: int) -> None:
        if fd == bad.fd:
            raise OSError(errno.ENOMEM, "Cannot allocate memory")
        modify(fd, mask)

    monkeypatch.setattr(net.poller, "modify", refuses)
    for sock in (bad, good):
        sock.takes.append(3)
        sock.incoming.append(ask(1))
    net.rest()
    assert bad.closed
    assert watched.ends == ["[Errno 12] Cannot allocate memory"]
    assert not good.closed
    assert good.sent


def test_a_socket_that_cannot_even_be_closed_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched()
    sock = watched.connect()

    def fails(*_arguments: Any) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(sock, "close", fails)
    monkeypatch.setattr(watched.net.poller, "unregister", lambda fd: (watched.net.poller.masks.pop(fd), fails()))
    sock.ended = True
    watched.net.rest()
    assert watched.ends == ["closed by the peer"]
    assert not watched.peers


# Accepting


def test_one_that_ends_while_it_is_welcomed_is_closed_and_no_peer() -> None:
    watched = Watched()
    sock = watched.net.connect()

    def fails(*_arguments: Any) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")

    sock.setsockopt = fails  # type: ignore[method-assign]
    watched.net.rest()
    assert sock.closed
    assert not watched.peers
    assert watched.connect().fd in watched.net.poller.masks


def test_one_that_is_refused_is_closed_and_not_watched() -> None:
    watched = Watched(Limits(peers_max=1))
    watched.connect()
    refused = watched.connect()
    assert refused.closed
    assert refused.fd not in watched.net.poller.masks
    assert watched.ends == []


def test_a_listener_gives_no_more_once_accepting_rests() -> None:
    """Two listeners are ready in one pass; the first runs out of descriptors."""
    watched = Watched()
    net = watched.net
    net.listener.short_of_descriptors = True
    net.connect()
    ready = [(net.listener.fd, READ), (net.listener.fd, READ)]
    net.reactor.turn(ready)
    assert net.listener.accepts == 1
    assert not net.reactor.due()
    net.now_ms += 199
    assert not net.reactor.due()
    net.now_ms += 1
    assert net.reactor.due()


def test_a_stop_while_accepting_rests_forgets_the_listener() -> None:
    watched = Watched()
    net = watched.net
    net.listener.short_of_descriptors = True
    net.connect()
    net.rest()
    net.reactor.stop()
    net.reactor.stop()
    assert net.listener.closed
    assert net.reactor.next_deadline() == net.now_ms + Tuning().drain_ms_max
    net.now_ms += 1_000
    net.rest()
    assert net.listener.accepts == 1


# A pass


class PlainPeer:
    """Whoever is behind a connection of a scripted service."""

    def __init__(self) -> None:
        self.unsent_bytes = self.sent_bytes = 0
        self.congested = self.held = False
        self.backlog: list[object] = []


class Scripted:
    """A service that does in its next turns what a test says, and notes what it is given."""

    receive_bytes_max = 1 << 16
    drained = True

    def __init__(self, tuning: Tuning | None = None) -> None:
        self.peers: list[PlainPeer] = []
        self.ends: list[str] = []
        self.turns: list[list[Output]] = []
        self.settles: list[list[Output]] = []
        self.jobs: list[list[Job]] = []
        self.deadline: int | None = None
        self.arrived: Sequence[tuple[PlainPeer, Buffer]] = ()
        self.got: list[bytes] = []
        self.views: list[Buffer] = []
        self.net = FakeNet(self, tuning=tuning)

    def opened(self, remote: Address, local: Address, listener: str) -> PlainPeer:
        self.peers.append(PlainPeer())
        return self.peers[-1]

    def closed(self, peer: PlainPeer, why: str) -> None:
        self.ends.append(why)

    def turn(self, arrived: Sequence[tuple[PlainPeer, Buffer]]) -> list[Output]:
        self.arrived = arrived
        self.views = [view for _, view in arrived]
        self.got += [bytes(view) for view in self.views]
        return self.turns.pop(0) if self.turns else []

    def settle(self) -> list[Output]:
        assert not self.arrived, "what arrived is not kept beyond the turn"
        return self.settles.pop(0) if self.settles else []

    def next_deadline(self) -> int | None:
        return self.deadline

    def take_jobs(self) -> list[Job]:
        return self.jobs.pop(0) if self.jobs else []

    def drain(self) -> None:
        pass

    def connect(self) -> FakeSocket:
        sock = self.net.connect()
        self.net.passes(1)
        return sock

    def gives(self, peer: int, data: bytes, close: bool = False) -> Output:
        self.peers[peer].unsent_bytes += len(data)
        return self.peers[peer], [data], close


def test_jobs_of_a_turn_are_started_before_it_settles_and_those_of_settling_after(monkeypatch: pytest.MonkeyPatch) -> None:
    service = Scripted()
    first, second = (Job("sync", lambda: None, lambda result, error: None) for _ in range(2))
    service.jobs = [[first], [second]]
    before: list[Job] = []
    monkeypatch.setattr(service, "settle", lambda: before.extend(service.net.jobs) or [])
    service.net.passes(1)
    assert before == [first]
    assert service.net.jobs == [first, second]


@pytest.mark.parametrize("poison", [True, False])
def test_received_bytes_are_overwritten_after_the_turn_only_where_a_test_wants_it(poison: bool) -> None:
    service = Scripted()
    sock = service.connect()
    service.net.reactor.tuning = Tuning(poison=poison)
    sock.incoming.append(b"request")
    service.net.passes(1)
    assert service.got == [b"request"]
    assert bytes(service.views[0]) == (b"\xdb" * 7 if poison else b"request")


def test_young_garbage_is_collected_once_a_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    monkeypatch.setattr(module, "collect_young", lambda: calls.append(1))
    Scripted().net.passes(3)
    assert len(calls) == 3


@pytest.mark.parametrize("how", ["listener", "nobody", "nothing there", "room only", "reset", "end", "reset while it sends"])
def test_whatever_one_socket_has_the_next_is_received_in_the_same_pass(how: str) -> None:
    service = Scripted()
    bad, good = service.connect(), service.connect()
    fd, event = bad.fd, READ
    if how == "listener":
        fd = service.net.listener.fd
    elif how == "nobody":
        fd = 4711
    elif how == "room only":
        event = WRITE
    elif how == "reset":
        bad.incoming.append(RESET)
    elif how == "end":
        bad.ended = True
    elif how == "reset while it sends":
        bad.takes.extend([3, RESET])
        service.turns = [[service.gives(0, b"answer")]]
        service.net.passes(1)
        event = READ | WRITE
    good.incoming.append(b"request")
    service.net.reactor.turn([(fd, event), (good.fd, READ)])
    assert service.got == [b"request"]
    assert len(service.ends) == how.startswith(("reset", "end"))


def test_who_found_no_room_comes_first_in_the_next_pass_in_the_same_order() -> None:
    service = Scripted(Tuning(buffer_bytes=10, room_bytes_min=8))
    socks = [service.connect() for _ in range(4)]
    for number, sock in enumerate(socks):
        sock.incoming.append(b"%d:" % number + bytes(3))
    for _ in range(4):
        service.net.reactor.turn([(sock.fd, READ) for sock in socks if sock.incoming])
        socks[0].incoming.append(b"more!")
    assert [data[:1] for data in service.got] == [b"0", b"1", b"2", b"3"]


@pytest.mark.parametrize("how", ["gone", "reset", "closed by us", "closed by us with a rest"])
def test_whatever_becomes_of_one_peer_the_next_gets_its_answer(how: str) -> None:
    """They are not asked for again."""
    service = Scripted()
    bad, good = service.connect(), service.connect()
    first = service.gives(0, b"one", close=how.startswith("closed"))
    if how == "gone":
        bad.ended = True
        service.net.passes(1)
    elif how == "reset":
        bad.takes.append(RESET)
    elif how.endswith("rest"):
        bad.takes.append(1)
    service.turns = [[first, service.gives(1, b"two")]]
    service.net.passes(1)
    assert bytes(good.sent) == b"two"
    assert bad.closed
    assert len(service.ends) == 1


@pytest.mark.parametrize("rest", [True, False])
def test_who_is_to_be_closed_in_a_stop_gets_what_it_is_owed_first(rest: bool) -> None:
    service = Scripted()
    sock = service.connect()
    service.net.reactor.stop()
    if rest:
        sock.takes.extend([3, 0])
    service.turns = [[service.gives(0, b"answer", close=True)]]
    service.net.passes(1)
    assert sock.closed is not rest
    service.net.passes(2)
    assert bytes(sock.sent) == b"answer"
    assert sock.closed
    assert service.ends == ["closed by us"]


# Deadlines


def test_the_next_pass_is_due_at_the_earliest_of_all_deadlines() -> None:
    service = Scripted()
    net = service.net
    net.now_ms = 10_000
    assert net.reactor.next_deadline() is None
    assert not net.reactor.due()
    net.listener.short_of_descriptors = True
    net.connect()
    net.passes(1)
    for service.deadline, expected in ((None, 10_200), (10_100, 10_100), (10_200, 10_200), (10_300, 10_200)):
        assert net.reactor.next_deadline() == expected
    net.reactor.stop()
    for service.deadline, expected in ((None, 15_000), (14_000, 14_000), (15_000, 15_000), (16_000, 15_000)):
        assert net.reactor.next_deadline() == expected
    service.deadline = 12_000
    for net.now_ms, due in ((11_999, False), (12_000, True), (12_001, True)):
        assert net.reactor.due() is due


def test_its_own_clock_counts_milliseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    service = Scripted()
    reactor = Reactor(service, service.net.poller, service.net.jobs.append)
    service.deadline = 5_000_000_000
    with monkeypatch.context() as patch:
        patch.setattr(module.time, "monotonic_ns", lambda: 4_999_999_999_999_999)
        before = reactor.due()
        patch.setattr(module.time, "monotonic_ns", lambda: 5_000_000_000_000_000)
        then = reactor._clock_ms()
    assert not before
    assert then == 5_000_000_000
    assert isinstance(then, int)
