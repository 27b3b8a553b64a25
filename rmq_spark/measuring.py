"""What the jobs that measure have in common: durations as people write them, tables that not every option fits, worst rows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rmq_spark.jobs import Source

WORST: Final = 50
"""Rows of a table that a person looks at."""
UNITS_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
OF_LOG_ONLY: Final = ("startingTimestamp", "endingTimestamp", "startingPhysicalOffset", "endingPhysicalOffset")
"""Options that choose messages; `consumequeue`, `topics` and `consumerOffsets` refuse some of them."""
NOT_OF_TOPICS: Final = (*OF_LOG_ONLY, "queueIds")


def duration_ms(text: str | int | float) -> int:
    """`500ms`, `90s`, `10m`, `2h`, `1d`; a bare number is ms.  Raises ValueError."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|)", str(text).strip().lower())
    if found is None:
        raise ValueError(f"not a duration: {text!r}; 500ms, 90s, 10m, 2h, 1d")
    return round(float(found[1]) * UNITS_MS[found[2] or "ms"])


def without(options: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    """The options but for these, in any case."""
    lower = {name.lower() for name in names}
    return {name: value for name, value in options.items() if name.lower() not in lower}


def has(options: Mapping[str, str], name: str) -> bool:
    """Whether the user gave this option, in any case."""
    return any(one.lower() == name.lower() for one in options)


def lenient(options: Mapping[str, str]) -> dict[str, str]:
    """Leaves out what cannot be read, unless the user says otherwise."""
    return {**options} if has(options, "mode") else {**options, "mode": "DROPMALFORMED"}


def source_of(paths: Any, options: Mapping[str, Any]) -> Source:
    """Of the arguments of a job's function: one path or several, options of the format."""
    from os import PathLike, fspath

    from rmq_spark.jobs import Source

    several = [paths] if isinstance(paths, str | PathLike) else list(paths)
    return Source(tuple(fspath(one) for one in several), {name: str(value) for name, value in options.items()})


def taken(options: Mapping[str, Any], names: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(a job's own parameters, options of the format), of what its function was given."""
    own = {name: value for name, value in options.items() if name in names}
    return own, {name: value for name, value in options.items() if name not in names}


def small_table(source: Source, table: str, **more: str) -> list[dict[str, Any]]:
    """Rows of a table that a broker itself holds in memory (configuration, files), read on the driver without Spark."""
    from rmq_columns import reader_of
    from rmq_columns.options import Options
    from rmq_spark.store import located

    dropped = NOT_OF_TOPICS if table in ("topics", "files") else OF_LOG_ONLY
    kept = without(source.options, (*dropped, "columns", "table", "verifyCrc"))
    parsed: Options = located({**kept, "paths": list(source.paths), "table": table, **more})
    return reader_of(parsed).read_all().to_pylist()


def collected(frame: DataFrame, count: int = WORST) -> list[dict[str, Any]]:
    """The first rows, times as ms."""
    return [{name: cell(value) for name, value in row.asDict().items()} for row in frame.limit(count).collect()]


def cell(value: Any) -> Any:
    """A time as ms since 1970, anything else as it is."""
    return round(value.timestamp() * 1000) if isinstance(value, datetime) else value
