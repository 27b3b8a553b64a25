"""The dialect: what Java writes is read, what we write is what Java writes, and nothing else gets through or does harm."""

from __future__ import annotations

import json
import os
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmq_wire.errors import BadBody
from rmq_wire.fastjson import MessageQueue, dumps_fastjson, dumps_pretty, dumps_strict, loads, nests_deeper
from tests.support.given import GOLDEN, TEXT

JAVA = GOLDEN["json"]
VALUE: dict[str, Any] = {
    "bools": [True, False],
    "doubles": [1.5, 1e7, 100.0, 9.99e-4, 1.5e-10, -2.5e33, 12345678.9],
    "empty_list": [],
    "empty_map": {},
    "empty_set": set(),
    "integer_keys": {0: 5, 11: 9},
    "ints": [1, 2, 3],
    "nested": [{"a": 1}, ["x"]],
    "number_set": (1, 2),
    "text": "\0\1\b\t\n\x0b\f\r\x1f\"\\/'<>&\x7f\x80\u2028é漢😀",
    "texts": ["a", "b"],
}
QUEUE = MessageQueue(topic='t"q', broker_name="b", queue_id=2)
TABLE = {"offsetTable": {QUEUE: {"lastUpdateTimestamp": 0, "maxOffset": 5, "minOffset": 0}}, "topicPutTps": 0.0}


def test_bodies_are_javas_byte_for_byte() -> None:
    assert dumps_fastjson(VALUE).decode() == JAVA["value"]
    assert dumps_fastjson(TABLE).decode() == JAVA["queue_keys"]


def test_files_are_javas_byte_for_byte() -> None:
    assert dumps_pretty(VALUE).decode() == JAVA["value_pretty"]
    assert dumps_pretty(TABLE).decode() == JAVA["queue_keys_pretty"]


@pytest.mark.parametrize("name", JAVA)
def test_texts_of_java_are_read(name: str) -> None:
    expected = TABLE if name.startswith("queue") else {**VALUE, "integer_keys": {"0": 5, "11": 9}}
    assert loads(JAVA[name].encode()) == json.loads(json.dumps(expected, default=list)) if name.startswith("value") else expected
    assert dumps_fastjson(loads(JAVA["queue_keys"].encode())).decode() == JAVA["queue_keys"]


class Row(msgspec.Struct, rename="camel"):
    zeta_count: int = 1
    alpha: str | None = None


def test_structs_are_written_by_their_names_in_order() -> None:
    assert dumps_fastjson({"r": Row()}) == b'{"r":{"zetaCount":1}}'
    assert dumps_pretty([Row()]) == b'[\n\t{\n\t\t"zetaCount":1\n\t}\n]'
    assert dumps_strict({1: Row()}) == b'{"1":{"zetaCount":1,"alpha":null}}'


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{0:1,11:{"a":[1,2,],},}', {"0": 1, "11": {"a": [1, 2]}}),
        ('{ -5 :1, "{0:1}":"{1:2}"}', {"-5": 1, "{0:1}": "{1:2}"}),
        ('{0:"\\"{1:2"}', {"0": '"{1:2'}),
        ("{'a':'b\\'c\\x41','k':05,'z':5L,'n':null}", {"a": "b'cA", "k": 5, "z": 5, "n": None}),
        ("/* a */ [1, // b\n 2]", [1, 2]),
        ('"a\tb\x01"', "a\tb\x01"),
        ("{name:1,true:2}", {"name": 1, "true": 2}),
        ("[+5,-5,1.5e3]", [5, -5, 1500.0]),
        ('{{"brokerName":"b","queueId":2,"topic":"t"}:1}', {MessageQueue("t", "b", 2): 1}),
        ('{"{\\"brokerName\\":\\"b\\",\\"queueId\\":2,\\"topic\\":\\"t\\"}":1}', {MessageQueue("t", "b", 2): 1}),
        ('{{"x":1}:2}', {'{"x":1}': 2}),
        ('[{"topic":"t"},{"{":1}]', [{"topic": "t"}, {"{": 1}]),
        ('{"a":{"b":[1]},"c":{"$ref":"$.a"},"d":{"$ref":"$.a.b[0]"}}', {"a": {"b": [1]}, "c": {"b": [1]}, "d": 1}),
        ('{"a":{"b":{"c":1},"d":{"$ref":"$.a.b"}}}', {"a": {"b": {"c": 1}, "d": {"c": 1}}}),
        ('[[1],{"$ref":"$[0]"}]', [[1], [1]]),
        (' "x" ', "x"),
        ("5", 5),
        ("null", None),
        ('"\\u0041\\/\\\\"', "A/\\"),
        ("'\"'", '"'),
    ],
)
def test_the_dialect_is_read(text: str, value: Any) -> None:
    assert loads(text.encode()) == value


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "[", "]", "{", "}", "[1 2]", '{"a" 1}', '{"a":1 "b":2}', '{"a":}', "{:1}", '{"a"::1}', "[,]", "{,}", "[1,,2]"),
        *(
            "5 5",
            '{"a":1}}',
            '"abc',
            "'abc",
            '{"a":NaN}',
            "1e999",
            "--1",
            "1-1",
            "tru",
            "abc",
            "[a]",
            '{"a":b}',
            "{[1]:2}",
            "{1}",
        ),
        *('"\\ud800"', '"\\q"', "/*", "{a:1", "1" * 10_000, '{"a":{"$ref":"$.b"}}', '{"a":{"$ref":"x"}}', '{"a":{"$ref":"$"}}'),
        *('{"a":{"$ref":"$.b"},"b":{"$ref":"$.a"}}', '{"a":[{"$ref":".."}]}', '{"$ref":".."}', '[{"$ref":"@"}]', "undefined"),
    ],
)
def test_what_is_not_the_dialect(text: str) -> None:
    with pytest.raises(BadBody):
        loads(text.encode())


