"""Consumer groups under stock consumers and the stock tool: set back, begun anew, switched off, named at length.

The same outcome on the real broker (RMQ_SUBJECT=java) and on ours.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from rmq_wire.bodies.consumer_answers import ConsumerStatus
from tests.java.flows import by_client, producer, progress, push, queues_of
from tests.support import remoting
from tests.support.clients import JavaDriver, JavaError, Message
from tests.support.courses import Place, plays
from tests.support.java import REFERENCE
from tests.support.process import until
from tests.support.subject import SUBJECTS, Subject, start_subject

pytestmark = pytest.mark.java

Fresh = Callable[[str], str]
GROUP_CHARACTERS_MAX = 120
PLACES = ("FIRST_OFFSET", "LAST_OFFSET", "TIMESTAMP")
GET_CONSUMER_LIST_BY_GROUP, GET_CONSUMER_CONNECTION_LIST, UPDATE_AND_GET_GROUP_FORBIDDEN = 38, 203, 353
INVOKE_BROKER_TO_GET_CONSUMER_STATUS = 223
SYSTEM_ERROR = 1
DIFFERENT = "WARN: Different subscription in the same group of consumer!!!"
ADDRESS = "127.0.0.1@"
"""In the rows of members, which the tool prints before its judgement."""


def tool(clients: JavaDriver, subject: Subject, *words: str) -> str:
    """What mqadmin prints."""
    printed = clients.mqadmin(words[0], "-n", subject.namesrv, *words[1:])
    assert printed.status == 0, printed
    return printed.out + printed.err


def committed(clients: JavaDriver, subject: Subject, consumer: str, group: str, topic: str) -> None:
    """Wait until the group has no lag and the broker knows: by itself a client says nothing in its first ten seconds."""

    def settled() -> bool:
        clients.call("push.persist", consumer=consumer)
        rows = [line.split() for line in tool(clients, subject, "consumerProgress", "-g", group).splitlines()]
        found = [row for row in rows if row and row[0] == topic]
        return bool(found) and all(row[3] == row[4] for row in found)

    until(settled, f"the offsets of {group}")


def says_where_it_is(clients: JavaDriver, subject: Subject, consumer: str, group: str, topic: str) -> None:
    """The broker asks the group's one member (223, 221), which goes on behind what it was given last in each queue."""
    answer = remoting.ask(subject.address, INVOKE_BROKER_TO_GET_CONSUMER_STATUS, {"topic": topic, "group": group})
    assert answer.code == 0, answer
    said = {
        client: {(queue.topic, queue.broker_name, queue.queue_id): offset for queue, offset in table.items()}
        for client, table in ConsumerStatus.read(answer.body).consumer_table.items()
    }
    given = sorted((message["queue"], message["offset"]) for message in clients.messages(consumer))
    assert said == {f"127.0.0.1@{consumer}": {(topic, subject.broker_name, queue): offset + 1 for queue, offset in given}}


def again(clients: JavaDriver, consumer: str, before: int, count: int) -> list[Message]:
    """What the consumer was given after the first `before` messages, `count` of them at least."""
    clients.wait(lambda: len(clients.messages(consumer)) >= before + count, f"{count} messages once more")
    return clients.messages(consumer)[before:]


@contextlib.contextmanager
def own_subject(place: Place, version: str) -> Iterator[tuple[Subject, JavaDriver, Fresh]]:
    """What a course has instead of the fixtures."""
    subject, clients = start_subject(SUBJECTS[0], place.directory / "subject"), place.tools(version)
    try:
        clients.call("rebalance_interval", ms=1000)
        yield subject, clients, lambda stem: f"{stem}-{place.directory.name}"
    finally:
        subject.end()


def set_back_to_a_time(place: Place, version: str, by: str) -> None:
    """A member goes on ten seconds after it was told, and is told by its next pull, before which one may be held for fifteen."""
    with own_subject(place, version) as (subject, clients, fresh):
        topic, group = fresh("reset"), fresh("group")
        tool(clients, subject, "updateTopic", "-b", subject.address, "-t", topic, "-r", "2", "-w", "2")
        if by == "its members":
            setting = ("-k", "useServerSideResetOffset", "-v", "false")
            tool(clients, subject, "updateBrokerConfig", "-b", subject.address, *setting)
        with producer(clients, subject, fresh) as p, push(clients, subject, fresh, topic, group=group) as c:
            clients.call("send", producer=p, topic=topic, count=6, body="old")
            first = clients.wait_messages(c, 6)
            since = max(message["store_ms"] for message in first) + 1
            until(lambda: len(queues_of(clients, c, topic)) == 2, "both queues")
            clients.call("send", producer=p, topic=topic, count=6, body="new")
            clients.wait_messages(c, 12)
            committed(clients, subject, c, group, topic)
            says_where_it_is(clients, subject, c, group, topic)
            tool(clients, subject, "resetOffsetByTime", "-g", group, "-t", topic, "-s", str(since))
            found = again(clients, c, 12, 6)
            assert {message["body"] for message in found} == {f"new{i}" for i in range(6)}
            committed(clients, subject, c, group, topic)
            says_where_it_is(clients, subject, c, group, topic)
            assert len(clients.messages(c)) == 18


