"""Short names for what most tests with stock clients do: a producer, a push consumer, reading a topic to its end."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from tests.support import remoting
from tests.support.clients import JavaDriver, JavaError, Message
from tests.support.java import OLD_CLIENT, REFERENCE
from tests.support.process import until
from tests.support.subject import Subject

QUERY_CONSUMER_OFFSET, QUERY_NOT_FOUND = 14, 22
Fresh = Callable[[str], str]
T = TypeVar("T")


def by_client(variants: Iterable[T], *, old: T) -> list[tuple[str, T]]:
    """Versions of the client and variants of a test: the new one has them all, the old one that in which it differs most."""
    return [*((REFERENCE, one) for one in variants), (OLD_CLIENT, old)]


@contextlib.contextmanager
def producer(clients: JavaDriver, subject: Subject, fresh: Fresh, **options: object) -> Iterator[str]:
    """A started producer, by its name in the driver."""
    name = fresh("producer")
    clients.call("producer.start", name=name, group=f"group-{name}", namesrv=subject.namesrv, **options)
    yield name
    clients.call("producer.stop", producer=name)


@contextlib.contextmanager
def push(
    clients: JavaDriver, subject: Subject, fresh: Fresh, topic: str, *, group: str | None = None, **options: object
) -> Iterator[str]:
    """A started push consumer that reads from the first offset, by its name in the driver."""
    name = fresh("push")
    clients.call("push.start", name=name, group=group or f"group-{name}", namesrv=subject.namesrv, topic=topic, **options)
    yield name
    clients.call("push.stop", consumer=name)


def queues_of(clients: JavaDriver, consumer: str, topic: str) -> list[tuple[str, int]]:
    """(broker name, queue id) of what a push consumer reads of a topic now."""
    reported = clients.call("push.queues", consumer=consumer)
    return [(queue["broker"], queue["queue"]) for queue in reported if queue["topic"] == topic]


def progress(subject: Subject, group: str, topic: str, queues: int = 4) -> list[int]:
    """How far the group is in each queue in which it has any progress."""
    found: list[int] = []
    for queue in range(queues):
        fields = {"consumerGroup": group, "topic": topic, "queueId": str(queue), "setZeroIfNotFound": "false"}
        answer = remoting.ask(subject.address, QUERY_CONSUMER_OFFSET, fields)
        assert answer.code in (0, QUERY_NOT_FOUND)
        found += [int(answer.ext["offset"])] if answer.code == 0 else []
    return found


def drain(
    clients: JavaDriver, subject: Subject, fresh: Fresh, topic: str, queue: int, broker: str | None = None
) -> list[Message]:
    """All messages of one queue, by the legacy pull consumer."""
    name = fresh("drain")
    clients.call("legacy.start", name=name, namesrv=subject.namesrv, group=f"group-{name}")
    try:
        return _drain(clients, name, topic, broker or subject.broker_name, queue)
    finally:
        clients.call("legacy.stop", consumer=name)


def drained(clients: JavaDriver, subject: Subject, fresh: Fresh, topic: str, queue: int) -> list[Message]:
    """The same; nothing as long as the topic is not there, or a client has not heard of its broker."""
    try:
        return drain(clients, subject, fresh, topic, queue)
    except JavaError:
        return []


def pull_all(clients: JavaDriver, subject: Subject, fresh: Fresh, topic: str, count: int) -> list[Message]:
    """Read all queues of a topic again and again until it has `count` messages; all that are there then."""
    name = fresh("drain")
    clients.call("legacy.start", name=name, namesrv=subject.namesrv, group=f"group-{name}")

    def read() -> list[Message]:
        queues = clients.call("legacy.queues", consumer=name, topic=topic)
        return [message for q in queues for message in _drain(clients, name, topic, q["broker"], q["queue"])]

    try:
        found: list[Message] = []

        def enough() -> bool:
            found[:] = read()
            return len(found) >= count

        until(enough, f"{count} messages in {topic}")
        return found
    finally:
        clients.call("legacy.stop", consumer=name)


def _drain(clients: JavaDriver, name: str, topic: str, broker: str, queue: int) -> list[Message]:
    found: list[Message] = []
    offset = 0
    while True:
        arguments: dict[str, Any] = {"consumer": name, "topic": topic, "broker": broker, "queue": queue, "offset": offset}
        result = clients.call("legacy.pull", **arguments)
        found += result["messages"]
        offset = result["next_offset"]
        if offset >= result["max_offset"]:
            return found
