"""Messages that enter the log together, one behind the other, or not at all.

They are packed beside the log, one by one and as slowly as whoever brings them likes, at places that count from zero; others
append meanwhile.  Then `CommitLog.stage_batch` puts them in place, all in one step that does nothing but add numbers.
(Java: MessageExtEncoder.encode(MessageExtBatch), CommitLog.DefaultAppendMessageCallback.doAppend of a batch)
"""

from __future__ import annotations

import sys
from itertools import islice
from typing import Final, cast

from rmq_store.errors import Illegal, IllegalKind
from rmq_store.layouts import BORN_V6, FIXED, HEAD, STORE_V6
from rmq_store.log.draft import Draft
from rmq_store.log.staging import Staged, Staging, seal_of, with_seal_place
from rmq_store.queues.consume_queue import ConsumeQueue
from rmq_wire.implied.queue_entries import UNQUEUED
from rmq_wire.message import SEAL_BYTES

UNITS_MAX: Final = 57_344
"""Put in place at once, and written: 48 ms.  The longest body of stock clients' messages has some 55,000."""
SEALED_MAX: Final = 12_288
"""The same where each unit carries its check sum."""
IMAGE_BYTES: Final = 64 << 10
_HOST_BITS: Final = BORN_V6 | STORE_V6
_PLACE: Final = HEAD.run("queue_offset", "physical_offset")
_PLACE_AT: Final = HEAD.at["queue_offset"]
_TIMES: Final = {bits: layout.field("store_timestamp") for bits, layout in FIXED.items()}
_TIMES_AT: Final = {bits: layout.at["store_timestamp"] for bits, layout in FIXED.items()}


class _Row:
    """What staging asks of a queue, for one that does not count yet."""

    __slots__ = ("magic", "next_offset", "topic_field", "topic_field_bytes")

    def __init__(self, queue: ConsumeQueue) -> None:
        self.magic = queue.magic
        self.topic_field = queue.topic_field
        self.topic_field_bytes = queue.topic_field_bytes
        self.next_offset = 0


class Batch(Staging):
    """Made by `Store.open_batch`.  `seals`: each unit keeps a place for its check sum, known when it is in its place."""

    def __init__(self, unit_bytes_max: int, body_bytes_max: int, queue: ConsumeQueue, *, seals: bool) -> None:
        super().__init__(unit_bytes_max, body_bytes_max)
        self._room = sys.maxsize
        self._queue = queue
        self._row = _Row(queue)
        self._seals = seals
        self._images: list[bytearray] = []
        """As they will lie in the log, many units each: what lies together is quick to go through."""
        self._counts: list[int] = []
        """Units of each image."""

    @property
    def topic(self) -> str:
        return self._queue.topic

    @property
    def queue_id(self) -> int:
        return self._queue.queue_id

    @property
    def size(self) -> int:
        """Bytes of all units."""
        return self._end

    def __len__(self) -> int:
        return len(self.staged)

    @property
    def units_max(self) -> int:
        """How many there may be."""
        return SEALED_MAX if self._seals else UNITS_MAX

    def add(self, draft: Draft) -> None:
        """Pack one more. Raises Illegal."""
        if draft.sys_flag & UNQUEUED:
            raise Illegal(IllegalKind.MESSAGE, "a batch has no part in a transaction")
        if len(self.staged) >= self.units_max:
            raise Illegal(IllegalKind.MESSAGE, f"more than {self.units_max} messages in a batch")
        if self._seals:
            draft.properties = with_seal_place(draft.properties)
        staged = self.stage(draft, cast(ConsumeQueue, self._row), 0)
        if (staged.sys_flag ^ self.staged[0].sys_flag) & _HOST_BITS:
            raise Illegal(IllegalKind.MESSAGE, "a batch comes from one host")
        staged.queue = self._queue
        if not self._images or len(self._images[-1]) >= IMAGE_BYTES:
            self._images.append(bytearray())
            self._counts.append(0)
        self._images[-1] += b"".join(self._pieces)
        self._counts[-1] += 1
        self._pieces.clear()

    def place(self, at: int, queue: ConsumeQueue, wall_ms: int) -> tuple[list[bytearray], list[Staged]]:
        """All units as they are from this log position and at this queue's end.  Once: what is returned is the batch's own."""
        if queue is not self._queue:  # its topic was deleted meanwhile, and made again
            for staged in self.staged:
                staged.queue = queue
        hosts = self.staged[0].sys_flag & _HOST_BITS
        time, time_at = _TIMES[hosts].pack(wall_ms), _TIMES_AT[hosts]
        time_bytes = len(time)
        pack = _PLACE.pack_into
        offset = queue.next_offset
        units = iter(self.staged)
        for image, count in zip(self._images, self._counts, strict=True):
            begin = 0
            for staged in islice(units, count):
                pack(image, begin + _PLACE_AT, offset, at)
                time_begin = begin + time_at
                image[time_begin : time_begin + time_bytes] = time
                staged.physical_offset = at
                staged.queue_offset = offset
                staged.store_timestamp = wall_ms
                size = staged.size
                begin += size
                at += size
                offset += 1
                staged.end_offset = at
                if self._seals:
                    view = memoryview(image)[begin - size : begin]
                    view[-SEAL_BYTES:] = seal_of((view[:-SEAL_BYTES],))
        return self._images, self.staged
