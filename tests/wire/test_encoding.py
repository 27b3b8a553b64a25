"""What we send: the bytes that Java sends, and templates that write the same as the general way."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmq_wire.codes import RequestCode
from rmq_wire.command import Command, Unreadable
from rmq_wire.conversation import Conversation
from rmq_wire.encoding import AnswerTemplate, Buffer, Form, encode_bare, encode_request, encode_response
from rmq_wire.headers.offsets import QueryConsumerOffset
from rmq_wire.headers.pull import PullMessageResponse
from rmq_wire.headers.send import SendMessageResponse, SendMessageV2
from tests.support.given import GOLDEN, I32, I64, TEXT

FRAMES = {(name, form): bytes.fromhex(raw) for name, form, raw in GOLDEN["frames"]}
SEND = SendMessageV2(
    producer_group="PG",
    topic="TopicTest",
    default_topic="TBW102",
    default_topic_queue_nums=4,
    queue_id=3,
    sys_flag=0,
    born_timestamp=1700000000000,
    flag=0,
    properties='KEYS\x01k\x02TAGS\x01"é\\\x02',
    reconsume_times=0,
    unit_mode=False,
    max_reconsume_times=16,
    batch=False,
)
QUERY = QueryConsumerOffset(consumer_group="G", topic="T", queue_id=1, set_zero_if_not_found=True)
PULLED = PullMessageResponse(
    suggest_which_broker_id=0, next_begin_offset=33, min_offset=0, max_offset=64, topic_sys_flag=0, group_sys_flag=0
)
SENT = SendMessageResponse(
    msg_id="7F00000100002A9F0000000000000190",
    queue_id=3,
    queue_offset=12345,
    transaction_id="7F000001000018B4AAC2000102030405",
)
TRACE = {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
PLAIN = "re\x01\x7f\"\\/é\u2028😀\b\f\n\r\t\x0b<>&'"


def joined(frame: Any) -> bytes:
    return b"".join(frame) if isinstance(frame, list) else frame


def read(raw: bytes) -> Command:
    [command] = Conversation().feed(raw)
    assert isinstance(command, Command)
    return command


@pytest.mark.parametrize("form", Form)
def test_frames_are_javas_byte_for_byte(form: Form) -> None:
    assert joined(encode_request(14, QUERY, opaque=7, form=form)) == FRAMES["query", form.name]
    assert joined(encode_request(11, None, opaque=7, form=form, oneway=True)) == FRAMES["bare", form.name]
    assert joined(encode_request(200050, None, opaque=7, form=form)) == FRAMES["pop", form.name]
    pulled = encode_response(0, 7, form=form, header=PULLED, remark="FOUND", body=b"\1\2\3")
    assert joined(pulled) == FRAMES["pulled", form.name]
    assert joined(encode_response(0, 7, form=form, header=SENT, ext=TRACE)) == FRAMES["sent", form.name]
    assert joined(encode_response(1, 7, form=form, remark=PLAIN)) == FRAMES["plain", form.name]


@pytest.mark.parametrize(("code", "opaque"), [(0, 0), (17, -5), (-1, 1 << 30)])
def test_an_answer_that_says_no_more_than_a_code(code: int, opaque: int) -> None:
    assert encode_bare(code, opaque) == encode_response(code, opaque, form=Form.JSON)


def test_a_send_is_javas_byte_for_byte() -> None:
    java = read(FRAMES["send", "ROCKETMQ"])
    assert joined(encode_request(310, SEND, b"hello", opaque=7, form=Form.ROCKETMQ)) == FRAMES["send", "ROCKETMQ"]
    assert java.header(SendMessageV2) == SEND
    named = encode_request(310, SEND, b"hello", opaque=7, ext={"bname": "broker-a"})
    assert read(named).ext_map() == read(FRAMES["send", "JSON"]).ext_map()


@pytest.mark.parametrize(("name", "form"), FRAMES)
def test_frames_of_java_are_read(name: str, form: str) -> None:
    command = read(FRAMES[name, form])
    assert (command.opaque, command.version, command.language, command.form.name) == (7, 513, 0, form)
    assert command.is_response == (name in ("pulled", "sent", "plain", "empty"))
    assert command.is_oneway == (name == "bare")
    code = {"send": 310, "query": 14, "bare": 11, "pop": 200050, "plain": 1}.get(name, 0)
    assert command.code == code
    if name == "query":
        assert command.header(QueryConsumerOffset) == QUERY
    if name == "pulled":
        assert command.header(PullMessageResponse) == PULLED
        assert (command.remark, bytes(command.body)) == ("FOUND", b"\1\2\3")
    if name == "plain":
        assert command.remark == PLAIN
    if name == "sent":
        assert command.ext_map() == {**SENT.encode(), **TRACE}


def test_an_answer_with_an_empty_header_has_empty_ext_fields() -> None:
    lacking = json.loads(FRAMES["empty", "JSON"][8:])
    assert lacking["extFields"] == {}
    assert json.loads(joined(encode_response(0, 7, form=Form.JSON, ext={}))[8:]) == lacking
    assert "extFields" not in json.loads(joined(encode_response(0, 7, form=Form.JSON))[8:])


def test_a_body_is_not_copied() -> None:
    pieces: list[Buffer] = [b"abc", memoryview(b"defg")]
    frame = encode_response(0, 1, form=Form.JSON, body=pieces)
    assert isinstance(frame, list)
    assert frame[1:] == pieces
    assert frame[2] is pieces[1]
    assert bytes(read(joined(frame)).body) == b"abcdefg"


def test_a_frame_that_nobody_takes_is_not_written() -> None:
    with pytest.raises(ValueError, match="frame"):
        encode_response(0, 1, form=Form.JSON, body=bytes(16_777_216))
    encode_response(0, 1, form=Form.JSON, body=bytes(16_777_000))


TEMPLATE = AnswerTemplate(SendMessageResponse, ["msg_id", "queue_id", "queue_offset", "transaction_id"], constants=TRACE)
PULL_TEMPLATE = AnswerTemplate(
    PullMessageResponse,
    ["next_begin_offset", "min_offset", "max_offset"],
    constants={"suggestWhichBrokerId": "0", "topicSysFlag": "0", "groupSysFlag": "0"},
    code=19,
    remark='50 % "off"',
)


@given(st.sampled_from(Form), I32, TEXT, I32, I64, TEXT)
def test_templates_write_the_same(form: Form, opaque: int, text: str, queue: int, offset: int, key: str) -> None:
    header = SendMessageResponse(msg_id=text, queue_id=queue, queue_offset=offset, transaction_id=key)
    assert TEMPLATE.render(form, opaque, text, queue, offset, key) == encode_response(
        0, opaque, form=form, header=header, ext=TRACE
    )
    pulled = PullMessageResponse(
        suggest_which_broker_id=0,
        next_begin_offset=offset,
        min_offset=queue,
        max_offset=5,
        topic_sys_flag=0,
        group_sys_flag=0,
    )
    head = PULL_TEMPLATE.render(form, opaque, offset, queue, 5, body_size=3)
    assert head + b"xyz" == joined(encode_response(19, opaque, form=form, header=pulled, remark='50 % "off"', body=b"xyz"))


def test_a_template_takes_no_truth_values() -> None:
    with pytest.raises(TypeError, match="constant"):
        AnswerTemplate(SendMessageResponse, ["trace_on"])


WIDE = {code & 0xFFFF for code in RequestCode if code > 0x7FFF}
"""What the binary form leaves of codes that need more than 16 bits: read as those codes, whoever meant something else."""
CODES = st.integers(0, 32767).filter(lambda code: code not in WIDE)


@given(st.sampled_from(Form), CODES, I32, st.dictionaries(TEXT.filter(bool), TEXT.filter(bool)), st.binary())
def test_requests_survive(form: Form, code: int, opaque: int, ext: dict[str, str], body: bytes) -> None:
    command = read(encode_request(code, None, body, opaque=opaque, form=form, ext=ext, language=3, version=479))
    assert not isinstance(command, Unreadable)
    assert (command.code, command.opaque, command.form, command.language, command.version) == (code, opaque, form, 3, 479)
    assert command.ext_map() == ext
    assert bytes(command.body) == body
