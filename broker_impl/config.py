"""The configuration of one broker: read from Java's property files and `KEY=VALUE` pairs, checked, changed while it runs.

Everything is read and checked before anything starts, and all faults are told at once, each with key, value and what was
expected.  Effective keys are typed attributes; all keys are kept as text, for Java's tools list them (26) and the file is
rewritten whole when one is changed from afar (25).  What the environment decides in Java (host name, address, processors) is
handed in.

Java: `BrokerStartup`, `Configuration`, `MixAll.properties2Object` (which swallows values it cannot read; we name them).
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from broker_impl.config_keys import MASK, Key, Value, keys, suggestions
from broker_impl.effective_properties import EffectiveProperties
from rmq_net.log import plain_text
from rmq_store.settings import BATCH_UNIT_BYTES, split_paths
from rmq_wire import names
from rmq_wire.bodies import properties_text
from rmq_wire.bodies.data_version import DataVersion
from rmq_wire.errors import BadBody
from rmq_wire.implied.delay_levels import parse_delay_levels

JAVA_BLACK_LIST = ("brokerConfigPath", "rocketmqHome", "configBlackList")
"""Keys that no request may touch; the property `configBlackList` adds others (`AdminBrokerProcessor.initConfigBlackList`)."""
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


class BadConfig(Exception):
    """The broker must not start with this configuration.  `faults`: one line each."""

    def __init__(self, faults: Iterable[str]) -> None:
        self.faults = list(faults)
        super().__init__("; ".join(self.faults))


class UpdateRefused(Exception):
    """A change from afar that is not made.  `forbidden`: the key may not be changed at all; else its value is not lawful."""

    def __init__(self, remark: str, *, forbidden: bool) -> None:
        super().__init__(remark)
        self.remark = remark
        self.forbidden = forbidden


def read_properties(data: bytes) -> dict[str, str]:
    """A property file: ISO 8859-1 with `\\uXXXX` as Java's `Properties.load(InputStream)` reads it.  Raises `BadConfig`."""
    try:
        return properties_text.loads(data.decode("latin-1"))
    except BadBody as wrong:
        raise BadConfig([str(wrong)]) from None


def read_pair(text: str) -> tuple[str, str]:
    """`KEY=VALUE` of a command line.  Raises `BadConfig`."""
    key, mark, value = text.partition("=")
    if not mark or not key.strip():
        raise BadConfig([f"{plain_text(text, 64)!r} is not KEY=VALUE"])
    return key.strip(), value.strip()


def unknown(name: str) -> str:
    """What is said of a property that nobody knows, with the known ones nearest to it."""
    near = suggestions(name)
    return f"unknown property {plain_text(name, 64)}" + (f" (near: {', '.join(near)})" if near else "")


