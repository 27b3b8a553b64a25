"""Somebody's server: an address of a name server or of a broker, and everything else by asking it.

A name server answers 106 (cluster info): the first master that it lists is judged, or the one that is named.  A broker does
not answer that; its own configuration (26) says under which name server it is.  Which version is judged is what the broker
says of itself (28).  Nothing is started, nothing is ended.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from conformance.subjects import remoting
from conformance.subjects.base import SubjectFailed, Target
from conformance.version import version_of

T = TypeVar("T")

MASTER: Final = "0"
"""The broker id of a master, as JSON keys have it."""
SAMPLING: Final = "NoSuchElementException"
"""So the reference answers 28 until it has taken its first sample, a second after its start (`StoreStatsService`)."""
SAMPLING_S: Final = 0.5
SAMPLING_TRIES: Final = 10


def masters(namesrv: str) -> dict[str, tuple[str, str]]:
    """Broker name -> (address, cluster) of every master that a name server lists.  Raises `OSError`, `SubjectFailed`."""
    answer = remoting.ask(namesrv, remoting.GET_BROKER_CLUSTER_INFO)
    if answer.code != remoting.SUCCESS:
        raise SubjectFailed(f"{namesrv} answers the question for the cluster with code {answer.code}: {answer.remark}")
    table: Any = answer.json().get("brokerAddrTable") or {}
    return {
        name: (broker["brokerAddrs"][MASTER], broker.get("cluster") or "")
        for name, broker in sorted(table.items())
        if MASTER in broker.get("brokerAddrs", {})
    }


def broker_config(broker: str) -> dict[str, str]:
    """All properties of a broker, as it reports them.  Raises `OSError`; empty where it does not report any."""
    answer = remoting.ask(broker, remoting.GET_BROKER_CONFIG)
    lines = answer.body.decode(errors="replace").splitlines() if answer.code == remoting.SUCCESS else []
    return {key: value for key, equals, value in (line.partition("=") for line in lines) if equals}


def runtime(broker: str, pause: Callable[[float], None] = time.sleep) -> dict[str, str]:
    """The runtime figures of a broker, which may have started just now.  Raises `OSError`; empty where it does not report any."""
    answer = remoting.ask(broker, remoting.GET_BROKER_RUNTIME_INFO)
    for _ in range(SAMPLING_TRIES):
        if SAMPLING not in (answer.remark or ""):
            break
        pause(SAMPLING_S)
        answer = remoting.ask(broker, remoting.GET_BROKER_RUNTIME_INFO)
    if answer.code != remoting.SUCCESS or not answer.body:
        return {}
    table: Any = answer.json().get("table") or {}
    return {str(key): str(value) for key, value in table.items()}


def find(
    namesrv: str,
    *,
    label: str = "address",
    kind: str = "address",
    broker_name: str | None = None,
    store: Path | None = None,
    details: Mapping[str, str] | None = None,
) -> Target:
    """The master that is judged under this name server.  Raises `SubjectFailed`."""
    listed = _asked(namesrv, "name server", lambda: masters(namesrv))
    if not listed:
        raise SubjectFailed(f"the name server {namesrv} lists no master")
    name = broker_name or next(iter(listed))
    if name not in listed:
        raise SubjectFailed(f"the name server {namesrv} lists no master {name}: there are {', '.join(listed)}")
    broker, cluster = listed[name]
    figures = _asked(broker, f"broker {name} that {namesrv} lists", lambda: runtime(broker))
    says = figures.get("brokerVersionDesc", "")
    return Target(
        label=label,
        kind=kind,
        version=version_of(says),
        namesrv=namesrv,
        broker=broker,
        broker_name=name,
        cluster=cluster,
        store=store,
        details={**({"it says of itself": says} if says else {}), **(details or {})},
        config=_asked(broker, f"broker {name}", lambda: broker_config(broker)),
    )


class AddressSubject:
    """`--addr HOST:PORT`.  `broker_name` chooses among several masters; `store`: its directory, where it can be read."""

    def __init__(self, address: str, *, broker_name: str | None = None, store: Path | None = None) -> None:
        self.label = "address"
        self.address = address
        self.broker_name = broker_name
        self.store = store

    def __enter__(self) -> Target:
        host, _, port = self.address.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
            raise SubjectFailed(f"{self.address!r} is no address: say HOST:PORT of a name server or broker")
        answer = _asked(self.address, "server", lambda: remoting.ask(self.address, remoting.GET_BROKER_CLUSTER_INFO))
        if answer.code != remoting.REQUEST_CODE_NOT_SUPPORTED:
            return find(self.address, broker_name=self.broker_name, store=self.store)
        config = _asked(self.address, "broker", lambda: broker_config(self.address))
        namesrv = config.get("namesrvAddr", "").split(";")[0].strip()
        if not namesrv:
            raise SubjectFailed(f"{self.address} is a broker that names no name server: name that one")
        name = self.broker_name or config.get("brokerName")
        return find(namesrv, broker_name=name, store=self.store, details={"found by": f"the broker {self.address}"})

    def __exit__(self, *_: object) -> None:
        pass

    def alive(self) -> bool:
        """We did not start it: taken to live."""
        return True

    def log_tail(self, characters: int = 4_000) -> str:
        """Out of reach."""
        return ""

    def collect_logs(self, into: Path) -> None:
        """Out of reach."""


def _asked(address: str, what: str, question: Callable[[], T]) -> T:
    """The answer; a server that cannot be asked is a failed subject."""
    try:
        return question()
    except (OSError, ValueError, KeyError, TypeError, AttributeError, AssertionError) as why:
        raise SubjectFailed(f"the {what} at {address} cannot be asked: {_said(why)}") from None


def _said(why: Exception) -> str:
    if isinstance(why, TimeoutError):
        return "no answer in time"
    if isinstance(why, OSError):
        return str(why) or type(why).__name__
    return f"its answer makes no sense ({type(why).__name__}: {why})"
