"""The configuration of one broker: what Java derives from the machine, and what must hold between properties.

How properties are read, checked, changed and listed is `broker_impl.properties`.  Java: `BrokerStartup`, `BrokerConfig`.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from typing import NamedTuple

from broker_impl.config_keys import keys
from broker_impl.effective_properties import EffectiveProperties
from broker_impl.properties import Properties, bad_value
from rmq_net.log import plain_text
from rmq_store.settings import BATCH_UNIT_BYTES, split_paths
from rmq_wire import names
from rmq_wire.bodies.data_version import DataVersion
from rmq_wire.implied.delay_levels import parse_delay_levels

MASTER_ID = 0
FAST_PORT_BELOW = 2
"""The fast port is this much below the listening port (`BrokerFastServer`)."""
HA_PORT_ABOVE = 1


class Machine(NamedTuple):
    """What Java reads off its surroundings.  `own_address`: the IP that others reach us by."""

    host_name: str = "localhost"
    own_address: str = "127.0.0.1"
    home: str = "/"
    processors: int = 2
    rocketmq_home: str | None = None
    namesrv_addr: str | None = None


class BrokerConfig(EffectiveProperties, Properties):
    """A broker's properties.  `entries`: what was set.  `path`: the file that changes are written to.  Raises `BadConfig`."""

    BLACK_LIST = ("brokerConfigPath", "rocketmqHome", "configBlackList")
    """Java: `AdminBrokerProcessor.initConfigBlackList`."""

    def __init__(
        self, entries: Mapping[str, str] | None = None, machine: Machine | None = None, *, path: str | None = None
    ) -> None:
        self.machine = machine or Machine()
        self.data_version = DataVersion()
        self.delay_levels: tuple[int, ...] = ()
        """`messageDelayLevel` in ms; index 0 is level 1."""
        super().__init__(keys(), entries or {}, path=path)

    @property
    def fast_port(self) -> int:
        """The second port, which takes no pulls."""
        return self.listen_port - FAST_PORT_BELOW

    @property
    def name_servers(self) -> tuple[str, ...]:
        """`namesrvAddr` taken apart: `host:port` each."""
        return tuple(piece.strip() for piece in (self.namesrv_addr or "").split(";") if piece.strip())

    def listening_on(self, port: int) -> None:
        """The port that was really taken, when any free one was asked for."""
        self._assign(keys()["listenPort"], str(port))
        if not self.is_set("haListenPort"):
            self._assign(keys()["haListenPort"], str(port + HA_PORT_ABOVE))

    def _derive(self) -> None:
        machine = self.machine
        workers = min(machine.processors, 4)
        pulls = 16 + machine.processors * 2
        derived: dict[str, str | int | None] = {
            "brokerName": machine.host_name,
            "brokerIP1": machine.own_address,
            "brokerIP2": machine.own_address,
            "rocketmqHome": machine.rocketmq_home,
            "namesrvAddr": machine.namesrv_addr,
            "storePathRootDir": os.path.join(machine.home, "store"),
            "sendMessageThreadPoolNums": workers,
            "putMessageFutureThreadPoolNums": workers,
            "pullMessageThreadPoolNums": pulls,
            "litePullMessageThreadPoolNums": pulls,
            "processReplyMessageThreadPoolNums": pulls,
            "queryMessageThreadPoolNums": 8 + machine.processors,
            "heartbeatThreadPoolNums": min(32, machine.processors),
            "endTransactionThreadPoolNums": max(8 + machine.processors * 2, 4 * workers),
            "clientCallbackExecutorThreads": machine.processors,
            "bitMapLengthConsumeQueueExt": self._filter_bits(),
            "haListenPort": int(self.text("listenPort") or 0) + HA_PORT_ABOVE,
        }
        for name, value in derived.items():
            self._default(name, value)
        if self.text("brokerId") != str(MASTER_ID):
            self.notices.append(f"brokerId={self.text('brokerId')} becomes 0: a master's id (as in Java)")
            self._texts["brokerId"] = str(MASTER_ID)

    def _filter_bits(self) -> int:
        """Bits of the filter by which Java would find a message's groups (`BloomFilter`); only the listing shows them."""
        wrong = int(self.text("maxErrorRateOfBloomFilter") or 0) / 100
        groups = int(self.text("expectConsumerNumUseFilter") or 0)
        if not 0 < wrong < 1 or groups < 1:
            return 0
        return -(-math.ceil(groups * math.log2(1 / wrong) * math.log2(math.e)) // 8) * 8

    def _is_listed(self, name: str) -> bool:
        return keys()[name].owner != "AuthConfig" or self.is_set(name)

    def _faults_of_the_whole(self) -> list[str]:
        faults = []
        for name in ("brokerName", "brokerClusterName"):
            text = self.text(name) or ""
            problem = names.path_problem(names.SYNC_BROKER_MEMBER_PREFIX + text) if text else "it is empty"
            if problem:
                faults.append(f"{name}={plain_text(text, 64)!r} cannot name a topic: {problem}")
        try:
            self.delay_levels = parse_delay_levels(self.message_delay_level)
        except ValueError as expected:
            faults.append(bad_value(keys()["messageDelayLevel"], self.message_delay_level, expected))
        for address in self.name_servers:
            host, _, port = address.rpartition(":")
            if not host or not re.fullmatch(r"[0-9]{1,9}", port) or int(port) > 65535:
                faults.append(f"namesrvAddr: {plain_text(address, 64)!r} is not host:port (several are separated by ;)")
        logs, read_only = split_paths(self.store_path_commit_log), split_paths(self.read_only_commit_log_store_paths)
        if read_only and "," not in (self.store_path_commit_log or ""):
            faults.append("readOnlyCommitLogStorePaths: storePathCommitLog must name several directories, with a comma")
        if logs and not set(logs) - set(read_only):
            faults.append("storePathCommitLog: all of its directories are read-only")
        if self.mapper_file_size_batch_consume_queue % BATCH_UNIT_BYTES:
            faults.append(f"mapperFileSizeBatchConsumeQueue: a multiple of {BATCH_UNIT_BYTES} is expected")
        return faults
