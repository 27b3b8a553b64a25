"""Staging messages that are more than an append: light queues, inner batches, check sums over whole units.

Everything here changes the properties and then stages as usual; nothing of it lies on the way of a plain message.  What a unit
takes besides its own place (more offsets, places in light queues) is noted in its `Staged`, which gives it back on a rollback
and hands it to the dispatch.  `restore` reads the same out of a stored unit, for recovery.
(Java: LmqDispatch, BatchConsumeQueue.assignQueueOffset, CommitLog.DefaultAppendMessageCallback)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from rmq_store.errors import Illegal, IllegalKind
from rmq_store.log.commit_log import CommitLog
from rmq_store.log.draft import Draft
from rmq_store.log.staging import Staged, with_seal_place
from rmq_store.queues.consume_queue import ConsumeQueue
from rmq_store.queues.queues import Queues
from rmq_store.settings import StoreSettings
from rmq_wire import names
from rmq_wire import property_names as prop
from rmq_wire.implied.inner_batch import inner_count, message_count
from rmq_wire.implied.light_queues import QUEUE_ID as LIGHT_QUEUE_ID
from rmq_wire.implied.light_queues import SEPARATOR, is_own, light_names, light_places, light_queues_among
from rmq_wire.implied.queue_entries import UNQUEUED
from rmq_wire.properties import decode, encode_java
from rmq_wire.sys_flag import INNER_BATCH

NO_OFFSET: Final = "0"
"""Written for a light queue that cannot have a directory: it has no entries."""


class PropertyStaging:
    """`is_always`: every message comes here, since the configuration asks something of every one."""

    def __init__(self, settings: StoreSettings, log: CommitLog, queues: Queues) -> None:
        self._log = log
        self._queues = queues
        self._seals = settings.enabled_append_prop_crc
        self._has_light = settings.enable_lmq
        self._dispatches = settings.enable_lmq and settings.enable_multi_dispatch
        self._light_max = settings.max_lmq_consume_queue_num
        self._light_count: int | None = None
        self.is_always = self._seals or self._has_light

    def stage(self, draft: Draft, queue: ConsumeQueue, wall_ms: int) -> Staged:
        """As `CommitLog.stage`. Raises Illegal."""
        properties = draft.properties
        count = 1
        light: list[tuple[ConsumeQueue, int]] = []
        if queue.is_batch and draft.sys_flag & INNER_BATCH:
            count = counted(properties)
            values = decode(properties.decode("utf-8", "replace"))
            values[prop.INNER_BASE] = str(queue.next_offset)
            properties = encode_java(values)
        elif self._has_light and not draft.sys_flag & UNQUEUED:
            found = light_names(draft.topic, properties)
            if found:
                named = [(name, self._light_queue(name)) for name in light_queues_among(found)]
                light = [(lit, lit.next_offset) for name, lit in named if not is_own(name, draft.topic, draft.queue_id)]
                offsets = {name: str(lit.next_offset) for name, lit in named}
                texts = [offsets.get(name, _offset_of_none(name)) for name in found]
                properties = with_offsets(properties, texts)
        if self._seals:
            properties = with_seal_place(properties)
        staged = self._log.stage(replace(draft, properties=properties), queue, wall_ms)
        if count > 1:
            staged.count = count
            queue.next_offset += count - 1
        if light:
            for lit, _ in light:
                lit.next_offset += 1
            if self._dispatches:
                staged.light = tuple(light)
            else:
                staged.undone = tuple(light)
        if self._seals:
            self._log.seal()
        return staged

    def restore(self, staged: Staged, properties: bytes) -> None:
        """Complete what a stored unit takes besides its place."""
        if staged.queue.is_batch and staged.sys_flag & INNER_BATCH:
            staged.count = message_count(staged.sys_flag, properties)
        elif self._dispatches and not staged.sys_flag & UNQUEUED:
            said = light_places(staged.queue.topic, staged.queue.queue_id, properties)
            staged.light = tuple((self._queues.get(name, LIGHT_QUEUE_ID), offset) for name, offset in said.items())

    def _light_queue(self, name: str) -> ConsumeQueue:
        """The light queue, made in memory when there is room for one more. Raises Illegal."""
        queue = self._queues.find(name, LIGHT_QUEUE_ID)
        if queue is not None:
            return queue
        if self._light_count is None or self._light_count >= self._light_max:
            self._light_count = sum(topic.startswith(names.LMQ_PREFIX) for topic in self._queues.topics())
        if self._light_count >= self._light_max:
            raise Illegal(IllegalKind.LIGHT_QUEUES, f"there are {self._light_count} light queues, {self._light_max} are allowed")
        self._light_count += 1
        return self._queues.get(name, LIGHT_QUEUE_ID)


def counted(properties: bytes) -> int:
    """Messages in an inner batch. Raises Illegal."""
    count = inner_count(properties)
    if count is None:
        raise Illegal(IllegalKind.MESSAGE, "an inner batch that does not say how many messages it has")
    return count


def with_offsets(properties: bytes, offsets: Sequence[str]) -> bytes:
    """The properties with these offsets in light queues written into them, in Java's order."""
    values = decode(properties.decode("utf-8", "replace"))
    values[prop.INNER_MULTI_QUEUE_OFFSET] = SEPARATOR.join(offsets)
    return encode_java(values)


def _offset_of_none(name: str) -> str:
    """What stands for a name that has no queue: nothing when it is no light queue (as in Java)."""
    return NO_OFFSET if names.is_lmq(name) else ""
