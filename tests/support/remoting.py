"""The smallest client that can ask a server something: the harness's own (`conformance.subjects.remoting`)."""

from collections.abc import Mapping

from conformance.subjects import remoting
from conformance.subjects.remoting import (
    GET_BROKER_CLUSTER_INFO,
    GET_ROUTEINFO_BY_TOPIC,
    Answer,
    frame,
    read_answer,
    split_address,
)

__all__ = ["GET_BROKER_CLUSTER_INFO", "GET_ROUTEINFO_BY_TOPIC", "Answer", "ask", "frame", "read_answer", "split_address"]
ANSWER_S = 60.0
"""For a slow machine whose cores are all taken."""


def ask(
    address: str, code: int, ext: Mapping[str, str] | None = None, body: bytes = b"", *, timeout_s: float = ANSWER_S
) -> Answer:
    """Ask once on a connection of its own.  Raises `OSError` (also for time-outs) when nobody answers."""
    return remoting.ask(address, code, ext, body, timeout_s=timeout_s)
