"""The reactor on fake sockets: split reads, short writes, EAGAIN, resets, no descriptors left."""

from __future__ import annotations

import errno
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_impl.engine.limits import Limits
from rmq_net.reactor import Tuning, address
from rmq_wire.command import Command, encode_request
from rmq_wire.conversation import Conversation
from rmq_wire.headers.query import ViewMessage
from tests.net.fake_net import READ, WRITE, FakeNet, FakeSocket
from tests.support.bare_engine import Server, where


def net_with(*, limits: Limits | None = None, tuning: Tuning | None = None) -> FakeNet:
    server = Server(limits=limits)
    net = FakeNet(server.engine, tuning=tuning)
    net.kit = server.kit  # type: ignore[attr-defined]
    return net


def ask(queue_id: int, opaque: int) -> bytes:
    request = where(queue_id)
    return encode_request(request.code, request, opaque=opaque)


def blob(size: int, opaque: int) -> bytes:
    request = ViewMessage(offset=size)
    return encode_request(request.code, request, opaque=opaque)


def answers(sock: FakeSocket) -> dict[int, Command]:
    found: dict[int, Command] = {}
    for command in Conversation().feed(bytes(sock.sent)):
        assert isinstance(command, Command)
        assert command.opaque not in found
        found[command.opaque] = command
    return found


def test_a_request_is_answered_and_nothing_stays_ready() -> None:
    net = net_with()
    sock = net.connect()
    sock.incoming.append(ask(5, 1))
    net.rest()
    assert answers(sock)[1].ext_map() == {"offset": "5"}
    assert net.poller.masks[sock.fd] == READ


@pytest.mark.parametrize("size", [1, 7, 50])
def test_split_reads(size: int) -> None:
    net = net_with()
    sock = net.connect()
    data = b"".join(ask(n, n) for n in range(5))
    sock.incoming.extend(data[at : at + size] for at in range(0, len(data), size))
    net.rest()
    assert sorted(answers(sock)) == list(range(5))


def test_short_writes_and_eagain_lose_nothing() -> None:
    """V5."""
    net = net_with()
    sock = net.connect()
    sock.takes.extend([1, 0, 3, 0, 0, 10, 2])
    sock.incoming.extend([ask(n, n) for n in range(4)])
    net.rest()
    assert sorted(answers(sock)) == [0, 1, 2, 3]
    assert net.poller.masks[sock.fd] == READ


def test_a_blocked_peer_is_watched_for_room_and_not_read_above_the_cap() -> None:
    net = net_with(limits=Limits(output_bytes_max=5_000))
    sock, other = net.connect(), net.connect()
    sock.blocked = True
    for n in range(100):
        sock.incoming.append(blob(1_000, n))
    net.rest()
    assert net.poller.masks[sock.fd] == WRITE
    assert len(sock.incoming) > 90, "it is not read any more"
    other.incoming.append(ask(1, 1))
    net.rest()
    assert answers(other)[1].code == 0
    sock.blocked = False
    net.rest()
    assert sorted(answers(sock)) == list(range(100))
    assert net.poller.masks[sock.fd] == READ


def test_large_answers_go_out_uncopied_in_order() -> None:
    net = net_with(tuning=Tuning(join_bytes_max=1_000, pieces_max=2))
    sock = net.connect()
    sock.takes.extend([100, 0, 5_000, 3])
    sock.incoming.append(b"".join(blob(10_000 + n, n) for n in range(3)))
    net.rest()
    assert {n: len(answer.body) for n, answer in answers(sock).items()} == {0: 10_000, 1: 10_001, 2: 10_002}


def test_a_flood_from_one_peer_is_capped_per_pass() -> None:
    net = net_with(limits=Limits(receive_bytes_max=1_000))
    loud, quiet = net.connect(), net.connect()
    net.passes(1)
    loud.incoming.append(b"".join(ask(n, n) for n in range(100)))
    quiet.incoming.append(ask(1, 1))
    net.passes(1)
    assert len(answers(loud)) < 10
    assert len(answers(quiet)) == 1
    net.rest()
    assert len(answers(loud)) == 100


def test_a_flood_of_tiny_requests_is_capped_by_count_and_goes_on_without_new_input() -> None:
    net = net_with(limits=Limits(requests_max=10))
    sock = net.connect()
    sock.incoming.append(b"".join(ask(n, n) for n in range(35)))
    net.passes(2)
    assert len(answers(sock)) == 10
    assert net.reactor.due()
    net.rest()
    assert len(answers(sock)) == 35
    sock.incoming.append(ask(1, 99))
    net.rest()
    assert 99 in answers(sock)


def test_a_backlog_of_one_way_requests_does_not_stop_reading() -> None:
    net = net_with(limits=Limits(requests_max=2))
    sock = net.connect()
    request = where(1)
    sock.incoming.append(b"".join(encode_request(request.code, request, opaque=n, oneway=True) for n in range(9)))
    net.rest()
    sock.incoming.append(ask(1, 99))
    net.rest()
    assert list(answers(sock)) == [99]


def test_the_shared_buffer_has_an_end() -> None:
    net = net_with(tuning=Tuning(buffer_bytes=4_096, room_bytes_min=1_024))
    socks = [net.connect() for _ in range(20)]
    net.rest()
    for n, sock in enumerate(socks):
        sock.incoming.append(ask(n, n))
        sock.incoming.append(blob(10, 1_000 + n))
    net.rest()
    for n, sock in enumerate(socks):
        assert sorted(answers(sock)) == [n, 1_000 + n]