@pytest.mark.parametrize(
    "version",
    [
        pytest.param(version, marks=plays(set_back_to_a_time, version, by, seconds=30), id=f"{by}-{version}")
        for version, by in by_client(("the broker", "its members"), old="its members")
    ],
)
def test_a_tool_sets_a_group_back_to_a_time(version: str, course: Future[None]) -> None:
    """The consumer goes on reading at the time that was given, whether the broker moves it or asks it to move (220)."""
    course.result()


def set_to_an_offset(place: Place) -> None:
    """One queue of a group, which the tool of 5.5.0 alone can say."""
    with own_subject(place, REFERENCE) as (subject, clients, fresh):
        topic, group = fresh("offset"), fresh("group")
        tool(clients, subject, "updateTopic", "-b", subject.address, "-t", topic, "-r", "2", "-w", "2")
        with producer(clients, subject, fresh) as p, push(clients, subject, fresh, topic, group=group) as c:
            where = {"broker": subject.broker_name, "queue": 1}
            clients.call("send", producer=p, topic=topic, form="queue", count=5, body="m", **where)
            clients.wait_messages(c, 5)
            committed(clients, subject, c, group, topic)
            place_of = ("-b", subject.address, "-q", "1", "-o", "3")
            tool(clients, subject, "resetOffsetByTime", "-g", group, "-t", topic, "-s", "0", *place_of)
            assert {message["body"] for message in again(clients, c, 5, 2)} == {"m3", "m4"}


@plays(set_to_an_offset, seconds=28)
def test_a_tool_sets_one_queue_to_an_offset(course: Future[None]) -> None:
    course.result()


@pytest.mark.parametrize(("clients", "place"), by_client(PLACES, old="LAST_OFFSET"), indirect=["clients"])
def test_a_new_group_reads_all_of_a_young_topic_wherever_it_wants_to_begin(
    subject: Subject, clients: JavaDriver, fresh: Fresh, place: str
) -> None:
    """As long as a queue's first message is in memory the broker says 0 to a group without progress; then progress counts."""
    topic, group = fresh("from"), fresh("group")
    with producer(clients, subject, fresh) as p:
        clients.call("send", producer=p, topic=topic, count=8, body="m")
        with push(clients, subject, fresh, topic, group=group, **{"from": f"CONSUME_FROM_{place}"}) as c:
            clients.wait_messages(c, 8)
            committed(clients, subject, c, group, topic)
        clients.call("send", producer=p, topic=topic, count=8, body="n")
        with push(clients, subject, fresh, topic, group=group, **{"from": f"CONSUME_FROM_{place}"}) as c:
            assert {message["body"] for message in clients.wait_messages(c, 8)} == {f"n{i}" for i in range(8)}


def test_a_group_that_is_switched_off_waits(subject: Subject, clients: JavaDriver, fresh: Fresh) -> None:
    topic, group = fresh("off"), fresh("group")
    switch = ("updateSubGroup", "-b", subject.address, "-g", group, "-s")
    tool(clients, subject, *switch, "false")
    with producer(clients, subject, fresh) as p, push(clients, subject, fresh, topic, group=group) as c:
        clients.call("send", producer=p, topic=topic, count=4, body="m")
        until(lambda: len(queues_of(clients, c, topic)) == 4, "the queues")
        assert not clients.messages(c)
        tool(clients, subject, *switch, "true")
        clients.wait_messages(c, 4)


