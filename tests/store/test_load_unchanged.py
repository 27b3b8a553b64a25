"""A clean load and stop changes no byte of log, queues or index, wherever the last message ended in its files."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmq_store.log.draft import Draft
from rmq_store.store import Store
from tests.support.memory_disk import MemoryDisk
from tests.support.store_differ import DATA, by_age, first_difference
from tests.support.store_rewrite import store_settings
from tests.support.store_rig import open_store
from tests.support.store_view import Shape, View

SHAPE = Shape(log_file_bytes=1024, queue_file_bytes=60, hash_slots=5, index_num=8, delays_ms=(1000,))
"""A file of the log holds some messages, one of a queue three entries, one of the index seven."""
HOST = bytes((127, 0, 0, 1)) + (10911).to_bytes(4, "big")
NOW_MS = 1_700_000_000_000
MESSAGES = 60


def start(disk: MemoryDisk, at_ms: int) -> Store:
    store = open_store(store_settings(Path("/store"), SHAPE), at_ms, disk=disk)
    assert store.report.clean
    return store


def files(disk: MemoryDisk) -> dict[str, bytes]:
    """Log, queues and index."""
    found = {name.removeprefix("/store/"): data for name, data in disk.contents().items()}
    return by_age({name: data for name, data in found.items() if name.startswith(DATA)})


def draft(number: int, keys: int) -> Draft:
    names = [f"k{number}-{at}" for at in range(keys)]
    properties = f"KEYS\x01{' '.join(names)}\x02" if names else ""
    return Draft("T", number % 2, b"x" * (number * 37 % 300), properties.encode(), NOW_MS, HOST, HOST, keys=tuple(names))


@pytest.mark.parametrize("keys", [0, 1, 2, 3])
def test_after_every_message(keys: int) -> None:
    disk = MemoryDisk()
    for number in range(MESSAGES):
        at_ms = NOW_MS + 700 * number
        store = start(disk, at_ms)
        store.stage(draft(number, keys), at_ms)
        store.commit()
        store.dispatch(at_ms)
        assert store.close(at_ms)
        before = files(disk)
        store = start(disk, at_ms + 300)
        assert first_difference(before, files(disk), hash_slots=SHAPE.hash_slots) is None, f"loading after {number}"
        assert store.close(at_ms + 300)
        assert first_difference(before, files(disk), hash_slots=SHAPE.hash_slots) is None, f"a life without work after {number}"
    view = View(before, SHAPE)
    assert len(view.units) == MESSAGES
    expected = view.queue_files() | (view.index_files() if keys else {})
    found = {name: data for name, data in before.items() if not name.startswith("commitlog/") and (keys or "index" not in name)}
    assert first_difference(found, expected, hash_slots=SHAPE.hash_slots) is None
