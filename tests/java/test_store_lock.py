"""One directory, two brokers at once: each refuses the other's running store, by the lock that Java takes."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path

import pytest

from rmq_store.errors import StoreLocked
from rmq_store.log.draft import Draft
from rmq_store.settings import StoreSettings
from rmq_store.store import Store
from rmq_wire.message import read_unit
from tests.support.courses import Place, plays
from tests.support.process import until
from tests.support.reference import SMALL_STORE, JavaBroker
from tests.support.store_rig import START_MS, open_store

pytestmark = pytest.mark.java
COUNT = 400
HOST = bytes((127, 0, 0, 1)) + (10911).to_bytes(4, "big")
TOPIC = "Locked"


def settings(store: Path) -> StoreSettings:
    return StoreSettings(
        store_path_root_dir=str(store),
        mapped_file_size_commit_log=int(SMALL_STORE["mappedFileSizeCommitLog"]),
        mapped_file_size_consume_queue=int(SMALL_STORE["mappedFileSizeConsumeQueue"]),
        max_hash_slot_num=int(SMALL_STORE["maxHashSlotNum"]),
        max_index_num=int(SMALL_STORE["maxIndexNum"]),
    )


def open_ours(store: Path) -> Store:
    return open_store(settings(store))


def append(ours: Store, count: int) -> None:
    for number in range(count):
        ours.stage(Draft(TOPIC, 0, b"%d:" % number, b"KEYS\x01k\x02", START_MS, HOST, HOST, keys=("k",)), START_MS)
        ours.commit()
        ours.dispatch(START_MS)


def numbers(ours: Store) -> list[int]:
    found: list[int] = []
    while (read := ours.read_queue(TOPIC, 0, len(found), 32, 1 << 20)).message_count:
        data = b"".join(read.chunks)
        while data:
            unit = read_unit(data)
            found.append(int(bytes(unit.body).split(b":")[0]))
            data = data[unit.total_size :]
    return found


def each_on_the_other_s_store(place: Place) -> None:
    """A course: our store on the real broker's directory, and the other way round."""
    store = place.directory / "store"
    broker = JavaBroker(place.directory / "broker", place.name_server(), name="broker-locked", store=store)
    place.kept.callback(broker.end)
    ours = open_ours(store)
    append(ours, COUNT)
    assert ours.close(START_MS)
    broker.start()
    before = queue_changes(store)
    with pytest.raises(StoreLocked, match="in use by another broker"):
        open_store(settings(store), pid=2)
    assert queue_changes(store) == before
    broker.stop()

    ours = open_ours(store)
    assert ours.report.clean
    broker.start(wait=False)
    until(lambda: not broker.running, "the end of the second broker")
    assert "Lock failed" in broker.log.read_text(errors="replace")
    assert numbers(ours) == list(range(COUNT))
    assert ours.close(START_MS)
    ours = open_ours(store)
    assert numbers(ours) == list(range(COUNT))
    assert ours.close(START_MS)


def queue_changes(store: Path) -> dict[Path, int]:
    """When each file of a queue was last written."""
    return {path: path.stat().st_mtime_ns for path in store.rglob("*") if path.is_file() and "queue" in str(path)}


@plays(each_on_the_other_s_store, seconds=52)
def test_each_refuses_the_other_s_running_store(course: Future[None]) -> None:
    course.result()
