"""Messages with some of their properties as columns of their own, chosen within the tasks.

A map of all properties is the most expensive thing that a row can bring to the JVM.  Here each task looks up the few names that a
job needs, leaves out rows that it does not, and hands over narrow batches.  The mode is PERMISSIVE unless the user says
otherwise, and the column `_corrupt` is always there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from rmq_columns.errors import BadOption
from rmq_columns.read.offsets import EARLIEST_WORD, LATEST_WORD
from rmq_spark.work import HOME, Given, Work

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from rmq_columns import Options, Split
    from rmq_spark.jobs import Source

CORRUPT: Final = "_corrupt"
PROPERTY: Final = "property:"
"""Before the name of a property, where a job takes a column or a property."""
OFFSETS: Final = ("startingOffsets", "endingOffsets")
RANGES: Final = ("startingTimestamp", "endingTimestamp", "startingPhysicalOffset", "endingPhysicalOffset", *OFFSETS)
"""Options that choose messages; other tables of a store refuse some of them."""
WHOLE: Final = (EARLIEST_WORD, LATEST_WORD)
"""Offsets that leave nothing out."""
OWN: Final = frozenset({"columns", "table", "includeproperties"})
"""Options that a job sets by itself, in small letters."""

TOPICS_MAX: Final = 100
"""So many topics are told to each task, with its split; of more, rows are chosen behind it."""

Keep = Callable[["pa.RecordBatch", Sequence[str]], Any]
"""Which rows of a batch (after the look-ups) are handed over: a mask of Arrow's, true for those that stay.  Besides it is given
what the `Picking` has `among`."""


@dataclass(frozen=True)
class Picking:
    """What a task does.  properties: (column, name).

    keep: a `Keep`, as `module:function`; blank: (column, rows that keep it, as another such name): everywhere else it becomes
    null, so that only few bodies leave the task.
    """

    columns: tuple[str, ...]
    properties: tuple[tuple[str, str], ...] = ()
    keep: str | None = None
    among: tuple[str, ...] = ()
    blank: tuple[str, str] | None = None


def options_of(source: Source, without: Sequence[str] = (), **more: str) -> dict[str, str]:
    """The user's options but those named, mode PERMISSIVE unless there is one, and `more`."""
    dropped = {name.lower() for name in (*without, *more)} | OWN
    kept = {name: value for name, value in source.options.items() if name.lower() not in dropped}
    return {**({} if any(name.lower() == "mode" for name in kept) else {"mode": "PERMISSIVE"}), **kept, **more}


def refuse_ranges(source: Source, job: str, names: Sequence[str] = RANGES) -> None:
    """Raises `BadOption` where a part of the log was chosen by one of these, and the job would take the rest for lost."""
    given = {name.lower() for name, value in source.options.items() if value.strip().lower() not in WHOLE}
    if asked := [name for name in names if name.lower() in given]:
        raise BadOption(f"{job}: looks at the whole log, not at a range of it ({', '.join(asked)})")


def is_permissive(source: Source) -> bool:
    """Whether damage is shown: unless the user says otherwise.  Raises `BadOption`."""
    from rmq_columns.read.options import Mode, parse_options

    return parse_options({**options_of(source), "paths": list(source.paths)}).mode is Mode.PERMISSIVE


def picked(spark: SparkSession, source: Source, wanted: Picking, without: Sequence[str] = (), **more: str) -> DataFrame:
    """The columns, the properties by their columns, `_corrupt`.  without: options of the user that do not count here.

    Raises `BadOption`, `CannotRead`.
    """
    from rmq_spark.reading import worked

    return worked(spark, "picked", columns_of(source, wanted, without, **more), wanted=asdict(wanted))


