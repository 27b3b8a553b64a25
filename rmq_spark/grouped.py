"""All rows of a key in one call of our own code, by a shuffle: what is reduced where the data is, and never on the driver.

An Arrow table function of Spark's (`pyspark.sql.functions.arrow_udtf`), which needs no pandas.  A key's rows come in batches, so
they need not fit into memory at once; only what a `Reduction` (`grouped_rows`) keeps has to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rmq_spark.grouped_rows import Grouped
from rmq_spark.work import as_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def grouped(frame: DataFrame, by: Sequence[str], order: Sequence[str], home: str, schema: str, shared: Any = None) -> DataFrame:
    """A DataFrame of what `home` (`module:name`, called with `shared`) gives for the rows of each key, in this order.

    schema: of its batches, as Spark writes it.
    """
    from pyspark.sql.functions import arrow_udtf

    own = type("Own", (Grouped,), {"home": home, "shared": as_text(shared), "__module__": "__main__"})
    return arrow_udtf(own, returnType=schema)(frame.asTable().partitionBy(*by).orderBy(*order))