class BrokerConfig(EffectiveProperties):
    """The effective properties as attributes, the others as text.

    `entries`: what was set.  `path`: the file that changes are written to.  Raises `BadConfig`.
    """

    def __init__(
        self, entries: Mapping[str, str] | None = None, machine: Machine | None = None, *, path: str | None = None
    ) -> None:
        self.machine = machine or Machine()
        self.path = path
        self.notices: list[str] = []
        """One line for each property that was set in vain."""
        self.unknown: dict[str, str] = {}
        """Properties that nobody knows; kept, for the file may be a Java broker's too."""
        self.data_version = DataVersion()
        self.on_update: list[Callable[[set[str]], None]] = []
        """Told the names of the keys that a request has changed."""
        self._texts: dict[str, str] = {}
        self._set: set[str] = set()
        self.delay_levels: tuple[int, ...] = ()
        """`messageDelayLevel` in ms; index 0 is level 1."""
        faults: list[str] = []
        for name, text in (entries or {}).items():
            key = keys().get(name)
            if key is None:
                self.unknown[name] = text
                self.notices.append(unknown(name))
            else:
                self._take(key, text, faults)
        self._derive()
        for key in keys().values():
            if key.status == "effective":
                setattr(self, key.attribute, self._value(key))
        faults += self._faults_of_the_whole()
        if faults:
            raise BadConfig(faults)

    def text(self, name: str) -> str | None:
        """The value of any property as text, as set or by default."""
        found = self._texts.get(name, self.unknown.get(name))
        return keys()[name].default if found is None and name in keys() else found

    def is_set(self, name: str) -> bool:
        """Was it given, rather than left at its default?"""
        return name in self._set

    @property
    def fast_port(self) -> int:
        """The second port, which takes no pulls."""
        return self.listen_port - FAST_PORT_BELOW

    @property
    def name_servers(self) -> tuple[str, ...]:
        """`namesrvAddr` taken apart: `host:port` each."""
        return tuple(piece.strip() for piece in (self.namesrv_addr or "").split(";") if piece.strip())

    @property
    def commit_log_dir(self) -> str:
        """Where the commit log lies."""
        return (split_paths(self.store_path_commit_log) or [os.path.join(self.store_path_root_dir, "commitlog")])[0]

    def listening_on(self, port: int) -> None:
        """The port that was really taken, when any free one was asked for."""
        self._assign(keys()["listenPort"], str(port))
        if not self.is_set("haListenPort"):
            self._assign(keys()["haListenPort"], str(port + HA_PORT_ABOVE))

    # -- requests 25 and 26

    def change(self, entries: Mapping[str, str]) -> set[str]:
        """Change what a request names, all or nothing; returns the names that have a new value.  Raises `UpdateRefused`.

        Unknown names are passed over as in Java (`Configuration.update`).  The caller writes the file (`file_text`), and when it
        cannot takes the change back (`way_back`).  A key that counts from the next start only (`Key.next_start`) has its new text
        in listing and file, its attribute stays.
        """
        black = {*JAVA_BLACK_LIST, *(piece.strip() for piece in self.config_black_list.split(";"))}
        if any(name in black for name in entries):
            raise UpdateRefused("Can not update config in black list.", forbidden=True)
        for name, text in entries.items():
            key = keys().get(name)
            if not (properties_text.is_one_line(name) and properties_text.is_one_line(text)):
                raise UpdateRefused(f"The value of {plain_text(name, 64)} must be one line.", forbidden=False)
            if key is None:
                continue
            if key.start_only:
                raise UpdateRefused(f"Can not update config {name} while the broker runs.", forbidden=True)
            try:
                key.read(text)
            except ValueError as expected:
                raise UpdateRefused(_fault(key, text, expected), forbidden=False) from None
        changed = {name for name, text in entries.items() if name in keys() and self.text(name) != text.strip()}
        for name in changed:
            self._assign(keys()[name], entries[name].strip(), now=not keys()[name].next_start)
        for listener in self.on_update:
            listener(changed)
        return changed

    def way_back(self) -> Callable[[], None]:
        """What makes all values again what they are now, and tells the listeners."""
        texts, was_set = self._texts.copy(), self._set.copy()
        now = [(key.attribute, getattr(self, key.attribute)) for key in keys().values() if key.status == "effective"]

        def restore() -> None:
            changed = {name for name in self._texts.keys() | texts.keys() if self._texts.get(name) != texts.get(name)}
            self._texts, self._set = texts, was_set
            for name, value in now:
                setattr(self, name, value)
            for listener in self.on_update:
                listener(changed)

        return restore

    def shown(self, name: str) -> str:
        """The value of a property for other eyes: a secret is masked."""
        text = self.text(name) or ""
        return MASK if text and name in (self._set | self.unknown.keys()) and self._is_secret(name) else text

    def listing(self) -> str:
        """Every property that is not null as sorted `key=value` lines, secrets masked (`getAllConfigsFormatString`)."""
        found = {name: self.shown(name) for name in self._all()}
        return properties_text.dumps({name: text for name, text in found.items() if properties_text.is_one_line(name + text)})

    def file_text(self) -> bytes:
        """The same with its secrets, as a file that reads back as it was (*differs*: Java escapes nothing)."""
        return properties_text.dumps_escaped(self._all(), ascii_only=True).encode("ascii")

    def _all(self) -> dict[str, str]:
        known = {name: self.text(name) for name, key in keys().items() if key.owner != "AuthConfig" or name in self._set}
        return {**self.unknown, **{name: text for name, text in known.items() if text is not None}}

    @staticmethod
    def _is_secret(name: str) -> bool:
        key = keys().get(name)
        return key.secret if key is not None else _SECRET.search(name) is not None

    # -- reading

    def _take(self, key: Key, text: str, faults: list[str]) -> None:
        text = text.strip()
        try:
            key.read(text)
        except ValueError as expected:
            faults.append(_fault(key, text, expected))
            return
        if key.status == "refused" and text not in (key.allowed or ()):
            faults.append(f"{key.name}={plain_text(text, 64)} is refused: {key.why}")
        elif key.status == "accepted" and text != (key.default or ""):
            self.notices.append(f"property {key.name}={plain_text(text, 64)} has no effect: {key.why}")
        self._texts[key.name] = text
        self._set.add(key.name)

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
            if value is not None and not (name in self._set and self._texts[name]):
                self._texts[name] = str(value)
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

    def _value(self, key: Key) -> Value | None:
        text = self.text(key.name)
        try:
            return None if text is None else key.read(text)
        except ValueError:
            return None if key.default is None else key.read(key.default)

    def _assign(self, key: Key, text: str, *, now: bool = True) -> None:
        self._texts[key.name] = text
        self._set.add(key.name)
        if now and key.status == "effective":
            setattr(self, key.attribute, key.read(text))

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
            faults.append(_fault(keys()["messageDelayLevel"], self.message_delay_level, expected))
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


def _fault(key: Key, text: str, expected: Exception) -> str:
    return f"{key.name}={plain_text(text, 64)!r}: {expected} is expected"


_SECRET = re.compile(r"password|passwd|secret|credential|accesskey", re.IGNORECASE)
"""Names of unknown properties whose values are nobody's business."""
