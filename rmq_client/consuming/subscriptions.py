"""What of a topic is wanted: an expression over tags (`A || B`, `*`) or over properties (SQL92).

Brokers compare 32-bit hashes of tags, and two tags may share one, so what arrives is compared once more by the text.
Source: `FilterAPI.build`, `PullAPIWrapper.processPullResult`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rmq_client.errors import CallerError
from rmq_wire import names
from rmq_wire.bodies.heartbeat import TAG, SubscriptionData
from rmq_wire.java import string_hash

if TYPE_CHECKING:
    from rmq_client.consuming.received import ReceivedMessage

TOOLS_GROUP: Final = names.TOOLS_CONSUMER_GROUP
"""The group of those who only look."""
ALL: Final = "*"
SQL92: Final = "SQL92"
_OR: Final = "||"


@dataclass(frozen=True, slots=True)
class Subscription:
    """An expression and its type: TAG or SQL92."""

    expression: str = ALL
    expression_type: str = TAG

    def __post_init__(self) -> None:
        if self.expression_type not in (TAG, SQL92):
            raise CallerError(f"expression type {self.expression_type!r}: TAG and SQL92 are known")
        if not self.expression.strip():
            raise CallerError("an empty expression wants nothing: * is everything")
        try:
            self.expression.encode()
        except UnicodeEncodeError:
            raise CallerError(f"the expression {self.expression!r} cannot be written in UTF-8") from None

    @property
    def tags(self) -> frozenset[str]:
        """Those that it names; none: all messages, as far as tags go.  Raises `CallerError` for an expression of bars alone."""
        if self.expression_type != TAG or self.expression == ALL:
            return frozenset()
        found = frozenset(tag for one in self.expression.split(_OR) if (tag := one.strip()))
        if not found:
            raise CallerError(f"the expression {self.expression!r} names no tag")
        return found

    def data(self, topic: str, version_ms: int) -> SubscriptionData:
        """As a heartbeat says it.  version_ms: when it was made."""
        tags = sorted(self.tags)
        return SubscriptionData(
            topic=topic,
            sub_string=self.expression,
            tags_set=tags,
            code_set=[string_hash(tag) for tag in tags],
            sub_version=version_ms,
            expression_type=self.expression_type,
        )

    def wanted(self, messages: Iterable[ReceivedMessage]) -> Iterator[ReceivedMessage]:
        """Those of the tags."""
        tags = self.tags
        return (message for message in messages if not tags or message.tags in tags)


EVERYTHING: Final = Subscription()
