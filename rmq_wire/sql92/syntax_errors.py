"""What a selector's syntax error says: what was met, where, and everything that would have been right there.

The reference's generated parser lists each choice that failed since the last token, in the order of the kinds, and behind them
what its looks ahead would have taken as the next token.  (It means to list whole sequences of tokens; a slip in its search for
sequences that are listed already drops all but single ones.)  `Expectations` keeps the same account: the words are the same.

Java: JavaCC's `generateParseException`, `jj_rescan_token`, `jj_add_error_token`; `ParseException.initialise`.
"""

from __future__ import annotations

from typing import Any, Final

from rmq_wire.sql92.errors import PARSE, SelectorError
from rmq_wire.sql92.expressions import DEPTH_MAX, too_deep
from rmq_wire.sql92.tokens import Kind, Tokens, escaped, image_of, line_and_column

_BEGINNING: Final = (Kind.TRUE, Kind.FALSE, Kind.NULL, Kind.DECIMAL_LITERAL, Kind.FLOATING_POINT_LITERAL, Kind.STRING_LITERAL)
OR_MORE, AND_MORE, EQUALITY_MORE, EQUALITY_SIGN, EQUALITY_IS, COMPARISON_MORE, IN_MORE, NOT_IN_MORE = range(8)
COMPARISON_FIRST, STARTSWITH, ENDSWITH, BETWEEN, IN, UNARY = range(8, 14)
CHOICES: Final[dict[int, tuple[Kind, ...]]] = {
    OR_MORE: (Kind.OR,),
    AND_MORE: (Kind.AND,),
    EQUALITY_MORE: (Kind.IS, Kind.EQUAL, Kind.UNEQUAL),
    EQUALITY_SIGN: (Kind.EQUAL, Kind.UNEQUAL),
    EQUALITY_IS: (Kind.IS,),
    COMPARISON_MORE: (
        *(Kind.NOT, Kind.BETWEEN, Kind.IN, Kind.CONTAINS, Kind.STARTSWITH, Kind.ENDSWITH),
        *(Kind.GREATER, Kind.GREATER_EQUAL, Kind.LESS, Kind.LESS_EQUAL),
    ),
    IN_MORE: (Kind.COMMA,),
    NOT_IN_MORE: (Kind.COMMA,),
    COMPARISON_FIRST: (Kind.CONTAINS, Kind.GREATER, Kind.GREATER_EQUAL, Kind.LESS, Kind.LESS_EQUAL),
    STARTSWITH: (Kind.STARTSWITH,),
    ENDSWITH: (Kind.ENDSWITH,),
    BETWEEN: (Kind.BETWEEN,),
    IN: (Kind.IN,),
    UNARY: (Kind.NOT, *_BEGINNING, Kind.ID, Kind.OPEN, Kind.MINUS),
}
"""The places where the parser chooses by the next token, and what each knows."""

