"""The smallest client that can ask a server something: the harness's own (`conformance.subjects.remoting`)."""

from conformance.subjects.remoting import (
    GET_BROKER_CLUSTER_INFO,
    GET_ROUTEINFO_BY_TOPIC,
    Answer,
    ask,
    frame,
    read_answer,
    split_address,
)

__all__ = ["GET_BROKER_CLUSTER_INFO", "GET_ROUTEINFO_BY_TOPIC", "Answer", "ask", "frame", "read_answer", "split_address"]
