"""Times as people write and read them: always with a zone when printed, milliseconds since 1970 within."""

from __future__ import annotations

import datetime
import re
from typing import Final

from rmq_inspect.errors import CannotLook

_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MS: Final = datetime.timedelta(milliseconds=1)
_UNIT_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}
_AGO: Final = re.compile(r"-(\d{1,12})(ms|s|m|h|d|w)")
_EPOCH_MS: Final = re.compile(r"\d{12,14}")
_YEAR_MS_MAX: Final = 253_402_300_799_999
"""The end of the year 9999: what a calendar can show."""

Zone = datetime.tzinfo | None
"""None: the local one."""


def text_of(time_ms: int, zone: Zone = None) -> str:
    """ISO 8601 with milliseconds and zone; the bare number when no calendar has it."""
    if not 0 <= time_ms <= _YEAR_MS_MAX:
        return str(time_ms)
    try:
        return (_EPOCH + time_ms * _MS).astimezone(zone).isoformat(sep=" ", timespec="milliseconds")
    except (OverflowError, OSError, ValueError):
        return str(time_ms)


def short_text_of(time_ms: int, zone: Zone = None) -> str:
    """The same without its zone, for columns whose heading says it."""
    whole = text_of(time_ms, zone)
    return whole[:23] if len(whole) > 23 else whole


def zone_text(zone: Zone = None) -> str:
    """`+02:00`, of the moment we are in."""
    return datetime.datetime.now(zone or datetime.UTC).astimezone(zone).isoformat()[-6:]


def parse(text: str, now_ms: int, zone: Zone = None) -> int:
    """Milliseconds of `now`, `-90m` (before now), `1700000000000` (ms), or ISO 8601 as `2026-01-31 12:00` (local) or with a zone.

    Raises `CannotLook`.
    """
    text = text.strip()
    if text == "now":
        return now_ms
    if ago := _AGO.fullmatch(text):
        return now_ms - int(ago[1]) * _UNIT_MS[ago[2]]
    if _EPOCH_MS.fullmatch(text):
        return int(text)
    try:
        moment = datetime.datetime.fromisoformat(text)
        moment = moment.replace(tzinfo=zone) if moment.tzinfo is None and zone is not None else moment.astimezone()
        return (moment - _EPOCH) // _MS
    except (ValueError, OverflowError, OSError):
        raise CannotLook(
            f"{text!r} is no time: give now, -90m, 2026-01-31, '2026-01-31 12:00:00+02:00' or milliseconds"
        ) from None


def span_text(span_ms: int) -> str:
    """`3 d 4 h`, `12.5 s`, `250 ms`: two figures are enough for a reader."""
    if span_ms < 1000:
        return f"{span_ms} ms"
    for big, small in (("d", "h"), ("h", "m"), ("m", "s")):
        if span_ms >= _UNIT_MS[big]:
            return f"{span_ms // _UNIT_MS[big]} {big} {span_ms % _UNIT_MS[big] // _UNIT_MS[small]} {small}"
    return f"{span_ms / 1000:.1f} s"


def bytes_text(count: int) -> str:
    """`1.5 GiB`."""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{count} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"
