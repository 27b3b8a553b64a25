"""Store bytes as columns: many stored messages, queue units or index entries at once, as numpy arrays and as Arrow.

`read_store(path, table="messages", …)` reads a store as a table; `plan_splits` and `read_split` do it in pieces, anywhere.
Needs numpy, and pyarrow for tables, which comes with the extra `[columns]`.  No server imports either.  Every
offset is derived from the layouts of `rmq_wire`, and every length is checked before it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rmq_columns.errors import BadOption, CannotRead, FileGone, Malformed, SeamMismatch, StoreError
    from rmq_columns.read.options import Options, parse_options
    from rmq_columns.read.plan import Part, Split, plan_splits
    from rmq_columns.read.reading import read_split, read_store, reader_of
    from rmq_columns.read.schema import schema_of

__all__ = [
    "BadOption",
    "CannotRead",
    "FileGone",
    "Malformed",
    "Options",
    "Part",
    "SeamMismatch",
    "Split",
    "StoreError",
    "parse_options",
    "plan_splits",
    "read_split",
    "read_store",
    "reader_of",
    "schema_of",
]

_HOMES: dict[str, tuple[str, ...]] = {
    "errors": ("BadOption", "CannotRead", "FileGone", "Malformed", "SeamMismatch", "StoreError"),
    "read.options": ("Options", "parse_options"),
    "read.plan": ("Part", "Split", "plan_splits"),
    "read.schema": ("schema_of",),
    "read.reading": ("read_split", "read_store", "reader_of"),
}


def __getattr__(name: str) -> Any:
    """Public names, imported when they are used: whoever needs only numpy does not pay for pyarrow."""
    from importlib import import_module

    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"rmq_columns.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
