"""Which messages of a queue a group wants: tag expressions, as pulls and heartbeats carry them.

A subscription becomes a `Wanted`: everything, or the 32-bit hashes of its tags.  The store compares them with the tag codes of
queue units, the table of held pulls with those of arrivals; two tags may share a hash, so clients filter once more by the text.
Expressions of another type than TAG (SQL92) are recognised here and answered as by a broker with enablePropertyFilter=false.

Java: `FilterAPI.build`, `ExpressionType`, `ExpressionMessageFilter.isMatchedByConsumeQueue`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

from rmq_wire.bodies.heartbeat import TAG, SubscriptionData
from rmq_wire.java import string_hash

ALL: Final = "*"
OR: Final = "||"
EXPRESSION_CHARACTERS_MAX: Final = 65_536
"""A longer expression is refused: no client writes ten thousand tags, and each costs a hash."""
CACHED_CHARACTERS_MAX: Final = 4_096
"""Longer expressions are parsed at each pull, so that the cache of 1024 stays below some megabytes."""
_TRIMMED: Final = "".join(map(chr, range(0x21)))
"""What Java's `String.trim` takes off."""
_INT_SIGN: Final = 1 << 31
_INT_MASK: Final = (1 << 32) - 1


class Wanted(NamedTuple):
    """`codes`: the tag hashes that are wanted, None for everything.  `expression_type`: set when it is not a tag expression."""

    codes: frozenset[int] | None
    expression_type: str | None = None


EVERYTHING: Final = Wanted(None)


class Unreadable(ValueError):
    """An expression that is none: the asker gets SUBSCRIPTION_PARSE_FAILED."""


def is_tag_type(expression_type: str | None) -> bool:
    """`ExpressionType.isTagType`: absent and empty mean tags."""
    return not expression_type or expression_type == TAG


def parse(expression: str | None, expression_type: str | None) -> Wanted:
    """What a pull that carries its own subscription asks for.  Raises `Unreadable`.

    A type that is the empty text counts as tags, but its expression is not taken apart (`FilterAPI.build`): only `*` matches.
    """
    if expression is not None and len(expression) > EXPRESSION_CHARACTERS_MAX:
        raise Unreadable(f"expression of {len(expression)} characters")
    if expression_type is None or expression_type == TAG:
        if not expression or expression == ALL:
            return EVERYTHING
        return _tags(expression) if len(expression) <= CACHED_CHARACTERS_MAX else _tags.__wrapped__(expression)
    if not expression:
        raise Unreadable(f"no expression of type {expression_type}")
    if expression_type:
        return Wanted(None, expression_type)
    return EVERYTHING if expression == ALL else Wanted(frozenset())


def of_subscription(subscription: SubscriptionData) -> Wanted:
    """What a group asked for in its heartbeat."""
    if subscription.class_filter_mode:
        return EVERYTHING
    if not is_tag_type(subscription.expression_type):
        return Wanted(None, subscription.expression_type)
    if subscription.sub_string == ALL:
        return EVERYTHING
    return Wanted(frozenset(subscription.code_set))


def low_half(tags_code: int) -> int:
    """What is compared of a queue unit's 64-bit tag code: the low 32 bits, signed (`Long.intValue`)."""
    return (tags_code + _INT_SIGN & _INT_MASK) - _INT_SIGN


@lru_cache(maxsize=1024)
def _tags(expression: str) -> Wanted:
    pieces = expression.split(OR)
    while pieces and not pieces[-1]:
        pieces.pop()
    if not pieces:
        raise Unreadable("no tag between the bars")
    return Wanted(frozenset(string_hash(tag) for piece in pieces if (tag := piece.strip(_TRIMMED))))
