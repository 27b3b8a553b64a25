"""Answers that rest on the store: none leaves before it is written; failures undo; what was written is dispatched."""

from __future__ import annotations

import pytest

from broker_impl.engine.answers import Durable, Reply
from broker_impl.engine.limits import Limits
from rmq_net.service import Job
from rmq_store.errors import InvariantBroken
from rmq_wire.codes import ResponseCode
from rmq_wire.headers.clients import GetConsumerListByGroup
from rmq_wire.headers.positions import GetMinOffset
from tests.support.bare_engine import put, server_with, where
from tests.support.fake_store import CommitRefused

BUG, NOT_AVAILABLE = ResponseCode.SYSTEM_ERROR, ResponseCode.SERVICE_NOT_AVAILABLE


# Commit


@pytest.mark.parametrize("mode", [0, 1], ids=["durable", "not said to be durable"])
def test_answers_of_a_turn_leave_after_one_commit(mode: int) -> None:
    server, store = server_with()
    client = server.connect()
    client.raw(b"".join(client.frame(put(f"m{n}", mode)) for n in range(5)))
    assert [client.answers[n].remark for n in range(1, 6)] == ["m0", "m1", "m2", "m3", "m4"]
    assert store.written == ["m0", "m1", "m2", "m3", "m4"]
    assert store.commits == 1


@pytest.mark.parametrize("mode", [0, 1], ids=["durable", "not said to be durable"])
def test_a_failed_commit_turns_every_staged_answer_into_an_error(mode: int) -> None:
    server, store = server_with()
    client, other = server.connect(), server.connect()
    store.commit_error = CommitRefused("no space left")
    server.driver.run((client, client.frame(put("a", mode)) + client.frame(where(1))), (other, other.frame(put("b", mode))))
    assert [client.answers[1].code, client.answers[2].code, other.answers[1].code] == [NOT_AVAILABLE, 0, NOT_AVAILABLE]
    assert not store.written
    store.commit_error = None
    assert client.ask(put("c", mode)).code == 0
    assert store.written == ["c"]


def test_what_a_raising_handler_staged_is_dropped() -> None:
    server, store = server_with()
    client = server.connect()
    client.ask(put("a"))
    server.kit.broken = RuntimeError("after staging")
    assert client.ask(put("b")).code == BUG
    server.kit.broken = None
    client.ask(put("c"))
    assert store.written == ["a", "c"]


def test_what_a_turn_staged_before_a_bad_frame_is_kept() -> None:
    server, store = server_with()
    client = server.connect()
    client.raw(client.frame(put("a"), oneway=True) + b"\xff" * 8)
    assert client.closed
    assert store.written == ["a"]


def test_one_way_sends_are_written_and_not_answered() -> None:
    server, store = server_with()
    client = server.connect()
    client.send_oneway(put("a"))
    assert store.written == ["a"]
    assert not client.answers


def test_a_late_answer_that_staged_something_waits_for_the_commit_too() -> None:
    server, store = server_with()
    client = server.connect()
    opaque = client.send(GetMinOffset(topic="t", queue_id=0))
    [pending] = server.kit.pending

    def late() -> None:
        pending.answer(Durable(Reply(remark="late"), store.stage("late")))

    store.commit_error = CommitRefused("full")
    server.engine.at(server.env.mono_ms, late)
    server.driver.run()
    assert client.answers[opaque].code == NOT_AVAILABLE
    assert not store.written


def test_an_answer_behind_the_log_fences_the_store() -> None:
    """An invariant: nothing is acknowledged that is not there."""
    server, store = server_with()
    client = server.connect()
    opaque = client.send(GetMinOffset(topic="t", queue_id=0))
    [pending] = server.kit.pending
    pending.answer(Durable(Reply(remark="too far"), store.stage("a") + 1))
    server.driver.run()
    assert client.answers[opaque].code == NOT_AVAILABLE
    assert "no answer rests on what is behind the log" in store.fenced


def test_a_broken_invariant_of_a_flush_lets_no_answer_go() -> None:
    server, store = server_with(sync_flush=True)
    store.end_error = InvariantBroken("what is flushed only grows", "2 after 3")
    client = server.connect()
    opaque = client.send(put("a"))
    assert client.answers[opaque].code == NOT_AVAILABLE


def test_a_raising_callback_takes_the_answers_with_it_that_rested_on_its_stagings() -> None:
    server, store = server_with()
    client = server.connect()
    opaque = client.send(GetMinOffset(topic="t", queue_id=0))
    [pending] = server.kit.pending
    outcomes: list[BaseException | None] = []

    def late() -> None:
        pending.answer(Durable(Reply(), store.stage("late")))
        server.engine.after_commit(outcomes.append)
        raise RuntimeError("second thoughts")

    server.engine.at(server.env.mono_ms, late)
    server.driver.run()
    assert client.answers[opaque].code == NOT_AVAILABLE
    assert not store.written
    assert [type(error) for error in outcomes] == [RuntimeError]


@pytest.mark.parametrize("error", [None, CommitRefused("full")])
def test_who_stages_outside_a_request_hears_of_the_commit(error: Exception | None) -> None:
    server, store = server_with()
    outcomes: list[BaseException | None] = []

    def deliver() -> None:
        store.stage("due")
        server.engine.after_commit(outcomes.append)

    store.commit_error = error
    server.engine.at(server.env.mono_ms + 5, deliver)
    server.driver.advance(10)
    assert outcomes == [error]
    assert store.written == ([] if error else ["due"])


