"""What a message of the timer's topic is on its way out of the wheel, or into it: the draft of its copy."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from rmq_store.log.draft import Draft
from rmq_store.timer.steps import Step
from rmq_wire import names, properties
from rmq_wire import property_names as prop
from rmq_wire.implied.real_place import real_queue
from rmq_wire.implied.timers import NoTimer


def timers_own(step: Step, draft: Draft | None, size: int) -> Draft:
    """What was read, if it is a message of the timer's topic.  Raises NoTimer."""
    step.looked += 1
    if draft is None:
        raise NoTimer("its message is not in the log")
    step.bytes += size
    if draft.topic != names.WHEEL_TIMER_TOPIC:
        raise NoTimer("its message is of another topic")
    return draft


text_of: Final = lru_cache(maxsize=64)(str)
"""Of a time: most messages of a slot entered it together, and leave it together."""


def queue_of(_topic: str, text: str) -> int:
    """-1 where the message says none: it counts all the same, and may have been recalled."""
    queue_id = real_queue(text)
    return -1 if queue_id is None else queue_id


def leaving(text: str, enqueue_ms: str, dequeue_ms: str) -> bytes:
    """The properties of a message that leaves the wheel for its topic (`timers.note_dequeue`)."""
    return properties.encode_java(
        {**properties.decode(text), prop.TIMER_ENQUEUE_MS: enqueue_ms, prop.TIMER_DEQUEUE_MS: dequeue_ms}
    )
