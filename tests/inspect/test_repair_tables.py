"""`repair --tables`: topics and groups that no copy has any more are made again from queues and log; a start says so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rmq_store.disk.disk import RealDisk
from rmq_store.errors import StoreDamaged
from rmq_wire.headers.topics import GetTopicConfig
from tests.support.command import look
from tests.support.engine import Harness
from tests.support.requests import send

TORN = b'{"topicConfigTable":'
TOPICS, GROUPS, OFFSETS = "topics.json", "subscriptionGroup.json", "consumerOffset.json"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Two topics, one with a message in its fifth queue, and a group that gave one back; stopped."""
    harness = Harness(tmp_path / "store")
    client = harness.connect()
    for name, queue_id in (("Orders", 4), ("Bills", 0)):
        harness.topic(name, queues=5)
        assert client.ask(send(name, queue_id), b"x").code == 0
    harness.topic("%RETRY%readers", queues=1)
    assert client.ask(send("%RETRY%readers"), b"x").code == 0
    harness.stop()
    return tmp_path / "store"


def tear(store: Path, *names: str) -> None:
    for name in names:
        for copy in (name, name + ".bak"):
            (store / "config" / copy).write_bytes(TORN)


def test_a_start_names_every_lost_table_and_the_command(store: Path) -> None:
    tear(store, TOPICS, OFFSETS)
    with pytest.raises(StoreDamaged) as reported:
        Harness(store)
    said = str(reported.value)
    assert TOPICS in said
    assert OFFSETS in said
    assert GROUPS not in said
    assert f"rmq inspect repair {store} --tables" in said


def test_lost_topics_and_groups_are_made_again(store: Path) -> None:
    tear(store, TOPICS, GROUPS)
    assert look("repair", store, "--tables").status == 0
    for name in (TOPICS, GROUPS):
        for aside in (name, name + ".bak"):
            assert (store / "config" / f"{aside}.broken").read_bytes() == TORN, "kept"
            assert aside == name or not (store / "config" / aside).exists()
    harness = Harness(store)
    client = harness.connect()
    for name, queues in (("Orders", 5), ("Bills", 1), ("%RETRY%readers", 1)):
        asked = client.ask(GetTopicConfig(topic=name))
        assert json.loads(bytes(asked.body))["readQueueNums"] == queues, name
    assert "readers" in harness.node.groups
    assert [bytes(unit.body) for unit in harness.stored("Orders", 4)] == [b"x"]
    harness.stop()


def test_without_queues_the_log_decides(store: Path) -> None:
    tear(store, TOPICS)
    for path in sorted((store / "consumequeue").rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    seen = look("repair", store, "--tables", "--json")
    assert seen.status == 0
    made = json.loads((store / "config" / TOPICS).read_text())["topicConfigTable"]
    assert {name: row["writeQueueNums"] for name, row in made.items()} == {"Orders": 5, "Bills": 1, "%RETRY%readers": 1}


def test_topics_that_are_gone_beside_a_log_are_made_again(store: Path) -> None:
    for path in (store / "config").glob(f"{TOPICS}*"):
        path.unlink()
    seen = look("repair", store, "--tables", "--json")
    assert (seen.status, seen.rows[0]["made"], seen.rows[0]["topics"]) == (0, [TOPICS], 3)


def test_positions_cannot_be_made_and_that_is_said(store: Path) -> None:
    tear(store, OFFSETS, "delayOffset.json")
    seen = look("repair", store, "--tables")
    assert seen.status == 1
    assert f"lost: config/{OFFSETS}, no message says it" in seen.out
    Harness(store).stop()


def test_a_table_whose_json_is_of_another_shape_is_lost_too(store: Path) -> None:
    for copy in (TOPICS, f"{TOPICS}.bak"):
        (store / "config" / copy).write_text('{"topicConfigTable":[]}')
    with pytest.raises(StoreDamaged):
        Harness(store)
    assert look("repair", store, "--tables").status == 0
    Harness(store).stop()


def test_what_can_be_read_is_left_alone(store: Path) -> None:
    tear(store, GROUPS)
    (store / "config" / GROUPS).unlink()
    (store / "config" / TOPICS).write_bytes(TORN)  # its backup can be read
    before = {path.name: path.read_bytes() for path in (store / "config").iterdir()}
    assert look("repair", store, "--tables").status == 0
    after = {path.name: path.read_bytes() for path in (store / "config").iterdir()}
    assert {name for name in before | after if before.get(name) != after.get(name)} == {
        GROUPS,
        f"{GROUPS}.bak",
        f"{GROUPS}.bak.broken",
    }
    assert look("repair", store, "--tables").out == "no table is lost\n"


def test_a_running_broker_is_not_written_under(store: Path) -> None:
    tear(store, TOPICS)
    lock = RealDisk().lock(f"{store}/lock")
    assert lock is not None
    try:
        seen = look("repair", store, "--tables")
    finally:
        lock.release()
    assert seen.status == 2
    assert "a broker runs on this store" in seen.err
    assert (store / "config" / TOPICS).read_bytes() == TORN


def test_one_of_both_is_said(store: Path) -> None:
    assert look("repair", store).status == 2
    assert look("repair", store, "--tables", "--to", store.parent / "new").status == 2
