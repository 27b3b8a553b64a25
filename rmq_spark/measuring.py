"""What the jobs that measure have in common: steps of time, tables that not every option fits, worst rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from rmq_spark import reasons
from rmq_spark.arguments import Parameter
from rmq_spark.picking import CORRUPT, RANGES
from rmq_spark.tables import WORST as WORST
from rmq_spark.tables import collected as collected

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation

    from rmq_spark.jobs import Source

LAST_MS: Final = (1 << 63) // 1000 - 1
"""A time is a number of microseconds."""


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


def small_table(source: Source, table: str, **more: str) -> list[dict[str, Any]]:
    """Rows of a table that a broker itself holds in memory (configuration, files), read on the driver without Spark."""
    return [row for row in _small_rows(source, table, lenient(source.options), more) if row.get(CORRUPT) is None]


def unreadable(source: Source, table: str, **more: str) -> list[str]:
    """What of such a table cannot be read, a line each."""
    rows = _small_rows(source, table, {**without(source.options, ("mode",)), "mode": "PERMISSIVE"}, more)
    return [row[CORRUPT] for row in rows if row.get(CORRUPT) is not None]


def _small_rows(source: Source, table: str, given: Mapping[str, str], more: Mapping[str, str]) -> list[dict[str, Any]]:
    from rmq_columns import reader_of
    from rmq_columns.read.options import Options
    from rmq_spark.options import located

    dropped = (*RANGES, "queueIds") if table == "topics" else RANGES
    kept = without(given, (*dropped, "columns", "table", "verifyCrc"))
    parsed: Options = located({**kept, "paths": list(source.paths), "table": table, **more})
    rows: list[dict[str, Any]] = reader_of(parsed).read_all().to_pylist()
    return rows


def observed(seen: Observation, frame: DataFrame, *columns: Column) -> dict[str, Any]:
    """What was observed of `frame` in a query that has ended: these aggregates of it.

    Where no row reached the shuffle behind it, Spark left out what is before, the observation too: then it is asked once more.
    """
    try:
        return seen.get
    except Exception as error:
        if not reasons.is_of_spark(error):
            raise
        return frame.agg(*columns).collect()[0].asDict()


def time_at(ms: Column) -> Column:
    """A time of ms since 1970; what does not fit is at the end of time, as in all tables."""
    from pyspark.sql import functions as F

    return F.timestamp_millis(F.when(ms > LAST_MS, LAST_MS).when(ms < -LAST_MS, -LAST_MS).otherwise(ms))


EXACT_LOG_BYTES: Final = 64 << 30
"""Of a log up to this size everything is counted exactly, unless the user says otherwise."""
WINDOWS_MS: Final = (1000, 10_000, 60_000, 300_000, 600_000, 3_600_000, 21_600_000, 86_400_000)
WINDOWS_MAX: Final = 200
"""Points of a plot over time."""
SUFFIX: Final = "\x02"
"""Ends each property; put before the first one, too, it makes every name findable."""


def extent(source: Source) -> tuple[int, int]:
    """(bytes of log, ms from the first message of the first file to the end of the last one, more or less)."""
    from rmq_columns.read.plan import first_store_timestamp
    from rmq_spark.known import stores_of

    size, times, count = 0, [], 1
    for store, tree in stores_of(source):
        files = store.log_files(tree)
        size += sum(file.size for file in files)
        times += [first_store_timestamp(tree, file.path) for file in (files[:1] + files[-1:])]
        count = max(count, len(files))
    known = [time for time in times if time is not None]
    span = max(known) - min(known) if known and count > 1 else 0
    return size, span * count // max(count - 1, 1)


WINDOW: Final = Parameter("window", "duration", "Step of the course over time.  By default at most 200 of them.", least=1)
APPROXIMATE: Final = Parameter("approximate", str, "", "auto", choices=("auto", "yes", "no"))


def window_ms(asked: int | None, span_ms: int) -> int:
    """As the user says, or the shortest that makes few enough points."""
    return asked or next((one for one in WINDOWS_MS if span_ms <= one * WINDOWS_MAX), WINDOWS_MS[-1])


def is_approximate(asked: str, log_bytes: int) -> bool:
    """asked: of `APPROXIMATE`."""
    return asked == "yes" or (asked == "auto" and log_bytes > EXACT_LOG_BYTES)


def has_property(name: str) -> str:
    """SQL: whether the text of the properties, with a `SUFFIX` before it, has this one."""
    return f"contains(propertyText, '{SUFFIX}{name}\x01')"


def property_value(name: str) -> str:
    """SQL: its value; null when there is none."""
    return f"nullif(regexp_extract(propertyText, '{SUFFIX}{name}\x01([^{SUFFIX}]*)', 1), '')"
