"""A consumer of many topics: what it does again and again grows with its queues, not with their square."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from trio.testing import MockClock

from rmq_client.consuming.process_queue import ProcessQueue
from rmq_net.log import Log
from rmq_wire.fastjson import MessageQueue
from tests.client.consumers import FIRST, Heard
from tests.client.fake_cluster import client_of
from tests.client.sim_cluster import SimCluster
from tests.support.mock_time import pass_time

TOPICS = 50


class Counting(dict[MessageQueue, ProcessQueue]):
    """Counts walks through all of it."""

    walks = 0

    def __iter__(self) -> Iterator[MessageQueue]:
        self.walks += 1
        return super().__iter__()

    def items(self):  # type: ignore[no-untyped-def]
        self.walks += 1
        return super().items()


async def test_a_round_looks_through_the_queues_once(autojump_clock: MockClock, tmp_path: Path) -> None:
    cluster = SimCluster(1, queues=1)
    topics = [f"T{number}" for number in range(TOPICS)]
    cluster.topics |= set(topics)
    told = {"message_model": "BROADCASTING", "local_offset_store_dir": tmp_path, **FIRST}
    async with (
        client_of(cluster) as client,
        client.push_consumer("G", dict.fromkeys(topics, "*"), Heard(), **told) as consumer,
    ):
        await pass_time(5)
        assert len(consumer.queues) == 2 * TOPICS
        assignment = consumer._assignment
        assignment.queues = counted = Counting(assignment.queues)
        counted.walks = 0
        assert not await assignment.share_out(dict.fromkeys(topics))
        assert assignment.balanced
        assert counted.walks == 1


async def test_who_leaves_while_routes_are_renewed_says_nothing_of_each(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = SimCluster(1, queues=1)
    topics = [f"T{number}" for number in range(TOPICS)]
    cluster.topics |= set(topics)
    said: list[str] = []
    monkeypatch.setattr(Log, "warning", lambda self, text, *_: said.append(text))
    async with client_of(cluster) as client:
        for topic in topics:
            await client.route(topic)
        await client.connections.aclose()  # as leaving does
        await pass_time(30.1)
    assert said == []
