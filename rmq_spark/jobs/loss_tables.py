"""What a person sees of the outcome of `loss`."""

from __future__ import annotations

from typing import Any, Final

from rmq_spark.outcome import Table
from rmq_spark.tables import table_of

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


def of_topics(found: list[Any]) -> Table:
    """A row for each topic, the worst first."""
    sums: dict[str, dict[str, int]] = {}
    for row in found:
        sums.setdefault(row["topic"], dict.fromkeys(VERDICTS, 0))[row["verdict"]] = row["n"]
    order = sorted(sums, key=lambda topic: (-sum(sums[topic][one] for one in WRONG), topic))
    return table_of("topics", "By topic", ("topic", *VERDICTS), [{"topic": one, **sums[one]} for one in order], len(sums))


def of_findings(rows: list[dict[str, Any]], total: int) -> Table:
    """The worst rows."""
    names = (
        "verdict",
        "topic",
        "queueId",
        "queueOffset",
        "uniqKey",
        "foundBrokerName",
        "foundQueueId",
        "foundQueueOffset",
        "physicalOffset",
    )
    return table_of("findings", "Acknowledged messages that are not as they should be", names, rows, total, True)


def of_groups(rows: list[dict[str, Any]]) -> Table:
    """By group and topic."""
    names = ("group", "topic", "passed", "notYet", "passedWrong", "dead")
    return table_of("groups", "What the groups' committed positions have passed", names, rows, len(rows))


def of_positions(rows: list[dict[str, Any]], total: int) -> Table:
    """Positions that no queue has reached."""
    names = ("brokerName", "group", "topic", "queueId", "offset", "end", "ahead")
    return table_of("positionsAhead", "Committed positions behind the end of their queue", names, rows, total, True)
