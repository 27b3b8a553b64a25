"""Between commit, flush and dispatch, counted exactly: who waits, how long, and when nobody waits any more."""

from __future__ import annotations

from collections.abc import Generator
from itertools import pairwise

import pytest

from broker_impl.engine.answers import Refusal, Reply, Settled
from broker_impl.engine.call import Call
from broker_impl.engine.cold_reads import ColdReads
from broker_impl.engine.commits import ANSWERS_PER_STEP, Commits
from broker_impl.engine.limits import Limits
from rmq_store.errors import Cold
from rmq_wire.codes import ResponseCode
from rmq_wire.command import Command
from rmq_wire.conversation import Conversation
from rmq_wire.headers.positions import GetMaxOffset, GetMinOffset
from tests.support.bare_engine import Server, put, where
from tests.support.fake_store import CommitRefused, FakeStore


def commits_of(server: Server) -> Commits:
    commits = server.engine._commits
    assert commits is not None
    return commits


def test_each_late_answer_comes_at_its_own_time() -> None:
    server = Server(store=FakeStore(sync_flush=True))
    server.driver.held = True
    client = server.connect()
    for text in ("a", "b", "c"):
        client.send(put(text))
        server.driver.advance(1_000)
    said = []
    for _ in range(4):
        server.driver.advance(999)
        said.append(len(client.answers))
        server.driver.advance(1)
    assert said == [0, 0, 1, 2]
    assert [answer.code for answer in client.answers.values()] == [ResponseCode.FLUSH_DISK_TIMEOUT] * 3
    assert server.engine.drained


def test_what_is_flushed_already_waits_for_nothing() -> None:
    """A request that rests on what others stored before it."""
    store = FakeStore(sync_flush=True)
    server = Server(store=store)
    client = server.connect()
    assert client.ask(put("a")).code == ResponseCode.SUCCESS
    assert store.flushed_offset == 1
    server.driver.held = True
    store.stage = lambda _text: store.flushed_offset  # type: ignore[method-assign, assignment]
    server.driver.turn((client, client.frame(put("seen before"))))
    assert client.answers[2].code == ResponseCode.SUCCESS, "in the turn in which it was asked"
    assert not server.driver.jobs


