"""Members of one group that subscribe differently: found when their heartbeats take turns, and said once in a while.

The broker keeps one subscription per group and topic: the newest that a heartbeat has brought (`subVersion`, the time at which a
stock client subscribed), for the topics that the last heartbeat names.  So members lose messages that the others did not ask for.
Java takes it without a word (`ConsumerGroupInfo.updateSubscription`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from rmq_wire.bodies.heartbeat import SubscriptionData

SAID_AGAIN_MS: Final = 60_000
"""A group's conflict is said again after this time, if it lasts: two of its members' heartbeats."""
TOPICS_SHOWN_MAX: Final = 8
CHARACTERS_SHOWN_MAX: Final = 64
"""Of one expression."""


def difference(kept: Mapping[str, SubscriptionData], said: Iterable[SubscriptionData]) -> str:
    """How `said` departs from what is kept of another member's heartbeat; the empty text when it does not."""
    others: list[str] = []
    topics: set[str] = set()
    for subscription in said:
        topic = subscription.topic
        topics.add(topic)
        before = kept.get(topic)
        if before is None:
            others.append(f"{topic}: {_shown(subscription)} against nothing")
        elif (subscription.sub_string, subscription.expression_type) != (before.sub_string, before.expression_type):
            others.append(f"{topic}: {_shown(subscription)} against {_shown(before)}")
    others += [f"{topic}: nothing against {_shown(before)}" for topic, before in kept.items() if topic not in topics]
    left_out = len(others) - TOPICS_SHOWN_MAX
    return "; ".join(others[:TOPICS_SHOWN_MAX]) + (f"; and {left_out} more topics" if left_out > 0 else "")


def _shown(subscription: SubscriptionData) -> str:
    text = subscription.sub_string or "*"
    if len(text) > CHARACTERS_SHOWN_MAX:
        text = text[:CHARACTERS_SHOWN_MAX] + "…"
    return f"'{text}'"
