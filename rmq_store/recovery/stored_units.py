"""Stored units as their staging left them: what recovery hands to the dispatch and to the index."""

from __future__ import annotations

import contextlib

from rmq_store.errors import Illegal
from rmq_store.log.property_staging import PropertyStaging
from rmq_store.log.staging import Staged
from rmq_store.queues.consume_queue import ConsumeQueue
from rmq_store.queues.queues import Queues
from rmq_store.settings import StoreSettings
from rmq_wire import property_names as prop
from rmq_wire.implied.delay_levels import due_time
from rmq_wire.implied.index_keys import index_keys
from rmq_wire.implied.previous_queues import Place, PreviousQueues
from rmq_wire.implied.queue_entries import OFFSET_END, UNQUEUED
from rmq_wire.implied.tags import stored_tags_code, tags_code
from rmq_wire.message import StoredMessage
from rmq_wire.names import SCHEDULE_TOPIC
from rmq_wire.properties import decode


class StoredUnits:
    """For one opening: a unit's queue is looked up once."""

    def __init__(self, settings: StoreSettings, queues: Queues, staging: PropertyStaging, previous: PreviousQueues) -> None:
        self._delay_levels_ms = settings.delay_levels_ms
        self._queues = queues
        self._staging = staging
        self._previous = previous
        self._queues_of_units: dict[tuple[bytes, int], ConsumeQueue | None] = {}

    def staged(self, units: list[StoredMessage], *, with_keys: bool, with_places: bool = False) -> list[Staged]:
        """What the units' staging would have left for the dispatch, without units that no queue can hold.

        `with_keys`: what the index wants, and costs most. `with_places`: places in queues beside the one that each unit names.
        """
        found: list[Staged] = []
        queues, levels, is_always = self._queues_of_units, self._delay_levels_ms, self._staging.is_always
        for unit in units:
            try:
                queue = queues[unit.topic, unit.queue_id]
            except KeyError:
                queue = self._queue_of(unit.topic, unit.queue_id)
            if queue is None:
                continue
            if not (0 <= unit.queue_offset < OFFSET_END or unit.sys_flag & UNQUEUED):
                continue
            keys: tuple[str, ...] = ()
            if with_keys:  # one look at all properties serves both
                values = decode(unit.properties.decode("utf-8", "replace"))
                tags = values.get(prop.TAGS)
                code, keys = tags_code(tags), index_keys(values.get(prop.UNIQ_KEY), values.get(prop.KEYS), tags)
            else:
                code = stored_tags_code(unit.properties)
            at, size = unit.physical_offset, unit.total_size
            if with_places and queue.topic == SCHEDULE_TOPIC:
                place = Place(queue.topic, queue.queue_id, unit.queue_offset, at, size)
                due = due_time(unit.properties, unit.store_timestamp, levels)
                code = self._previous.due_time(place, unit.store_timestamp) or (code if due is None else due)
            staged = Staged(at, unit.queue_offset, size, at + size, queue, unit.sys_flag, unit.store_timestamp, code, keys)
            if with_places and (is_always or queue.is_batch):
                self._staging.restore(staged, unit.properties)
            found.append(staged)
        return found

    def _queue_of(self, topic: bytes, queue_id: int) -> ConsumeQueue | None:
        """A unit's queue; None when its topic cannot be a directory."""
        queue = None
        with contextlib.suppress(UnicodeDecodeError, Illegal):
            queue = self._queues.get(topic.decode(), queue_id)
        self._queues_of_units[topic, queue_id] = queue
        return queue
