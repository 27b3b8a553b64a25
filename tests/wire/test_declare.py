"""Every declared header survives the wire, and odd spellings are read as Java reads them."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rmq_wire.headers.all  # noqa: F401  (fills REQUESTS)
from rmq_wire.codes import RequestCode
from rmq_wire.declare import (
    I32,
    I64,
    NULL,
    REQUESTS,
    BoolOrFalse,
    Field,
    Header,
    I32OrZero,
    Request,
    Role,
    decode_lenient,
    wire,
)
from rmq_wire.errors import BadHeader
from rmq_wire.headers.offsets import CloneGroupOffset
from rmq_wire.headers.pull import PullMessage
from rmq_wire.headers.replies import SendReplyMessage, SendReplyMessageV2
from rmq_wire.headers.send import SendBatchMessage, SendMessageV2
from rmq_wire.registry import as_json, rows
from tests.support.loops import each

ALL: list[type[Header]] = sorted({*REQUESTS.values(), *(cls.reply for cls in REQUESTS.values())}, key=lambda cls: cls.__name__)

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
many = settings(max_examples=3 * len(ALL))
"""Of each class about three."""


def values(field: Field) -> st.SearchStrategy[Any]:
    bound = 1 << (field.bits - 1) if field.bits else 0
    kinds: dict[type, st.SearchStrategy[Any]] = {str: TEXT, bool: st.booleans(), int: st.integers(-bound, bound - 1)}
    return kinds[field.kind] if field.required else st.none() | kinds[field.kind]


def made(cls: type[Header], filled: dict[str, Any]) -> Header:
    """With these values; of an optional field None leaves it to its default."""
    blank = cls(**{field.name: filled[field.name] for field in cls.fields() if field.required})
    return cls(**{name: value for name, value in filled.items() if value is not None or getattr(blank, name) is None})


@cache
def headers(cls: type[Header]) -> st.SearchStrategy[Header]:
    """Any header of the class."""
    return st.fixed_dictionaries({field.name: values(field) for field in cls.fields()}).map(lambda filled: made(cls, filled))


def survives(header: Header) -> None:
    """As a map of texts, as the JSON that Java writes, and as JSON of a sender that leaves numbers and truth values bare."""
    cls = type(header)
    ext = header.encode()
    assert all(isinstance(value, str) for value in ext.values())
    assert cls.decode(ext) == header
    assert cls.decode_json(json.dumps(ext).encode()) == header
    assert cls.decode_json(msgspec.json.encode(ext)) == header
    bare = {field.wire: getattr(header, field.name) for field in cls.fields() if getattr(header, field.name) is not None}
    assert cls.decode_json(json.dumps(bare).encode()) == header
    assert decode_lenient(cls, ext) == header


@many
@given(st.sampled_from(ALL).flatmap(headers))
def test_round_trip(header: Header) -> None:
    survives(header)


def test_the_edges_of_every_field_survive() -> None:
    each(ALL, edges_survive)


def edges_survive(cls: type[Header]) -> None:
    """Whichever classes are drawn: of each the least and the greatest value of every field, and the optional ones left out."""
    for is_high in (False, True):
        filled = {field.name: edge(field, is_high) for field in cls.fields()}
        survives(made(cls, filled))
        survives(made(cls, {field.name: filled[field.name] if field.required else None for field in cls.fields()}))


def edge(field: Field, is_high: bool) -> Any:
    bound = 1 << (field.bits - 1) if field.bits else 0
    return {str: '\x00 é\U0001f600"' if is_high else "", bool: is_high, int: bound - 1 if is_high else -bound}[field.kind]


@st.composite
def foreign(draw: st.DrawFn) -> tuple[type[Header], dict[str, Any]]:
    """A class, and a map with some of its names and some others, and with anything in it."""
    cls = draw(st.sampled_from(ALL))
    names = st.sampled_from([field.wire for field in cls.fields()] or ["name"]) | TEXT
    anything = TEXT | st.none() | st.integers() | st.booleans() | st.floats() | st.lists(TEXT)
    return cls, draw(st.dictionaries(names, anything))


@settings(max_examples=2 * len(ALL))
@given(foreign())
def test_a_foreign_map_is_read_or_refused(both: tuple[type[Header], dict[str, Any]]) -> None:
    cls, ext = both
    try:
        header = cls.decode_json(msgspec.json.encode(ext))
    except BadHeader:
        return
    assert isinstance(header, cls)


@given(text=st.text(max_size=8) | st.from_regex(r"\A[+-]?\d{1,22}\Z"), name=st.sampled_from(["queueId", "queueOffset"]))
def test_typed_and_lenient_reader_agree(text: str, name: str) -> None:
    """What the fast reader takes, the lenient one reads alike; it alone takes decimal points and exponents."""
    ext = {"queueId": "0", "queueOffset": "0"} | {name: text}
    try:
        typed = msgspec.convert(ext, Positions, strict=False)
    except msgspec.ValidationError:
        return
    if set(text) <= set("+-0123456789"):
        assert decode_lenient(Positions, ext) == typed


class Positions(Header):
    queue_id: I32
    queue_offset: I64
    limit: I32 | None = None
    enabled: bool = False
    required: BoolOrFalse = False
    label: str | None = None


class Spelled(Header, fast=True):
    queue_id: I32 = wire("q")
    limit: I32 | None = wire("l", default=None)


class Forgiven(Header):
    queue_id: I32OrZero
    hot: BoolOrFalse


INTEGERS = {
    "007": 7,
    "+7": 7,
    "-7": -7,
    "-0": 0,
    "0" * 40 + "7": 7,
    "１２": 12,
    "٣": 3,
    "2147483647": 2**31 - 1,
    "-2147483648": -(2**31),
}
"""Read off `Integer.parseInt` of JDK 17, as the next table."""
NO_INTEGERS = ["", "+", "-", "+-7", " 7", "7 ", "1_000", "0x1", "2147483648", "-2147483649", "𝟙", "seven", "9" * 5000, "1,0"]


@pytest.mark.parametrize(("text", "number"), INTEGERS.items())
def test_integers_that_java_reads(text: str, number: int) -> None:
    ext = {"queueId": text, "queueOffset": "0"}
    assert Positions.decode(ext).queue_id == Positions.decode_json(json.dumps(ext).encode()).queue_id == number


@pytest.mark.parametrize("text", NO_INTEGERS)
def test_integers_that_java_refuses(text: str) -> None:
    with pytest.raises(BadHeader, match="queueId"):
        Positions.decode({"queueId": text, "queueOffset": "0"})
    with pytest.raises(BadHeader, match="queueId"):
        Positions.decode_json(json.dumps({"queueId": text, "queueOffset": "0"}).encode())


@pytest.mark.parametrize("text", ["true", "True", "TRUE"])
def test_true_in_any_case(text: str) -> None:
    assert Positions.decode({"queueId": "0", "queueOffset": "0", "enabled": text}).enabled is True


@pytest.mark.parametrize("value", ["1", "yes", "", "0", "false", 1, 0])
def test_anything_else_is_false(value: object) -> None:
    """`Boolean.parseBoolean`; msgspec would take `1` for true."""
    ext = {"queueId": "0", "queueOffset": "0", "enabled": value}
    assert Positions.decode_json(json.dumps(ext).encode()).enabled is False
    assert decode_lenient(Positions, ext).enabled is False
    assert Positions.decode({key: str(text) for key, text in ext.items()}).enabled is False


def test_a_batch_is_one_only_when_it_says_true() -> None:
    ext = {"a": "g", "b": "t", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "0", "h": "0"}
    assert SendBatchMessage.decode_json(json.dumps(ext | {"m": "true"}).encode()).batch is True
    assert SendMessageV2.decode_json(json.dumps(ext | {"m": "1"}).encode()).batch is False
    assert SendMessageV2.decode_json(json.dumps(ext | {"k": "true", "m": "1"}).encode()).batch is False


def test_numbers_stand_for_texts() -> None:
    read = Positions.decode_json(b'{"queueId":1,"queueOffset":"2","label":3}')
    assert (read.queue_id, read.queue_offset, read.label) == (1, 2, "3")


def test_null_is_absent() -> None:
    assert Positions.decode_json(b'{"queueId":1,"queueOffset":2,"limit":null,"enabled":null}').limit is None
    with pytest.raises(BadHeader, match="<queueId> is null"):
        Positions.decode_json(b'{"queueId":null,"queueOffset":2}')


def test_an_unreadable_optional_field_is_absent() -> None:
    """`RemotingCommand.decodeCommandCustomHeader` logs it and goes on."""
    assert Positions.decode({"queueId": "0", "queueOffset": "0", "limit": "many"}).limit is None


def test_but_not_where_java_decodes_by_hand() -> None:
    """`FastCodesHeader.decode` lets the NumberFormatException out."""
    with pytest.raises(BadHeader, match="l is not a 32-bit integer: 'many'"):
        Spelled.decode({"q": "0", "l": "many"})
    assert issubclass(PullMessage, Request)
    assert PullMessage.fast


@pytest.mark.parametrize("ext", [{}, {"queueId": "x"}, {"hot": "perhaps"}])
def test_an_absent_primitive_is_zero(ext: dict[str, str]) -> None:
    assert Forgiven.decode(ext) == Forgiven(queue_id=0, hot=False)


def test_what_java_does_not_miss_may_be_missing() -> None:
    """Where the handler does without; what it needs is asked for, and an unreadable one is none where Java decodes by hand."""
    assert CloneGroupOffset.decode({"srcGroup": "G"}) == CloneGroupOffset(src_group="G", dest_group=NULL)
    with pytest.raises(BadHeader, match="<srcGroup> is null"):
        CloneGroupOffset.decode({"destGroup": "H"})
    plain = {"queueId": "0", "sysFlag": "x", "bornTimestamp": "1", "flag": "0"}
    read = SendReplyMessage.decode(plain)
    assert (read.sys_flag, read.topic, read.default_topic_queue_nums) == (0, "", 4)
    spelled = {"e": "0", "g": "1", "h": "0"}
    assert SendReplyMessageV2.decode(spelled).sys_flag == 0
    with pytest.raises(BadHeader, match="f is not a 32-bit integer: 'x'"):
        SendReplyMessageV2.decode({**spelled, "f": "x"})
    with pytest.raises(BadHeader, match="<a>, <b>, <c>, <d>, <f>"):
        SendMessageV2.decode(spelled)


def test_every_missing_field_is_named() -> None:
    with pytest.raises(BadHeader, match="<queueId>, <queueOffset> is null"):
        Positions.decode({})


@pytest.mark.parametrize("raw", [b"", b"[]", b"7", b'"x"', b"{", b"{}x", b'{"queueId":"\\ud800"}', b"\xff"])
def test_what_is_no_object_is_refused(raw: bytes) -> None:
    with pytest.raises(BadHeader):
        Positions.decode_json(raw)


def test_two_requests_cannot_share_a_code() -> None:
    with pytest.raises(TypeError, match="both PullMessage and Second"):

        class Second(Request, code=RequestCode.PULL_MESSAGE, to=Role.BROKER):
            """Taken."""


def test_a_field_needs_a_text_form() -> None:
    class Wrong(Header):
        price: float

    with pytest.raises(TypeError, match="no text form"):
        Wrong.fields()


def test_rows_are_complete() -> None:
    assert sum(len(row.roles) for row in rows()) == len(REQUESTS) == 108 + 23 + 8
    assert [row.code for row in rows()] == sorted(row.code for row in rows())
    assert {row.code for row in rows(Role.NAME_SERVER)} == {code for role, code in REQUESTS if role is Role.NAME_SERVER}
    assert all(row.doc and "Source:" not in row.doc for row in rows())
    assert json.loads(json.dumps(as_json())) == as_json()
