"""A stream of bytes as a conversation: any cut gives the same commands, and what cannot be cut closes at once."""

from __future__ import annotations

import json
import os
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmq_wire.command import Command, Unreadable
from rmq_wire.conversation import Conversation, Limits, Pending
from rmq_wire.encoding import Form, encode_request, encode_response
from rmq_wire.errors import BadFrame, WireError
from rmq_wire.headers.offsets import QueryConsumerOffset
from rmq_wire.layout.frame import FRAME
from tests.support.given import damaged, frames

NIGHTLY_EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "200000"))


def digest(command: Command | Unreadable) -> tuple[object, ...]:
    """What a command says, apart from where its body lies."""
    if isinstance(command, Unreadable):
        return command.opaque, command.form, command.flag, command.why
    return command.code, command.flag, command.opaque, command.version, command.ext_map(), bytes(command.body), command.form


def whole(raw: bytes) -> list[tuple[object, ...]]:
    return [digest(command) for command in Conversation().feed(raw)]


@given(st.lists(frames(), max_size=5), st.lists(st.integers(0, 400), max_size=12), st.booleans())
def test_any_cut_gives_the_same_commands(sent: list[bytes], cuts: list[int], by_view: bool) -> None:
    stream = b"".join(sent)
    places = sorted({min(cut, len(stream)) for cut in cuts} | {0, len(stream)})
    conversation = Conversation()
    found = []
    for start, end in pairwise(places):
        piece = bytearray(stream[start:end])
        for command in conversation.feed(memoryview(piece) if by_view else bytes(piece)):
            found.append(digest(command))
        piece[:] = b"\xff" * len(piece)  # the receive buffer is used again
    assert found == whole(stream)
    assert len(found) == len(sent)
    assert conversation.bytes_pending == 0


@given(frames())
def test_frames_are_as_declared(raw: bytes) -> None:
    declared = FRAME.parse(raw)
    [command] = Conversation().feed(raw)
    assert bytes(command.body) == declared.body  # type: ignore[union-attr]
    assert FRAME.build(declared) == raw


@given(frames(), st.data())
def test_half_a_frame_is_no_command(raw: bytes, data: st.DataObject) -> None:
    size = data.draw(st.integers(0, len(raw) - 1))
    conversation = Conversation()
    assert list(conversation.feed(raw[:size])) == []
    assert conversation.bytes_pending == size


def served(conversation: Conversation, data: bytes) -> tuple[list[int], bool]:
    """The numbers of the commands that came out, and whether the stream broke."""
    numbers = []
    try:
        for command in conversation.feed(data):
            numbers.append(command.opaque)
    except BadFrame:
        return numbers, True
    return numbers, False


PREFIXES = {
    "length 0": bytes(8),
    "length 3": b"\x00\x00\x00\x03" + bytes(4),
    "negative": b"\xff\xff\xff\xff",
    "too long": (16_777_213).to_bytes(4, "big"),
    "header past the frame": b"\x00\x00\x00\x10\x00\x00\x00\x0d",
    "type 2": b"\x00\x00\x00\x10\x02\x00\x00\x02",
    "http": b"GET / HTTP/1.1\r\n",
    "tls": b"\x16\x03\x01\x02\x00\x01\x00",
}


@pytest.mark.parametrize("name", PREFIXES)
def test_a_prefix_that_no_peer_sends(name: str) -> None:
    raw = PREFIXES[name]
    good = encode_request(11, None, b"x", opaque=1)
    conversation = Conversation()
    with pytest.raises(BadFrame):
        list(conversation.feed(raw))
    with pytest.raises(BadFrame):
        list(conversation.feed(good))

    slowly = Conversation()
    assert sum(len(served(slowly, bytes([byte]))[0]) for byte in raw) == 0
    assert slowly.bytes_pending <= 8
    assert served(slowly, b"") == ([], True)
    assert served(slowly, good) == ([], True)
    assert served(Conversation(), good + raw) == ([1], True)


def test_a_sound_header_of_an_unknown_type() -> None:
    raw = bytearray(encode_request(11, None, opaque=1, form=Form.ROCKETMQ))
    raw[4] = 2
    assert served(Conversation(), bytes(raw)) == ([], True)