Way = int | str | tuple[Any, ...]
_TEXT: Final = Kind.STRING_LITERAL
_TEXTS: Final = (Kind.OPEN, _TEXT, ("many", ("all", Kind.COMMA, _TEXT)), Kind.CLOSE)
_RANGE: Final = ("unary", Kind.AND, "unary")
_RULES: Final[dict[str, Way]] = {
    "unary": (
        "one",
        *(("all", Kind.PLUS, "unary"), ("all", Kind.MINUS, "unary"), ("all", Kind.NOT, "unary")),
        (
            "one",
            ("one", *(_TEXT, Kind.DECIMAL_LITERAL, Kind.FLOATING_POINT_LITERAL, Kind.TRUE, Kind.FALSE, Kind.NULL)),
            Kind.ID,
            ("all", Kind.OPEN, "or", Kind.CLOSE),
        ),
    ),
    "comparison": (
        "all",
        "unary",
        (
            "many",
            (
                "one",
                *(("all", sign, "unary") for sign in (Kind.GREATER, Kind.GREATER_EQUAL, Kind.LESS, Kind.LESS_EQUAL)),
                *(("all", Kind.CONTAINS, _TEXT), ("all", Kind.NOT, Kind.CONTAINS, _TEXT)),
                *(("all", Kind.STARTSWITH, _TEXT), ("all", Kind.NOT, Kind.STARTSWITH, _TEXT)),
                *(("all", Kind.ENDSWITH, _TEXT), ("all", Kind.NOT, Kind.ENDSWITH, _TEXT)),
                *(("all", Kind.BETWEEN, *_RANGE), ("all", Kind.NOT, Kind.BETWEEN, *_RANGE)),
                *(("all", Kind.IN, *_TEXTS), ("all", Kind.NOT, Kind.IN, *_TEXTS)),
            ),
        ),
    ),
    "equality": (
        "all",
        "comparison",
        (
            "many",
            (
                "one",
                *(("all", Kind.EQUAL, "comparison"), ("all", Kind.UNEQUAL, "comparison")),
                *(("all", Kind.IS, Kind.NULL), ("all", Kind.IS, Kind.NOT, Kind.NULL)),
            ),
        ),
    ),
    "and": ("all", "equality", ("many", ("all", Kind.AND, "equality"))),
    "or": ("all", "and", ("many", ("all", Kind.OR, "and"))),
}
"""The grammar as the look ahead behind a `+` walks it: all in a row, the first one that fits, this many times."""
_NEVER: Final = -2
_FRAMES_MAX: Final = 7 * DEPTH_MAX


class Expectations:
    """What the parser has tried; `number` everywhere: tokens consumed so far."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self.missed = [_NEVER] * len(CHOICES)
        """Choice -> where none of its kinds came last.  This and the next two are written by the parser."""
        self.no_plus = _NEVER
        """Where a sign might have been."""
        self.no_null = _NEVER
        """Behind which IS no NULL came."""
        self._fitting: set[int] = set()
        self._depth = 0

    def plus_fits(self, number: int) -> bool:
        """A `+` comes: is it the sign of an operand, right to its last bracket?  Raises SelectorError."""
        if number in self._fitting:
            return True
        end = self._walked("unary", number)
        if end is not None:  # signs within it need not be walked over again
            self._fitting.update(range(number, end))
        return end is not None

    def _walked(self, way: Way, number: int) -> int | None:
        """Where the tokens of this way end that begin with this one; None when they do not fit."""
        while isinstance(way, str):
            way = _RULES[way]
        if isinstance(way, int):
            return number + 1 if self._tokens[number].kind == way else None
        self._depth += 1
        if self._depth > _FRAMES_MAX:
            raise too_deep()
        kind, *parts = way
        at: int | None = number
        if kind == "all":
            for part in parts:
                if at is not None:
                    at = self._walked(part, at)
        elif kind == "one":
            for part in parts:
                at = self._walked(part, number)
                if at is not None:
                    break
        else:
            while (behind := self._walked(parts[0], number)) is not None:
                at = number = behind
        self._depth -= 1
        return at

    def error(self, number: int, kind: int | None = None) -> SelectorError:
        """Token `number` is not what it should be: `kind`, or one of what was tried."""
        kinds = {other for choice, at in enumerate(self.missed) if at == number for other in CHOICES[choice]}
        wanted = sorted(kinds if kind is None else kinds | {kind})
        if self.no_null == number - 1:
            wanted.append(Kind.NULL)
        if self.no_plus == number:
            wanted.append(Kind.PLUS)
        token = self._tokens[number]
        met = "<EOF>" if token.kind == Kind.EOF else f' {image_of(token.kind)} "{escaped(token.image)} "'
        lines = "".join(f"{image_of(one)} ...\n    " for one in wanted)
        line, column = line_and_column(self._tokens.text, token.at)
        several = "" if len(wanted) == 1 else " one of"
        return SelectorError(PARSE, f'Encountered "{met}" at line {line}, column {column}.\nWas expecting{several}:\n    {lines}')
