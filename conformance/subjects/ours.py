"""Our own broker, from the outside: `rmq namesrv` and `rmq broker` with the property files that Java's would get.

A subprocess like any other.  Nothing of it is imported here: the suite must be able to judge it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from conformance.subjects import remoting
from conformance.subjects.base import REFERENCE, Target
from conformance.subjects.java import rocketmq_home
from conformance.subjects.own import OwnSubject, registered
from conformance.subjects.ports import BROKER_PORTS
from conformance.subjects.process import ServerProcess
from conformance.subjects.properties import OURS_ONLY, OWN_BROKER_PROPERTIES, OWN_NAMESRV_PROPERTIES
from conformance.version import version_of

ROOT: Final = Path(__file__).resolve().parents[2]
"""Where `rmq_cli` and the rest lie beside `conformance`, in a checkout as in an installation."""


class OurServer(ServerProcess):
    """A subcommand of `rmq` that prints one JSON line when it is ready (`--json`)."""

    def __init__(self, name: str, directory: Path, arguments: Sequence[str]) -> None:
        super().__init__(name, directory)
        self.arguments = arguments

    def command(self) -> Sequence[str]:
        return [sys.executable, "-m", "rmq_cli.main", *self.arguments]

    def environment(self) -> Mapping[str, str]:
        return {**rocketmq_home(self.directory), "PYTHONPATH": str(ROOT), "HOME": str(self.directory)}

    def reported(self) -> dict[str, Any]:
        """The JSON line of the latest start; empty when there is none yet."""
        written = self.log.read_text(errors="replace").splitlines(keepends=True)
        lines = [line for line in written if line.startswith("{") and line.endswith("\n")]
        reported: dict[str, Any] = json.loads(lines[-1]) if lines else {}
        return reported


class OurNameServer(OurServer):
    """`rmq namesrv -c namesrv.conf`: the same property file as Java's."""

    def __init__(self, directory: Path, *, port: int = 0, properties: Mapping[str, str] | None = None) -> None:
        super().__init__("rmq-namesrv", directory, ["namesrv", "-c", str(directory / "namesrv.conf")])
        self.port = port or self.reserve()
        self.address = f"127.0.0.1:{self.port}"
        self.properties = {"listenPort": str(self.port), "bindAddress": "127.0.0.1", **(properties or {})}

    def command(self) -> Sequence[str]:
        write_properties(self.directory / "namesrv.conf", self.properties)
        return super().command()

    def ready(self) -> bool:
        return remoting.ask(self.address, remoting.GET_BROKER_CLUSTER_INFO).code == 0


class OurBroker(OurServer):
    """`rmq broker -c broker.conf -n NAMESRV`: the same property file as the Java broker's."""

    def __init__(
        self,
        directory: Path,
        namesrv: str,
        *,
        name: str = "broker-a",
        cluster: str = "DefaultCluster",
        port: int = 0,
        store: Path | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__("rmq-broker", directory, ["broker", "-c", str(directory / "broker.conf"), "-n", namesrv])
        self.port = port or self.reserve(*BROKER_PORTS)
        self.address = f"127.0.0.1:{self.port}"
        self.namesrv = namesrv
        self.broker_name = name
        self.store = store or directory / "store"
        self.properties: dict[str, str] = {
            "brokerClusterName": cluster,
            "brokerName": name,
            "brokerId": "0",
            "brokerIP1": "127.0.0.1",
            "brokerIP2": "127.0.0.1",
            "bindAddress": "127.0.0.1",
            "listenPort": str(self.port),
            "storePathRootDir": str(self.store),
            "storePathCommitLog": str(self.store / "commitlog"),
            "mappedFileSizeCommitLog": "16777216",
            "diskMaxUsedSpaceRatio": "99",
            **(properties or {}),
        }

    def command(self) -> Sequence[str]:
        write_properties(self.directory / "broker.conf", self.properties)
        return super().command()

    def ready(self) -> bool:
        return registered(self.namesrv, f"{self.properties['brokerIP1']}:{self.port}")


class OursSubject(OwnSubject):
    """`--ours`.  `directory` takes everything that the two servers write; `properties` go to the broker besides its own."""

    kind = "ours"

    def __init__(
        self,
        directory: Path,
        *,
        properties: Mapping[str, str] | None = None,
        namesrv_port: int = 0,
        broker_port: int = 0,
    ) -> None:
        super().__init__("ours", directory, properties, namesrv_port, broker_port)

    def start(self) -> Target:
        names = OurNameServer(self.directory / "namesrv", port=self.namesrv_port, properties=OWN_NAMESRV_PROPERTIES)
        self.run(names)
        reported = dict(OWN_BROKER_PROPERTIES)
        properties = {**reported, **OURS_ONLY, **self.properties}
        broker = OurBroker(self.directory / "broker", names.address, port=self.broker_port, properties=properties)
        self.run(broker)
        return self.target(version_of(REFERENCE), names, broker, _which(), {})


def write_properties(path: Path, properties: Mapping[str, str]) -> None:
    """A property file as Java reads it."""
    path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))


def _which() -> dict[str, str]:
    """The commit of ours, where it runs from a checkout, with what is changed since; and the Python that runs it."""
    python = {"python": f"{sys.executable} ({sys.version.split()[0]})"}
    try:
        git = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
        done = subprocess.run(git, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return python
    return {"commit": done.stdout.strip(), **python}
