"""Times as people write them; how they are shown is `rmq_columns.shown`, whose names stand here too."""

from __future__ import annotations

import datetime
import re
from typing import Final

from rmq_columns.shown import EPOCH, MS, UNIT_MS, Zone
from rmq_columns.shown import bytes_text as bytes_text
from rmq_columns.shown import short_text_of as short_text_of
from rmq_columns.shown import span_text as span_text
from rmq_columns.shown import text_of as text_of
from rmq_columns.shown import zone_text as zone_text
from rmq_inspect.errors import CannotLook

_AGO: Final = re.compile(r"-(\d{1,12})(ms|s|m|h|d|w)")
_EPOCH_MS: Final = re.compile(r"\d{12,14}")


def parse(text: str, now_ms: int, zone: Zone = None) -> int:
    """Milliseconds of `now`, `-90m` (before now), `1700000000000` (ms), or ISO 8601 as `2026-01-31 12:00` (local) or with a zone.

    Raises `CannotLook`.
    """
    text = text.strip()
    if text == "now":
        return now_ms
    if ago := _AGO.fullmatch(text):
        return now_ms - int(ago[1]) * UNIT_MS[ago[2]]
    if _EPOCH_MS.fullmatch(text):
        return int(text)
    try:
        moment = datetime.datetime.fromisoformat(text)
        moment = moment.replace(tzinfo=zone) if moment.tzinfo is None and zone is not None else moment.astimezone()
        return (moment - EPOCH) // MS
    except (ValueError, OverflowError, OSError):
        raise CannotLook(
            f"{text!r} is no time: give now, -90m, 2026-01-31, '2026-01-31 12:00:00+02:00' or milliseconds"
        ) from None
