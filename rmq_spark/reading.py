"""A store as a DataFrame, planned anew each time, with what is not asked for left out before it is read.

Spark 4 does not say to a Python source which columns and rows a query needs, and a filter that is pushed to one stays on in the
next query of the same DataFrame (4.3).  So both are said here, and become options of the format; a condition that no option can
say is left to Spark, on top.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Final

from rmq_spark.arguments import OPTIONS_OF_TIME, format_options
from rmq_spark.needs import need

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CHEAPEST: Final = "queueId"
"""The column that costs least, where rows are only counted."""
MESSAGES: Final = "messages"
_TEXT: Final = r"'(?:[^']|'')*'"
_NUMBER: Final = r"-?\d{1,18}"
_AND: Final = re.compile(r"\band\b", re.IGNORECASE)
_COMPARED: Final = re.compile(rf"\s*(\w+)\s*(=|>=|<)\s*({_TEXT}|{_NUMBER})\s*")
_IN: Final = re.compile(rf"\s*(\w+)\s+in\s*\(\s*((?:{_TEXT}|{_NUMBER})(?:\s*,\s*(?:{_TEXT}|{_NUMBER}))*)\s*\)\s*", re.IGNORECASE)
_LITERAL: Final = re.compile(rf"{_TEXT}|{_NUMBER}")
_MORE: Final = re.compile(r"\b(or|not|between|case|select)\b|[\"`\\!|]|--|/\*", re.IGNORECASE)
"""What would need a parser: such a condition is Spark's as a whole."""
_SETS: Final = {"topic": "topics", "queueid": "queueIds"}
_RANGES: Final = {
    ("storetimestamp", ">="): "startingTimestamp",
    ("storetimestamp", "<"): "endingTimestamp",
    ("physicaloffset", ">="): "startingPhysicalOffset",
    ("physicaloffset", "<"): "endingPhysicalOffset",
}


def read(
    spark: SparkSession,
    path: str | PathLike[str] | Iterable[str | PathLike[str]],
    columns: Iterable[str] | str | None = None,
    where: str | None = None,
    *,
    table: str = MESSAGES,
    **options: Any,
) -> DataFrame:
    """The messages of one or more stores, or another table of them.

    columns: those that are decoded and sent to the JVM.  where: a condition in SQL.  What of it, between `and`, names topics,
    queue ids, or a range (`>=`, `<`) of storeTimestamp or physicalOffset of messages becomes options.  options: of the format; a
    time without a zone is of the session.  Damage (mode PERMISSIVE) has to fulfil the condition like any row: only its place is
    known.  Raises `BadOption`, `MissingPackage`; when it is read what the format raises.
    """
    need()
    from rmq_columns import parse_options, schema_of
    from rmq_columns.read.options import Mode
    from rmq_spark.store import reader_of

    paths = [fspath(path)] if isinstance(path, str | PathLike) else [fspath(one) for one in path]
    given = format_options(options)
    left = where
    if where is not None and table == MESSAGES:
        chosen, left = chosen_by(where, given)
        given |= format_options(chosen)
        if parse_options({**given, "table": table, "paths": paths}).mode is Mode.PERMISSIVE:
            left = where  # options leave damage in, whatever topics and queues they name
    names = [name.strip() for name in columns.split(",")] if isinstance(columns, str) else columns and list(columns)
    asked = names
    if names and left:
        words = {word.lower() for word in re.findall(r"\w+", left)}
        whole = parse_options({**given, "table": table, "paths": paths, "columns": None})
        asked = [*names, *(name for name in schema_of(whole).names if name.lower() in words and name not in names)]
    if asked:
        given["columns"] = ",".join(asked)
    frame = reader_of(spark, table, given).load(paths)
    frame = frame.where(left) if left else frame
    return frame if asked == names or not names else frame.select(*names)


def worked(
    spark: SparkSession,
    table: str,
    options: Mapping[str, Any] | None = None,
    *,
    splits: Sequence[Any] | None = None,
    **given: Any,
) -> DataFrame:
    """A DataFrame of a table of work.  options: of the format; given: parameters, as they are; splits: where they are known.

    Like any DataFrame it runs again with each action: `persist()` it where more than one follows.
    """
    need()
    from rmq_spark.store import reader_of
    from rmq_spark.work import SPLITS, as_text, texts_of

    texts = texts_of(given)
    if splits is not None:
        texts[SPLITS] = as_text(tuple(splits))
    held = texts_of({name: value for name, value in (options or {}).items() if name != "paths"})
    paths = (options or {}).get("paths")
    reader = reader_of(spark, table, {**held, **texts})
    return reader.load(list(paths)) if paths else reader.load()


def count(
    spark: SparkSession,
    path: str | PathLike[str] | Iterable[str | PathLike[str]],
    where: str | None = None,
    *,
    table: str = MESSAGES,
    **options: Any,
) -> int:
    """How many rows `read` would have, of which only what counting needs is decoded and sent."""
    return read(spark, path, [CHEAPEST] if table == MESSAGES else None, where, table=table, **options).count()


def chosen_by(where: str, given: Mapping[str, str]) -> tuple[dict[str, Any], str]:
    """(options that say the same as parts of the condition, what is left of it).  given: options that stay as they are."""
    if _MORE.search(_LITERAL.sub("''", where)) or any(mark in where for mark in '"`\\'):
        return {}, where
    made: dict[str, Any] = {}
    left = []
    depth = 0
    for part in _parts(where):
        name, value = _as_option(part) if not depth else (None, None)
        blank = _LITERAL.sub("", part)
        depth += blank.count("(") - blank.count(")")
        if name is None or name in made or name in given:
            left.append(part.strip())
        else:
            made[name] = value
    return made, " AND ".join(left)


def _parts(where: str) -> list[str]:
    """Between the words `and` that stand in no literal."""
    blank = _LITERAL.sub(lambda found: "'" * len(found[0]), where)
    cuts = [0, *(place for found in _AND.finditer(blank) for place in found.span()), len(where)]
    return [where[begin:end] for begin, end in zip(cuts[::2], cuts[1::2], strict=True)]


def _as_option(part: str) -> tuple[str | None, Any]:
    """(name of the option, value); (None, None) where none says the same."""
    if (found := _IN.fullmatch(part)) and (name := _SETS.get(found[1].lower())):
        return _set(name, _LITERAL.findall(found[2]))
    if (found := _COMPARED.fullmatch(part)) is None:
        return None, None
    column, compared, literal = found[1].lower(), found[2], found[3]
    if compared == "=" and (name := _SETS.get(column)):
        return _set(name, [literal])
    name = _RANGES.get((column, compared))
    is_text = literal.startswith("'")
    if name is None or is_text != (name in OPTIONS_OF_TIME):
        return None, None
    if not is_text:
        return name, literal
    try:
        moment = datetime.fromisoformat(_text(literal))
    except ValueError:
        return None, None
    return (name, moment) if not moment.microsecond % 1000 else (None, None)


def _set(name: str, literals: list[str]) -> tuple[str | None, Any]:
    is_text = name == "topics"
    if any(literal.startswith("'") != is_text for literal in literals):
        return None, None
    values = [_text(literal) for literal in literals]
    return (name, values) if all(value == value.strip() != "" for value in values) else (None, None)


def _text(literal: str) -> str:
    return literal[1:-1].replace("''", "'") if literal.startswith("'") else literal
