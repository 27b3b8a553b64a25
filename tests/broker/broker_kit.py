"""A whole broker on an engine, without sockets: the real store on a scratch directory, time and peers from the test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from broker_impl.config import BrokerConfig, Machine
from broker_impl.env import Env
from broker_impl.node import BrokerNode
from rmq_store.disk import Disk, RealDisk
from tests.support.driver import Client, Driver

WALL_MS = 1_700_000_000_000

SMALL = {
    "mappedFileSizeCommitLog": "1048576",
    "mappedFileSizeConsumeQueue": "60000",
    "maxHashSlotNum": "500",
    "maxIndexNum": "2000",
    "diskSpaceWarningLevelRatio": "100",
}
"""Store files of a megabyte."""


class Broker:
    """A `BrokerNode` with its driver.  `properties` are added to, or replace, those of a small broker named broker-a."""

    def __init__(
        self, root: Path, *, env: Env | None = None, disk: Disk | None = None, path: str | None = None, **properties: str
    ):
        self.env = env or Env(wall_ms=WALL_MS, mono_ms=50_000)
        entries = {"brokerName": "broker-a", "storePathRootDir": str(root), **SMALL, **properties}
        self.config = BrokerConfig(entries, Machine(host_name="host", home=str(root)), path=path)
        self.node = BrokerNode(self.env, self.config, disk or RealDisk())
        self.driver = Driver(self.node.engine)

    def connect(self, **options: Any) -> Client:
        return self.driver.connect(**options)

    def stop(self) -> bool:
        """An orderly stop."""
        return self.node.close()