@pytest.mark.parametrize("outcome", ["flushed", "failed", "late"])
def test_who_waits_for_one_flush_is_answered_in_steps_and_in_order(outcome: str) -> None:
    """65,536 may wait: a quarter of a second if they were answered at once."""
    server = Server(store=FakeStore(sync_flush=True))
    server.driver.held = True
    clients = [server.connect() for _ in range(5)]
    for client in clients:
        client.raw(b"".join(client.frame(put("a")) for _ in range(ANSWERS_PER_STEP // 2)))
        server.driver.run()
    commits = commits_of(server)
    if outcome == "flushed":
        server.driver.end_job()  # it began with the first of them
        server.driver.run()
    said = [sum(len(client.answers) for client in clients)]
    waiting = len(commits.waiting)
    assert waiting > 3 * ANSWERS_PER_STEP // 2
    if outcome == "late":
        server.driver.advance(Limits().flush_wait_ms_max)
    else:
        server.driver.end_job(OSError(5, "Input/output error") if outcome == "failed" else None)
        server.driver.run()
    for _ in range(5):
        said.append(sum(len(client.answers) for client in clients))
        server.driver.advance(1)
    steps = [after - before for before, after in pairwise(said)]
    assert max(steps) <= ANSWERS_PER_STEP
    assert sum(steps) == waiting
    codes = {"flushed": 0, "failed": ResponseCode.SERVICE_NOT_AVAILABLE, "late": ResponseCode.FLUSH_DISK_TIMEOUT}
    for client in clients:
        assert list(client.answers) == sorted(client.answers)
        assert {answer.code for answer in client.answers.values()} == {codes[outcome]}
    assert not commits.waiting


def test_what_a_flush_let_go_is_no_failure_of_the_next_one() -> None:
    """Those who are still to be answered in the next step when a later flush fails."""
    server = Server(store=FakeStore(sync_flush=True))
    server.driver.held = True
    client = server.connect()
    client.raw(b"".join(client.frame(put("a")) for _ in range(ANSWERS_PER_STEP + 100)))
    server.driver.run()
    commits = commits_of(server)
    commits.store.flushed_offset = commits.store.written_offset - 50  # type: ignore[misc]
    server.driver.end_job(OSError(5, "Input/output error"))
    for _ in range(5):
        server.driver.advance(1)
    codes = [client.answers[opaque].code for opaque in sorted(client.answers)]
    assert codes == [ResponseCode.SUCCESS] * (ANSWERS_PER_STEP + 50) + [ResponseCode.SERVICE_NOT_AVAILABLE] * 50


def test_a_disk_that_hangs_a_second_time_is_logged_a_second_time() -> None:
    server = Server(store=FakeStore(sync_flush=True))
    client = server.connect()
    for opaque in (1, 2):
        server.driver.held = True
        client.send(put("x"))
        server.driver.advance(5_000)
        assert client.answers[opaque].code == ResponseCode.FLUSH_DISK_TIMEOUT
        server.driver.held = False
        server.driver.run()


def test_what_is_behind_a_flush_is_counted_from_what_is_flushed() -> None:
    store = FakeStore()
    server = Server(store=store, limits=Limits(unflushed_bytes_max=3))
    client = server.connect()
    for number in range(5):
        client.ask(put(str(number)))
    server.driver.advance(500)
    assert store.flushed_offset == 5
    client.ask(put("the flush that hangs"))
    server.driver.held = True
    server.driver.advance(500)
    for text in ("second", "third"):
        assert client.ask(put(text)).code == ResponseCode.SUCCESS
    assert not commits_of(server).full
    assert client.ask(put("fourth")).code == ResponseCode.SUCCESS
    assert commits_of(server).full


def test_dispatch_that_has_caught_up_under_load_lags_no_more() -> None:
    """Though at no time there is nothing to dispatch."""
    store = FakeStore()
    server = Server(store=store)
    commits = commits_of(server)
    store.written = ["a", "b"]
    commits._left = 2
    store.dispatch_max = 1
    commits.limits = Limits(dispatch_units_min=1)
    commits.dispatch()
    assert commits.behind
    store.dispatch_max = None
    commits.limits = Limits(dispatch_units_min=5)
    for _ in range(3):
        store.written.append("more")
        server.env.advance(40)
        commits.dispatch()
        assert store.undispatched == 0
    assert not commits.behind
    assert not commits.lagging


def test_what_somebody_else_dispatched_is_not_behind() -> None:
    store = FakeStore()
    server = Server(store=store)
    commits = commits_of(server)
    store.written = ["a", "b", "c"]
    commits._left = 3
    store.dispatch_max = 1
    commits.limits = Limits(dispatch_units_min=1)
    commits.dispatch()
    assert commits.behind
    store.dispatched = 3
    commits.dispatch()
    server.env.advance(100)
    assert not commits.behind
    assert not commits.lagging


def test_who_is_answered_is_not_idle() -> None:
    """A held pull that is answered late: the peer's 120 s begin anew."""
    server = Server()
    client = server.connect()
    client.send(GetMinOffset(topic="t", queue_id=0))
    server.driver.advance(100_000)
    server.kit.pending[0].answer(Reply())
    server.driver.run()
    server.driver.advance(100_000)
    assert not client.closed
    server.driver.advance(21_000)
    assert client.closed


def test_a_lawful_no_after_a_cold_read_is_the_answer() -> None:
    server = Server()
    client = server.connect()
    cold = Cold(lambda: None, "a message")

    def attempt() -> Settled:
        if not cold.done:
            raise cold
        raise Refusal(ResponseCode.QUERY_NOT_FOUND, "not found")

    [command] = Conversation().feed(client.frame(where(1)))
    assert isinstance(command, Command)
    ColdReads(server.engine).answer(Call(server.engine._loop, client.peer, command), attempt)
    server.driver.run()
    [answer] = client.answers.values()
    assert (answer.code, answer.remark) == (ResponseCode.QUERY_NOT_FOUND, "not found")
    assert server.engine.counters.errors == 0


def test_long_work_that_nobody_waits_for_is_logged_when_it_fails(caplog: pytest.LogCaptureFixture) -> None:
    server = Server()

    def work() -> Generator[None, None, None]:
        yield
        raise ValueError("half way")

    server.engine.in_background(work())
    server.driver.run()
    assert server.engine.counters.errors == 1
    assert "half way" in caplog.text


def test_an_answer_that_cannot_be_written_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    server = Server()
    client = server.connect()
    server.kit.answer = Reply(body=b"x" * 16_777_216)
    assert client.ask(GetMaxOffset(topic="t", queue_id=0)).code == ResponseCode.SYSTEM_ERROR
    assert "cannot be written" in caplog.text


@pytest.mark.parametrize("places", [1, 3])
def test_a_read_may_meet_one_cold_place_after_another(places: int) -> None:
    server = Server()
    client = server.connect()
    colds = [Cold(lambda: None, f"place {number}") for number in range(places)]

    def attempt() -> Settled:
        for cold in colds:
            if not cold.done:
                raise cold
        return Reply(remark="read")

    [command] = Conversation().feed(client.frame(where(1)))
    assert isinstance(command, Command)
    ColdReads(server.engine).answer(Call(server.engine._loop, client.peer, command), attempt)
    server.driver.run()
    assert [answer.remark for answer in client.answers.values()] == ["read"]
    assert all(cold.done for cold in colds)
    assert server.engine.counters.errors == 0


def test_a_read_does_not_rest_on_what_a_one_way_send_staged_before_it() -> None:
    store = FakeStore()
    server = Server(store=store)
    client = server.connect()
    store.commit_error = CommitRefused("full")
    client.raw(client.frame(put("a"), oneway=True) + client.frame(where(1)))
    assert client.answers[2].code == ResponseCode.SUCCESS


def test_what_somebody_else_flushed_is_let_go() -> None:
    store = FakeStore(sync_flush=True)
    server = Server(store=store)
    client = server.connect()
    server.driver.turn((client, client.frame(put("a"))))
    assert not client.answers
    store.flushed_offset = store.written_offset
    server.driver.run()
    assert client.answers[1].code == ResponseCode.SUCCESS


@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), RuntimeError("a bug")])
def test_the_store_hears_of_a_failed_flush_as_an_error_of_the_disk(error: Exception) -> None:
    store = FakeStore(sync_flush=True)
    server = Server(store=store)
    heard: list[OSError | None] = []
    store.end_sync = lambda _ticket, why: heard.append(why)  # type: ignore[method-assign]
    server.driver.held = True
    client = server.connect()
    client.send(put("a"))
    server.driver.end_job(error)
    server.driver.run()
    [why] = heard
    assert isinstance(why, OSError)
    assert (why is error) is isinstance(error, OSError)
    assert str(error) in str(why)


