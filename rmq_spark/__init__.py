"""Spark over stores: the data source `rocketmq_store`, made of what `rmq_columns` plans and reads.

Needs PySpark, numpy and pyarrow, which the extra `[spark]` brings; this module itself needs none of them, so that whoever lacks
reads which (`MissingPackage`).  Spark finds the format by the top-level module `pyspark_rocketmq_store`; `register(spark)`
does it by hand.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rmq_spark.needs import MissingPackage, need

if TYPE_CHECKING:
    from rmq_spark.asking import asked
    from rmq_spark.reading import count, read
    from rmq_spark.store import StoreDataSource, StoreReader, register

__all__ = ["MissingPackage", "StoreDataSource", "StoreReader", "asked", "count", "need", "read", "register"]
_HOMES = {"asked": "asking", "count": "reading", "read": "reading"}


def __getattr__(name: str) -> Any:
    """Public names that are made of PySpark's classes, imported when they are used.  Raises `MissingPackage` without PySpark."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        home = import_module(f"{__name__}.{_HOMES.get(name, 'store')}")
    except ModuleNotFoundError:
        need()
        raise
    return getattr(home, name)
