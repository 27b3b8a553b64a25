"""Transactions: what is stored of a half message and of its end, who can end it, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker_impl.capabilities.transactions import UNSEEN_MS, UNSEEN_TRIES
from broker_impl.intake import NotTaken, PutStatus
from broker_impl.state.ended_halves import HalfState
from rmq_store.errors import Closed, Cold, CommitFailed, Illegal, IllegalKind, StoreError
from rmq_wire.codes import ResponseCode
from rmq_wire.headers.transactions import ResumeCheckHalfMessage
from rmq_wire.message_id import offset_message_id
from rmq_wire.sys_flag import TRANSACTION_COMMIT, TRANSACTION_NOT, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from tests.support import transactions
from tests.support.engine import Harness
from tests.support.requests import WALL_MS, pairs, props, pull, send
from tests.support.transactions import HALF, OP, UNIQUE, bodies, end, ending, half

learned = transactions.both_ways


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    return Harness(tmp_path).begun()


def test_a_half_message_waits_unseen(harness: Harness) -> None:
    unit = half(harness, TAGS="A", KEYS="k")
    assert props(unit) | {"REAL_TOPIC": "T", "REAL_QID": "1", "__transactionId__": UNIQUE.format(0)} == props(unit)
    assert (unit.queue_id, unit.sys_flag, unit.queue_offset) == (0, 0, 0)
    assert harness.stored("T", 1) == []


def test_a_commit_stores_the_message_where_it_belongs(harness: Harness) -> None:
    unit = half(harness, TAGS="A", KEYS="k", mine="value")
    assert end(harness, unit, TRANSACTION_COMMIT).code == 0
    [copy] = harness.stored("T", 1)
    kept = {name: value for name, value in props(unit).items() if name not in ("REAL_TOPIC", "REAL_QID")}
    assert props(copy) == kept
    assert (copy.sys_flag, copy.prepared_transaction_offset) == (TRANSACTION_COMMIT, unit.physical_offset)
    assert (copy.body, copy.born_host, copy.born_timestamp) == (unit.body, unit.born_host, unit.born_timestamp)
    assert len(harness.node.store.query("T", "k", 32, 0, 1 << 62).units) == 1
    assert harness.connect().ask(pull(queue_id=1, subscription="A")).code == 0


def test_ends_are_written_together_after_a_while(harness: Harness) -> None:
    units = [half(harness, number) for number in range(3)]
    for unit, how in zip(units, (TRANSACTION_COMMIT, TRANSACTION_ROLLBACK, TRANSACTION_COMMIT), strict=True):
        assert end(harness, unit, how).code == 0
    harness.driver.advance(2_999)
    assert harness.stored(OP) == []
    harness.driver.advance(1)
    [op] = harness.stored(OP)
    assert (op.body, op.properties) == (b"0,1,2,", b"WAIT\x01true\x02TAGS\x01d\x02")
    assert (op.born_host, op.flag, op.sys_flag) == (op.store_host, 0, 0)
    assert bodies(harness.stored("T", 1)) == [b"half", b"half"]


def test_many_ends_are_written_at_once(tmp_path: Path) -> None:
    harness = Harness(tmp_path, transactionOpMsgMaxSize="10")
    harness.topic("T")
    client = harness.connect()
    for number in range(7):
        client.ask(ending(half(harness, number, client), TRANSACTION_ROLLBACK))
    assert bodies(harness.stored(OP)) == [b"0,1,2,3,4,"]
    harness.driver.advance(3_000)
    assert bodies(harness.stored(OP)) == [b"0,1,2,3,4,", b"5,6,"]


def test_an_op_message_is_no_larger_than_a_message_may_be(tmp_path: Path) -> None:
    harness = Harness(tmp_path, transactionOpMsgMaxSize="1000", maxMessageSize="10")
    harness.topic("T")
    client = harness.connect()
    for number in range(7):
        client.ask(ending(half(harness, number, client), TRANSACTION_ROLLBACK))
    harness.driver.advance(6_000)
    assert bodies(harness.stored(OP)) == [b"0,1,2,3,4,", b"5,6,"]
    assert harness.node.halves.state(0, 6) is HalfState.ENDED


def test_nobody_is_answered_whose_transaction_has_no_end_yet(harness: Harness) -> None:
    unit = half(harness)
    client = harness.connect()
    client.send(ending(unit, TRANSACTION_NOT))
    assert client.answers == {}
    assert end(harness, unit, TRANSACTION_COMMIT).code == 0


@pytest.mark.parametrize("how", [TRANSACTION_PREPARED, TRANSACTION_COMMIT | 1, 99, -8])
def test_an_end_that_is_none_is_refused(harness: Harness, how: int) -> None:
    """Whoever asks so would wait for an answer in vain.  The half message is as it was."""
    unit = half(harness)
    answer = end(harness, unit, how)
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "commitOrRollback field wrong")
    assert end(harness, unit, TRANSACTION_COMMIT).code == 0


@pytest.mark.parametrize("first", [TRANSACTION_COMMIT, TRANSACTION_ROLLBACK])
@pytest.mark.parametrize("second", [TRANSACTION_COMMIT, TRANSACTION_ROLLBACK])
def test_attack_23_the_first_end_counts(harness: Harness, first: int, second: int) -> None:
    unit = half(harness)
    assert end(harness, unit, first).code == 0
    assert end(harness, unit, second).code == ResponseCode.SYSTEM_ERROR
    harness.driver.advance(4_000)
    assert end(harness, unit, second).code == ResponseCode.SYSTEM_ERROR
    harness.restart()
    assert end(harness, unit, second).code == ResponseCode.SYSTEM_ERROR
    harness.driver.advance(70_000)
    assert end(harness, unit, second).code == ResponseCode.SYSTEM_ERROR
    assert len(harness.stored("T", 1)) == (first == TRANSACTION_COMMIT)


@pytest.mark.parametrize("second", [TRANSACTION_COMMIT, TRANSACTION_ROLLBACK])
def test_attack_23_a_commit_counts_that_no_op_message_tells_of(harness: Harness, second: int) -> None:
    """The broker was killed before it wrote one: the committed message itself tells it."""
    unit = half(harness)
    assert end(harness, unit, TRANSACTION_COMMIT).code == 0
    assert harness.stored(OP) == []
    harness.restart(kill=True)
    harness.driver.advance(2_000)
    assert end(harness, unit, second).code == ResponseCode.SYSTEM_ERROR
    assert bodies(harness.stored("T", 1)) == [b"half"]


def test_two_ends_in_one_turn(harness: Harness) -> None:
    unit = half(harness)
    client = harness.connect()
    client.raw(client.frame(ending(unit, TRANSACTION_COMMIT)) + client.frame(ending(unit, TRANSACTION_ROLLBACK)))
    assert [client.answers[opaque].code for opaque in sorted(client.answers)] == [0, 1]
    assert len(harness.stored("T", 1)) == 1


@pytest.mark.parametrize(
    ("change", "remark"),
    [
        ({"producer_group": "other"}, "The producer group wrong"),
        ({"tran_state_table_offset": 7}, "The transaction state table offset wrong"),
        ({"commit_log_offset": 1 << 62}, "Find prepared transaction message failed"),
        ({"commit_log_offset": 1}, "Find prepared transaction message failed"),
        ({"commit_log_offset": -1}, "Find prepared transaction message failed"),
    ],
)
@pytest.mark.parametrize("how", [TRANSACTION_COMMIT, TRANSACTION_ROLLBACK])
def test_refused(harness: Harness, how: int, change: dict[str, Any], remark: str) -> None:
    unit = half(harness)
    answer = end(harness, unit, how, **change)
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, remark)
    assert harness.stored("T", 1) == []
    assert end(harness, unit, TRANSACTION_COMMIT).code == 0


def test_an_end_waits_for_its_half_message_to_be_visible(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is in the log, and its queue has not come so far."""
    unit = half(harness)
    unseen_by_queue(harness, monkeypatch, looks=3)
    client = harness.connect()
    opaque = client.send(ending(unit, TRANSACTION_COMMIT))
    harness.driver.advance(2 * UNSEEN_MS)
    assert opaque not in client.answers
    harness.driver.advance(UNSEEN_MS)
    assert client.answers[opaque].code == 0
    assert bodies(harness.stored("T", 1)) == [b"half"]


