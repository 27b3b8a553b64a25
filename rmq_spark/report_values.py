"""A value of an outcome as people read it: by its unit; times in the zone of the session."""

from __future__ import annotations

from collections.abc import Callable

from rmq_columns.shown import Zone, bytes_text, short_text_of, span_text, text_of, zone_text
from rmq_spark.outcome import Cell, Column, Unit

NOTHING = "-"


def text(value: Cell, unit: Unit, zone: Zone, *, says_zone: bool = True) -> str:
    """zone: of times.  says_zone: whether a time says it; where a heading does, none does."""
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if value != value or value in (float("inf"), float("-inf")):
        return str(value)
    match unit:
        case Unit.TEXT | Unit.PLACE:
            return str(value)
        case Unit.BYTES:
            return _signed(bytes_text, value)
        case Unit.MS:
            return f"{value:.2f} ms" if isinstance(value, float) and abs(value) < 100 else _signed(span_text, value)
        case Unit.TIME:
            return (text_of if says_zone else short_text_of)(round(value), zone)
        case _ if isinstance(value, float) and not value.is_integer() and abs(value) < 1000:
            return f"{value:.4g}"
        case _:
            return f"{value:,.0f}"


def heading(column: Column, zone: Zone) -> str:
    """A column's name; of times with the zone, which its cells then leave out."""
    return f"{column.name} {zone_text(zone)}" if column.unit is Unit.TIME else column.name


def is_left(column: Column) -> bool:
    """Texts begin at the same place, numbers end there."""
    return column.unit in (Unit.TEXT, Unit.TIME)


def _signed(show: Callable[[int], str], value: float) -> str:
    whole = round(value)
    return f"-{show(-whole)}" if whole < 0 else show(whole)
