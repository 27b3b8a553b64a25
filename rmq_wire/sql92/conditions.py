"""Conditions over stored properties: a selector, or one of those that it joins by AND, which may be asked in any order.

A condition remembers what it answered: by the values that it looks at, and, when it looks at one property alone, by the bytes
from the property's mark on, as many as the longest value met so far needs.  So that most messages cost a search and a look-up,
and nothing of them is decoded.

Java: `ExpressionMessageFilter.isMatchedByCommitLog`; the chain of AND is `LogicExpression.createAND`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rmq_wire.properties import finder, mark_of
from rmq_wire.sql92.errors import NotComparable
from rmq_wire.sql92.expressions import Chain, Node, Properties, Property

KNOWN_MAX: Final = 512
KNOWN_CHARACTERS_MAX: Final = 128
"""Longer values are evaluated each time, so that what a selector remembers stays below some 100 KiB."""
WINDOW_VALUE_MAX: Final = 48
"""Longer values are not looked up by the bytes around them."""
MARK_MAX: Final = 256
"""Nor are those of properties with longer names: each answer would keep the name once more."""
LOOK: Final = 2
"""Neither True nor False: of a message in which the mark is not."""
_PAIR_END: Final = b"\x02"


class Condition:
    """`names`: the properties that it looks at.  `mark`: what stands before the value of its only one; else, or if that is long,
    empty.
    """

    __slots__ = ("_absent", "_evaluate", "_known", "_values", "evaluated", "mark", "names", "width", "windows")

    def __init__(self, node: Node, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self.evaluated = 0
        """messages for which it was not known yet"""
        self._evaluate = node.made()
        self._values = finder([name.encode() for name in self.names])
        self._known: dict[tuple[bytes | None, ...], bool] = {}
        """Answers by the values as they are stored: most messages differ in few of those that count."""
        mark = mark_of(self.names[0].encode()) if len(self.names) == 1 else b""
        self.mark = mark if len(mark) <= MARK_MAX else b""
        self.width = len(self.mark)
        """bytes of a window, which begins with the mark; it only grows"""
        self.windows: dict[bytes, int] = {b"": LOOK}
        """Answers by windows that hold the whole value: with the byte that ends it, or shorter than `width`, at the very end."""
        self._absent: bool | None = None

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
        self.evaluated += 1
        found = {name: value.decode("utf-8", "replace") for name, value in zip(self.names, values, strict=True) if value}
        matches = self.matches(found)
        if sum(map(len, found.values())) <= KNOWN_CHARACTERS_MAX:
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            self._known[values] = matches
        return matches

    def matches_tail(self, tail: bytes, at: int) -> bool:
        """The same of the stored properties that begin at `at` in these bytes and reach to their end; one byte is before them."""
        mark, width = self.mark, self.width
        if not mark:
            return self.matches_stored(tail[at:])
        mark_at = tail.rfind(mark, at - 1)
        if mark_at >= 0:
            window = tail[mark_at : mark_at + width]
        elif tail.startswith(mark[1:], at):
            mark_at = at - 1
            window = _PAIR_END + tail[at : mark_at + width]
        else:
            return self.matches_absent()
        known = self.windows.get(window)
        return known == 1 if known is not None else self._learn_window(tail, at, mark_at)

    def matches_absent(self) -> bool:
        """Whether a message without its properties is selected."""
        if self._absent is None:
            self._absent = self.matches({})
        return self._absent

    def _learn_window(self, tail: bytes, at: int, mark_at: int) -> bool:
        """The mark, or what would be one if the pair were not the first, stands at `mark_at`, and nowhere behind it."""
        start = mark_at + len(self.mark)
        end = tail.find(_PAIR_END, start)
        value = tail[start:end] if end >= 0 else tail[start:]
        if not value:  # of such a pair nothing counts, but of one before it
            self.evaluated += 1
            return self.matches_stored(tail[at:])
        values = (value,)
        known = self._known.get(values)
        matches = known if known is not None else self._learn(values)
        size = len(value)
        if size <= WINDOW_VALUE_MAX:
            width = self.width
            if start + size >= mark_at + width:
                width = self.width = start + size + 1 - mark_at
            windows = self.windows
            if len(windows) > KNOWN_MAX:
                windows.clear()
                windows[b""] = LOOK
            windows[self.mark + tail[start : mark_at + width]] = int(matches)
        return matches


def conditions_of(node: Node) -> list[Condition]:
    """What all have to be true for this to be true, those over the same properties as one.

    Their order does not count for what is selected: one that is not true, or cannot be compared, decides wherever it stands.
    """
    by_names: dict[frozenset[str], list[Node]] = {}
    names_of: dict[frozenset[str], tuple[str, ...]] = {}
    for operand in _operands(node):
        names = tuple(dict.fromkeys(_names(operand)))
        by_names.setdefault(frozenset(names), []).append(operand)
        names_of.setdefault(frozenset(names), names)
    return [
        Condition(nodes[0] if len(nodes) == 1 else Chain(nodes, decides=False), names_of[key]) for key, nodes in by_names.items()
    ]


def _operands(node: Node) -> list[Node]:
    if isinstance(node, Chain) and not node.decides:
        return [inner for operand in node.operands for inner in _operands(operand)]
    return [node]


def _names(node: Node) -> list[str]:
    return [node.name] if isinstance(node, Property) else [name for below in node.below for name in _names(below)]
