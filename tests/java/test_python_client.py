"""The Python client beside the real RocketMQ 5.5.0: its broker, its producers, its consumers."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from rmq_client.blocking import Client, connect
from rmq_client.messages import Message
from tests.support.client_behaviours import BEHAVIOURS, QUEUES, Behaviour, play
from tests.support.client_faces import FACES, Face
from tests.support.clients import JavaDriver
from tests.support.java import java
from tests.support.process import until
from tests.support.subject import Subject, start_subject
from tests.support.talk import PATIENCE_S

pytestmark = pytest.mark.java


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Subject]:
    java()
    properties = {"enablePropertyFilter": "true", "messageDelayLevel": " ".join(["1s"] * 18)}
    running = start_subject("java", tmp_path_factory.mktemp("real"), properties=properties)
    yield running
    running.end()


@pytest.fixture(scope="module")
def client(real: Subject) -> Iterator[Client]:
    with connect(real.namesrv) as made:
        yield made


@pytest.mark.parametrize("face", FACES, ids=repr)
@pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=lambda one: one.__name__)
def test_on_the_real_broker(real: Subject, behaviour: Behaviour, face: Face, tmp_path: Path) -> None:
    play(behaviour, face, real.namesrv, tmp_path)


def test_a_stock_consumer_gets_what_python_sent(client: Client, real: Subject, clients: JavaDriver) -> None:
    topic = f"to-java-{clients.version.replace('.', '-')}"
    client.topics.create(topic, queues=QUEUES)
    producer = client.producer(f"{topic}-p")
    long = b"long " * 2_000
    plain = producer.send(Message(topic, "grün".encode(), tags="A", keys=["k1", "k2"], properties={"x": "1"}))
    packed = producer.send(Message(topic, long))
    [batch] = producer.send_batch([Message(topic, b"b%d" % number) for number in range(3)])
    clients.call("push.start", name=topic, group=f"{topic}-g", namesrv=real.namesrv, topic=topic)
    try:
        found = {message["msg_id"]: message for message in clients.wait_messages(topic, 5)}
    finally:
        clients.call("push.stop", consumer=topic)
    assert found.keys() == {plain.message_id, packed.message_id, *batch.message_id.split(",")}
    first = found[plain.message_id]
    assert (first["body"], first["tags"], first["keys"]) == ("grün", "A", "k1 k2")
    assert first["offset_msg_id"] == plain.offset_message_id
    last = found[packed.message_id]
    assert (last["length"], last["crc"]) == (len(long), zlib.crc32(long))


def test_python_gets_what_a_stock_producer_sent(client: Client, real: Subject, clients: JavaDriver) -> None:
    topic = f"from-java-{clients.version.replace('.', '-')}"
    client.topics.create(topic, queues=QUEUES)
    clients.call("producer.start", name=topic, group=f"{topic}-p", namesrv=real.namesrv)
    try:
        [short] = clients.call("send", producer=topic, topic=topic, body="short", tags="A", keys="k1 k2")
        clients.call("send", producer=topic, topic=topic, body="long " * 2_000)
    finally:
        clients.call("producer.stop", producer=topic)
    puller = client.puller()
    until(lambda: sum(map(puller.max_offset, puller.queues(topic))) == 2, "both", seconds=PATIENCE_S)
    came = [message for queue in puller.queues(topic) for message in puller.messages(queue)]
    found = {message.message_id: message for message in came}
    assert len(found) == 2
    first = found[short["msg_id"]]
    assert (first.body, first.tags, first.keys) == (b"short", "A", ["k1", "k2"])
    assert {message.body for message in found.values()} == {b"short", b"long " * 2_000}
