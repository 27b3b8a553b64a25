"""Work beside the requests that fails half way, and askers that go meanwhile: nothing of theirs is left behind."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from broker_impl.engine.answers import Pause, Reply, Settled
from broker_impl.engine.call import Call
from broker_impl.engine.cold_reads import ColdReads
from rmq_store.errors import Cold
from rmq_wire.codes import ResponseCode
from rmq_wire.command import Command
from rmq_wire.conversation import Conversation
from rmq_wire.headers.positions import GetMaxOffset
from tests.support.bare_engine import Server, put, question, where
from tests.support.driver import Client
from tests.support.fake_store import FakeStore

Slices = Generator[None, None, None]
SUCCESS, BUG = ResponseCode.SUCCESS, ResponseCode.SYSTEM_ERROR


def unreadable() -> Cold:
    """Bytes that are not in memory and cannot be read either."""

    def load() -> None:
        raise OSError(5, "Input/output error")

    return Cold(load, "bytes on a bad disk")


# Long work that fails after it staged


def test_a_slice_that_raises_takes_back_what_it_staged_and_no_more() -> None:
    store = FakeStore()
    server = Server(store=store)
    ends: list[str] = []
    reported: list[str] = []

    def work() -> Slices:
        store.stage("first slice")
        yield
        store.stage("second slice")
        server.engine.after_commit(lambda error: reported.append(str(error)))
        raise ValueError("half way")

    server.engine.in_background(work(), lambda _result, error: ends.append(str(error)))
    server.driver.run()
    assert ends == reported == ["half way"]
    assert server.connect().ask(put("afterwards")).code == SUCCESS
    assert store.written == ["first slice", "afterwards"]


def test_a_request_in_slices_that_fails_after_it_staged_is_refused_and_stores_nothing() -> None:
    store = FakeStore()
    server = Server(store=store)
    client = server.connect()

    def work() -> Generator[None, None, Reply]:
        yield
        store.stage("half of it")
        raise ValueError("half way")

    server.kit.answer = work()
    answer = client.ask(GetMaxOffset(topic="t", queue_id=0))
    assert (answer.code, answer.remark) == (BUG, "ValueError: half way")
    assert client.ask(put("afterwards")).code == SUCCESS
    assert store.written == ["afterwards"]


# Peers that are being closed


def test_who_is_being_closed_gets_what_it_was_sent_before_and_nothing_more() -> None:
    """The answer of a send leaves after the commit: by then the bytes that cannot be read have ended the connection."""
    store = FakeStore()
    server = Server(store=store)
    client = server.connect()
    client.raw(client.frame(where(7)) + client.frame(put("a")) + b"\xff" * 8)
    assert client.closed
    assert store.written == ["a"]
    assert list(client.answers) == [1]


def test_nothing_is_kept_for_who_has_gone() -> None:
    store = FakeStore(sync_flush=True)
    server = Server(store=store)
    server.driver.held = True
    client = server.connect()
    client.send(put("a"))
    client.close()
    server.driver.end_job()
    assert store.flushed_offset == 1
    assert not client.peer.write_buffer
    assert server.engine.drained


# Reads of what is not in memory


def asked(server: Server, client: Client) -> Call:
    """The call that a handler would be given."""
    [command] = Conversation().feed(client.frame(where(1)))
    assert isinstance(command, Command)
    return Call(server.engine._loop, client.peer, command)


@pytest.mark.parametrize("gone", [True, False])
def test_a_cold_read_is_tried_again_only_for_who_is_still_there(gone: bool) -> None:
    server = Server()
    server.driver.held = True
    client = server.connect()
    tries: list[int] = []
    cold = Cold(lambda: None, "a message")

    def attempt() -> Settled:
        tries.append(len(tries))
        if not cold.done:
            raise cold
        return Reply(remark="read")

    ColdReads(server.engine).answer(asked(server, client), attempt)
    server.driver.run()
    assert tries == [0]
    if gone:
        client.close()
    server.driver.end_job()
    server.driver.run()
    assert tries == ([0] if gone else [0, 1])
    assert [answer.remark for answer in client.answers.values()] == ([] if gone else ["read"])


def test_a_cold_read_that_fails_is_the_asker_s_answer() -> None:
    server = Server()
    client = server.connect()
    reads = ColdReads(server.engine)
    cold = unreadable()

    def attempt() -> Settled:
        raise cold

    reads.answer(asked(server, client), attempt)
    server.driver.run()
    [answer] = client.answers.values()
    assert (answer.code, answer.remark) == (BUG, "OSError: [Errno 5] Input/output error")


def test_long_work_hears_that_what_it_reads_cannot_be_loaded() -> None:
    server = Server()
    ends: list[tuple[object, str]] = []
    loads: list[str] = []

    def read() -> int:
        loads.append("tried")
        raise unreadable()

    server.engine.in_background(ColdReads(server.engine).warmed(read), lambda result, error: ends.append((result, str(error))))
    server.driver.run()
    assert ends == [(None, "[Errno 5] Input/output error")]
    assert loads == ["tried"], "not again and again"


def test_nobody_is_kept_awake_by_a_cold_read() -> None:
    """A long work that waits for the reading thread: the engine rests meanwhile, and goes on when the bytes are there."""
    server = Server()
    server.driver.held = True
    client = server.connect()
    cold = Cold(lambda: None, "a message")

    def read() -> str:
        if not cold.done:
            raise cold
        return "read"

    def work() -> Generator[Pause | None, None, Reply]:
        return Reply(remark=(yield from ColdReads(server.engine).warmed(read)))

    server.kit.answer = work()
    opaque = client.send(question())  # fails when the engine asks for turn after turn
    assert opaque not in client.answers
    due = server.engine.next_deadline()
    assert due is None or due > server.env.mono_ms
    server.driver.end_job()
    server.driver.run()
    assert client.answers[opaque].remark == "read"


def test_a_handler_without_an_answer_is_a_bug_that_is_answered_and_counted() -> None:
    store = FakeStore()
    server = Server(store=store)
    client = server.connect()
    server.kit.answer = None  # type: ignore[assignment]
    answer = client.ask(question())
    assert (answer.code, server.engine.counters.errors) == (ResponseCode.SYSTEM_ERROR, 1)
    client.send_oneway(question())
    assert server.engine.counters.errors == 2
    assert client.ask(where(7)).code == 0


def test_a_long_work_without_an_answer_is_a_bug_that_is_answered_and_counted() -> None:
    server = Server()
    client = server.connect()

    def work() -> Generator[None, None, None]:
        yield

    server.kit.answer = work()  # type: ignore[assignment]
    assert client.ask(question()).code == ResponseCode.SYSTEM_ERROR
    assert server.engine.counters.errors == 1
