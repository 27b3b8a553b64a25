"""A whole broker without sockets: every capability on a real store; a test says what arrives and what time it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from broker_impl.config import BrokerConfig, Machine
from broker_impl.engine.limits import Limits
from broker_impl.env import Env
from broker_impl.intake import NotTaken, PutStatus
from broker_impl.node import BrokerNode
from rmq_store.disk.disk import Disk, RealDisk
from rmq_store.errors import Closed, CommitFailed
from rmq_wire.bodies.topics import TopicConfig
from rmq_wire.message import StoredMessage
from tests.support.driver import Client, Driver
from tests.support.requests import WALL_MS, units

SETTINGS = {
    "brokerClusterName": "DefaultCluster",
    "brokerName": "broker-a",
    "brokerIP1": "127.0.0.1",
    "listenPort": "10911",
    "mappedFileSizeCommitLog": str(1 << 20),
    "mappedFileSizeConsumeQueue": "6000",
    "maxHashSlotNum": "1000",
    "maxIndexNum": "4000",
    "diskSpaceWarningLevelRatio": "99",
}


def broker_node(
    env: Env,
    root: Path | str,
    *,
    limits: Limits | None = None,
    disk: Disk | None = None,
    path: Path | None = None,
    **settings: Any,
) -> BrokerNode:
    """A small broker in this directory.  path: of its configuration file; settings: those of `SETTINGS` are its own."""
    entries = {**SETTINGS, **{key: str(value) for key, value in settings.items()}, "storePathRootDir": str(root)}
    config = BrokerConfig(entries, Machine(home=str(root)), path=None if path is None else str(path))
    return BrokerNode(env, config, disk or RealDisk(), limits)


class Harness:
    """One broker in a directory.  `restart` closes it cleanly (or just drops it, `kill=True`) and opens it again."""

    def __init__(
        self,
        root: Path | str,
        limits: Limits | None = None,
        *,
        disk: Disk | None = None,
        path: Path | None = None,
        **settings: Any,
    ) -> None:
        self.root = root
        self.limits = limits
        self.disk: Any = disk
        self.path = path
        self.settings = settings
        self.env = Env(wall_ms=WALL_MS, mono_ms=1_000, host=str(settings.get("brokerIP1", SETTINGS["brokerIP1"])))
        self.open()

    def open(self) -> None:
        """A start on what is there."""
        self.node = broker_node(self.env, self.root, limits=self.limits, disk=self.disk, path=self.path, **self.settings)
        self.driver = Driver(self.node.engine)
        self.driver.run()

    def begun(self) -> Harness:
        """With topic T, two seconds later: delay levels, timer and checks have looked for what waits, and wait themselves."""
        self.topic("T")
        self.driver.advance(2_000)
        return self

    def restart(self, *, kill: bool = False) -> None:
        if kill:
            self.node.store._lock.release()
        else:
            self.stop()
        self.open()

    def stop(self) -> None:
        """A clean one."""
        assert self.node.close(), "no clean stop"

    def connect(self, remote: str = "127.0.0.1") -> Client:
        return self.driver.connect(remote)

    def topic(self, name: str = "T", queues: int = 4, perm: int = 6, **more: Any) -> TopicConfig:
        """Make a topic as a tool would; it is on the disk, unless jobs are held."""
        made = TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=perm, **more)
        self.node.topics.put(made)
        self.driver.run()
        return made

    def capability(self, code: int) -> Any:
        """Whoever answers this code."""
        handle: Any = self.node.engine._rows[code].handle
        return handle.__self__

    def stored(self, topic: str = "T", queue_id: int = 0) -> list[StoredMessage]:
        """Every message of a queue, as it lies in the log."""
        low, high = self.node.store.queue_bounds(topic, queue_id)
        found: list[StoredMessage] = []
        while low < high:
            read = self.node.store.read_queue(topic, queue_id, low, high - low, 1 << 27)
            found += units(b"".join(bytes(chunk) for chunk in read.chunks))
            low = read.next_offset
        return found


def refusing(harness: Harness, patch: pytest.MonkeyPatch, times: int) -> None:
    """So often a message that comes back by itself (delayed, timed, ended) is not taken, as when the store shuts."""
    intake = harness.node.halves.intake
    real, left = intake.stage_draft, [PutStatus.SERVICE_NOT_AVAILABLE] * times

    def stage_draft(*arguments: Any) -> Any:
        if left:
            raise NotTaken(left.pop())
        return real(*arguments)

    patch.setattr(intake, "stage_draft", stage_draft)


def failing_commits(harness: Harness, patch: pytest.MonkeyPatch, times: int = 1_000) -> list[int]:
    """So often nothing that is staged can be written, as on a full disk; what is left of these times: once cleared, it can be."""
    store, left = harness.node.store, list(range(times))
    real = store.commit

    def commit() -> None:
        if left and store._log.staged:
            left.pop()
            store.rollback_to(0)
            raise CommitFailed(Closed.DISK_FULL)
        real()

    patch.setattr(store, "commit", commit)
    return left
