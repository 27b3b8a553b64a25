"""What a selector says, as a tree: each node knows how the reference writes it, and how it is evaluated.

`made()` gives a closure over the properties of a message.  It returns True, False or None, unknown, as three-valued logic has it
in the reference (a missing property is unknown to `=`, but two missing ones are equal), or raises NotComparable.  Chains of AND
and OR are one node however long they are, so that only brackets and repeated signs make a tree deep; how deep is bounded.

Java: `org.apache.rocketmq.filter.expression`: `evaluate` and `toString`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from rmq_wire.java import iteration_order
from rmq_wire.sql92.errors import RUNTIME, SelectorError, TooMuch
from rmq_wire.sql92.values import Value, compared, number_of, numbers_compared, text_of

DEPTH_MAX: Final = 64
"""Nodes above each other; the reference ends where its stack does, at some thousand."""
HASHED_FROM: Final = 5
"""So many texts of an IN are a HashSet in the reference, in whose order errors list them."""

Properties = Mapping[str, str]
Evaluate = Callable[[Properties], Any]
"""Any: a Value, or what three-valued logic makes of values."""


class Node:
    """One expression.  `below`: those it is made of.  `depth`: nodes on the longest way down, itself included."""

    __slots__ = ("below", "depth")
    is_boolean = True

    below: tuple[Node, ...]
    depth: int

    def __init__(self, *below: Node) -> None:
        self.below = below
        self.depth = 1 + max((node.depth for node in below), default=0)
        if self.depth > DEPTH_MAX:
            raise too_deep()

    def text(self) -> str:
        """As the reference prints it in its errors."""
        raise NotImplementedError

    def made(self) -> Evaluate:
        """What evaluates it."""
        raise NotImplementedError


class Constant(Node):
    """A literal.  TRUE, FALSE and NULL count as boolean expressions."""

    __slots__ = ("is_boolean", "value")

    def __init__(self, value: Value) -> None:
        super().__init__()
        self.value = value
        self.is_boolean = value is None or type(value) is bool

    def text(self) -> str:
        if type(self.value) is str:
            return "'" + self.value.replace("'", "''") + "'"
        return "NULL" if self.value is None else text_of(self.value).upper() if self.is_boolean else text_of(self.value)

    def made(self) -> Evaluate:
        value = self.value
        return lambda _: value


class Property(Node):
    """The value of a message's property, a text, or None."""

    __slots__ = ("name",)
    is_boolean = False

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def text(self) -> str:
        return self.name

    def made(self) -> Evaluate:
        name = self.name
        return lambda properties: properties.get(name)


class Negation(Node):
    """`-x`: of a number; unknown for all else, also for the text of a property."""

    __slots__ = ("operand",)
    is_boolean = False

    def __init__(self, operand: Node) -> None:
        super().__init__(operand)
        self.operand = operand

    def text(self) -> str:
        return f"(- {self.operand.text()})"

    def made(self) -> Evaluate:
        evaluate = self.operand.made()

        def negated(properties: Properties) -> Value:
            value = evaluate(properties)
            if isinstance(value, int | float) and type(value) is not bool:
                return type(value)(-value)
            return None

        return negated


class Cast(Node):
    """A property where a boolean is asked for: never true, since it is a text."""

    __slots__ = ("operand",)

    def __init__(self, operand: Property) -> None:
        super().__init__(operand)
        self.operand = operand

    def text(self) -> str:
        return self.operand.text()

    def made(self) -> Evaluate:
        name = self.operand.name
        return lambda properties: None if properties.get(name) is None else False


class Not(Node):
    """`NOT x`, and what is built with it: `<>`, IS NOT NULL."""

    __slots__ = ("operand",)

    def __init__(self, operand: Node) -> None:
        super().__init__(operand)
        self.operand = operand

    def text(self) -> str:
        return f"(NOT {self.operand.text()})"

    def made(self) -> Evaluate:
        evaluate = self.operand.made()

        def inverted(properties: Properties) -> bool | None:
            value = evaluate(properties)
            return None if value is None else not value

        return inverted


class Chain(Node):
    """AND or OR over two or more: left to right until one decides."""

    __slots__ = ("decides", "operands", "symbol")

    def __init__(self, operands: Sequence[Node], *, decides: bool) -> None:
        """decides: the value that ends it: True for OR, False for AND."""
        super().__init__(*operands)
        self.operands = tuple(operands)
        self.decides = decides
        self.symbol = "||" if decides else "&&"

    def text(self) -> str:
        opening = "(" * (len(self.operands) - 1)
        first, *others = (node.text() for node in self.operands)
        return opening + first + "".join(f" {self.symbol} {other})" for other in others)

    def made(self) -> Evaluate:
        decides = self.decides
        evaluates = [node.made() for node in self.operands]
        if len(evaluates) == 2:
            one, two = evaluates

            def both(properties: Properties) -> Any:
                left = one(properties)
                if left is decides:
                    return decides
                right = two(properties)
                if right is decides:
                    return decides
                return None if left is None or right is None else not decides

            return both

        def every(properties: Properties) -> Any:
            unknown = False
            for evaluate in evaluates:
                value = evaluate(properties)
                if value is decides:
                    return decides
                unknown = unknown or value is None
            return None if unknown else not decides

        return every