def test_an_end_of_what_cannot_be_read(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    unit = half(harness)
    unseen_by_queue(harness, monkeypatch, looks=0)
    cold = Cold(raises(OSError(5, "Input/output error")), "cold")
    with monkeypatch.context() as patch:
        patch.setattr(harness.node.store, "lookup_message", raises(cold))
        answer = end(harness, unit, TRANSACTION_COMMIT)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "Input/output error" in (answer.remark or "")
    assert end(harness, unit, TRANSACTION_COMMIT).code == 0


def test_an_end_does_not_wait_for_ever(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    unit = half(harness)
    unseen_by_queue(harness, monkeypatch, looks=1_000_000)
    client = harness.connect()
    opaque = client.send(ending(unit, TRANSACTION_COMMIT))
    harness.driver.advance(UNSEEN_MS * UNSEEN_TRIES)
    assert (client.answers[opaque].code, client.answers[opaque].remark) == (1, "Find prepared transaction message failed")


def unseen_by_queue(harness: Harness, patch: pytest.MonkeyPatch, looks: int) -> None:
    """So many looks do not find what is in the log; nothing is known of what came a moment ago."""
    store = harness.node.store
    real = store.lookup_message
    left = list(range(looks))
    patch.setattr(harness.node.halves.recent, "find", lambda _: None)
    patch.setattr(type(store), "undispatched", 1)
    patch.setattr(store, "lookup_message", lambda offset: None if left and left.pop() + 1 else real(offset))


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (PutStatus.MESSAGE_ILLEGAL, ResponseCode.MESSAGE_ILLEGAL),
        (PutStatus.PROPERTIES_SIZE_EXCEEDED, ResponseCode.MESSAGE_ILLEGAL),
        (PutStatus.SERVICE_NOT_AVAILABLE, ResponseCode.SERVICE_NOT_AVAILABLE),
        (PutStatus.CREATE_MAPPED_FILE_FAILED, ResponseCode.SYSTEM_ERROR),
        (PutStatus.LMQ_CONSUME_QUEUE_NUM_EXCEEDED, ResponseCode.SYSTEM_ERROR),
    ],
)
def test_a_commit_that_cannot_be_stored(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, status: PutStatus, code: ResponseCode
) -> None:
    """The producer hears why (`EndTransactionProcessor.sendFinalMessage`); the transaction is as open as before."""
    unit = half(harness)
    with monkeypatch.context() as patch:
        patch.setattr(harness.node.halves.intake, "stage_draft", raises(NotTaken(status)))
        answer = end(harness, unit, TRANSACTION_COMMIT)
    assert (answer.code, bool(answer.remark)) == (code, True)
    assert end(harness, unit, TRANSACTION_COMMIT).code == 0
    assert bodies(harness.stored("T", 1)) == [b"half"]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (CommitFailed(Closed.DISK_FULL), ResponseCode.SERVICE_NOT_AVAILABLE),
        (Illegal(IllegalKind.MESSAGE, "too large"), ResponseCode.MESSAGE_ILLEGAL),
    ],
)
def test_a_commit_that_cannot_be_written(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, error: StoreError, code: ResponseCode
) -> None:
    unit = half(harness)
    store = harness.node.store

    def commit() -> None:
        store.rollback_to(0)
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(store, "commit", commit)
        answer = end(harness, unit, TRANSACTION_COMMIT)
    assert answer.code == code
    assert harness.stored("T", 1) == []
    assert end(harness, unit, TRANSACTION_COMMIT).code == 0
    assert bodies(harness.stored("T", 1)) == [b"half"]