def test_frames_smaller_than_two_prefixes() -> None:
    tiny = b"\x00\x00\x00\x06\x00\x00\x00\x02{}"
    stream = tiny * 4
    for first in range(len(stream)):
        for second in range(first, len(stream)):
            conversation = Conversation()
            pieces = (stream[:first], stream[first:second], stream[second:])
            assert sum(len(served(conversation, piece)[0]) for piece in pieces) == 4


def test_the_largest_frame() -> None:
    head = encode_request(11, None, opaque=1)
    raw = encode_request(11, None, bytes(16_777_216 - len(head)), opaque=1)
    assert len(raw) == 16_777_216
    conversation = Conversation()
    assert list(conversation.feed(raw[:8])) == []
    assert conversation.bytes_pending == 8  # memory follows what was received, not what was announced
    for at in range(8, len(raw) - 1, 1 << 16):
        assert list(conversation.feed(raw[at : min(at + (1 << 16), len(raw) - 1)])) == []
    [command] = conversation.feed(raw[-1:] + raw[:1])
    assert len(command.body) == 16_777_216 - len(head)  # type: ignore[union-attr]
    assert conversation.bytes_pending == 1


def test_limits_are_what_the_owner_says() -> None:
    raw = encode_request(11, None, bytes(100), opaque=1)
    small = Conversation(Limits(frame_bytes_max=len(raw) - 1))
    with pytest.raises(BadFrame):
        list(small.feed(raw))
    exact = Conversation(Limits(frame_bytes_max=len(raw), header_bytes_max=10))
    [refused] = exact.feed(raw)
    assert isinstance(refused, Unreadable)


def test_questions_find_their_answers() -> None:
    conversation = Conversation(form=Form.ROCKETMQ)
    asked = QueryConsumerOffset(consumer_group="G", topic="T", queue_id=1)
    first, frame = conversation.ask(asked, deadline_ms=10, tag="first")
    second, _ = conversation.ask(asked, b"x", deadline_ms=20, tag="second")
    assert first != second
    [sent] = Conversation().feed(frame)
    assert isinstance(sent, Command)
    assert (sent.code, sent.opaque, sent.form, sent.header(QueryConsumerOffset)) == (14, first, Form.ROCKETMQ, asked)

    raw = encode_response(0, first, form=Form.JSON)
    assert isinstance(raw, bytes)
    [answer] = conversation.feed(raw)
    assert conversation.match(answer) == Pending(first, 14, 10, "first")
    assert conversation.match(answer) is None  # a second answer, or one that nobody asked for

    assert conversation.expire(19) == []
    assert [pending.tag for pending in conversation.expire(20)] == ["second"]
    third, _ = conversation.ask(asked, deadline_ms=1)
    assert conversation.forget(third) is not None
    conversation.ask(asked, deadline_ms=1, tag="fourth")
    assert [pending.tag for pending in conversation.abandon()] == ["fourth"]
    assert conversation.abandon() == []
    [reported] = Conversation().feed(conversation.send_oneway(asked))
    assert isinstance(reported, Command)
    assert reported.is_oneway


def test_a_question_that_cannot_be_written_is_not_pending() -> None:
    conversation = Conversation()
    with pytest.raises(UnicodeEncodeError):
        conversation.ask(QueryConsumerOffset(consumer_group="\ud800", topic="T", queue_id=1), deadline_ms=1)
    assert conversation.questions == 0
    assert conversation.expire(1) == []


def test_numbers_of_questions_do_not_run_out() -> None:
    conversation = Conversation()
    conversation._next_opaque = 0x7FFFFFFF
    asked = QueryConsumerOffset(consumer_group="G", topic="T", queue_id=1)
    numbers = [conversation.ask(asked, deadline_ms=1)[0] for _ in range(3)]
    assert numbers == [0x7FFFFFFF, 0, 1]
    conversation._next_opaque = 0x7FFFFFFF
    assert conversation.ask(asked, deadline_ms=1)[0] == 2


# Fuzzing: by a grammar of headers, and by damage to sound frames

