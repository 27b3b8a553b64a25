"""Stock `producer.request` both ways, 5.5.0 and 4.9.8: an answer, none in time, and a requester that has gone."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator

import pytest

from tests.java.flows import by_client, drain, producer
from tests.support.clients import JavaDriver, JavaError
from tests.support.process import until
from tests.support.subject import Subject

pytestmark = pytest.mark.java

Fresh = Callable[[str], str]
SECONDS = 240.0
LONG_MS = 60_000
NOT_SENT = r"send request message to <.*> fail|Remoting(?:Timeout|TooMuchRequest)Exception"
UNANSWERED = {"sync": "wait reply message timeout", "async": "no reply message"}
"""How it is asked -> what the client says when no answer comes."""
REPLY_TOPIC = "DefaultCluster_REPLY_TOPIC"


@contextlib.contextmanager
def replier(clients: JavaDriver, subject: Subject, fresh: Fresh, topic: str, **options: object) -> Iterator[str]:
    """A consumer of the topic that answers what it is asked, by its name in the driver."""
    name = fresh("replier")
    clients.call("replier.start", name=name, group=f"group-{name}", namesrv=subject.namesrv, topic=topic, **options)
    yield name
    clients.call("replier.stop", replier=name)


@pytest.mark.parametrize(("clients", "form"), by_client(UNANSWERED, old="async"), indirect=["clients"])
def test_a_request_is_answered(subject: Subject, clients: JavaDriver, fresh: Fresh, form: str) -> None:
    topic = fresh("request")
    with producer(clients, subject, fresh, queues=1) as p:
        clients.call("producer.create_topic", producer=p, topic=topic, queues=1)
        with replier(clients, subject, fresh, topic) as r:
            ask = {"producer": p, "topic": topic, "form": form, "wait_ms": LONG_MS}
            replies = [clients.call("request", body=f"question {i}", **ask) for i in range(3)]
            outcomes = until(lambda: _outcomes(clients, r, 3), "what the replier was answered", seconds=SECONDS)
    assert [reply["body"] for reply in replies] == [f"re: question {i}" for i in range(3)]
    assert {(reply["topic"], reply["properties"]["MSG_TYPE"]) for reply in replies} == {(REPLY_TOPIC, "reply")}
    assert all({"CORRELATION_ID", "REPLY_TO_CLIENT", "PUSH_REPLY_TIME", "ARRIVE_TIME"} <= set(r["properties"]) for r in replies)
    assert [outcome["status"] for outcome in outcomes] == ["SEND_OK"] * 3
    stored = {message["offset_msg_id"]: message for message in drain(clients, subject, fresh, REPLY_TOPIC, 0)}
    ours = [stored[outcome["offset_msg_id"]] for outcome in outcomes]
    assert sorted(message["body"] for message in ours) == [f"re: question {i}" for i in range(3)]
    assert [message["offset"] for message in ours] == [outcome["offset"] for outcome in outcomes]
    assert not any("PUSH_REPLY_TIME" in message["properties"] for message in ours)


def test_a_large_answer_comes_whole(subject: Subject, clients: JavaDriver, fresh: Fresh) -> None:
    """It travels compressed to the broker and on to the requester."""
    topic = fresh("request")
    with producer(clients, subject, fresh, queues=1) as p:
        clients.call("producer.create_topic", producer=p, topic=topic, queues=1)
        with replier(clients, subject, fresh, topic, size=100_000):
            reply = clients.call("request", producer=p, topic=topic, body="much", wait_ms=LONG_MS)
    assert reply["length"] == 100_000


@pytest.mark.parametrize(("clients", "form"), by_client(UNANSWERED, old="sync"), indirect=["clients"])
def test_nobody_answers_in_time(subject: Subject, clients: JavaDriver, fresh: Fresh, form: str) -> None:
    """The request arrives; the requester learns after its own time that no answer came.

    The sending is within that time: where it took all of it the client says that it failed, and is given more.
    """
    topic = fresh("request")
    with producer(clients, subject, fresh, queues=1) as p:
        clients.call("producer.create_topic", producer=p, topic=topic, queues=1)
        with replier(clients, subject, fresh, topic, silent=True) as r:
            tries = 0
            for wait_ms in (3_000, LONG_MS):
                tries += 1
                with pytest.raises(JavaError) as unanswered:
                    clients.call("request", producer=p, topic=topic, form=form, body="anybody?", wait_ms=wait_ms)
                if not re.search(NOT_SENT, str(unanswered.value)):
                    break
            assert re.search(f"RequestTimeoutException: CODE: 10006 .*{UNANSWERED[form]}", str(unanswered.value))
            until(lambda: 1 <= clients.call("replier.asked", replier=r) <= tries, "the request", seconds=SECONDS)


def test_the_requester_has_gone(subject: Subject, clients: JavaDriver, fresh: Fresh) -> None:
    """The replier learns it, with the reference's code and words; a client tries three times, and each try is stored."""
    topic, name = fresh("request"), fresh("producer")
    start = {"group": f"group-{name}", "namesrv": subject.namesrv, "queues": 1}
    with producer(clients, subject, fresh, queues=1) as other:
        clients.call("producer.create_topic", producer=other, topic=topic, queues=1)
        with replier(clients, subject, fresh, topic, gated=True) as r:
            clients.call("producer.start", name=name, **start)
            before = len(drain(clients, subject, fresh, REPLY_TOPIC, 0))
            clients.begin("request", producer=name, topic=topic, body="are you", wait_ms=LONG_MS)
            until(lambda: clients.call("replier.asked", replier=r) == 1, "the request", seconds=SECONDS)
            clients.call("producer.stop", producer=name)
            clients.call("replier.release", replier=r)
            [outcome] = until(lambda: _outcomes(clients, r, 1), "what the replier was answered", seconds=SECONDS)
            after = len(drain(clients, subject, fresh, REPLY_TOPIC, 0))
    assert outcome["code"] == 1
    assert "push reply message fail, channel of <" in outcome["error"]
    assert "> not found." in outcome["error"]
    assert after - before == 3


def _outcomes(clients: JavaDriver, replier: str, count: int) -> list[dict[str, object]]:
    found = clients.call("replier.outcomes", replier=replier)
    return found if len(found) >= count else []
