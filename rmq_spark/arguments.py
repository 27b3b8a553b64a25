"""How a job is given what to do: its parameters, declared once, and what was given for them, by a command or from a notebook.

A job's module declares `PARAMETERS`; its command has an option for each (`--max-lag` for `max_lag`), its function a keyword.
Both go through `arguments_of`, which gives a value of the right type for every one of them, and to the format `rocketmq_store`
what is the format's.  A name that there is not is an error: an option that was misspelt would change nothing, silently.
"""

from __future__ import annotations

import difflib
import json
import math
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from rmq_columns.errors import BadOption, CannotRead
from rmq_columns.shown import Zone
from rmq_columns.times_and_sizes import duration_ms, size_bytes, time_ms
from rmq_spark.zone import session_zone

OPTIONS_OF_TIME: Final = frozenset(("startingTimestamp", "endingTimestamp"))
"""Of the format."""
OURS: Final = frozenset(("path", "paths", "table"))
"""Options of the format that are said otherwise, or are the job's to choose."""


@dataclass(frozen=True)
class Parameter:
    """Of a job.  name: with `_`.  kind: str, or one of `READERS`.  default: as it is written on the command line."""

    name: str
    kind: Any
    help: str
    default: Any = None
    metavar: str | None = None
    is_many: bool = False
    is_required: bool = False
    choices: tuple[str, ...] = ()
    least: float | None = None
    """the smallest number that makes sense"""

    def read(self, value: Any, zone: Zone = None) -> Any:
        """One value, as text or as it is.  zone: of a time that has none, else the session's.  Raises `ValueError`; its text says
        what would be right.
        """
        if self.choices:
            return _choice(self.choices, value)
        if self.kind == "time":
            return _time(value, zone)
        made = READERS.get(self.kind, self.kind)(value)
        if self.least is not None and made < self.least:
            raise ValueError(f"{value} is below {self.least:g}")
        return made

    def shown(self) -> str:
        """What stands for a value in the help."""
        return self.metavar or ("[" + "|".join(self.choices) + "]" if self.choices else METAVARS[self.kind])


def arguments_of(
    parameters: Sequence[Parameter], options: Mapping[str, Any], zone: Zone = None
) -> tuple[dict[str, Any], dict[str, str]]:
    """(every parameter by its name, with its type or None; the rest, as texts, for the format).  A list has one element, where a
    parameter takes several and one was given.

    Times and durations become ms, sizes bytes, local paths absolute.  zone: of times that have none, else that of the session
    there is (`spark.sql.session.timeZone`).  Raises `BadOption`.
    """
    known = [one.name for one in parameters]
    rest = format_options({name: value for name, value in options.items() if name not in known}, known, zone)
    return {one.name: value_of(one, options.get(one.name), one.name, zone) for one in parameters}, rest


def value_of(one: Parameter, given: Any, name: str, zone: Zone = None) -> Any:
    """name: as whoever gave it calls the parameter.  Raises `BadOption`."""
    if given is None or (one.is_many and given == ()):
        if one.is_required:
            raise BadOption(f"{name}: is missing; {one.help[0].lower()}{one.help[1:].rstrip('.')}")
        given = False if one.kind is bool else one.default
    try:
        if one.is_many:
            return tuple(one.read(each, zone) for each in (() if given is None else _several(given)))
        return None if given is None else one.read(given, zone)
    except (ValueError, TypeError) as reason:
        raise BadOption(f"{name}: {reason}") from reason


def _several(value: Any) -> tuple[Any, ...]:
    """A text is one element, not its letters."""
    is_one = isinstance(value, str | bytes | os.PathLike) or not isinstance(value, Iterable)
    return (value,) if is_one else tuple(value)


