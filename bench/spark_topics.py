"""A clean store of many topics for `make bench-spark`: what a job does for each topic or queue shows where there are 50,000.

All units have one size, so a slice of the log is one array in which a few fields are set; a queue's file takes some hundred
units.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np

from bench.spark_rows import BODY_BYTES, Made
from planted_stores.plan import FIRST_MS, UNITS_A_MS
from rmq_columns.decode.dtypes import QUEUE_UNIT
from rmq_wire.fastjson import dumps_pretty
from rmq_wire.implied.tags import tags_code
from rmq_wire.layout import checkpoint
from rmq_wire.layout.message import BLANK_FLAT, FIXED
from rmq_wire.message import TAIL_MIN, pack_blank, pack_unit
from rmq_wire.message_id import pack_host
from rmq_wire.store_names import CHECKPOINT, COMMIT_LOG, CONFIG, QUEUES, offset_name

TOPICS: Final = 50_000
LOG_FILE_BYTES: Final = 1 << 30
QUEUE_FILE_UNITS: Final = 256
DIGITS: Final = 32
"""Of a unique key: the message's number."""
SLICE: Final = 1 << 15
STEP: Final = 7919
"""Of topics from a message to the next; prime, so that all come in turn."""
HOST: Final = pack_host("127.0.0.1", 10911)
READ_WRITE: Final = 6


def topic_name(number: int) -> str:
    """All are of one length."""
    return f"topic-{number:06}"


def make_topics(directory: Path, size_bytes: int, topics: int = TOPICS) -> Made:
    """About so many bytes of log, one queue a topic; topics in turn, and each has a message: what they cost at least is fixed."""
    store, scratch = directory / "made" / "store", directory / "results"
    for place in (store / COMMIT_LOG, store / CONFIG, scratch):
        place.mkdir(parents=True)
    key = b"0" * DIGITS
    properties = b"UNIQ_KEY\x01" + key + b"\x02TAGS\x01TagA\x02"
    unit = pack_unit(0, 0, 0, 0, 0, 0, HOST, 0, HOST, 0, 0, bytes(BODY_BYTES), topic_name(0).encode(), properties)
    per_file = (LOG_FILE_BYTES - TAIL_MIN) // len(unit)
    count = max(size_bytes // len(unit), topics)
    for first in range(0, count, per_file):
        _log_file(store / COMMIT_LOG, unit, first, min(first + per_file, count), per_file, topics)
    end = (count - 1) // per_file * LOG_FILE_BYTES + ((count - 1) % per_file + 1) * len(unit)
    _queues(store, len(unit), count, per_file, topics)
    _small_files(store, count, end - len(unit), topics)
    return Made(store, scratch, count, end)


def _log_file(directory: Path, unit: bytes, first: int, last: int, per_file: int, topics: int) -> None:
    start = first // per_file * LOG_FILE_BYTES
    fixed, size = FIXED[0], len(unit)
    body_at = unit.index(bytes(BODY_BYTES))
    topic_at, key_at = unit.index(topic_name(0).encode(), body_at), unit.index(b"0" * DIGITS)
    with (directory / offset_name(start)).open("wb") as file:
        for begin in range(first, last, SLICE):
            numbers = np.arange(begin, min(begin + SLICE, last), dtype=np.int64)
            made = np.tile(np.frombuffer(unit, np.uint8), (len(numbers), 1))
            times = FIRST_MS + numbers // UNITS_A_MS
            for name, values in (
                ("queue_offset", numbers // topics),
                ("physical_offset", start + (numbers - first) * size),
                ("born_timestamp", times),
                ("store_timestamp", times),
            ):
                at = fixed.at[name]
                made[:, at : at + 8] = values.astype(">i8").view(np.uint8).reshape(-1, 8)
            _digits(made, topic_at + len("topic-"), 6, numbers * STEP % topics)
            _digits(made, key_at, DIGITS, numbers)
            file.write(made.tobytes())
        left = LOG_FILE_BYTES - file.tell()
        if last - first == per_file:
            file.write(pack_blank(left))
            assert BLANK_FLAT.size <= left
        file.truncate(LOG_FILE_BYTES)


def _digits(made: Any, at: int, count: int, values: Any) -> None:
    for place in range(at + count - 1, at - 1, -1):
        values, digit = np.divmod(values, 10)
        made[:, place] = ord("0") + digit


def _queues(store: Path, size: int, count: int, per_file: int, topics: int) -> None:
    for turn in range(topics):
        numbers = np.arange(turn, count, topics, dtype=np.int64)
        units = np.zeros(len(numbers), QUEUE_UNIT)
        units["physical_offset"] = numbers // per_file * LOG_FILE_BYTES + numbers % per_file * size
        units["size"] = size
        units["tags_code"] = tags_code("TagA")
        directory = store / QUEUES / topic_name(turn * STEP % topics) / "0"
        directory.mkdir(parents=True)
        for begin in range(0, len(units), QUEUE_FILE_UNITS):
            with (directory / offset_name(begin * QUEUE_UNIT.itemsize)).open("wb") as file:
                file.write(units[begin : begin + QUEUE_FILE_UNITS].tobytes())
                file.truncate(QUEUE_FILE_UNITS * QUEUE_UNIT.itemsize)


def _small_files(store: Path, count: int, last: int, topics: int) -> None:
    one = {"perm": READ_WRITE, "readQueueNums": 1, "writeQueueNums": 1}
    table = {topic_name(turn): {"topicName": topic_name(turn), **one} for turn in range(topics)}
    (store / CONFIG / "topics.json").write_bytes(dumps_pretty({"dataVersion": {"counter": 1}, "topicConfigTable": table}))
    last_ms = FIRST_MS + (count - 1) // UNITS_A_MS
    fields = checkpoint.FIELDS_FLAT.packed.pack(last_ms, last_ms, 0, 0, 0, last)
    (store / CHECKPOINT).write_bytes(fields.ljust(checkpoint.FILE_SIZE, b"\0"))
