"""Marks in units by which checks know them: what a repair filled in, and which messages are in light queues."""

from __future__ import annotations

from typing import Final

from rmq_wire.names import DLQ_PREFIX, RETRY_PREFIX, SCHEDULE_TOPIC, SYSTEM_TOPIC_PREFIX

FILLER_TOPIC: Final = "RMQ_INSPECT_REPAIR_FILLER"
"""Of the units of a repair; short ones have a beginning of it."""


def has_light_queues(topic: str) -> bool:
    """Copies in retry, dead letter and other topics of the broker keep the properties, but are in no light queue."""
    return topic != SCHEDULE_TOPIC and not topic.startswith((RETRY_PREFIX, DLQ_PREFIX, SYSTEM_TOPIC_PREFIX))
