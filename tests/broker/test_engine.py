"""What a turn does with requests: answers, errors, order, caps; nothing here waits or listens."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_impl.engine.answers import Reply
from broker_impl.engine.limits import Limits
from rmq_wire.codes import RequestCode, ResponseCode
from rmq_wire.command import Form, encode_request
from rmq_wire.headers.clients import GetConsumerListByGroup, Heartbeat
from rmq_wire.headers.offsets import QueryConsumerOffset
from rmq_wire.headers.positions import GetMaxOffset, GetMinOffset
from rmq_wire.headers.query import ViewMessage
from tests.support.bare_engine import Server, response, where


@pytest.mark.parametrize("form", list(Form))
def test_an_answer_takes_the_form_of_its_request(form: Form) -> None:
    client = Server().connect()
    answer = client.ask(where(7), form=form)
    assert (answer.form, answer.code, answer.ext_map()) == (form, 0, {"offset": "7"})


def test_a_lawful_no_and_a_bug_are_answers_of_their_request_only(caplog: pytest.LogCaptureFixture) -> None:
    server = Server()
    client = server.connect()
    client.raw(client.frame(where(-1)) + client.frame(where(-2)) + client.frame(where(3)))
    refused, bug, good = (client.answers[n] for n in (1, 2, 3))
    assert (refused.code, refused.remark) == (ResponseCode.QUERY_NOT_FOUND, "not found")
    assert (bug.code, bug.remark) == (ResponseCode.SYSTEM_ERROR, "ZeroDivisionError: a bug\\nof ours")
    assert good.ext_map() == {"offset": "3"}
    assert server.engine.counters.errors == 1
    [line] = [r.getMessage() for r in caplog.records]
    assert "\n" not in line
    assert "127.0.0.1:40001" in line


@pytest.mark.parametrize("form", list(Form))
def test_an_unknown_code_is_answered_as_java_does(form: Form) -> None:
    server = Server()
    client = server.connect()
    client.raw(encode_request(31_999, opaque=9, form=form) + encode_request(31_999, opaque=10, form=form, oneway=True))
    answer = client.answers.pop(9)
    assert (answer.code, answer.remark) == (ResponseCode.REQUEST_CODE_NOT_SUPPORTED, " request type 31999 not supported")
    assert not client.answers


def test_missing_and_mistyped_fields_are_system_errors_that_name_them() -> None:
    server = Server()
    client = server.connect()
    code = RequestCode.QUERY_CONSUMER_OFFSET
    client.raw(encode_request(code, opaque=1, ext={"topic": "t"}))
    client.raw(encode_request(code, opaque=2, ext={"topic": "t", "consumerGroup": "g", "queueId": "1_0"}))
    for opaque in (1, 2):
        assert client.answers[opaque].code == ResponseCode.SYSTEM_ERROR
        assert "queueId" in (client.answers[opaque].remark or "")
    assert server.engine.counters.errors == 0
    assert not server.kit.seen


def test_an_unreadable_header_is_answered_when_its_number_can_be_read() -> None:
    client = Server().connect()
    header = b'{"opaque":77,"code":"x","flag":0}'
    client.raw((4 + len(header)).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header)
    assert client.answers[77].code == ResponseCode.SYSTEM_ERROR
    assert client.ask(where(1)).code == 0


def test_a_bad_frame_closes_its_peer_only_after_the_good_ones_were_answered(caplog: pytest.LogCaptureFixture) -> None:
    server = Server()
    bad, good = server.connect(), server.connect()
    bad.raw(bad.frame(where(1)) + b"GET / HTTP/1.1\r\n\r\n")
    assert bad.closed
    assert bad.answers[1].code == 0
    assert good.ask(where(2)).code == 0
    assert server.engine.counters.bad_frames == 1
    [line] = [r.getMessage() for r in caplog.records]
    assert "127.0.0.1:40001" in line
    assert "length" in line


def test_log_lines_of_unknown_peers_are_limited_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    server = Server()
    for _ in range(100):
        server.connect().raw(b"\xff" * 16)
    assert len(caplog.records) == 20
    server.driver.advance(10_000)
    server.connect().raw(b"\xff" * 16)
    assert "80 lines left out" in caplog.text


def test_one_way_requests_are_never_answered() -> None:
    server = Server()
    client = server.connect()
    for queue_id in (5, -1, -2):
        client.send_oneway(where(queue_id))
    client.send_oneway(GetConsumerListByGroup(consumer_group="2"))
    assert not client.answers
    assert [seen for seen in server.kit.seen if isinstance(seen, tuple)] == [(1, 5), (1, -1), (1, -2)]
    assert server.kit.seen[-2:] == [0, 1]


def test_answers_of_a_turn_are_handed_out_together() -> None:
    server = Server()
    client = server.connect()
    frames = b"".join(client.frame(where(n)) for n in range(64))
    outputs = server.engine.turn([(client.peer, frames)])
    assert len(outputs) == 1
    assert len(outputs[0][1]) == 64


def test_a_listener_has_its_own_codes() -> None:
    server = Server(hidden={"fast": frozenset({RequestCode.GET_MIN_OFFSET})})
    fast, main = server.connect(listener="fast"), server.connect()
    asked = GetMinOffset(topic="t", queue_id=0)
    assert fast.ask(asked).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    main.send(asked)
    assert len(server.kit.pending) == 1


def test_a_later_answer_goes_out_once_and_only_to_who_is_still_there() -> None:
    server = Server()
    client = server.connect()
    first = client.send(GetMinOffset(topic="t", queue_id=0))
    client.send(GetMinOffset(topic="t", queue_id=0))
    pending, lost = server.kit.pending
    assert not client.answers
    assert pending.alive
    assert pending.answer(Reply(remark="at last"))
    assert not pending.answer(Reply(remark="again"))
    server.driver.run()
    assert client.answers[first].remark == "at last"
    client.close()
    assert not lost.alive
    assert not lost.answer(Reply())


@pytest.mark.parametrize("cut", [None, 3, 60, -2])
def test_a_body_survives_the_receive_buffer(cut: int | None) -> None:
    """The driver overwrites what it handed over after each turn, as the shared buffer of the shell is."""
    server = Server()
    client = server.connect()
    frame = client.frame(Heartbeat(), b"heart")
    for piece in (frame[:cut], frame[cut:] if cut is not None else b""):
        client.raw(piece)
    [body] = server.kit.seen
    assert bytes(body) == b"heart"


def test_bodies_in_pieces_are_not_joined() -> None:
    server = Server()
    client = server.connect()
    outputs = server.engine.turn([(client.peer, client.frame(ViewMessage(offset=100)))])
    assert [len(chunk) for chunk in outputs[0][1]][1:] == [1, 99]
    client.receive(outputs[0][1], False)
    assert client.answers[1].body == b"a" + b"b" * 99


def test_an_answer_that_cannot_be_encoded_is_a_bug_of_ours_and_no_more() -> None:
    server = Server()
    client = server.connect()
    server.kit.answer = Reply(body=b"x" * 16_777_216)
    assert client.ask(GetMaxOffset(topic="t", queue_id=0)).code == ResponseCode.SYSTEM_ERROR
    server.kit.answer = Reply(ext={"k": 5})  # type: ignore[dict-item]
    assert client.ask(GetMaxOffset(topic="t", queue_id=0), form=Form.ROCKETMQ).code == ResponseCode.SYSTEM_ERROR


# Caps


def test_a_flood_of_requests_is_served_in_portions_and_reading_rests_meanwhile() -> None:
    server = Server(limits=Limits(requests_max=10))
    loud, quiet = server.connect(), server.connect()
    flood = b"".join(loud.frame(where(n)) for n in range(25))
    server.driver.turn((loud, flood), (quiet, quiet.frame(where(99))))
    assert len(loud.answers) == 10
    assert len(quiet.answers) == 1
    assert loud.peer.congested
    assert server.engine.next_deadline() == server.env.mono_ms
    server.driver.run()
    assert sorted(loud.answers) == list(range(1, 26))
    assert [int(loud.answers[n].ext_map()["offset"]) for n in range(1, 26)] == list(range(25))
    assert not loud.peer.congested


def test_what_waits_in_a_backlog_survives_its_turn() -> None:
    server = Server(limits=Limits(requests_max=1))
    client = server.connect()
    server.driver.run((client, b"".join(client.frame(Heartbeat(), b"body %d" % n) for n in range(4))))
    assert [bytes(body) for body in server.kit.seen[1:]] == [b"body 1", b"body 2", b"body 3"]


def test_a_drained_backlog_is_reported_even_when_nothing_is_answered() -> None:
    """The shell looks at `congested` when it handles an output: without one it would never read this peer again."""
    server = Server(limits=Limits(requests_max=1))
    client = server.connect()
    server.driver.turn((client, b"".join(client.frame(where(n), oneway=True) for n in range(2))))
    assert client.peer.congested
    outputs = server.engine.turn([])
    assert [peer for peer, _chunks, _close in outputs] == [client.peer]
    assert not client.peer.congested


def test_who_does_not_read_is_not_served_and_holds_nobody_up() -> None:
    server = Server(limits=Limits(output_bytes_max=1000))
    deaf, other = server.connect(), server.connect()
    deaf.reads = False
    server.driver.run((deaf, b"".join(deaf.frame(ViewMessage(offset=400)) for _ in range(10))))
    assert 1000 < deaf.peer.unsent_bytes < 2000
    assert deaf.peer.congested
    assert other.ask(where(1)).code == 0
    deaf.read()
    assert len(deaf.answers) == 10
    assert not deaf.peer.congested


def test_connections_above_the_limit_are_refused() -> None:
    server = Server(limits=Limits(peers_max=2))
    first, _second = server.connect(), server.connect()
    assert server.engine.opened(("127.0.0.1", 1), ("127.0.0.1", 2), "main") is None
    first.close()
    assert server.connect().ask(where(1)).code == 0
    assert server.engine.counters.peers_refused == 1


# Questions to clients


def test_answers_nobody_asked_for_are_dropped_and_counted() -> None:
    server = Server()
    client = server.connect()
    client.raw(response(12345))
    assert not client.closed
    assert server.engine._client_requests.unasked == 1


# Split and glued


@settings(max_examples=60, deadline=None)
@given(
    requests=st.lists(
        st.tuples(st.integers(0, 2), st.integers(-2, 1000), st.binary(max_size=40), st.sampled_from(list(Form)), st.booleans()),
        min_size=1,
        max_size=30,
    ),
    cuts=st.lists(st.integers(1, 200), max_size=40),
    cap=st.integers(1, 8),
)
def test_however_the_bytes_are_cut_each_request_gets_its_own_answer(requests: list[Any], cuts: list[int], cap: int) -> None:
    """V3: the answer carries the request's own number; bodies are what was sent, over split frames and backlogs too."""
    server = Server(limits=Limits(requests_max=cap))
    clients = [server.connect() for _ in range(3)]
    streams = [b"", b"", b""]
    expected: list[dict[int, int]] = [{}, {}, {}]
    bodies: list[bytes] = []
    for who, queue_id, body, form, oneway in requests:
        client = clients[who]
        streams[who] += client.frame(where(queue_id), form=form, oneway=oneway) + client.frame(Heartbeat(), body, oneway=True)
        bodies.append(body)
        if not oneway:
            expected[who][client._opaque - 1] = queue_id
    rest = list(cuts)
    while any(streams):
        arrived = []
        for who, stream in enumerate(streams):
            size = rest.pop() if rest else len(stream)
            arrived.append((clients[who], stream[:size]))
            streams[who] = stream[size:]
        # as a shell does, nothing is read from a congested peer
        for client, data in arrived:
            if client.peer.congested:
                server.driver.run()
            server.driver.turn((client, data))
    server.driver.run()
    for client, wanted in zip(clients, expected, strict=True):
        assert client.answers.keys() == wanted.keys()
        for opaque, queue_id in wanted.items():
            answer = client.answers[opaque]
            if queue_id >= 0:
                assert answer.ext_map() == {"offset": str(queue_id)}
            else:
                assert answer.code == {-1: ResponseCode.QUERY_NOT_FOUND, -2: ResponseCode.SYSTEM_ERROR}[queue_id]
    counts = sorted(len(body) for body in server.kit.seen if not isinstance(body, tuple))
    assert counts == sorted(map(len, bodies))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.binary(max_size=64), max_size=8))
def test_any_garbage_closes_or_is_answered_and_the_next_peer_is_served(pieces: list[bytes]) -> None:
    logging.disable(logging.CRITICAL)
    try:
        server = Server()
        wild = server.connect()
        for piece in pieces:
            if not wild.closed:
                wild.raw(piece)
        assert server.connect().ask(where(4)).ext_map() == {"offset": "4"}
        assert server.engine.counters.errors == 0
    finally:
        logging.disable(logging.NOTSET)


def test_the_router_knows_its_requests_by_class() -> None:
    assert QueryConsumerOffset.code in Server().engine._rows
