"""Commit logs written without a broker, as a killed one leaves them: no queues, no index, no checkpoint, an `abort` file.

Either broker must dispatch all of it again when it starts.  Every file is of the full size, with zeros behind the last unit, and
closed by a blank where another follows; so both brokers read the same bytes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from rmq_wire.message import PHYSICAL_OFFSET_AT, TAIL_MIN, pack_blank, pack_unit

FILE_BYTES: Final = 1 << 30
"""mappedFileSizeCommitLog, its default."""
WRITE_BYTES: Final = 8 << 20
UNITS_A_MS: Final = 40
"""What a broker that takes 40,000 messages a second would have stamped."""
HOST: Final = bytes((127, 0, 0, 1)) + (10911).to_bytes(4, "big")


class Share(NamedTuple):
    """So many messages of one topic, dealt to its queues in turn; all have a unique key, one key and one tag."""

    topic: str
    queues: int
    messages: int
    body_bytes: int


def write_log(store: Path, shares: list[Share], *, file_bytes: int = FILE_BYTES) -> int:
    """Write the log of a store that was killed, one share after the other.  Returns the log's end."""
    directory = store / "commitlog"
    directory.mkdir(parents=True)
    (store / "abort").write_text("1")
    total = sum(share.messages for share in shares)
    first_ms = time.time_ns() // 1_000_000 - total // UNITS_A_MS - 1000
    at, start, pending = 0, 0, bytearray()
    file = (directory / f"{0:020}").open("wb")
    for unit in _units(shares, first_ms):
        unit_bytes = len(unit)
        if at - start + unit_bytes + TAIL_MIN > file_bytes:
            file.write(pending + pack_blank(start + file_bytes - at))
            file.truncate(file_bytes)
            file.close()
            at = start = start + file_bytes
            pending.clear()
            file = (directory / f"{start:020}").open("wb")
        unit[PHYSICAL_OFFSET_AT : PHYSICAL_OFFSET_AT + 8] = at.to_bytes(8, "big")
        pending += unit
        at += unit_bytes
        if len(pending) > WRITE_BYTES:
            file.write(pending)
            pending.clear()
    file.write(pending)
    file.truncate(file_bytes)
    file.close()
    return at


def _units(shares: list[Share], first_ms: int) -> Iterator[bytearray]:
    """Every unit but for its place."""
    number = 0
    for topic, queues, messages, body_bytes in shares:
        body = bytes(97 + place % 26 for place in range(body_bytes))
        topic_bytes = topic.encode()
        for count in range(messages):
            stored_ms = first_ms + number // UNITS_A_MS
            properties = (
                f"UNIQ_KEY\x017F00000100002A9F18B4{stored_ms & 0xFFFFFFFF:08X}{number % 65536:04X}\x02KEYS\x01order-{number}\x02"
                "WAIT\x01true\x02TAGS\x01TagA\x02region\x01eu-1\x02"
            ).encode()
            packed = pack_unit(
                count % queues, 0, count // queues, 0, 0, stored_ms, HOST, stored_ms, HOST, 0, 0, body, topic_bytes, properties
            )
            yield bytearray(packed)
            number += 1


def copy_store(source: Path, target: Path) -> None:
    """A copy whose holes stay holes, on the medium when this returns."""
    target.mkdir(parents=True)
    subprocess.run(["cp", "-a", "--sparse=auto", f"{source}/.", str(target)], check=True)
    os.sync()


def remove_store(store: Path) -> None:
    """Benchmarks leave no gigabytes behind while they go on."""
    shutil.rmtree(store, ignore_errors=True)
