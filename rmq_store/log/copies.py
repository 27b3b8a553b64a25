"""Messages of the log that are stored once more, elsewhere: what waited for its time goes where its properties say.

Such a message is read as the draft of its copy.  Most of them have the same names among their properties as the one before: by
shape (`Shapes`) it is known where each value goes, and often that the whole string stays as it is.  Everything else is taken
apart and written in Java's order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rmq_store.log.draft import Draft
from rmq_wire import property_names as prop
from rmq_wire.implied.index_keys import index_keys
from rmq_wire.implied.tags import tags_code
from rmq_wire.properties import decode, encode_java
from rmq_wire.property_shapes import Shapes

TAGS_MAX: Final = 256
TAGS_CHARACTERS_MAX: Final = 128
PICKED: Final = (prop.UNIQ_KEY, prop.KEYS, prop.TAGS, prop.REAL_TOPIC, prop.REAL_QID)


class Readdressing:
    """Of copies of one kind.

    `store(text, *added)`: the properties of the copy, in the general way; `added`: how many values are given with each.
    `special`: names with which a message is not for here.  `queue_of(topic, text)`: the queue by REAL_TOPIC and REAL_QID.
    """

    def __init__(
        self, store: Callable[..., bytes], special: frozenset[str], queue_of: Callable[[str, str], int], added: int = 0
    ) -> None:
        self._rewrite = Shapes(store, special, PICKED, added).rewrite
        self._queue_of = queue_of
        self._tags: dict[str, tuple[int, tuple[str, ...]]] = {}

    def by_shape(self, draft: Draft, added: tuple[str, ...] = ()) -> bool:
        """Make the draft, as it was read, that of the copy.  False, and nothing is done: `readdress` has to.

        Raises what `queue_of` does.
        """
        found = self._rewrite(draft.properties.decode("utf-8", "replace"), added)
        if found is None:
            return False
        encoded, unique_key, keys, tags, topic, queue_text = found
        draft.queue_id = self._queue_of(topic, queue_text)
        draft.topic = topic
        draft.properties = encoded
        told = self._tags.get(tags)
        draft.tags_code, tag_keys = self._told(tags) if told is None else told
        draft.keys = index_keys(unique_key, keys, tags) if keys else (unique_key, *tag_keys)
        return True

    def _told(self, tags: str) -> tuple[int, tuple[str, ...]]:
        """Of these TAGS the code, and the text under which they are indexed, remembered for few."""
        told = tags_code(tags), index_keys(None, None, tags)
        if len(tags) <= TAGS_CHARACTERS_MAX:
            if len(self._tags) >= TAGS_MAX:
                self._tags.clear()
            self._tags[tags] = told
        return told


def values_of(draft: Draft) -> dict[str, str]:
    """All its properties."""
    return decode(draft.properties.decode("utf-8", "replace"))


def readdress(draft: Draft, topic: str, queue_id: int, values: dict[str, str]) -> None:
    """Make it the draft of the copy that goes there with these properties."""
    tags = values.get(prop.TAGS)
    draft.topic = topic
    draft.queue_id = queue_id
    draft.properties = encode_java(values)
    draft.tags_code = tags_code(tags)
    draft.keys = index_keys(values.get(prop.UNIQ_KEY), values.get(prop.KEYS), tags)