def test_a_group_that_may_not_read_a_topic_waits_there(subject: Subject, clients: JavaDriver, fresh: Fresh) -> None:
    """Code 353, for which the tool has no command: of two topics the group reads one, and the other when it may."""
    kept, open_topic, group = fresh("kept"), fresh("open"), fresh("group")

    def readable(value: str) -> None:
        fields = {"group": group, "topic": kept, "readable": value}
        assert remoting.ask(subject.address, UPDATE_AND_GET_GROUP_FORBIDDEN, fields).code == 0

    tool(clients, subject, "updateSubGroup", "-b", subject.address, "-g", group)
    for topic in (kept, open_topic):
        tool(clients, subject, "updateTopic", "-b", subject.address, "-t", topic, "-r", "1", "-w", "1")
    readable("false")
    with producer(clients, subject, fresh) as p, push(clients, subject, fresh, f"{kept},{open_topic}", group=group) as c:
        for topic in (kept, open_topic):
            clients.call("send", producer=p, topic=topic, body=topic)
        clients.wait_messages(c, 1)
        until(lambda: queues_of(clients, c, kept), "the queue that it may not read")
        clients.call("send", producer=p, topic=open_topic, body="more")
        assert {message["body"] for message in clients.wait_messages(c, 2)} == {open_topic, "more"}
        readable("true")
        clients.wait_messages(c, 3)
        assert clients.messages(c)[-1]["body"] == kept


def test_a_group_that_nobody_made_waits_where_naming_does_not_make_it(
    subject: Subject, clients: JavaDriver, fresh: Fresh
) -> None:
    topic, group = fresh("topic"), fresh("group")
    switch = ("updateBrokerConfig", "-b", subject.address, "-k", "autoCreateSubscriptionGroup", "-v")
    with producer(clients, subject, fresh) as p:
        clients.call("send", producer=p, topic=topic, count=4, body="m")
        tool(clients, subject, *switch, "false")
        try:
            with push(clients, subject, fresh, topic, group=group) as c:
                clients.call("send", producer=p, topic=topic, count=4, body="n")
                assert not clients.messages(c)
                tool(clients, subject, "updateSubGroup", "-b", subject.address, "-g", group)
                clients.wait_messages(c, 8)
        finally:
            tool(clients, subject, *switch, "true")


def test_members_that_subscribe_differently_are_shown(subject: Subject, clients: JavaDriver, fresh: Fresh) -> None:
    """Other tags, other topics; then they agree.  The tool believes no member in its first two minutes."""
    topic, other, group = fresh("topic"), fresh("topic"), fresh("group")
    for name in (topic, other):
        tool(clients, subject, "updateTopic", "-b", subject.address, "-t", name, "-r", "2", "-w", "2")

    def shown() -> list[str]:
        printed = tool(clients, subject, "consumerStatus", "-g", group).replace(group, "<group>")
        return [line.strip() for line in printed.splitlines() if line.strip() and ADDRESS not in line]

    with (
        push(clients, subject, fresh, topic, group=group, expression="a") as one,
        push(clients, subject, fresh, topic, group=group, expression="b || c") as two,
    ):
        for consumer in (one, two):
            until(lambda consumer=consumer: len(queues_of(clients, consumer, topic)) == 1, "a queue each")  # type: ignore[misc]
        agree = ["Same subscription in the same group of consumer", "Rebalance OK"]
        until(lambda: shown()[-2:] == agree, "who is young is not looked at")
        for consumer in (one, two):
            clients.call("push.age", consumer=consumer, ms=180_000)
        until(lambda: shown()[-1] == DIFFERENT, "other tags")
        clients.call("push.subscribe", consumer=two, topic=topic, expression="a")
        until(lambda: shown()[-2:] == agree, "the same tags")
        clients.call("push.subscribe", consumer=one, topic=other, expression="*")
        until(lambda: shown()[-1] == DIFFERENT, "another topic")
        clients.call("push.subscribe", consumer=two, topic=other, expression="*")
        until(lambda: shown()[-2:] == agree, "they agree, and have shared the queues of the other topic, too")
    if subject.kind == "ours":
        [line, *_] = [line for line in subject.server.log.read_text().splitlines() if f"group {group}: " in line]
        assert all(word in line for word in (one, two, f"{topic}: ", "'a'", "'b || c'")), line


