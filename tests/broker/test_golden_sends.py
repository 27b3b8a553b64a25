"""Our broker fed with what stock producers and consumers sent to the real 5.5.0 broker must store and answer what that one did.

The requests, the answers and the store are those of `conformance/golden/store-5.5.0`.  Only places and times differ: physical and
queue offsets, store times, the port of the client, and the message id that a retry remembers, which is a place.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rmq_wire.batch import read_items
from rmq_wire.command import Command
from rmq_wire.conversation import Conversation
from rmq_wire.headers.send import SendMessageV2
from rmq_wire.headers.send_back import ConsumerSendMsgBack
from rmq_wire.message import MAGIC_BLANK, StoredMessage, read_size_and_magic, read_unit
from rmq_wire.message_id import host_address
from rmq_wire.properties import decode
from tests.support.engine import Harness
from tests.support.golden import STORE, exchanges, store_files
from tests.support.requests import props

SCHEDULE = "SCHEDULE_TOPIC_XXXX"
LATER_WINGS = ("TRAN_MSG", "TIMER_DELAY_MS")
"""Sends that our broker refuses: half messages and timers."""
SENDS, SEND_BACK = (10, 310, 320), 36


class Asked(NamedTuple):
    frame: bytes
    command: Command
    answer: bytes | None


def java_units() -> list[StoredMessage]:
    found = []
    for data in store_files("commitlog").values():
        at = 0
        while at + 8 <= len(data):
            size, magic = read_size_and_magic(data, at)
            if magic == MAGIC_BLANK or size == 0:
                break
            found.append(read_unit(data, at))
            at += size
    return found


def requests() -> Iterator[Asked]:
    """The requests in order, each with its answer (None: one-way)."""
    frames = [exchange.data for exchange in exchanges("frames", STORE)]
    commands: list[Any] = [next(iter(Conversation().feed(frame))).kept() for frame in frames]
    for at, command in enumerate(commands):
        if not command.is_response:
            answers = [n for n in range(at, len(commands)) if commands[n].is_response and commands[n].opaque == command.opaque]
            yield Asked(frames[at], command, frames[answers[0]] if answers and not command.is_oneway else None)


def identity(unit: StoredMessage) -> tuple[str, str, int, str | None]:
    """What tells messages apart: topic, unique key, attempts, delay."""
    values = props(unit)
    return unit.topic.decode(), values["UNIQ_KEY"], unit.reconsume_times, values.get("DELAY")


def comparable(unit: StoredMessage) -> dict[str, Any]:
    """Everything that is not a place or a time."""
    fields = unit._asdict()
    for name in ("physical_offset", "queue_offset", "store_timestamp", "born_host"):
        del fields[name]
    fields["body"] = bytes(unit.body)
    fields["properties"] = re.sub(rb"(ORIGIN_MESSAGE_ID\x01)[0-9A-F]{32}", rb"\1", unit.properties)
    return fields


JAVA = {identity(unit): unit for unit in java_units() if "UNIQ_KEY" in props(unit)}


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    ip, port = host_address(next(iter(JAVA.values())).store_host)
    harness = Harness(tmp_path, brokerIP1=ip, listenPort=port)
    harness.driver.advance(1_000)
    return harness


def keys_of(command: Command) -> list[str]:
    header = command.header(SendMessageV2)
    if header.batch:
        return [decode(item.properties.decode())["UNIQ_KEY"] for item in read_items(command.body)]
    return [decode(header.properties or "")["UNIQ_KEY"]]


def ours(harness: Harness, topic: str) -> dict[tuple[str, str, int, str | None], StoredMessage]:
    queues = harness.node.store.topics().get(topic, {})
    return {identity(unit): unit for queue in queues for unit in harness.stored(topic, queue)}


def header_members(frame: bytes) -> tuple[list[str], list[tuple[str, str]], Any]:
    """Names in order, ext fields in order without places, and the rest of a JSON answer."""
    size = int.from_bytes(frame[5:8], "big")
    header = json.loads(frame[8 : 8 + size])
    ext = [(name, "" if name in ("msgId", "queueOffset") else value) for name, value in header.pop("extFields", {}).items()]
    return list(header), ext, header


def sends() -> list[Asked]:
    found = []
    for asked in requests():
        if asked.command.code in SENDS:
            text = asked.command.header(SendMessageV2).properties or ""
            if not any(f"{name}\x01" in text for name in LATER_WINGS):
                found.append(asked)
    return found


def test_every_send_is_stored_and_answered_as_by_java(harness: Harness) -> None:
    client = harness.connect()
    compared = 0
    for asked in sends():
        client.raw(asked.frame)
        topic = asked.command.header(SendMessageV2).topic
        delayed = "DELAY\x01" in (asked.command.header(SendMessageV2).properties or "")
        where = SCHEDULE if delayed else topic
        stored = ours(harness, where)
        for key in keys_of(asked.command):
            [mine] = [unit for who, unit in stored.items() if who[1] == key]
            [theirs] = [unit for who, unit in JAVA.items() if who[:2] == (where, key) and who[2] == 0]
            assert comparable(mine) == comparable(theirs)
            compared += 1
        answer = client.answers.pop(asked.command.opaque, None)
        assert (answer is None) == (asked.answer is None)
    assert compared > 40


def test_the_answers_are_java_s_byte_for_byte_but_for_places(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    client = harness.connect()
    taken: list[bytes] = []
    monkeypatch.setattr(client, "receive", lambda chunks, _close: taken.extend(bytes(chunk) for chunk in chunks))
    for asked in sends():
        if asked.answer is None:
            continue
        taken.clear()
        client.raw(asked.frame)
        client.peer.unsent_bytes = 0
        mine = b"".join(taken)
        assert header_members(mine) == header_members(asked.answer)


def test_delays_retries_and_dead_letters_are_java_s(harness: Harness) -> None:
    client = harness.connect()
    for asked in sends():
        client.raw(asked.frame)
        client.answers.clear()
    harness.driver.advance(1_000)
    compared = []
    for who, theirs in JAVA.items():
        if "REAL_TOPIC" in props(theirs) and who[0].startswith("kinds-") and who[3] == "1":
            compared.append(who)
            assert comparable(ours(harness, who[0])[who]) == comparable(theirs)
    assert len(compared) == 2
    backs = [asked.command.header(ConsumerSendMsgBack) for asked in requests() if asked.command.code == SEND_BACK]
    by_place = {unit.physical_offset: unit for unit in java_units()}
    mine_by_java = {who: unit for topic in harness.node.store.topics() for who, unit in ours(harness, topic).items()}
    retried = 0
    for back in backs:
        original = identity(by_place[back.offset])
        mine = mine_by_java.get(original)
        if mine is None:
            continue  # of a transaction
        assert client.ask(ConsumerSendMsgBack(**{**_fields(back), "offset": mine.physical_offset})).code == 0
        harness.driver.advance(1_000)
        topics = [f"%DLQ%{back.group}"] if original[2] else [SCHEDULE, f"%RETRY%{back.group}"]
        for topic in topics:
            who = (topic, original[1], original[2] + 1, "0" if original[2] else "1")
            copy = ours(harness, topic)[who]
            assert comparable(copy) == comparable(JAVA[who])
            mine_by_java[who] = copy
            retried += 1
    assert retried >= 20


def _fields(back: ConsumerSendMsgBack) -> dict[str, Any]:
    return {name: getattr(back, name) for name in back.__struct_fields__}
