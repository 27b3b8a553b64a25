"""Selectors at random: right ones of every kind, and ones that are nearly right; and properties to ask them about."""

from __future__ import annotations

from hypothesis import strategies as st

NAMES = ("a", "b", "c", "price", "_x$1")
NUMBERS = ("0", "1", "2", "5", "10", "007", "5l", "5L", "2147483647", "2147483648", "9223372036854775807", "9223372036854775808")
FLOATS = ("1.5", "5.", ".5", "5e1", "1.5E-2", "0.0", "1e999", "1e-999", "123456789.125")
TEXTS = ("", "a", "ab", "b", "5", "1.5", "true", "it''s", "é", " x ")
LITERALS = [*NUMBERS, *FLOATS, *(f"'{text}'" for text in TEXTS), "TRUE", "false", "NULL"]
VALUES = [
    *("0", "1", "2", "5", "10", "-1", "+5", "007", "2147483647", "2147483648", "-2147483648", "9223372036854775808", "5l"),
    *(
        "1.5",
        "5.",
        ".5",
        "5e1",
        "-0.0",
        "0.0",
        "NaN",
        "Infinity",
        "-Infinity",
        " 5 ",
        "5 ",
        "0x1p3",
        "1f",
        "1.5d",
        "1_0",
        "inf",
        "nan",
    ),
    *("a", "ab", "b", "ba", "true", "TRUE", "tRue", "false", "it's", "é", " x ", "x" * 40, "-", "."),
]
NOISE = [
    "%",
    "'",
    "''",
    "(",
    ")",
    ",",
    "=",
    "= =",
    "<>",
    "!=",
    "--",
    "-- c\n",
    "/* c */",
    "/*",
    "/",
    ".",
    "\t",
    "\r\n",
    "NOT",
    "IS",
    "IN",
    "\U0001f600",
    "é",
]


def _joined(*parts: str) -> st.SearchStrategy[str]:
    return st.sampled_from(parts)


def _words(*parts: st.SearchStrategy[str] | str) -> st.SearchStrategy[str]:
    return st.tuples(*(st.just(part) if isinstance(part, str) else part for part in parts)).map(" ".join)


_names = st.sampled_from(NAMES)
_literals = st.sampled_from(LITERALS)
_texts = st.sampled_from(TEXTS).map(lambda text: f"'{text}'")
_operands = st.one_of(_names, _names, _literals, _words(st.sampled_from(("-", "+", "- -")), st.one_of(_names, _literals)))
_not = st.sampled_from(("", "", "NOT", "not"))
_predicates = st.one_of(
    _words(_operands, st.sampled_from(("=", "<>", "<", "<=", ">", ">=")), _operands),
    _words(_names, st.sampled_from(("=", "<>", "<", "<=", ">", ">=")), _literals),
    _words(_operands, _not, "BETWEEN", _operands, "AND", _operands),
    _words(_names, _not, "BETWEEN", st.sampled_from(NUMBERS), "AND", st.sampled_from(NUMBERS)),
    _words(_operands, _not, st.sampled_from(("CONTAINS", "StartsWith", "ENDSWITH")), _texts),
    _words(_operands, _not, "IN", st.lists(_texts, min_size=1, max_size=7).map(lambda texts: f"({', '.join(texts)})")),
    _words(_operands, "IS", _not, "NULL"),
    _operands,
)


def _more(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        _words(inner, st.sampled_from(("AND", "OR", "and", "Or")), inner),
        _words(inner, st.sampled_from(("AND", "OR")), inner, st.sampled_from(("AND", "OR")), inner),
        inner.map(lambda text: f"({text})"),
        inner.map(lambda text: f"NOT ({text})"),
        inner.map(lambda text: f"+ ({text})"),
        _words(inner, st.sampled_from(("=", "<>", ">", "IS NULL", "IS NOT NULL", "CONTAINS 'a'")), inner),
    )


right = st.recursive(_predicates, _more, max_leaves=6)
"""Mostly right: some compare what cannot be compared."""


@st.composite
def nearly_right(draw: st.DrawFn) -> str:
    """One with something in it that is not for there, or without a piece."""
    text = draw(right)
    words = text.split(" ")
    at = draw(st.integers(0, len(words)))
    match draw(st.integers(0, 3)):
        case 0:
            words.insert(at, draw(st.sampled_from(NOISE)))
        case 1 if words:
            del words[min(at, len(words) - 1)]
        case 2:
            words = words[:at]
        case _:
            cut = draw(st.integers(0, len(text)))
            return text[:cut] + draw(st.sampled_from(NOISE)) + text[cut:]
    return draw(st.sampled_from((" ", " ", "\n", "\t"))).join(words)


selectors = st.one_of(right, right, nearly_right())
properties = st.dictionaries(_names, st.sampled_from(VALUES), max_size=4)
