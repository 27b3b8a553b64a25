"""Cutting the text of a selector into tokens, one by one as the parser asks, with the places that errors name.

What the reference's token manager takes: keywords in any case, identifiers of ASCII letters, digits, `_` and `$`, decimal and
floating-point numbers, texts in single quotes with doubled ones inside, comments.  Nothing behind the last token that the parser
looks at is ever read, so rubbish there does no harm, as in Java.

Java: `SelectorParser.jj`, `SelectorParserTokenManager`, `SimpleCharStream` (lines and columns), `TokenMgrError`.
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Final, NamedTuple

from rmq_wire.sql92.errors import RUNTIME, SelectorError, TooMuch

TAB_COLUMNS: Final = 8
TOKENS_MAX: Final = 2_000
"""Reading so many takes some 20 ms, and cannot be interrupted: see docs/limits.md."""


class Kind(IntEnum):
    """Kinds of tokens, numbered as the reference's are: expected ones are listed in this order."""

    UNREADABLE = -1
    """Ours: nothing that could be a token."""
    EOF = 0
    NOT = 8
    AND = 9
    OR = 10
    BETWEEN = 11
    IN = 12
    TRUE = 13
    FALSE = 14
    NULL = 15
    IS = 16
    CONTAINS = 17
    STARTSWITH = 18
    ENDSWITH = 19
    DECIMAL_LITERAL = 20
    FLOATING_POINT_LITERAL = 21
    STRING_LITERAL = 23
    ID = 24
    EQUAL = 25
    UNEQUAL = 26
    GREATER = 27
    GREATER_EQUAL = 28
    LESS = 29
    LESS_EQUAL = 30
    OPEN = 31
    COMMA = 32
    CLOSE = 33
    PLUS = 34
    MINUS = 35


_SIGNS: Final = {
    "=": Kind.EQUAL,
    "<>": Kind.UNEQUAL,
    ">": Kind.GREATER,
    ">=": Kind.GREATER_EQUAL,
    "<": Kind.LESS,
    "<=": Kind.LESS_EQUAL,
    "(": Kind.OPEN,
    ",": Kind.COMMA,
    ")": Kind.CLOSE,
    "+": Kind.PLUS,
    "-": Kind.MINUS,
}
_KEYWORDS: Final = {kind.name: kind for kind in Kind if Kind.NOT <= kind <= Kind.ENDSWITH}
_IMAGES: Final = {kind: f'"{sign}"' for sign, kind in _SIGNS.items()} | {kind: f'"{name}"' for name, kind in _KEYWORDS.items()}
_SKIPPED: Final = re.compile(r"(?:[ \t\n\r\f]|--[^\n\r]*[\n\r]|/\*[^*]*+\*(?:\*|[^*/][^*]*+\*)*+/)*+")
_TOKEN: Final = re.compile(
    r"""(?P<word>[A-Za-z_$][A-Za-z0-9_$]*)
    | (?P<floating>[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)? | \.[0-9]+(?:[eE][+-]?[0-9]+)? | [0-9]+[eE][+-]?[0-9]+)
    | (?P<decimal>0|[1-9][0-9]*[lL]?)
    | (?P<text>'(?:''|[^'])*')
    | (?P<sign><>|>=|<=|[=<>(),+-])""",
    re.VERBOSE,
)
_KINDS: Final = {
    "floating": Kind.FLOATING_POINT_LITERAL,
    "decimal": Kind.DECIMAL_LITERAL,
    "text": Kind.STRING_LITERAL,
}
_ESCAPED: Final = {
    "\0": "",
    "\b": "\\b",
    "\t": "\\t",
    "\n": "\\n",
    "\f": "\\f",
    "\r": "\\r",
    '"': '\\"',
    "'": "\\'",
    "\\": "\\\\",
}


class Token(NamedTuple):
    """`at`: index of its first character, of the text's last one for the end."""

    kind: Kind
    image: str
    at: int


class Tokens:
    """The tokens of one text, by number; there is always one more: the end, over and over."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._cut: list[Token] = []
        self._at = 0

    def __getitem__(self, number: int) -> Token:
        """Raises SelectorError where the text cannot be cut."""
        cut = self._cut
        while number >= len(cut):
            cut.append(self._next())
        return cut[number]

    def _next(self) -> Token:
        text = self.text
        skipped = _SKIPPED.match(text, self._at)
        start = self._at = skipped.end() if skipped else self._at
        if start == len(text):
            return Token(Kind.EOF, "", max(start - 1, 0))
        if len(self._cut) == TOKENS_MAX:
            raise TooMuch(RUNTIME, f"a selector of more than {TOKENS_MAX} tokens")
        found = _TOKEN.match(text, start)
        if found is None:
            raise _lexical_error(text, start)
        self._at = found.end()
        image = found.group()
        group = found.lastgroup
        if group == "word":
            return Token(_KEYWORDS.get(image.upper(), Kind.ID), image, start)
        return Token(_SIGNS[image] if group == "sign" else _KINDS[group or ""], image, start)


def image_of(kind: int) -> str:
    """How errors write a kind."""
    return _IMAGES.get(Kind(kind), f"<{Kind(kind).name}>")


def escaped(text: str) -> str:
    """How errors write a user's text: `\\uXXXX` outside printable ASCII, by UTF-16 units."""
    return "".join(_ESCAPED[one] if one in _ESCAPED else one if " " <= one <= "~" else _units(one) for one in text)


def line_and_column(text: str, at: int) -> tuple[int, int]:
    """Where a character stands, both from 1.  A tab ends in a column of eights, a character outside the BMP takes two."""
    line, column, before = min(len(text), 1), 0, ""
    for one in text[: at + 1]:
        column += 1
        if before == "\n" or (before == "\r" and one != "\n"):
            line, column = line + 1, 1
        if one == "\t":
            column += TAB_COLUMNS - 1 - (column - 1) % TAB_COLUMNS
        before = one
        column += one > "\uffff"
    return line, column


def _units(one: str) -> str:
    encoded = one.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{encoded[at : at + 4]}" for at in range(0, len(encoded), 4))


def _stuck_at(text: str, start: int) -> int:
    """The character at which no token can go on; the text's length when it only ends too early."""
    if text[start] == "'":
        return len(text)
    if text[start] not in "/.":
        return start
    if text.startswith("/*", start):
        return len(text)
    return start + 1


def _lexical_error(text: str, start: int) -> SelectorError:
    stuck = _stuck_at(text, start)
    last = len(text) - 1
    line, column = line_and_column(text, min(stuck, last))
    if text[min(stuck, last)] > "\uffff":
        column -= 1  # the first of its two units
    if stuck >= last and not (stuck == last and text[last] > "\uffff"):
        after = text[start:] if min(stuck, last) > start else ""
        line, column = (line + 1, 0) if text[last] in "\r\n" else (line, column + 1)
        met = "<EOF> "
    else:
        number = ord(text[stuck])
        if number > 0xFFFF:  # the first of its two units
            number = 0xD800 + (number - 0x10000 >> 10)
        shown = escaped(chr(number))
        after = text[start:stuck] if stuck > start else ""
        met = f'"{shown}" ({number}), '
    message = f'Lexical error at line {line}, column {column}.  Encountered: {met}after : "{escaped(after)}"'
    return SelectorError("org.apache.rocketmq.filter.parser.TokenMgrError", message)
