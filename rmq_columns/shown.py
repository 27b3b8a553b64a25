"""How names, numbers, times and sizes are shown to people, on a terminal or in a page: no text can command the terminal.

Only the standard library: also what needs neither numpy nor pyarrow prints with it.  Times have their zone, and are milliseconds
since 1970 within.
"""

from __future__ import annotations

import datetime
import json
import unicodedata
from typing import Any, Final

EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MS: Final = datetime.timedelta(milliseconds=1)
UNIT_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}
_YEAR_MS_MAX: Final = 253_402_300_799_999
"""The end of the year 9999: what a calendar can show."""

Zone = datetime.tzinfo | None
"""None: the local one."""


def printable(text: str) -> str:
    """Control characters, and what would turn the direction of a line, become escapes; broken Unicode does, too."""
    if text.isascii() and text.isprintable():
        return text
    made = []
    for character in text:
        if character.isprintable() or character == " ":
            made.append(character)
        else:
            made.append(character.encode("unicode_escape").decode())
    return "".join(made)


def cells(text: str) -> int:
    """Columns that a printable text takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(_cells_of(character) for character in text)


def _cells_of(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def fit(text: str, width: int) -> str:
    """Made printable, cut to so many columns; the cut shows as `…`."""
    shown = printable(text[: 4 * width + 4])
    if cells(shown) <= width and len(text) <= 4 * width + 4:
        return shown
    made, used = [], 0
    for character in shown:
        step = _cells_of(character)
        if used + step > width - 1:
            break
        made.append(character)
        used += step
    return "".join(made) + "…"


def pad(text: str, width: int) -> str:
    """Cut or filled to exactly so many columns."""
    shown = fit(text, width)
    return shown + " " * (width - cells(shown))


def json_line(value: Any) -> str:
    """One line of ASCII-safe JSON; lone surrogates of file names become escapes."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace").decode()


def text_of(time_ms: int, zone: Zone = None) -> str:
    """ISO 8601 with milliseconds and zone; the bare number when no calendar has it."""
    if not 0 <= time_ms <= _YEAR_MS_MAX:
        return str(time_ms)
    try:
        return (EPOCH + time_ms * MS).astimezone(zone).isoformat(sep=" ", timespec="milliseconds")
    except (OverflowError, OSError, ValueError):
        return str(time_ms)


def short_text_of(time_ms: int, zone: Zone = None) -> str:
    """The same without its zone, for columns whose heading says it."""
    whole = text_of(time_ms, zone)
    return whole[:23] if len(whole) > 23 else whole


def zone_text(zone: Zone = None) -> str:
    """`+02:00`, of the moment we are in."""
    return datetime.datetime.now(zone or datetime.UTC).astimezone(zone).isoformat()[-6:]


def span_text(span_ms: int) -> str:
    """`3 d 4 h`, `12.5 s`, `250 ms`: two figures are enough for a reader."""
    if span_ms < 1000:
        return f"{span_ms} ms"
    for big, small in (("d", "h"), ("h", "m"), ("m", "s")):
        if span_ms >= UNIT_MS[big]:
            return f"{span_ms // UNIT_MS[big]} {big} {span_ms % UNIT_MS[big] // UNIT_MS[small]} {small}"
    return f"{span_ms / 1000:.1f} s"


def bytes_text(count: int) -> str:
    """`1.5 GiB`."""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{count} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"
