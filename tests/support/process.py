"""Server processes of the tests: the harness's own (`conformance.subjects.process`)."""

from pathlib import Path

from conformance.subjects.process import (
    POLL_S,
    START_S_MAX,
    STOP_S_MAX,
    NotReady,
    ServerProcess,
    Stream,
    loopback_v6,
    until,
)

__all__ = [
    "POLL_S",
    "START_S_MAX",
    "STOP_S_MAX",
    "NotReady",
    "ServerProcess",
    "Stream",
    "loopback_v6",
    "processes_in",
    "until",
]


def processes_in(directory: Path) -> list[int]:
    """Processes, zombies aside, that have this directory in their command line (Linux)."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if str(directory).encode() in (place / "cmdline").read_bytes():
                found.append(int(place.name))
        except OSError:
            continue
    return found
