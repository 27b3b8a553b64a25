"""Times as people write them; how they are shown is `rmq_columns.shown`, whose names stand here too."""

from __future__ import annotations

from rmq_columns.shown import Zone
from rmq_columns.shown import bytes_text as bytes_text
from rmq_columns.shown import short_text_of as short_text_of
from rmq_columns.shown import span_text as span_text
from rmq_columns.shown import text_of as text_of
from rmq_columns.shown import zone_text as zone_text
from rmq_columns.times_and_sizes import time_ms
from rmq_inspect.errors import CannotLook


def parse(text: str, now_ms: int, zone: Zone = None) -> int:
    """ms since 1970 of what `rmq_columns.times_and_sizes.time_ms` takes.  Raises `CannotLook`."""
    try:
        return time_ms(text, now_ms, zone)
    except ValueError as reason:
        raise CannotLook(str(reason)) from None
