"""Comparing two values as the reference does: texts of properties become what they are compared with, and may fail to.

A value is None, a text, a boolean, a `float` (Java's Double), an `int` (Integer), or a `Long`.  Integer and Long differ in one
thing: how big a number a property's text may hold.

Java: `ComparisonExpression.__compare` with convertStringExpressions, `Double.valueOf`, `Integer.valueOf`, `Long.valueOf`.
"""

from __future__ import annotations

import math
import re
from typing import Final

from rmq_wire.java import double_text, parse_int, parse_long
from rmq_wire.sql92.errors import CLASS_CAST, NUMBER_FORMAT, RUNTIME, NotComparable

_CAST: Final = (
    "class java.lang.Boolean cannot be cast to class java.lang.String "
    "(java.lang.Boolean and java.lang.String are in module java.base of loader 'bootstrap')"
)
_DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_DOUBLE: Final = re.compile(
    r"(?P<sign>[+-]?)(?:(?P<nan>NaN)|(?P<infinity>Infinity)|(?P<decimal>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?"
    r"|(?P<hex>0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?)"
)
_TRIMMED: Final = "".join(map(chr, range(0x21)))


class Long(int):
    """A number outside the range of an Integer, as the selector writes it."""

    __slots__ = ()


Value = None | str | bool | int | float


def parse_double(text: str) -> float | None:
    """`Double.valueOf`; None where it throws NumberFormatException."""
    if _DECIMAL.fullmatch(text):
        return float(text)
    found = _DOUBLE.fullmatch(text.strip(_TRIMMED))
    if found is None:
        return None
    sign = -1.0 if found["sign"] == "-" else 1.0
    if found["decimal"] is not None:
        return sign * float(found["decimal"])
    if found["hex"] is not None:
        try:
            return sign * float.fromhex(found["hex"])
        except OverflowError:
            return sign * math.inf
    return math.nan if found["nan"] else sign * math.inf


def number_of(text: str, like: Value) -> float | int:
    """The text of a property as a number of the kind with which it is compared.  Raises NotComparable."""
    if type(like) is float:
        number: float | int | None = parse_double(text)
    elif type(like) is Long:
        number = parse_long(text)
    else:
        number = parse_int(text)
    if number is None:
        shown = text.strip(_TRIMMED) if type(like) is float else text  # as `Double.parseDouble` does, and the others do not
        what = f'For input string: "{shown}"' if shown or type(like) is not float else "empty String"
        raise NotComparable(RUNTIME, f"{NUMBER_FORMAT}: {what}")
    return number


def compared(left: Value, right: Value) -> int:
    """Below 0, 0, above 0; -1 as well for what cannot be compared at all.  Neither is None.  Raises NotComparable."""
    one, other = type(left), type(right)
    if one is not other:
        if one is bool:
            if other is str:
                raise NotComparable(CLASS_CAST, _CAST)
            return -1
        if other is bool:
            if one is not str:
                return -1
            left = str(left).lower() == "true"
        elif one is str:
            left = number_of(str(left), right)
        elif other is str:
            right = number_of(str(right), left)
    if type(left) is float or type(right) is float:
        return _doubles(float(left), float(right))  # type: ignore[arg-type]
    return (left > right) - (left < right)  # type: ignore[operator]


def numbers_compared(left: Value, right: Value) -> int:
    """The same for `<` and its like, where two texts have to be numbers.  Raises NotComparable."""
    if type(left) is str and type(right) is str:
        one, other = parse_double(left), parse_double(right)
        if one is None or other is None:
            raise NotComparable(RUNTIME, f"It's illegal to compare string by '>=', '>', '<', '<='. lv={left}, rv={right}")
        return _doubles(one, other)
    return compared(left, right)


def text_of(value: Value) -> str:
    """`String.valueOf`."""
    if type(value) is float:
        return double_text(value)
    return str(value).lower() if type(value) is bool else str(value)


def _doubles(left: float, right: float) -> int:
    """`Double.compareTo`: NaN is above all else, and 0.0 above -0.0."""
    if left < right:
        return -1
    if left > right:
        return 1
    return _rank(left) - _rank(right) if left == right else math.isnan(left) - math.isnan(right)


def _rank(value: float) -> int:
    return 1 if math.copysign(1.0, value) > 0 else 0