def test_the_background_task_that_staged_hears_of_a_failed_commit() -> None:
    server, store = server_with()
    client = server.connect()
    store.commit_error = CommitRefused("full")
    opaque = client.send(GetConsumerListByGroup(consumer_group="3"))
    assert [str(error) for error in server.kit.slice_errors] == ["full"] * 3
    assert client.answers[opaque].remark == "done"


# Dispatch


def test_dispatch_follows_the_answers_and_is_reported() -> None:
    server, store = server_with()
    client = server.connect()
    arrived: list[str] = []
    server.engine.on_arrival(lambda units: arrived.extend(units))
    server.engine.turn([(client.peer, client.frame(put("a")) + client.frame(put("b")))])
    assert store.written == ["a", "b"]
    assert not arrived
    server.engine.settle()
    assert arrived == ["a", "b"]


def test_what_is_staged_outside_a_request_is_dispatched_without_waiting() -> None:
    server, store = server_with()
    arrived: list[str] = []
    server.engine.on_arrival(lambda units: arrived.extend(units))

    def deliver() -> None:
        store.stage("due")

    server.engine.at(server.env.mono_ms + 5, deliver)
    server.driver.advance(5)
    assert arrived == ["due"]


def test_a_failing_arrival_callback_does_not_keep_the_others_from_hearing() -> None:
    server, _store = server_with()
    client = server.connect()
    arrived: list[str] = []

    def bad(units: object) -> None:
        raise RuntimeError("a bug")

    server.engine.on_arrival(bad)
    server.engine.on_arrival(lambda units: arrived.extend(units))
    assert client.ask(put("a")).code == 0
    assert arrived == ["a"]


def test_a_turn_dispatches_as_much_as_it_appended_and_more_when_there_is_more() -> None:
    server, store = server_with(limits=Limits(dispatch_units_min=3))
    store.written = [f"old {n}" for n in range(10)]
    client = server.connect()
    server.driver.turn((client, b"".join(client.frame(put(f"new {n}")) for n in range(5))))
    assert store.dispatched == 15
    store.written += [f"recovered {n}" for n in range(10)]
    server.engine._commits._left = 10  # type: ignore[union-attr]
    server.driver.turn((client, client.frame(put("x"))))
    assert store.dispatched == 18
    server.driver.run()
    assert store.undispatched == 0


def test_receiving_shrinks_while_dispatch_lags() -> None:
    server, store = server_with(limits=Limits(dispatch_units_min=1))
    client = server.connect()
    full = server.engine.receive_bytes_max
    store.written = [f"old {n}" for n in range(100)]
    server.engine._commits._left = 100  # type: ignore[union-attr]
    server.driver.turn()
    assert server.engine.receive_bytes_max == full
    server.env.advance(51)
    server.driver.turn((client, client.frame(where(1))))
    assert server.engine.receive_bytes_max < full
    server.driver.run()
    assert store.undispatched == 0
    assert server.engine.receive_bytes_max == full


def test_a_cold_read_is_a_job_of_its_own_lane() -> None:
    server, _store = server_with()
    results: list[object] = []
    job: Job = Job("read", lambda: b"cold", lambda result, error: results.append((result, error)))
    server.engine.job(job)
    server.driver.run()
    assert results == [(b"cold", None)]


# Bugs of ours stay where they are


def test_a_bug_in_a_continuation_ends_nothing() -> None:
    server, store = server_with()
    client = server.connect()

    def bug(*_arguments: object) -> None:
        raise RuntimeError("a bug")

    def deliver() -> None:
        store.stage("due")
        server.engine.after_commit(bug)

    server.engine.at(server.env.mono_ms, deliver)
    server.engine.job(Job("read", lambda: 1, bug))
    server.driver.run()
    assert store.written == ["due"]
    assert server.engine.counters.errors == 2
    assert client.ask(put("a")).code == 0


@pytest.mark.parametrize("late", [True, False])
def test_a_bug_in_making_the_answer_of_a_failure_gives_the_usual_one(late: bool) -> None:
    server, store = server_with(sync_flush=True)
    server.driver.held = True
    client = server.connect()
    opaque = client.send(GetMinOffset(topic="t", queue_id=0))

    def bug(*_arguments: object) -> Reply:
        raise RuntimeError("a bug")

    def answer() -> None:
        server.kit.pending[0].answer(Durable(Reply(remark="r"), store.stage("x"), late=bug, failed=bug))

    server.engine.at(server.env.mono_ms, answer)
    server.driver.run()
    if late:
        server.driver.advance(5_000)
    else:
        server.driver.end_job(OSError(5, "Input/output error"))
        server.driver.run()
    assert client.answers[opaque].code == (ResponseCode.FLUSH_DISK_TIMEOUT if late else NOT_AVAILABLE)


def test_a_store_that_fails_at_its_own_work_is_asked_again() -> None:
    server, store = server_with()
    ticks: list[int] = []

    def tick(mono_ms: int, wall_ms: int) -> None:
        ticks.append(mono_ms)
        raise RuntimeError("a bug")

    store.tick = tick  # type: ignore[method-assign]
    server.driver.advance(2_000)
    assert len(ticks) == 4
    assert server.connect().ask(put("a")).code == 0


def test_a_bug_in_reading_ends_that_connection_only(monkeypatch: pytest.MonkeyPatch) -> None:
    server, _store = server_with()
    bad, good = server.connect(), server.connect()

    def feed(data: object) -> object:
        raise RecursionError("too deep")

    monkeypatch.setattr(bad.peer, "conversation", type("Broken", (), {"feed": staticmethod(feed), "abandon": lambda self: []})())
    bad.raw(b"x")
    assert bad.closed
    assert good.ask(put("a")).code == 0
