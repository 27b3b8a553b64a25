"""From the log to the queues: when units show, how many at a time, and what a failure leaves to be done again."""

from __future__ import annotations

import errno

from rmq_store.errors import Closed
from rmq_wire import sys_flag
from rmq_wire.java import string_hash
from rmq_wire.message import read_unit
from tests.support.memory_disk import Fault, MemoryDisk
from tests.support.store_rig import START_MS, Rig, draft, number_of, sync_settings


def test_a_failed_dispatch_is_repeated_and_reports_everything() -> None:
    disk = MemoryDisk()
    rig = Rig(disk)
    disk.faults = [Fault("write", error=errno.ENOSPC, path_part="/consumequeue/TopicA/1/")]
    for number, queue_id in enumerate((0, 1, 2)):
        rig.store.stage(draft(number, queue_id=queue_id), START_MS)
    rig.store.commit()
    assert rig.store.dispatch(START_MS) == []
    assert rig.store.undispatched == 3
    assert rig.store.refusal is Closed.DISK_FULL
    arrived = rig.store.dispatch(START_MS)
    assert sorted((one.queue_id, one.next_queue_offset, one.tags_codes) for one in arrived) == [
        (0, 1, [string_hash("Tag0")]),
        (1, 1, [string_hash("Tag1")]),
        (2, 1, [string_hash("Tag2")]),
    ]
    assert [rig.numbers(queue_id=queue_id) for queue_id in (0, 1, 2)] == [[0], [1], [2]]
    assert rig.store.undispatched == 0
    assert len(rig.store.query("TopicA", "shared", 64, 0, 1 << 60).units) == 3
    rig.wait(2000)
    rig.wait(2000)
    assert rig.store.refusal is None


def test_dispatch_in_portions() -> None:
    rig = Rig()
    for number in range(10):
        rig.store.stage(draft(number), START_MS)
    rig.store.commit()
    seen = []
    while rig.store.undispatched:
        seen.append([one.next_queue_offset for one in rig.store.dispatch(START_MS, 4)])
    assert seen == [[4], [8], [10]]
    assert rig.numbers() == list(range(10))


def test_dispatch_of_no_more_keys_than_wanted() -> None:
    rig = Rig()
    for number, keys in enumerate((1, 2, 3, 50, 1, 1)):
        rig.store.stage(draft(number, keys=tuple(f"key-{key}-{'of-some-length' * 4}" for key in range(keys))), START_MS)
    rig.store.commit()
    seen = []
    while rig.store.undispatched:
        seen.append([one.next_queue_offset for one in rig.store.dispatch(START_MS, 100, 4)])
    assert seen == [[2], [3], [4], [6]]
    assert rig.numbers() == list(range(6))


def test_units_of_transactions_that_no_queue_gets() -> None:
    rig = Rig()
    rig.put(draft(0))
    prepared = rig.store.stage(draft(1, sys_flag=sys_flag.TRANSACTION_PREPARED), START_MS)
    rollback = rig.store.stage(draft(2, sys_flag=sys_flag.TRANSACTION_ROLLBACK), START_MS)
    commit = rig.store.stage(draft(3, sys_flag=sys_flag.TRANSACTION_COMMIT), START_MS)
    rig.store.commit()
    rig.store.dispatch(START_MS)
    assert [one.queue_offset for one in (prepared, rollback, commit)] == [0, 0, 1]
    assert rig.numbers() == [0, 3]
    found = rig.store.query("TopicA", "shared", 64, 0, 1 << 60).units
    assert [number_of(read_unit(unit).body) for unit in found] == [0, 1, 3]


def test_delay_levels_put_the_due_time_into_the_queue() -> None:
    rig = Rig()
    rig.store.stage(draft(1, "SCHEDULE_TOPIC_XXXX", 2, deliver_delay_ms=10_000), START_MS)
    rig.store.commit()
    [arrived] = rig.store.dispatch(START_MS)
    assert arrived.tags_codes == [START_MS + 10_000]


def test_sync_flush_shows_only_what_is_flushed() -> None:
    rig = Rig(settings=sync_settings())
    rig.put(draft(1))
    assert rig.arrived == []
    assert rig.store.queue_bounds("TopicA", 0) == (0, 0)
    ticket = rig.store.begin_sync(0, True)
    assert ticket is not None
    rig.put(draft(2))
    ticket.run()
    rig.store.end_sync(ticket, None)
    assert [one.next_queue_offset for one in rig.store.dispatch(START_MS)] == [1]
    assert rig.store.undispatched == 1
    assert rig.numbers() == [1]
    rig.sync()
    rig.store.dispatch(START_MS)
    assert rig.numbers() == [1, 2]


def test_a_shift_is_an_error() -> None:
    """#7355: a queue that is behind its log must not get the next message in the wrong place."""
    rig = Rig()
    rig.put(draft(1))
    [queue] = rig.store._queues
    queue.next_offset += 1
    rig.store.stage(draft(2), START_MS)
    rig.store.commit()
    assert rig.store.dispatch(START_MS) == []
    assert rig.store.refusal is Closed.FENCED
    assert "a queue has no gap: /store/consumequeue/TopicA/0 ends at 1, the next message has 2" in rig.store.refusal_text
    assert rig.store.queue_bounds("TopicA", 0) == (0, 1)