def raises(error: Exception) -> Callable[..., Any]:
    def fail(*_: object) -> Any:
        raise error

    return fail


def test_attack_22_what_only_looks_like_a_half_message_is_none(harness: Harness) -> None:
    given = pairs(PGROUP="P", REAL_TOPIC="T", REAL_QID="1", UNIQ_KEY=UNIQUE.format(9))
    harness.connect().ask(send(queue_id=2, properties=given), b"forged")
    [forged] = harness.stored("T", 2)
    answer = end(harness, forged, TRANSACTION_COMMIT)
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "Find prepared transaction message failed")
    image = half(harness, body=b"x")
    inside = half(harness, 1, body=bytes(2_000))
    assert end(harness, image, TRANSACTION_COMMIT, commit_log_offset=inside.physical_offset + 90).code == 1
    assert harness.stored("T", 1) == []


def test_attack_22_a_sender_does_not_count_checks(harness: Harness) -> None:
    unit = half(harness, TRANSACTION_CHECK_TIMES="15", TRAN_PREPARED_QUEUE_OFFSET="0")
    assert props(unit).keys().isdisjoint({"TRANSACTION_CHECK_TIMES", "TRAN_PREPARED_QUEUE_OFFSET"})


def test_an_end_after_the_time_that_its_sender_set(harness: Harness) -> None:
    unit = half(harness, CHECK_IMMUNITY_TIME_IN_SECONDS="10")
    harness.driver.advance(10_001)
    assert end(harness, unit, TRANSACTION_COMMIT).code == ResponseCode.ILLEGAL_OPERATION
    assert end(harness, unit, TRANSACTION_COMMIT, from_transaction_check=True).code == 0
    assert len(harness.stored("T", 1)) == 1


