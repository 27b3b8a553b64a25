"""Configuration as text: what `java.util.Properties` reads, and the plain `key=value` lines that RocketMQ writes.

Reading follows `Properties.load`: comments, line continuation, `=`, `:` or blanks as separator, `\\n`, `\\t`, `\\uXXXX` and so
on. What goes over the wire is written as `MixAll.properties2String` does: sorted, nothing escaped.  Java writes its files the
same way, so that a value with a line break, or a backslash at its end, becomes other keys at the next start; our files are
escaped, and whoever takes values from outside refuses those that `is_one_line` does not pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from rmq_wire.errors import BadBody

_BLANKS = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_UNICODE_DIGITS = 4
_NOT_ASCII = re.compile(r"[^\n -~]")
_LINE_BREAKS = "\r\n"
_IN_VALUE = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"})
_IN_KEY = _IN_VALUE | {ord(mark): f"\\{mark}" for mark in "=:#! "}


def loads(text: str) -> dict[str, str]:
    """The entries of a properties text, later ones winning.

    Raises `BadBody`, which names the line, for a broken `\\uXXXX`, as Java refuses it.
    """
    found: dict[str, str] = {}
    for number, line in _logical_lines(text):
        key_end, value_at = _split(line)
        try:
            found[_unescape(line[:key_end])] = _unescape(line[value_at:])
        except BadBody as wrong:
            raise BadBody(f"line {number}: {wrong}") from None
    return found


def dumps(entries: Mapping[str, str]) -> str:
    """`key=value` lines, sorted by key as Java sorts text (by UTF-16 unit), nothing escaped."""
    return "".join(f"{key}={entries[key]}\n" for key in sorted(entries, key=lambda key: key.encode("utf-16-be", "surrogatepass")))


def dumps_escaped(entries: Mapping[str, str], *, ascii_only: bool = False) -> str:
    """The same lines so that `loads`, and Java, read back exactly these entries: the form for files.

    ascii_only: for a reader that takes bytes for ISO 8859-1, as `Properties.load(InputStream)` does; what is not printable
    ASCII is written as `\\uXXXX`.
    """
    escaped = sorted((_escape(key, _IN_KEY), _escape(value, _IN_VALUE)) for key, value in entries.items())
    text = "".join(f"{key}={value}\n" for key, value in escaped)
    return _NOT_ASCII.sub(_unicode_escapes, text) if ascii_only else text


def is_one_line(text: str) -> bool:
    """Is it free of line breaks, which have no place in a configuration value?"""
    return not any(mark in text for mark in _LINE_BREAKS)


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines without leading blanks, comments and empty ones left out, continued ones joined; each with its first one's number."""
    lines = iter(enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 1))
    for number, natural in lines:
        line = natural.lstrip(_BLANKS)
        if not line or line[0] in "#!":
            continue
        while _continues(line):
            line = line[:-1] + next(lines, (0, ""))[1].lstrip(_BLANKS)
        yield number, line


def _continues(line: str) -> bool:
    """Does it end with an odd number of backslashes?"""
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split(line: str) -> tuple[int, int]:
    """Where the key ends and where the value starts: blanks, at most one `=` or `:`, blanks."""
    at, escaped = 0, False
    while at < len(line) and (escaped or line[at] not in "=:" + _BLANKS):
        escaped = line[at] == "\\" and not escaped
        at += 1
    key_end, separated = at, False
    while at < len(line) and (line[at] in _BLANKS or (not separated and line[at] in "=:")):
        separated = separated or line[at] in "=:"
        at += 1
    return key_end, at


def _escape(text: str, table: dict[int, str]) -> str:
    """A leading blank would be taken for a separator."""
    escaped = text.translate(table)
    return f"\\{escaped}" if escaped[:1] == " " else escaped


def _unicode_escapes(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + _UNICODE_DIGITS]}" for at in range(0, len(units), _UNICODE_DIGITS))


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    parts: list[str] = []
    at = 0
    while at < len(text):
        mark = text[at]
        at += 1
        if mark != "\\":
            parts.append(mark)
            continue
        if at == len(text):
            break
        mark = text[at]
        at += 1
        if mark == "u":
            digits = text[at : at + _UNICODE_DIGITS]
            if len(digits) < _UNICODE_DIGITS or not all(digit in "0123456789abcdefABCDEF" for digit in digits):
                raise BadBody(f"\\u{digits} is no character: four hexadecimal digits are expected after \\u")
            parts.append(chr(int(digits, 16)))
            at += _UNICODE_DIGITS
        else:
            parts.append(_ESCAPES.get(mark, mark))
    return "".join(parts).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
