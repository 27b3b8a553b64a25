"""`rmq dev --fast-delays`: what a stock consumer always fails to consume is soon a dead letter, after all its retries."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.java.flows import drain, drained, producer, push
from tests.support.clients import JavaDriver
from tests.support.process import until
from tests.support.subject import OurDev, Subject

pytestmark = pytest.mark.java

Fresh = Callable[[str], str]
RETRIES = 16
LAST_MS = 16 * 18 * 5
"""More than the sixteen waits take together, and less than any two of Java's."""


@pytest.fixture
def fast(tmp_path: Path) -> Iterator[Subject]:
    server = OurDev(tmp_path)
    server.arguments.append("--fast-delays")
    server.start()
    yield Subject("ours", server.namesrv, server.address, "broker-a", "DefaultCluster", server.store, server)
    server.end()


def test_sixteen_retries_and_the_dead_letters(fast: Subject, clients: JavaDriver, fresh: Fresh) -> None:
    topic, group = fresh("topic"), fresh("group")
    with producer(clients, fast, fresh) as p, push(clients, fast, fresh, topic, group=group, failures=99) as c:
        clients.call("send", producer=p, topic=topic, form="sync", count=2, body="m", tags="T", keys="k")
        until(lambda: len(clients.messages(c)) == 2 * (1 + RETRIES), "all attempts")
        heard = [(message["body"], message["reconsume_times"]) for message in clients.messages(c)]
        assert sorted(heard) == [(f"m{n}", times) for n in range(2) for times in range(1 + RETRIES)]
        dead = until(lambda: drained(clients, fast, fresh, f"%DLQ%{group}", 0), "dead letters")
    assert {(m["reconsume_times"], m["properties"]["RETRY_TOPIC"], m["tags"]) for m in dead} == {(RETRIES + 1, topic, "T")}
    waiting = [drain(clients, fast, fresh, "SCHEDULE_TOPIC_XXXX", level - 1) for level in range(3, 19)]
    assert [len(messages) for messages in waiting] == [2] * RETRIES, "each retry has waited one level longer"
