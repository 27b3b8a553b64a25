"""A selector, read once and asked about each message.

Texts and errors that were met lately are kept, as the reference keeps them, so that pulls that carry their own selector do not
pay for it each time.  A text is bounded, since reading it cannot be interrupted.

Java: `SqlFilter.compile`, `SelectorParser.parse` with PARSE_CACHE; `ExpressionMessageFilter.isMatchedByCommitLog`.
"""

from __future__ import annotations

from typing import Final

from rmq_wire.properties import finder
from rmq_wire.sql92.errors import RUNTIME, NotComparable, SelectorError, TooMuch
from rmq_wire.sql92.expressions import Properties
from rmq_wire.sql92.grammar import parse

CHARACTERS_MAX: Final = 16_384
"""See docs/limits.md."""
KNOWN_MAX: Final = 512
KNOWN_CHARACTERS_MAX: Final = 128
"""Longer values are evaluated each time, so that what a selector remembers stays below some 100 KiB."""
KEPT: Final = 100
"""`PARSE_CACHE`'s size."""


class Selector:
    """What a text selects.  `names`: the properties that it looks at.  `steps`: how many expressions may be evaluated for one
    message, some 0.3 µs each.
    """

    __slots__ = ("_evaluate", "_known", "_values", "names", "steps", "text")

    def __init__(self, text: str) -> None:
        """Raises SelectorError."""
        self.text = text
        parsed, self.names, self.steps = parse(text)
        self._evaluate = parsed.made()
        self._values = finder([name.encode() for name in self.names])
        self._known: dict[tuple[bytes | None, ...], bool] = {}
        """Answers by the values as they are stored: most messages differ in few of those that count."""

    def evaluate(self, properties: Properties) -> bool | None:
        """True, False or None, unknown.  Raises NotComparable."""
        return self._evaluate(properties)  # type: ignore[no-any-return]

    def matches(self, properties: Properties) -> bool:
        """Whether a message with these properties is selected: what is unknown or cannot be compared is not."""
        try:
            return self._evaluate(properties) is True
        except NotComparable:
            return False

    def matches_stored(self, properties: bytes) -> bool:
        """The same of the properties as they are stored, of which only those are read that count."""
        values = self._values(properties)
        known = self._known.get(values)
        return known if known is not None else self._learn(values)

    def _learn(self, values: tuple[bytes | None, ...]) -> bool:
        found = {name: value.decode("utf-8", "replace") for name, value in zip(self.names, values, strict=True) if value}
        matches = self.matches(found)
        if sum(map(len, found.values())) <= KNOWN_CHARACTERS_MAX:
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            self._known[values] = matches
        return matches


def compiled(text: str) -> Selector:
    """The selector that a text is.  Raises SelectorError, its child TooMuch for one that the reference might take."""
    if len(text) > CHARACTERS_MAX:
        raise TooMuch(RUNTIME, f"a selector of {len(text)} characters; {CHARACTERS_MAX} at most")
    kept = _KEPT.get(text)
    if kept is None:
        try:
            kept = Selector(text)
        except SelectorError as wrong:
            kept = wrong.with_traceback(None)
    keep(text, kept)
    if isinstance(kept, SelectorError):
        raise type(kept)(kept.java_class, kept.message)
    return kept


def unread_characters(text: str) -> int:
    """How much `compiled` would have to read: 0 of a text that was met lately, or is refused unread."""
    return 0 if text in _KEPT or len(text) > CHARACTERS_MAX else len(text)


def keep(text: str, selector: Selector | SelectorError) -> None:
    """It is met again: the one that was not met for longest is forgotten."""
    _KEPT.pop(text, None)
    _KEPT[text] = selector
    if len(_KEPT) > KEPT:
        del _KEPT[next(iter(_KEPT))]


_KEPT: Final[dict[str, Selector | SelectorError]] = {}
