"""A whole broker on a real directory: at the moment an answer leaves, what it promises could not be taken by a power cut."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmq_wire.codes import ResponseCode
from rmq_wire.headers.offsets import UpdateConsumerOffset
from tests.support.engine import Harness
from tests.support.power import Power
from tests.support.requests import create_topic, heartbeat, send


@pytest.fixture
def power(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Power:
    return Power(tmp_path, monkeypatch)


def log_lost(power: Power, harness: Harness) -> list[str]:
    """But for the next file, which is made ahead and has nothing in it."""
    written = harness.node.store.written_offset
    return [path for path in power.lost("commitlog") if path == "commitlog" or int(path[-20:]) < written]


def test_a_send_is_answered_when_its_log_and_its_names_are_safe(tmp_path: Path, power: Power) -> None:
    harness = Harness(tmp_path, flushDiskType="SYNC_FLUSH", mappedFileSizeCommitLog=1 << 16)
    harness.topic()
    harness.driver.held = True
    client = harness.connect()
    for _ in range(10):
        opaque = client.send(send(), b"x" * 15_000)
        assert log_lost(power, harness)
        assert opaque not in client.answers
        while opaque not in client.answers:
            harness.driver.end_job()
            harness.driver.run()
        assert client.answers[opaque].code == ResponseCode.SUCCESS
        assert log_lost(power, harness) == []
    assert len(list((tmp_path / "commitlog").iterdir())) > 2


def test_under_async_flush_the_log_is_safe_an_interval_later(tmp_path: Path, power: Power) -> None:
    harness = Harness(tmp_path)
    harness.topic()
    client = harness.connect()
    assert client.ask(send(), b"x").code == ResponseCode.SUCCESS
    assert log_lost(power, harness)
    harness.driver.advance(1_000)
    assert log_lost(power, harness) == []


def test_a_topic_is_safe_before_its_maker_is_answered(tmp_path: Path, power: Power) -> None:
    harness = Harness(tmp_path)
    client = harness.connect()
    before = power.syncs
    assert client.ask(create_topic("New")).code == ResponseCode.SUCCESS
    assert power.syncs > before
    assert power.lost("config") == []
    assert b"New" in (tmp_path / "config" / "topics.json").read_bytes()


def test_progress_is_safe_every_five_seconds(tmp_path: Path, power: Power) -> None:
    harness = Harness(tmp_path)
    harness.topic()
    client = harness.connect()
    for _ in range(3):
        client.ask(send(), b"x")
    heartbeat(client)
    asked = UpdateConsumerOffset(consumer_group="G", topic="T", queue_id=0, commit_offset=2)
    assert client.ask(asked).code == ResponseCode.SUCCESS
    harness.driver.advance(30_000)
    assert b"T@G" in (tmp_path / "config" / "consumerOffset.json").read_bytes()
    assert power.lost("config") == []
