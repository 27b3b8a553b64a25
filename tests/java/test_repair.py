"""A store of the real 5.5.0 broker, damaged in several places and repaired: the broker starts on it and has every survivor.

Each survivor is read by stock `mqadmin queryMsgById`, pulled from its queue and found by its key; the broker goes on with it, and
our store opens it, too.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rmq_inspect.directory import list_store
from rmq_inspect.log import Unit, pieces
from rmq_inspect.repair import repair
from rmq_store.disk import RealDisk
from rmq_store.errors import Cold
from rmq_store.settings import StoreSettings
from rmq_store.store import Store
from rmq_wire.codes import RequestCode
from rmq_wire.message import read_unit
from rmq_wire.message_id import offset_message_id
from tests.support import remoting
from tests.support.clients import JavaDriver
from tests.support.java import REFERENCE, java
from tests.support.reference import SMALL_STORE, JavaBroker, JavaNameServer

pytestmark = pytest.mark.java

TOPIC = "Repaired"
QUEUES = 4
BODY_BYTES = 24_000
IDS_A_CALL = 50
START_MS = 1_700_000_000_000
QUEUE_FILE_BYTES = int(SMALL_STORE["mappedFileSizeConsumeQueue"])
SLOTS = int(SMALL_STORE["maxHashSlotNum"])


class Place:
    """A log of four files and a bit, in two directories one after the other."""

    def __init__(self, directory: Path, names: JavaNameServer, log_file_bytes: int) -> None:
        self.names = names
        self.log_file_bytes = log_file_bytes
        self.properties = {"mappedFileSizeCommitLog": str(log_file_bytes)}
        self.messages = 4 * (log_file_bytes * 9 // 2 // 24_300 // 4)
        self.old, self.new = directory / "old", directory / "new"
        self.first = JavaBroker(directory / "first", names.address, store=self.old, properties=self.properties)

    def second(self, directory: Path) -> JavaBroker:
        """A broker on the repaired store, at the same address: it is part of the message ids."""
        made = JavaBroker(directory / "second", self.names.address, store=self.new, properties=self.properties)
        made.port, made.address = self.first.port, self.first.address
        made.properties["listenPort"] = str(made.port)
        return made


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    java()
    with JavaNameServer(tmp_path / "ns") as names:
        made = Place(tmp_path, names, 2 << 20)
        try:
            yield made
        finally:
            made.first.end()


def send(address: str, first: int, count: int) -> None:
    for number in range(first, first + count):
        properties = f"KEYS\x01key{number}\x02TAGS\x01TagA\x02UNIQ_KEY\x017F0000010007AAAA{number:016X}\x02"
        fields = {
            "a": "P",
            "b": TOPIC,
            "c": "TBW102",
            "d": str(QUEUES),
            "e": str(number % QUEUES),
            "f": "0",
            "g": str(START_MS),
            "h": "0",
            "i": properties,
            "j": "0",
            "k": "false",
            "m": "false",
        }
        answer = remoting.ask(address, RequestCode.SEND_MESSAGE_V2, fields, (b"%d:" % number).ljust(BODY_BYTES, b"."))
        assert answer.code == 0, answer


def units_of(store: Path) -> list[Unit]:
    return [piece for piece in pieces(list_store(store).commit_log) if isinstance(piece, Unit)]


def ours(unit: Unit) -> bool:
    return unit.message.topic == TOPIC.encode()


def number_of(unit: Unit) -> int:
    return int(bytes(unit.message.body).split(b":")[0])


def zero(unit: Unit, store: Path, begin: int, size: int) -> None:
    with (store / unit.file.name).open("r+b") as file:
        file.seek(unit.at + begin)
        file.write(bytes(size))


def spoil_units(store: Path, sent: list[Unit], file_bytes: int) -> set[int]:
    """Some messages here and there, and what is derived; the numbers of those that are lost."""
    hit = sent[20:24]
    zero(hit[0], store, 10, hit[-1].end - hit[0].at - 20)
    later = [unit for unit in sent if unit.file.start == file_bytes]
    zero(later[5], store, 1000, 4000)  # of a body
    zero(later[9], store, 0, 4)  # a length
    next((store / "index").iterdir()).write_bytes(b"\xff" * 100)
    (store / "checkpoint").write_bytes(b"\xff" * 4096)
    queue = store / "consumequeue" / TOPIC / "1" / f"{0:020}"
    queue.write_bytes(queue.read_bytes()[:777])
    return {number_of(unit) for unit in (*hit, later[5], later[9])}


def lose_files(store: Path, sent: list[Unit], file_bytes: int) -> set[int]:
    """A whole log file, the beginning of the next, every queue, and the index."""
    gone = [unit for unit in sent if unit.file.start == file_bytes]
    (store / gone[0].file.name).unlink()
    hit = [unit for unit in sent if unit.file.start == 2 * file_bytes][:3]
    zero(hit[0], store, 0, hit[-1].end - hit[0].at)
    shutil.rmtree(store / "consumequeue")
    shutil.rmtree(store / "index")
    return {number_of(unit) for unit in (*gone, *hit)}


@pytest.mark.parametrize("damage", [spoil_units, lose_files])
def test_the_real_broker_has_every_survivor(
    place: Place, tmp_path: Path, damage: Callable[[Path, list[Unit], int], set[int]]
) -> None:
    place.first.start()
    send(place.first.address, 0, place.messages)
    place.first.kill()
    before = units_of(place.old)
    sent = [unit for unit in before if ours(unit)]
    assert len(sent) == place.messages
    lost = damage(place.old, sent, place.log_file_bytes)
    untouched = {path: path.read_bytes() for path in place.old.rglob("*") if path.is_file() and path.stat().st_size < 1 << 23}

    report = repair(list_store(place.old), place.new, slots=SLOTS, queue_file_bytes=QUEUE_FILE_BYTES)

    assert {path: path.read_bytes() for path in untouched} == untouched
    assert report.counts["lost"] == (3 if damage is spoil_units else 2)
    gaps = {offset for gap in report.gaps if gap["topic"] == TOPIC for offset in range(gap["from"], gap["from"] + gap["count"])}
    assert gaps == {unit.message.queue_offset for unit in sent if number_of(unit) in lost}
    survivors = [unit for unit in sent if number_of(unit) not in lost]
    assert [number_of(unit) for unit in units_of(place.new) if ours(unit)] == [number_of(unit) for unit in survivors]
    opens_in_our_store(place, survivors)
    broker = place.second(tmp_path)
    broker.start()
    try:
        read_by_mqadmin(place, tmp_path, survivors)
        pulled_and_found(broker, survivors, lost)
        send(broker.address, place.messages, 8)
        bounds = [bound(broker, queue_id) for queue_id in range(QUEUES)]
        assert bounds == [(place.messages + 8) // QUEUES] * QUEUES
        broker.stop()
    finally:
        broker.end()
    opens_in_our_store(place, survivors)


def opens_in_our_store(place: Place, survivors: list[Unit]) -> None:
    settings = StoreSettings(
        store_path_root_dir=str(place.new),
        mapped_file_size_commit_log=place.log_file_bytes,
        mapped_file_size_consume_queue=QUEUE_FILE_BYTES,
        max_hash_slot_num=SLOTS,
        max_index_num=int(SMALL_STORE["maxIndexNum"]),
    )
    opened = Store.open(RealDisk(), settings, START_MS, pid=1)
    assert opened.report.clean, opened.report
    assert not opened.report.cut_bytes
    for unit in survivors[::20]:
        found = found_by_key(opened, f"key{number_of(unit)}")
        assert found == [unit.raw]
    assert opened.close(START_MS)


def found_by_key(store: Store, key: str) -> list[bytes]:
    """What is not in memory any more is read here."""
    while True:
        try:
            return [bytes(unit) for unit in store.query(TOPIC, key, 10, 0, 1 << 60).units]
        except Cold as cold:
            cold.run()


def read_by_mqadmin(place: Place, directory: Path, survivors: list[Unit]) -> None:
    """Every one of them, by the tool that nobody changed."""
    ids = [offset_message_id(unit.message.store_host, unit.message.physical_offset) for unit in survivors]
    with JavaDriver(directory / "tools", REFERENCE) as tools:
        for at in range(0, len(ids), IDS_A_CALL):
            call = ("queryMsgById", "-t", TOPIC, "-i", ",".join(ids[at : at + IDS_A_CALL]), "-n", place.names.address)
            printed = tools.begin_mqadmin(*call)()
            for unit, message_id in zip(survivors[at : at + IDS_A_CALL], ids[at : at + IDS_A_CALL], strict=True):
                assert message_id in printed.out, printed
                assert f"key{number_of(unit)}]" in printed.out or f"key{number_of(unit)}" in printed.out


def pulled_and_found(broker: JavaBroker, survivors: list[Unit], lost: set[int]) -> None:
    seen: list[int] = []
    for queue_id in range(QUEUES):
        offset, end = 0, bound(broker, queue_id)
        while offset < end:
            fields = {
                "consumerGroup": "G",
                "topic": TOPIC,
                "queueId": str(queue_id),
                "queueOffset": str(offset),
                "maxMsgNums": "32",
                "sysFlag": "4",
                "commitOffset": "0",
                "suspendTimeoutMillis": "0",
                "subscription": "*",
                "subVersion": "0",
                "expressionType": "TAG",
            }
            answer = remoting.ask(broker.address, RequestCode.PULL_MESSAGE, fields)
            following = int(answer.ext["nextBeginOffset"])
            assert following > offset, answer
            at = 0
            while answer.code == 0 and at < len(answer.body):
                unit = read_unit(answer.body, at)
                seen.append(int(bytes(unit.body).split(b":")[0]))
                at += unit.total_size
            offset = following
    assert set(seen) == {number_of(unit) for unit in survivors}
    assert len(seen) <= len(survivors) + len(lost), "a survivor may come again for each lost one"
    for unit in survivors[::50]:
        fields = {
            "topic": TOPIC,
            "key": f"key{number_of(unit)}",
            "maxNum": "9",
            "beginTimestamp": "0",
            "endTimestamp": str(1 << 60),
        }
        answer = remoting.ask(broker.address, RequestCode.QUERY_MESSAGE, fields)
        assert answer.body == unit.raw


def bound(broker: JavaBroker, queue_id: int) -> int:
    answer = remoting.ask(broker.address, RequestCode.GET_MAX_OFFSET, {"topic": TOPIC, "queueId": str(queue_id)})
    return int(json.loads(answer.ext["offset"]))
