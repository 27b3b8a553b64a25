"""Relays before a name server and its brokers: each broker gets one, clients read its address, servers hear their own."""

from __future__ import annotations

import json

import pytest

from conformance.captures.decoding import decode_all
from conformance.captures.recorder import Frame, Mark
from conformance.captures.session import Recording
from conformance.frames import split
from conformance.relay import text_of
from conformance.subjects.remoting import split_address
from rmq_wire.codes import RequestCode as Code
from rmq_wire.command import Command
from rmq_wire.encoding import Form, encode_request, encode_response
from tests.support.capture_server import ScriptedServer, reply
from tests.support.talk import Talk


def route(*addresses: str, bare: bool = False) -> bytes:
    """A route answer's body; bare: with integer keys as for old clients."""
    made = json.dumps({"brokerDatas": [{"brokerAddrs": {"0": address}} for address in addresses]}, separators=(",", ":"))
    return (made.replace('"0":', "0:") if bare else made).encode()


def serving(body: bytes) -> ScriptedServer:
    return ScriptedServer(lambda command: [reply(command, body=body)])


def asked(address: str, data: bytes) -> Command:
    with Talk(address) as client:
        client.raw(data)
        return client.hear()[0]


def addresses_in(command: Command) -> list[str]:
    text = bytes(command.body).decode().replace("0:", '"0":') if b"{0:" in bytes(command.body) else bytes(command.body).decode()
    return [data["brokerAddrs"]["0"] for data in json.loads(text)["brokerDatas"]]


@pytest.mark.parametrize("bare", [False, True])
@pytest.mark.parametrize("form", Form)
def test_each_broker_gets_a_port_of_the_relay(bare: bool, form: Form) -> None:
    with (
        serving(b"one") as one,
        serving(b"other") as other,
        serving(route(one.address, other.address, bare=bare)) as names,
        Recording(names.address) as recording,
    ):
        shown = addresses_in(asked(recording.address, encode_request(105, opaque=1, form=form)))
        assert len({*shown, one.address, other.address, recording.address}) == 5
        assert [bytes(asked(address, encode_request(28, opaque=2, form=form)).body) for address in shown] == [b"one", b"other"]
        assert recording.relay_of(one.address) == shown[0]
        events = recording.capture("c").events
    opened = [event.server for event in events if isinstance(event, Mark) and event.what == "open"]
    assert opened == [names.address, one.address, other.address]
    said = decode_all(events)
    assert [shown.asked for shown in said if shown is not None and shown.what == "answer"] == [105, 28, 28]


def test_the_record_is_what_the_server_said_and_heard() -> None:
    with serving(b"{}") as broker, serving(route(broker.address)) as names:
        with Recording(names.address) as recording:
            relay = addresses_in(asked(recording.address, encode_request(105, opaque=1)))[0]
            body = json.dumps({"address": relay, "other": "127.0.0.1:1"}).encode()
            asked(relay, encode_request(Code.HEART_BEAT, None, body, opaque=2, ext={"addr": relay}))
            frames = [event for event in recording.capture("c").events if isinstance(event, Frame)]
        assert broker.heard == [frames[2].data]
        _, header, heard = split(frames[2].data)
        assert json.loads(heard) == {"address": broker.address, "other": "127.0.0.1:1"}
        assert json.loads(header)["extFields"] == {"addr": broker.address}
        assert relay.encode() not in frames[1].data


def test_a_broker_that_advertises_the_relays_address_is_left_alone() -> None:
    with serving(b"here") as broker:
        _, port = split_address(broker.address)
        shown = text_of(("127.0.0.2", port))
        with serving(route(shown)) as names, Recording(names.address, advertised={shown: broker.address}) as recording:
            assert addresses_in(asked(recording.address, encode_request(105, opaque=1))) == [shown]
            assert bytes(asked(shown, encode_request(28, opaque=1)).body) == b"here"
            opened = [event.server for event in recording.capture("c").events if isinstance(event, Mark) and event.what == "open"]
            assert opened == [names.address, broker.address]


def test_messages_are_never_altered() -> None:
    with serving(b"") as broker, serving(route(broker.address)) as names, Recording(names.address) as recording:
        relay = addresses_in(asked(recording.address, encode_request(105, opaque=1)))[0]
        message = encode_request(310, None, b'{"address":"%b"}' % relay.encode(), opaque=1)
        asked(relay, message)
        assert broker.heard == [message]


def test_what_comes_in_one_piece_goes_on_in_one_piece() -> None:
    questions = [encode_request(28, opaque=number) for number in range(3)]
    with serving(b"{}") as names, Recording(names.address) as recording:
        with Talk(recording.address) as client:
            client.raw(*questions)
            client.hear(3)
        assert names.heard == [b"".join(questions)] * 3, "each question came with the others"
        frames = [event for event in recording.capture("c").events if isinstance(event, Frame)]
    assert [frame.to_server for frame in frames] == [True] * 3 + [False] * 3


def test_what_is_no_frame_passes_and_is_marked() -> None:
    answer = encode_response(0, 1, form=Form.JSON)
    assert isinstance(answer, bytes)
    with serving(b"") as names, Recording(names.address) as recording:
        with Talk(recording.address) as client:
            client.raw(encode_request(105, opaque=1))
            client.hear()
            client.raw(b"\xff\xff\xff\xff garbage")
        until = [mark for mark in _marks(recording) if mark.what in ("lost", "close")]
        assert until[0].what == "lost"
        assert not until[0].by_server


def _marks(recording: Recording) -> list[Mark]:
    from tests.support.process import until

    def marks() -> list[Mark]:
        return [event for event in recording.capture("c").events if isinstance(event, Mark)]

    until(lambda: sum(mark.what == "close" for mark in marks()) == 2, "both ends")
    return marks()


def test_an_address_that_cannot_be_had_is_reported() -> None:
    with serving(b"") as names:
        with pytest.raises(OSError, match="in use"):
            Recording(names.address, split_address(names.address))
        with pytest.raises(OSError, match="in use"):
            Recording(names.address, advertised={names.address: "127.0.0.1:1"})
        with pytest.raises(ValueError, match="HOST:PORT"):
            Recording("nowhere")
