"""Stock consumers with `MessageSelector.bySql`, 5.5.0 and 4.9.8, on both brokers: push, lite pull, a change, a mistake."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.java.flows import by_client, producer, push
from tests.support.clients import JavaDriver, JavaError
from tests.support.java import java
from tests.support.subject import SUBJECTS, Subject, start_subject

pytestmark = pytest.mark.java

Fresh = Callable[[str], str]
SELECTOR = "n BETWEEN 3 AND 5 OR (kind = 'odd' AND n >= 8) OR kind IS NULL"
SELECTED = ["m3", "m4", "m5", "m9", "plain"]
MISTAKES = {
    "n = = 1": "column 5",
    "n > 'x'": "Value ''x'' cannot be compared.",
    "n BETWEEN 3 AND 1": "left value(3) must less than or equal to right value(1)",
    "name = 'open": "Lexical error at line 1",
}
"""Selector -> what the broker says of it."""


@pytest.fixture(scope="module", params=SUBJECTS)
def subject(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Subject]:
    """A broker that filters by properties."""
    java()
    running = start_subject(request.param, tmp_path_factory.mktemp(request.param), properties={"enablePropertyFilter": "true"})
    yield running
    running.end()


def send(clients: JavaDriver, p: str, topic: str, *numbers: int) -> None:
    for number in numbers:
        kind = "odd" if number % 2 else "even"
        clients.call("send", producer=p, topic=topic, body=f"m{number}", **{"p.n": str(number), "p.kind": kind})


def bodies(messages: list[dict[str, object]]) -> list[str]:
    return sorted(str(message["body"]) for message in messages)


def test_push_consumers_get_what_they_select(subject: Subject, clients: JavaDriver, fresh: Fresh) -> None:
    """What lies there when it starts, and what comes while it waits."""
    topic = fresh("sql")
    with producer(clients, subject, fresh) as p:
        send(clients, p, topic, *range(6))
        with push(clients, subject, fresh, topic, sql=SELECTOR) as c:
            clients.wait_messages(c, 3)
            send(clients, p, topic, *range(6, 10))
            clients.call("send", producer=p, topic=topic, body="plain")
            clients.wait_messages(c, 5)
            send(clients, p, topic, 3)
            clients.wait_messages(c, 6)
            assert bodies(clients.messages(c)) == sorted([*SELECTED, "m3"])


def test_lite_pull_consumers_do(subject: Subject, clients: JavaDriver, fresh: Fresh) -> None:
    topic, name = fresh("sql-lite"), fresh("lite")
    with producer(clients, subject, fresh) as p:
        send(clients, p, topic, *range(10))
        clients.call("send", producer=p, topic=topic, body="plain")
        clients.call("lite.start", name=name, group=f"group-{name}", namesrv=subject.namesrv, topic=topic, sql=SELECTOR)
        got: list[dict[str, object]] = []

        def all_there() -> bool:
            got.extend(clients.call("lite.poll", consumer=name, timeout_ms=500))
            return len(got) >= len(SELECTED)

        clients.wait(all_there, "the selected messages")
        assert bodies(got) == SELECTED
        clients.call("lite.stop", consumer=name)


def test_a_subscription_changes_while_it_is_consumed(subject: Subject, clients: JavaDriver, fresh: Fresh) -> None:
    """What is selected afterwards comes; the pull that waits with the old one is answered and asks anew."""
    topic = fresh("sql-change")
    with producer(clients, subject, fresh) as p:
        send(clients, p, topic, 0)
        with push(clients, subject, fresh, topic, sql="n = 1") as c:
            send(clients, p, topic, 1, 2)
            clients.wait_messages(c, 1)
            clients.call("push.subscribe", consumer=c, topic=topic, sql="n = 4")

            def new_one_counts() -> bool:
                send(clients, p, topic, 4)
                return any(message["body"] == "m4" for message in clients.messages(c))

            clients.wait(new_one_counts, "a message that only the new selector selects")
            assert {str(message["body"]) for message in clients.messages(c)} == {"m1", "m4"}


@pytest.mark.parametrize(("clients", "sql"), by_client(MISTAKES, old="name = 'open"), indirect=["clients"])
def test_a_mistake_is_refused_at_the_start(subject: Subject, clients: JavaDriver, fresh: Fresh, sql: str) -> None:
    """The consumer does not start, and says why in the broker's words."""
    topic, name = fresh("sql-bad"), fresh("push")
    with producer(clients, subject, fresh) as p:
        send(clients, p, topic, 1)
        with pytest.raises(JavaError) as refused:
            clients.call("push.start", name=name, group=f"group-{name}", namesrv=subject.namesrv, topic=topic, sql=sql)
    assert refused.value.code == 23
    assert MISTAKES[sql] in str(refused.value)
