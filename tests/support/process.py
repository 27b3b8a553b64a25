"""Server processes of the tests: the harness's own (`conformance.subjects.process`)."""

from conformance.subjects.process import (
    POLL_S,
    START_S_MAX,
    STOP_S_MAX,
    NotReady,
    ServerProcess,
    Stream,
    free_ports,
    loopback_v6,
    until,
)

__all__ = ["POLL_S", "START_S_MAX", "STOP_S_MAX", "NotReady", "ServerProcess", "Stream", "free_ports", "loopback_v6", "until"]
