"""Rows as tables of an outcome: what a column is called says how its values are shown, in all jobs the same.

A job declares the tables of its report (`Shown`): of which of its frames, which rows first, which columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from rmq_spark.outcome import Column, Table, Unit

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

WORST: Final = 50
"""Rows of a table that a person looks at."""
TEXTS: Final = frozenset(
    (
        "before",
        "bodiesEqual",
        "bornHost",
        "brokerName",
        "class",
        "code",
        "consequence",
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
        "position",
        "propertyNames",
        "remedy",
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


@dataclass(frozen=True)
class Shown:
    """A table of a report, made of a frame, or of rows that the driver has anyway."""

    name: str
    title: str
    columns: tuple[str, ...]
    """each of the frame's, or `expression as name`, in Spark's SQL"""
    order: tuple[str, ...] = ()
    """which rows come first: expressions, each may end with ` desc`; rows of the driver are in order"""
    frame: str = ""
    """by its own name if it has none"""
    where: str = ""
    is_finding: bool = False
    units: Mapping[str, Unit] = field(default_factory=dict)
    """where a column is not what its name says"""

    @property
    def frame_name(self) -> str:
        """Of its frame."""
        return self.frame or self.name


Rows = Sequence[Mapping[str, Any]]
"""That the driver has: the worst first, at least those of them that are shown."""


def names_of(schema: str) -> tuple[str, ...]:
    """Of the columns of a schema, as Spark writes it."""
    return tuple(one.split()[0] for one in schema.split(", "))


def rows_of(rows: Sequence[tuple[Any, ...]], schema: str) -> Rows:
    """As many as are shown."""
    return [dict(zip(names_of(schema), row, strict=True)) for row in rows[:WORST]]


def tables_of(report: Sequence[Shown], frames: Mapping[str, DataFrame | Rows], **totals: int) -> list[Table]:
    """The tables, in their order; one of which no frame is there is left out.

    totals: how many rows one has in all, where that is known: without any none is looked for.
    """
    return [_shown(one, frames, totals.get(one.name)) for one in report if one.frame_name in frames or totals.get(one.name) == 0]


def _shown(shown: Shown, frames: Mapping[str, DataFrame | Rows], total: int | None) -> Table:
    names = [column.rpartition(" as ")[2] for column in shown.columns]
    rows: Rows = []
    if total != 0:
        every = frames[shown.frame_name]
        if isinstance(every, Sequence):
            total = len(every) if total is None else total
            return table_of(shown.name, shown.title, names, every, total, shown.is_finding, shown.units)
        every = every.where(shown.where) if shown.where else every
        chosen = every.orderBy(*map(_ordered, shown.order)).selectExpr(*shown.columns)
        rows = collected(chosen)
        if total is None:
            total = len(rows) if len(rows) < WORST else every.count()
    return table_of(shown.name, shown.title, names, rows, total, shown.is_finding, shown.units)


def _ordered(text: str) -> Expression:
    from pyspark.sql import functions as F

    is_desc = text.endswith(" desc")
    column = F.expr(text.removesuffix(" desc"))
    return column.desc() if is_desc else column


def collected(frame: DataFrame, count: int = WORST) -> list[dict[str, Any]]:
    """The first rows, times as ms, also those within structs and arrays."""
    from pyspark.sql import functions as F

    columns = [_in_ms(F.col(f"`{one.name}`"), one.dataType).alias(one.name) for one in frame.schema]
    return [row.asDict() for row in frame.limit(count).select(*columns).collect()]


def _in_ms(column: Expression, kind: DataType) -> Expression:
    """A producer may say that a message was born in the year 57000; Python's times end with the year 9999."""
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    if isinstance(kind, T.TimestampType):
        return F.unix_millis(column)
    if isinstance(kind, T.StructType):
        fields = [_in_ms(column.getField(one.name), one.dataType).alias(one.name) for one in kind]
        return F.when(column.isNotNull(), F.struct(*fields))
    if isinstance(kind, T.ArrayType):
        of_each = kind.elementType
        return F.transform(column, lambda one: _in_ms(one, of_each))
    return column
