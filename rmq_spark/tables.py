"""Rows as tables of an outcome: what a column is called says how its values are shown, in all jobs the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from rmq_spark.outcome import Column, Table, Unit

WORST: Final = 50
"""Rows of a table that a person looks at."""
TEXTS: Final = frozenset(
    (
        "before",
        "bodiesEqual",
        "bornHost",
        "brokerName",
        "class",
        "detail",
        "directory",
        "field",
        "fields",
        "file",
        "foundBrokerName",
        "group",
        "key",
        "keys",
        "kind",
        "originInLog",
        "originTopic",
        "outcome",
        "places",
        "propertyNames",
        "severity",
        "side",
        "state",
        "systemTopic",
        "topic",
        "uniqKey",
        "verdict",
        "what",
    )
)
TIMES: Final = frozenset(("firstDue", "firstRetry", "lastDead", "lastDue", "lastRetry", "windowMs"))
BYTES: Final = frozenset(("bytes", "bytesBehind", "maxSize", "meanSize", "minSize"))
RATIOS: Final = frozenset(("gini", "maxMean", "share", "successRate"))
PLACES: Final = frozenset(("byte", "end", "offset"))
SPANS: Final = frozenset(("median", "most", "msApart", "msApartMax", "p50", "p90", "p99", "p99_9"))


def unit_of(column: str) -> Unit:
    """By the words of the docs: …Timestamp is a time, …Ms a duration, …Offset and …Id a place, the rest is counted."""
    if column in TEXTS:
        return Unit.TEXT
    if column in TIMES or column.endswith("Timestamp"):
        return Unit.TIME
    if column in SPANS or column.endswith("Ms") or column.startswith(("waitMs", "costMs")):
        return Unit.MS
    if column in PLACES or column.endswith(("Offset", "Id")):
        return Unit.PLACE
    return Unit.BYTES if column in BYTES else Unit.RATIO if column in RATIOS else Unit.COUNT


def table_of(
    name: str,
    title: str,
    columns: Sequence[str],
    rows: Sequence[Mapping[str, Any]],
    total: int,
    is_finding: bool = False,
    units: Mapping[str, Unit] | None = None,
) -> Table:
    """The first rows.  total: of how many; units: where a column is not what its name says."""
    own = units or {}
    kinds = tuple(Column(one, own.get(one) or unit_of(one)) for one in columns)
    return Table(name, title, kinds, [tuple(cell(row[one]) for one in columns) for row in rows[:WORST]], total, is_finding)


def cell(value: Any) -> Any:
    """A time as ms since 1970, anything else as it is."""
    return round(value.timestamp() * 1000) if isinstance(value, datetime) else value
