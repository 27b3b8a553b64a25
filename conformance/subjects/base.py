"""What a running subject is: where it listens, who it claims to be, where its files are.

A subject is a synchronous context manager.  Entering starts it (or finds it) and waits until its name server lists its master;
leaving ends whatever was started, however the block ended.  Everything that can be wrong with it for a reason that a user can
mend is a `SubjectFailed` with one clear line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from conformance.version import Version

REFERENCE: Final = "5.5.0"
"""The version that we are measured against."""


class SubjectFailed(Exception):
    """A subject cannot be had, or has died.  The text is one line; `log` is the end of what it printed, if anything."""

    def __init__(self, why: str, log: str = "") -> None:
        super().__init__(" ".join(why.split()))
        self.log = log


@dataclass(frozen=True)
class Target:
    """Where a running subject is.

    label         `java-5.5.0`, `docker-5.5.0`, `ours`, `address`, `compose`: names `conformance/suite/expected/<label>.toml`
    kind          jars, docker, ours, address or compose
    version       of the reference whose behaviour is expected; None: unknown
    namesrv       host:port; broker: host:port of the master
    store         a directory of its files that can be read here, or None
    details       shown in the report: image id, Java version, commit, command lines
    config        broker properties by Java's names: those that were set (own subjects), all that it reports (the others)
    """

    label: str
    kind: str
    version: Version | None
    namesrv: str
    broker: str
    broker_name: str
    cluster: str
    store: Path | None = None
    details: Mapping[str, str] = field(default_factory=dict)
    config: Mapping[str, str] = field(default_factory=dict)


class Subject(Protocol):
    """A server that can be started or found."""

    label: str

    def __enter__(self) -> Target: ...

    def __exit__(self, *_: object) -> None: ...

    def alive(self) -> bool:
        """False when a process or container of its own has ended; one that only was found is taken to live."""
        ...

    def log_tail(self, characters: int = 4_000) -> str:
        """The end of what its servers printed."""
        ...

    def collect_logs(self, into: Path) -> None:
        """Put what its servers wrote to their logs into a directory, which is made."""
        ...
