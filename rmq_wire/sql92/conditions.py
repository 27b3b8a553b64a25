"""Conditions over stored properties: a selector, or one of those that it joins by AND, which may be asked in any order.

A condition remembers what it answered: by the values that it looks at, and, when it looks at one property alone, by the number
that its value has (`rmq_wire.property_values`).  So most messages cost a search and a look-up, and nothing of them is decoded.

Java: `ExpressionMessageFilter.isMatchedByCommitLog`; the chain of AND is `LogicExpression.createAND`.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Final, Self

from rmq_wire.properties import finder, mark_of
from rmq_wire.property_values import ABSENT, LOOK, NARROW_MAX, REFUSED, VALUES_MAX, WANTED, SeenValues, seen_values
from rmq_wire.sql92.errors import NotComparable
from rmq_wire.sql92.expressions import Chain, Node, Properties, Property

KNOWN_MAX: Final = 512
KNOWN_CHARACTERS_MAX: Final = 128
"""Longer values are evaluated each time, so that what a selector remembers stays below some 100 KiB."""
_NOTHING_KNOWN: Final = (LOOK,) * (ABSENT + 1 + VALUES_MAX)


class Condition:
    """`names`: the properties that it looks at.  `seen`: the values of its only one; else they have no numbers."""

    __slots__ = ("_by_number", "_evaluate", "_generation", "_known", "_values", "evaluated", "names", "seen", "verdicts")

    def __init__(self, node: Node, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self.evaluated = 0
        """messages for which it was not known yet"""
        self._evaluate = node.made()
        self._values = finder([name.encode() for name in self.names])
        self._known: dict[tuple[bytes | None, ...], bool] = {}
        """Answers by the values as they are stored: most messages differ in few of those that count."""
        self.seen: SeenValues = seen_values(mark_of(self.names[0].encode()) if len(self.names) == 1 else b"")
        self.verdicts: list[int] = []
        """REFUSED, LOOK or WANTED, by the number of the value; 4 KiB from the first `refresh` on."""
        self._generation = -1
        self._by_number = b""
        """The same of numbers up to 255; empty when it is not made yet."""

    def of_topic(self, topic: str) -> Self:
        """The same, with numbers of values that are met in this topic's messages, and nothing known about them yet."""
        found = copy(self)
        found.evaluated = 0
        found.seen = seen_values(self.seen.mark, topic)
        found.verdicts = []
        found._generation = -1
        found._by_number = b""
        return found

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
        return self._matches_values(self._values(properties))

    def _matches_values(self, values: tuple[bytes | None, ...]) -> bool:
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

    def matches_tail(self, tail: bytes, at: int, number: int) -> bool:
        """The same of the stored properties that begin at `at` in these bytes and reach to their end; `number`: of the value."""
        return self.verdict(number) == WANTED if number else self.matches_stored(tail[at:])

    def verdict(self, number: int) -> int:
        """REFUSED or WANTED: what it says of messages whose value has this number, 0 excepted."""
        self.refresh()
        verdict = self.verdicts[number]
        if verdict == LOOK:
            verdict = WANTED if self._matches_values((self.seen.values[number],)) else REFUSED
            self.verdicts[number] = verdict
            self._by_number = b""
        return verdict

    def by_number(self) -> bytes:
        """REFUSED, LOOK or WANTED by numbers from 0 to 255."""
        self.refresh()
        if not self._by_number:
            self._by_number = bytes(self.verdicts[: NARROW_MAX + 1])
        return self._by_number

    def refresh(self) -> None:
        """Forget verdicts on numbers that mean something else now."""
        if self._generation != self.seen.generation:
            self._generation = self.seen.generation
            self.verdicts[:] = _NOTHING_KNOWN
            self._by_number = b""


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
