"""Stock push consumers 5.5.0 that pop, on the reference and on ours: who gets what, what comes again and when, and what does not.

The broker shares the queues out (`clientRebalance=false`); a group pops because mqadmin says so, or by the broker's default.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.java.flows import producer, push, queues_of
from tests.support import remoting
from tests.support.clients import JavaDriver, Message
from tests.support.java import REFERENCE
from tests.support.process import until
from tests.support.subject import SUBJECTS, Subject, start_subject

pytestmark = [pytest.mark.java, pytest.mark.parametrize("clients", [REFERENCE], indirect=True)]

Fresh = Callable[[str], str]
INVISIBLE_MS = 5_000
"""The least that a client may ask for."""
ANY = -1
LONG_MS = 300_000
"""The most."""
AGAIN_S = 240
GET_CONSUMER_LIST_BY_GROUP = 38


@pytest.fixture(scope="module", params=SUBJECTS)
def popping(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Subject]:
    """A broker by whose default everybody pops; it may be killed."""
    running = start_subject(request.param, tmp_path_factory.mktemp("popping"), properties={"defaultMessageRequestMode": "POP"})
    yield running
    running.end()


AGREED = ["Same subscription in the same group of consumer", "Rebalance OK"]


def made(clients: JavaDriver, subject: Subject, topic: str, queues: int) -> None:
    at = ("-n", subject.namesrv, "-b", subject.address)
    assert clients.mqadmin("updateTopic", *at, "-t", topic, "-r", str(queues), "-w", str(queues)).out.startswith("create topic")


def pops(clients: JavaDriver, subject: Subject, topic: str, group: str, mode: str = "POP") -> None:
    at = ("-n", subject.namesrv, "-b", subject.address)
    said = clients.mqadmin("setConsumeMode", *at, "-t", topic, "-g", group, "-m", mode, "-q", "0")
    assert "success" in said.out, said


def pop_queues(clients: JavaDriver, consumer: str, topic: str) -> list[int]:
    reported = clients.call("push.pop_queues", consumer=consumer)
    return [queue["queue"] for queue in reported if queue["topic"] == topic]


def sent(clients: JavaDriver, subject: Subject, fresh: Fresh, topic: str, count: int, body: str = "m") -> list[str]:
    with producer(clients, subject, fresh) as p:
        clients.call("send", producer=p, topic=topic, count=count, body=body, tags="T", keys="k")
    return [f"{body}{number}" for number in range(count)]


def bodies(messages: list[Message]) -> Counter[str]:
    return Counter(message["body"] for message in messages)


def without_backlog(clients: JavaDriver, subject: Subject, group: str) -> bool:
    return "Consume Diff Total: 0" in clients.mqadmin("consumerProgress", "-n", subject.namesrv, "-g", group).out


def test_mqadmin_says_that_a_group_pops(subject: Subject, clients: JavaDriver, fresh: Fresh) -> None:
    topic, group = fresh("pop"), fresh("group")
    made(clients, subject, topic, 4)
    pops(clients, subject, topic, group)
    with push(clients, subject, fresh, topic, group=group, broker_rebalance=True) as c:
        until(lambda: pop_queues(clients, c, topic) == [ANY], "the assignment")
        assert queues_of(clients, c, topic) == []
        expected = sent(clients, subject, fresh, topic, 40)
        heard = clients.wait_messages(c, 40)
        assert bodies(heard) == Counter(expected)
        assert {message["reconsume_times"] for message in heard} == {0}
        assert all("POP_CK" in message["properties"] for message in heard)
        until(lambda: without_backlog(clients, subject, group), "the group's progress")
        shown = clients.mqadmin("consumerStatus", "-n", subject.namesrv, "-g", group).out.split("\n")
        assert [line.strip() for line in shown if line.strip()][-2:] == AGREED
        pops(clients, subject, topic, group, "PULL")
        until(lambda: len(queues_of(clients, c, topic)) == 4, "pulling again")
        sent(clients, subject, fresh, topic, 8, "n")
        assert len(clients.wait_messages(c, 48)) == 48


def test_by_default_everybody_pops(popping: Subject, clients: JavaDriver, fresh: Fresh) -> None:
    topic, group = fresh("pop"), fresh("group")
    made(clients, popping, topic, 4)
    with push(clients, popping, fresh, topic, group=group, broker_rebalance=True) as c:
        until(lambda: pop_queues(clients, c, topic) == [ANY], "the assignment")
        expected = sent(clients, popping, fresh, topic, 20)
        assert bodies(clients.wait_messages(c, 20)) == Counter(expected)


@pytest.mark.parametrize("options", [{"orderly": True}, {"model": "BROADCASTING"}], ids=["orderly", "broadcasting"])
def test_who_keeps_order_or_broadcasts_pulls(
    popping: Subject, clients: JavaDriver, fresh: Fresh, options: dict[str, Any]
) -> None:
    topic = fresh("pull")
    made(clients, popping, topic, 2)
    with push(clients, popping, fresh, topic, broker_rebalance=True, **options) as c:
        until(lambda: len(queues_of(clients, c, topic)) == 2, "queues")
        assert pop_queues(clients, c, topic) == []
        expected = sent(clients, popping, fresh, topic, 10)
        heard = clients.wait_messages(c, 10)
        assert bodies(heard) == Counter(expected)
        assert not any("POP_CK" in message["properties"] for message in heard)


def test_what_a_listener_fails_comes_again(popping: Subject, clients: JavaDriver, fresh: Fresh) -> None:
    """After the ten seconds that the client asks for, from the retry topic, as the message of its own topic."""
    topic, group = fresh("pop"), fresh("group")
    made(clients, popping, topic, 2)
    with push(clients, popping, fresh, topic, group=group, broker_rebalance=True, failures=1) as c:
        until(lambda: pop_queues(clients, c, topic) == [ANY], "the assignment")
        expected = sent(clients, popping, fresh, topic, 6)
        heard = clients.wait_messages(c, 12, timeout_s=AGAIN_S)
    assert bodies(heard) == Counter(expected * 2)
    for body in expected:
        first, again = sorted((one for one in heard if one["body"] == body), key=lambda one: one["number"])
        assert (first["reconsume_times"], again["reconsume_times"]) == (0, 1)
        assert again["topic"] == topic
        assert again["began_ns"] - first["began_ns"] >= 9_000_000_000


def test_what_a_dead_consumer_had_comes_again(popping: Subject, clients: JavaDriver, fresh: Fresh, tmp_path: Path) -> None:
    topic, group = fresh("pop"), fresh("group")
    made(clients, popping, topic, 2)
    with JavaDriver(tmp_path / "dying", REFERENCE) as dying:
        dying.call("rebalance_interval", ms=1000)
        at = {"namesrv": popping.namesrv, "group": group, "topic": topic}
        dying.call("push.start", name="dying", gated=True, broker_rebalance=True, invisible_ms=INVISIBLE_MS, threads=32, **at)
        until(lambda: pop_queues(dying, "dying", topic) == [ANY], "the assignment")
        expected = sent(clients, popping, fresh, topic, 10)
        assert set(bodies(dying.wait_messages("dying", 10))) == set(expected), "some twice, when the first were due meanwhile"
        dying.kill()
    with push(clients, popping, fresh, topic, group=group, broker_rebalance=True) as c:
        heard = clients.wait_messages(c, 10, timeout_s=AGAIN_S)
    assert bodies(heard) == Counter(expected)
    assert min(message["reconsume_times"] for message in heard) >= 1


def test_the_broker_is_killed_between_pop_and_acknowledgement(popping: Subject, clients: JavaDriver, fresh: Fresh) -> None:
    """Receipts of before count, and the time of what nobody acknowledges goes on."""
    topic, group = fresh("pop"), fresh("group")
    made(clients, popping, topic, 2)
    options = {"gated": True, "broker_rebalance": True, "invisible_ms": 20_000, "threads": 32}
    with push(clients, popping, fresh, topic, group=group, **options) as c:
        until(lambda: pop_queues(clients, c, topic) == [ANY], "the assignment")
        expected = sent(clients, popping, fresh, topic, 10)
        assert set(bodies(clients.wait_messages(c, 10))) == set(expected)
        popping.restart(kill=True)
        clients.call("push.release", consumer=c, calls=1_000)
        more = sent(clients, popping, fresh, topic, 5, "after")
        everything = {*expected, *more}  # the first may have come twice before the last came once: the broker was away for long
        clients.wait(lambda: bodies(clients.messages(c)).keys() >= everything, "all of both", timeout_s=AGAIN_S)
        assert bodies(clients.messages(c)).keys() == everything
        until(lambda: without_backlog(clients, popping, group), "the group's progress", seconds=AGAIN_S)
        again = bodies(clients.messages(c)) - Counter([*expected, *more])
        assert not set(again) & set(more)


@pytest.mark.parametrize(("mode", "working"), [("PULL", 2), ("POP", 8)])
def test_eight_consumers_on_two_queues(
    subject: Subject, clients: JavaDriver, fresh: Fresh, tmp_path: Path, mode: str, working: int
) -> None:
    topic, group, count = fresh("eight"), fresh("group"), 320
    made(clients, subject, topic, 2)
    pops(clients, subject, topic, group, mode)
    options: dict[str, Any] = {
        "broker_rebalance": True,
        "gated": True,
        "invisible_ms": LONG_MS,
        "pop_batch": 4,
        "pop_threshold": 8,
        "pull_batch": 4,
        "work_ms": 20,
        "threads": 1,
    }
    with contextlib.ExitStack() as stack:
        names = [stack.enter_context(push(clients, subject, fresh, topic, group=group, **options)) for number in range(8)]

        def has_joined() -> bool:
            listed: Any = remoting.ask(subject.address, GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": group}).json()
            return len(listed["consumerIdList"]) == len(names)

        def owners() -> dict[str, int]:
            """Of a queue each, or of any."""
            found = {one: len(queues_of(clients, one, topic) or pop_queues(clients, one, topic)) for one in names}
            return {one: number for one, number in found.items() if number}

        until(has_joined, "all members")  # before that others may have the queues
        until(lambda: owners() == dict.fromkeys(sorted(names)[:working], 1), "the assignment")
        expected = sent(clients, subject, fresh, topic, count)
        clients.wait(lambda: sum(bool(clients.messages(one)) for one in names) == working, "a message at each")
        for one in names:
            clients.call("push.release", consumer=one, calls=count)
        heard = clients.wait_messages(names, count)
    assert bodies(heard) == Counter(expected)
    assert len({message["consumer"] for message in heard}) == working


@pytest.mark.parametrize("mode", ["PULL", "POP"])
def test_a_consumer_that_hangs_but_sends_heartbeats(subject: Subject, clients: JavaDriver, fresh: Fresh, mode: str) -> None:
    """Its queues stall when it pulls; when it pops everything is consumed, by the other."""
    topic, group, count = fresh("hangs"), fresh("group"), 200
    made(clients, subject, topic, 2)
    pops(clients, subject, topic, group, mode)
    options: dict[str, Any] = {"group": group, "broker_rebalance": True, "invisible_ms": INVISIBLE_MS}
    with (
        push(clients, subject, fresh, topic, gated=True, threads=1, **options) as hung,
        push(clients, subject, fresh, topic, **options) as other,
    ):
        if mode == "POP":
            until(lambda: pop_queues(clients, hung, topic) == pop_queues(clients, other, topic) == [ANY], "the assignment")
            expected = sent(clients, subject, fresh, topic, count)
            until(lambda: set(bodies(clients.messages(other))) == set(expected), "the rest, by the other", seconds=AGAIN_S)
        else:
            until(lambda: len(queues_of(clients, hung, topic)) == len(queues_of(clients, other, topic)) == 1, "a queue each")
            [(_, queue)] = queues_of(clients, other, topic)
            sent(clients, subject, fresh, topic, count)
            heard = clients.wait_messages(other, count // 2)
            assert {message["queue"] for message in heard} == {queue}
            assert not without_backlog(clients, subject, group)
            assert len(queues_of(clients, hung, topic)) == 1
        clients.call("push.release", consumer=hung, calls=10_000)
