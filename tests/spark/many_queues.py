"""A store of a hundred thousand queues with few messages in each: what is held and sent for a queue shows, nothing else does."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from rmq_columns.decode.dtypes import QUEUE_UNIT
from rmq_wire.implied.tags import tags_code
from rmq_wire.message import pack_blank
from tests.support.logs import BLANK_BYTES, unit

QUEUES_A_TOPIC: Final = 100
QUEUE_FILE_UNITS: Final = 20
TAG: Final = "t"
"""Of each message that `unit` makes."""


def write_many(root: Path, queues: int, rounds: int, file_bytes: int = 4 << 20) -> int:
    """A sound store; each round has a message for each queue.  Gives the bytes of its log."""
    log, code = bytearray(), tags_code(TAG)
    rows = np.zeros((queues, QUEUE_FILE_UNITS), QUEUE_UNIT)
    for offset in range(rounds):
        for queue in range(queues):
            topic, number = b"topic-%04d" % (queue // QUEUES_A_TOPIC), queue % QUEUES_A_TOPIC
            made = unit(len(log), b"x", topic=topic, number=offset, store_ms=1, queue=number)
            left = file_bytes - len(log) % file_bytes
            if len(made) + BLANK_BYTES > left:
                log += pack_blank(left).ljust(left, b"\0")
                made = unit(len(log), b"x", topic=topic, number=offset, store_ms=1, queue=number)
            rows[queue, offset] = (len(log), len(made), code)
            log += made
    (root / "commitlog").mkdir(parents=True)
    for at in range(0, len(log), file_bytes):
        (root / "commitlog" / f"{at:020}").write_bytes(bytes(log[at : at + file_bytes]).ljust(file_bytes, b"\0"))
    for queue in range(queues):
        directory = root / "consumequeue" / f"topic-{queue // QUEUES_A_TOPIC:04d}" / str(queue % QUEUES_A_TOPIC)
        directory.mkdir(parents=True)
        (directory / f"{0:020}").write_bytes(rows[queue].tobytes())
    return len(log)
