"""Light message queues: further queues that a message names in its properties, each with a consume queue of its own.

`INNER_MULTI_DISPATCH` names them, separated by commas; at its append the message gets `INNER_MULTI_QUEUE_OFFSET`, its offset in
each.  In a light queue a unit always lands at the queue's end, in log order: the offsets in the properties only say where a
queue begins whose first messages the log has lost.  Only names that begin with %LMQ% are light queues; their queue id is 0.
(Java: LmqDispatch, MultiDispatchUtils, ConsumeQueue.multiDispatchLmqQueue)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rmq_wire import names
from rmq_wire import property_names as prop
from rmq_wire.properties import decode, encode_java, find

SEPARATOR: Final = ","
QUEUE_ID: Final = 0
NO_OFFSET: Final = 0
"""Written for a name that cannot be a directory: it has no queue."""
_DISPATCH: Final = prop.INNER_MULTI_DISPATCH.encode()
_EXCLUDED_PREFIXES: Final = (names.RETRY_PREFIX, names.DLQ_PREFIX, names.SYSTEM_TOPIC_PREFIX)


def light_names(topic: str, properties: bytes) -> list[str]:
    """What a message names, in its order; empty when it names nothing or its topic takes no part (Java: needDispatchLMQ)."""
    named = find(properties, _DISPATCH)
    if named is None or topic == names.SCHEDULE_TOPIC or topic.startswith(_EXCLUDED_PREFIXES):
        return []
    text = named.decode("utf-8", "replace")
    return text.rstrip(SEPARATOR).split(SEPARATOR) if text.strip() else []


def queues_among(found: Sequence[str]) -> list[str]:
    """The light queues among these names, each once."""
    return [name for name in dict.fromkeys(found) if name.startswith(names.LMQ_PREFIX) and names.path_problem(name) is None]


def with_offsets(properties: bytes, offsets: Sequence[str]) -> bytes:
    """The properties with these offsets written into them, in Java's order."""
    values = decode(properties.decode("utf-8", "replace"))
    values[prop.INNER_MULTI_QUEUE_OFFSET] = SEPARATOR.join(offsets)
    return encode_java(values)


def offsets_in(found: Sequence[str], properties: bytes) -> dict[str, int]:
    """Light queue: offset there, as a stored unit says; without an entry where it says nothing readable."""
    written = find(properties, prop.INNER_MULTI_QUEUE_OFFSET.encode())
    texts = written.decode("utf-8", "replace").split(SEPARATOR) if written else []
    if len(texts) != len(found):
        return {}
    said: dict[str, int] = {}
    for name, text in zip(found, texts, strict=True):
        if text.isascii() and text.isdigit() and len(text) <= OFFSET_DIGITS_MAX:
            said.setdefault(name, int(text))
    return {name: said[name] for name in queues_among(found) if name in said}


OFFSET_DIGITS_MAX: Final = 18
