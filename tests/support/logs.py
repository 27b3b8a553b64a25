"""Small commit logs of the test's making: several files, units that say where they are, queue units that name them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from rmq_columns.decode.dtypes import QUEUE_UNIT
from rmq_wire.layout import message
from rmq_wire.message import pack_blank, pack_unit
from rmq_wire.message_id import pack_host

FILE_BYTES: Final = 4096
HOST: Final = pack_host("127.0.0.1", 10911)
HOST_V6: Final = pack_host("2001:db8::1", 10911)
BLANK_BYTES: Final = 8
QUEUE_OFFSET_AT: Final = 20
OWN_OFFSET_AT: Final = 28
"""Bytes from a message's beginning."""

Body = bytes | Callable[[int], bytes]
"""Bytes, or a function of the place at which the unit begins."""


class Log(NamedTuple):
    """root: of the store.  places: physical offset of each unit.  files: in order."""

    root: Path
    places: list[int]
    files: list[Path]


def unit(
    at: int, body: bytes, *, topic: bytes = b"T", number: int = 0, flags: int = 0, store_ms: int = 0, queue: int = 0
) -> bytes:
    """One unit; flags may widen its hosts."""
    born = HOST_V6 if flags & message.BORN_V6 else HOST
    store = HOST_V6 if flags & message.STORE_V6 else HOST
    pairs = b"UNIQ_KEY\x01%d\x02TAGS\x01t\x02" % number
    return pack_unit(queue, 0, number, at, flags, store_ms, born, store_ms, store, 0, 0, body, topic, pairs)


def write_behind(log: Log, bodies: Sequence[Body], *, file_bytes: int = FILE_BYTES) -> Log:
    """Messages in more files of a log, numbered from 0 again: of a topic that was deleted and made anew."""
    start = len(log.files) * file_bytes
    made = write_log(log.root / "behind", bodies, file_bytes=file_bytes, queue=False)
    files = []
    for file in made.files:
        data, begin = bytearray(file.read_bytes()), int(file.name)
        for place in (one - begin for one in made.places if begin <= one < begin + file_bytes):
            data[place + OWN_OFFSET_AT : place + OWN_OFFSET_AT + 8] = (place + begin + start).to_bytes(8, "big")
        files.append(log.root / "commitlog" / f"{begin + start:020}")
        files[-1].write_bytes(data)
    shutil.rmtree(log.root / "behind")
    return Log(log.root, [place + start for place in made.places], files)


def write_log(
    root: Path,
    bodies: Sequence[Body],
    *,
    topic: bytes = b"T",
    file_bytes: int = FILE_BYTES,
    ms_step: int = 0,
    v6: bool = False,
    queue: bool = True,
) -> Log:
    """A store with these messages in its log and one queue, the log's last file padded with zeros."""
    log, rows = bytearray(), []
    for number, body in enumerate(bodies):
        flags = (0, message.BORN_V6, message.STORE_V6, message.BORN_V6 | message.STORE_V6)[number % 4] if v6 else 0

        def made(at: int, number: int = number, body: Body = body, flags: int = flags) -> bytes:
            raw = body if isinstance(body, bytes) else body(at)
            return unit(at, raw, topic=topic, number=number, flags=flags, store_ms=number * ms_step)

        one = made(len(log))
        left = file_bytes - len(log) % file_bytes
        if len(one) + BLANK_BYTES > left:
            log += pack_blank(left).ljust(left, b"\0")
            one = made(len(log))
        rows.append((len(log), len(one), 0))
        log += one
    directory = root / "commitlog"
    directory.mkdir(parents=True, exist_ok=True)
    for old in directory.iterdir():
        old.unlink()
    files = []
    for at in range(0, len(log), file_bytes):
        files.append(directory / f"{at:020}")
        files[-1].write_bytes(bytes(log[at : at + file_bytes]).ljust(file_bytes, b"\0"))
    if queue:
        units = root / "consumequeue" / "T" / "0"
        units.mkdir(parents=True, exist_ok=True)
        (units / f"{0:020}").write_bytes(np.array(rows, QUEUE_UNIT).tobytes() + bytes(200))
    return Log(root, [row[0] for row in rows], files)


SOME = [bytes([number % 251]) * (number * 37 % 300) for number in range(60)]


def forged(count: int) -> Any:
    """A body that holds whole units which say the truth about where they are."""

    def body(at: int) -> bytes:
        raw = b""
        for number in range(count):
            raw += unit(at + FIXED_BYTES + len(raw), b"forged", number=900 + number)
        return raw

    return body


FIXED_BYTES = 88
