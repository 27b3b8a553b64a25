"""The header in its two forms: what a reader forgives, what it does not, and how values are spelled."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from conformance.suite.kit import INFO, MUST, QUIRK, SHOULD, Answer, Code, Form, Link, NoAnswer, ResponseCode, Trial
from conformance.suite.kit import case as declare
from conformance.suite.means import raw
from rmq_wire.headers.positions import GetMaxOffset

MAX_OFFSET = int(Code.GET_MAX_OFFSET)


case = partial(declare, codes=(MAX_OFFSET,), rests_on="RemotingSerializable, RemotingCommand.decode")


def usual(topic: str, opaque: int) -> dict[str, Any]:
    """The members of a request for a queue's end, as a Java client spells them."""
    return {
        "code": MAX_OFFSET,
        "extFields": {"topic": topic, "queueId": "0"},
        "flag": 0,
        "language": "JAVA",
        "opaque": opaque,
        "serializeTypeCurrentRPC": "JSON",
        "version": 513,
    }


async def _asked(t: Trial, what: str, link: Link, header: dict[str, Any] | bytes, opaque: int) -> Answer:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    answer = await link.ask_frame(raw.frame(text), opaque)
    return t.answer(what, answer, code=0, ext={"offset": "0"})


@case("header.json.order-and-blanks", MUST)
async def order_and_blanks(t: Trial) -> None:
    """Members come in any order, with any blanks."""
    topic, link = await t.topic(), t.connect()
    members = usual(topic, 1)
    await _asked(t, "reversed", link, dict(reversed(members.items())), 1)
    await _asked(t, "with blanks", link, json.dumps(usual(topic, 2), indent=4).encode(), 2)
    await _asked(t, "as tight as can be", link, json.dumps(usual(topic, 3), separators=(",", ":")).encode(), 3)


@case("header.json.unknown-members", MUST)
async def unknown_members(t: Trial) -> None:
    """Members and ext fields that nobody knows are ignored."""
    topic, link = await t.topic(), t.connect()
    members = usual(topic, 1) | {"weather": {"sky": ["blue", 7, None, True]}}
    members["extFields"]["mood"] = "fine"
    await _asked(t, "unknown members", link, members, 1)


@case("header.json.left-out", MUST)
async def left_out(t: Trial) -> None:
    """What a client leaves out counts as its default."""
    topic, link = await t.topic(), t.connect()
    for opaque, name in enumerate(("flag", "language", "serializeTypeCurrentRPC", "version"), 1):
        members = usual(topic, opaque)
        del members[name]
        await _asked(t, f"without {name}", link, members, opaque)
    await _asked(
        t,
        "code, fields and opaque alone",
        link,
        {k: v for k, v in usual(topic, 9).items() if k in ("code", "extFields", "opaque")},
        9,
    )


@case("header.json.null-members", SHOULD)
async def null_members(t: Trial) -> None:
    """A null member counts as its default."""
    topic, link = await t.topic(), t.connect()
    for opaque, name in enumerate(("flag", "language", "version", "remark"), 1):
        await _asked(t, f"{name} is null", link, usual(topic, opaque) | {name: None}, opaque)


@case("header.json.numbers-as-fields", MUST)
async def numbers_as_fields(t: Trial) -> None:
    """An ext field may be a JSON number or truth value.

    Clients in other languages write `"queueId": 0`.
    """
    topic, link = await t.topic(), t.connect()
    await _asked(
        t, "queueId as a number", link, usual(topic, 1) | {"extFields": {"topic": topic, "queueId": 0, "committed": True}}, 1
    )


@case("header.json.quoted-numbers", SHOULD)
async def quoted_numbers(t: Trial) -> None:
    """A number in quotes is a number."""
    topic, link = await t.topic(), t.connect()
    await _asked(t, "code and opaque in quotes", link, usual(topic, 7) | {"code": str(MAX_OFFSET), "opaque": "7", "flag": "0"}, 7)


@case("header.json.unknown-language", MUST)
async def unknown_language(t: Trial) -> None:
    """A language that the server has no name for does not matter."""
    topic, link = await t.topic(), t.connect()
    for opaque, language in enumerate(("KLINGON", "PYTHON", "GO", "RUST", "CPP"), 1):
        await _asked(t, language, link, usual(topic, opaque) | {"language": language}, opaque)


@case("header.json.escapes", MUST)
async def escapes(t: Trial) -> None:
    """Escaped characters in names and values are the characters."""
    topic, link = await t.topic(), t.connect()
    text = (
        json.dumps(usual(topic, 1)).replace('"topic"', '"\\u0074opic"').replace(topic, "".join(f"\\u{ord(c):04x}" for c in topic))
    )
    await _asked(t, "everything escaped", link, text.encode(), 1)


