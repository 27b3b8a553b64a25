"""Reading commands: every spelling that the reference takes, every limit, every broken header that still gets an answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rmq_wire.command import UNKNOWN_LANGUAGE, Command, Limits, Unreadable, decode_header
from rmq_wire.encoding import Form
from rmq_wire.errors import BadFrame, BadHeader
from rmq_wire.headers.offsets import QueryConsumerOffset
from rmq_wire.headers.send import SendMessageV2


def of_json(text: str | bytes, limits: Limits | None = None) -> Command | Unreadable:
    raw = text.encode() if isinstance(text, str) else text
    return decode_header(raw, Form.JSON, b"body", limits or Limits())


def command(text: str | bytes) -> Command:
    found = of_json(text)
    assert isinstance(found, Command)
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{}", {}),
        ('{"code":"310","opaque":"7"}', {"code": 310, "opaque": 7}),
        ('{"code":null,"opaque":7}', {"code": 0, "opaque": 7}),
        ('{"code":""}', {"code": 0}),
        ('{"code":"null"}', {"code": 0}),
        ('{"code":1.9}', {"code": 1}),
        ('{"code":true}', {"code": 1}),
        ('{"code":"007"}', {"code": 7}),
        ('{"code":"+7"}', {"code": 7}),
        ('{"code":1e2}', {"code": 100}),
        ("{'code':5,'remark':'a'}", {"code": 5, "remark": "a"}),
        ('{"code":5,}', {"code": 5}),
        ('{"code":1,"code":2}', {"code": 2}),
        ('/*c*/{"code":5}', {"code": 5}),
        ('//c\n{"code":5}', {"code": 5}),
        (' \n{ "code" : 5 }\n ', {"code": 5}),
        ('{"code":+5}', {"code": 5}),
        ('{"code":05}', {"code": 5}),
        ('{"code":5L}', {"code": 5}),
        ('{"Code":5}', {"code": 0}),
        ('{"flag":-1}', {"flag": -1}),
        ('{"remark":5}', {"remark": "5"}),
        ('{"remark":{"a":1}}', {"remark": '{"a":1}'}),
        ('{"remark":"a\x01\nb"}', {"remark": "a\x01\nb"}),
        ('{"language":"PYTHON"}', {"language": 3}),
        ('{"language":3}', {"language": 3}),
        ('{"language":"XX"}', {"language": UNKNOWN_LANGUAGE}),
        ('{"language":99}', {"language": UNKNOWN_LANGUAGE}),
        ('{"language":null}', {"language": UNKNOWN_LANGUAGE}),
        ('{"language":[]}', {"language": UNKNOWN_LANGUAGE}),
        ('{"serializeTypeCurrentRPC":"ZZ","unknown":{"a":[1]}}', {}),
        ('{"body":"aGk="," body":1," map":2," form":"x"}', {}),
        ('{" body":1," map":null}', {"map_ext": None}),
    ],
)
def test_headers_that_java_reads(text: str, expected: dict[str, Any]) -> None:
    found = command(text)
    assert {name: getattr(found, name) for name in expected} == expected
    assert (found.form, found.body) == (Form.JSON, b"body")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a":1,"b":true,"c":null,"e":{"x":[1]},"f":[1,"q"]}', {"a": "1", "b": "true", "e": '{"x":[1]}', "f": '[1,"q"]'}),
        ('{"a":"1","a":"2"}', {"a": "2"}),
        ("null", {}),
        ("{}", {}),
        ("{'a':'b',}", {"a": "b"}),
        ('{"a":12345678901234567890}', {"a": "12345678901234567890"}),
        ('{"a":1.5}', {"a": "1.5"}),
    ],
)
def test_ext_fields_that_java_reads(text: str, expected: dict[str, str]) -> None:
    assert command(f'{{"extFields":{text},"opaque":1}}').ext_map() == expected


@pytest.mark.parametrize("text", ["[]", '"x"', "5"])
def test_ext_fields_that_are_no_object(text: str) -> None:
    found = command(f'{{"code":14,"extFields":{text},"opaque":1}}')
    with pytest.raises(BadHeader):
        found.ext_map()
    with pytest.raises(BadHeader):
        found.header(QueryConsumerOffset)


ASKED = QueryConsumerOffset(consumer_group="G", topic="T", queue_id=1)


@pytest.mark.parametrize(
    "ext",
    [
        '{"consumerGroup":"G","topic":"T","queueId":"1"}',
        '{"consumerGroup":"G","topic":"T","queueId":1}',
        '{"consumerGroup":"G","topic":"T","queueId":"01"}',
        '{"consumerGroup":"G","topic":"T","queueId":"+1","nobody":"asked"}',
        "{'consumerGroup':'G','topic':'T','queueId':1}",
        '{"topic":"x","consumerGroup":"G","topic":"T","queueId":"1"}',
    ],
)
def test_typed_headers(ext: str) -> None:
    assert command(f'{{"code":14,"extFields":{ext},"opaque":1}}').header(QueryConsumerOffset) == ASKED


@pytest.mark.parametrize("ext", ["", ',"extFields":null', ',"extFields":{}', ',"extFields":{"topic":"T"}'])
def test_a_missing_field_is_named(ext: str) -> None:
    with pytest.raises(BadHeader, match="consumerGroup"):
        command(f'{{"opaque":1{ext}}}').header(QueryConsumerOffset)


@pytest.mark.parametrize("value", ['"1_000"', '"１_"', '" 1"', '"99999999999"', '"1e400"', '"x"'])
def test_numbers_that_java_refuses(value: str) -> None:
    ext = f'{{"a":"g","b":"t","c":"d","d":{value},"e":"1","f":"0","g":"0","h":"0"}}'
    with pytest.raises(BadHeader):
        command(f'{{"opaque":1,"extFields":{ext}}}').header(SendMessageV2)


BROKEN = [
    '{"extFields":{"a":NaN},"flag":2,"opaque":77}',
    '{"extFields":{"a":1e999},"flag":2,"opaque":77',
    '{"extFields":{"a":"\\ud800"}},"flag":2,"opaque":77}',
    '{"code":' + "1" * 10_000 + ',"flag":2,"opaque":77}',
    '{"code":3000000000,"flag":2,"opaque":77}',
    '{"code":" 7","flag":2,"opaque":77}',
    '{"code":{},"flag":2,"opaque":77}',
    "{'code':x,'flag':2,'opaque':'77'}",
    '{"extFields":' + "[" * 65 + "]" * 65 + ',"x":"' + "x" * 768 + '","flag":2,"opaque":77}',
    '{"extFields":' + '{"a":' * 1_000_000 + ',"flag":2,"opaque":77}',
    '{"opaque":1,"flag":0,"code":5;"flag":2,"opaque":77}',
    '{"opaque":9999999999,"flag":0,"code":5;"flag":2,"opaque":77}',
    '{"extFields":{"a":"' + "x" * (1 << 20) + '"},"flag":2,"opaque":77}',
    json.dumps({"extFields": {f"f{at}": "" for at in range(1025)}, "flag": 2, "opaque": 77}),
]


@pytest.mark.parametrize("at", range(len(BROKEN)))
def test_a_broken_header_is_answered_when_its_number_can_be_read(at: int) -> None:
    found = of_json(BROKEN[at])
    assert isinstance(found, Unreadable)
    assert (found.opaque, found.flag, found.form) == (77, 2, Form.JSON)
    assert 0 < len(found.why) < 300
    assert found.kept() is found


def test_text_that_is_not_unicode() -> None:
    assert isinstance(of_json(b'{"remark":"\xff","opaque":77}'), Unreadable)
    inside = command(b'{"extFields":{"topic":"\xff"},"opaque":77}')
    with pytest.raises(BadHeader):
        inside.ext_map()
    with pytest.raises(BadHeader):
        inside.header(QueryConsumerOffset)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "5",
        '{"code":5',
        '{"opaque":99999999999}',
        '{"opaque":"x"}',
        '{"opaque":[]}',
        "\ufeff{}",
        "GET / HTTP/1.1",
        "[" * 10**6,
    ],
)
def test_without_a_number_the_connection_is_lost(text: str) -> None:
    with pytest.raises(BadFrame):
        of_json(text)


def test_exactly_at_the_limits() -> None:
    fields = {f"f{at}": "" for at in range(1024)}
    assert len(command(json.dumps({"extFields": fields, "opaque": 1})).ext_map()) == 1024
    long = '{"opaque":1,"remark":"' + "x" * ((1 << 20) - 24) + '"}'
    assert len(long) == 1 << 20
    assert command(long).opaque == 1
    deep = '{"opaque":1,"x":' + "[" * 63 + "]" * 63 + "}"
    assert command(deep).opaque == 1
    in_text = json.dumps({"opaque": 1, "remark": "[{" * 500})
    assert command(in_text).remark == "[{" * 500


def test_a_kept_command_has_its_own_body() -> None:
    buffer = bytearray(b"body")
    found = decode_header(b'{"opaque":1}', 0, memoryview(buffer))
    kept = found.kept()
    buffer[:] = b"gone"
    assert isinstance(kept, Command)
    assert kept.body == b"body"


def binary(ext: bytes = b"", remark: bytes = b"", code: int = 14) -> bytes:
    head = code.to_bytes(2, "big") + b"\x00\x02\x01" + (77).to_bytes(4, "big") + (2).to_bytes(4, "big")
    return head + len(remark).to_bytes(4, "big") + remark + len(ext).to_bytes(4, "big") + ext


def entry(name: bytes, value: bytes) -> bytes:
    return len(name).to_bytes(2, "big") + name + len(value).to_bytes(4, "big") + value


def test_binary_headers() -> None:
    ext = entry(b"consumerGroup", b"G") + entry(b"topic", b"T") + entry(b"queueId", b"1") + entry(b"", b"x") + entry(b"x", b"")
    found = decode_header(binary(ext, b"said"), 1)
    assert isinstance(found, Command)
    assert (found.code, found.opaque, found.flag, found.remark, found.form) == (14, 77, 2, "said", Form.ROCKETMQ)
    assert found.header(QueryConsumerOffset) == ASKED
    assert found.ext_map() == {"consumerGroup": "G", "topic": "T", "queueId": "1"}


@pytest.mark.parametrize(("narrow", "wide"), [(3442, 200050), (3448, 200056), (3462, 200070), (3543, 200151), (3441, 3441)])
def test_narrow_codes_are_widened_in_requests_only(narrow: int, wide: int) -> None:
    found = decode_header(binary(code=narrow), 1)
    assert isinstance(found, Command)
    assert found.code == wide
    raw = bytearray(binary(code=narrow))
    raw[12] = 1
    answer = decode_header(bytes(raw), 1)
    assert isinstance(answer, Command)
    assert answer.code == narrow


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        bytes(20),
        binary()[:-1],
        binary() + b"\0",
        binary(entry(b"a", b"b"))[:-1],
        binary(entry(b"a", b"b") + b"\0"),
        binary(b"\x80\x00" + bytes(20)),
        binary(b"\xff\xff" + bytes(20)),
        binary(b"\x00\x01a\xff\xff\xff\xff"),
        binary(b"\x00\x01a\xff\xff\xff\xf9"),  # back to where it began, for ever
        binary(b"\xff\xfa" + bytes(20)),  # the value's size is read out of the size of all fields, and fits
        binary(b"\x00\x01a\x7f\xff\xff\xff"),
        binary(b"\x00\x09a"),
        binary()[:13] + b"\xff\xff\xff\xff" + binary()[17:],
        binary()[:13] + b"\x7f\xff\xff\xff" + binary()[17:],
        binary()[:17] + b"\xff\xff\xff\xff",
        binary()[:17] + b"\x00\x00\x00\x01",
    ],
)
def test_binary_lengths_that_do_not_add_up(raw: bytes) -> None:
    with pytest.raises(BadFrame):
        decode_header(raw, 1)


@pytest.mark.parametrize(
    "raw",
    [
        binary(entry(b"a", b"\xff")),
        binary(entry(b"\xff", b"a")),
        binary(remark=b"\xff"),
        binary(b"".join(entry(str(at).encode(), b"v") for at in range(1025))),
        binary(entry(b"a", bytes(1 << 20))),
    ],
)
def test_binary_headers_that_are_answered(raw: bytes) -> None:
    found = decode_header(raw, 1)
    assert isinstance(found, Unreadable)
    assert (found.opaque, found.flag, found.form) == (77, 2, Form.ROCKETMQ)
