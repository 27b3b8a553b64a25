"""Answers and the disk in trouble: a sync that is put off, one that cannot begin, and a store that a failed write has fenced."""

from __future__ import annotations

import errno

import pytest

from broker_impl.engine.commits import ANSWERS_PER_STEP
from broker_impl.engine.limits import Limits
from rmq_store.errors import Closed
from rmq_wire.codes import ResponseCode
from tests.broker.promises_kit import ASYNC, NOT_AVAILABLE, SYNC, Machine, put, read
from tests.support import bare_engine
from tests.support.bare_engine import server_with
from tests.support.fake_store import Ticket
from tests.support.memory_disk import Fault
from tests.support.requests import send

LOG = "/commitlog/"


def fail_one_write(machine: Machine) -> None:
    """The next write to the log ends with an I/O error."""
    machine.fail("write", LOG, errno.EIO, times=1)


# --- the turn


@pytest.mark.parametrize("error", [errno.EMFILE, errno.ENFILE])
def test_a_log_file_that_cannot_be_opened_ends_no_turn_and_its_sync_comes_later(error: int) -> None:
    machine = Machine(SYNC)
    client = machine.connect()
    machine.driver.turn((client, client.frame(send("T"), b"A")))
    machine.node.store._files.clear()
    machine.fail("open", LOG, error)
    machine.driver.run()
    machine.driver.advance(1000)
    assert 1 not in client.answers, "nothing has failed, and nothing is promised yet"
    machine.disk.faults = []
    machine.driver.advance(100)
    assert client.answers[1].code == 0
    machine.cut()
    assert machine.bodies() == [b"A"]


def test_a_log_file_that_is_gone_ends_no_turn_and_gets_14() -> None:
    machine = Machine(SYNC)
    client = machine.connect()
    machine.driver.turn((client, client.frame(send("T"), b"A")))
    machine.node.store._files.clear()
    machine.disk.unlink(f"/store{LOG}{0:020d}")
    machine.driver.run()
    assert client.answers[1].code == NOT_AVAILABLE
    assert machine.node.store.refusal is Closed.FENCED


def test_a_sync_that_cannot_begin_ends_no_turn_and_is_begun_again() -> None:
    server, store = server_with(sync_flush=True)
    client = server.connect()
    begin, broken = store.begin_sync, True

    def begin_sync(mono_ms: int, force: bool = False) -> Ticket | None:
        if broken:
            raise ZeroDivisionError("a bug of ours")
        return begin(mono_ms, force)

    store.begin_sync = begin_sync  # type: ignore[method-assign]
    client.send(bare_engine.put("a"))
    server.driver.run()
    assert not client.answers
    broken = False
    server.driver.advance(store.flush_interval_ms)
    assert client.answers[1].remark == "a"


# --- a store that a failed write has fenced


def test_who_was_written_before_a_failed_write_is_flushed_and_answered() -> None:
    machine = Machine(SYNC)
    client, other = machine.connect(), machine.connect()
    machine.driver.turn((client, client.frame(send("T"), b"A")))
    fail_one_write(machine)
    machine.driver.turn((other, other.frame(send("T"), b"B")))
    machine.driver.run()
    assert other.answers[1].code == NOT_AVAILABLE
    assert machine.node.store.refusal is Closed.FENCED
    assert client.answers[1].code == 0, "its flush does not depend on what came after it"
    assert read(machine.connect()) == [b"A"]
    machine.cut()
    assert machine.bodies() == [b"A"]


def fenced_behind_an_answer() -> Machine:
    """A is answered and not flushed, the write of B has failed."""
    machine = Machine(ASYNC)
    client = machine.connect()
    assert put(client, b"A") == 0
    fail_one_write(machine)
    assert put(client, b"B") == NOT_AVAILABLE
    return machine


def test_what_was_answered_before_a_failed_write_is_flushed_as_ever() -> None:
    machine = fenced_behind_an_answer()
    machine.driver.advance(600)
    machine.cut()
    assert machine.bodies() == [b"A"]


def test_a_stop_of_a_fenced_store_flushes_what_was_answered() -> None:
    machine = fenced_behind_an_answer()
    assert not machine.node.close()
    machine.cut()
    assert machine.bodies() == [b"A"]


def test_who_waits_when_no_flush_can_come_any_more_gets_14_at_once() -> None:
    machine = Machine(SYNC)
    client = machine.connect()
    machine.driver.turn((client, client.frame(send("T"), b"A")))
    machine.node.store.sync_failed(OSError(errno.EIO, "Input/output error"))
    machine.driver.run()
    assert client.answers[1].code == NOT_AVAILABLE, "and not 10 later, which clients take for stored"


def test_a_failed_write_and_a_failed_sync_answer_14() -> None:
    machine = Machine(SYNC)
    client, other = machine.connect(), machine.connect()
    machine.driver.turn((client, client.frame(send("T"), b"A")))
    fail_one_write(machine)
    machine.disk.faults.append(Fault("sync", error=errno.EIO, path_part=LOG))
    machine.driver.turn((other, other.frame(send("T"), b"B")))
    machine.driver.run()
    assert (client.answers[1].code, other.answers[1].code) == (NOT_AVAILABLE, NOT_AVAILABLE)


def test_many_who_wait_when_no_flush_can_come_get_14_in_steps() -> None:
    count = ANSWERS_PER_STEP + 10
    server, store = server_with(sync_flush=True, limits=Limits(flush_waiting_max=2 * count))
    store.sync_refusal = "sync failed: somewhere else"
    store.begin_sync = lambda mono_ms, force=False: None  # type: ignore[method-assign]
    client = server.connect()
    client.raw(b"".join([client.frame(bare_engine.put("a")) for _ in range(count)]))
    server.driver.run()
    server.driver.advance(50)
    codes = [answer.code for answer in client.answers.values()]
    assert codes == [ResponseCode.SERVICE_NOT_AVAILABLE] * count
    assert "somewhere else" in str(client.answers[1].remark)
