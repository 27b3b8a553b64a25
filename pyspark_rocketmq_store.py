"""By this module Spark finds the format `rocketmq_store`: it looks into top-level modules whose names begin with `pyspark_`.

One of them that fails while it is imported takes all formats with it, so this one imports nothing but PySpark and our own
classes; that numpy or pyarrow is missing is said when the format is used.
"""

from __future__ import annotations

from rmq_spark import StoreDataSource as DefaultSource
from rmq_spark import register

__all__ = ["DefaultSource", "register"]
