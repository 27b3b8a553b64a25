"""The real Apache RocketMQ as subprocesses on loopback: name server and broker of any version that `tests/java` has jars of.

Each has a directory of its own (also as its `user.home`), a free port that it keeps over restarts, and small heaps.  A broker is
ready when the name server lists it (code 106), a name server when it answers that.  Usable without pytest:

    with JavaNameServer(directory / "ns") as names, JavaBroker(directory / "broker", names.address) as broker: ...
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.support import remoting
from tests.support.java import OPENED, REFERENCE, SMALL, classpath, java, rocketmq_home
from tests.support.process import ServerProcess, free_ports

DISK: Final = ("-Drocketmq.broker.diskSpaceWarningLevelRatio=0.99", "-Drocketmq.broker.diskSpaceCleanForciblyRatio=0.99")
"""A test machine's disk may be fuller than a broker likes."""

SMALL_STORE: Final[Mapping[str, str]] = {
    "mappedFileSizeCommitLog": "16777216",
    "mappedFileSizeConsumeQueue": "60000",
    "mappedFileSizeTimerLog": "1048576",
    "maxHashSlotNum": "5000",
    "maxIndexNum": "20000",
    "diskMaxUsedSpaceRatio": "99",
}
"""Store files of a few megabytes instead of gigabytes."""


class JavaServer(ServerProcess):
    """What both servers share: how a JVM is started, where the configuration stands."""

    main_class = ""
    logging = ""
    offsets: tuple[int, ...] = ()

    def __init__(
        self,
        name: str,
        directory: Path,
        *,
        version: str = REFERENCE,
        port: int = 0,
        properties: Mapping[str, str] | None = None,
        jvm: Sequence[str] = SMALL,
        heap: str = "384m",
    ) -> None:
        super().__init__(name, directory)
        self.version = version
        self.port = port or free_ports(*self.offsets)
        self.address = f"127.0.0.1:{self.port}"
        self.properties: dict[str, str] = {"listenPort": str(self.port), **(properties or {})}
        self.jvm = [*jvm, "-Xms64m", f"-Xmx{heap}", "-XX:MaxDirectMemorySize=512m"]
        if not version.startswith("4."):  # 4.x listens on every address and cannot be told otherwise
            self.properties.setdefault("bindAddress", "127.0.0.1")

    def command(self) -> Sequence[str]:
        config = self.directory / f"{self.name}.conf"
        config.write_text("".join(f"{key}={value}\n" for key, value in self.properties.items()))
        flags = [*self.jvm, *OPENED, *DISK, f"-Duser.home={self.directory}", f"-Drmq.logback.configurationFile={self.logging}"]
        return [java(), *flags, "-cp", classpath(self.version), self.main_class, "-c", str(config)]

    def environment(self) -> Mapping[str, str]:
        return rocketmq_home(self.directory)

    def end(self) -> None:
        """At the end of a test nobody reads its files any more: no need for the 13 s of a clean stop."""
        self.kill()


class JavaNameServer(JavaServer):
    """`org.apache.rocketmq.namesrv.NamesrvStartup`."""

    main_class = "org.apache.rocketmq.namesrv.NamesrvStartup"
    logging = "rmq.namesrv.logback.xml"

    def __init__(
        self, directory: Path, *, version: str = REFERENCE, port: int = 0, properties: Mapping[str, str] | None = None
    ) -> None:
        super().__init__("namesrv", directory, version=version, port=port, properties=properties, heap="192m")

    def ready(self) -> bool:
        return remoting.ask(self.address, remoting.GET_BROKER_CLUSTER_INFO).code == 0


class JavaBroker(JavaServer):
    """`org.apache.rocketmq.broker.BrokerStartup`, a master unless `properties` say otherwise.

    It also listens on `port` - 2 (the fast port) and `port` + 1 (replication).
    """

    main_class = "org.apache.rocketmq.broker.BrokerStartup"
    logging = "rmq.broker.logback.xml"
    offsets = (-2, 1)

    def __init__(
        self,
        directory: Path,
        namesrv: str,
        *,
        name: str = "broker-a",
        cluster: str = "DefaultCluster",
        version: str = REFERENCE,
        port: int = 0,
        store: Path | None = None,
        properties: Mapping[str, str] | None = None,
        jvm: Sequence[str] = SMALL,
        heap: str = "384m",
    ) -> None:
        super().__init__("broker", directory, version=version, port=port, jvm=jvm, heap=heap)
        self.namesrv = namesrv
        self.broker_name = name
        self.store = store or directory / "store"
        self.properties |= {
            "brokerClusterName": cluster,
            "brokerName": name,
            "brokerId": "0",
            "brokerIP1": "127.0.0.1",
            "brokerIP2": "127.0.0.1",
            "namesrvAddr": namesrv,
            "storePathRootDir": str(self.store),
            "storePathCommitLog": str(self.store / "commitlog"),
            **SMALL_STORE,
            **(properties or {}),
        }

    def ready(self) -> bool:
        return registered(self.namesrv, f"{self.properties['brokerIP1']}:{self.port}")


def registered(namesrv: str, broker: str) -> bool:
    """Does this name server list a broker with this address?  (`OSError` when it does not answer.)"""
    first = namesrv.split(";")[0]
    return f'"{broker}"' in remoting.ask(first, remoting.GET_BROKER_CLUSTER_INFO).body.decode()
