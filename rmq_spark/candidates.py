"""Rows that may be among some others, before anything is shuffled: a semi-join on hashed keys of bounded size.

The keys that are looked for become bits of a table, by their hash; that table goes to every task by a broadcast join, and a row
of the log stays when its bit is set.  What is looked for is never missed; of the rest those stay that meet a bit by chance (a
million keys set 3 % of the bits).  An exact join of the few that are left follows.  However many keys there are, the table does
not grow.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

BITS: Final = 25
"""Of the number of a bit.  Half a million words, 12 MB through the driver at the most."""
WORD_BITS: Final = 6
"""A word has 64 of them."""


def marked(wanted: DataFrame, key: Column) -> DataFrame:
    """The table of bits of a key; a row without one is not looked for."""
    from pyspark.sql import functions as F

    bit = F.pmod(F.xxhash64(key), F.lit(1 << BITS)).alias("bit")
    words = wanted.where(key.isNotNull()).select(bit).groupBy(F.shiftright("bit", WORD_BITS).alias("word"))
    return words.agg(F.bit_or(F.expr(f"shiftleft(1L, int(bit & {(1 << WORD_BITS) - 1}))")).alias("bits"))


def perhaps(rows: DataFrame, marks: DataFrame, *keys: Column) -> DataFrame:
    """The rows of which one of the keys may have been marked.  marks: of `marked`, of keys of the same type."""
    from pyspark.sql import functions as F

    names = [f"_perhaps{number}" for number in range(len(keys))]
    for name, key in zip(names, keys, strict=True):
        rows = perhaps_as(name, rows, marks, key)
    return rows.where(reduce(or_, map(F.col, names), F.lit(False))).drop(*names)


def perhaps_as(name: str, rows: DataFrame, marks: DataFrame, key: Column) -> DataFrame:
    """All rows, with a column that is true for those whose key may have been marked, and never null."""
    from pyspark.sql import functions as F

    bit, word, bits = (f"_{one}_{name}" for one in ("bit", "word", "bits"))
    rows = rows.withColumn(bit, F.when(key.isNotNull(), F.pmod(F.xxhash64(key), F.lit(1 << BITS))))
    rows = rows.withColumn(word, F.shiftright(bit, WORD_BITS))
    own = F.broadcast(marks.select(F.col("word").alias(word), F.col("bits").alias(bits)))
    is_set = F.getbit(F.coalesce(bits, F.lit(0)), F.expr(f"int({bit} & {(1 << WORD_BITS) - 1})"))
    is_perhaps = F.coalesce(is_set, F.lit(0)) == 1
    return rows.join(own, word, "left").withColumn(name, is_perhaps).drop(bit, word, bits)
