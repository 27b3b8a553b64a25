"""Tables and files that are to be written when something else goes wrong too: a stop, a slow disk, a full one, many who ask."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from rmq_wire.bodies.groups import SubscriptionGroupConfig, SubscriptionGroupList
from rmq_wire.bodies.topics import TopicConfig, TopicConfigList
from rmq_wire.codes import ResponseCode
from rmq_wire.headers.configuration import UpdateBrokerConfig
from rmq_wire.headers.groups import UpdateAndCreateSubscriptionGroupList
from rmq_wire.headers.offsets import UpdateConsumerOffset
from rmq_wire.headers.topics import CreateTopicList
from tests.broker.saves_kit import FAILED, OK, Machine
from tests.support.driver import Client
from tests.support.engine import Harness
from tests.support.requests import send
from tests.support.troubled_disk import TroubledDisk

GROUPS = 200


def commit(client: Client, offset: int, group: str = "g0") -> None:
    asked = UpdateConsumerOffset(consumer_group=group, topic="T", queue_id=0, commit_offset=offset)
    assert client.ask(asked).code == OK


def filled(root: Path) -> tuple[Harness, Client]:
    """Some messages; groups that have read one of them, which is on the disk."""
    harness = Harness(root).begun()
    client = harness.connect()
    for _ in range(5):
        assert client.ask(send("T"), b"x").code == OK
    for number in range(GROUPS):
        harness.node.groups.find(f"g{number}")
        commit(client, 1, f"g{number}")
    harness.driver.advance(20_000)
    return harness, client


def test_a_clean_stop_writes_a_table_whose_text_is_being_made(tmp_path: Path) -> None:
    harness, client = filled(tmp_path)
    for number in range(GROUPS):
        commit(client, 2, f"g{number}")
    node, engine = harness.node, harness.node.engine
    while node.offsets not in node.saves._writing:
        harness.env.advance(max((engine.next_deadline() or 0) - harness.env.mono_ms, 0))
        harness.driver.turn()
    assert not node.saves.writing, "nothing is on a thread yet"
    engine.drain()
    assert engine.drained
    assert node.close()
    harness.open()
    assert {harness.node.offsets.query(f"g{number}", "T", 0) for number in range(GROUPS)} == {2}


def test_a_clean_stop_writes_what_is_due_behind_a_slow_write(tmp_path: Path) -> None:
    harness, client = filled(tmp_path)
    harness.driver.held = True
    for offset in (2, 3):
        commit(client, offset)
        harness.driver.advance(6_000)
    assert harness.driver.jobs
    harness.node.engine.drain()
    while harness.driver.jobs:
        harness.driver.end_job()
    assert harness.node.close()
    harness.open()
    assert harness.node.offsets.query("g0", "T", 0) == 3


@pytest.mark.parametrize("is_there", [False, True])
def test_a_list_that_names_one_twice_is_taken_back_as_a_whole(is_there: bool) -> None:
    machine = Machine()
    machine.driver.held = False
    if is_there:
        machine.topic("Twice", 2)
        machine.node.groups.put(SubscriptionGroupConfig(group_name="Twice", retry_queue_nums=2))
        machine.driver.advance(20_000)
    before = machine.node.topics.get("Twice"), machine.node.groups.get("Twice")
    assert (before != (None, None)) is is_there
    machine.full()
    client = machine.connect()
    topics = [TopicConfig(topic_name="Twice", read_queue_nums=count, write_queue_nums=count) for count in (4, 8)]
    groups = [SubscriptionGroupConfig(group_name="Twice", retry_queue_nums=count) for count in (4, 8)]
    assert client.ask(CreateTopicList(), TopicConfigList(topic_config_list=topics).encode()).code == FAILED
    asked = UpdateAndCreateSubscriptionGroupList(), SubscriptionGroupList(group_config_list=groups).encode()
    assert client.ask(*asked).code == FAILED
    assert (machine.node.topics.get("Twice"), machine.node.groups.get("Twice")) == before


def test_a_file_that_cannot_be_written_is_tried_again_once_however_many_asked(tmp_path: Path) -> None:
    path = tmp_path / "broker.conf"
    path.write_text("")
    disk = TroubledDisk()
    harness = Harness(tmp_path / "store", disk=disk, path=path).begun()
    client = harness.connect()
    tried: list[str] = []

    def trouble(call: str, name: str, _: int) -> OSError | None:
        if call == "create" and "broker.conf" in name:
            tried.append(name)
            return OSError(errno.ENOSPC, "No space left on device")
        return None

    disk.trouble = trouble
    for _ in range(50):
        assert client.ask(UpdateBrokerConfig(), b"autoCreateTopicEnable=false\n").code == FAILED
        harness.driver.advance(37)
    for _ in range(3):
        tried.clear()
        harness.driver.advance(10_000)
        assert len(tried) == 1


@pytest.mark.parametrize(
    "line",
    [
        b"namesrvAddr=ns.example.com\n",
        b"namesrvAddr=10.0.0.1;10.0.0.2\n",
        b"maxErrorRateOfBloomFilter=0\n",
    ],
)
def test_what_no_broker_would_start_with_is_refused(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "broker.conf"
    path.write_text("")
    harness = Harness(tmp_path / "store", path=path).begun()
    config = harness.node.config
    before = config.values(), config.delay_levels, config.namesrv_addr
    answer = harness.connect().ask(UpdateBrokerConfig(), b"fileReservedTime=11\n" + line)
    assert answer.code == ResponseCode.INVALID_PARAMETER
    assert line.partition(b"=")[0].decode() in (answer.remark or "")
    assert (config.values(), config.delay_levels, config.namesrv_addr) == before
    assert config.file_reserved_time == 72
    assert path.read_text() == ""