def columns_of(source: Source, wanted: Picking, without: Sequence[str] = (), **more: str) -> dict[str, Any]:
    """Options of the format with which a task reads what it picks from.  Raises `BadOption`."""
    from rmq_columns.read import schema as columns
    from rmq_columns.read.options import parse_options

    options = {**options_of(source, without, **more), "paths": list(source.paths)}
    read = [*wanted.columns, *(["properties"] if wanted.properties else [])]
    if is_permissive(source):
        read.append(CORRUPT)
    asked = {**options, "columns": read}
    columns.schema_of(parse_options(asked))  # said before anything is planned
    return asked


def picking(text: str) -> Picking:
    """As the option `wanted` has it."""
    said = json.loads(text)
    blank = said["blank"]
    return Picking(
        tuple(said["columns"]),
        tuple((column, name) for column, name in said["properties"]),
        said["keep"],
        tuple(said["among"]),
        (blank[0], blank[1]) if blank else None,
    )


def schema_of(wanted: Picking) -> pa.Schema:
    """Of what `pick` gives."""
    import pyarrow as pa

    from rmq_columns.read.schema import MESSAGES

    own = [MESSAGES.field(name) for name in wanted.columns]
    return pa.schema([*own, *((column, pa.string()) for column, _ in wanted.properties), (CORRUPT, pa.string())])


def pick(wanted: Picking, split: Split) -> Iterator[pa.RecordBatch]:
    """One split."""
    import pyarrow.compute as pc

    keep = None if wanted.keep is None else _function(wanted.keep)
    blank = None if wanted.blank is None else (wanted.blank[0], _function(wanted.blank[1]))
    for made in looked_up(wanted, split):
        if keep is not None:
            made = made.filter(pc.or_(pc.fill_null(keep(made, wanted.among), False), pc.is_valid(made.column(CORRUPT))))
        if blank is not None:
            made = _blanked(made, blank[0], blank[1](made, wanted.among))
        if len(made):
            yield made


def looked_up(wanted: Picking, split: Split) -> Iterator[pa.RecordBatch]:
    """Every row of a split, with its properties as columns."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from rmq_columns import read_split

    schema = schema_of(wanted)
    for batch in read_split(split):
        columns = [batch.column(name) for name in wanted.columns]
        for _, name in wanted.properties:  # Java takes the last of two values
            columns.append(pc.map_lookup(batch.column("properties"), pa.scalar(name, pa.string()), "last"))
        columns.append(batch.column(CORRUPT) if CORRUPT in batch.schema.names else pa.nulls(len(batch), pa.string()))
        yield pa.record_batch(columns, schema=schema)


def _function(name: str) -> Keep:
    module, _, function = name.partition(HOME)
    found: Keep = getattr(import_module(module), function)
    return found


def _blanked(batch: pa.RecordBatch, column: str, stays: Any) -> pa.RecordBatch:
    import pyarrow as pa
    import pyarrow.compute as pc

    at = batch.schema.get_field_index(column)
    kept = pc.if_else(pc.fill_null(stays, False), batch.column(at), pa.nulls(len(batch), batch.schema.field(at).type))
    return batch.set_column(at, batch.schema.field(at), kept)


def named(text: str, what: str) -> tuple[str, str | None]:
    """(column, property that it is made of): of `keys`, `uniqKey` or another column; of `property:NAME` the column `what`."""
    if text.startswith(PROPERTY):
        name = text[len(PROPERTY) :]
        if not name:
            raise BadOption(f"{text}: no name of a property")
        return what, name
    return text, None


def log_splits(given: Given, options: Options) -> list[Split]:
    """The `plan` of whatever is worked out of the messages of a split."""
    from rmq_columns import plan_splits

    return plan_splits(options)


def _picked_schema(given: Given) -> pa.Schema:
    return schema_of(given["wanted"])


def _picked(given: Given, split: Split) -> Iterator[pa.RecordBatch]:
    return pick(given["wanted"], split)


PICKED: Final = Work(_picked_schema, _picked, log_splits, {"wanted": picking})
"""The table of `picked`."""
