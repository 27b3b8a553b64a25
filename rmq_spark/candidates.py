"""Rows of the log that may be among some others, before anything is shuffled: a semi-join on hashed keys of bounded size.

The keys that are looked for become bits of a table, by their hash; that table goes to every task by a broadcast join, and a row
of the log stays when its bit is set.  What is looked for is never missed; of the rest those stay that meet a bit by chance (a
million keys set 3 % of the bits).  An exact join of the few that are left follows.  However many keys there are, the table does
not grow.
"""

from __future__ import annotations

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

    columns, is_any = rows.columns, F.lit(False)
    for number, key in enumerate(keys):
        bit = F.pmod(F.xxhash64(key), F.lit(1 << BITS))
        rows = rows.withColumn(f"_bit{number}", F.when(key.isNotNull(), bit))
        rows = rows.withColumn(f"_word{number}", F.shiftright(f"_bit{number}", WORD_BITS))
        own = F.broadcast(marks.select(F.col("word").alias(f"_word{number}"), F.col("bits").alias(f"_bits{number}")))
        rows = rows.join(own, f"_word{number}", "left")
        is_set = F.getbit(F.coalesce(f"_bits{number}", F.lit(0)), F.expr(f"int(_bit{number} & {(1 << WORD_BITS) - 1})"))
        is_any = is_any | (F.coalesce(is_set, F.lit(0)) == 1)
    return rows.where(is_any).select(*columns)
