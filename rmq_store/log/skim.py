"""A quick look at units that are known to be safe: where the next begins and which place in which queue each has.

What lies before the checkpoint's position was synced, log and queues both, so an unclean start has nothing to dispatch there.
That the queues really have it is checked by the last message of each queue; bodies and their check sums are not touched, which
makes it ten times as fast as a walk.
"""

from __future__ import annotations

from struct import error as PackedError
from typing import Final, TypeAlias

from rmq_store.disk.segments import Segments
from rmq_store.layouts import BORN_V6, FIXED, HEAD, MAGIC_V1, MAGIC_V2, STORE_V6, TOPIC_LENGTH_V1, TOPIC_LENGTH_V2
from rmq_wire.implied.queue_entries import UNQUEUED
from rmq_wire.layout import message
from rmq_wire.layout.flat import length_of

CHUNK_BYTES: Final = 4 * 1024 * 1024
_HOST_BITS: Final = BORN_V6 | STORE_V6
_BODY_AT: Final = {bits: fixed.size for bits, fixed in FIXED.items()}
_BODY_LENGTH: Final = length_of(message.BODY)

Lasts: TypeAlias = dict[tuple[bytes, int], int]
"""(topic, queue id): log position of the last unit."""


def last_of_queues(segments: Segments, start: int, stop: int) -> Lasts | None:
    """The last unit of each queue between two units' positions in one file; None when the units do not lead there.

    Raises OSError.
    """
    file_start = segments.start_of(start)
    if file_start is None:
        return None
    file = segments.file(file_start)
    lasts: Lasts = {}
    at, want = start, CHUNK_BYTES
    while at < stop:
        begun = at
        data = file.read_at(at - file_start, min(want, stop - at))
        at = _skim(data, at, lasts)
        if at < 0:
            return None
        want = CHUNK_BYTES if at > begun else want * 4
        if at == begun and want > segments.file_bytes * 4:
            return None
    return lasts if at == stop else None


def _skim(data: bytes, base: int, lasts: Lasts) -> int:
    """Note the whole units of a chunk that begins at log position `base`.

    Returns where the first that is not whole begins, -1 for damage.
    """
    head_of, head_bytes, body_length_of = HEAD.packed.unpack_from, HEAD.size, _BODY_LENGTH.unpack_from
    at, end = 0, len(data)
    try:
        while at + head_bytes <= end:
            size, magic, _, queue_id, _, _, physical, sys_flag, _ = head_of(data, at)
            if physical != base + at or size < head_bytes:
                return -1
            if at + size > end:
                break
            if not sys_flag & UNQUEUED:
                body_at = at + _BODY_AT[sys_flag & _HOST_BITS]
                [body_bytes] = body_length_of(data, body_at - _BODY_LENGTH.size)
                topic_at = body_at + body_bytes
                if body_bytes < 0 or topic_at >= at + size:
                    return -1
                if magic == MAGIC_V1:
                    topic_bytes = data[topic_at]
                    topic_at += TOPIC_LENGTH_V1.size
                elif magic == MAGIC_V2:
                    [topic_bytes] = TOPIC_LENGTH_V2.unpack_from(data, topic_at)
                    topic_at += TOPIC_LENGTH_V2.size
                else:
                    return -1
                lasts[data[topic_at : topic_at + topic_bytes], queue_id] = physical
            at += size
    except (PackedError, IndexError):
        return -1
    return base + at
