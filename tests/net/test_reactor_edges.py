"""The reactor at its edges: events that come alone, errors of the poller and of closing, what it counts and what it says."""

from __future__ import annotations

import errno
import select
from typing import Any

import pytest

from broker_impl.engine.limits import Limits
from broker_impl.engine.peer import Peer
from rmq_net.reactor import Tuning
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
