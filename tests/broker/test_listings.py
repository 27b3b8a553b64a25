"""Whole tables while they change: pages are of the table as it is, an answer that comes in slices stays whole."""

from __future__ import annotations

import json
from pathlib import Path

from rmq_wire import fastjson
from rmq_wire.headers.replication import GetAllConsumerOffset
from rmq_wire.headers.topics import DeleteTopic, GetAllTopicConfig
from tests.broker.saves_kit import FAILED, OK, Machine
from tests.support.driver import Client
from tests.support.engine import Harness

NAMES = [f"t{number:02}" for number in range(20)]


def paged(client: Client, version: str) -> list[str]:
    """Names, page by page, but for those of the broker's own."""
    found: list[str] = []
    for start in range(0, 200, 3):
        answer = client.ask(GetAllTopicConfig(topic_seq=start, max_topic_num=3, data_version=version))
        assert answer.code == OK
        found += json.loads(bytes(answer.body))["topicConfigTable"]
    return [name for name in found if name in NAMES]


def test_pages_are_of_the_table_as_it_is() -> None:
    machine = Machine(enableSplitMetadata="true")
    machine.driver.held = False
    for name in NAMES:
        machine.topic(name)
    machine.driver.advance(20_000)
    client, topics = machine.connect(), machine.node.topics

    def version() -> str:
        return topics.data_version.encode().decode()

    assert paged(client, version()) == NAMES
    assert client.ask(DeleteTopic(topic="t07")).code == OK
    assert paged(client, version()) == [name for name in NAMES if name != "t07"]
    machine.driver.held = True
    asked = machine.connect()
    opaque = asked.send(DeleteTopic(topic="t09"))
    assert "t09" not in paged(client, version())
    machine.full()
    machine.end_writes()
    assert asked.answers[opaque].code == FAILED
    assert paged(client, version()) == [name for name in NAMES if name != "t07"], "it is taken back"
    machine.disk.faults, machine.driver.held = [], False
    machine.topic("t07")
    assert paged(client, version()) == NAMES


def test_progress_that_goes_while_all_of_it_is_listed(tmp_path: Path) -> None:
    harness = Harness(tmp_path)
    offsets, client = harness.node.offsets, harness.connect()
    for number in range(2_000):
        offsets.commit(f"g{number:04}", "T", 0, number)
    frame = client.frame(GetAllConsumerOffset())
    harness.driver.turn((client, frame))
    opaque = client._opaque
    assert opaque not in client.answers
    for number in range(0, 2_000, 2):
        for _ in offsets.dropping_group(f"g{number:04}"):
            pass
    harness.driver.run()
    answer = client.answers[opaque]
    assert answer.code == OK
    listed = fastjson.loads(bytes(answer.body))["offsetTable"]
    for number in range(1, 2_000, 2):
        assert [*listed[f"T@g{number:04}"].values()] == [number]
    assert len(listed) < 2_000
