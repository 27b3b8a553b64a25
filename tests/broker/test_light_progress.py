"""Progress of light groups (`enableLmq`) is bounded, and goes with its topic, like that of others."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from broker_impl.state import consumer_offsets
from broker_impl.state.light import LightConsumerOffsets
from rmq_wire import names
from rmq_wire.headers.offsets import QueryConsumerOffset, UpdateConsumerOffset
from rmq_wire.headers.topics import DeleteTopic
from tests.support.driver import Client
from tests.support.engine import Harness
from tests.support.requests import send

LIGHT = "%LMQ%G"


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    return Harness(tmp_path, enableLmq="true").begun()


def commit(client: Client, offset: int, group: str = LIGHT, topic: str = "T") -> int:
    return client.ask(UpdateConsumerOffset(consumer_group=group, topic=topic, queue_id=0, commit_offset=offset)).code


def progress(client: Client, group: str = LIGHT, topic: str = "T") -> str | None:
    asked = QueryConsumerOffset(consumer_group=group, topic=topic, queue_id=0, set_zero_if_not_found=False)
    return client.ask(asked).ext_map().get("offset")


@pytest.mark.parametrize("restart", [False, True])
def test_a_topic_that_is_made_again_begins_anew(harness: Harness, restart: bool) -> None:
    client = harness.connect()
    harness.topic("Other")
    for topic in ("T", "Other"):
        for _ in range(5):
            client.ask(send(topic), b"x")
        assert commit(client, 5, topic=topic) == 0
    assert client.ask(DeleteTopic(topic="T")).code == 0
    harness.topic("T")
    for _ in range(9):
        client.ask(send("T"), b"x")
    if restart:
        harness.restart()
        client = harness.connect()
    assert progress(client) in (None, "0")
    assert progress(client, topic="Other") == "5"


def test_so_much_is_kept(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer_offsets, "ROWS_MAX", 10)
    client = harness.connect()
    codes = [commit(client, 0, f"%LMQ%G{number}") for number in range(20)]
    assert codes == [0] * 10 + [1] * 10
    assert commit(client, 0, "%LMQ%G3") == 0
    harness.node.offsets.commit("%LMQ%G15", "T", 0, 1, "a pop")
    assert progress(client, "%LMQ%G15") is None
    assert not harness.node.offsets.is_full("G"), "others have room of their own"


def test_the_rows_are_looked_at_once_however_many_topics_go(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """POP topics of retries go with their topic."""
    client = harness.connect()
    assert commit(client, 0) == 0
    for number in range(20):
        harness.node.offsets.commit(f"G{number}", "T", 0, 1, "a client")
        harness.topic(names.pop_retry_topic("T", f"G{number}", v2=False))
    looks = []
    drop = LightConsumerOffsets._drop_light

    def counted(self: LightConsumerOffsets, keys: Iterable[str]) -> None:
        looks.append(1)
        drop(self, keys)

    monkeypatch.setattr(LightConsumerOffsets, "_drop_light", counted)
    assert client.ask(DeleteTopic(topic="T")).code == 0
    assert len(looks) == 1
    assert progress(client) is None
