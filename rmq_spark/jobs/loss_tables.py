"""What a person sees of the outcome of `loss`."""

from __future__ import annotations

from typing import Any, Final

from rmq_spark.measuring import WORST
from rmq_spark.outcome import Cell, Column, Table, Unit

VERDICTS: Final = ("stored", "waiting", "expired", "elsewhere", "unindexed", "unreadable", "lost")
WRONG: Final = ("elsewhere", "unindexed", "unreadable", "lost")


def of_topics(found: list[Any]) -> Table:
    """A row for each topic, the worst first."""
    sums: dict[str, dict[str, int]] = {}
    for row in found:
        sums.setdefault(row["topic"], dict.fromkeys(VERDICTS, 0))[row["verdict"]] = row["n"]
    order = sorted(sums, key=lambda topic: (-sum(sums[topic][one] for one in WRONG), topic))
    columns = (Column("topic"), *(Column(one, Unit.COUNT) for one in VERDICTS))
    rows: list[tuple[Cell, ...]] = [(topic, *sums[topic].values()) for topic in order[:WORST]]
    return Table("topics", "By topic", columns, rows, len(sums))


def _table(name: str, title: str, columns: tuple[Column, ...], rows: list[dict[str, Any]], total: int, is_finding: bool) -> Table:
    return Table(name, title, columns, [tuple(row[one.name] for one in columns) for row in rows], total, is_finding)


def of_findings(rows: list[dict[str, Any]], total: int) -> Table:
    """The worst rows."""
    texts = ("verdict", "topic", "queueId", "queueOffset", "uniqKey", "foundBrokerName", "foundQueueId", "foundQueueOffset")
    columns = tuple(map(Column, (*texts, "physicalOffset")))
    return _table("findings", "Acknowledged messages that are not as they should be", columns, rows, total, True)


def of_groups(rows: list[dict[str, Any]]) -> Table:
    """By group and topic."""
    numbers = ("passed", "notYet", "passedWrong", "dead")
    columns = (Column("group"), Column("topic"), *(Column(one, Unit.COUNT) for one in numbers))
    return _table("groups", "What the groups' committed positions have passed", columns, rows, len(rows), False)


def of_positions(rows: list[dict[str, Any]], total: int) -> Table:
    """Positions that no queue has reached."""
    columns = (*map(Column, ("brokerName", "group", "topic", "queueId", "offset", "end")), Column("ahead", Unit.COUNT))
    return _table("positionsAhead", "Committed positions behind the end of their queue", columns, rows, total, True)
