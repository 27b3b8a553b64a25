"""Making expressions: what the reference refuses to compare, since it can see without a message that it makes no sense.

Java: the `create…` methods of `ConstantExpression`, `ComparisonExpression`, `UnaryExpression`; `asBooleanExpression`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rmq_wire.sql92.errors import NUMBER_FORMAT, PARSE, RUNTIME, NotComparable, SelectorError
from rmq_wire.sql92.expressions import Cast, Chain, Comparison, Constant, Equal, In, Node, Property
from rmq_wire.sql92.values import Long, compared, text_of

INTEGER_MAX: Final = 0x7FFFFFFF
LONG_MAX: Final = 0x7FFFFFFFFFFFFFFF
_DOUBLE_MAX: Final = 1.7976931348623157e308


def integer(image: str) -> Constant:
    """A number without a point.  Raises SelectorError beyond 64 bits."""
    digits = image.rstrip("lL")
    if len(digits) > len(str(LONG_MAX)) or (number := int(digits)) > LONG_MAX:
        raise SelectorError(NUMBER_FORMAT, f'For input string: "{digits}"')
    return Constant(number if number <= INTEGER_MAX else Long(number))


def floating(image: str) -> Constant:
    """A number with a point or exponent.  Raises SelectorError where it is too big, or 0."""
    value = float(image)
    if value > _DOUBLE_MAX:
        raise SelectorError(RUNTIME, f"{image} is greater than 1.7976931348623157E308")
    if value == 0:
        raise SelectorError(RUNTIME, f"{image} is less than 4.9E-324")
    return Constant(value)


def as_boolean(node: Node) -> Node:
    """Where logic wants a boolean.  Raises SelectorError."""
    if node.is_boolean:
        return node
    if isinstance(node, Property):
        return Cast(node)
    raise SelectorError(PARSE, f"Expression will not result in a boolean value: {node.text()}")


def equal(left: Node, right: Node) -> Node:
    """`=`.  Raises SelectorError."""
    for node in (left, right):
        if isinstance(node, Constant) and node.value is None:
            raise SelectorError(RUNTIME, f"'{node.text()}' cannot be compared.")
    if isinstance(left, Constant) and isinstance(right, Constant) and left.is_boolean and not right.is_boolean:
        raise SelectorError(RUNTIME, f"'{left.text()}' cannot be compared with '{right.text()}'")
    return Equal(left, right)


def is_null(left: Node) -> Node:
    """IS NULL, of anything."""
    return Equal(left, Constant(None))


def comparison(left: Node, symbol: str, right: Node) -> Node:
    """`<` and its like, of numbers and properties.  Raises SelectorError."""
    for node in (left, right):
        is_number = isinstance(node, Constant) and isinstance(node.value, int | float) and not node.is_boolean
        if (isinstance(node, Constant) and not is_number) or node.is_boolean:
            raise SelectorError(RUNTIME, f"Value '{node.text()}' cannot be compared.")
    return Comparison(left, symbol, right)


def between(value: Node, low: Node, high: Node) -> Node:
    """BETWEEN, both ends included.  Raises SelectorError."""
    if isinstance(low, Constant) and isinstance(high, Constant):
        if low.value is None or high.value is None:
            raise SelectorError(RUNTIME, "Illegal values of between, values can not be null!")
        try:
            wrong = compared(high.value, low.value) < 0
        except NotComparable as failed:
            raise SelectorError(failed.java_class, str(failed)) from None
        if wrong:
            ends = f"left value({text_of(low.value)}) must less than or equal to right value({text_of(high.value)})"
            raise SelectorError(RUNTIME, f"Illegal values of between, {ends}")
    return Chain((comparison(value, ">=", low), comparison(value, "<=", high)), decides=False)


def not_between(value: Node, low: Node, high: Node) -> Node:
    """NOT BETWEEN.  Raises SelectorError."""
    return Chain((comparison(value, "<", low), comparison(value, ">", high)), decides=True)


def is_in(left: Node, texts: Sequence[str], *, negated: bool) -> Node:
    """IN and NOT IN.  Raises SelectorError."""
    if not isinstance(left, Property):
        raise SelectorError(RUNTIME, f"Expected a property for In expression, got: {left.text()}")
    return In(left, texts, negated=negated)
