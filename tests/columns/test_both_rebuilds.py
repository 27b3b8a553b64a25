"""Queues that the engine of the store and the distributed rebuild make of one log are equal, byte for byte, whatever it holds."""

from __future__ import annotations

import tempfile
from datetime import UTC
from pathlib import Path
from typing import NamedTuple

from hypothesis import example, given, settings
from hypothesis import strategies as some

from rmq_columns import parse_options
from rmq_columns.rebuild import work
from rmq_store.disk.disk import RealDisk
from rmq_store.recovery.rebuild import rebuild
from rmq_store.settings import StoreSettings
from rmq_wire import property_names as prop
from rmq_wire.implied.previous_queues import NOTHING_KNOWN
from rmq_wire.implied.queue_entries import GAP_MAX, OFFSET_END
from rmq_wire.message import pack_unit
from rmq_wire.message_id import pack_host
from rmq_wire.names import SCHEDULE_TOPIC
from rmq_wire.properties import encode
from rmq_wire.sys_flag import INNER_BATCH, TRANSACTION_COMMIT, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from tests.support.queue_files import files_of

HOST = pack_host("127.0.0.1", 10911)
STORED_MS = 1_700_000_000_000
LOG_FILE_BYTES = 1 << 16
BATCH = "Packed"
TOPICS = ("T", BATCH, SCHEDULE_TOPIC, "%RETRY%g", "%DLQ%g", "rmq_sys_x", "a/b", "", "%LMQ%a")
STEPS = (1, 1, 1, 1, 1, 2, 4)
"""To a message's queue offset from the one before it: more than 1 leaves a gap."""
LEAPS = (0, 1, 2, 4, -1, GAP_MAX * 2, OFFSET_END - 1, OFFSET_END)
"""Offsets that do not follow: those of a topic that was made again, and damage."""
LIGHT = ("", "%LMQ%a", "%LMQ%a,%LMQ%b", "%LMQ%b,x,%LMQ%b", "%LMQ%a/b,%LMQ%a")
IN_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None


class Stored(NamedTuple):
    """One message.  leap: its offset, if it is not the next one of its queue.  inner: INNER_NUM."""

    topic: int
    queue_id: int
    step: int
    leap: int | None
    kind: int
    tags: str
    level: str
    inner: str
    light: int
    light_offsets: tuple[int, ...]


ANY_OFFSET = some.one_of(some.none(), some.none(), some.none(), some.sampled_from(LEAPS))
FEW_OFFSETS = some.one_of(some.none(), some.integers(0, 12))
"""Most of them lead back into the midst of the queue."""


def some_messages(topics: list[str], leap: some.SearchStrategy[int | None]) -> some.SearchStrategy[list[Stored]]:
    one = some.builds(
        Stored,
        some.sampled_from([TOPICS.index(topic) for topic in topics]),
        some.sampled_from((0, 0, 1, -1) if topics == list(TOPICS) else (0,)),
        some.sampled_from(STEPS),
        leap,
        some.sampled_from((0, 0, 0, TRANSACTION_PREPARED, TRANSACTION_COMMIT, TRANSACTION_ROLLBACK)),
        some.sampled_from(("", "TagA", "標\U0001f600")),
        some.sampled_from(("", "1", "+2", "18", "99", "0", "-1", "99999999999", "x")),
        some.sampled_from(("", "1", "3", "10000", "32767", "32768", "-1", "x")),
        some.integers(0, len(LIGHT) - 1),
        some.lists(some.sampled_from((0, 1, 2, 3, 5, 9)), min_size=1, max_size=3).map(tuple),
    )
    return some.lists(one, min_size=1, max_size=40)


MESSAGES = some.one_of(
    some_messages(list(TOPICS), ANY_OFFSET), some_messages([BATCH], FEW_OFFSETS), some_messages(["T", "%LMQ%a"], FEW_OFFSETS)
)


def written(messages: list[Stored]) -> bytes:
    log = b""
    ends: dict[tuple[str, int], int] = {}
    for one in messages:
        topic = TOPICS[one.topic]
        is_inner = topic == BATCH and one.inner in ("1", "3", "10000")
        follows = ends.get((topic, one.queue_id), 0) + one.step - 1
        offset = follows if one.leap is None else one.leap
        ends[topic, one.queue_id] = max(offset, 0) + (int(one.inner) if is_inner else 1)
        pairs = {
            prop.TAGS: one.tags,
            prop.DELAY: one.level,
            prop.INNER_NUM: one.inner if topic == BATCH else "",
            prop.INNER_MULTI_DISPATCH: LIGHT[one.light],
            prop.INNER_MULTI_QUEUE_OFFSET: ",".join(map(str, one.light_offsets)) if one.light else "",
        }
        text = encode({name: value for name, value in pairs.items() if value}).encode()
        sys_flag = one.kind | (INNER_BATCH if is_inner or (one.inner and topic == BATCH) else 0)
        stored = STORED_MS + len(log)
        log += pack_unit(
            *(one.queue_id, 0, offset, len(log), sys_flag, stored, HOST, stored, HOST, 0, 0, b"body", topic.encode(), text)
        )
    return log


PACKED = Stored(TOPICS.index(BATCH), 0, 1, None, 0, "", "", "1", 0, (0,))


@settings(max_examples=500, deadline=None)
@given(MESSAGES, some.sampled_from((400, 3000, 1 << 20)))
@example([PACKED, PACKED, PACKED._replace(leap=1)], 100)  # what ends where another begins again stays
@example([PACKED, PACKED, PACKED, PACKED._replace(leap=1)], 1 << 20)  # and what is before it in the same split
def test_both_rebuilds_are_equal(messages: list[Stored], split_bytes: int) -> None:
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as directory:
        root = Path(directory, "store")
        (root / "commitlog").mkdir(parents=True)
        (root / "commitlog" / f"{0:020}").write_bytes(written(messages).ljust(LOG_FILE_BYTES, b"\0"))
        store_settings = StoreSettings(
            store_path_root_dir=str(root),
            mapped_file_size_commit_log=LOG_FILE_BYTES,
            mapped_file_size_consume_queue=200,
            mapper_file_size_batch_consume_queue=460,
            max_hash_slot_num=100,
            max_index_num=400,
            enable_lmq=True,
            enable_multi_dispatch=True,
            delay_levels_ms=(1000, 5000, 10_000),
        )
        rebuild(
            RealDisk(), store_settings, STORED_MS, zone=UTC, has_batch_queues=lambda topic: topic == BATCH, previous=NOTHING_KNOWN
        )
        to = Path(directory, "to")
        options = parse_options({"path": str(root), "splitBytes": split_bytes, "mode": "PERMISSIVE"})
        work.rebuild(options, str(to), levels="1s 5s 10s", batch_topics=[BATCH], queue_file_bytes=200)
        made, expected = files_of(to), files_of(root)
        assert made.keys() == expected.keys()
        for name, data in expected.items():
            assert made[name] == data, name
