"""Where a message belongs that waits in a system topic (delayed, timed, half): its REAL_TOPIC and REAL_QID.

Java reads the number alike everywhere, with `Integer.parseInt` and no look at what comes out
(`ScheduleMessageService.messageTimeUp`, `TimerMessageStore.convertMessage`, `EndTransactionProcessor.endMessageTransaction`).
*Differs*: no queue is below zero; Java stores the message in one that no client can pull.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rmq_wire import property_names as prop
from rmq_wire.java import parse_int

_FIRST_QUEUES: Final = {str(number): number for number in range(64)}
"""Of almost all messages."""


def real_queue(text: str | None) -> int | None:
    """The queue that a REAL_QID says, from 0 to 2^31-1; None when it says none."""
    if text in _FIRST_QUEUES:
        return _FIRST_QUEUES[text]
    number = None if text is None else parse_int(text)
    return None if number is None or number < 0 else number


def real_place(topic: str | None, queue: str | None) -> tuple[str, int] | None:
    """Topic and queue of a REAL_TOPIC and a REAL_QID; None when they do not say both."""
    number = real_queue(queue)
    return None if number is None or not topic else (topic, number)


def real_place_of(values: Mapping[str, str]) -> tuple[str, int] | None:
    """The same of a message's properties.  The copy that goes there may keep both."""
    return real_place(values.get(prop.REAL_TOPIC), values.get(prop.REAL_QID))
