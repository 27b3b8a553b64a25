"""Resets (222) and deleted topics (215) whose progress cannot be written: taken back, or it is said that they are not."""

from __future__ import annotations

import errno

import pytest

from broker_impl.state import consumer_offsets
from rmq_wire.codes import ResponseCode
from rmq_wire.command import Command
from rmq_wire.headers.groups import DeleteSubscriptionGroup
from rmq_wire.headers.offsets import CloneGroupOffset, QueryConsumerOffset, ResetOffset, UpdateConsumerOffset
from rmq_wire.headers.topics import DeleteTopic
from tests.broker.saves_kit import FAILED, OK, Machine
from tests.support.driver import Client
from tests.support.memory_disk import Fault
from tests.support.requests import create_topic, pull, send

QUEUES = 3
MESSAGES = 5


@pytest.fixture
def machine() -> Machine:
    """Topic T with five messages in each of three queues; G has read four of each of the first two, all on the disk."""
    made = Machine()
    made.driver.held = False
    made.topic("T", QUEUES)
    made.node.groups.find("G")
    client = made.connect()
    for number in range(MESSAGES * QUEUES):
        assert client.ask(send("T", number % QUEUES), b"m%d" % number).code == OK
    for queue_id in range(QUEUES - 1):
        assert client.ask(commit(queue_id)).code == OK
    made.driver.advance(20_000)
    made.driver.held = True
    return made


def commit(queue_id: int, offset: int = 4) -> UpdateConsumerOffset:
    return UpdateConsumerOffset(consumer_group="G", topic="T", queue_id=queue_id, commit_offset=offset)


def reset(queue_id: int = -1, offset: int = -1) -> ResetOffset:
    """To the beginning, or one queue to an offset."""
    return ResetOffset(group="G", topic="T", timestamp=0, is_force=True, queue_id=queue_id, offset=offset)


def progress(client: Client) -> list[int]:
    """In each queue, -1 for none."""
    found = []
    for queue_id in range(QUEUES):
        asked = QueryConsumerOffset(consumer_group="G", topic="T", queue_id=queue_id, set_zero_if_not_found=False)
        answer = client.ask(asked)
        found.append(int(answer.ext_map()["offset"]) if answer.code == OK else -1)
    return found


def full(machine: Machine) -> None:
    """From now on no progress can be written."""
    machine.disk.faults = [Fault("write", times=1 << 30, error=errno.ENOSPC, path_part="/config/consumerOffset")]


def refused(machine: Machine, client: Client, *numbers: int) -> list[Command]:
    machine.end_writes()
    answers = [client.answers.pop(number) for number in numbers]
    assert [answer.code for answer in answers] == [FAILED] * len(numbers)
    return answers


def test_a_reset_that_cannot_be_written_is_taken_back(machine: Machine) -> None:
    client = machine.connect()
    full(machine)
    number = client.send(reset())
    assert progress(client) == [0, 0, 0]
    [no] = refused(machine, client, number)
    assert (no.remark or "").startswith("consumerOffset.json could not be written: ")
    assert "members were told" not in (no.remark or "")
    assert progress(client) == [4, 4, -1]
    assert client.ask(pull("T", 0, 4)).code == OK, "nobody is told of a reset"
    assert client.ask(commit(0, 5)).code == OK
    assert progress(client) == [5, 4, -1]
    machine.disk.faults = []
    machine.driver.advance(20_000)
    machine.end_writes()
    assert progress(machine.after().connect()) == [5, 4, -1]


def test_a_reset_of_many_queues_is_taken_back_in_each(machine: Machine) -> None:
    client = machine.connect()
    client.send(create_topic("T", 300))
    machine.end_writes()
    for queue_id in range(300):
        machine.node.offsets.commit("G", "T", queue_id, 4)
    full(machine)
    refused(machine, client, client.send(reset()))
    assert set((machine.node.offsets.queues("G", "T") or {}).values()) == {4}
    assert not machine.node.offsets.has_resets


def test_a_member_who_was_told_of_the_reset_goes_on_there(machine: Machine) -> None:
    client = machine.connect()
    full(machine)
    number = client.send(reset())
    assert client.ask(pull("T", 1, 4)).code == ResponseCode.PULL_OFFSET_MOVED
    assert client.ask(commit(1, 2)).code == OK
    [no] = refused(machine, client, number)
    assert (no.remark or "").endswith("; but members were told of it in 1 queues and go on there")
    assert progress(client) == [4, 2, -1]


