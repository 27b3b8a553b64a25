"""A store of the real 5.5.0 broker, damaged in several places and repaired: the broker starts on it and has every survivor.

Each survivor is read by stock `mqadmin queryMsgById`, pulled from its queue and found by its key; the broker goes on with it, and
our store opens it, too.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

import pytest

from rmq_inspect.decode.directory import list_store
from rmq_inspect.decode.log import Unit, pieces
from rmq_inspect.repair.repair import repair
from rmq_store.errors import Cold
from rmq_store.settings import StoreSettings
from rmq_store.store import Store
from rmq_wire.codes import RequestCode
from rmq_wire.message import read_unit
from rmq_wire.message_id import offset_message_id
from tests.support import remoting
from tests.support.clients import JavaDriver
from tests.support.courses import Place, plays
from tests.support.reference import SMALL_STORE, JavaBroker
from tests.support.store_rig import START_MS, open_store
from tests.support.talk import pulled_once

pytestmark = pytest.mark.java

TOPIC = "Repaired"
QUEUES = 4
BODY_BYTES = 24_000
IDS_A_CALL = 50
QUEUE_FILE_BYTES = int(SMALL_STORE["mappedFileSizeConsumeQueue"])
SLOTS = int(SMALL_STORE["maxHashSlotNum"])


class Rig:
    """A log of four files and a bit, in two directories one after the other."""

    def __init__(self, directory: Path, namesrv: str, name: str) -> None:
        self.namesrv = namesrv
        self.name = name
        self.log_file_bytes = 2 << 20
        self.properties = {"mappedFileSizeCommitLog": str(self.log_file_bytes)}
        self.messages = 4 * (self.log_file_bytes * 9 // 2 // 24_300 // 4)
        self.old, self.new = directory / "old", directory / "new"
        self.first = self.broker(directory / "first", self.old)

    def second(self, directory: Path) -> JavaBroker:
        """A broker on the repaired store, at the same address: it is part of the message ids."""
        return self.broker(directory / "second", self.new, self.first.port)

    def broker(self, directory: Path, store: Path, port: int = 0) -> JavaBroker:
        return JavaBroker(directory, self.namesrv, name=self.name, port=port, store=store, properties=self.properties)


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


def has_every_survivor(place: Place, damage: Callable[[Path, list[Unit], int], set[int]]) -> None:
    """A course: the real broker fills a store, goes on with the repaired one, and our store opens that before and after it."""
    rig = Rig(place.directory, place.name_server(), f"broker-{damage.__name__}")
    place.kept.callback(rig.first.end)
    rig.first.start()
    send(rig.first.address, 0, rig.messages)
    rig.first.kill()
    before = units_of(rig.old)
    sent = [unit for unit in before if ours(unit)]
    assert len(sent) == rig.messages
    lost = damage(rig.old, sent, rig.log_file_bytes)
    untouched = {path: path.read_bytes() for path in rig.old.rglob("*") if path.is_file() and path.stat().st_size < 1 << 23}

    report = repair(list_store(rig.old), rig.new, slots=SLOTS, queue_file_bytes=QUEUE_FILE_BYTES)

    assert {path: path.read_bytes() for path in untouched} == untouched
    assert report.counts["lost"] == (3 if damage is spoil_units else 2)
    gaps = {offset for gap in report.gaps if gap["topic"] == TOPIC for offset in range(gap["from"], gap["from"] + gap["count"])}
    assert gaps == {unit.message.queue_offset for unit in sent if number_of(unit) in lost}
    survivors = [unit for unit in sent if number_of(unit) not in lost]
    assert [number_of(unit) for unit in units_of(rig.new) if ours(unit)] == [number_of(unit) for unit in survivors]
    opens_in_our_store(rig, survivors)
    broker = rig.second(place.directory)
    place.kept.callback(broker.end)
    broker.start()
    read_by_mqadmin(rig, place.tools(), survivors)
    pulled_and_found(broker, survivors, lost)
    send(broker.address, rig.messages, 8)
    bounds = [bound(broker, queue_id) for queue_id in range(QUEUES)]
    assert bounds == [(rig.messages + 8) // QUEUES] * QUEUES
    broker.stop()
    opens_in_our_store(rig, survivors)


@plays(has_every_survivor, spoil_units, seconds=40)
def test_the_real_broker_has_every_survivor_of_spoilt_messages(course: Future[None]) -> None:
    course.result()


@plays(has_every_survivor, lose_files, seconds=28)
def test_the_real_broker_has_every_survivor_of_lost_files(course: Future[None]) -> None:
    course.result()


def opens_in_our_store(rig: Rig, survivors: list[Unit]) -> None:
    settings = StoreSettings(
        store_path_root_dir=str(rig.new),
        mapped_file_size_commit_log=rig.log_file_bytes,
        mapped_file_size_consume_queue=QUEUE_FILE_BYTES,
        max_hash_slot_num=SLOTS,
        max_index_num=int(SMALL_STORE["maxIndexNum"]),
    )
    opened = open_store(settings)
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


def read_by_mqadmin(rig: Rig, tools: JavaDriver, survivors: list[Unit]) -> None:
    """Every one of them, by the tool that nobody changed."""
    ids = [offset_message_id(unit.message.store_host, unit.message.physical_offset) for unit in survivors]
    for at in range(0, len(ids), IDS_A_CALL):
        call = ("queryMsgById", "-t", TOPIC, "-i", ",".join(ids[at : at + IDS_A_CALL]), "-n", rig.namesrv)
        printed = tools.mqadmin(*call)
        for unit, message_id in zip(survivors[at : at + IDS_A_CALL], ids[at : at + IDS_A_CALL], strict=True):
            assert message_id in printed.out, printed
            assert f"key{number_of(unit)}" in printed.out


def pulled_and_found(broker: JavaBroker, survivors: list[Unit], lost: set[int]) -> None:
    seen: list[int] = []
    for queue_id in range(QUEUES):
        offset, end = 0, bound(broker, queue_id)
        while offset < end:
            answer = pulled_once(broker.address, TOPIC, queue_id, offset)
            following = int(answer.ext_map()["nextBeginOffset"])
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
