"""One store directory, our store and the real 5.5.0 broker by turns: each finds what the other left, and nothing is rewritten.

Ours is driven without a broker around it; Java's messages are sent and its store is questioned with plain requests.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from rmq_store.disk import RealDisk
from rmq_store.settings import StoreSettings
from rmq_store.store import Store
from rmq_store.values import Draft, IndexType
from rmq_wire.codes import RequestCode
from rmq_wire.message import index_keys, read_unit, tags_code
from rmq_wire.message_id import offset_message_id
from tests.support import remoting
from tests.support.java import java
from tests.support.reference import SMALL_STORE, JavaBroker, JavaNameServer

pytestmark = pytest.mark.java

TOPIC = "Handover"
QUEUES = 4
START_MS = 1_700_000_000_000
HOST = bytes((127, 0, 0, 1)) + (10911).to_bytes(4, "big")
DATA = ("commitlog/", "consumequeue/", "index/")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[tuple[Path, JavaBroker]]:
    java()
    store = tmp_path / "store"
    with JavaNameServer(tmp_path / "ns") as names:
        broker = JavaBroker(tmp_path / "broker", names.address, store=store, properties={"messageDelayLevel": "1s 5s"})
        try:
            yield store, broker
        finally:
            broker.end()


def settings(store: Path) -> StoreSettings:
    return StoreSettings(
        store_path_root_dir=str(store),
        mapped_file_size_commit_log=int(SMALL_STORE["mappedFileSizeCommitLog"]),
        mapped_file_size_consume_queue=int(SMALL_STORE["mappedFileSizeConsumeQueue"]),
        max_hash_slot_num=int(SMALL_STORE["maxHashSlotNum"]),
        max_index_num=int(SMALL_STORE["maxIndexNum"]),
    )


def append(store: Path, first: int, count: int) -> None:
    """Our store: open, append, stop cleanly."""
    ours = Store.open(RealDisk(), settings(store), START_MS, pid=1)
    assert ours.report.clean, ours.report
    for number in range(first, first + count):
        unique, key = f"7F0000010007AAAA{number:016X}", f"key{number}"
        properties = f"KEYS\x01{key}\x02UNIQ_KEY\x01{unique}\x02TAGS\x01TagA\x02".encode()
        draft = Draft(
            TOPIC, number % QUEUES, (b"%d:" % number).ljust(1000, b"."), properties, START_MS, HOST, HOST,
            tags_code=tags_code("TagA"), keys=index_keys(unique, key, "TagA"),
        )  # fmt: skip
        ours.stage(draft, START_MS + first + number % 50)
        ours.commit()
        ours.dispatch(START_MS + first)
    assert ours.close(START_MS)


def data_of(store: Path) -> dict[str, bytes]:
    found = {str(path.relative_to(store)): path for path in sorted(store.rglob("*")) if path.is_file()}
    return {name: path.read_bytes() for name, path in found.items() if name.startswith(DATA)}


def java_sends(broker: JavaBroker, first: int, count: int) -> None:
    for number in range(first, first + count):
        properties = f"KEYS\x01key{number}\x02TAGS\x01TagA\x02UNIQ_KEY\x017F0000010007AAAA{number:016X}\x02"
        fields = {
            "a": "P", "b": TOPIC, "c": "TBW102", "d": str(QUEUES), "e": str(number % QUEUES), "f": "0", "g": str(START_MS),
            "h": "0", "i": properties, "j": "0", "k": "false", "m": "false",
        }  # fmt: skip
        answer = remoting.ask(broker.address, RequestCode.SEND_MESSAGE_V2, fields, b"%d:java" % number)
        assert answer.code == 0, answer


def java_finds(broker: JavaBroker, numbers: range) -> None:
    """Bounds of every queue, every fiftieth message by key, and by position."""
    for queue_id in range(QUEUES):
        answer = remoting.ask(broker.address, RequestCode.GET_MAX_OFFSET, {"topic": TOPIC, "queueId": str(queue_id)})
        assert answer.ext["offset"] == str(len(numbers) // QUEUES)
    for number in numbers[::50]:
        fields = {"topic": TOPIC, "key": f"key{number}", "maxNum": "10", "beginTimestamp": "0", "endTimestamp": str(1 << 60)}
        answer = remoting.ask(broker.address, RequestCode.QUERY_MESSAGE, fields)
        assert answer.code == 0, (number, answer)
        unit = read_unit(answer.body)
        assert bytes(unit.body).startswith(b"%d:" % number), "one hit, and the right one"
        assert len(answer.body) == unit.total_size
        view = remoting.ask(broker.address, RequestCode.VIEW_MESSAGE_BY_ID, {"offset": str(unit.physical_offset)})
        assert view.body == answer.body
        assert offset_message_id(unit.store_host, unit.physical_offset)


def test_by_turns(place: tuple[Path, JavaBroker]) -> None:
    store, broker = place
    (store / "config").mkdir(parents=True)
    topic = {"topicName": TOPIC, "readQueueNums": QUEUES, "writeQueueNums": QUEUES, "perm": 6, "topicFilterType": "SINGLE_TAG"}
    (store / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": {TOPIC: topic}}))
    append(store, 0, 2000)
    for first in (2000, 4400):
        before = data_of(store)
        broker.start()
        java_finds(broker, range(first))
        java_sends(broker, first, 400)
        java_finds(broker, range(first + 400))
        broker.stop()
        after = data_of(store)
        changed(before, after)
        check_with_ours(store, first + 400)
        assert data_of(store) == after, "our clean start and stop rewrote something"
        append(store, first + 400, 2000)
        assert not (store / "abort").exists()
        changed(after, data_of(store))


def changed(before: dict[str, bytes], after: dict[str, bytes]) -> None:
    """Logs and queues only grow: every byte that was not zero stays."""
    for name, old in before.items():
        if name.startswith("index/"):
            continue
        end = len(old.rstrip(b"\0"))
        assert after[name][:end] == old[:end], name


def check_with_ours(store: Path, count: int) -> None:
    ours = Store.open(RealDisk(), settings(store), START_MS, pid=1)
    assert ours.report.clean, ours.report
    for queue_id in range(QUEUES):
        assert ours.queue_bounds(TOPIC, queue_id) == (0, count // QUEUES)
        numbers: list[int] = []
        while (read := ours.read_queue(TOPIC, queue_id, len(numbers), 32, 1 << 20)).message_count:
            data = b"".join(read.chunks)
            while data:
                unit = read_unit(data)
                numbers.append(int(bytes(unit.body).split(b":")[0]))
                data = data[unit.total_size :]
        assert numbers == list(range(queue_id, count, QUEUES))
    for number in range(0, count, 50):
        [unit_bytes] = ours.query(TOPIC, f"key{number}", 10, 0, 1 << 60).units
        assert bytes(read_unit(unit_bytes).body).startswith(b"%d:" % number)
        assert len(ours.query(TOPIC, "TagA", 10, 0, 1 << 60, IndexType.TAG).units) == 10
    assert ours.close(START_MS)


def test_after_a_kill(place: tuple[Path, JavaBroker]) -> None:
    """Either is killed; the other finds everything that was answered."""
    store, broker = place
    (store / "config").mkdir(parents=True)
    ours = Store.open(RealDisk(), settings(store), START_MS, pid=1)
    for number in range(400):
        key = f"key{number}"
        draft = Draft(TOPIC, number % QUEUES, b"%d:" % number, f"KEYS\x01{key}\x02".encode(), START_MS, HOST, HOST, keys=(key,))
        ours.stage(draft, START_MS)
        ours.commit()
        ours.dispatch(START_MS)
    ours._lock.release()  # as the end of the process does; nothing else is closed or written
    del ours
    assert (store / "abort").exists()
    broker.start()
    java_finds(broker, range(400))
    java_sends(broker, 400, 400)
    broker.kill()
    recovered = Store.open(RealDisk(), settings(store), START_MS, pid=1)
    assert not recovered.report.clean
    assert recovered.close(START_MS)
    check_with_ours(store, 800)
