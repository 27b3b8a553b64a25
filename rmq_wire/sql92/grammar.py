"""Reading a selector: recursive descent by the reference's rules, each choice in its order.

    or         := and (OR and)*
    and        := equality (AND equality)*
    equality   := comparison ('=' comparison | '<>' comparison | IS [NOT] NULL)*
    comparison := unary (('>' | '>=' | '<' | '<=') unary | [NOT] (CONTAINS | STARTSWITH | ENDSWITH) text
                         | [NOT] BETWEEN unary AND unary | [NOT] IN '(' text (',' text)* ')')*
    unary      := ('+' | '-' | NOT) unary | literal | property | '(' or ')'

It stops behind the last token that fits: `a = 1 nonsense` is `a = 1`, as in Java.

Java: `SelectorParser`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rmq_wire.sql92 import checked, expressions
from rmq_wire.sql92 import syntax_errors as tried
from rmq_wire.sql92.checked import as_boolean
from rmq_wire.sql92.errors import SelectorError
from rmq_wire.sql92.expressions import DEPTH_MAX, Constant, Node, Property, too_deep
from rmq_wire.sql92.syntax_errors import Expectations
from rmq_wire.sql92.tokens import Kind, Token, Tokens

_COMPARISONS: Final = {Kind.GREATER: ">", Kind.GREATER_EQUAL: ">=", Kind.LESS: "<", Kind.LESS_EQUAL: "<="}
_SEARCHES: Final = (
    (Kind.CONTAINS, tried.COMPARISON_FIRST),
    (Kind.STARTSWITH, tried.STARTSWITH),
    (Kind.ENDSWITH, tried.ENDSWITH),
)
_LITERALS: Final[dict[Kind, Callable[[str], Constant]]] = {
    Kind.STRING_LITERAL: lambda image: Constant(_unquoted(image)),
    Kind.DECIMAL_LITERAL: checked.integer,
    Kind.FLOATING_POINT_LITERAL: checked.floating,
    Kind.TRUE: lambda _: Constant(True),
    Kind.FALSE: lambda _: Constant(False),
    Kind.NULL: lambda _: Constant(None),
}
_COMPARISON_GOES_ON: Final = frozenset(tried.CHOICES[tried.COMPARISON_MORE])


def parse(text: str) -> tuple[Node, tuple[str, ...], int]:
    """The boolean expression that a text begins with, the properties in it, and of how many operands it is made.

    Raises SelectorError.
    """
    parser = _Parser(text)
    return as_boolean(parser.disjunction()), tuple(parser.names), parser.operands


class _Parser:
    """Where reading is: `_number` tokens are consumed, `_kind` is that of the next one."""

    def __init__(self, text: str) -> None:
        self._tokens = Tokens(text)
        self._tried = Expectations(self._tokens)
        self._missed = self._tried.missed
        self._number = 0
        self._kind = self._tokens[0].kind
        self._depth = 0
        self.names: dict[str, None] = {}
        self.operands = 0

    def _skip(self, count: int = 1) -> None:
        """Tokens that were looked at are consumed."""
        self._number += count
        try:
            self._kind = self._tokens[self._number].kind
        except SelectorError:  # the reference has not looked at it yet: what is wrong before is said first
            self._kind = Kind.UNREADABLE

    def _take(self, kind: Kind) -> Token:
        token = self._tokens[self._number]
        if token.kind != kind:
            raise self._tried.error(self._number, kind)
        self._skip()
        return token

    def _goes_on(self, choice: int) -> bool:
        """One of the choice's kinds comes."""
        if self._kind in tried.CHOICES[choice]:
            return True
        self._miss(choice)
        return False

    def _miss(self, choice: int) -> None:
        """The parser looks at the next token, and it is none of the choice's.  Raises SelectorError."""
        if self._kind is Kind.UNREADABLE:
            self._tokens[self._number]
        self._missed[choice] = self._number

    def _sees(self, first: Kind, second: Kind) -> bool:
        """These two come."""
        return self._kind is first and self._tokens[self._number + 1].kind is second

    def disjunction(self) -> Node:
        """A chain of OR."""
        operands = [self._conjunction()]
        while self._goes_on(tried.OR_MORE):
            self._skip()
            right = self._conjunction()
            if len(operands) == 1:
                operands[0] = as_boolean(operands[0])
            operands.append(as_boolean(right))
        return operands[0] if len(operands) == 1 else expressions.Chain(operands, decides=True)

    def _conjunction(self) -> Node:
        operands = [self._equality()]
        while self._goes_on(tried.AND_MORE):
            self._skip()
            right = self._equality()
            if len(operands) == 1:
                operands[0] = as_boolean(operands[0])
            operands.append(as_boolean(right))
        return operands[0] if len(operands) == 1 else expressions.Chain(operands, decides=False)

    def _equality(self) -> Node:
        left = self._comparison()
        while self._goes_on(tried.EQUALITY_MORE):
            if self._goes_on(tried.EQUALITY_SIGN):
                is_equal = self._kind == Kind.EQUAL
                self._skip()
                same = checked.equal(left, self._comparison())
                left = same if is_equal else expressions.Not(same)
            elif self._sees(Kind.IS, Kind.NULL):
                self._skip(2)
                left = checked.is_null(left)
            else:
                self._tried.no_null = self._number
                self._take(Kind.IS)
                self._take(Kind.NOT)
                self._take(Kind.NULL)
                left = expressions.Not(checked.is_null(left))
        return left

    def _comparison(self) -> Node:
        left = self._unary()
        while self._kind in _COMPARISON_GOES_ON:
            left = self._compared(left)
        self._miss(tried.COMPARISON_MORE)
        return left

    def _compared(self, left: Node) -> Node:
        if symbol := _COMPARISONS.get(self._kind):
            self._skip()
            return checked.comparison(left, symbol, self._unary())
        for kind, choice in _SEARCHES:
            if negated := self._kind != kind:
                self._miss(choice)
                if not self._sees(Kind.NOT, kind):
                    continue
            self._skip(1 + negated)
            return expressions.Search(left, kind.name, self._text(), negated=negated)
        if not (negated := not self._goes_on(tried.BETWEEN)) or self._sees(Kind.NOT, Kind.BETWEEN):
            self._skip(1 + negated)
            low = self._unary()
            self._take(Kind.AND)
            high = self._unary()
            return checked.not_between(left, low, high) if negated else checked.between(left, low, high)
        if not (negated := not self._goes_on(tried.IN)) or self._sees(Kind.NOT, Kind.IN):
            self._skip(1 + negated)
            return checked.is_in(left, self._texts(tried.NOT_IN_MORE if negated else tried.IN_MORE), negated=negated)
        raise self._tried.error(self._number)

    def _texts(self, choice: int) -> list[str]:
        self._take(Kind.OPEN)
        texts = [self._text()]
        while self._goes_on(choice):
            self._skip()
            texts.append(self._text())
        self._take(Kind.CLOSE)
        return texts

    def _text(self) -> str:
        return _unquoted(self._take(Kind.STRING_LITERAL).image)

    def _unary(self) -> Node:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise too_deep()
        try:
            return self._signed()
        finally:
            self._depth -= 1

    def _signed(self) -> Node:
        self.operands += 1
        kind = self._kind
        if kind is not Kind.PLUS:
            self._tried.no_plus = self._number
        elif self._tried.plus_fits(self._number):
            self._skip()
            return self._unary()
        if kind == Kind.MINUS:
            self._skip()
            return expressions.Negation(self._unary())
        if kind == Kind.NOT:
            self._skip()
            return expressions.Not(as_boolean(self._unary()))
        if kind == Kind.OPEN:
            self._skip()
            inside = self.disjunction()
            self._take(Kind.CLOSE)
            return inside
        if kind in _LITERALS:
            return _LITERALS[kind](self._take(kind).image)
        if kind == Kind.ID:
            name = self._take(kind).image
            self.names[name] = None
            return Property(name)
        self._miss(tried.UNARY)
        raise self._tried.error(self._number)


def _unquoted(image: str) -> str:
    return image[1:-1].replace("''", "'")
