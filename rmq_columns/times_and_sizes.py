"""Times, durations and sizes as people write them, in commands, in options and in notebooks.

Only the standard library.  A bare number is never guessed at: 90 of what?  (But of a time, ms since 1970, and of a size, bytes.)
Whoever hands over numbers instead of texts means milliseconds and bytes.
"""

from __future__ import annotations

import datetime
import re
import zoneinfo
from typing import Any, Final

from rmq_columns.shown import EPOCH, MS, UNIT_MS, Zone

NO_ZONE: Final = "a time without its zone"

_AGO: Final = re.compile(r"-(\d{1,12})(ms|s|m|h|d|w)")
_EPOCH_MS: Final = re.compile(r"\d{12,14}")
_DURATION: Final = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)\s*(ms|s|m|h|d|w)")
_SIZE: Final = re.compile(r"(\d{1,18}(?:\.\d{1,6})?)\s*(?:([kmgt])(?:i?b)?|b)?", re.IGNORECASE)
_POWERS: Final = {"k": 1, "m": 2, "g": 3, "t": 4}
BASE: Final = 1024
_OFFSET: Final = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2})(?::?(\d{2}))?")


def time_ms(value: Any, now_ms: int, zone: Zone = None) -> int:
    """ms since 1970 of `now`, `-90m` (before now), `1700000000000` (ms), ISO 8601 as `2026-01-31 12:00` (local) or with a zone.

    zone: of a time that has none; without one a text is local, and a datetime refused.  A number is ms.  Raises `ValueError`.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, datetime.datetime):
        if value.tzinfo is None:
            if zone is None:
                raise ValueError(f"{value!r}: {NO_ZONE}")
            value = value.replace(tzinfo=zone)
        return (value - EPOCH) // MS
    text = str(value).strip()
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
        raise ValueError(
            f"{text!r} is no time: give now, -90m, 2026-01-31, '2026-01-31 12:00:00+02:00' or milliseconds"
        ) from None


def duration_ms(value: Any) -> int:
    """`500ms`, `90s`, `1.5m`, `2h`, `1d`, `1w`, `0`; a number is ms, a timedelta what it says.  Raises `ValueError`."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < float("inf"):
        return round(value)
    if isinstance(value, datetime.timedelta) and value >= datetime.timedelta(0):
        return value // MS
    text = str(value).strip().lower()
    if text == "0":
        return 0
    found = _DURATION.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no duration: give 500ms, 90s, 10m, 2h or 1d")
    return round(float(found[1]) * UNIT_MS[found[2]])


def zone_of(name: str) -> datetime.tzinfo:
    """What Spark's settings take for a zone: `Europe/Berlin`, `UTC`, `Z`, `+08:00`, `GMT+8`.  Raises `ValueError`."""
    text = name.strip()
    if text.upper() in ("Z", "UTC", "GMT"):
        return datetime.UTC
    try:
        if found := _OFFSET.fullmatch(text):
            span = datetime.timedelta(hours=int(found[2]), minutes=int(found[3] or 0))
            return datetime.timezone(-span if found[1] == "-" else span)
        return zoneinfo.ZoneInfo(text)
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        raise ValueError(f"{name!r} is no time zone: give Europe/Berlin, UTC or +08:00") from None


def size_bytes(value: Any) -> int:
    """`64MiB`, `256m`, `1g` and `1gb` (all of 1024, as everywhere in Spark), a number of bytes.  Raises `ValueError`."""
    found = _SIZE.fullmatch(str(value).strip())
    if found is None or isinstance(value, bool):
        raise ValueError(f"{str(value)!r} is no size: give 64MiB, 256m, 1g, 1gb or bytes")
    size = float(found[1]) if "." in found[1] else int(found[1])
    return int(size * BASE ** _POWERS.get((found[2] or "").lower(), 0))
