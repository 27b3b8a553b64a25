"""Appends what a log holds through our store again, each message at its time, so that the two logs can be compared.

A roll is decided by what is appended at once: where a message went to the next file although there was room for it, the messages
from there on were one batch, and are appended as one.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rmq_store.log.draft import NO_DELAY, Draft
from rmq_store.settings import StoreSettings
from rmq_wire import properties
from rmq_wire.implied.tags import tags_code
from rmq_wire.message import TAIL_MIN
from tests.support.store_rig import open_store, stage_batch
from tests.support.store_view import SCHEDULE, Shape, Stored

HOST_BITS = 0x30
"""Of a sysFlag: the store sets them itself."""


def store_settings(root: Path, shape: Shape) -> StoreSettings:
    """Our store as a broker with this configuration would open it."""
    return StoreSettings(
        store_path_root_dir=str(root),
        mapped_file_size_commit_log=shape.log_file_bytes,
        mapped_file_size_consume_queue=shape.queue_file_bytes,
        max_hash_slot_num=shape.hash_slots,
        max_index_num=shape.index_num,
        delay_levels_ms=shape.delays_ms,
        disk_space_warning_level_ratio=None,
    )


def draft_of(stored: Stored, delays_ms: Sequence[int]) -> Draft:
    """What must have been appended to make this unit."""
    unit = stored.unit
    values = properties.decode(unit.properties.decode())
    level = int(values.get("DELAY", 0)) if stored.topic == SCHEDULE else 0
    return Draft(
        stored.topic,
        unit.queue_id,
        unit.body,
        unit.properties,
        unit.born_timestamp,
        unit.born_host,
        unit.store_host,
        unit.flag,
        unit.sys_flag & ~HOST_BITS,
        unit.reconsume_times,
        unit.prepared_transaction_offset,
        tags_code(values.get("TAGS")),
        stored.keys,
        delays_ms[min(level, len(delays_ms)) - 1] if level > 0 else NO_DELAY,
    )


def groups(units: Sequence[Stored], log_file_bytes: int) -> list[list[Stored]]:
    """What was appended at once, as far as it shows in the places."""
    found: list[list[Stored]] = []
    at = 0
    while at < len(units):
        place = units[at].unit.physical_offset
        end = units[at - 1].unit.physical_offset + len(units[at - 1].data) if at else 0
        count = 1
        if place != end:  # the file was left with so much room
            room = log_file_bytes - end % log_file_bytes
            while sum(len(one.data) for one in units[at : at + count]) + TAIL_MIN <= room:
                count += 1
        found.append(list(units[at : at + count]))
        at += count
    return found


def append_again(root: Path, shape: Shape, units: Sequence[Stored]) -> None:
    """A new store with these messages, appended at their store times, dispatched after each, and closed."""
    first = units[0].unit.store_timestamp
    store = open_store(store_settings(root, shape), first)
    try:
        now = first
        for group in groups(units, shape.log_file_bytes):
            now = group[0].unit.store_timestamp
            if not group[0].unit.queue_offset and store.queue_bounds(group[0].topic, group[0].unit.queue_id)[1]:
                store.delete_topics([group[0].topic])  # its queue begins anew
            drafts = [draft_of(one, shape.delays_ms) for one in group]
            placed = stage_batch(store, drafts, now) if len(drafts) > 1 else [store.stage(drafts[0], now)]
            store.commit()
            store.dispatch(now)
            for one, place in zip(group, placed, strict=True):
                assert place.physical_offset == one.unit.physical_offset, f"{one.unit} was placed at {place}"
    finally:
        assert store.close(now)