@case("header.json.doubled-field", INFO)
async def doubled_field(t: Trial) -> None:
    """Which value counts of a field that is given twice."""
    topic, link = await t.topic(), t.connect()
    text = json.dumps(usual(topic, 1)).replace('"queueId": "0"', '"queueId": "5", "queueId": "0"')
    answer = await link.ask_frame(raw.frame(text.encode()), 1)
    t.note("answer", f"{answer.code} {answer.remark or ''} {answer.ext}")


@case("header.json.integers", SHOULD, rests_on="Integer.parseInt")
async def integers(t: Trial) -> None:
    """Integers are spelled as Java's parser takes them: sign and leading zeros."""
    topic, link = await t.topic(), t.connect()
    for opaque, spelled in enumerate(("0", "00", "+0", "-0"), 1):
        await _asked(
            t, f"queueId {spelled}", link, usual(topic, opaque) | {"extFields": {"topic": topic, "queueId": spelled}}, opaque
        )


@case("header.binary.minimal", MUST, codes=(), rests_on="RocketMQSerializable.rocketMQProtocolDecode")
async def binary_minimal(t: Trial) -> None:
    """A binary header without remark and fields is read."""
    link = t.connect(form=Form.ROCKETMQ)
    header = raw.binary_header(29_999, 55, raw.i32(0) + raw.i32(0))
    frame = raw.frame(header, form=raw.ROCKETMQ)
    t.answer("the answer", await link.ask_frame(frame, 55), code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED)


@case("header.binary.fields", MUST, rests_on="RocketMQSerializable.mapDeserialize")
async def binary_fields(t: Trial) -> None:
    """Fields of a binary header are read in any order."""
    topic, link = await t.topic(), t.connect(form=Form.ROCKETMQ)
    for opaque, names in enumerate((("topic", "queueId"), ("queueId", "topic")), 1):
        values = {"topic": topic.encode(), "queueId": b"0"}
        ext = b"".join(raw.i16(len(name)) + name.encode() + raw.i32(len(values[name])) + values[name] for name in names)
        header = raw.binary_header(MAX_OFFSET, opaque, raw.i32(0) + raw.i32(len(ext)) + ext)
        frame = raw.frame(header, form=raw.ROCKETMQ)
        t.answer(f"fields in the order {names}", await link.ask_frame(frame, opaque), code=0, ext={"offset": "0"})


@case("header.binary.lying-lengths", MUST, codes=(), rests_on="RocketMQSerializable")
async def binary_lies(t: Trial) -> None:
    """Lengths in a binary header that point outside of it: no answer or an error, and others go on.

    The reference closes the connection.
    """
    for name, tail in (
        ("remark longer than the header", raw.i32(1 << 20)),
        ("negative remark length", raw.i32(-5)),
        ("fields longer than the header", raw.i32(0) + raw.i32(1 << 20)),
        ("a field's name longer than the fields", raw.i32(0) + raw.i32(2) + raw.i16(500)),
    ):
        link = t.connect(form=Form.ROCKETMQ)
        header = raw.binary_header(MAX_OFFSET, 5, tail)
        frame = raw.frame(header, form=raw.ROCKETMQ)
        try:
            answer = await link.ask_frame(frame, 5)
        except NoAnswer:
            t.check(f"{name}: the connection is closed", link.ended.is_set())
        else:
            t.check(f"{name}: an error", answer.code != 0, expected="not 0", seen=answer.code)
        t.answer("another connection", await t.broker.ask_raw(29_999), code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED)


@case("header.binary.pop-code-wraps", QUIRK, codes=(), rests_on="RocketMQSerializable: code is a short")
async def binary_wide_code(t: Trial) -> None:
    """A code above 32,767 does not fit the binary header.

    200050 arrives as 3442, and the reference answers 3.  A server may map it back.
    """
    link = t.connect(form=Form.ROCKETMQ)
    header = raw.binary_header(200_050 & 0xFFFF, 5, raw.i32(0) + raw.i32(0))
    frame = raw.frame(header, form=raw.ROCKETMQ)
    answer = await link.ask_frame(frame, 5)
    t.answer("the answer", answer, code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=" request type 3442 not supported")


@case("header.extra-fields-for-all", MUST, rests_on="RpcRequestHeader")
async def base_fields(t: Trial) -> None:
    """The base fields that every client adds are accepted everywhere."""
    topic = await t.topic()
    answer = await t.broker.ask(
        GetMaxOffset(topic=topic, queue_id=0), ext={"bname": t.target.broker_name, "oway": "false", "nsd": "false", "lo": "false"}
    )
    t.answer("with bname, oway, nsd, lo", answer, code=0, ext={"offset": "0"})
