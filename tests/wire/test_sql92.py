"""SQL92: what selectors select, and what they say when they are wrong.  `tests/java/test_selectors.py` asks Java."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmq_wire.properties import encode
from rmq_wire.sql92.conditions import KNOWN_CHARACTERS_MAX, KNOWN_MAX
from rmq_wire.sql92.errors import SelectorError
from rmq_wire.sql92.expressions import DEPTH_MAX
from rmq_wire.sql92.selector import (
    CHARACTERS_MAX,
    KEPT,
    Selector,
    compiled,
    unread_characters,
)
from rmq_wire.sql92.tokens import TOKENS_MAX, line_and_column
from tests.support import selectors

MESSAGE = {
    "n": "5",
    "d": "2.5",
    "name": "it's",
    "flag": "TRUE",
    "big": "2147483648",
    "nan": "NaN",
    "minus": "-0.0",
    "plus": "0.0",
}


@pytest.mark.parametrize(
    "text",
    [
        *("n = 5", "n > 4 AND n < 6", "n BETWEEN 5 AND 5", "n NOT BETWEEN 6 AND 7", "d = 2.5", "d > 2.0", "n >= 5.0", "n = '5'"),
        *("name = 'it''s'", "name CONTAINS '''s'", "name STARTSWITH 'it'", "name ENDSWITH 's'", "name NOT CONTAINS 'x'"),
        *("n IN ('4', '5')", "n NOT IN ('4')", "nobody IS NULL", "n is not null", "flag = true", "nobody = nothing"),
        *("NOT (n = 4)", "n > -1", "n = +5", "n = 5 rubbish %%", "n /* c */ = -- c\n 5", "n = 4 OR d = 2.5", "big = 2147483648"),
        *("'abc' CONTAINS 'b'", "n <> 4", "d > 2.4 and d < n", "TRUE", "nan > 1.5", "minus < plus", "minus <= minus"),
    ],
)
def test_selects(text: str) -> None:
    assert compiled(text).matches(MESSAGE)
    assert compiled(text).matches_stored(encode(MESSAGE).encode())


@pytest.mark.parametrize(
    "text",
    [
        *("n", "n = 4", "nobody = 5", "NOT (nobody = 5)", "nobody <> 5", "name = 5", "name > 1", "n CONTAINS ''", "n IN ('4')"),
        *(
            "nobody IN ('4')",
            "nobody NOT IN ('4')",
            "nobody NOT CONTAINS 'x'",
            "- n = -5",
            "big = 5",
            "NULL",
            "TRUE = flag",
            "n = 5 AND x",
            "nan < 1.5",
            "plus < minus",
        ),
    ],
)
def test_does_not_select(text: str) -> None:
    """Unknown, false, or not to be compared: the message does not come."""
    assert not compiled(text).matches(MESSAGE)
    assert not compiled(text).matches_stored(encode(MESSAGE).encode())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a = = 2", 'ParseException: Encountered " "=" "= "" at line 1, column 5.\nWas expecting one of:\n    "NOT" ...'),
        ("a =\n %", "TokenMgrError: Lexical error at line 2, column 3.  Encountered: <EOF> after : "),
        ("a > 'x'", "RuntimeException: Value ''x'' cannot be compared."),
        ("a BETWEEN 3 AND 1", "Illegal values of between, left value(3) must less than or equal to right value(1)"),
        ("a = 9223372036854775808", 'NumberFormatException: For input string: "9223372036854775808"'),
        ("a = 0.0", "RuntimeException: 0.0 is less than 4.9E-324"),
        ("5", "ParseException: Expression will not result in a boolean value: 5"),
        ("TRUE = 1", "'TRUE' cannot be compared with '1'"),
        ("(a = 1) IN ('b')", "Expected a property for In expression, got: (a == 1)"),
    ],
)
def test_what_is_wrong(text: str, words: str) -> None:
    with pytest.raises(SelectorError) as wrong:
        compiled(text)
    assert words in str(wrong.value)


@pytest.mark.parametrize(
    "text",
    [
        "x" * (CHARACTERS_MAX + 1),
        "x" * (1 << 20),
        "1 " * (TOKENS_MAX + 1) + "= a",
        "a = 1 OR " * (TOKENS_MAX // 4) + "a = 1",
        "(" * (DEPTH_MAX + 1) + "a = 1" + ")" * (DEPTH_MAX + 1),
        "+(" * (DEPTH_MAX * 4) + "a = 1" + ")" * (DEPTH_MAX * 4),
        "NOT " * (DEPTH_MAX + 1) + "a",
        "a" + " IS NULL" * (DEPTH_MAX + 1),
    ],
)
def test_limits(text: str) -> None:
    """What would stop the others is refused, and no stack overflows."""
    with pytest.raises(SelectorError):
        compiled(text)


def test_just_within_the_limits() -> None:
    deep = "+(" * (DEPTH_MAX // 2 - 1) + "a = 1" + ")" * (DEPTH_MAX // 2 - 1)
    assert compiled(deep).matches({"a": "1"})
    assert compiled("a = 2 OR " * (TOKENS_MAX // 4 - 1) + "a = 1").matches({"a": "1"})


def test_what_a_selector_remembers_has_a_limit() -> None:
    """Answers by values: so many of them, and none of long ones."""
    selector = Selector("a > 10 OR b = 'x'")
    for number in range(2 * KNOWN_MAX):
        assert selector.matches_stored(encode({"a": str(number)}).encode()) is (number > 10)
        assert 0 < len(selector._known) <= KNOWN_MAX
    before = len(selector._known)
    for number in range(3):
        assert not selector.matches_stored(encode({"b": "y" * KNOWN_CHARACTERS_MAX + str(number)}).encode())
    assert len(selector._known) == before


def test_the_text_that_was_not_met_for_longest_is_forgotten() -> None:
    texts = [f"forgotten = {number}" for number in range(KEPT + 1)]
    for text in (*texts[:KEPT], texts[0], texts[KEPT]):
        compiled(text)
    assert unread_characters(texts[0]) == 0
    assert unread_characters(texts[1]) == len(texts[1])


def test_an_error_is_the_same_each_time() -> None:
    said = set()
    for _ in range(3):
        with pytest.raises(SelectorError) as wrong:
            compiled("a = = b")
        said.add(str(wrong.value))
    assert len(said) == 1


@given(selectors.selectors, selectors.properties)
def test_any_text_selects_or_is_refused(text: str, properties: dict[str, str]) -> None:
    """Nothing but SelectorError comes out, and stored bytes say the same as the properties in them."""
    try:
        selector = compiled(text)
    except SelectorError:
        return
    assert selector.matches(properties) is selector.matches_stored(encode(properties).encode())


@given(st.text(max_size=60))
def test_any_text_at_all(text: str) -> None:
    with suppress(SelectorError):
        compiled(text)


@given(st.text("ab \t\r\n\U0001f600", min_size=1))
def test_lines_and_columns(text: str) -> None:
    line, column = line_and_column(text, len(text) - 1)
    assert 1 <= line <= 1 + text.count("\n") + text.count("\r")
    assert column >= 1