def format_options(options: Mapping[str, Any], known: Iterable[str] = (), zone: Zone = None) -> dict[str, str]:
    """Options of the format under their own names (they are taken in any case), as texts.  known: what may have been meant, too.

    A time without a zone becomes ms, by `zone` or else by the session's.  Raises `BadOption`.
    """
    from rmq_columns.read.options import NAMES, ZONE

    there = {name.lower(): name for name in (*NAMES, ZONE) if name not in OURS}
    made: dict[str, str] = {}
    for asked, value in options.items():
        if (name := there.get(asked.lower())) is None:
            raise BadOption(f"no option {asked}; {_meant(asked, list(dict.fromkeys([*known, *there.values()])))}")
        if name in made:
            raise BadOption(f"{name}: given twice")
        if value is not None:
            made[name] = _as_text(_with_zone(name, value, zone) if name in OPTIONS_OF_TIME else value)
    return made


def _with_zone(name: str, value: Any, zone: Zone) -> Any:
    """What has a zone, or is a number, stays as it is; so does what is no time: the format says so."""
    try:
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value).strip())
    except ValueError:
        return value
    is_number = not isinstance(value, datetime) and str(value).strip().isdigit()
    return value if is_number or moment.tzinfo is not None else _time(moment, zone)


def _meant(name: str, there: Sequence[str]) -> str:
    by_lower = {one.lower(): one for one in there}
    close = difflib.get_close_matches(name.lower().replace("-", "_"), by_lower, 1)
    return f"did you mean {by_lower[close[0]]}?" if close else f"there are {', '.join(there)}"


def _as_text(value: Any) -> str:
    """As the options of a Spark source are: texts."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        return json.dumps(value)
    if isinstance(value, str | os.PathLike) or not isinstance(value, Iterable):
        return str(value)
    return json.dumps([str(one) for one in (sorted(value) if isinstance(value, set | frozenset) else value)])


def _choice(choices: Sequence[str], value: Any) -> str:
    found = next((one for one in choices if one.lower() == str(value).strip().lower()), None)
    if found is None:
        raise ValueError(f"{str(value)!r} is none of {', '.join(choices)}")
    return found


def _truth(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    return _choice(("true", "false"), value) == "true"


def _whole(value: Any) -> int:
    try:
        made = value if isinstance(value, int | float) else int(str(value))
        if isinstance(value, bool) or made != int(made):
            raise ValueError
    except (ValueError, OverflowError):
        raise ValueError(f"{str(value)!r} is no whole number") from None
    return int(made)


def _number(value: Any) -> float:
    try:
        made = float(str(value))
    except ValueError:
        made = math.nan
    if not math.isfinite(made):
        raise ValueError(f"{str(value)!r} is no number")
    return made


def _path(value: Any) -> str:
    """From the root on, since tasks have another working directory; or a URI.  Raises `ValueError` for an empty one."""
    from rmq_columns.files.filesystem import absolute

    try:
        if not os.fspath(value).strip():
            raise ValueError("empty, which names no place")
        return absolute(os.fspath(value))
    except CannotRead as reason:
        raise ValueError(str(reason)) from reason


def _names(value: Any) -> tuple[str, ...]:
    names = tuple(name for one in _several(value) for text in str(one).split(",") if (name := text.strip()))
    if not names:
        raise ValueError("names no one")
    return names


def _time(value: Any, zone: Zone) -> int:
    return time_ms(value, time.time_ns() // 1_000_000, zone or session_zone())


READERS: Final[dict[Any, Callable[[Any], Any]]] = {
    bool: _truth,
    int: _whole,
    float: _number,
    "path": _path,
    "names": _names,
    "duration": duration_ms,
    "size": size_bytes,
}
"""path: a text; names: texts, commas between them; duration: ms; size: bytes.  A time needs a zone: see `Parameter.read`."""
METAVARS: Final[dict[Any, str]] = {
    int: "N",
    float: "NUMBER",
    "path": "PATH",
    "names": "NAME,...",
    "duration": "DURATION",
    "size": "SIZE",
    "time": "TIME",
}
