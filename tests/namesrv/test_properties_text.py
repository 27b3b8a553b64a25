"""Configuration text: as `java.util.Properties` reads it; what we write reads back the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmq_wire.bodies import properties_text
from rmq_wire.errors import BadBody

WRITTEN_TO_BE_READ = [
    ("a=b", {"a": "b"}),
    ("a:b\nc d\ne", {"a": "b", "c": "d", "e": ""}),
    ("  a  =  b  ", {"a": "b  "}),
    ("# a=b\n! c=d\n\n \t\ne=f", {"e": "f"}),
    ("a=b\\\n   c", {"a": "bc"}),
    ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
    ("a=b\\", {"a": "b"}),
    ("a\\=b=c", {"a=b": "c"}),
    ("a==b", {"a": "=b"}),
    ("a = = b", {"a": "= b"}),
    ("a=\\t\\n\\r\\f\\q\\u0041", {"a": "\t\n\r\fqA"}),
    ("a=\\uD83D\\uDE00", {"a": "\U0001f600"}),
    ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
    ("a=1\na=2", {"a": "2"}),
    ("=b", {"": "b"}),
    ("a=b\\\n# no comment here", {"a": "b# no comment here"}),
    ("ключ=значение", {"ключ": "значение"}),
    ("", {}),
]


@pytest.mark.parametrize(("text", "entries"), WRITTEN_TO_BE_READ)
def test_read_as_java_reads(text: str, entries: dict[str, str]) -> None:
    assert properties_text.loads(text) == entries


@pytest.mark.parametrize("text", ["a=\\u12", "a=\\u00zz", "a\\u1=2", "a=\\u٣٣٣٣"])
def test_broken_unicode_escapes_are_refused(text: str) -> None:
    with pytest.raises(BadBody, match=r"^line 1: \\u.* is no character"):
        properties_text.loads(text)


def test_lines_are_sorted_and_plain() -> None:
    assert properties_text.dumps({"b": "x=1\\y", "a": "é", "B": ""}) == "B=\na=é\nb=x=1\\y\n"


def test_what_stays_one_line() -> None:
    assert properties_text.is_one_line("a\\nb")
    assert not properties_text.is_one_line("a\nb")
    assert not properties_text.is_one_line("a\rb")


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(st.dictionaries(texts, texts, max_size=5))
def test_a_file_reads_back_whatever_the_values_are(entries: dict[str, str]) -> None:
    assert properties_text.loads(properties_text.dumps_escaped(entries)) == entries