@pytest.mark.parametrize("where_it_breaks", ["receive", "send", "later send"])
def test_a_reset_ends_its_own_connection_only(where_it_breaks: str) -> None:
    net = net_with()
    bad, good = net.connect(), net.connect()
    reset = OSError(errno.ECONNRESET, "Connection reset by peer")
    bad.incoming.append(reset if where_it_breaks == "receive" else ask(1, 1))
    if where_it_breaks != "receive":
        bad.takes.extend([reset] if where_it_breaks == "send" else [3, reset])
    good.incoming.append(ask(2, 2))
    net.rest()
    assert bad.closed
    assert bad.fd not in net.poller.masks
    assert answers(good)[2].code == 0
    assert len(net.reactor.service.peers) == 1  # type: ignore[attr-defined]


def test_what_came_before_the_end_is_served() -> None:
    net = net_with()
    sock = net.connect()
    sock.incoming.append(ask(1, 1))
    sock.ended = True
    net.rest()
    assert answers(sock)[1].code == 0
    assert sock.closed


def test_a_bad_frame_closes_after_its_answers_were_offered() -> None:
    net = net_with()
    sock = net.connect()
    sock.incoming.append(ask(1, 1) + b"\xff" * 8)
    net.rest()
    assert list(answers(sock)) == [1]
    assert sock.closed


# Accepting


def test_without_descriptors_accepting_rests_and_resumes() -> None:
    """V16."""
    net = net_with()
    net.listener.short_of_descriptors = True
    sock = net.connect()
    net.rest()
    assert net.listener.accepts == 1
    assert net.listener.fd not in net.poller.masks
    net.now_ms += 200
    net.rest()
    assert net.listener.accepts == 2
    net.listener.short_of_descriptors = False
    net.now_ms += 200
    sock.incoming.append(ask(1, 1))
    net.rest()
    assert answers(sock)[1].code == 0


def test_accepting_resumes_when_a_connection_ends() -> None:
    net = net_with()
    first = net.connect()
    net.rest()
    net.listener.short_of_descriptors = True
    second = net.connect()
    net.rest()
    net.listener.short_of_descriptors = False
    first.ended = True
    net.rest()
    second.incoming.append(ask(1, 1))
    net.rest()
    assert answers(second)[1].code == 0


def test_a_connection_that_ends_before_it_is_accepted_harms_nobody() -> None:
    net = net_with()
    net.listener.waiting.append(OSError(errno.ECONNABORTED, "Software caused connection abort"))
    sock = net.connect()
    sock.incoming.append(ask(1, 1))
    net.rest()
    assert answers(sock)[1].code == 0


def test_accepting_is_capped_per_pass_and_peers_in_all() -> None:
    net = net_with(limits=Limits(peers_max=10), tuning=Tuning(accepts_max=4))
    socks = [net.connect() for _ in range(12)]
    net.passes(1)
    assert net.listener.accepts == 4
    net.rest()
    assert [sock.closed for sock in socks] == [False] * 10 + [True] * 2


# Stopping


def test_an_orderly_stop_sends_what_is_owed_and_takes_nothing_new() -> None:
    net = net_with()
    sock = net.connect()
    sock.blocked = True
    sock.incoming.append(ask(1, 1))
    net.rest()
    net.reactor.stop()
    sock.incoming.append(ask(2, 2))
    assert net.listener.closed
    net.rest()
    assert not net.reactor.stopped
    sock.blocked = False
    net.rest()
    assert net.reactor.stopped
    assert list(answers(sock)) == [1]
    net.reactor.close()
    assert sock.closed
    assert not net.poller.masks


def test_an_orderly_stop_does_not_wait_for_ever() -> None:
    net = net_with()
    sock = net.connect()
    sock.blocked = True
    sock.incoming.append(ask(1, 1))
    net.rest()
    net.reactor.stop()
    net.now_ms += 5_000
    assert net.reactor.stopped
    net.reactor.close()
    assert sock.closed


# Everything at once


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_whatever_the_sockets_do_each_surviving_peer_gets_each_answer_once(data: st.DataObject) -> None:
    draw: Any = data.draw
    limits = Limits(
        requests_max=draw(st.integers(1, 20)),
        receive_bytes_max=draw(st.integers(64, 4_096)),
        output_bytes_max=draw(st.integers(100, 4_096)),
    )
    tuning = Tuning(
        buffer_bytes=draw(st.sampled_from([1_024, 16_384])),
        room_bytes_min=256,
        join_bytes_max=draw(st.integers(0, 2_000)),
        pieces_max=draw(st.integers(1, 4)),
    )
    net = net_with(limits=limits, tuning=tuning)
    socks = [net.connect() for _ in range(draw(st.integers(1, 4)))]
    doomed = set()
    for who, sock in enumerate(socks):
        count = draw(st.integers(0, 12))
        stream = b"".join(blob(draw(st.integers(1, 900)), n) if draw(st.booleans()) else ask(who, n) for n in range(count))
        sock.expected = count  # type: ignore[attr-defined]
        while stream:
            size = draw(st.integers(1, len(stream)))
            sock.incoming.append(stream[:size])
            stream = stream[size:]
        sock.takes.extend(draw(st.lists(st.integers(0, 500), max_size=20)))
        if draw(st.integers(0, 4)) == 0:
            sock.takes.append(OSError(errno.EPIPE, "Broken pipe"))
            doomed.add(sock)
        sock.blocked = draw(st.booleans())
    net.rest(5_000)
    for sock in socks:
        sock.blocked = False
    net.rest(5_000)
    for sock in socks:
        if sock not in doomed:
            assert sorted(answers(sock)) == list(range(sock.expected))  # type: ignore[attr-defined]
            assert net.poller.masks[sock.fd] == READ


def test_mapped_addresses_show_as_ipv4() -> None:
    assert address(("::ffff:10.0.0.1", 5, 0, 0)) == ("10.0.0.1", 5)
    assert address(("::1", 5, 0, 0)) == ("::1", 5)
