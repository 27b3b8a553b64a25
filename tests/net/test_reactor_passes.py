"""A pass of the reactor, for a service that does as a test says: what becomes of the others when one is lost, closed or waits."""

from __future__ import annotations

import errno
import socket
from collections.abc import Sequence
from typing import Any

import pytest

from rmq_net import reactor as module
from rmq_net.reactor import Reactor, Tuning
from rmq_net.service import Address, Buffer, Job, Output
from tests.net.fake_net import READ, WRITE, FakeNet, FakeSocket

RESET = OSError(errno.ECONNRESET, "Connection reset by peer")


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
        self.drains = 0
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
        self.drains += 1

    def connect(self) -> FakeSocket:
        sock = self.net.connect()
        self.net.passes(1)
        return sock

    def gives(self, peer: int, data: bytes, close: bool = False) -> Output:
        self.peers[peer].unsent_bytes += len(data)
        return self.peers[peer], [data], close


def test_small_answers_do_not_wait_for_more() -> None:
    service = Scripted()
    sock = service.net.connect()
    asked: list[tuple[int, ...]] = []
    sock.setsockopt = lambda *asked_for: asked.append(asked_for)  # type: ignore[method-assign]
    service.net.passes(1)
    assert asked == [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)]


def test_one_that_cannot_be_watched_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    service = Scripted()

    def fails(*_arguments: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    sock = service.net.connect()
    with monkeypatch.context() as patch:
        patch.setattr(service.net.poller, "register", fails)
        patch.setattr(service.net.poller, "unregister", fails)
        service.net.passes(1)
    assert service.ends == ["[Errno 28] No space left on device"]
    assert sock.closed


# Stopping


def test_a_stop_is_told_once_and_its_time_runs_from_then() -> None:
    service = Scripted()
    net = service.net
    sock = service.connect()
    sock.blocked = True
    service.turns = [[service.gives(0, b"answer")]]
    net.passes(1)
    net.reactor.stop()
    end = net.now_ms + Tuning().drain_ms_max
    net.now_ms += 1_000
    net.reactor.stop()
    assert net.reactor.next_deadline() == end
    assert service.drains == 1
    for net.now_ms, stopped in ((end - 1, False), (end, True), (end + 1, True)):
        assert net.reactor.stopped is stopped


def test_a_close_without_a_stop_closes_the_listeners_too() -> None:
    service = Scripted()
    sock = service.connect()
    service.net.reactor.close()
    assert sock.closed
    assert service.net.listener.closed
    assert service.net.poller.masks == {}
    assert service.ends == ["the server stops"]


# A pass


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


@pytest.mark.parametrize("why", ["backlog", "held"])
@pytest.mark.parametrize("lost", [True, False])
def test_who_has_too_much_of_its_own_with_us_is_not_read_after_its_answer(why: str, lost: bool) -> None:
    """Nor watched at all when it is lost with that answer: its descriptor may be somebody else's by then."""
    service = Scripted()
    sock = service.connect()
    peer = service.peers[0]
    peer.congested = True
    setattr(peer, why, [1])
    if lost:
        sock.takes.append(RESET)
    service.turns = [[service.gives(0, b"answer")]]
    service.net.passes(1)
    assert service.net.poller.masks.get(sock.fd) == (None if lost else 0)
    assert service.ends == ([RESET.strerror] if lost else [])


@pytest.mark.parametrize(
    ("chunks", "calls"),
    [
        ([b"1" * 20], ["send"]),
        ([b"1" * 4, b"2" * 5], ["send"]),
        ([b"1" * 5, b"2" * 5], ["send"]),
        ([b"1" * 5, b"2" * 6], ["sendmsg"]),
    ],
)
def test_small_answers_go_out_in_one_piece_and_large_ones_uncopied(
    monkeypatch: pytest.MonkeyPatch, chunks: list[Buffer], calls: list[str]
) -> None:
    service = Scripted(Tuning(join_bytes_max=10))
    sock = service.connect()
    peer, _, _ = service.gives(0, b"".join(chunks))
    made: list[tuple[str, Any]] = []
    for name in ("send", "sendmsg"):
        monkeypatch.setattr(sock, name, lambda data, name=name: made.append((name, data)) or sum(map(len, chunks)))
    service.turns = [[(peer, chunks, True)]]
    service.net.passes(1)
    assert [name for name, _ in made] == calls
    pieces = made[0][1] if calls == ["sendmsg"] else [made[0][1]]
    assert b"".join(pieces) == b"".join(chunks)
    if calls == ["sendmsg"] or len(chunks) == 1:
        assert all(piece is chunk for piece, chunk in zip(pieces, chunks, strict=True))
    assert (service.peers[0].unsent_bytes, service.peers[0].sent_bytes) == (0, sum(map(len, chunks)))
    assert service.ends == ["closed by us"]


def test_what_has_come_is_received_in_the_pass_in_which_the_rest_goes_out() -> None:
    service = Scripted()
    sock = service.connect()
    sock.takes.append(3)
    service.turns = [[service.gives(0, b"answer")]]
    service.net.passes(1)
    sock.incoming.append(b"request")
    service.net.reactor.turn([(sock.fd, READ | WRITE)])
    assert bytes(sock.sent) == b"answer"
    assert service.got == [b"request"]


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
