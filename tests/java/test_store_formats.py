"""The formats that are off by default, ours and the real broker by turns on one directory.

Our store writes batches, light queues, extensions and check sums over units into a log in two directories.  The Java broker, told
to believe only those check sums, makes its queues from that log alone: they equal ours.  It goes on, we take over, and it again.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

import pytest

from rmq_store.log.draft import Draft
from rmq_store.settings import StoreSettings
from rmq_store.store import Store
from rmq_wire.batch import Item, pack_items
from rmq_wire.codes import RequestCode
from rmq_wire.implied.index_keys import index_keys
from rmq_wire.implied.tags import tags_code
from rmq_wire.message import read_unit
from rmq_wire.sys_flag import INNER_BATCH, NEED_UNWRAP
from tests.java.flows import drain, producer, push
from tests.java.golden_formats import Sender
from tests.support import remoting
from tests.support.clients import JavaDriver
from tests.support.courses import Place, plays
from tests.support.golden_formats import BATCH, BATCH_PROPERTIES, LIGHT, LIGHT_PROPERTIES, SMALL_FILES, in_queue, settings
from tests.support.process import until
from tests.support.reference import JavaBroker
from tests.support.store_rig import START_MS, open_store
from tests.support.subject import Subject
from tests.support.talk import pulled_once

pytestmark = pytest.mark.java

HOST = bytes((127, 0, 0, 1)) + (10911).to_bytes(4, "big")
QUEUE_DIRECTORIES = ("consumequeue", "batchconsumequeue", "consumequeue_ext")
COUNT = 60
Bounds = dict[tuple[str, int], int]


def all_on(store: Path) -> StoreSettings:
    both = {name: getattr(settings(store, BATCH), name) for name in ("enable_consume_queue_ext",)}
    sizes = {"mapped_file_size_consume_queue_ext": 210, "mapper_file_size_batch_consume_queue": 460}
    return settings(store, LIGHT, **both, **sizes, force_verify_prop_crc=True)


def ours(store: Path) -> Store:
    return open_store(all_on(store), has_batch_queues=lambda topic: topic == "Packed")


def put(store: Store, topic: str, number: int, properties: str, flags: int = 0) -> None:
    unique = f"7F0000010007AAAA{number:016X}"
    encoded = f"UNIQ_KEY\x01{unique}\x02TAGS\x01Tag{number % 2}\x02{properties}".encode()
    tags = f"Tag{number % 2}"
    one = Draft(
        topic,
        0,
        b"%d" % number,
        encoded,
        START_MS,
        HOST,
        HOST,
        sys_flag=flags,
        tags_code=tags_code(tags),
        keys=index_keys(unique, None, tags),
    )
    store.stage(one, START_MS + number)
    store.commit()
    store.dispatch(START_MS + number)


def fill(store: Store, first: int, count: int) -> None:
    for number in range(first, first + count):
        put(store, "Packed", number, f"INNER_NUM\x01{number % 4 + 1}\x02", INNER_BATCH | NEED_UNWRAP)
        put(store, "Packed", number, "")
        put(store, "Lit", number, f"INNER_MULTI_DISPATCH\x01%LMQ%a,%LMQ%b{number % 3}\x02")
        put(store, "Plain", number, "")


def bounds(store: Store) -> Bounds:
    return {(topic, queue): high for topic, queues in store.topics().items() for queue, (_, high) in queues.items()}


def ask_bounds(broker: JavaBroker, wanted: Bounds) -> Bounds:
    found = {}
    for topic, queue_id in wanted:
        answer = remoting.ask(broker.address, RequestCode.GET_MAX_OFFSET, {"topic": topic, "queueId": str(queue_id)})
        found[topic, queue_id] = int(answer.ext["offset"])
    return found


def pulled(broker: JavaBroker, topic: str, offset: int) -> list[bytes]:
    answer = pulled_once(broker.address, topic, 0, offset)
    assert answer.code == 0, answer
    bodies, data = [], answer.body
    while data:
        unit = read_unit(data)
        bodies.append(bytes(unit.body))
        data = data[unit.total_size :]
    return bodies


def files_of(store: Path, *under: str) -> dict[str, bytes]:
    return {
        str(path.relative_to(store)): path.read_bytes()
        for directory in under
        for path in sorted((store / directory).rglob("*"))
        if path.is_file()
    }


def java_sends(broker: JavaBroker) -> None:
    sender = Sender(broker)
    for number in range(5):
        items = [Item(0, b"%d-%d" % (number, n), b"A\x01b\x02") for n in range(3)]
        assert sender.send("Packed", 0, pack_items(items), "TAGS\x01TagJ\x02", batch=True).code == 0
        assert sender.send("Lit", 0, b"java %d" % number, "INNER_MULTI_DISPATCH\x01%LMQ%a,%LMQ%j\x02").code == 0
        assert sender.send("Plain", 0, b"java %d" % number, "TAGS\x01Tag0\x02").code == 0


def by_turns(place: Place) -> None:
    """A course: our store, the real broker, and so on; the last stop is a kill."""
    store = place.directory / "store"
    log = {"storePathCommitLog": f"{store}/logs-a,{store}/logs-b", "forceVerifyPropCRC": "true"}
    properties = {**SMALL_FILES, **LIGHT_PROPERTIES, **BATCH_PROPERTIES, **log}
    broker = JavaBroker(
        place.directory / "broker", place.name_server(), name="broker-formats", store=store, properties=properties
    )
    place.kept.callback(broker.end)
    (store / "config").mkdir(parents=True)
    table = {
        name: {
            "topicName": name,
            "readQueueNums": 1,
            "writeQueueNums": 1,
            "perm": 6,
            "topicFilterType": "SINGLE_TAG",
            "attributes": {"queue.type": "BatchCQ"} if name == "Packed" else {},
        }
        for name in ("Packed", "Lit", "Plain")
    }
    (store / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": table}))
    mine = ours(store)
    fill(mine, 0, COUNT)
    expected = bounds(mine)
    assert mine.close(START_MS)
    assert len(files_of(store, "logs-a", "logs-b")) < 10, "Java looks at ten files at most"
    before = files_of(store, *QUEUE_DIRECTORIES)
    for directory in QUEUE_DIRECTORIES:
        shutil.rmtree(store / directory)

    broker.start()
    until(lambda: ask_bounds(broker, expected) == expected, "Java's queues from our log")
    assert pulled(broker, "%LMQ%a", COUNT - 2) == [b"%d" % (COUNT - 2), b"%d" % (COUNT - 1)]
    assert pulled(broker, "Packed", 1)[:3] == [b"0", b"1", b"1"]
    broker.stop()
    rebuilt = files_of(store, *QUEUE_DIRECTORIES)
    assert rebuilt.keys() == before.keys()
    for name, data in before.items():
        assert rebuilt[name] == data, name

    broker.start()
    java_sends(broker)
    grown = {**expected, ("Packed", 0): expected["Packed", 0] + 15, ("%LMQ%j", 0): 5}
    grown |= {(topic, 0): expected[topic, 0] + 5 for topic in ("Lit", "Plain", "%LMQ%a")}
    until(lambda: ask_bounds(broker, grown) == grown, "what Java added")
    broker.stop()
    was = files_of(store, *QUEUE_DIRECTORIES, "logs-a", "logs-b")
    mine = ours(store)
    assert mine.report.clean, mine.report
    assert bounds(mine) == grown
    assert in_queue(mine, "%LMQ%j") == [b"java %d" % number for number in range(5)]
    assert len(in_queue(mine, "Packed")) == 2 * COUNT + 5
    assert mine.close(START_MS)
    assert files_of(store, *QUEUE_DIRECTORIES, "logs-a", "logs-b") == was, "a clean start and stop rewrote something"
    mine = ours(store)
    fill(mine, COUNT, 10)
    grown = bounds(mine)
    assert mine.close(START_MS)

    broker.start()
    assert ask_bounds(broker, grown) == grown
    java_sends(broker)
    broker.kill()
    mine = ours(store)
    assert not mine.report.clean
    after = bounds(mine)
    assert after["Packed", 0] == grown["Packed", 0] + 15
    assert after["%LMQ%j", 0] == 10
    assert in_queue(mine, "%LMQ%j")[5:] == [b"java %d" % number for number in range(5)]
    assert mine.close(START_MS)


@plays(by_turns, seconds=60)
def test_by_turns(course: Future[None]) -> None:
    course.result()


def test_stock_clients_send_and_unwrap(subject: Subject, clients: JavaDriver, fresh: Callable[[str], str]) -> None:
    """A stock producer's batch into a batch queue is stored as one unit; stock consumers take it apart again."""
    topic = fresh("packed")
    fields = {
        "topic": topic,
        "defaultTopic": "TBW102",
        "readQueueNums": "1",
        "writeQueueNums": "1",
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0",
        "order": "false",
        "attributes": "+queue.type=BatchCQ",
    }
    assert remoting.ask(subject.address, RequestCode.UPDATE_AND_CREATE_TOPIC, fields).code == 0
    at = {"topic": topic, "broker": subject.broker_name, "queue": 0}
    with producer(clients, subject, fresh) as p:
        for number in range(3):
            body = f"batch-{number}"
            answers = clients.call("send", producer=p, form="batch", count=4, body=body, tags="TagA,TagB", **at)
            assert [answer["offset"] for answer in answers] == [number * 5]
            clients.call("send", producer=p, form="queue", body=f"single-{number}", **at)
    found = drain(clients, subject, fresh, topic, 0)
    bodies = [message["body"] for message in found]
    assert len(bodies) == len(set(bodies)) == 15
    with push(clients, subject, fresh, topic) as c:
        until(lambda: len(clients.messages(c)) >= 15, "all messages")
        assert sorted(message["body"] for message in clients.messages(c)) == sorted(bodies)
