"""What a failed write of a table takes back is bounded, and what goes with a topic goes in portions."""

from __future__ import annotations

import pytest

from broker_impl.saves import THREAD
from rmq_wire.bodies.topics import TopicConfig
from rmq_wire.headers.groups import DeleteSubscriptionGroup, UpdateGroupForbidden
from rmq_wire.headers.topics import DeleteTopic
from rmq_wire.names import pop_retry_topic
from tests.broker.saves_kit import BUSY, FAILED, OK, Machine, answered, group, settled, state
from tests.support.requests import create_topic


def test_what_a_failed_write_takes_back_at_once_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it is undone in one piece: 65,536 changes kept everybody else waiting for a quarter of a second."""
    monkeypatch.setattr("broker_impl.state.persisted.UNSAVED_ROWS_MAX", 8)
    machine = Machine()
    settled(machine)
    before = state(machine)
    client = machine.connect()
    machine.node.topics.put(TopicConfig(topic_name="Begun"))  # its write is under way, what follows is gathered
    for number in range(20):
        client.send(create_topic(f"T{number}"))
        client.send(*group(f"G{number}"))
    refused = client.ask(DeleteTopic(topic="T0")), client.ask(DeleteSubscriptionGroup(group_name="G0"))
    assert {answer.code for answer in refused} == {BUSY}
    assert client.ask(UpdateGroupForbidden(group="G0", topic="T", readable=False)).code == BUSY
    codes = answered(client)
    assert codes == [BUSY] * (40 - 7 - 8)
    assert "T0" in machine.node.topics
    machine.full()
    machine.end_writes()
    assert answered(client).count(FAILED) == 7 + 8
    assert state(machine) == before
    machine.disk.faults = []
    assert client.send(create_topic("Later"))
    machine.end_writes()
    assert answered(client)[-1] == OK, "there is room again"


def test_a_batch_counts_with_all_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker_impl.state.persisted.UNSAVED_ROWS_MAX", 8)
    machine = Machine()
    machine.node.topics.put_all([TopicConfig(topic_name=f"T{number}") for number in range(8)])
    assert machine.connect().ask(create_topic("More")).code == BUSY


@pytest.mark.parametrize("fails", [False, True])
def test_a_topic_goes_after_its_retry_topics(monkeypatch: pytest.MonkeyPatch, fails: bool) -> None:
    """So many at a time: a topic that is still there can be deleted again."""
    monkeypatch.setattr("broker_impl.capabilities.topics.DELETED_AT_ONCE_MAX", 4)
    machine = Machine()
    topics, offsets = machine.node.topics, machine.node.offsets
    topics.put_all([TopicConfig(topic_name=name) for name in ("T", *(pop_retry_topic("T", f"g{n}", v2=False) for n in range(9)))])
    for number in range(9):
        offsets.commit(f"g{number}", "T", 0, 1)
    machine.end_writes()
    client = machine.connect()
    opaque = client.send(DeleteTopic(topic="T"))
    seen = []
    for _ in range(6):
        seen.append((len([name for name in topics.table if name.startswith("%RETRY%")]), "T" in topics))
        if fails and len(seen) == 2:
            machine.full()
        if any(job.thread == THREAD for job in machine.driver.jobs):
            machine.driver.end_job()
            machine.driver.run()
    if fails:
        assert client.answers[opaque].code == FAILED
        assert seen[-1][1], "the topic is there"
    else:
        assert client.answers[opaque].code == OK
        assert seen[:3] == [(5, True), (1, True), (0, False)]
