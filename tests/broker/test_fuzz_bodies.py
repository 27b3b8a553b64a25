"""Bodies by a grammar that is derived from their types, from several peers at once, cut anywhere.

`test_fuzz.py` knows the headers' grammar and mutates frames; here the bodies are nearly right: every member has its type, now and
then another one, a hostile text or a huge number.  Every frame is whole, so each must be answered, in whatever pieces and turns
it comes; the witness's messages are as they were.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rmq_wire.bodies.body import Body
from rmq_wire.bodies.groups import SubscriptionGroupConfig, SubscriptionGroupList
from rmq_wire.bodies.heartbeat import CheckClientRequest, HeartbeatData
from rmq_wire.bodies.locks import LockBatchRequest
from rmq_wire.bodies.topics import TopicConfigList
from rmq_wire.codes import RequestCode
from rmq_wire.command import Form, encode_request
from tests.broker.siege import siege

BODIES: dict[int, type[Body]] = {
    RequestCode.HEART_BEAT: HeartbeatData,
    RequestCode.CHECK_CLIENT_CONFIG: CheckClientRequest,
    RequestCode.LOCK_BATCH_MQ: LockBatchRequest,
    RequestCode.UNLOCK_BATCH_MQ: LockBatchRequest,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: SubscriptionGroupConfig,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: SubscriptionGroupList,
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: TopicConfigList,
}
TEXTS = st.sampled_from(
    [
        "T",
        "G",
        "",
        " ",
        "..",
        "a/b",
        "a\0b",
        "a\nb",
        "\x1b[31m",
        "\u202e",
        "%RETRY%G",
        "TBW102",
        "SINGLE_TAG",
        "TAG",
        "SQL92",
        "*",
        "CLUSTERING",
        "BROADCASTING",
        "CONSUME_PASSIVELY",
        "+message.type=MIXED",
        "x" * 300,
        "ü",
        "９",
    ]
)
NUMBERS = st.one_of(
    st.integers(-2, 20), st.sampled_from([2**31 - 1, 2**31, -(2**31), 2**63 - 1, 2**63, 10**30, 1.5, -0.0, 1e300])
)
ODD = st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS, st.just([]), st.just({}), st.just([[None]]), st.just({"a": {"b": []}}))
ODD_SHARE = 12
"""One member in so many is of another type."""
PEERS = 4


def values(kind: Any, depth: int = 0) -> st.SearchStrategy[Any]:
    """What JSON of this type looks like, mostly."""
    right = _right(kind, depth)
    return st.integers(0, ODD_SHARE - 1).flatmap(lambda chance: right if chance else ODD)


def _right(kind: Any, depth: int) -> st.SearchStrategy[Any]:
    match kind:
        case msgspec.inspect.BoolType():
            return st.booleans()
        case msgspec.inspect.IntType() | msgspec.inspect.FloatType():
            return NUMBERS
        case msgspec.inspect.UnionType():
            return st.one_of([_right(part, depth) for part in kind.types])
        case msgspec.inspect.NoneType():
            return st.none()
        case msgspec.inspect.ListType() | msgspec.inspect.SetType() | msgspec.inspect.VarTupleType():
            return st.lists(values(kind.item_type, depth + 1), max_size=3)
        case msgspec.inspect.DictType():
            return st.dictionaries(TEXTS, values(kind.value_type, depth + 1), max_size=3)
        case msgspec.inspect.StructType():
            members = {field.encode_name: values(field.type, depth + 1) for field in kind.fields}
            return st.fixed_dictionaries({}, optional=members)
    return TEXTS


GRAMMAR = {code: values(msgspec.inspect.type_info(kind)) for code, kind in BODIES.items()}
whole_bodies = st.sampled_from(sorted(BODIES)).flatmap(lambda code: st.tuples(st.just(code), GRAMMAR[code]))
attacks = st.lists(st.tuples(st.integers(0, PEERS - 1), whole_bodies, st.sampled_from(list(Form))), min_size=1, max_size=15)
cuts = st.lists(st.tuples(st.integers(0, PEERS - 1), st.integers(1, 200)), max_size=60)
MAY_CHANGE = ("topics", "groups", "forbidden", "directories", "progress")


def check(attack: list[Any], pieces: list[tuple[int, int]]) -> None:
    """Send it all; each frame is answered once, and nothing stored has changed."""
    with tempfile.TemporaryDirectory() as scratch, siege(Path(scratch)) as broker, broker.unharmed(*MAY_CHANGE):
        clients = [broker.connect() for _ in range(PEERS)]
        streams = [b""] * PEERS
        asked: list[list[int]] = [[] for _ in clients]
        for opaque, (who, (code, body), form) in enumerate(attack):
            streams[who] += encode_request(code, None, json.dumps(body).encode(), opaque=opaque, form=form)
            asked[who].append(opaque)
        for who, size in [*pieces, *((who, len(stream)) for who, stream in enumerate(streams))]:
            clients[who].raw(streams[who][:size])
            streams[who] = streams[who][size:]
        for client, opaques in zip(clients, asked, strict=True):
            assert not client.closed
            assert sorted(client.answers) == opaques
        broker.pass_time(6_000)


QUICK = settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))


@QUICK
@given(attacks, cuts)
@example(
    [
        (
            0,
            (RequestCode.HEART_BEAT, {"consumerDataSet": [{"groupName": "G", "subscriptionDataSet": [{"codeSet": [2**63]}]}]}),
            Form.JSON,
        )
    ],
    [],
)
def test_nearly_right_bodies(attack: list[Any], pieces: list[tuple[int, int]]) -> None:
    check(attack, pieces)


@pytest.mark.nightly
@settings(parent=QUICK, max_examples=5_000)
@given(attacks, cuts)
def test_nearly_right_bodies_all_night(attack: list[Any], pieces: list[tuple[int, int]]) -> None:
    check(attack, pieces)
