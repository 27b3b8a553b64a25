"""Finding a queue's entry by the place of its message: entries are in the order of the log."""

from __future__ import annotations

from rmq_store.consume_queue import ConsumeQueue


def first_kept(queue: ConsumeQueue, position: int) -> int:
    """The first visible offset whose message begins at this log position or later; the queue's maximum when there is none.

    Looks at both ends first: most queues of an old log have nothing left, or lost nothing. Raises Cold, OSError.
    """
    low, high = queue.min_offset, queue.max_offset
    if low >= high or queue.unit(high - 1)[0] < position:
        return high
    if queue.unit(low)[0] >= position:
        return low
    while low < high:
        middle = (low + high) // 2
        if queue.unit(middle)[0] >= position:
            high = middle
        else:
            low = middle + 1
    return low
