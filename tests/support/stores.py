"""Stores to look into: those that the real broker wrote, one of ours with every kind of unit in it."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rmq_inspect.decode.directory import list_store
from rmq_inspect.decode.log import Unit, pieces
from rmq_store.disk.disk import RealDisk
from rmq_wire import sys_flag as flags
from tests.support.golden import GOLDEN, store_file, store_sizes
from tests.support.store_rig import HOST, HOST_V6, Rig, draft, small

SLOTS = 97
LONG_TOPIC = "%RETRY%" + "g" * 140
"""Makes units of version 2."""
MESSAGES = 240


def golden_store(root: Path) -> Path:
    """The store of the real 5.5.0 broker at full length."""
    for name in store_sizes():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(store_file(name))
    return root


def golden_of(kind: str, root: Path) -> Path:
    """Other stores of the real broker: `batch` (with extensions), `light` (light queues, two log directories), `mix`."""
    source = GOLDEN / f"store-5.5.0-{kind}"
    for name, size in json.loads((source / "sizes.json").read_text()).items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes((source / name).read_bytes().ljust(size, b"\0"))
    return root


def plain_store(root: Path) -> Path:
    """What our broker writes: it never stores a message that is rolled back."""
    rich_store(root, rolled_back=False)
    return root


def rich_store(
    root: Path, *, log_file_bytes: int = 8192, messages: int = MESSAGES, clean: bool = True, rolled_back: bool = True
) -> Rig:
    """Versions 1 and 2, IPv4 and IPv6, compressed, binary and empty bodies, tags and none, all kinds of transaction."""
    settings = small(store_path_root_dir=str(root), mapped_file_size_commit_log=log_file_bytes, max_hash_slot_num=SLOTS)
    rig = Rig(RealDisk(), settings)
    for number in range(messages):
        put(rig, number, rolled_back=rolled_back)
    rig.sync()
    if clean:
        assert rig.store.close(rig.wall_ms)
    return rig


def put(rig: Rig, number: int, *, rolled_back: bool = True) -> None:
    more: dict[str, Any] = {}
    match number % 12:
        case 1:
            more = {"topic": LONG_TOPIC}
        case 2:
            more = {"sys_flag": flags.TRANSACTION_PREPARED}
        case 3 if rolled_back:
            more = {"sys_flag": flags.TRANSACTION_ROLLBACK}
        case 4:
            more = {"tags": "Tag\x1b[31m"}
    made = draft(number, queue_id=number % 3, **more)
    match number % 12:
        case 5:
            made.body, made.sys_flag = zlib.compress(b"%d: unpacked" % number), flags.COMPRESSED
        case 6:
            made.body = bytes(range(256))
        case 7:
            made.born_host, made.store_host = HOST_V6, HOST
        case 8:
            made.born_host, made.store_host = HOST, HOST_V6
    rig.put(made)
    rig.wait(1000)


def units_of(root: Path) -> list[Unit]:
    return list(_units(root))


def _units(root: Path) -> Iterator[Unit]:
    for piece in pieces(list_store(root).commit_log):
        if isinstance(piece, Unit):
            yield piece


def spoil(path: Path, at: int, data: bytes) -> None:
    """Overwrite."""
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)