def test_a_reset_before_it_waits_again(machine: Machine) -> None:
    """It was answered 0, and no member has heard of it yet."""
    client = machine.connect()
    number = client.send(reset(0, 2))
    machine.end_writes()
    assert client.answers[number].code == OK
    full(machine)
    refused(machine, client, client.send(reset()))
    assert progress(client) == [2, 4, -1]
    told = client.ask(pull("T", 0, 4))
    assert (told.code, told.ext_map()["nextBeginOffset"]) == (ResponseCode.PULL_OFFSET_MOVED, "2")


def test_of_several_at_once_none_is_left(machine: Machine) -> None:
    """A reset waits until the one before it has ended: what is taken back says what was there."""
    tools = [machine.connect() for _ in range(3)]
    full(machine)
    numbers = [tool.send(reset(0, offset)) for offset, tool in zip((3, 2, 1), tools, strict=True)]
    other = tools[0].send(ResetOffset(group="H", topic="T", timestamp=0, is_force=True, queue_id=0))
    for number, tool in zip(numbers, tools, strict=True):
        refused(machine, tool, number)
    assert tools[0].answers[other].code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    assert progress(machine.connect()) == [4, 4, -1]
    machine.disk.faults = []
    numbers = [tool.send(reset(0, offset)) for offset, tool in zip((3, 2, 1), tools, strict=True)]
    machine.end_writes()
    assert [tool.answers[number].code for number, tool in zip(numbers, tools, strict=True)] == [OK] * 3
    assert progress(machine.connect()) == [1, 4, -1]


def test_who_goes_away_keeps_nobody_else_waiting(machine: Machine) -> None:
    gone, client = machine.connect(), machine.connect()
    gone.send(reset(0, 3))
    number = client.send(reset(0, 2))
    gone.close()
    machine.end_writes()
    assert client.answers[number].code == OK
    assert progress(client) == [2, 4, -1]


def test_a_reset_that_has_no_room_in_one_queue_counts_in_none(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    client = machine.connect()
    monkeypatch.setattr(consumer_offsets, "PROGRESS_MAX", 1)
    answer = client.ask(reset())
    assert (answer.code, answer.remark) == (FAILED, consumer_offsets.FULL)
    assert progress(client) == [4, 4, -1]
    assert not machine.node.offsets.has_resets


def test_a_group_that_is_deleted_meanwhile_gets_nothing_back(machine: Machine) -> None:
    client, operator = machine.connect(), machine.connect()
    full(machine)
    number = client.send(reset())
    deleted = operator.send(DeleteSubscriptionGroup(group_name="G", clean_offset=True))
    machine.driver.run()
    machine.driver.jobs.rotate(-1)  # the table of groups is written first
    machine.driver.end_job()
    machine.driver.run()
    assert operator.answers[deleted].code == OK
    [no] = refused(machine, client, number)
    assert "members were told" not in (no.remark or "")
    assert progress(client) == [-1] * QUEUES
    assert machine.node.offsets.queues("G", "T") is None
    assert not machine.node.offsets.has_resets


def test_what_was_copied_from_another_group_meanwhile_stays(machine: Machine) -> None:
    client, operator = machine.connect(), machine.connect()
    machine.node.groups.find("H")
    for queue_id in range(QUEUES):
        machine.node.offsets.commit("H", "T", queue_id, 1 + queue_id)
    machine.end_writes()
    full(machine)
    number = client.send(reset())
    assert operator.ask(CloneGroupOffset(src_group="H", dest_group="G", topic="T", offline=True)).code == OK
    refused(machine, client, number)
    assert progress(client) == [1, 2, 3]


def test_a_topic_is_deleted_also_when_the_progress_in_it_cannot_be_written(machine: Machine) -> None:
    client = machine.connect()
    full(machine)
    [no] = refused(machine, client, client.send(DeleteTopic(topic="T")))
    but = (
        "the topic is deleted, but a start before the file is written finds the progress in it: consumerOffset.json could not be "
    )
    assert (no.remark or "").startswith(but)
    assert "T" not in machine.node.topics
    assert progress(client) == [-1] * QUEUES
