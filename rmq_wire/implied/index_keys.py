"""Under which texts a message is indexed, and their hashes.  Sources: `IndexService.buildIndex`, `IndexFile` of 5.5.0."""

from __future__ import annotations

from functools import lru_cache

from rmq_wire import property_names as prop
from rmq_wire.java import hash_suffix, string_hash
from rmq_wire.properties import decode
from rmq_wire.sys_flag import TRANSACTION_MASK, TRANSACTION_ROLLBACK

HASH_MAX = (1 << 31) - 1
TAGS_PREFIX = "T#"
"""Before the whole TAGS."""


def is_indexed(sys_flag: int) -> bool:
    """Messages of rolled back transactions have no entries; half messages have."""
    return sys_flag & TRANSACTION_MASK != TRANSACTION_ROLLBACK


def tags_key(tags: str) -> str:
    """Under which text a message with these TAGS is found by them."""
    return TAGS_PREFIX + tags


def index_keys(unique_key: str | None, keys: str | None, tags: str | None) -> tuple[str, ...]:
    """The texts in the order of the entries; `topic#` goes before each.

    The unique key, each piece of KEYS between blanks, `T#` and the whole TAGS.
    """
    if not keys and not tags:
        return (unique_key,) if unique_key else ()
    found = [unique_key] if unique_key else []
    if keys:
        found += [piece for piece in keys.split(prop.KEY_SEPARATOR) if piece]
    if tags:
        found.append(tags_key(tags))
    return tuple(found)


def tagged_index_keys(unique_key: str, keys: str, tags_key: str) -> tuple[str, ...]:
    """`index_keys` of a message that has a unique key and tags, for who knows the tags' text already."""
    if keys and prop.KEY_SEPARATOR not in keys:
        return unique_key, keys, tags_key
    return (*index_keys(unique_key, keys, None), tags_key)


def stored_index_keys(properties: bytes) -> tuple[str, ...]:
    """The same, of stored properties."""
    values = decode(properties.decode("utf-8", "replace"))
    return index_keys(values.get(prop.UNIQ_KEY), values.get(prop.KEYS), values.get(prop.TAGS))


@lru_cache(maxsize=4096)
def topic_hash(topic: str) -> int:
    """Of `topic#`, with which every text of its messages begins."""
    return string_hash(topic + "#")


def key_hash(topic_hash: int, key: str) -> int:
    """The keyHash of an index entry: Java's hash of `topic#key` without its sign (`IndexFile.indexKeyHashMethod`)."""
    value = abs(hash_suffix(topic_hash, key))
    return value if value <= HASH_MAX else 0


def index_hash(topic: str, key: str) -> int:
    """The same of a topic's name."""
    return key_hash(topic_hash(topic), key)
