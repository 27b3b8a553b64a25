"""Which of a topic's queues each member of a group gets, by place in the sorted rows: brokers and clients must come to the same.

Source: `AllocateMessageQueueAveragely`, `AllocateMessageQueueAveragelyByCircle`.
"""

from __future__ import annotations


def averagely(queues: int, members: int, index: int) -> range:
    """The places of neighbouring queues; the first members get one more where it does not come out even."""
    size, rest = divmod(queues, members)
    start = index * size + min(index, rest)
    return range(start, start + size + (index < rest))


def averagely_by_circle(queues: int, members: int, index: int) -> range:
    """Dealt round like cards."""
    return range(index, queues, members)
