"""Which messages of a queue a group wants: expressions over tags or properties, as pulls and heartbeats carry them.

A subscription becomes a `Wanted`: everything, or the 32-bit hashes of its tags.  The store compares them with the tag codes of
queue units, the table of held pulls with those of arrivals; two tags may share a hash, so clients filter once more by the text.
Of another type there is one, SQL92: a `PropertyFilter`, which the store asks about each unit (`rmq_wire.sql92` reads the text).

Java: `FilterAPI.build`, `ExpressionType`, `ExpressionMessageFilter`, `ExpressionForRetryMessageFilter`, `FilterFactory`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from rmq_store.read import asked
from rmq_wire import names
from rmq_wire import property_names as prop
from rmq_wire.bodies.heartbeat import TAG, SubscriptionData
from rmq_wire.java import string_hash
from rmq_wire.message import stored_properties
from rmq_wire.properties import find
from rmq_wire.property_values import SeenValues
from rmq_wire.sql92.errors import TooMuch
from rmq_wire.sql92.selector import Selector, compiled, keep, unread_characters

ALL: Final = "*"
OR: Final = "||"
SQL92: Final = "SQL92"
EXPRESSION_CHARACTERS_MAX: Final = 65_536
"""A longer expression is refused: no client writes ten thousand tags, and each costs a hash."""
CACHED_CHARACTERS_MAX: Final = 4_096
"""Longer expressions are parsed at each pull, so that the cache of 1024 stays below some megabytes."""
_TRIMMED: Final = "".join(map(chr, range(0x21)))
"""What Java's `String.trim` takes off."""
_INT_SIGN: Final = 1 << 31
_INT_MASK: Final = (1 << 32) - 1


ROWS_MAX: Final = 256
"""Units for which one pull has a selector evaluated; it goes on with the next pull.  Those that are like others do not count."""
STEPS_MAX: Final = 8_192
"""Of all of them together, 0.3 µs each: a pull with a long selector evaluates it for fewer units."""
SEARCHES_MAX: Final = 3_200
"""Properties that one pull looks for, 0.2 µs each: in 800 units four."""
NO_FILTER: Final = (
    'Cannot invoke "org.apache.rocketmq.filter.FilterSpi.compile(String)" because the return value of '
    '"org.apache.rocketmq.filter.FilterFactory.get(String)" is null'
)
"""What the reference says to a type of expression that nobody knows."""


class PropertyFilter(asked.UnitFilter):
    """A selector, as the store asks it."""

    def __init__(self, selector: Selector) -> None:
        self.selector = self._of_topic = selector
        self._topic = ""
        self.rows_max, self.units_max = _limits(selector.steps, len(selector.names))

    def keep(self) -> None:
        """Who waited with it is served again: it need not be read once more."""
        keep(self.selector.text, self.selector)

    def begin(self, topic: str) -> None:
        if topic != self._topic:
            self._topic, self._of_topic = topic, self.selector.of_topic(topic)

    def __call__(self, unit: memoryview, /) -> bool:
        return self._of_topic.matches_stored(stored_properties(unit))

    def add_wanted(
        self, log: memoryview, base: int, positions: Sequence[int], sizes: Sequence[int], found: list[tuple[int, int]], most: int
    ) -> Sequence[asked.NumbersMet]:
        return self._of_topic.add_selected(log, base, positions, sizes, found, most)

    def value_verdicts(self) -> Sequence[tuple[SeenValues, bytes]]:
        return self._of_topic.value_verdicts()

    def evaluated(self) -> int:
        return self._of_topic.evaluated_stored()


class RetryFilter(asked.UnitFilter):
    """The same for a retry topic with filterSupportRetry: each message by the group's filter on the topic that it came from."""

    def __init__(self, find_filter: Callable[[str], PropertyFilter | None]) -> None:
        self._find = find_filter
        self.rows_max = 1 + ROWS_MAX // 16

    def __call__(self, unit: memoryview, /) -> bool:
        properties = stored_properties(unit)
        topic = find(properties, _RETRY_TOPIC)
        found = self._find(topic.decode("utf-8", "replace")) if topic else None
        return found is None or found.selector.matches_stored(properties)


UnitFilter = PropertyFilter | RetryFilter
_RETRY_TOPIC: Final = prop.RETRY_TOPIC.encode()


class Wanted(NamedTuple):
    """`codes`: the tag hashes that are wanted, None for everything.  `expression_type`: set when it is not a tag expression, and
    then `matches` says which messages are wanted, None: all of them.
    """

    codes: frozenset[int] | None
    expression_type: str | None = None
    matches: UnitFilter | None = None


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
        return Wanted(None, expression_type, _of_pull(expression, expression_type))
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


def characters_to_read(expression: str | None, expression_type: str | None) -> int:
    """How long the selector is that `property_filter` would have to read, 0 of one that is known."""
    return unread_characters(expression or "") if expression_type == SQL92 else 0


def property_filter(expression: str, expression_type: str | None) -> PropertyFilter:
    """The filter that an expression is (`FilterFactory.get(type).compile`).  Raises ValueError, in the reference's words."""
    if expression_type != SQL92:
        raise ValueError(NO_FILTER)
    return PropertyFilter(compiled(expression))


def retry_filter(topic: str, find_filter: Callable[[str, str], PropertyFilter | None]) -> RetryFilter | None:
    """That of a retry topic, None for another one.  `find_filter(topic, group)`."""
    if not topic.startswith(names.RETRY_PREFIX):
        return None
    group = names.group_of_retry_topic(topic)
    return RetryFilter(lambda real_topic: find_filter(real_topic, group))


def _of_pull(expression: str, expression_type: str) -> PropertyFilter | None:
    """What a pull says itself: one that is wrong, or of an unknown type, lets everything through, as in the reference.

    *Differs*: one that is too long or deep for us is refused.
    """
    try:
        return property_filter(expression, expression_type)
    except TooMuch as wrong:
        raise Unreadable(str(wrong)) from None
    except ValueError:
        return None


def low_half(tags_code: int) -> int:
    """What is compared of a queue unit's 64-bit tag code: the low 32 bits, signed (`Long.intValue`)."""
    return (tags_code + _INT_SIGN & _INT_MASK) - _INT_SIGN


@lru_cache(maxsize=1024)
def _limits(steps: int, names_count: int) -> tuple[int, int]:
    """`rows_max` and `units_max` of a selector with so many expressions and properties."""
    rows_max = max(min(ROWS_MAX, STEPS_MAX // max(steps, 1)), 1)
    return rows_max, max(min(asked.UNITS_MAX, SEARCHES_MAX // max(names_count, 1)), 1)


def tags(expression: str) -> list[str]:
    """The tags that an expression over tags names, each once, in its order."""
    return list(dict.fromkeys(tag for piece in expression.split(OR) if (tag := piece.strip(_TRIMMED))))


@lru_cache(maxsize=1024)
def _tags(expression: str) -> Wanted:
    if not any(expression.split(OR)):
        raise Unreadable("no tag between the bars")
    return Wanted(frozenset(map(string_hash, tags(expression))))