JSON_ATOMS = st.sampled_from(
    [
        *("{", "}", "[", "]", ",", ":", '"', "'", "\\", " ", "\n", "//", "/*", "*/"),
        *('"code"', '"opaque"', '"flag"', '"extFields"', '"language"', '"remark"', '"version"', "opaque", "'opaque'", '"$ref"'),
        *("0", "7", "-1", "2147483648", "1e9", "1e999", "1.5", "007", "+1", "5L", "NaN", "null", "true", "false", "undefined"),
        *('"x"', '"7"', '"JAVA"', '"\\u0000"', '"\\ud800"', '"é"', '""', '"\x01"', '"a":', "{}", "[]"),
    ]
)
MEMBERS = st.sampled_from(["code", "opaque", "extFields", "flag", "x"])
JSON_HEADERS = st.lists(JSON_ATOMS, max_size=40).map("".join) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(MEMBERS, inner, max_size=5),
    max_leaves=12,
).map(json.dumps)
LENGTHS = st.sampled_from([0, 1, 2, 3, 4, 5, 20, 21, 32767, 32768, 65535, 2**31 - 1, 2**31, 2**32 - 1])
BINARY_PARTS = st.one_of(
    st.binary(max_size=6),
    LENGTHS.map(lambda size: (size & 0xFFFF).to_bytes(2, "big")),
    LENGTHS.map(lambda size: size.to_bytes(4, "big")),
    st.sampled_from([b"\x00\x01a\x00\x00\x00\x01b", b"\x00\x00", b"\x00\x0a\x00\x02\x01" + bytes(8)]),
)
BINARY_HEADERS = st.lists(BINARY_PARTS, max_size=10).map(b"".join)


@st.composite
def hostile_frames(draw: st.DrawFn) -> bytes:
    """A frame with a sound prefix (mostly) round anything that looks like a header."""
    form = draw(st.sampled_from([0, 0, 0, 1, 1, 1, 2, 255]))
    header = draw(BINARY_HEADERS) if form == 1 else draw(JSON_HEADERS).encode("utf-8", "surrogatepass")
    body = draw(st.binary(max_size=20))
    size = len(header) + draw(st.sampled_from([0, 0, 0, 0, 1, -1, 100]))
    length = 4 + len(header) + len(body) + draw(st.sampled_from([0, 0, 0, 0, 1, -1, 2**24]))
    return length.to_bytes(4, "big", signed=True) + (form << 24 | max(size, 0)).to_bytes(4, "big") + header + body


def meet(stream: bytes) -> None:
    """Whatever arrives ends in commands, in `Unreadable`, or in `BadFrame`; and asking a command anything in `WireError`."""
    conversation = Conversation()
    try:
        for command in conversation.feed(stream):
            assert -(2**31) <= command.opaque < 2**31
            if isinstance(command, Command):
                assert isinstance(command.language, int)
                assert command.remark is None or isinstance(command.remark, str)
                for question in (command.ext_map, lambda: command.header(QueryConsumerOffset)):  # noqa: B023
                    try:
                        found = question()
                    except WireError:
                        continue
                    if isinstance(found, dict):
                        assert all(isinstance(part, str) for pair in found.items() for part in pair)
    except BadFrame:
        return
    assert conversation.bytes_pending <= len(stream)


STREAMS = st.lists(hostile_frames() | frames() | frames().flatmap(damaged), min_size=1, max_size=4).map(b"".join)


@given(STREAMS)
def test_nothing_that_arrives_escapes(stream: bytes) -> None:
    meet(stream)


@given(STREAMS, st.lists(st.integers(0, 300), max_size=6))
def test_hostile_streams_fare_the_same_however_they_are_cut(stream: bytes, cuts: list[int]) -> None:
    def fare(pieces: list[bytes]) -> tuple[list[int], bool]:
        conversation, numbers = Conversation(), []
        for piece in pieces:
            some, broken = served(conversation, piece)
            numbers += some
            if broken:
                return numbers, True
        return numbers, False

    places = sorted({min(cut, len(stream)) for cut in cuts} | {0, len(stream)})
    assert fare([stream[a:b] for a, b in pairwise(places)]) == fare([stream])


@pytest.mark.nightly
@settings(max_examples=NIGHTLY_EXAMPLES)
@given(STREAMS)
def test_nothing_that_arrives_escapes_for_hours(stream: bytes) -> None:
    meet(stream)
