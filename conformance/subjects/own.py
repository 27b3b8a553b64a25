"""Subjects that are processes of our own: a name server and a broker under it, ended together whatever happens.

A subclass says in `start` what to run, in which order.  What fails on the way ends what runs already and becomes one line.
"""

from __future__ import annotations

import shlex
import shutil
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol, cast

from conformance.subjects import remoting
from conformance.subjects.base import SubjectFailed, Target
from conformance.subjects.ports import BROKER_PORTS, is_free
from conformance.subjects.process import NotReady, ServerProcess
from conformance.version import Version

CONNECT_S: Final = 5.0
LOG_SUFFIXES: Final = frozenset({".out", ".log", ".conf"})


def registered(namesrv: str, broker: str) -> bool:
    """Does this name server list a broker with this address, and does it listen?  (`OSError` when one of them does not answer.)

    Of a broker that was killed a name server may still know when the next one starts.
    """
    first = namesrv.split(";")[0]
    if f'"{broker}"' not in remoting.ask(first, remoting.GET_BROKER_CLUSTER_INFO).body.decode():
        return False
    socket.create_connection(remoting.split_address(broker), timeout=CONNECT_S).close()
    return True


class NameServerProcess(Protocol):
    """What `OwnSubject.target` wants to know of a name server."""

    address: str


class BrokerProcess(Protocol):
    """What `OwnSubject.target` wants to know of a broker."""

    address: str
    broker_name: str
    store: Path
    properties: dict[str, str]


class OwnSubject:
    """A subject whose processes we start.  `servers` are those that run, the broker last; a port of 0 picks a free one."""

    kind = ""

    def __init__(
        self, label: str, directory: Path, properties: Mapping[str, str] | None, namesrv_port: int, broker_port: int
    ) -> None:
        self.label = label
        self.directory = directory.resolve()
        self.properties = dict(properties or {})
        self.namesrv_port = namesrv_port
        self.broker_port = broker_port
        self.servers: list[ServerProcess] = []

    def start(self) -> Target:
        """Run everything, each by `run`.  May raise `SubjectFailed` and `OSError`."""
        raise NotImplementedError

    def run(self, server: ServerProcess) -> None:
        """Start one more server and wait until it is ready."""
        self.servers.append(server)  # before it starts: it is then ended whatever happens
        server.start()

    def target(
        self,
        version: Version | None,
        names: NameServerProcess,
        broker: BrokerProcess,
        details: Mapping[str, str],
        more: Mapping[str, str],
    ) -> Target:
        """Where these two are.  `more`: settings that are no broker properties."""
        commands = {f"command {server.name}": shlex.join(server.command()) for server in self.servers}
        return Target(
            label=self.label,
            kind=self.kind,
            version=version,
            namesrv=names.address,
            broker=broker.address,
            broker_name=broker.broker_name,
            cluster=broker.properties["brokerClusterName"],
            store=broker.store,
            details={**details, **commands},
            config={**broker.properties, **more},
        )

    def __enter__(self) -> Target:
        try:
            ports_are_free(self.label, self.namesrv_port, self.broker_port)
            return self.start()
        except BaseException as why:
            log = self.log_tail()
            self.__exit__()
            if isinstance(why, NotReady):
                raise SubjectFailed(f"{self.label}: {_gist(str(why))}", log) from None
            if isinstance(why, OSError):
                raise SubjectFailed(f"{self.label} cannot be started: {why}", log) from None
            raise

    def __exit__(self, *_: object) -> None:
        for server in reversed(self.servers):
            server.end()
        self.servers.clear()

    def alive(self) -> bool:
        """Do all its processes run?"""
        return bool(self.servers) and all(server.running for server in self.servers)

    def restart_broker(self, *, kill: bool = False) -> None:
        """End the broker, cleanly or by SIGKILL, and start it on the same store and ports.  Raises `SubjectFailed`."""
        broker = self.servers[-1]
        if kill:
            broker.kill()
        else:
            broker.stop()
        try:
            broker.start()
        except (NotReady, OSError) as why:
            raise SubjectFailed(f"{self.label}: {_gist(str(why))}", broker.log_tail()) from None

    def log_tail(self, characters: int = 4_000) -> str:
        """The end of what the servers printed."""
        return "\n".join(server.log_tail(characters // max(1, len(self.servers))) for server in self.servers)

    def collect_logs(self, into: Path) -> None:
        """What they printed, their configuration and their log files; stores are left where they are."""
        stores = {cast(BrokerProcess, server).store for server in self.servers if hasattr(server, "store")}
        for path in sorted(self.directory.rglob("*")):
            if path.suffix in LOG_SUFFIXES and path.is_file() and not stores.intersection(path.parents):
                place = into / path.relative_to(self.directory)
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, place)


def ports_are_free(label: str, namesrv: int, broker: int) -> None:
    """Raises `SubjectFailed` when a port that was asked for is taken (0: none was)."""
    for port in [namesrv] * bool(namesrv) + [broker + offset for offset in BROKER_PORTS] * bool(broker):
        if not is_free(port):
            raise SubjectFailed(f"{label} cannot be started: port {port} is taken")


def _gist(text: str) -> str:
    """One line of a `NotReady`: what did not happen, and the last line that was printed, where there is one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    printed = [line for line in lines[2:] if not line.startswith(("at ", "...", "--- end of"))]
    return f"{lines[0]}; it printed last: {printed[-1][:300]}" if printed else lines[0]
