"""A whole broker under fire: frames, headers and bodies by a grammar and by mutation.

Whatever comes in, the server answers it or closes that connection, no handler has a bug that shows, the next connection is
served, what was stored before is still there, and nothing appears outside the store directory.
"""

from __future__ import annotations

import json
import logging
import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import rmq_wire.headers.all  # noqa: F401  (fills the registry)
from rmq_wire.codes import RequestCode
from rmq_wire.command import Form, encode_request
from rmq_wire.declare import REQUESTS, Request, Role
from rmq_wire.sys_flag import TRANSACTION_COMMIT, TRANSACTION_ROLLBACK
from tests.support.driver import Client
from tests.support.engine import Harness
from tests.support.given import damaged
from tests.support.night_seeds import each_of_the_night
from tests.support.requests import pull, send

PARKS = {RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE}
"""May answer later, when a message comes."""
ASKS_CLIENTS = {
    RequestCode.GET_CONSUMER_RUNNING_INFO,
    RequestCode.CONSUME_MESSAGE_DIRECTLY,
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
}
"""Are relayed to a client and may wait for it."""
ENDS = {str(TRANSACTION_COMMIT), str(TRANSACTION_ROLLBACK)}
"""Of a transaction; the end of one that is neither is not answered, as in the reference."""


def may_be_silent(code: int, ext: dict[str, str]) -> bool:
    if code == RequestCode.END_TRANSACTION:
        return ext.get("commitOrRollback") not in ENDS
    return code in PARKS | ASKS_CLIENTS


KEPT = b"stored before the attack"
BROKER_REQUESTS = sorted({request for (role, _code), request in REQUESTS.items() if role == Role.BROKER}, key=lambda r: r.code)

names = st.sampled_from(
    [
        "T",
        "G",
        "TBW102",
        "%RETRY%G",
        "%DLQ%G",
        "SCHEDULE_TOPIC_XXXX",
        "broker-a",
        "DefaultCluster",
        "TagA",
        "*",
        "SQL92",
        "",
        " ",
        ".",
        "..",
        "a/b",
        "..\\x",
        "/etc/passwd",
        "NUL",
        "a\x00b",
        "a\nb=c",
        "\x1b[31m",
        "ü",
        "日本",
        "\u202e",
        "[red]",
        "=cmd",
        "x" * 128,
        "%RETRY%" + "y" * 300,
        "name\x01value\x02",
        "127.0.0.1:10911",
    ]
)
numbers = st.one_of(
    st.integers(-2, 5).map(str),
    st.sampled_from(["007", "+1", " 1", "1_000", "１", "NaN", "1e999", "9" * 30, str(-(2**63)), str(2**31), "null", ""]),
    st.integers(-(2**63), 2**63 - 1).map(str),
)
truths = st.sampled_from(["true", "false", "TRUE", "1", "", "null"])
texts = st.one_of(names, numbers, truths, st.text(max_size=20))
json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-5, 2**40), names, st.floats(allow_nan=False, allow_infinity=False)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(names, inner, max_size=4)),
    max_leaves=12,
)
KNOWN_MEMBERS = [
    "brokerName",
    "clientID",
    "clientId",
    "codeSet",
    "consumeType",
    "consumerDataSet",
    "consumerGroup",
    "expressionType",
    "groupName",
    "groupNameList",
    "messageModel",
    "mqSet",
    "offsetTable",
    "onlyThisBroker",
    "producerDataSet",
    "queueId",
    "subString",
    "subVersion",
    "subscriptionDataSet",
    "tagsSet",
    "topic",
    "topicConfigList",
    "topicName",
]
bodies = st.recursive(
    st.one_of(names, st.integers(-5, 2**33), st.none(), st.booleans()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(KNOWN_MEMBERS), inner, max_size=6)),
    max_leaves=20,
)
raw_bodies = st.one_of(
    st.just(b""),
    st.binary(max_size=60),
    json_values.map(lambda value: json.dumps(value).encode()),
    bodies.map(lambda value: json.dumps(value).encode()),
    st.sampled_from([b"{" * 5000, b"[" * 100_000, b'{"a":' * 2000, b"null", b"{}", b"[]", b"\xff\xfe"]),
    st.sampled_from([b"key=value\n", b"brokerName=\\nx=1", b"storePathRootDir=/tmp/x", b"listenPort=1\nbrokerRole=SLAVE"]),
)