@pytest.mark.parametrize("clients", [REFERENCE], indirect=True)
def test_what_short_heartbeats_leave_out_is_known(subject: Subject, clients: JavaDriver, fresh: Fresh) -> None:
    """`useHeartbeatV2`: what a member subscribes to is said when it changes, and again where the broker does not know it.

    A broker that was started again is told with the next change only, if it does not ask: until then nothing can be pulled.
    """
    topic, other, group = fresh("topic"), fresh("topic"), fresh("group")
    for name in (topic, other):
        tool(clients, subject, "updateTopic", "-b", subject.address, "-t", name, "-r", "1", "-w", "1")

    def known() -> dict[str, str]:
        answer = remoting.ask(subject.address, GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": group})
        found: Any = answer.json()["subscriptionTable"] if answer.code == 0 else {}
        return {name: said["subString"] for name, said in found.items() if name in (topic, other)}

    def short(consumer: str) -> bool:
        """Two heartbeats, the second of them short, after which the third is short, too."""
        return all(clients.call("push.beat", consumer=consumer) for _ in range(2))

    with (
        producer(clients, subject, fresh, retries=10, timeout_ms=20_000) as p,
        push(clients, subject, fresh, topic, group=group, heartbeat_v2=True) as c,
    ):

        def delivered(*bodies: str) -> bool:
            return {message["body"] for message in clients.messages(c)} >= set(bodies)

        until(lambda: short(c), "short heartbeats")
        assert known() == {topic: "*"}
        clients.call("push.subscribe", consumer=c, topic=other, expression="a || b")
        until(lambda: short(c), "short heartbeats again")
        assert known() == {topic: "*", other: "a || b"}
        for name in (topic, other):
            clients.call("send", producer=p, topic=name, body=f"{name} before", tags="b")
        clients.wait(lambda: delivered(f"{topic} before", f"{other} before"), "messages of both topics")
        subject.restart(kill=True)
        clients.call("send", producer=p, topic=topic, body=f"{topic} after")
        clients.call("push.subscribe", consumer=c, topic=other, expression="c")
        clients.call("send", producer=p, topic=other, body=f"{other} after", tags="c")
        until(lambda: known() == {topic: "*", other: "c"}, "the new subscription")
        clients.wait(lambda: delivered(f"{topic} after", f"{other} after"), "messages of both topics after the restart")


def test_a_broadcasting_consumer_goes_on_where_it_was(subject: Subject, clients: JavaDriver, fresh: Fresh) -> None:
    """Its progress is a file of its own; the broker has none of the group's, but what its slowest member has pulled."""
    topic, group, name = fresh("topic"), fresh("group"), fresh("listener")
    start = {"name": name, "group": group, "namesrv": subject.namesrv, "topic": topic, "model": "BROADCASTING"}
    with producer(clients, subject, fresh) as p:
        clients.call("send", producer=p, topic=topic, count=4, body="m")
        clients.call("push.start", **start)
        clients.wait_messages(name, 4)
        until(lambda: clients.call("push.cached", consumer=name) == 0, "all are done with")
        clients.call("push.stop", consumer=name)
        clients.call("send", producer=p, topic=topic, count=4, body="n")
        clients.call("push.start", **start)
        clients.wait_messages(name, 8)
        assert sorted(message["body"] for message in clients.messages(name)[4:]) == [f"n{i}" for i in range(4)]
        until(lambda: sum(progress(subject, f"{group}@broadcast", topic)) == 8, "it is kept what was pulled")
        clients.call("push.stop", consumer=name)
    assert progress(subject, group, topic) == []


def test_a_group_name_of_the_greatest_length(subject: Subject, clients: JavaDriver, fresh: Fresh) -> None:
    """With retries, whose topic has a longer name still."""
    topic = fresh("long")
    group = fresh("g" * 90).ljust(GROUP_CHARACTERS_MAX, "g")
    with (
        producer(clients, subject, fresh) as p,
        push(clients, subject, fresh, topic, group=group, failures=1, delay_level=1) as c,
    ):
        clients.call("send", producer=p, topic=topic, body="m")
        clients.wait(lambda: len(clients.messages(c)) >= 2, "the second attempt")
    assert [message["topic"] for message in clients.messages(c)] == [topic, topic]


def test_a_name_that_is_longer_is_not_served(subject: Subject, clients: JavaDriver, fresh: Fresh) -> None:
    """A client of 5.5.0 does not start with it; that of 4.9.8 does, and neither broker knows the group."""
    topic, name = fresh("long"), fresh("push")
    group = fresh("g").ljust(GROUP_CHARACTERS_MAX + 1, "g")
    start = {"name": name, "group": group, "namesrv": subject.namesrv, "topic": topic}
    if clients.version == REFERENCE:
        with pytest.raises(JavaError, match="is longer than group max length: 120"):
            clients.call("push.start", **start)
        return
    with producer(clients, subject, fresh) as p:
        clients.call("send", producer=p, topic=topic, body="m")
        clients.call("push.start", **start)
        with push(clients, subject, fresh, topic) as served:
            clients.wait_messages(served, 1)
        answer = remoting.ask(subject.address, GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": group})
        assert answer.code == SYSTEM_ERROR
        assert not clients.messages(name)
        clients.call("push.stop", consumer=name)
