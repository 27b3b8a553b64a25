"""A store in which every second message has the same key, topic and queue; its queues, and ledgers of what was sent."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from rmq_columns.decode.dtypes import QUEUE_UNIT
from rmq_wire.message import pack_blank, pack_unit
from tests.support.logs import BLANK_BYTES, HOST

EVEN: Final = {"spark.sql.shuffle.partitions": "8", "spark.sql.adaptive.coalescePartitions.enabled": "false"}
"""Spark would give so few rows to one task."""
TIMES_MAX: Final = 3
"""The median's records."""
MESSAGES: Final = 30_000
FILE_BYTES: Final = 2 << 20
QUEUE_FILE_UNITS: Final = 20_000
TOPICS, QUEUES, KEYS = 20, 8, 5000
"""Of the other half of the messages."""
FIRST_MS: Final = 1_700_000_000_000


def write_uneven(root: Path) -> None:
    """Each key is in its queue, and its sequence (the property n) goes up; each message has its own unique key.

    root gets store, `sent.jsonl` with what was sent, and `keys.jsonl` with topics and unique keys alone.
    """
    log, offsets = bytearray(), dict[tuple[str, int], int]()
    units: dict[tuple[str, int], list[tuple[int, int, int]]] = {}
    sent = []
    for number in range(MESSAGES):
        other = number // 2 % KEYS
        topic, queue, key = ("hot", 0, "hot") if number % 2 else (f"t{other % TOPICS}", other // TOPICS % QUEUES, f"key-{other}")
        place = (topic, queue)
        at, unique = offsets.get(place, 0), f"{number:032X}"
        pairs = f"__SHARDINGKEY\x01{key}\x02KEYS\x01{key}\x02n\x01{number}\x02UNIQ_KEY\x01{unique}\x02".encode()
        one = _packed(place, at, len(log), number, pairs)
        left = FILE_BYTES - len(log) % FILE_BYTES
        if len(one) + BLANK_BYTES > left:
            log += pack_blank(left).ljust(left, b"\0")
            one = _packed(place, at, len(log), number, pairs)
        units.setdefault(place, []).append((len(log), len(one), 0))
        sent.append({"topic": topic, "queueId": queue, "queueOffset": at, "uniqKey": unique})
        offsets[place] = at + 1
        log += one
    _write(root / "store", log, units)
    (root / "sent.jsonl").write_text("".join(json.dumps(row) + "\n" for row in sent))
    bare = [{"topic": row["topic"], "uniqKey": row["uniqKey"]} for row in sent]
    (root / "keys.jsonl").write_text("".join(json.dumps(row) + "\n" for row in bare))


def _packed(place: tuple[str, int], queue_offset: int, at: int, number: int, pairs: bytes) -> bytes:
    ms = FIRST_MS + number
    return pack_unit(place[1], 0, queue_offset, at, 0, ms, HOST, ms, HOST, 0, 0, b"body", place[0].encode(), pairs)


def _write(store: Path, log: bytes, units: dict[tuple[str, int], list[tuple[int, int, int]]]) -> None:
    (store / "commitlog").mkdir(parents=True)
    for at in range(0, len(log), FILE_BYTES):
        (store / "commitlog" / f"{at:020}").write_bytes(log[at : at + FILE_BYTES].ljust(FILE_BYTES, b"\0"))
    for (topic, queue), rows in units.items():
        directory = store / "consumequeue" / topic / str(queue)
        directory.mkdir(parents=True)
        made = np.zeros(QUEUE_FILE_UNITS, QUEUE_UNIT)
        made[: len(rows)] = rows
        (directory / f"{0:020}").write_bytes(made.tobytes())


def busy(counts: Sequence[int], least: int = 100) -> list[int]:
    """Of a stage's tasks those that have a part of the messages: others only hand on what was found, or what is cached."""
    return [count for count in counts if count >= least]
