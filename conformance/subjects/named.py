"""A subject by its name, as one word on a command line has it: `ours`, `jars-5.5.0`, `docker`, `127.0.0.1:9876`, `compose`.

ours                       our broker, a subprocess
jars[-VERSION]             the real one from Maven Central (also `java-VERSION`)
docker[-IMAGE]             the real one in containers (docker-apache/rocketmq:5.5.0)
compose[-FILE]             what a compose file brings up (docker-compose.yml)
HOST:PORT                  somebody's name server or broker
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from conformance.subjects.base import REFERENCE, Subject, SubjectFailed


def subject_named(
    name: str,
    directory: Path,
    *,
    java: str | os.PathLike[str] | None = None,
    properties: Mapping[str, str] | None = None,
    namesrv_port: int = 0,
    broker_port: int = 0,
) -> Subject:
    """The subject of this name, not yet entered.  `directory` takes what an own one writes.  Raises `SubjectFailed`."""
    kind, _, rest = name.partition("-")
    if kind == "ours" and not rest:
        from conformance.subjects.ours import OursSubject

        return OursSubject(directory, properties=properties, namesrv_port=namesrv_port, broker_port=broker_port)
    if kind in ("jars", "java"):
        from conformance.subjects.jars import JarsSubject

        return JarsSubject(
            rest or REFERENCE, directory, java=java, properties=properties, namesrv_port=namesrv_port, broker_port=broker_port
        )
    if kind == "docker":
        from conformance.subjects.docker import DockerSubject

        return DockerSubject(rest or None, directory, properties=properties, namesrv_port=namesrv_port, broker_port=broker_port)
    if kind == "compose":
        from conformance.subjects.compose import DEFAULT_FILE, ComposeSubject

        return ComposeSubject(rest or DEFAULT_FILE)
    if ":" in name and "/" not in name:
        from conformance.subjects.address import AddressSubject

        return AddressSubject(name)
    raise SubjectFailed(f"no such subject: {name!r} (there are ours, jars-VERSION, docker-IMAGE, compose-FILE and HOST:PORT)")
