"""Pulls that wait: who wakes them, when they end, and that none is forgotten."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_impl.capabilities.pull import HOLD_MS_MAX, Pull
from broker_impl.state.waits import TICK_MS
from rmq_wire.codes import ResponseCode
from rmq_wire.headers.pull import PullMessage
from tests.support.driver import Client
from tests.support.engine import Harness
from tests.support.requests import COMMIT, SUBSCRIPTION, SUSPEND, heartbeat, pairs, pull, said, send, units

WAIT = SUBSCRIPTION | SUSPEND


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    harness = Harness(tmp_path)
    harness.topic("T")
    return harness


def waiting(harness: Harness, client: Client, asked: PullMessage) -> int:
    """Send a pull that must be held."""
    holds = len(capability(harness).holds)
    opaque = client.send(asked)
    assert opaque not in client.answers
    assert len(capability(harness).holds) == holds + 1
    return opaque


def capability(harness: Harness) -> Pull:
    found: Pull = harness.capability(11)
    return found


def test_an_arrival_ends_the_wait(harness: Harness) -> None:
    consumer, producer = harness.connect(), harness.connect()
    opaque = waiting(harness, consumer, pull(flags=WAIT))
    harness.driver.advance(3_000)
    producer.ask(send(), b"there")
    answer = consumer.answers.pop(opaque)
    assert (answer.code, [bytes(unit.body) for unit in units(answer.body)]) == (0, [b"there"])
    assert not capability(harness).holds


def test_only_its_own_queue_and_tags_wake_it(harness: Harness) -> None:
    consumer, producer = harness.connect(), harness.connect()
    heartbeat(consumer, expression="A")
    opaque = waiting(harness, consumer, pull(flags=SUSPEND, subscription=None, sub_version=1))
    producer.ask(send(queue_id=1, properties=pairs(TAGS="A")), b"x")
    producer.ask(send(properties=pairs(TAGS="B")), b"x")
    assert opaque not in consumer.answers
    producer.ask(send(properties=pairs(TAGS="A")), b"mine")
    assert [bytes(unit.body) for unit in units(consumer.answers.pop(opaque).body)] == [b"mine"]


def test_the_sweep_moves_it_past_what_it_does_not_want(harness: Harness) -> None:
    consumer, producer = harness.connect(), harness.connect()
    opaque = waiting(harness, consumer, pull(flags=WAIT, subscription="A"))
    producer.ask(send(properties=pairs(TAGS="B")), b"x")
    harness.driver.advance(5_000)
    code, remark, ext = said(consumer.answers.pop(opaque))
    assert (code, remark, ext["nextBeginOffset"]) == (ResponseCode.PULL_RETRY_IMMEDIATELY, "NO_MATCHED_MESSAGE", "1")


@pytest.mark.parametrize(("asks_ms", "waits_ms"), [(15_000, 15_000), (20_000, 20_000), (0, 0), (-1, 0), (2**63 - 1, HOLD_MS_MAX)])
def test_the_wait_ends_with_nothing(tmp_path: Path, asks_ms: int, waits_ms: int) -> None:
    harness = Harness(tmp_path, serverChannelMaxIdleTimeSeconds=1000)
    harness.topic("T")
    client = harness.connect()
    opaque = client.send(pull(flags=WAIT, suspend_timeout_millis=asks_ms))
    harness.driver.advance(max(waits_ms - 1, 0))
    if waits_ms:
        assert opaque not in client.answers
    harness.driver.advance(TICK_MS + 1)
    code, remark, ext = said(client.answers.pop(opaque))
    assert (code, remark) == (ResponseCode.PULL_NOT_FOUND, "NO_MESSAGE_IN_QUEUE")
    assert ext["nextBeginOffset"] == "0"
    assert not capability(harness).holds


def test_without_long_polling_the_wait_is_short(harness: Harness) -> None:
    harness.node.config.long_polling_enable = False
    client = harness.connect()
    opaque = waiting(harness, client, pull(flags=WAIT))
    harness.driver.advance(1_000 + TICK_MS)
    assert client.answers.pop(opaque).code == ResponseCode.PULL_NOT_FOUND


def test_it_waits_once_and_commits_once(harness: Harness) -> None:
    client, producer = harness.connect(), harness.connect()
    producer.ask(send(), b"x")
    opaque = waiting(harness, client, pull(offset=1, flags=WAIT | COMMIT, commit_offset=1))
    assert harness.node.offsets.query("G", "T", 0) == 1
    harness.node.offsets.commit("G", "T", 0, 0)
    harness.driver.advance(15_000 + TICK_MS)
    assert client.answers.pop(opaque).code == ResponseCode.PULL_NOT_FOUND
    assert harness.node.offsets.query("G", "T", 0) == 0


def test_only_not_found_waits(harness: Harness) -> None:
    client = harness.connect()
    assert client.ask(pull(offset=3, flags=WAIT)).code == ResponseCode.PULL_OFFSET_MOVED
    harness.connect().ask(send(properties=pairs(TAGS="B")), b"x")
    assert client.ask(pull(flags=WAIT, subscription="A")).code == ResponseCode.PULL_RETRY_IMMEDIATELY
    assert client.ask(pull(offset=1)).code == ResponseCode.PULL_NOT_FOUND


def test_a_pull_and_a_send_in_one_turn(harness: Harness) -> None:
    """In either order: the pull that finds nothing and the message that becomes visible must not miss each other."""
    for queue, pull_first in enumerate((True, False)):
        consumer, producer = harness.connect(), harness.connect()
        asked, sent = consumer.frame(pull(queue_id=queue, flags=WAIT)), producer.frame(send(queue_id=queue), b"x")
        arrived = [(consumer, asked), (producer, sent)]
        harness.driver.run(*(arrived if pull_first else reversed(arrived)))
        [answer] = consumer.answers.values()
        assert (answer.code, len(units(answer.body))) == (0, 1)


def test_all_who_wait_for_one_queue(harness: Harness) -> None:
    clients = [harness.connect() for _ in range(10)]
    asked = [
        (client, waiting(harness, client, pull(flags=WAIT, consumer_group=f"G{n % 3}"))) for n, client in enumerate(clients * 20)
    ]
    harness.connect().ask(send(), b"x")
    assert all(units(client.answers.pop(opaque).body) for client, opaque in asked)
    assert not capability(harness).holds


def test_two_hundred_that_end_together(harness: Harness) -> None:
    client = harness.connect()
    asked = [waiting(harness, client, pull(queue_id=n % 4, flags=WAIT)) for n in range(250)]
    harness.driver.advance(15_000 + TICK_MS)
    assert all(client.answers.pop(opaque).code == ResponseCode.PULL_NOT_FOUND for opaque in asked)


def test_those_of_a_closed_connection_are_dropped(harness: Harness) -> None:
    staying, leaving = harness.connect(), harness.connect()
    opaque = waiting(harness, staying, pull(flags=WAIT))
    waiting(harness, leaving, pull(flags=WAIT))
    waiting(harness, leaving, pull(queue_id=1, flags=WAIT))
    leaving.close()
    assert len(capability(harness).holds) == 1
    harness.connect().ask(send(), b"x")
    assert staying.answers.pop(opaque).code == 0
    harness.driver.advance(60_000)


def test_it_is_admitted_anew(harness: Harness) -> None:
    client = harness.connect()
    opaque = waiting(harness, client, pull(flags=WAIT))
    harness.node.topics.delete("T")
    harness.driver.advance(15_000 + TICK_MS)
    assert client.answers.pop(opaque).code == ResponseCode.TOPIC_NOT_EXIST


def test_a_reset_is_found_when_the_wait_ends(harness: Harness) -> None:
    client, producer = harness.connect(), harness.connect()
    producer.ask(send(), b"x")
    opaque = waiting(harness, client, pull(offset=1, flags=WAIT))
    harness.node.offsets.assign_reset("G", "T", 0, 0)
    harness.driver.advance(15_000 + TICK_MS)
    assert said(client.answers.pop(opaque))[1] == "OFFSET_RESET"


def test_a_peer_that_does_not_read_gets_no_messages_pushed(harness: Harness) -> None:
    """A thousand pulls on one connection, answered at once with 256 KiB each, would be 256 MiB for a peer that reads nothing."""
    client, producer = harness.connect(), harness.connect()
    producer.ask(send(queue_id=1), b"y" * (200 << 10))
    client.reads = False
    asked = [waiting(harness, client, pull(flags=WAIT)) for _ in range(200)]
    limit = client.peer.output_bytes_max
    for _ in range(5):
        producer.ask(send(), b"x" * (100 << 10))
    assert client.peer.unsent_bytes < limit + (1 << 20)
    client.read()
    codes = [client.answers.pop(opaque).code for opaque in asked]
    assert set(codes) == {0, ResponseCode.PULL_RETRY_IMMEDIATELY}


def test_under_sync_flush_the_disk_comes_first(tmp_path: Path) -> None:
    harness = Harness(tmp_path, flushDiskType="SYNC_FLUSH")
    harness.topic("T")
    consumer, producer = harness.connect(), harness.connect()
    opaque = waiting(harness, consumer, pull(flags=WAIT))
    harness.driver.held = True
    sent = producer.send(send(), b"x")
    assert opaque not in consumer.answers
    assert sent not in producer.answers
    harness.driver.held = False
    harness.driver.run()
    assert producer.answers.pop(sent).code == 0
    assert consumer.answers.pop(opaque).code == 0


def test_holds_are_limited(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker_impl.capabilities.pull.HOLDS_MAX", 3)
    client = harness.connect()
    for _ in range(3):
        waiting(harness, client, pull(flags=WAIT))
    assert said(client.ask(pull(flags=WAIT)))[:2] == (2, "[OVERLOAD]system busy, start flow control for a while")


def test_a_one_way_pull_does_not_wait(harness: Harness) -> None:
    client = harness.connect()
    client.send_oneway(pull(flags=WAIT))
    assert not capability(harness).holds
