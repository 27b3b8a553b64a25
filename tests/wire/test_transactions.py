"""The rule of transactions: properties that Java stored, bodies of op messages, and what a check does with a half message."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmq_wire import names
from rmq_wire.implied import transactions as rule
from rmq_wire.implied.real_place import real_place_of
from rmq_wire.implied.transactions import CheckRules, Verdict
from rmq_wire.message import StoredMessage
from rmq_wire.properties import decode, encode_java
from rmq_wire.sys_flag import TRANSACTION_COMMIT
from tests.support.golden import stored_units

OFFSETS = st.lists(st.integers(0, 2**63 - 1), max_size=50)
RULES = CheckRules()


@given(OFFSETS)
def test_an_op_message_is_read_back(offsets: list[int]) -> None:
    body = rule.op_body(offsets)
    assert rule.op_offsets(body) == offsets
    assert len(body) == sum(len(rule.op_entry(offset)) for offset in offsets)


@given(st.binary(max_size=60))
def test_any_body_is_read(body: bytes) -> None:
    assert all(0 <= offset < 2**63 for offset in rule.op_offsets(body))


@given(OFFSETS, st.sampled_from(["", "x", "-3", " 5", "9" * 20, "\x00", "1_0"]))
def test_what_is_no_offset_is_passed_over(offsets: list[int], odd: str) -> None:
    assert rule.op_offsets(rule.op_body(offsets) + f"{odd},".encode()) == offsets


@given(OFFSETS)
def test_as_brokers_before_5_wrote_it(offsets: list[int]) -> None:
    """One number, no comma behind it."""
    assert [one for offset in offsets for one in rule.op_offsets(str(offset).encode())] == offsets


def java_halves() -> list[StoredMessage]:
    return [unit for unit in stored_units() if unit.topic == names.TRANS_HALF_TOPIC.encode()]


def values_of(unit: StoredMessage) -> dict[str, str]:
    return decode(unit.properties.decode())


def test_the_copies_that_java_put_back() -> None:
    halves = java_halves()
    firsts = {values_of(unit)["UNIQ_KEY"]: unit for unit in reversed(halves)}
    copies = [unit for unit in halves if rule.check_times(values_of(unit)) == 1]
    assert copies
    for copy in copies:
        first = firsts[values_of(copy)["UNIQ_KEY"]]
        assert encode_java(rule.asked_values(values_of(first))) == copy.properties


def test_the_commits_that_java_stored() -> None:
    halves = {unit.physical_offset: unit for unit in java_halves()}
    commits = [unit for unit in stored_units() if unit.prepared_transaction_offset in halves]
    assert commits
    for commit in commits:
        half = halves[commit.prepared_transaction_offset]
        values = values_of(half)
        assert encode_java(rule.committed_values(values)) == commit.properties
        assert rule.committed_properties(half.properties, values["REAL_TOPIC"], values["REAL_QID"]) == commit.properties
        assert real_place_of(values) == (commit.topic.decode(), commit.queue_id)
        assert rule.committed_sys_flag(half.sys_flag) == commit.sys_flag == TRANSACTION_COMMIT


@given(st.dictionaries(st.text("abREL_TOPICQD", min_size=1, max_size=12), st.text("abT1", min_size=1, max_size=4), max_size=120))
def test_cutting_pairs_out_is_encoding_anew(values: dict[str, str]) -> None:
    half = rule.half_values(values, "T", 1)
    stored = encode_java(half)
    assert rule.committed_properties(stored, "T", 1) == encode_java(rule.committed_values(decode(stored.decode())))


def test_the_half_messages_that_java_stored() -> None:
    for unit in java_halves():
        values = values_of(unit)
        place = real_place_of(values)
        assert place is not None
        sent = {name: value for name, value in values.items() if name not in ("REAL_TOPIC", "REAL_QID", "__transactionId__")}
        if rule.check_times(values) == 0:
            assert encode_java(rule.half_values(sent, *place)) == unit.properties


def test_the_op_messages_that_java_stored() -> None:
    ops = [unit for unit in stored_units() if unit.topic == names.TRANS_OP_HALF_TOPIC.encode()]
    assert [rule.op_offsets(op.body) for op in ops] == [[0, 1, 4, 5, 3], [6, 7]]
    assert {op.properties for op in ops} == {rule.OP_PROPERTIES}


@pytest.mark.parametrize(
    ("values", "age_ms", "wanted"),
    [
        ({}, 0, Verdict.LATER),
        ({}, 6_000, Verdict.LATER),
        ({}, 6_001, Verdict.ASK),
        ({}, -1, Verdict.ASK),
        ({"TRANSACTION_CHECK_TIMES": "14"}, 6_001, Verdict.ASK),
        ({"TRANSACTION_CHECK_TIMES": "15"}, 6_001, Verdict.GIVE_UP),
        ({"TRANSACTION_CHECK_TIMES": "15"}, 0, Verdict.GIVE_UP),
        ({"TRANSACTION_CHECK_TIMES": "many"}, 6_001, Verdict.ASK),
        ({}, 72 * 3_600_000, Verdict.ASK),
        ({}, 72 * 3_600_000 + 1, Verdict.GIVE_UP),
        ({"CHECK_IMMUNITY_TIME_IN_SECONDS": "60"}, 60_000, Verdict.PUT_BACK),
        ({"CHECK_IMMUNITY_TIME_IN_SECONDS": "60"}, 60_001, Verdict.ASK),
        ({"CHECK_IMMUNITY_TIME_IN_SECONDS": "1"}, 2_000, Verdict.ASK),
        ({"CHECK_IMMUNITY_TIME_IN_SECONDS": "soon"}, 6_000, Verdict.PUT_BACK),
        ({"CHECK_IMMUNITY_TIME_IN_SECONDS": "soon"}, 6_001, Verdict.ASK),
        ({"CHECK_IMMUNITY_TIME_IN_SECONDS": "-1"}, 6_001, Verdict.ASK),
    ],
)
def test_what_a_check_does(values: dict[str, str], age_ms: int, wanted: Verdict) -> None:
    assert rule.verdict(values, 10**12, 10**12 + age_ms, RULES) is wanted
