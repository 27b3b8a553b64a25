"""Light message queues: further queues that a message names in its properties.

`INNER_MULTI_DISPATCH` names them, separated by commas; at its append the message gets `INNER_MULTI_QUEUE_OFFSET`, its offset in
each.  Only names that begin with %LMQ% are light queues; their queue id is 0.  Copies in retry, dead-letter and the broker's own
topics keep the properties, but are in no light queue.
Sources: `LmqDispatch`, `MultiDispatchUtils`, `ConsumeQueue.multiDispatchLmqQueue`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rmq_wire import property_names as prop
from rmq_wire.implied.topics import allows_light_queues
from rmq_wire.names import LMQ_PREFIX, path_problem
from rmq_wire.properties import find

SEPARATOR: Final = ","
QUEUE_ID: Final = 0
OFFSET_DIGITS_MAX: Final = 18
"""Every such number fits into a long."""
_DISPATCH: Final = prop.INNER_MULTI_DISPATCH.encode()
_OFFSETS: Final = prop.INNER_MULTI_QUEUE_OFFSET.encode()


def is_light_queue(name: str) -> bool:
    """Whether a name can be that of a light queue: others have no directory, so nothing is ever in them.

    Made anew, such a queue has no gaps, whoever sent to it: one message that names it may have been counted twice (Java).
    """
    return name.startswith(LMQ_PREFIX) and path_problem(name) is None


def named_in(dispatch: bytes | None) -> list[str]:
    """What the value of `INNER_MULTI_DISPATCH` names, light queues or not, in its order."""
    text = dispatch.decode("utf-8", "replace") if dispatch else ""
    return text.rstrip(SEPARATOR).split(SEPARATOR) if text.strip() else []


def light_names(topic: str, properties: bytes) -> list[str]:
    """The same of a message; empty when its topic takes no part."""
    named = find(properties, _DISPATCH)
    return named_in(named) if named is not None and allows_light_queues(topic) else []


def light_queues_among(found: Sequence[str]) -> list[str]:
    """The light queues among these names, each once."""
    return [name for name in dict.fromkeys(found) if is_light_queue(name)]


def places_in(dispatch: bytes | None, offsets: bytes | None) -> dict[str, int]:
    """Light queue -> offset there, by the values of both properties.

    Of a name that is there twice the first offset counts; one without a readable offset is left out, all are when the counts of
    names and offsets differ.
    """
    found = named_in(dispatch)
    texts = offsets.decode("utf-8", "replace").split(SEPARATOR) if offsets else []
    if len(texts) != len(found):
        return {}
    said: dict[str, int] = {}
    for name, text in zip(found, texts, strict=True):
        if text.isascii() and text.isdigit() and len(text) <= OFFSET_DIGITS_MAX and is_light_queue(name):
            said.setdefault(name, int(text))
    return said


def light_places(topic: str, queue_id: int, properties: bytes) -> dict[str, int]:
    """Light queue -> the offset that a stored message says it has there.  It is in its own queue anyway, and only once."""
    named = find(properties, _DISPATCH)
    if named is None or not allows_light_queues(topic):
        return {}
    places = places_in(named, find(properties, _OFFSETS))
    return {name: offset for name, offset in places.items() if not is_own(name, topic, queue_id)}


def is_own(name: str, topic: str, queue_id: int) -> bool:
    """Whether a message of this queue names that queue itself."""
    return name == topic and queue_id == QUEUE_ID
