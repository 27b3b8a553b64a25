"""Queues from the log against our broker's own dispatch: any messages, topics made again, a log without its beginning.

The broker builds its queues anew from the same log, so both have nothing else to go by.
"""

from __future__ import annotations

import shutil
import tempfile
from datetime import UTC
from pathlib import Path
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as some

from rmq_columns import parse_options
from rmq_columns.rebuild.work import rebuild
from rmq_store.log.draft import Draft
from rmq_store.settings import StoreSettings
from rmq_store.store import Store
from rmq_wire import sys_flag as flags
from rmq_wire.implied.tags import tags_code
from tests.support.queue_files import files_of
from tests.support.store_rig import HOST, HOST_V6, START_MS, open_store, small

BATCH = "Packed"
DELAYED = "SCHEDULE_TOPIC_XXXX"
TOPICS = ("Plain", BATCH, DELAYED, "%RETRY%" + "g" * 140, "%LMQ%own")
TAGS = (None, "TagA", "Ärger", "x" * 300, "標\U0001f600", "a||b")
LIGHT = (None, "%LMQ%a", "%LMQ%a,%LMQ%b", "%LMQ%b,plain,%LMQ%own")
DELETED = -1
"""In the place of a topic's number: it is deleted."""


IN_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""The broker syncs what it writes, which is not what is tested."""


class Sent(NamedTuple):
    """One message."""

    topic: int
    queue_id: int
    tags: int
    light: int
    level: int
    inner: int
    """messages in a batch, 0 for none"""
    kind: int
    """transaction type"""
    is_v6: bool
    body_bytes: int


MESSAGES = some.lists(
    some.builds(
        Sent,
        some.integers(DELETED, len(TOPICS) - 1),
        some.integers(0, 2),
        some.integers(0, len(TAGS) - 1),
        some.integers(0, len(LIGHT) - 1),
        some.integers(0, 3),
        some.integers(0, 4),
        some.sampled_from((0, 0, 0, flags.TRANSACTION_PREPARED, flags.TRANSACTION_COMMIT, flags.TRANSACTION_ROLLBACK)),
        some.booleans(),
        some.sampled_from((0, 10, 700)),
    ),
    min_size=1,
    max_size=60,
)


def draft_of(one: Sent) -> Draft:
    topic = TOPICS[one.topic]
    tags = TAGS[one.tags]
    pairs = [b"KEYS\x01k"]
    sys_flag, delay = one.kind, -1
    if tags is not None:
        pairs.append(b"TAGS\x01" + tags.encode())
    if topic == DELAYED and one.level:
        pairs.append(b"DELAY\x01%d" % one.level)
        delay = (1000, 5000, 10_000)[one.level - 1]
    light = LIGHT[one.light]
    if light is not None:
        pairs.append(b"INNER_MULTI_DISPATCH\x01" + light.encode())
    # a prepared inner batch would be one of the half topic, which has no batch queues
    if topic == BATCH and one.inner and not one.kind & flags.TRANSACTION_PREPARED:
        pairs.append(b"INNER_NUM\x01%d" % one.inner)
        sys_flag |= flags.INNER_BATCH | flags.NEED_UNWRAP
    host = HOST_V6 if one.is_v6 else HOST
    return Draft(
        topic,
        one.queue_id,
        b"b" * one.body_bytes,
        b"\x02".join(pairs) + b"\x02",
        START_MS,
        host,
        HOST,
        sys_flag=sys_flag,
        tags_code=tags_code(tags),
        deliver_delay_ms=delay,
    )


def is_batch(topic: str) -> bool:
    return topic == BATCH


def opened(store_settings: StoreSettings) -> Store:
    return open_store(store_settings, zone=UTC, has_batch_queues=is_batch)


def write(store_settings: StoreSettings, messages: list[Sent]) -> None:
    store = opened(store_settings)
    for number, one in enumerate(messages):
        if one.topic == DELETED:
            store.delete_topics([TOPICS[one.queue_id % len(TOPICS)]])
            continue
        store.stage(draft_of(one), START_MS + number)
        store.commit()
        store.dispatch(START_MS + number)
    assert store.close(START_MS + len(messages))


def write_again(root: Path, store_settings: StoreSettings) -> None:
    """The broker makes all queues from the log."""
    for tree in ("consumequeue", "batchconsumequeue", "consumequeue_ext", "index"):
        shutil.rmtree(root / tree, ignore_errors=True)
    (root / "checkpoint").unlink(missing_ok=True)
    (root / "abort").touch()
    assert opened(store_settings).close(START_MS)


@settings(max_examples=40)
@given(MESSAGES, some.booleans(), some.integers(0, 3), some.sampled_from((500, 3000, 1 << 20)))
def test_as_our_broker_makes_them(messages: list[Sent], has_extensions: bool, files_lost: int, split_bytes: int) -> None:
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as directory:
        root = Path(directory, "store")
        store_settings = small(
            store_path_root_dir=str(root),
            mapped_file_size_commit_log=8192,
            enable_lmq=True,
            enable_multi_dispatch=True,
            enable_consume_queue_ext=has_extensions,
            mapped_file_size_consume_queue_ext=64,
            max_message_size=4096,
        )
        write(store_settings, messages)
        for file in sorted((root / "commitlog").iterdir())[:files_lost][:-1]:
            file.unlink()
        write_again(root, store_settings)
        options = parse_options({"path": str(root), "splitBytes": split_bytes})
        rebuild(options, str(Path(directory, "to")), levels="1s 5s 10s", batch_topics=[BATCH], queue_file_bytes=200)
        made, old = files_of(Path(directory, "to")), files_of(root)
        assert made.keys() == old.keys()
        for name, data in old.items():
            assert made[name] == data, name
