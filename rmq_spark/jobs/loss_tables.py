"""What a person sees of the outcome of `loss`."""

from __future__ import annotations

from typing import Final

from rmq_spark.tables import Shown

VERDICTS: Final = (
    "stored",
    "waiting",
    "recalled",
    "expired",
    "elsewhere",
    "unindexed",
    "unreadable",
    "undelivered",
    "lost",
    "unknown",
)
WRONG: Final = ("lost", "undelivered", "unreadable", "unindexed", "elsewhere", "unknown")
"""The worst first; unknown is not wrong by itself, but nobody can say that it is right."""
LABELS: Final = {
    "undelivered": "passed by its broker, never delivered",
    "unknown": "cannot tell: expired, lost, or still to come",
}


REPORT: Final = (
    Shown("topics", "By topic", ("topic", *VERDICTS), ("wrong desc", "topic")),
    Shown(
        "findings",
        "Acknowledged messages that are not as they should be",
        (
            "verdict",
            "topic",
            "queueId",
            "queueOffset",
            "uniqKey",
            "foundBrokerName",
            "foundQueueId",
            "foundQueueOffset",
            "physicalOffset",
        ),
        (f"array_position(array{WRONG}, verdict)", "topic", "queueId", "queueOffset"),
        is_finding=True,
    ),
    Shown(
        "groups",
        "What the groups' committed positions have passed",
        ("group", "topic", "passed", "notYet", "passedWrong", "dead"),
        ("passedWrong desc", "notYet desc", "group", "topic"),
    ),
    Shown(
        "positionsAhead",
        "Committed positions behind the end of their queue",
        ("brokerName", "group", "topic", "queueId", "offset", "end", "ahead"),
        ("ahead desc",),
        is_finding=True,
    ),
)
