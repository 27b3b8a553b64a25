"""A store in which one message in a hundred, by bytes, is of the topic Rare: whoever reads it by its queues needs little else."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from rmq_columns.decode.dtypes import QUEUE_UNIT
from rmq_columns.read.pruned import GAP_BYTES
from rmq_wire.layout import checkpoint
from rmq_wire.message import pack_blank
from tests.support.logs import unit

FILE_BYTES = 16 << 20
UNITS = 1000
"""For which a queue's file has room."""
GROUPS, IN_GROUP, BETWEEN = 64, 8, 16
"""Messages of the topic that is read, and large ones of another between them."""
SMALL, LARGE = bytes(1024), bytes(64 << 10)
QUEUES = 2
SHARE = 0.03


class Stored:
    """A store in which one message in a hundred, by bytes, is of the topic Rare.  places: of its messages."""

    def __init__(self, root: Path) -> None:
        self.root, self.log = root, bytearray()
        self.units: dict[tuple[str, int], list[tuple[int, int, int]]] = {}
        self.places: list[int] = []
        self.stored_ms = 1_000_000
        for _ in range(GROUPS):
            for number in range(IN_GROUP):
                self.places.append(self.put("Rare", number % QUEUES, SMALL))
            for number in range(BETWEEN):
                self.put("Hot", number % QUEUES, LARGE)

    def put(self, topic: str, queue: int, body: bytes) -> int:
        held = self.units.setdefault((topic, queue), [])

        def made() -> bytes:
            name = topic.encode()
            return unit(len(self.log), body, topic=name, number=len(held), queue=queue, store_ms=self.stored_ms)

        left = FILE_BYTES - len(self.log) % FILE_BYTES
        if len(made()) + 8 > left:
            self.log += pack_blank(left).ljust(left, b"\0")
        one = made()
        held.append((len(self.log), len(one), 0))
        self.log += one
        self.stored_ms += 1
        return len(self.log) - len(one)

    def write(self) -> None:
        for at in range(0, len(self.log), FILE_BYTES):
            path = self.root / "commitlog" / f"{at:020}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(bytes(self.log[at : at + FILE_BYTES]).ljust(FILE_BYTES, b"\0"))
        for (topic, queue), units in self.units.items():
            for start in range(0, len(units), UNITS):
                path = self.root / "consumequeue" / topic / str(queue) / f"{start * 20:020}"
                path.parent.mkdir(parents=True, exist_ok=True)
                raw = np.array(units[start : start + UNITS], QUEUE_UNIT).tobytes()
                path.write_bytes(raw.ljust(UNITS * 20, b"\0"))
        topics = {topic: {"readQueueNums": QUEUES, "writeQueueNums": QUEUES, "perm": 6} for topic, _ in self.units}
        (self.root / "config").mkdir(exist_ok=True)
        (self.root / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": topics}))
        last = max(units[-1][0] for units in self.units.values())
        self.checkpoint(self.stored_ms - 1, last)

    def checkpoint(self, ms: int, place: int) -> None:
        raw = checkpoint.FIELDS_FLAT.packed.pack(ms, ms, 0, 0, 0, place)
        (self.root / "checkpoint").write_bytes(raw.ljust(checkpoint.FILE_SIZE, b"\0"))

    def queue_file(self, queue: int = 0) -> Path:
        return self.root / "consumequeue" / "Rare" / str(queue) / f"{0:020}"


def gaps_read_through(places: list[int], size: int) -> int:
    """Bytes between messages that stand closer together than a request is worth."""
    ends = np.array(places) + size
    gaps = np.array(places)[1:] - ends[:-1]
    return int(gaps[gaps < GAP_BYTES].sum())