def test_a_commit_with_a_delay_level_is_delayed(harness: Harness) -> None:
    unit = half(harness, DELAY="1")
    assert end(harness, unit, TRANSACTION_COMMIT).code == 0
    assert harness.stored("T", 1) == []
    harness.driver.advance(1_100)
    [copy] = harness.stored("T", 1)
    assert (copy.body, copy.sys_flag, copy.queue_id) == (b"half", TRANSACTION_COMMIT, 1)


def test_a_broker_that_takes_none(tmp_path: Path) -> None:
    harness = Harness(tmp_path, rejectTransactionMessage="true")
    harness.topic("T")
    given = pairs(TRAN_MSG="true", PGROUP="P")
    answer = harness.connect().ask(send(properties=given), b"half")
    assert (answer.code, answer.remark) == (16, "the broker[127.0.0.1] sending transaction message is forbidden")


def test_retries_of_old_clients_are_ordinary_sends(harness: Harness) -> None:
    given = pairs(TRAN_MSG="true", PGROUP="P", DELAY="1")
    assert harness.connect().ask(send(properties=given, reconsume_times=1), b"again").code == 0
    assert harness.stored(HALF) == []


def test_half_messages_are_counted(harness: Harness) -> None:
    units = [half(harness, number) for number in range(3)]
    end(harness, units[0], TRANSACTION_COMMIT)
    harness.driver.advance(10_000)
    text = (harness.root / "config" / "transactionMetrics").read_text()
    version = f'{{"counter":4,"stateVersion":0,"timestamp":{WALL_MS + 2_000}}}'
    assert text == f'{{"dataVersion":{version},"transactionCount":{{"T":{{"count":2,"timeStamp":{WALL_MS + 2_000}}}}}}}'
    harness.restart()
    end(harness, units[1], TRANSACTION_ROLLBACK)
    assert harness.node.transaction_metrics.counts["T"][0] == 1


def test_resumed(harness: Harness) -> None:
    unit = half(harness)
    request = ResumeCheckHalfMessage(topic="T", msg_id=offset_message_id(unit.store_host, unit.physical_offset))
    assert harness.connect().ask(request).code == 0
    [_, copy] = harness.stored(HALF)
    assert props(copy) == {**props(unit), "TRANSACTION_CHECK_TIMES": "0"}
    assert end(harness, unit, TRANSACTION_ROLLBACK).code == ResponseCode.SYSTEM_ERROR
    assert end(harness, copy, TRANSACTION_COMMIT).code == 0
    assert harness.connect().ask(request).code == ResponseCode.SYSTEM_ERROR


@pytest.mark.parametrize("first", [True, False])
def test_what_was_committed_is_not_resumed(harness: Harness, first: bool) -> None:
    unit = half(harness)
    if not first:
        harness.driver.advance(31_000)
    assert end(harness, unit, TRANSACTION_COMMIT).code == 0
    harness.driver.advance(61_000)
    assert harness.node.halves.first(0) > unit.queue_offset
    for one in harness.stored(HALF):
        asked = ResumeCheckHalfMessage(msg_id=offset_message_id(one.store_host, one.physical_offset))
        assert harness.connect().ask(asked).code == 1
    assert len(harness.stored("T", 1)) == 1


@pytest.mark.parametrize("message_id", [None, "", "zz", "7F00000100002A9F00FFFFFFFFFFFFFF"])
def test_nothing_to_resume(harness: Harness, message_id: str | None) -> None:
    answer = harness.connect().ask(ResumeCheckHalfMessage(topic="T", msg_id=message_id))
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark == "Exception was thrown when putting message back to RMQ_SYS_TRANS_HALF_TOPIC."
