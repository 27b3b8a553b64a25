"""What a queue entry holds of a message's tags."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from rmq_wire import property_names as prop
from rmq_wire.java import string_hash
from rmq_wire.properties import find

_CACHED_CHARACTERS_MAX: Final = 128
_TAGS: Final = prop.TAGS.encode()


def tags_code(tags: str | None) -> int:
    """Java's hash of the text, 0 without any (`MessageExtBrokerInner.tagsString2tagsCode`)."""
    if not tags:
        return 0
    return _tags_code(tags) if len(tags) <= _CACHED_CHARACTERS_MAX else string_hash(tags)


def stored_tags_code(properties: bytes) -> int:
    """The same, of the tags in stored properties."""
    tags = find(properties, _TAGS)
    return tags_code(tags.decode("utf-8", "replace")) if tags else 0


@lru_cache(maxsize=4096)
def _tags_code(tags: str) -> int:
    return string_hash(tags)
