"""Tables of the format `rocketmq_store` whose rows are worked out of each split, within the tasks: what jobs are made of.

A `Work` says which columns there are, which splits, and what is done with one of them.  Who reads the table names it and gives
its parameters as options, as of any table of a store; so nothing is sent but names and plain values, and the heavy part ends in
the task.  A task that fails is repeated by Spark, an executor that dies is replaced: work that is done twice must do no harm.
"""

from __future__ import annotations

import base64
import json
import pickle
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pyarrow as pa

    from rmq_columns import Options

WORKS: Final[Mapping[str, str]] = {
    "traces": "rmq_spark.consumption:TRACED",
    "positions": "rmq_spark.jobs.lag_positions:HELD",
    "newest": "rmq_spark.progress:NEWEST",
    "picked": "rmq_spark.picking:PICKED",
    "ordered": "rmq_spark.jobs.order_scan:ORDERED",
    "digests": "rmq_spark.jobs.diff_passes:DIGESTED",
    "looked": "rmq_spark.jobs.diff_passes:LOOKED",
    "exported": "rmq_spark.jobs.export:EXPORTED",
    "manifest": "rmq_spark.jobs.export:LISTED",
    "queueRuns": "rmq_spark.jobs.rebuild_rounds:BUILT",
    "audited": "rmq_spark.jobs.audit_work:AUDITED",
    "queuePieces": "rmq_spark.jobs.rebuild_shuffle:GATHERED",
    "compared": "rmq_spark.jobs.rebuild_queues:COMPARING",
}
"""Table -> module and the name of its `Work` there."""
HOME: Final = ":"
"""In the name of a table that is in no list: module and name."""
SPLITS: Final = "splits"
"""Option: the splits, where whoever reads the table knows them already."""
Given = Mapping[str, Any]
"""Values of the parameters."""


@dataclass(frozen=True)
class Work:
    """A table.  schema: of its batches, of the types in `rmq_spark.types.OF_ARROW` (structs and lists of them, too)."""

    schema: Callable[[Given], pa.Schema]
    read: Callable[[Given, Any], Iterator[pa.RecordBatch]]
    """The rows of one split.  What it raises fails the query."""
    plan: Callable[[Given, Options], Sequence[Any]] | None = None
    """One task for each; None where the splits come in the option `splits` alone."""
    parameters: Mapping[str, Callable[[str], Any]] = field(default_factory=dict)
    """Option -> how its text is read.  All other options are the format's."""
    of: str = "messages"
    """The table of a store whose options those are."""
    for_plan: frozenset[str] = frozenset()
    """Parameters that no task needs."""


def work_of(table: str | None) -> Work | None:
    """None for a table of a store, or none at all."""
    if table is None:
        return None
    listed = {name.lower(): home for name, home in WORKS.items()}
    home = table if HOME in table else listed.get(table.strip().lower())
    if home is None:
        return None
    module, _, name = home.partition(HOME)
    found = getattr(import_module(module), name)
    if not isinstance(found, Work):
        raise TypeError(f"{table}: no table")
    return found


def texts_of(values: Mapping[str, Any]) -> dict[str, str]:
    """As options: texts, of anything else its JSON; None is none."""
    return {name: one if isinstance(one, str) else json.dumps(one) for name, one in values.items() if one is not None}


def as_text(value: Any) -> str:
    """Plain values, for an option."""
    return base64.b85encode(pickled(value)).decode()


def of_text(text: str) -> Any:
    """As `as_text` was given it."""
    return unpickled(base64.b85decode(text))


def pickled(value: Any, *, is_pressed: bool = True) -> bytes:
    """Small: of ten thousand names that are much alike a tenth.  Not pressed: for each of many small values, in less time."""
    made = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    return zlib.compress(made, 1) if is_pressed else made


def unpickled(packed: bytes) -> Any:
    """As `pickled` was given it."""
    return pickle.loads(packed if packed[:1] == pickle.PROTO else zlib.decompress(packed))


def given_of(work: Work, options: Mapping[str, Any]) -> dict[str, Any]:
    """Values of the parameters.  Raises `BadOption`."""
    from rmq_columns import BadOption

    lower = {name.lower(): value for name, value in options.items()}
    found = {}
    for name, read in work.parameters.items():
        if (text := lower.get(name.lower())) is not None:
            try:
                found[name] = read(text)
            except ValueError as reason:
                raise BadOption(f"{name}: {text!r}: {reason}") from reason
    return found
