"""Answers that wait for the disk: under SYNC_FLUSH none leaves before it is flushed; groups gather; failures and time-outs."""

from __future__ import annotations

from broker_impl.engine.limits import Limits
from rmq_wire.codes import ResponseCode
from tests.support.bare_engine import put, server_with, where


def test_a_sync_flush_answer_waits_for_the_disk_and_the_next_group_gathers_meanwhile() -> None:
    server, store = server_with(sync_flush=True)
    server.driver.held = True
    client, other = server.connect(), server.connect()
    arrived: list[str] = []
    server.engine.on_arrival(lambda units: arrived.extend(units))
    client.send(put("a"))
    assert not client.answers
    assert store.written == ["a"]
    for text in ("b", "c"):
        other.send(put(text))
    assert len(server.driver.jobs) == 1
    server.driver.end_job()
    server.driver.run()
    assert [answer.remark for answer in client.answers.values()] == ["a"]
    assert not other.answers
    assert arrived == ["a"], "nothing above the flushed offset is visible"
    [job] = server.driver.jobs
    assert job.thread == "sync"
    server.driver.end_job()
    server.driver.run()
    assert [answer.remark for answer in other.answers.values()] == ["b", "c"]
    assert store.synced == [1, 3]
    assert arrived == ["a", "b", "c"]


def test_a_flush_begins_with_the_first_turn_that_brings_nothing_more_for_it() -> None:
    server, store = server_with(sync_flush=True)
    driver = server.driver
    driver.held = True
    client, other = server.connect(), server.connect()
    driver.turn((client, client.frame(put("a"))))
    assert server.engine.next_deadline() == server.env.mono_ms, "the next turn comes at once"
    driver.turn((other, other.frame(put("b"))))
    assert not driver.jobs
    driver.turn()
    driver.end_job()
    driver.run()
    assert store.synced == [2]
    assert (client.answers[1].remark, other.answers[1].remark) == ("a", "b")


def test_who_was_let_go_shares_the_flush_of_those_who_came_meanwhile() -> None:
    server, store = server_with(sync_flush=True)
    driver = server.driver
    driver.held = True
    client, other = server.connect(), server.connect()
    client.send(put("a"))
    other.send(put("b"))
    driver.end_job()
    driver.turn((client, client.frame(put("c"))))
    assert client.answers[1].remark == "a"
    assert not driver.jobs
    driver.turn()
    driver.end_job()
    driver.run()
    assert store.synced == [1, 3]


def test_a_flush_is_not_put_off_for_ever_by_those_who_send_on() -> None:
    limits = Limits(flush_gather_turns_max=3)
    server, store = server_with(sync_flush=True, limits=limits)
    driver = server.driver
    driver.held = True
    client = server.connect()
    for group in range(2):
        for turn in range(limits.flush_gather_turns_max):
            driver.turn((client, client.frame(put(f"{group} {turn}"))))
            assert not driver.jobs
        driver.turn((client, client.frame(put(f"{group} last"))))
        assert len(driver.jobs) == 1
        driver.end_job()
    assert store.synced == [4, 8]


def test_waiting_for_a_store_that_flushes_no_more_does_not_keep_the_engine_busy() -> None:
    server, store = server_with(sync_flush=True)
    client = server.connect()
    store.begin_sync = lambda mono_ms, force=False: None  # type: ignore[method-assign]
    client.send(put("a"))
    server.driver.run()
    assert not client.answers
    server.driver.advance(5_000)
    assert client.answers[1].code == ResponseCode.FLUSH_DISK_TIMEOUT


def test_a_message_that_does_not_wait_is_answered_after_the_commit() -> None:
    server, _store = server_with(sync_flush=True)
    server.driver.held = True
    client = server.connect()
    client.raw(client.frame(put("a")) + client.frame(put("b", 2)))
    assert [answer.remark for answer in client.answers.values()] == ["b"]


def test_answers_not_said_to_be_durable_wait_for_the_disk_as_well() -> None:
    server, _store = server_with(sync_flush=True)
    server.driver.held = True
    client = server.connect()
    client.send(put("a", 1))
    assert not client.answers
    server.driver.end_job()
    server.driver.run()
    assert client.answers[1].remark == "a"


def test_a_disk_that_does_not_answer_in_time_gives_the_timeout_code_with_the_same_header() -> None:
    server, _store = server_with(sync_flush=True)
    server.driver.held = True
    client = server.connect()
    client.send(put("a"))
    server.driver.advance(3000)
    client.send(put("b"))
    server.driver.advance(1999)
    assert not client.answers
    server.driver.advance(1)
    assert [(a.code, a.remark) for a in client.answers.values()] == [(ResponseCode.FLUSH_DISK_TIMEOUT, "a")]
    server.driver.end_job()
    server.driver.held = False
    server.driver.run()
    assert client.answers[2].code == 0


def test_a_failed_flush_answers_14_to_all_who_wait_and_never_0() -> None:
    server, store = server_with(sync_flush=True)
    server.driver.held = True
    client, other = server.connect(), server.connect()
    client.send(put("a"))
    other.send(put("b"))
    server.driver.end_job(OSError(5, "Input/output error"))
    server.driver.run()
    assert client.answers[1].code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert other.answers[1].code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert store.flushed_offset == 0
    assert not server.driver.jobs, "the store is fenced: no second flush"


def test_too_many_waiting_answers_refuse_appends_with_busy() -> None:
    server, store = server_with(sync_flush=True, limits=Limits(flush_waiting_max=2))
    server.driver.held = True
    client = server.connect()
    for text in ("a", "b", "c"):
        client.send(put(text))
    assert client.answers[3].code == ResponseCode.SYSTEM_BUSY
    assert store.written == ["a", "b"]
    assert client.ask(where(1)).code == 0, "who does not append is served"


def test_too_much_behind_a_flush_that_hangs_refuses_appends_with_busy() -> None:
    """ASYNC_FLUSH: nobody waits for the disk, until so much waits that the next write would."""
    server, store = server_with(limits=Limits(unflushed_bytes_max=2))
    server.driver.held = True
    client = server.connect()
    client.ask(put("a"))
    server.driver.advance(500)
    for text in ("b", "c", "d", "e"):
        client.send(put(text))
    assert [client.answers.pop(opaque).code for opaque in sorted(client.answers)] == [
        0,
        0,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.SYSTEM_BUSY,
    ]
    assert client.ask(where(1)).code == 0, "who does not append is served"
    server.driver.held = False
    server.driver.run()
    assert client.ask(put("f")).code == 0
    assert store.written == ["a", "b", "c", "f"]


def test_the_asker_may_go_while_its_answer_waits() -> None:
    server, store = server_with(sync_flush=True)
    server.driver.held = True
    client = server.connect()
    client.send(put("a"))
    client.close()
    server.driver.end_job()
    server.driver.run()
    assert store.flushed_offset == 1
    assert server.engine.drained


def test_async_flush_runs_by_the_store_s_own_schedule() -> None:
    server, store = server_with()
    client = server.connect()
    client.ask(put("a"))
    server.driver.advance(499)
    assert store.flushed_offset == 0
    server.driver.advance(500)
    assert store.flushed_offset == 1


def test_a_stop_waits_for_answers_that_wait_for_the_disk() -> None:
    server, _store = server_with(sync_flush=True)
    server.driver.held = True
    client = server.connect()
    client.send(put("a"))
    server.engine.drain()
    assert not server.engine.drained
    assert server.engine.opened(("127.0.0.1", 1), ("127.0.0.1", 2), "main") is None
    server.driver.end_job()
    server.driver.run()
    assert client.answers[1].code == 0
    assert server.engine.drained
