"""Stock Java clients and the Python client give each other messages, in every way of sending and of consuming."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator

import pytest

from rmq_client.blocking import Client, connect
from rmq_client.messages import Message
from tests.support.clients import JavaDriver
from tests.support.process import until
from tests.support.subject import Subject
from tests.support.talk import PATIENCE_S

pytestmark = pytest.mark.java
QUEUES = 4
FIRST = "CONSUME_FROM_FIRST_OFFSET"
LONG = b"long " * 2_000


@pytest.fixture(scope="module")
def client(subject: Subject) -> Iterator[Client]:
    with connect(subject.namesrv) as made:
        yield made


FORMS = ("sync", "oneway", "async", "batch", "queue", "selector")
CONSUMING = {
    "concurrently": {},
    "orderly": {"orderly": True},
    "broadcasting": {"message_model": "BROADCASTING"},
    "in batches": {"consume_message_batch_max_size": 8},
}


@pytest.mark.parametrize("how", CONSUMING)
def test_python_consumes_whatever_java_sends(
    client: Client,
    subject: Subject,
    clients: JavaDriver,
    fresh: Callable[[str], str],
    how: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    topic = fresh("java-sends")
    client.topics.create(topic, queues=QUEUES)
    seen: list[tuple[str, str | None, int, int]] = []

    def listen(messages, context) -> None:
        seen.extend((one.body.decode(), one.tags, one.queue.queue_id, one.queue_offset) for one in messages)

    settings = {"consume_from_where": FIRST, "local_offset_store_dir": tmp_path_factory.mktemp("offsets"), **CONSUMING[how]}
    common = {"producer": topic, "topic": topic, "tags": "A,B,C", "count": 6}
    clients.call("producer.start", name=topic, group=f"{topic}-p", namesrv=subject.namesrv)
    clients.call("producer.start", name=f"{topic}-t", group=f"{topic}-t", namesrv=subject.namesrv, transactions=True)
    try:
        for form in FORMS:
            where = {"broker": subject.broker_name, "queue": 1} if form == "queue" else {}
            clients.call("send", **common, body=f"{form}-", form=form, **where)
        clients.call("send", **common, body="delayed-", delay=1)
        transactional = {**common, "producer": f"{topic}-t", "form": "transaction"}
        clients.call("send", **transactional, body="committed-", outcome="COMMIT_MESSAGE")
        clients.call("send", **transactional, body="rolled-back-", outcome="ROLLBACK_MESSAGE")
        clients.call("send", producer=topic, topic=topic, body=LONG.decode(), tags="B")
        expected = {f"{form}-{number}" for form in (*FORMS, "delayed", "committed") for number in (0, 1, 3, 4)} | {LONG.decode()}
        with client.push_consumer(f"{topic}-g", {topic: "A || B"}, listen, **settings):
            until(lambda: {body for body, *_ in seen} >= expected, "all that is wanted", seconds=PATIENCE_S)
    finally:
        for name in (topic, f"{topic}-t"):
            clients.call("producer.stop", producer=name)
    assert {body for body, *_ in seen} == expected
    assert {tag for _, tag, *_ in seen} == {"A", "B"}
    if how == "orderly":
        for queue in range(QUEUES):
            offsets = [offset for _, _, at, offset in seen if at == queue]
            assert offsets == sorted(offsets)


@pytest.mark.parametrize("how", [{}, {"orderly": True}, {"model": "BROADCASTING"}, {"batch": 8}], ids=str)
def test_java_consumes_whatever_python_sends(
    client: Client, subject: Subject, clients: JavaDriver, fresh: Callable[[str], str], how: dict[str, object]
) -> None:
    topic = fresh("python-sends")
    client.topics.create(topic, queues=QUEUES)
    producer = client.producer(f"{topic}-p")
    [queue, *_] = producer.queues(topic)
    for number, tag in enumerate("ABC"):
        producer.send(Message(topic, b"sync-%d" % number, tags=tag, keys=[f"k{number}"]))
        producer.send_oneway(Message(topic, b"oneway-%d" % number, tags=tag))
        producer.send(Message(topic, b"queue-%d" % number, tags=tag), queue=queue)
        producer.send(Message(topic, b"key-%d" % number, tags=tag), order_key="one")
        producer.send(Message(topic, b"delayed-%d" % number, tags=tag, delay_time_level=1))
        producer.send_batch([Message(topic, b"batch-%d" % number, tags=tag)] * 2)
    producer.send(Message(topic, LONG, tags="A"))
    expected = {f"{form}-{number}" for form in ("sync", "oneway", "queue", "key", "delayed", "batch") for number in (0, 1)}
    start = {"name": topic, "group": f"{topic}-g", "namesrv": subject.namesrv, "topic": topic, "expression": "A || B"}
    clients.call("push.start", **start, **how)
    try:
        found = clients.wait_messages(topic, len(expected) + 2 + 1)
    finally:
        clients.call("push.stop", consumer=topic)
    short = [message for message in found if message["body"] is not None]
    assert {message["body"] for message in short} == expected
    assert sum(message["body"].startswith("batch-") for message in short) == 4
    assert (len(LONG), zlib.crc32(LONG)) in {(message["length"], message["crc"]) for message in found}
    assert {message["tags"] for message in found} == {"A", "B"}
    if "orderly" in how:
        keyed = [(message["queue"], message["offset"]) for message in short if message["body"].startswith("key-")]
        assert keyed == sorted(keyed)
        assert len({queue for queue, _ in keyed}) == 1
