"""The golden stores of formats that are off by default (`tests/java/golden_formats.py` makes them), as directories and drafts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from rmq_store.log.draft import Draft
from rmq_store.settings import StoreSettings
from rmq_store.store import Store
from rmq_wire.implied.index_keys import index_keys
from rmq_wire.implied.tags import tags_code
from rmq_wire.layout.message import MAGIC_BLANK
from rmq_wire.message import StoredMessage, read_size_and_magic, read_unit
from rmq_wire.properties import decode
from tests.support.golden import GOLDEN

LIGHT: Final = GOLDEN / "store-5.5.0-light"
BATCH: Final = GOLDEN / "store-5.5.0-batch"
LOG_FILE_BYTES: Final = 8192
SMALL_FILES = {
    "mappedFileSizeCommitLog": "8192",
    "mappedFileSizeConsumeQueue": "200",
    "mappedFileSizeConsumeQueueExt": "210",
    "mapperFileSizeBatchConsumeQueue": "460",
    "maxHashSlotNum": "100",
    "maxIndexNum": "400",
    "messageDelayLevel": "1s 5s",
}
LIGHT_PROPERTIES = {"enabledAppendPropCRC": "true", "enableLmq": "true", "enableMultiDispatch": "true"}
BATCH_PROPERTIES = {"enableConsumeQueueExt": "true"}
"""With what the real broker made them."""


@cache
def sizes(golden: Path) -> dict[str, int]:
    """Name in the store -> bytes of the whole file."""
    found: dict[str, int] = json.loads((golden / "sizes.json").read_text())
    return found


def files(golden: Path, *under: str) -> dict[str, bytes]:
    """Whole files of some directories of the store, by name."""
    return {
        name: (golden / name).read_bytes().ljust(size, b"\0")
        for name, size in sorted(sizes(golden).items())
        if name.startswith(tuple(f"{directory}/" for directory in under))
    }


def restore(golden: Path, to: Path, *under: str) -> Path:
    """Put these directories (or files) of the golden store into a directory, at full length."""
    for name, size in sizes(golden).items():
        if not under or name.startswith(under):
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            (to / name).write_bytes((golden / name).read_bytes().ljust(size, b"\0"))
    return to


def settings(root: Path, golden: Path, **changes: object) -> StoreSettings:
    """Of the broker that made it (SMALL_FILES there)."""
    values: dict[str, object] = {
        "store_path_root_dir": str(root),
        "mapped_file_size_commit_log": LOG_FILE_BYTES,
        "mapped_file_size_consume_queue": 200,
        "max_hash_slot_num": 100,
        "max_index_num": 400,
        "delay_levels_ms": (1000, 5000),
        "disk_space_warning_level_ratio": None,
    }
    if golden == LIGHT:
        values |= {"enabled_append_prop_crc": True, "enable_lmq": True, "enable_multi_dispatch": True}
        values |= {"store_path_commit_log": f"{root}/logs-a,{root}/logs-b"}
    else:
        values |= {
            "enable_consume_queue_ext": True,
            "mapped_file_size_consume_queue_ext": 210,
            "mapper_file_size_batch_consume_queue": 460,
        }
    return StoreSettings(**{**values, **changes})  # type: ignore[arg-type]


@cache
def units(golden: Path) -> tuple[StoredMessage, ...]:
    """Everything in the log, in order."""
    return tuple(_units(golden))


def _units(golden: Path) -> Iterator[StoredMessage]:
    for _, data in sorted((Path(name).name, data) for name, data in files(golden, "commitlog", "logs-a", "logs-b").items()):
        at = 0
        while at < len(data) and data[at : at + 4] != bytes(4):
            size, magic = read_size_and_magic(data, at)
            if magic != MAGIC_BLANK:
                yield read_unit(data, at)
            at += size


def draft_of(unit: StoredMessage, properties: bytes) -> Draft:
    """What a broker would have staged to get this unit."""
    values = decode(properties.decode())
    delay = 1000 * int(values["DELAY"]) if unit.topic == b"SCHEDULE_TOPIC_XXXX" else -1
    return Draft(
        unit.topic.decode(),
        unit.queue_id,
        bytes(unit.body),
        properties,
        unit.born_timestamp,
        unit.born_host,
        unit.store_host,
        unit.flag,
        unit.sys_flag,
        unit.reconsume_times,
        unit.prepared_transaction_offset,
        tags_code(values.get("TAGS")),
        index_keys(values.get("UNIQ_KEY"), values.get("KEYS"), values.get("TAGS")),
        delay,
    )


def in_queue(store: Store, topic: str, queue_id: int = 0) -> list[bytes]:
    """Bodies of a queue in order, read as a consumer does."""
    found: list[bytes] = []
    at, end = store.queue_bounds(topic, queue_id)
    while at < end:
        read = store.read_queue(topic, queue_id, at, 32, 1 << 20)
        assert read.message_count, read
        assert read.next_offset > at
        at = read.next_offset
        data = b"".join(read.chunks)
        while data:
            unit = read_unit(data)
            found.append(bytes(unit.body))
            data = data[unit.total_size :]
    return found
