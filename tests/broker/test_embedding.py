"""A broker and the name server of its own process: what changes while everything is being entered."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from broker_impl.engine.slices import finished
from rmq_wire.bodies.topics import TopicConfig
from tests.support.engine import Harness
from tests.support.engine_session import EngineSession

TOPICS = 600
"""Several slices."""


def test_a_permission_reaches_all_topics_though_one_changes_meanwhile(tmp_path: Path) -> None:
    """What changes comes first, under the newest version: the table must not come under the same."""
    session = EngineSession(tmp_path / "names")
    harness = Harness(tmp_path / "broker").begun()
    node = harness.node
    names = [f"t{number:03}" for number in range(TOPICS)]
    node.topics.put_all([TopicConfig(topic_name=name, read_queue_nums=4, write_queue_nums=4) for name in names])
    harness.driver.run()
    finished(node.register_with(session.server))

    def permissions() -> dict[int, int]:
        rows = session.server.table.topics
        return Counter(rows[name][node.config.broker_name].perm for name in names)

    assert set(permissions()) == {6}
    node.config.broker_permission = 4
    node._register_anew()
    harness.driver.turn()
    changed = TopicConfig(topic_name="t001", read_queue_nums=5, write_queue_nums=5)
    node.topics.put(changed)
    node.topics.announce([changed])
    harness.driver.run()
    assert set(permissions()) == {4}
    version = node.topics.data_version.copy()
    for _ in range(3):
        harness.driver.advance(30_000)
    assert node.topics.data_version == version, "once is enough"
    assert set(permissions()) == {4}
