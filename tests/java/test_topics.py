"""Topics that change under stock producers and consumers, 5.5.0 and 4.9.8: more queues and fewer, other permissions, attributes.

Clients look for changes of a route each second here instead of each 30 s, and share queues anew as often.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.java.flows import drain, producer, push, queues_of
from tests.support import remoting
from tests.support.clients import JavaDriver, JavaError
from tests.support.java import REFERENCE
from tests.support.process import until
from tests.support.subject import Subject

pytestmark = pytest.mark.java

Fresh = Callable[[str], str]
SECONDS = 240.0
UPDATE_AND_CREATE_TOPIC, GET_TOPIC_CONFIG = 17, 351
READ, WRITE = 4, 2
NO_PERMISSION = 16
AT_EACH_SIZE = 50
"""Messages that are acknowledged between two changes, at least."""


def shape(subject: Subject, topic: str, *, read: int, write: int, perm: int = READ | WRITE, attributes: str = "") -> None:
    """What `mqadmin updateTopic` asks of the one broker; the name server has heard of it."""
    fields = {"topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false", "defaultTopic": "TBW102", "perm": str(perm)}
    queues = {"readQueueNums": str(read), "writeQueueNums": str(write), "attributes": attributes}
    answer = remoting.ask(subject.address, UPDATE_AND_CREATE_TOPIC, {"topic": topic, **fields, **queues})
    assert answer.code == 0, answer

    def is_routed() -> bool:
        route = remoting.ask(subject.namesrv, remoting.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
        found = [] if route.code else route.json()["queueDatas"]
        return [(one["readQueueNums"], one["writeQueueNums"], one["perm"]) for one in found] == [(read, write, perm)]

    until(is_routed, f"the route of {topic}", seconds=SECONDS)


def test_queues_come_and_go_while_messages_flow(subject: Subject, clients: JavaDriver, fresh: Fresh) -> None:
    """Two queues, six, one: writers leave a queue first, readers when they have read it; nothing is lost, nobody stands still."""
    topic, flood = fresh("resized"), fresh("flood")
    shape(subject, topic, read=2, write=2)
    with producer(clients, subject, fresh) as p, push(clients, subject, fresh, topic) as c:
        clients.call("flood.start", flood=flood, producer=p, topic=topic, body="m", pause_ms=5)

        def more() -> None:
            before = clients.call("flood.count", flood=flood)
            until(lambda: clients.call("flood.count", flood=flood) >= before + AT_EACH_SIZE, "more messages", seconds=SECONDS)

        def written(count: int) -> bool:
            return len(clients.call("producer.queues", producer=p, topic=topic)) == count

        def read(count: int) -> bool:
            return sorted(queue for _, queue in queues_of(clients, c, topic)) == list(range(count))

        more()
        shape(subject, topic, read=6, write=2)
        until(lambda: read(6), "six queues to read", seconds=SECONDS)
        shape(subject, topic, read=6, write=6)
        until(lambda: written(6), "six queues to write", seconds=SECONDS)
        until(lambda: {m["queue"] for m in clients.messages(c)} == set(range(6)), "messages in all of them", seconds=SECONDS)
        shape(subject, topic, read=6, write=1)
        until(lambda: written(1), "one queue to write", seconds=SECONDS)
        more()
        until(lambda: len({m["queue"] for m in clients.messages(c)[-20:]}) == 1, "all in one queue", seconds=SECONDS)
        shape(subject, topic, read=1, write=1)
        until(lambda: read(1), "one queue to read", seconds=SECONDS)
        more()
        outcome = clients.call("flood.stop", flood=flood)
        assert outcome["failed"] == []
        clients.wait_messages(c, len(outcome["acknowledged"]))
        received = [m["body"] for m in clients.messages(c)]
    assert sorted(set(received)) == sorted(outcome["acknowledged"])


def test_a_queue_that_is_taken_away_too_early_is_read_when_it_comes_back(
    subject: Subject, clients: JavaDriver, fresh: Fresh
) -> None:
    topic, group = fresh("resized"), fresh("group")
    shape(subject, topic, read=2, write=2)
    with producer(clients, subject, fresh) as p:
        at = {"producer": p, "topic": topic, "broker": subject.broker_name, "form": "queue", "count": 5}
        for queue in (0, 1):
            clients.call("send", queue=queue, body=f"q{queue}-", **at)
        shape(subject, topic, read=1, write=1)
        with push(clients, subject, fresh, topic, group=group) as c:
            clients.wait_messages(c, 5)
            assert {m["queue"] for m in clients.messages(c)} == {0}
            with pytest.raises(JavaError) as refused:
                clients.call("send", queue=1, body="none", **{**at, "count": 1})
            assert refused.value.code == 29
            shape(subject, topic, read=2, write=2)
            clients.wait_messages(c, 10)
            assert sorted(m["body"] for m in clients.messages(c)) == [f"q{queue}-{i}" for queue in (0, 1) for i in range(5)]


def test_permissions_come_and_go(subject: Subject, clients: JavaDriver, fresh: Fresh) -> None:
    """Without READ messages wait; without WRITE a producer that has seen it does not send."""
    topic = fresh("perm")
    shape(subject, topic, read=1, write=1)
    with producer(clients, subject, fresh) as p, push(clients, subject, fresh, topic) as c:
        clients.call("send", producer=p, topic=topic, body="first")
        clients.wait_messages(c, 1)
        shape(subject, topic, read=1, write=1, perm=WRITE)
        with pytest.raises(JavaError) as refused:
            drain(clients, subject, fresh, topic, 0)
        assert refused.value.code == NO_PERMISSION
        clients.call("send", producer=p, topic=topic, body="unread")
        shape(subject, topic, read=1, write=1, perm=READ)
        clients.wait_messages(c, 2)

        def is_refused() -> bool:
            try:
                clients.call("send", producer=p, topic=topic, body="too late")
            except JavaError:
                return True
            return False

        until(is_refused, "a producer that does not send", seconds=SECONDS)
        shape(subject, topic, read=1, write=1)
        until(lambda: not is_refused(), "a producer that sends", seconds=SECONDS)
        stored = [m["body"] for m in drain(clients, subject, fresh, topic, 0)]
        clients.wait_messages(c, len(stored))
        assert sorted(m["body"] for m in clients.messages(c)) == sorted(stored)


def test_a_type_is_kept_and_shown_and_not_enforced(subject: Subject, clients: JavaDriver, fresh: Fresh) -> None:
    """`message.type=DELAY` takes messages without a delay from remoting clients; only the proxy looks at it."""
    topic = fresh("typed")
    shape(subject, topic, read=1, write=1, attributes="+message.type=DELAY")
    with producer(clients, subject, fresh) as p:
        [sent] = clients.call("send", producer=p, topic=topic, body="at once")
    assert sent["status"] == "SEND_OK"
    assert [m["body"] for m in drain(clients, subject, fresh, topic, 0)] == ["at once"]
    shown = remoting.ask(subject.address, GET_TOPIC_CONFIG, {"topic": topic}).json()
    assert shown["attributes"] == {"message.type": "DELAY"}


@pytest.mark.parametrize("clients", [REFERENCE], indirect=True)
def test_attributes_by_mqadmin(subject: Subject, clients: JavaDriver, fresh: Fresh) -> None:
    topic = fresh("attributes")
    call = ("updateTopic", "-n", subject.namesrv, "-b", subject.address, "-t", topic, "-r", "1", "-w", "1")
    assert "message.type=FIFO" in clients.mqadmin(*call, "-a", "+message.type=FIFO").out
    for change, words in (
        ("+message.type=SOMETHING", "value is not in set: "),
        ("+cleanup.policy=DELETE", "attempt to update an unchangeable attribute. key: cleanup.policy"),
        ("+no.such=1", "unsupported key: no.such"),
    ):
        printed = clients.mqadmin(*call, "-a", change)
        assert words in printed.out + printed.err, printed


def test_a_topic_to_be_compacted_is_read_as_it_was_written(subject: Subject, clients: JavaDriver, fresh: Fresh) -> None:
    """Java compacts it a quarter of an hour later, ours does not: until then readers see every message, with either."""
    topic = fresh("compaction")
    shape(subject, topic, read=1, write=1, attributes="+cleanup.policy=COMPACTION")
    with producer(clients, subject, fresh, retries=0) as p, push(clients, subject, fresh, topic) as c:
        for i in range(3):
            clients.call("send", producer=p, topic=topic, body=f"v{i}", keys="k")
        with pytest.raises(JavaError, match="Required message key is missing") as refused:
            clients.call("send", producer=p, topic=topic, body="no key")
        clients.wait_messages(c, 3)
        assert sorted(m["body"] for m in clients.messages(c)) == ["v0", "v1", "v2"]
    assert refused.value.code == 13
