"""The format's options as they are needed where a query is planned; without PySpark, since positions are read without it, too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rmq_columns import Options


def located(given: Mapping[str, Any]) -> Options:
    """The options, local paths made absolute: an executor has another working directory than the driver.  Raises `BadOption`."""
    from rmq_columns import parse_options
    from rmq_columns.files.filesystem import absolute

    options = parse_options(dict(given))
    return replace(
        options,
        paths=tuple(map(absolute, options.paths)),
        commit_logs=tuple(map(absolute, options.commit_logs)),
    )
