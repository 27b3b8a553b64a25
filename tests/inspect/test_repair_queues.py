"""Queues of a repaired store are those that the engine of the store makes of the log: copies, inner batches, light queues."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from rmq_inspect.decode import queues
from rmq_inspect.decode.directory import list_store
from rmq_store.disk.disk import RealDisk
from rmq_store.log.draft import Draft
from rmq_store.store import Store
from rmq_wire import sys_flag as flags
from rmq_wire.properties import encode
from tests.support.command import look
from tests.support.queue_files import files_of
from tests.support.store_rig import HOST, START_MS, open_store, small
from tests.support.stores import SLOTS, spoil, units_of

LOG_FILE_BYTES = 8192
LIGHT = {"INNER_MULTI_DISPATCH": "%LMQ%a"}


def opened(root: Path) -> Store:
    settings = small(
        store_path_root_dir=str(root),
        mapped_file_size_commit_log=LOG_FILE_BYTES,
        max_hash_slot_num=SLOTS,
        enable_lmq=True,
        enable_multi_dispatch=True,
    )
    return open_store(settings, disk=RealDisk(), has_batch_queues=lambda topic: topic == "Packed")


def put(store: Store, topic: str, properties: dict[str, str], sys_flag: int = 0, body: bytes = b"x") -> None:
    text = encode(properties).encode()
    store.stage(Draft(topic, 0, body, text, START_MS, HOST, HOST, sys_flag=sys_flag), START_MS)
    store.commit()
    store.dispatch(START_MS)


def repaired(root: Path, *more: object) -> dict[str, Any]:
    shutil.rmtree(root.parent / "new", ignore_errors=True)
    seen = look("repair", root, "--to", root.parent / "new", "--json", *more)
    report: dict[str, Any] = json.loads(seen.out)
    return report


@pytest.mark.parametrize("topic", ["%RETRY%g", "%DLQ%g", "rmq_sys_wheel_timer", "SCHEDULE_TOPIC_XXXX"])
def test_a_copy_of_a_message_is_in_no_light_queue(tmp_path: Path, topic: str) -> None:
    """It keeps the properties of the original, the offset in the light queue, too."""
    store = opened(tmp_path / "old")
    for _ in range(3):
        put(store, "T", LIGHT)
    put(store, topic, {**LIGHT, "INNER_MULTI_QUEUE_OFFSET": "0"})
    assert store.close(START_MS)
    report = repaired(tmp_path / "old")
    assert (report["whole"], report["restarts"]) == (True, 0)
    assert len(list(queues.written(list_store(tmp_path / "new").queues["%LMQ%a", 0]))) == 3
    assert files_of(tmp_path / "new") == files_of(tmp_path / "old")


@pytest.mark.parametrize("count", [1, 9_999, 10_000, 32_767])
def test_inner_batches(tmp_path: Path, count: int) -> None:
    store = opened(tmp_path / "old")
    flag = flags.INNER_BATCH | flags.NEED_UNWRAP
    put(store, "Packed", {"INNER_NUM": "2"}, flag)
    put(store, "Packed", {"INNER_NUM": str(count)}, flag)
    put(store, "Packed", {})
    assert store.close(START_MS)
    (tmp_path / "old" / "config").mkdir()
    table = {"Packed": {"topicName": "Packed", "attributes": {"queue.type": "BatchCQ"}}}
    (tmp_path / "old" / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": table}))
    assert repaired(tmp_path / "old")["whole"]
    units = list(queues.batch_units(list_store(tmp_path / "new").batch_queues["Packed", 0]))
    assert [(one.base_offset, one.batch_size) for one in units if one.is_written] == [(0, 2), (2, count), (2 + count, 1)]
    assert files_of(tmp_path / "new") == files_of(tmp_path / "old")


def test_a_light_queue_keeps_its_offsets_where_messages_were_lost(tmp_path: Path) -> None:
    """The old queue knows them; without it the queue's messages stand together, as in the broker's own rebuild."""
    store = opened(tmp_path / "old")
    for _ in range(60):
        put(store, "T", LIGHT, body=b"x" * 200)
    assert store.close(START_MS)
    victim = units_of(tmp_path / "old")[40]
    spoil(tmp_path / "old" / victim.file.name, victim.at, bytes(60))
    report = repaired(tmp_path / "old")
    assert [(gap["topic"], gap["from"], gap["count"]) for gap in report["gaps"]] == [("T", 40, 1), ("%LMQ%a", 40, 1)]
    assert queues.bounds(list_store(tmp_path / "new").queues["%LMQ%a", 0]) == (0, 60)
    shutil.rmtree(tmp_path / "old" / "consumequeue" / "%LMQ%a")
    repaired(tmp_path / "old")
    assert queues.bounds(list_store(tmp_path / "new").queues["%LMQ%a", 0]) == (0, 59)


def test_many_queues_with_few_descriptors(tmp_path: Path) -> None:
    """A process may hold fewer files open than a store has queues."""
    resource = pytest.importorskip("resource")
    store = opened(tmp_path / "old")
    for number in range(300):
        put(store, f"T{number}", {})
    assert store.close(START_MS)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        report = repaired(tmp_path / "old")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert (report["whole"], report["queues"], report["queue_units"]) == (True, 300, 300)
    assert files_of(tmp_path / "new") == files_of(tmp_path / "old")


def test_what_no_queue_can_hold_is_said_of_messages_that_would_be_in_one(tmp_path: Path) -> None:
    store = opened(tmp_path / "old")
    for sys_flag in (0, flags.TRANSACTION_PREPARED):
        put(store, "Strange", {}, sys_flag)
        put(store, "T", {})
    assert store.close(START_MS)
    strange = [unit for unit in units_of(tmp_path / "old") if unit.message.topic == b"Strange"]
    for unit in strange:
        path = tmp_path / "old" / unit.file.name
        at = path.read_bytes().index(b"\x07Strange", unit.at)
        spoil(path, at + 1, b"\xff\xfe\xfd\xfc\xfb\xfa\xf9")
    report = repaired(tmp_path / "old")
    assert [one["offset"] for one in report["unqueued"]] == [strange[0].message.physical_offset]
    assert "cannot be the name of a directory" in report["unqueued"][0]["why"]
    assert queues.bounds(list_store(tmp_path / "new").queues["T", 0]) == (0, 2)


def test_a_message_that_names_a_place_of_another_one_is_in_its_other_queues(tmp_path: Path) -> None:
    """Its place in one light queue is damage: that queue lacks it, and no other does."""
    store = opened(tmp_path / "old")
    for _ in range(6):
        put(store, "T", {"INNER_MULTI_DISPATCH": "%LMQ%a,%LMQ%b"})
    assert store.close(START_MS)
    units = units_of(tmp_path / "old")
    path = tmp_path / "old" / units[3].file.name
    said = b"INNER_MULTI_QUEUE_OFFSET\x013,3"
    spoil(path, path.read_bytes().index(said, units[3].at), said[:-3] + b"1,3")
    report = repaired(tmp_path / "old")
    assert [one["offset"] for one in report["unqueued"]] == [units[3].message.physical_offset]
    assert report["restarts"] == 0
    assert "%LMQ%a [0] @1, where the queue has another message" in report["unqueued"][0]["why"]
    places = [unit.message.physical_offset for unit in units]
    found = list_store(tmp_path / "new").queues
    assert [one.physical_offset for one in queues.written(found["%LMQ%b", 0])] == places
    assert [one.physical_offset for one in queues.written(found["T", 0])] == places
    bridged = [*places[:3], places[4], *places[4:]]
    assert [one.physical_offset for one in queues.written(found["%LMQ%a", 0])] == bridged