def test_a_store_that_cannot_say_when_it_is_due_is_asked_a_second_later() -> None:
    store = FakeStore()
    server = Server(store=store)
    asked: list[int] = []

    def fails(mono_ms: int) -> int:
        asked.append(mono_ms)
        raise RuntimeError("a bug")

    store.next_due = fails  # type: ignore[method-assign]
    start = server.env.mono_ms
    server.driver.advance(3_600)
    assert [at - start for at in asked] == [500, 1_500, 2_500, 3_500]


def test_work_that_staged_nothing_does_not_hear_of_others_failures() -> None:
    store = FakeStore()
    server = Server(store=store)
    heard: list[str] = []
    ends: list[object] = []
    store.commit_error = CommitRefused("full")

    def work() -> Generator[None, None, int]:
        for _ in range(3):
            server.engine.at(server.env.mono_ms, stages)
            try:
                yield
            except CommitRefused as refused:
                heard.append(str(refused))
        return 5

    def stages() -> None:
        store.stage("somebody else's")

    server.engine.in_background(work(), lambda result, _error: ends.append(result))
    server.engine.at(server.env.mono_ms, stages)
    server.driver.run()
    assert ends == [5]
    assert store.commits >= 3
    assert heard == []


def test_too_much_behind_in_queues_and_index_refuses_appends_with_busy() -> None:
    """Messages with thousands of keys are put into the index more slowly than they come."""
    store = FakeStore()
    server = Server(store=store, limits=Limits(dispatch_behind_bytes_max=2))
    client = server.connect()
    store.dispatch_max = 0
    store.written = ["a", "b", "c", "d"]
    assert client.ask(put("e")).code == ResponseCode.SUCCESS, "nothing moves: that is for the disk to say"
    store.dispatch_max = 1
    commits_of(server).dispatch()
    assert client.ask(put("f")).code == ResponseCode.SYSTEM_BUSY
    assert client.ask(where(1)).code == ResponseCode.SUCCESS, "who does not append is served"
    server.driver.run()
    assert store.undispatched == 0
    assert client.ask(put("g")).code == ResponseCode.SUCCESS
