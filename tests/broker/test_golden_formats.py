"""Sends to a broker with formats that are off by default: our broker stores and answers what the real one did.

The requests and answers are those of `told.json` in the golden stores; the message ids compared have the places that the messages
got there, so the whole log is the same but for times, hosts and what Java gets wrong.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rmq_columns.checks.scope import Scope
from rmq_inspect.decode.directory import list_store
from rmq_inspect.verify.verify import verify
from rmq_wire.batch import Item, pack_items
from rmq_wire.headers.send import SendBatchMessage, SendMessageV2
from rmq_wire.message import StoredMessage
from rmq_wire.properties import decode
from tests.support.engine import Harness
from tests.support.golden_formats import BATCH, BATCH_PROPERTIES, LIGHT, LIGHT_PROPERTIES, SMALL_FILES, units
from tests.support.requests import SUBSCRIPTION, SUSPEND, pairs, pull, send
from tests.support.requests import units as units_of

STORE_HOST_BYTES = 8
BATCHES: dict[str, Any] = {**SMALL_FILES, **BATCH_PROPERTIES}
LIGHTS: dict[str, Any] = {**SMALL_FILES, **LIGHT_PROPERTIES}
CHECK_SUM = "__CRC32#"


def replayed(harness: Harness, golden: Path) -> list[tuple[dict[str, Any], Any]]:
    """Every request of the golden store, with what we answered."""
    client = harness.connect()
    found = []
    for entry in json.loads((golden / "told.json").read_text()):
        kind = SendBatchMessage if entry["fields"]["m"] == "true" else SendMessageV2
        found.append((entry, client.ask(kind.decode(entry["fields"]), bytes.fromhex(entry["body"]))))
    harness.driver.advance(3_000)
    return found


def place(ext: dict[str, str]) -> list[int]:
    return [int(one[2 * STORE_HOST_BYTES :], 16) for one in ext.get("msgId", "").split(",") if one]


def same(ours: StoredMessage, theirs: StoredMessage) -> None:
    here: dict[str, Any] = {"store_timestamp": 0, "born_host": b"", "store_host": b""}
    mine, java = (unit._replace(**here, body=bytes(unit.body)) for unit in (ours, theirs))
    values, wanted = (decode(unit.properties.decode()) for unit in (mine, java))
    assert (CHECK_SUM in values) is (CHECK_SUM in wanted)
    for found in (values, wanted):
        found.pop(CHECK_SUM, None)
    assert list(values.items()) == list(wanted.items())
    assert mine._replace(properties=b"", total_size=0) == java._replace(properties=b"", total_size=0)


def test_batches_to_batch_queues(tmp_path: Path) -> None:
    harness = Harness(tmp_path, **BATCHES)
    harness.topic("Packed", 2, attributes={"+queue.type": "BatchCQ"})
    harness.topic("Plain", 1)
    for entry, answer in replayed(harness, BATCH):
        assert (answer.code, answer.remark) == (entry["code"], entry["remark"])
        ours, theirs = answer.ext_map(), entry["ext"]
        assert place(ours) == place(theirs)
        assert {**ours, "msgId": ""} == {**theirs, "msgId": ""}
    for _ in range(2):
        stored = [*harness.stored("Packed", 0), *harness.stored("Packed", 1), *harness.stored("Plain", 0)]
        wanted = [unit for unit in units(BATCH) if unit.topic in (b"Packed", b"Plain")]
        assert len(stored) == len(wanted)
        for mine, java in zip(sorted(stored, key=lambda unit: unit.physical_offset), wanted, strict=True):
            same(mine, java)
        harness.restart()
    assert harness.node.close()
    assert not (tmp_path / "consumequeue" / "Packed").exists()
    report = verify(list_store(tmp_path), Scope(workers=1))
    assert (report.listed(), report.messages) == ([], len(units(BATCH)))


def test_messages_to_light_queues(tmp_path: Path) -> None:
    logs = f"{tmp_path}/logs-a,{tmp_path}/logs-b"
    harness = Harness(tmp_path, **LIGHTS, storePathCommitLog=logs)
    harness.topic("Plain", 2)
    harness.topic("Lit", 2)
    shift = 0
    for entry, answer in replayed(harness, LIGHT):
        assert (answer.code, answer.remark) == (entry["code"], entry["remark"])
        ours, theirs = answer.ext_map(), entry["ext"]
        assert place(ours)[0] == place(theirs)[0] + shift
        if len(place(ours)) > 1:
            shift = 1  # the separator that Java forgets in a batch
        assert {**ours, "msgId": ""} == {**theirs, "msgId": ""}
    for _ in range(2):
        for topic, queue_id in (("%LMQ%a", 0), ("%LMQ%b", 0), ("%LMQ%c", 0), ("%LMQ%$Lit$room", 0), ("Plain", 0), ("Lit", 1)):
            stored = harness.stored(topic, queue_id)
            if topic.startswith("%LMQ%"):
                wanted = [u for u in units(LIGHT) if topic in _dispatched(u)]
            else:
                wanted = [u for u in units(LIGHT) if (u.topic.decode(), u.queue_id) == (topic, queue_id)]
            assert len(stored) == len(wanted), topic
            for mine, java in zip(stored, wanted, strict=True):
                same(mine._replace(physical_offset=java.physical_offset), java)
        harness.restart()
    assert [path.parent.name for path in sorted(tmp_path.glob("logs-*/*"))] == ["logs-a", "logs-b"]
    assert harness.node.close()
    report = verify(list_store(tmp_path, [tmp_path / "logs-a", tmp_path / "logs-b"]), Scope(workers=1))
    assert (report.listed(), report.messages) == ([], len(units(LIGHT)))


def _dispatched(unit: StoredMessage) -> list[str]:
    values = decode(unit.properties.decode())
    return values["INNER_MULTI_DISPATCH"].split(",") if "INNER_MULTI_QUEUE_OFFSET" in values else []


def test_light_groups_keep_their_progress(tmp_path: Path) -> None:
    harness = Harness(tmp_path, **LIGHTS)
    harness.topic("Lit", 1)
    client = harness.connect()
    fields = {"a": "P", "b": "Lit", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0", "j": "0", "k": "false"}
    for _ in range(3):
        client.ask(SendMessageV2.decode({**fields, "i": "INNER_MULTI_DISPATCH\x01%LMQ%a\x02"}), b"x")
    offsets = harness.node.offsets
    offsets.commit("%LMQ%g", "%LMQ%a", 0, 2)
    offsets.commit("plain", "%LMQ%a", 0, 1)
    offsets.commit("%LMQ%g", "%LMQ%b", 0, 9)
    harness.restart()
    offsets = harness.node.offsets
    assert (offsets.query("%LMQ%g", "%LMQ%a", 0), offsets.query("plain", "%LMQ%a", 0)) == (2, 1)
    assert offsets.query("%LMQ%g", "%LMQ%b", 0) == 0, "no further than the queue goes"
    assert offsets.queues("%LMQ%g", "%LMQ%a") == {0: 2}
    list(offsets.dropping_group("%LMQ%g"))
    assert offsets.query("%LMQ%g", "%LMQ%a", 0) == -1
    written = json.loads((tmp_path / "config" / "lmqConsumerOffset.json").read_text().replace("0:", '"0":'))
    assert list(written) == ["dataVersion", "groupTopicMap", "lmqOffsetTable", "offsetTable", "pullOffsetTable"]
    assert written["lmqOffsetTable"]["%LMQ%a@%LMQ%g"] == 2
    assert "%LMQ%a" not in harness.node.topics.table
    assert harness.node.topics.get("%LMQ%a") is not None


@pytest.mark.parametrize(("most", "code"), [(1, 2017), (2, 0)])
def test_one_light_queue_too_many(tmp_path: Path, most: int, code: int) -> None:
    harness = Harness(tmp_path, **LIGHTS, maxLmqConsumeQueueNum=most)
    harness.topic("Lit", 1)
    fields = {"a": "P", "b": "Lit", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0", "j": "0", "k": "false"}
    asked = SendMessageV2.decode({**fields, "i": "INNER_MULTI_DISPATCH\x01%LMQ%a,%LMQ%b\x02"})
    assert harness.connect().ask(asked, b"x").code == code


def test_light_queues_are_pulled_and_waited_for(tmp_path: Path) -> None:
    harness = Harness(tmp_path, **LIGHTS)
    harness.topic("Lit", 2)
    producer, consumer = harness.connect(), harness.connect()
    lit = pairs(UNIQ_KEY="7F000001" + "0" * 24, TAGS="A", INNER_MULTI_DISPATCH="%LMQ%a,%LMQ%b")
    producer.ask(send("Lit", 1, lit), b"one")
    found = consumer.ask(pull("%LMQ%a"))
    assert (found.code, [bytes(unit.body) for unit in units_of(found.body)]) == (0, [b"one"])
    waiting = consumer.send(pull("%LMQ%b", offset=1, flags=SUSPEND | SUBSCRIPTION))
    producer.ask(send("Lit", 0, lit), b"two")
    harness.driver.advance(100)
    answer = consumer.answers[waiting]
    assert (answer.code, [bytes(unit.body) for unit in units_of(answer.body)]) == (0, [b"two"])


def test_batches_are_pulled_as_they_came(tmp_path: Path) -> None:
    harness = Harness(tmp_path, **BATCHES)
    harness.topic("Packed", 1, attributes={"+queue.type": "BatchCQ"})
    client = harness.connect()
    items = pack_items([Item(0, b"%d" % n, b"") for n in range(5)])
    for _ in range(3):
        client.ask(send("Packed", 0, batch=True), items)
    found = client.ask(pull("Packed", offset=7))
    assert [unit.queue_offset for unit in units_of(found.body)] == [5, 10]
    assert {bytes(unit.body) for unit in units_of(found.body)} == {items}
    assert found.ext_map()["nextBeginOffset"] == "15"
    assert found.ext_map()["maxOffset"] == "15"


def test_kinds_of_topics_are_read_from_the_file_only_while_the_store_opens(tmp_path: Path) -> None:
    """Later the table is what counts: the file may be older."""
    harness = Harness(tmp_path, **BATCHES)
    harness.topic("First", 1)
    harness.node.persister.save(harness.node.topics)
    kept = (tmp_path / "config" / "topics.json").read_bytes()
    harness.topic("Packed", 1, attributes={"+queue.type": "BatchCQ"})
    harness.node.topics.delete("First")
    (tmp_path / "config" / "topics.json").write_bytes(kept)
    harness.connect().ask(send("Packed", 0, batch=True), pack_items([Item(0, b"x", b"")] * 2))
    assert harness.node.store.queue_bounds("Packed", 0) == (0, 2)
    assert "First" not in harness.node.topics
    assert len(harness.stored("Packed")) == 1
    harness.restart()
    assert len(harness.stored("Packed")) == 1
