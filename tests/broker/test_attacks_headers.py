"""Attacks by what stands in a header or a body: depth, size, texts that are none, numbers.  Numbered as in docs/attacks.md."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from rmq_wire.command import Command, Form, encode_request
from rmq_wire.headers.clients import CheckClientConfig, Heartbeat
from rmq_wire.headers.groups import UpdateAndCreateSubscriptionGroup, UpdateAndCreateSubscriptionGroupList
from rmq_wire.headers.locks import LockBatchMq, UnlockBatchMq
from rmq_wire.headers.topics import CreateTopicList
from tests.broker.siege import FORMS, Siege, is_safe_echo, siege
from tests.support.bad_frames import WITNESS, binary, entry, json_frame, json_header

MIB = 1 << 20


# 6: deep nesting


def refused_by_number(broker: Siege, data: bytes) -> Command | None:
    """The answer with code 1 to request 7, or None when the connection was closed without one."""
    unknown = broker.attack(data)
    if unknown.closed:
        broker.closed_with(unknown)
        assert not unknown.answers
        return None
    answer = unknown.answers.pop(7)
    assert answer.code == 1
    assert is_safe_echo(answer.remark), answer.remark
    return answer


@pytest.mark.parametrize("opener", [b"[", b'{"a":', b"{", b'[{"a":['])
@pytest.mark.parametrize("depth", [65, 1_000, 200_000])
def test_attack_06_deep_nesting_in_a_header(tmp_path: Path, opener: bytes, depth: int) -> None:
    with siege(tmp_path) as broker, broker.unharmed():
        assert refused_by_number(broker, json_frame(b'{"code":30,"opaque":7,"extFields":{"topic":' + opener * depth + b"}}"))
        assert refused_by_number(broker, json_frame(b'{"code":30,"opaque":7,"remark":' + opener * depth)) is not None


BODIES = [
    Heartbeat(),
    LockBatchMq(),
    UnlockBatchMq(),
    UpdateAndCreateSubscriptionGroup(),
    UpdateAndCreateSubscriptionGroupList(),
    CreateTopicList(),
    CheckClientConfig(),
]


@pytest.mark.parametrize("request_", BODIES, ids=lambda request: type(request).__name__)
def test_attack_06_deep_nesting_in_a_body(tmp_path: Path, request_: Any) -> None:
    with siege(tmp_path) as broker, broker.unharmed():
        for opener in (b"[", b'{"a":', b"{", b'{"consumerDataSet":[', b'{"topicConfigList":[{"attributes":{"a":'):
            answer = broker.connect().ask(request_, opener * 200_000)
            assert answer.code == 1
            assert is_safe_echo(answer.remark)


@pytest.mark.parametrize("request_", BODIES, ids=lambda request: type(request).__name__)
def test_attack_06_a_body_costs_time_in_proportion_to_its_size(tmp_path: Path, request_: Any) -> None:
    """Texts at which a naive reader starts anew from every quote or blank: each would take minutes to hours."""
    count = 300_000
    with siege(tmp_path) as broker, broker.unharmed():
        for body in (
            b"{" + b"{}" * 40 + b'"' + b'\\"' * count,
            b'{"' + b'\\"' * count,
            b"{'" + b"\\'" * count,
            b"{" + b" " * count + b"x",
            b"[" + b",  " * count + b"x",
            b"{1" + b"1" * count,
            b"/*" * count,
            b"{" + b"a" * count,
            b'{"a":' + b"9" * count + b"}",
            b'{"$ref":"$' + b".a" * count + b'"}',
            b"[" + b'{"$ref":".."},' * (count // 20) + b"1]",
        ):
            before = time.process_time()
            answer = broker.connect().ask(request_, body)
            assert time.process_time() - before < 10, f"{body[:20]!r}…"
            assert answer.code in (0, 1, 29)


# 7: headers too large, and texts that are none


def with_field(value: str, *, name: str = "queueId") -> bytes:
    """A header whose field holds this JSON text."""
    return f'{{"code":30,"opaque":7,"version":513,"extFields":{{"topic":"{WITNESS}","{name}":{value}}}}}'.encode()


@pytest.mark.parametrize(
    "header",
    [
        pytest.param(json_header(remark="x" * MIB), id="1-MiB"),
        pytest.param(json_header(extFields={f"k{n}": "v" for n in range(1_025)}), id="1025-fields"),
        pytest.param(with_field("NaN"), id="NaN"),
        pytest.param(with_field("1e999"), id="1e999"),
        pytest.param(with_field("9" * 10_000), id="10000-digits"),
        pytest.param(with_field('"' + "9" * 10_000 + '"'), id="10000-digits-as-text"),
        pytest.param(with_field('"' + "9" * 10_000 + '"').replace(b'"version":513', b'"version":' + b"1" * 10_000), id="version"),
        pytest.param(json_header(code="9" * 10_000), id="code-of-10000-digits"),
        pytest.param(json_header().replace(b'"Witness"', b'"\xff\xfe"'), id="not-UTF-8"),
        pytest.param(json_header().replace(b'"Witness"', b'"\xed\xa0\x80"'), id="surrogate-in-UTF-8"),
        pytest.param(json_header(code=2**31), id="code-beyond-an-int"),
        pytest.param(json_header(extFields=[1]), id="fields-are-a-list"),
        pytest.param(json_header() + b"}", id="text-after-the-end"),
        pytest.param(b'{"opaque":7,', id="cut"),
        pytest.param(b'[{"opaque":7}]', id="a-list"),
    ],
)
def test_attack_07_a_header_that_is_none_is_answered_by_its_number(tmp_path: Path, header: bytes) -> None:
    with siege(tmp_path) as broker, broker.unharmed():
        answer = refused_by_number(broker, json_frame(header))
        assert answer is not None
        assert len(answer.remark or "") <= 512


@pytest.mark.parametrize(
    "header",
    [b"", b"{}x", b"\xff" * 50, b'{"opaque":99999999999}x', b'{"opaque":"x"}x', b'{"opaque":' + b"9" * 10_000 + b"}", b"null"],
)
def test_attack_07_a_header_without_a_number_closes(tmp_path: Path, header: bytes) -> None:
    with siege(tmp_path) as broker, broker.unharmed():
        broker.closed_with(broker.attack(json_frame(header)), "without a readable opaque")


@pytest.mark.parametrize("text", ['"\\ud800"', '"\\udfff\\ud800"', '"\\u0000"', '"a\\u0000b"', '"\\u202e\\u0007"'])
@pytest.mark.parametrize("name", ["topic", "queueId", "consumerGroup", "unknown"])
def test_attack_07_surrogates_and_control_characters_are_only_text(tmp_path: Path, text: str, name: str) -> None:
    with siege(tmp_path) as broker, broker.unharmed():
        for code in (30, 14, 38):
            header = (
                f'{{"code":{code},"opaque":7,"extFields":{{"topic":"{WITNESS}","queueId":"0","consumerGroup":"g",'
                f'"setZeroIfNotFound":"false","{name}":{text}}}}}'
            )
            unknown = broker.attack(json_frame(header.encode()))
            if not unknown.closed:
                assert unknown.answers.pop(7).code in (0, 1, 22)


def test_attack_07_of_two_equal_names_the_last_counts(tmp_path: Path) -> None:
    fields = f'"topic":"No","topic":"{WITNESS}","queueId":"9","queueId":"0"'
    asked = f'{{"code":3,"code":30,"opaque":6,"opaque":7,"extFields":{{{fields}}}}}'
    with siege(tmp_path) as broker, broker.unharmed():
        assert broker.attack(json_frame(asked.encode())).answers.pop(7).ext_map() == {"offset": "1"}


def test_attack_07_binary_texts_that_are_not_utf_8(tmp_path: Path) -> None:
    with siege(tmp_path) as broker, broker.unharmed():
        for data in (binary(entry(b"topic", b"\xff")), binary(entry(b"\xff", b"x")), binary(remark=b"\xff")):
            assert refused_by_number(broker, data) is not None


def test_attack_07_a_binary_header_of_many_fields(tmp_path: Path) -> None:
    with siege(tmp_path) as broker, broker.unharmed():
        assert refused_by_number(broker, binary(*[entry(b"k%d" % n, b"v") for n in range(1_025)])) is not None
        assert refused_by_number(broker, binary(entry(b"k", bytes(MIB)))) is not None


# 8: numbers


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("text", "code", "offset"),
    [
        ("0", 0, "1"),
        ("000", 0, "1"),
        ("+0", 0, "1"),
        ("-0", 0, "1"),
        ("０", 0, "1"),
        ("٠", 0, "1"),
        ("007", 0, "0"),
        *[
            (text, 1, None)
            for text in (
                " 0",
                "0 ",
                "0_0",
                "1_000",
                "0x0",
                "0.0.0",
                "",
                "2147483648",
                "-2147483649",
                "+",
                "--0",
                "0L",
                "NaN",
                "null",
                "true",
            )
        ],
    ],
)
def test_attack_08_numbers_as_java_reads_them(tmp_path: Path, form: Form, text: str, code: int, offset: str | None) -> None:
    with siege(tmp_path) as broker, broker.unharmed():
        client = broker.connect()
        client.raw(encode_request(30, None, opaque=7, form=form, ext={"topic": WITNESS, "queueId": text}))
        answer = client.answers.pop(7)
        assert answer.code == code, answer.remark
        assert answer.ext_map().get("offset") == offset