class Equal(Node):
    """`=`; with NULL on the right it is IS NULL."""

    __slots__ = ("left", "right")

    def __init__(self, left: Node, right: Node) -> None:
        super().__init__(left, right)
        self.left = left
        self.right = right

    def text(self) -> str:
        return f"({self.left.text()} == {self.right.text()})"

    def made(self) -> Evaluate:
        if isinstance(self.left, Property) and isinstance(self.right, Constant):
            return _property_equals(self.left.name, self.right.value)
        left, right = self.left.made(), self.right.made()

        def equal(properties: Properties) -> bool | None:
            one, other = left(properties), right(properties)
            if one is None or other is None:
                return True if one is other else None if one is None else False
            return compared(one, other) == 0

        return equal


class Comparison(Node):
    """`>`, `>=`, `<`, `<=`."""

    __slots__ = ("left", "right", "symbol")

    def __init__(self, left: Node, symbol: str, right: Node) -> None:
        super().__init__(left, right)
        self.left = left
        self.right = right
        self.symbol = symbol

    def text(self) -> str:
        return f"({self.left.text()} {self.symbol} {self.right.text()})"

    def made(self) -> Evaluate:
        holds = _HOLDS[self.symbol]
        if isinstance(self.left, Property) and isinstance(self.right, Constant):
            return _property_compares(self.left.name, holds, self.right.value)
        left, right = self.left.made(), self.right.made()

        def compares(properties: Properties) -> Any:
            one = left(properties)
            if one is None:
                return None
            other = right(properties)
            return None if other is None else holds(numbers_compared(one, other), 0)

        return compares


class In(Node):
    """`IN ('a', 'b')` and NOT IN, of a property."""

    __slots__ = ("left", "negated", "texts")

    def __init__(self, left: Property, texts: Sequence[str], *, negated: bool) -> None:
        super().__init__(left)
        self.left = left
        self.texts = tuple(texts)
        self.negated = negated

    def text(self) -> str:
        texts = self.texts
        if len(texts) >= HASHED_FROM:
            texts = tuple(iteration_order(dict.fromkeys(texts), _buckets(len(texts))))
        return f"{self.left.text()} {'NOT IN' if self.negated else 'IN'} ( {', '.join(texts)} )"

    def made(self) -> Evaluate:
        name, texts, negated = self.left.name, frozenset(self.texts), self.negated

        def is_in(properties: Properties) -> bool | None:
            value = properties.get(name)
            return None if value is None else (value in texts) is not negated

        return is_in


class Search(Node):
    """CONTAINS, STARTSWITH, ENDSWITH and their NOTs: false, not unknown, where there is no text or nothing to look for."""

    __slots__ = ("left", "negated", "symbol", "wanted")

    def __init__(self, left: Node, symbol: str, wanted: str, *, negated: bool) -> None:
        super().__init__(left)
        self.left = left
        self.symbol = symbol
        self.wanted = wanted
        self.negated = negated

    def text(self) -> str:
        return f"({'NOT ' if self.negated else ''}{self.symbol} {self.left.text()})"

    def made(self) -> Evaluate:
        wanted, negated = self.wanted, self.negated
        if not wanted:
            return lambda _: False
        evaluate, finds = self.left.made(), _FINDS[self.symbol]

        def searched(properties: Properties) -> bool:
            value = evaluate(properties)
            return type(value) is str and finds(value, wanted) is not negated

        return searched


_HOLDS: Final[dict[str, Callable[[int, int], bool]]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
_FINDS: Final[dict[str, Callable[[str, str], bool]]] = {
    "CONTAINS": str.__contains__,
    "STARTSWITH": str.startswith,
    "ENDSWITH": str.endswith,
}


def too_deep() -> SelectorError:
    """More than we evaluate: see docs/limits.md."""
    return TooMuch(RUNTIME, f"nested more than {DEPTH_MAX} deep")


# The forms that nearly every selector is made of


def _property_equals(name: str, constant: Value) -> Evaluate:
    if constant is None:
        return lambda properties: properties.get(name) is None
    if type(constant) is str:

        def same(properties: Properties) -> bool | None:
            value = properties.get(name)
            return None if value is None else value == constant

        return same

    def equal(properties: Properties) -> bool | None:
        value = properties.get(name)
        return None if value is None else compared(value, constant) == 0

    return equal


def _property_compares(name: str, holds: Callable[[Any, Any], bool], constant: Value) -> Evaluate:
    """A constant here is a number and never NaN, so that all but NaN compares as Python does."""

    def compares(properties: Properties) -> bool | None:
        value = properties.get(name)
        if value is None:
            return None
        number = number_of(value, constant)
        return holds(number, constant) if number == number else holds(1, 0)

    return compares


def _buckets(count: int) -> int:
    """Of `new HashSet<>(collection)`: `max(count / .75 + 1, 16)`, as a power of two."""
    wanted = max(int(count / 0.75) + 1, 16)
    return 1 << (wanted - 1).bit_length()
