"""A stock ordered consumer: what each answer of its listener does, with and without autoCommit; nothing overtakes, and what fails
too often is a dead letter; order through the loss of consumers and of the broker.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from tests.java.flows import drain, drained, producer, push, queues_of
from tests.support.clients import JavaDriver, Message
from tests.support.java import REFERENCE
from tests.support.process import until
from tests.support.requests import pairs, send
from tests.support.subject import Subject
from tests.support.talk import Talk

pytestmark = pytest.mark.java

Fresh = Callable[[str], str]
SUSPEND_MS = 300
TRIES = 2


def test_what_fails_in_order_is_tried_in_place_and_given_up(subject: Subject, clients: JavaDriver, fresh: Fresh) -> None:
    """The broker puts what the consumer sends to its retry topic among the dead letters at once: nothing waits there."""
    topic, group = fresh("ordered"), fresh("group")
    options: dict[str, Any] = {"failures": 99, "max_reconsume": TRIES - 1, "suspend_ms": SUSPEND_MS, "threads": 4}
    with (
        producer(clients, subject, fresh, queues=1) as p,
        push(clients, subject, fresh, topic, group=group, orderly=True, **options) as c,
    ):
        clients.call("send", producer=p, topic=topic, form="sync", count=3, body="m", tags="T", keys="k")
        dead = until(lambda: dead_letters(clients, subject, fresh, group, 3), "dead letters")
        heard = sorted(clients.messages(c), key=lambda message: message["number"])
    assert [(m["body"], m["reconsume_times"]) for m in heard] == [(f"m{n}", times) for n in range(3) for times in range(TRIES)]
    for first, again in zip(heard[::TRIES], heard[1::TRIES], strict=True):
        assert again["began_ns"] - first["began_ns"] >= SUSPEND_MS * 1_000_000 * 9 // 10
        assert again["offset"] == first["offset"], "it is the same record, not a copy"
    assert [m["body"] for m in dead] == ["m0", "m1", "m2"]
    tried = TRIES if clients.version == REFERENCE else TRIES - 1  # not above its maximum: the group's lock makes it a dead letter
    assert {(m["reconsume_times"], m["properties"]["RETRY_TOPIC"], m["tags"]) for m in dead} == {(tried, topic, "T")}
    assert drain(clients, subject, fresh, f"%RETRY%{group}", 0) == []


SUSPEND = "SUSPEND_CURRENT_QUEUE_A_MOMENT"


def heard(clients: JavaDriver, consumer: str) -> list[tuple[str, int]]:
    return [(message["body"], message["reconsume_times"]) for message in clients.messages(consumer)]


def test_without_auto_commit_the_listener_says_when(subject: Subject, clients: JavaDriver, fresh: Fresh) -> None:
    """What a ROLLBACK puts back is all since the last COMMIT; what was not committed comes again to the next consumer."""
    topic, group = fresh("ordered"), fresh("group")
    script = f"SUCCESS,SUCCESS,ROLLBACK,SUCCESS,SUCCESS,COMMIT,{SUSPEND},SUCCESS"
    options: dict[str, Any] = {"group": group, "orderly": True, "suspend_ms": 50}
    with producer(clients, subject, fresh, queues=1) as p:
        clients.call("send", producer=p, topic=topic, form="sync", count=4, body="m")
        with push(clients, subject, fresh, topic, script=script, **options) as c:
            clients.wait(lambda: len(clients.messages(c)) == 8, "eight calls of the listener")
            assert [body for body, _ in heard(clients, c)] == ["m0", "m1", "m2", "m0", "m1", "m2", "m3", "m3"]
            assert [times for _, times in heard(clients, c)] == [0] * 7 + [1]
        with push(clients, subject, fresh, topic, script="COMMIT", **options) as c:
            clients.wait_messages(c, 1)
            clients.call("send", producer=p, topic=topic, body="end")
            clients.wait_messages(c, 2)
            assert heard(clients, c) == [("m3", 0), ("end", 0)], "m3 was never committed, all before it was"


def test_with_auto_commit_every_answer_but_suspend_is_a_success(subject: Subject, clients: JavaDriver, fresh: Fresh) -> None:
    topic, group = fresh("ordered"), fresh("group")
    script = f"ROLLBACK,COMMIT,{SUSPEND},NULL,THROW,SUCCESS"
    options: dict[str, Any] = {"group": group, "orderly": True, "auto_commit": True, "suspend_ms": 50}
    with producer(clients, subject, fresh, queues=1) as p:
        clients.call("send", producer=p, topic=topic, form="sync", count=3, body="m")
        with push(clients, subject, fresh, topic, script=script, **options) as c:
            clients.wait(lambda: len(clients.messages(c)) == 6, "six calls of the listener")
            assert heard(clients, c) == [("m0", 0), ("m1", 0), ("m2", 0), ("m2", 1), ("m2", 2), ("m2", 3)]
            until(lambda: clients.call("push.cached", consumer=c) == 0, "the last answer")
        with push(clients, subject, fresh, topic, script="SUCCESS", **options) as c:
            clients.call("send", producer=p, topic=topic, body="end")
            clients.wait_messages(c, 1)
            assert heard(clients, c) == [("end", 0)]


def test_a_batch_is_put_back_whole(subject: Subject, clients: JavaDriver, fresh: Fresh) -> None:
    """One of three has had its tries and is given up; the others have not, so all three come again, and it is given up twice."""
    topic, group = fresh("ordered"), fresh("group")
    options: dict[str, Any] = {"group": group, "orderly": True, "auto_commit": True, "suspend_ms": 50, "gated": True}
    with (
        producer(clients, subject, fresh, queues=1) as p,
        push(clients, subject, fresh, topic, script=SUSPEND, batch=3, max_reconsume=1, **options) as c,
    ):
        clients.call("send", producer=p, topic=topic, body="m0")
        clients.wait_messages(c, 1)
        clients.call("send", producer=p, topic=topic, body="m1")
        clients.call("send", producer=p, topic=topic, body="m2")
        until(lambda: clients.call("push.cached", consumer=c) == 3, "the other two beside the first")
        clients.call("push.release", consumer=c, calls=9)
        dead = until(lambda: dead_letters(clients, subject, fresh, group, 4), "dead letters")
        assert heard(clients, c) == [("m0", 0), ("m0", 1), ("m1", 0), ("m2", 0), ("m0", 1), ("m1", 1), ("m2", 1)]
    assert [message["body"] for message in dead] == ["m0", "m0", "m1", "m2"]


def test_one_hot_queue_of_five_holds_up_no_other(subject: Subject, clients: JavaDriver, fresh: Fresh) -> None:
    """The listener does not come back from the hot queue's first message before all of the others' have come, in order."""
    topic, queues, each = fresh("hot"), 5, 40
    with (
        producer(clients, subject, fresh, queues=queues) as p,
        push(clients, subject, fresh, topic, orderly=True, threads=4, gated=True, gated_queue=2) as c,
    ):
        clients.call("send", producer=p, topic=topic, form="selector", count=queues * each, body="", spread=queues)
        messages = clients.wait_messages(c, (queues - 1) * each + 1)
        clients.call("push.release", consumer=c, calls=each)
    for queue in range(queues):
        offsets = [message["offset"] for message in messages if message["queue"] == queue]
        assert offsets == list(range(1 if queue == 2 else each))


def test_while_a_member_holds_a_queue_what_the_group_sends_to_its_retry_topic_is_dead(
    subject: Subject, clients: JavaDriver, fresh: Fresh
) -> None:
    """Whatever its count; when the consumer has gone, and its locks with it, the same send is a retry."""
    topic, group = fresh("ordered"), fresh("group")
    again = send(f"%RETRY%{group}", properties=pairs(RETRY_TOPIC=topic), reconsume_times=1, max_reconsume_times=16)
    with Talk(subject.address) as talk, producer(clients, subject, fresh, queues=1) as p:
        with push(clients, subject, fresh, topic, group=group, orderly=True) as c:
            clients.call("send", producer=p, topic=topic, body="m")
            clients.wait_messages(c, 1)
            assert talk.ask(again, b"held").code == 0
            until(lambda: dead_letters(clients, subject, fresh, group, 1), "the dead letter")
        assert talk.ask(again, b"free").code == 0
        retried = until(lambda: drain(clients, subject, fresh, f"%RETRY%{group}", 0), "the retry")
    assert [m["body"] for m in retried] == ["free"]
    assert [m["body"] for m in drain(clients, subject, fresh, f"%DLQ%{group}", 0)] == ["held"]


@pytest.mark.parametrize("clients", [REFERENCE], indirect=True)
def test_order_outlives_consumers_and_the_broker(subject: Subject, clients: JavaDriver, fresh: Fresh, tmp_path: Path) -> None:
    """One consumer is killed and the broker with it, another comes, a third goes: each queue is heard in order, nothing left out.

    What was not committed comes again, from the committed place on.
    """
    topic, group, flood, queues = fresh("ordered"), fresh("group"), fresh("flood"), 4
    options: dict[str, Any] = {"group": group, "orderly": True, "threads": 4}
    everything = {(subject.broker_name, queue) for queue in range(queues)}
    found: list[Message] = []
    with producer(clients, subject, fresh, queues=queues, retries=10, timeout_ms=20_000) as p:
        clients.call("send", producer=p, topic=topic, body="first")

        def some_more(*consumers: str) -> None:
            """All queues are with these, and messages of all of them come."""

            def have_all() -> bool:
                return set().union(*(queues_of(clients, one, topic) for one in consumers)) == everything

            until(have_all, "all queues")
            before = sum(len(clients.messages(one)) for one in consumers)
            clients.wait(lambda: sum(len(clients.messages(one)) for one in consumers) > before + 100, "more messages")

        with contextlib.ExitStack() as first:
            one = first.enter_context(push(clients, subject, fresh, topic, **options))
            with JavaDriver(tmp_path, clients.version) as others:
                others.call("rebalance_interval", ms=1000)
                others.call("push.start", name="two", namesrv=subject.namesrv, topic=topic, **options)
                clients.call("flood.start", flood=flood, producer=p, topic=topic, body="f", pause_ms=2)
                others.wait_messages("two", 100)
                others.kill()
                found += others.messages("two")
            subject.restart(kill=True)
            some_more(one)
            with push(clients, subject, fresh, topic, **options) as three:
                clients.wait_messages(three, 100)
                some_more(one, three)
                first.close()
                some_more(three)
                sent = set(clients.call("flood.stop", flood=flood)["acknowledged"])
                clients.wait(
                    lambda: sent <= {m["body"] for m in [*found, *clients.messages(one), *clients.messages(three)]}, "all"
                )
                found += [*clients.messages(one), *clients.messages(three)]
    for queue in range(queues):
        offsets = [m["offset"] for m in sorted(found, key=itemgetter("began_ns")) if m["queue"] == queue]
        heard_to = itertools.accumulate(offsets, max, initial=-1)
        assert all(offset <= highest + 1 for offset, highest in zip(offsets, heard_to, strict=False)), "a message was left out"


def dead_letters(clients: JavaDriver, subject: Subject, fresh: Fresh, group: str, count: int) -> list[dict[str, Any]] | None:
    """So many of them; None while the topic, or one of them, is not there yet."""
    found = drained(clients, subject, fresh, f"%DLQ%{group}", 0)
    return found if len(found) >= count else None
