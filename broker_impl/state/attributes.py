"""What may stand in the `attributes` of a topic or a group, and how a request changes them.

A change is a comma-separated list of `+key=value` (set) and `-key` (remove).  The texts of the errors are Java's, since tools
show them (`AttributeParser`, `AttributeUtil.alterCurrentAttributes`, `TopicAttributes`, `SubscriptionGroupAttributes`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

LONG_MAX = 2**63 - 1


class BadAttribute(Exception):
    """The change is not lawful; the text is Java's."""


@dataclass(frozen=True)
class EnumAttribute:
    """One of some words, in the order in which Java names them in an error."""

    name: str
    changeable: bool
    words: tuple[str, ...]

    def verify(self, value: str) -> None:
        """Raise `BadAttribute` unless the value is one of the words."""
        if value not in self.words:
            raise BadAttribute(f"value is not in set: [{', '.join(self.words)}]")


@dataclass(frozen=True)
class LongRangeAttribute:
    """A whole number between two bounds, both included."""

    name: str
    changeable: bool
    least: int
    most: int

    def verify(self, value: str) -> None:
        """Raise `BadAttribute` unless the value is a number in range."""
        if not re.fullmatch(r"[+-]?[0-9]{1,19}", value):
            raise BadAttribute(f'For input string: "{value[:64]}"')
        if not self.least <= int(value) <= self.most:
            raise BadAttribute(f"value is not in range({self.least}, {self.most})")


@dataclass(frozen=True)
class BooleanAttribute:
    """`true` or `false`, in any case."""

    name: str
    changeable: bool

    def verify(self, value: str) -> None:
        """Raise `BadAttribute` unless the value is a truth value."""
        if value.lower() not in ("true", "false"):
            raise BadAttribute("boolean attribute format is wrong.")


@dataclass(frozen=True)
class StringAttribute:
    """Any text."""

    name: str
    changeable: bool

    def verify(self, value: str) -> None:
        """Every text is lawful."""


Attribute = EnumAttribute | LongRangeAttribute | BooleanAttribute | StringAttribute

CLEANUP_POLICY = "cleanup.policy"
COMPACTION = "COMPACTION"
MESSAGE_TYPE = "message.type"
PRIORITY_FACTOR = "priority.factor"
QUEUE_TYPE = "queue.type"
BATCH_QUEUES = "BatchCQ"
MIXED = "MIXED"

TOPIC_ATTRIBUTES: dict[str, Attribute] = {
    known.name: known
    for known in (
        EnumAttribute(QUEUE_TYPE, False, ("SimpleCQ", BATCH_QUEUES)),
        EnumAttribute(CLEANUP_POLICY, False, (COMPACTION, "DELETE")),
        EnumAttribute(MESSAGE_TYPE, True, ("UNSPECIFIED", "MIXED", "TRANSACTION", "PRIORITY", "FIFO", "DELAY", "LITE", "NORMAL")),
        LongRangeAttribute("reserve.time", True, -1, LONG_MAX),
        LongRangeAttribute("lite.topic.expiration", True, -1, 43200),
    )
}
"""What 5.5.0 knows of topics."""

GROUP_ATTRIBUTES: dict[str, Attribute] = {
    known.name: known
    for known in (
        LongRangeAttribute(PRIORITY_FACTOR, True, 0, 100),
        StringAttribute("lite.bind.topic", True),
        EnumAttribute("lite.sub.model", True, ("Shared", "Exclusive")),
        LongRangeAttribute("lite.sub.client.quota", True, -1, LONG_MAX),
        LongRangeAttribute("lite.sub.client.max.event.cnt", True, 10, LONG_MAX),
        BooleanAttribute("lite.sub.reset.offset.exclusive", True),
        BooleanAttribute("lite.sub.reset.offset.unsubscribe", True),
        StringAttribute("lite.sub.wildcard", True),
    )
}
"""What 5.5.0 knows of groups.  `priority.factor` counts in pops; those of lite topics are kept, and nothing acts on them."""


def parse_modification(text: str | None) -> dict[str, str]:
    """`+a=1,-b` as `{"+a": "1", "-b": ""}`.  Raises `BadAttribute`."""
    found: dict[str, str] = {}
    if not text:
        return found
    for piece in text.rstrip(",").split(","):
        if "=" in piece:
            parts = piece.split("=")
            while len(parts) > 1 and not parts[-1]:
                parts.pop()
            if len(parts) < 2:
                raise BadAttribute("Index 1 out of bounds for length 1")
            key, value = parts[0], parts[1]
            if "+" not in key:
                raise BadAttribute(f"add/alter attribute format is wrong: {key}")
        else:
            key, value = piece, ""
            if "-" not in key:
                raise BadAttribute(f"delete attribute format is wrong: {key}")
        if key in found:
            raise BadAttribute(f"key duplication: {key}")
        found[key] = value
    return found


def altered(
    known: Mapping[str, Attribute], current: Mapping[str, str], change: Mapping[str, str], *, create: bool
) -> dict[str, str]:
    """The attributes after a change.  Raises `BadAttribute` and then nothing has changed."""
    seen: set[str] = set()
    setting: dict[str, str] = {}
    removing: list[str] = []
    for signed, value in change.items():
        key = signed[1:]
        if not key or "+" in key or "-" in key:
            raise BadAttribute("kv string format wrong.")
        if key in seen:
            raise BadAttribute(f"alter duplication key. key: {key}")
        seen.add(key)
        if signed.startswith("+"):
            setting[key] = value
        elif create:
            raise BadAttribute(f"only add attribute is supported while creating topic. key: {key}")
        elif not signed.startswith("-"):
            raise BadAttribute(f"wrong format key: {key}")
        elif key not in current:
            raise BadAttribute(f"attempt to delete a nonexistent key: {key}")
        else:
            removing.append(key)
    for key in (*setting, *removing):
        attribute = known.get(key)
        if attribute is None:
            raise BadAttribute(f"unsupported key: {key}")
        if not create and not attribute.changeable:
            raise BadAttribute(f"attempt to update an unchangeable attribute. key: {key}")
        if key in setting:
            attribute.verify(setting[key])
    kept = {key: value for key, value in current.items() if key not in removing}
    return {**kept, **setting}
