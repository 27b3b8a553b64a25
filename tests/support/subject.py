"""A server under test, ours or the real one, behind one face: the same test first proves itself against Java, then judges us.

RMQ_SUBJECT says which (a comma list of `ours`, `java` = 5.5.0, `java-4.9.7`, ...; default `ours`).  A subject is one name server
and one master, in one process where ours is `rmq dev`; `two masters` are processes of their own under one name server.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from conformance.subjects.ours import OurBroker, OurNameServer, OurServer
from conformance.subjects.ports import BROKER_PORTS
from tests.support import remoting
from tests.support.java import REFERENCE
from tests.support.process import ServerProcess
from tests.support.reference import JavaBroker, JavaNameServer, registered

SUBJECTS: Final = tuple(os.environ.get("RMQ_SUBJECT", "ours").split(","))


class OurDev(OurServer):
    """`rmq dev` on free ports that it keeps over restarts, with a store of its own."""

    def __init__(self, directory: Path, *, properties: Mapping[str, str] | None = None) -> None:
        super().__init__("rmq-dev", directory, [])
        self.store = directory / "store"
        self.namesrv = f"127.0.0.1:{self.reserve()}"
        self.address = f"127.0.0.1:{self.reserve(*BROKER_PORTS)}"
        settings = [word for key, value in (properties or {}).items() for word in ("--set", f"{key}={value}")]
        ports = ["--namesrv-port", self.namesrv.split(":")[1], "--broker-port", self.address.split(":")[1]]
        self.arguments = ["dev", "--store", str(self.store), *ports, "--json", *settings]

    def ready(self) -> bool:
        return self.reported().get("pid") == self.pid and registered(self.namesrv, self.address)


@dataclass
class Subject:
    """One name server and one master under test."""

    kind: str
    namesrv: str
    address: str
    broker_name: str
    cluster: str
    store: Path
    server: ServerProcess
    """The process that holds the broker."""
    others: tuple[ServerProcess, ...] = ()

    def restart(self, *, kill: bool = False) -> None:
        """Stop the broker, cleanly or by SIGKILL, and start it on the same store and port."""
        if kill:
            self.server.kill()
        else:
            self.server.stop()
        self.server.start()

    def end(self) -> None:
        """End all its processes."""
        for process in (self.server, *self.others):
            process.end()


def start_subject(kind: str, directory: Path, *, properties: Mapping[str, str] | None = None) -> Subject:
    """Start one; `kind` as in RMQ_SUBJECT."""
    if kind == "ours":
        ours = OurDev(directory, properties=properties).start()
        reported = ours.reported()
        assert reported["namesrv"] == ours.namesrv
        assert reported["broker"] == ours.address
        name, cluster = _who(ours.namesrv)
        return Subject(kind, ours.namesrv, ours.address, name, cluster, ours.store, ours)
    names = start_name_server(kind, directory / "namesrv")
    broker = start_broker(kind, directory / "broker", names.address, properties=properties)
    return Subject(kind, names.address, broker.address, broker.broker_name, "DefaultCluster", broker.store, broker, (names,))


def start_name_server(kind: str, directory: Path) -> OurNameServer | JavaNameServer:
    """A name server of this kind, ready."""
    return OurNameServer(directory).start() if kind == "ours" else JavaNameServer(directory, version=version_of(kind)).start()


def start_broker(
    kind: str,
    directory: Path,
    namesrv: str,
    *,
    name: str = "broker-a",
    properties: Mapping[str, str] | None = None,
    wait: bool = True,
) -> OurBroker | JavaBroker:
    """A master of this kind; registered, if asked to wait."""
    if kind == "ours":
        return OurBroker(directory, namesrv, name=name, properties=properties).start(wait=wait)
    return JavaBroker(directory, namesrv, name=name, version=version_of(kind), properties=properties).start(wait=wait)


def version_of(kind: str) -> str:
    """`java` -> the reference, `java-4.9.7` -> 4.9.7."""
    return kind.partition("-")[2] or REFERENCE


def _who(namesrv: str) -> tuple[str, str]:
    """Name and cluster of the one broker that a name server lists."""
    table: Any = remoting.ask(namesrv, remoting.GET_BROKER_CLUSTER_INFO).json()["brokerAddrTable"]
    [broker] = table.values()
    return broker["brokerName"], broker["cluster"]