def test_bytes_that_are_not_unicode() -> None:
    for raw in (b"\xff", b'{"a":"\xff"}', b'{0:"\xff"}'):
        with pytest.raises(BadBody):
            loads(raw)


def slow_depth(text: bytes) -> int:
    """Byte by byte: the deepest bracket outside of texts."""
    depth = deepest = 0
    inside = escaped = False
    for byte in text.decode("latin-1"):
        if escaped:
            escaped = False
        elif byte == "\\":
            escaped = True
        elif byte == '"':
            inside = not inside
        elif not inside and byte in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif not inside and byte in "]}":
            depth -= 1
    return deepest


@given(st.lists(st.sampled_from([b"[", b"]", b"{", b"}", b'"', b"a", b'"["', b'"]"', b'""', b'"\\""', b"\\\\"]), max_size=60))
def test_depth_is_that_of_brackets_outside_of_texts(pieces: list[bytes]) -> None:
    text = b"".join(pieces)
    deepest = slow_depth(text)
    assert not nests_deeper(text, max(deepest, 1))
    assert deepest < 2 or nests_deeper(text, deepest - 1)


def test_depth() -> None:
    assert nests_deeper(b"[" + b"[]," * 40_000 + b"[[", 2), "far behind the first brackets"
    assert loads(b"[" * 64 + b"]" * 64)
    for text in (b"[" * 65 + b"]" * 65, b"[" * 10**6, b'{"a":' * 10**6, b"{{" * 100, b"[[],[" * 64):
        with pytest.raises(BadBody):
            loads(text)
    assert loads(b'"' + b"[" * 1000 + b'"') == "[" * 1000
    assert not nests_deeper(b"[]" * 1000, 1)
    assert nests_deeper(b'{"\\"":[', 1)
    assert loads(b"[[1,],]", depth_max=2) == [[1]]
    with pytest.raises(BadBody):
        loads(b"[[[1,],],]", depth_max=2)


def test_depth_behind_a_quote_in_single_quotes() -> None:
    """The quick look takes the brackets for a text here; the parser does not."""
    hidden = "['\"'," + "[" * 62 + "]" * 62 + ",'\"']"
    assert loads(hidden.encode())
    with pytest.raises(BadBody, match="more than 64 levels"):
        loads(hidden.replace("[[", "[[[[").replace("]]", "]]]]").encode())


@pytest.mark.parametrize("text", ['{"a":{"$ref":"$"}}', '{"a":[{"$ref":".."}]}', '{"b":1,"a":{"c":1,"d":{"$ref":"@"}}}'])
def test_what_contains_itself(text: str) -> None:
    with pytest.raises(BadBody, match="contains itself"):
        loads(text.encode())