@st.composite
def requests(draw: st.DrawFn) -> tuple[int, dict[str, str], bytes]:
    """A code that a broker answers, fields by their types or not, and a body that may fit."""
    request: type[Request] = draw(st.sampled_from(BROKER_REQUESTS))
    by_type = {str: names, int: numbers, bool: truths}
    ext = {}
    for field in request.fields():
        if draw(st.integers(0, 9)) or not field.required:
            ext[field.wire] = draw(by_type[field.kind] if draw(st.integers(0, 9)) else texts)
    if not draw(st.integers(0, 9)):
        ext[draw(texts)] = draw(texts)
    return request.code, ext, draw(raw_bodies)


@contextmanager
def under_attack() -> Iterator[tuple[Harness, Client]]:
    """A broker with a message in it; afterwards the message is read, one more is stored, and the directory is looked at."""
    logging.disable(logging.CRITICAL)
    try:
        with tempfile.TemporaryDirectory() as scratch:
            harness = Harness(Path(scratch) / "store")
            harness.topic("T")
            harness.topic("Kept")
            calm = harness.connect()
            assert calm.ask(send("Kept"), KEPT).code == 0
            yield harness, calm
            harness.driver.advance(6_000)
            assert harness.node.engine.counters.errors == 0
            assert [entry.name for entry in Path(scratch).iterdir()] == ["store"]
            harness.topic("T")
            late = harness.connect()
            assert late.ask(send("T", queue_id=3), b"after it").code == 0
            assert harness.stored("Kept", 0)[0].body == KEPT
            assert KEPT in bytes(late.ask(pull("Kept", 0)).body)
            assert harness.node.close()
    finally:
        logging.disable(logging.NOTSET)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(requests(), st.sampled_from(list(Form)), st.booleans()), min_size=1, max_size=40))
def test_any_request_is_answered_and_leaves_no_trace_of_a_bug(attack: list[Any]) -> None:
    with under_attack() as (harness, _calm):
        client = harness.connect()
        for n, ((code, ext, body), form, oneway) in enumerate(attack):
            if client.closed:
                client = harness.connect()
            try:
                frame = encode_request(code, None, body, opaque=n, ext=ext, form=form, oneway=oneway)
            except UnicodeEncodeError:
                continue
            client.raw(frame)
            if oneway:
                assert n not in client.answers
            elif n not in client.answers and not client.closed:
                assert may_be_silent(code, ext), f"{RequestCode(code).name} was not answered"


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_damaged_frames_close_or_are_answered(data: st.DataObject) -> None:
    with under_attack() as (harness, _calm):
        for _ in range(data.draw(st.integers(1, 15))):
            code, ext, body = data.draw(requests())
            form = data.draw(st.sampled_from(list(Form)))
            client = harness.connect()
            client.raw(bytes(data.draw(damaged(encode_request(code, None, body, opaque=1, ext=ext, form=form)))))
            client.answers.clear()
            if not client.closed:
                client.raw(encode_request(code, None, body, opaque=1, ext=ext, form=form))


HOSTILE = [
    "T",
    "G",
    "..",
    "a/b",
    "",
    "-1",
    "0",
    "1",
    "2147483647",
    "9" * 30,
    "true",
    "\x00",
    "\n",
    "{}",
    '{"a":[' * 40,
    "x" * 300,
]
FITTING = {str: ["T", "G", "broker-a", "DefaultCluster", "*"], int: ["0", "1", "3", "-1", "32"], bool: ["true", "false"]}


def salvo(seed: int) -> None:
    """Every code a broker answers, twice, in an order of chance: fields that mostly fit, some bytes damaged."""
    rng = random.Random(seed)
    with under_attack() as (harness, _calm):
        client = harness.connect()
        for n, request in enumerate(rng.sample(BROKER_REQUESTS * 2, len(BROKER_REQUESTS) * 2)):
            ext = {
                field.wire: rng.choice(FITTING[field.kind] if rng.random() < 0.8 else HOSTILE)
                for field in request.fields()
                if rng.random() < 0.9
            }
            whole = bytearray(encode_request(request.code, None, rng.choice(HOSTILE).encode(), opaque=n, ext=ext))
            if rng.random() < 0.2:
                whole[rng.randrange(len(whole))] = rng.randrange(256)
            client = harness.connect() if client.closed else client
            client.raw(bytes(whole))
            client.answers.clear()  # a damaged number may be one that was used before
            assert harness.node.engine.counters.errors == 0, f"{RequestCode(request.code).name} in salvo({seed})"


def test_salvos() -> None:
    for seed in range(30):
        salvo(seed)


@pytest.mark.nightly
def test_many_salvos() -> None:
    each_of_the_night(3_000, salvo)
