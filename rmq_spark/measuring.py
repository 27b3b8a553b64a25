"""What the jobs that measure have in common: durations as people write them, tables that not every option fits, worst rows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from rmq_columns.errors import BadOption

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rmq_columns.filesystem import Tree
    from rmq_columns.stores import Store
    from rmq_spark.jobs import Source

WORST: Final = 50
"""Rows of a table that a person looks at."""
UNITS_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
OF_LOG_ONLY: Final = ("startingTimestamp", "endingTimestamp", "startingPhysicalOffset", "endingPhysicalOffset")
"""Options that choose messages; `consumequeue`, `topics` and `consumerOffsets` refuse some of them."""
NOT_OF_TOPICS: Final = (*OF_LOG_ONLY, "queueIds")


def duration_ms(text: str | int | float) -> int:
    """`500ms`, `90s`, `10m`, `2h`, `1d`; a bare number is ms.  Raises `BadOption`."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|)", str(text).strip().lower())
    if found is None:
        raise BadOption(f"not a duration: {text!r}; 500ms, 90s, 10m, 2h, 1d")
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


def underscored(given: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters under the names that a job's function takes: `max_lag` for `max-lag`."""
    return {name.replace("-", "_"): value for name, value in given.items()}


def taken(options: Mapping[str, Any], names: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(a job's own parameters, options of the format), of what its function was given."""
    own = {name: value for name, value in options.items() if name in names}
    return own, {name: value for name, value in options.items() if name not in names}


def small_table(source: Source, table: str, **more: str) -> list[dict[str, Any]]:
    """Rows of a table that a broker itself holds in memory (configuration, files), read on the driver without Spark."""
    from rmq_columns import reader_of
    from rmq_columns.options import Options
    from rmq_columns.schema import CORRUPT
    from rmq_spark.store import located

    dropped = NOT_OF_TOPICS if table == "topics" else OF_LOG_ONLY
    kept = without(source.options, (*dropped, "columns", "table", "verifyCrc"))
    parsed: Options = located({**lenient(kept), "paths": list(source.paths), "table": table, **more})
    return [row for row in reader_of(parsed).read_all().to_pylist() if row.get(CORRUPT) is None]


def collected(frame: DataFrame, count: int = WORST) -> list[dict[str, Any]]:
    """The first rows, times as ms."""
    return [{name: cell(value) for name, value in row.asDict().items()} for row in frame.limit(count).collect()]


def cell(value: Any) -> Any:
    """A time as ms since 1970, anything else as it is."""
    return round(value.timestamp() * 1000) if isinstance(value, datetime) else value


EXACT_LOG_BYTES: Final = 64 << 30
"""Of a log up to this size everything is counted exactly, unless the user says otherwise."""
WINDOWS_MS: Final = (1000, 10_000, 60_000, 300_000, 600_000, 3_600_000, 21_600_000, 86_400_000)
WINDOWS_MAX: Final = 200
"""Points of a plot over time."""
SUFFIX: Final = "\x02"
"""Ends each property; put before the first one, too, it makes every name findable."""


def _stores(source: Source) -> list[tuple[Store, Tree]]:
    from rmq_columns.stores import list_stores
    from rmq_spark.store import located

    options = located({**without(source.options, (*NOT_OF_TOPICS, "topics", "columns", "table")), "paths": list(source.paths)})
    return [(store, store.tree(options)) for store in list_stores(options)]


def extent(source: Source) -> tuple[int, int]:
    """(bytes of log, ms from the first message of the first file to the end of the last one, more or less)."""
    from rmq_columns.plan import first_store_timestamp

    size, times, count = 0, [], 1
    for store, tree in _stores(source):
        files = store.log_files(tree)
        size += sum(file.size for file in files)
        times += [first_store_timestamp(tree, file.path) for file in (files[:1] + files[-1:])]
        count = max(count, len(files))
    known = [time for time in times if time is not None]
    span = max(known) - min(known) if known and count > 1 else 0
    return size, span * count // max(count - 1, 1)


def queue_topics(source: Source) -> set[str]:
    """Topics that have a directory of queue files."""
    from rmq_columns.filesystem import joined
    from rmq_columns.stores import BATCH_QUEUES, QUEUES

    found = set()
    for store, tree in _stores(source):
        for directory in (QUEUES, BATCH_QUEUES) if store.root else ():
            found |= {one.name for one in tree.entries(joined(store.root, directory)) or () if one.is_directory}
    return found


def window_ms(given: Any, span_ms: int) -> int:
    """As the user says, or the shortest that makes few enough points.  Raises `BadOption`."""
    if given:
        if (asked := duration_ms(given)) > 0:
            return asked
        raise BadOption("a window of 0 ms")
    return next((one for one in WINDOWS_MS if span_ms <= one * WINDOWS_MAX), WINDOWS_MS[-1])


def is_approximate(given: Any, log_bytes: int) -> bool:
    """given: `auto`, `yes`, `no` or None."""
    return given == "yes" or (given != "no" and log_bytes > EXACT_LOG_BYTES)


def has_property(name: str) -> str:
    """SQL: whether the text of the properties, with a `SUFFIX` before it, has this one."""
    return f"contains(propertyText, '{SUFFIX}{name}\x01')"


def property_value(name: str) -> str:
    """SQL: its value; null when there is none."""
    return f"nullif(regexp_extract(propertyText, '{SUFFIX}{name}\x01([^{SUFFIX}]*)', 1), '')"
