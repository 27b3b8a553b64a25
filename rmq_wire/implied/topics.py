"""Which topics hold what: copies in retry and dead-letter topics, brokers' own messages in system topics, users' in others."""

from __future__ import annotations

from typing import Final

from rmq_wire.names import DLQ_PREFIX, RETRY_PREFIX, SCHEDULE_TOPIC, SYSTEM_TOPIC_PREFIX, is_system_topic

COPY_PREFIXES: Final = (RETRY_PREFIX, DLQ_PREFIX)
"""Of topics whose messages are copies: sent back to be consumed once more, or given up."""


def is_users_topic(topic: str) -> bool:
    """Neither copies are in it nor what brokers keep for themselves."""
    return not is_system_topic(topic) and not topic.startswith(COPY_PREFIXES)


def allows_light_queues(topic: str) -> bool:
    """Whether messages of this topic may be in light queues (`MixAll.topicAllowsLMQ`; 5.5.0 leaves dead letters out, too)."""
    return topic != SCHEDULE_TOPIC and not topic.startswith((*COPY_PREFIXES, SYSTEM_TOPIC_PREFIX))
