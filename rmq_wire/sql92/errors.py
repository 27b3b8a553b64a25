"""What is wrong with a selector, or with a message that it was asked about."""

from __future__ import annotations

RUNTIME = "java.lang.RuntimeException"
NUMBER_FORMAT = "java.lang.NumberFormatException"
CLASS_CAST = "java.lang.ClassCastException"
PARSE = "org.apache.rocketmq.filter.parser.ParseException"


class SelectorError(ValueError):
    """A text that is no selector.  Its words are the reference's, which begin with a Java class: clients show them."""

    def __init__(self, java_class: str, message: str) -> None:
        super().__init__(f"{java_class}: {message}")
        self.java_class = java_class
        self.message = message


class TooMuch(SelectorError):
    """Longer or deeper than we read: see docs/limits.md."""


class NotComparable(Exception):
    """Two values that the reference fails to compare: the message does not match.  `java_class`: what it throws there."""

    def __init__(self, java_class: str, message: str) -> None:
        super().__init__(message)
        self.java_class = java_class
