"""How often a table is written: many changes share one write, and who waits for what is in none gets another.

What an answer may rest on, and what a failed write takes back: `test_saves.py`.
"""

from __future__ import annotations

import pytest

from broker_impl.saves import THREAD
from rmq_wire.bodies.topics import TopicConfig
from tests.broker.saves_kit import OK, Machine, answered
from tests.support.requests import create_topic, send


@pytest.fixture
def machine() -> Machine:
    return Machine()


def test_many_changes_are_one_write(machine: Machine) -> None:
    clients = [machine.connect() for _ in range(50)]
    machine.driver.run(*((client, client.frame(create_topic(f"T{n}"))) for n, client in enumerate(clients)))
    assert not any(client.answers for client in clients)
    machine.end_writes()
    assert [answered(client) for client in clients] == [[OK]] * 50
    assert machine.writes() == 1


def test_what_comes_during_a_write_shares_the_next(machine: Machine) -> None:
    clients = [machine.connect() for _ in range(20)]
    for number, client in enumerate(clients):
        client.send(create_topic(f"T{number}"))
    assert sum(job.thread == THREAD for job in machine.driver.jobs) == 1
    machine.end_writes()
    assert [answered(client) for client in clients] == [[OK]] * 20
    assert machine.writes() == 2


def test_a_write_holds_nobody_else_up(machine: Machine) -> None:
    machine.driver.held = False
    machine.topic("T")
    machine.driver.held = True
    maker, other = machine.connect(), machine.connect()
    maker.send(create_topic("New"))
    assert other.ask(send("T"), b"x").code == OK
    assert not maker.answers
    machine.end_writes()
    assert answered(maker) == [OK]


def test_what_leans_on_a_change_that_is_being_written_needs_no_write_of_its_own(machine: Machine) -> None:
    machine.connect().send(create_topic("New"))
    machine.node.topics.leaned_on()
    machine.driver.run()
    machine.end_writes()
    assert machine.writes() == 1


def test_who_waits_for_a_change_that_nobody_asked_to_write_yet_is_called(machine: Machine) -> None:
    """It came while the table was being written, and is not in that write."""
    topics, called = machine.node.topics, list[object]()
    machine.connect().send(create_topic("New"))
    topics.changed(at_once=False)
    topics.when_saved(called.append)
    machine.end_writes()
    assert called == [None]
    assert machine.writes() == 2
    assert not topics.dirty


def test_a_table_that_could_not_be_written_is_not_tried_again_at_once(machine: Machine) -> None:
    """Nobody waits for it any more; the next change, or the next look at the tables, writes it."""
    machine.full()
    machine.connect().send(create_topic("New"))
    machine.driver.end_job()
    machine.driver.run()
    assert not machine.driver.jobs
    assert machine.node.topics.dirty


def test_which_tables_are_on_their_way_to_the_disk(machine: Machine) -> None:
    """From the change, through the write, to its end: before it and after it `when_saved` calls at once."""
    saves, topics, called = machine.node.saves, machine.node.topics, list[str]()

    def note(word: str) -> None:
        topics.when_saved(lambda _no: called.append(word))

    note("before")
    topics.put(TopicConfig(topic_name="New"))
    note("gathered")
    assert called == ["before"]
    machine.driver.run()
    assert topics in saves.writing
    note("written")
    assert called == ["before"]
    machine.driver.end_job()
    machine.driver.run()
    assert called == ["before", "gathered", "written"]
    note("after")
    assert called[-1] == "after"