def test_what_only_our_parser_reads_is_small() -> None:
    row = b'{"a":[1,{"b":"c"}]}'
    assert len(loads(b"[" + b",".join([row] * 1000) + b",]")) == 1000
    with pytest.raises(BadBody, match="not strict"):
        loads(b"[" + b",".join([row] * 20_000) + b",]")
    queues = [b'{"brokerName":"b{\\"","queueId":%d,"topic":"t"}' % at for at in range(20_000)]
    assert len(loads(b"{" + b",".join(queue + b":0" for queue in queues) + b"}")) == 20_000
    assert len(loads(b"{" + b",".join(b"%d:0" % at for at in range(100_000)) + b"}")) == 100_000


def test_references_do_not_explode() -> None:
    members = [b'"a0":["x","x"]']
    for at in range(1, 40):
        ref = b'{"$ref":"$.a%d"}' % (at - 1)
        members.append(b'"a%d":[%b,%b]' % (at, ref, ref))
    with pytest.raises(BadBody, match="written out"):
        loads(b"{" + b",".join(members) + b"}")
    chain = b"{" + b",".join(b'"a%d":{"$ref":"$.a%d"}' % (at, at + 1) for at in range(5000)) + b',"a5000":1}'
    with pytest.raises(BadBody):
        loads(chain)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=15,
)
PLAIN = JSON_VALUES.filter(lambda value: "$ref" not in repr(value))


def without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_none(item) for key, item in value.items() if item is not None}
    return [without_none(item) for item in value] if isinstance(value, list) else value


@given(PLAIN)
def test_what_we_write_any_reader_reads(value: Any) -> None:
    assert json.loads(dumps_strict(value)) == value
    assert json.loads(dumps_fastjson(value)) == without_none(value)
    assert json.loads(dumps_pretty(value).replace(b"\t", b" ")) == without_none(value)


@given(PLAIN)
def test_both_readers_agree(value: Any) -> None:
    """The comma at the end keeps the strict decoder and the quoted keys out of it."""
    text = dumps_strict([value])[:-1] + b",]"
    assert loads(text) == loads(dumps_strict([value]))


@given(st.dictionaries(st.integers(-(2**31), 2**31), st.integers() | TEXT))
def test_integer_keys_survive(table: dict[int, Any]) -> None:
    small = {key: value for key, value in table.items() if isinstance(value, str) or abs(value) < 2**63}
    assert loads(dumps_fastjson(small)) == {str(key): value for key, value in small.items()}
    assert loads(dumps_pretty({"t": small})) == {"t": {str(key): value for key, value in small.items()}}


@given(st.dictionaries(st.builds(MessageQueue, TEXT, TEXT, st.integers(0, 9)), st.integers(0, 9)))
def test_queue_keys_survive(table: dict[MessageQueue, int]) -> None:
    assert loads(dumps_fastjson(table)) == loads(dumps_pretty(table)) == table


ATOMS = st.sampled_from(
    [
        *("{", "}", "[", "]", ",", ":", '"', "'", "\\", " ", "\n", "//", "/*", "*/", "{{", "}:", '"$ref":', '"$.a"', "$", ".."),
        *("0", "-1", "007", "1e9", "1e999", "1.5", "5L", "NaN", "null", "true", '"x"', "'y'", "name", '"a":', "{}", "[]", "@"),
        *("\x01", "é"),
    ]
)


@given(st.lists(ATOMS, max_size=30).map("".join) | st.text(max_size=30))
def test_anything_is_read_or_refused(text: str) -> None:
    raw = text.encode()
    try:
        found = loads(raw)
    except BadBody:
        return
    dumps_fastjson(found)
    try:
        assert json.loads(text, parse_constant=lambda _: 1 / 0, strict=False) == found or "$ref" in text or '"{' in text
    except (ValueError, ZeroDivisionError):
        pass


@pytest.mark.nightly
@settings(max_examples=int(os.environ.get("FUZZ_EXAMPLES", "200000")))
@given(st.lists(ATOMS, max_size=60).map("".join))
def test_anything_is_read_or_refused_for_hours(text: str) -> None:
    try:
        dumps_fastjson(loads(text.encode()))
    except BadBody:
        pass
