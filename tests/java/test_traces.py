"""Message trace: what stock producers and consumers report of one message, by stock `mqadmin queryMsgTraceById`.

The clients write traces themselves, as messages of `RMQ_SYS_TRACE_TOPIC`, which the broker makes with `traceTopicEnable`, and
only where the answers of sends say `TRACE_ON`.  The broker's own hooks are `SendMessageHook` and `ConsumeMessageHook`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from rmq_columns.read.traces import parse_trace
from tests.java.flows import producer, pull_all, push
from tests.support.clients import JavaDriver
from tests.support.java import REFERENCE, java
from tests.support.process import until
from tests.support.subject import SUBJECTS, Subject, start_subject
from tests.support.talk import Talk

pytestmark = pytest.mark.java

Fresh = Callable[[str], str]
SECONDS = 240.0
TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"


@pytest.fixture(scope="module", params=SUBJECTS)
def traced(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Subject]:
    """A name server and a master with a trace topic."""
    java()
    running = start_subject(request.param, tmp_path_factory.mktemp("traced"), properties={"traceTopicEnable": "true"})
    yield running
    running.end()


def test_a_message_s_trace(traced: Subject, clients: JavaDriver, fresh: Fresh) -> None:
    """Sent once, failed once, consumed once: who, and how it went."""
    topic, group = fresh("traced"), fresh("readers")
    with producer(clients, traced, fresh, queues=1, trace=True) as p:
        options = {"failures": 1, "delay_level": 1, "trace": True}
        with push(clients, traced, fresh, topic, group=group, **options) as c:
            [sent] = clients.call("send", producer=p, topic=topic, body="m", tags="T", keys="k")
            clients.wait_messages(c, 2)
            expected = [("Pub", f"group-{p}", "success"), ("Sub", group, "failed"), ("Sub", group, "success")]
            call = ("queryMsgTraceById", "-n", traced.namesrv, "-i", sent["msg_id"])
            until(lambda: _rows(clients.mqadmin(*call).out) == expected, f"{expected}", seconds=SECONDS)
    assert sent["trace_on"] is True
    stored = pull_all(clients, traced, fresh, TRACE_TOPIC, 1)
    assert {message["queue"] for message in stored} == {0}


def test_a_client_without_trace_leaves_none(traced: Subject, clients: JavaDriver, fresh: Fresh) -> None:
    topic = fresh("traced")
    with producer(clients, traced, fresh, queues=1) as p, push(clients, traced, fresh, topic) as c:
        [sent] = clients.call("send", producer=p, topic=topic, body="m")
        clients.wait_messages(c, 1)
    assert _rows(clients.mqadmin("queryMsgTraceById", "-n", traced.namesrv, "-i", sent["msg_id"]).out) == []


@pytest.mark.parametrize("clients", [REFERENCE], indirect=True)
def test_every_way_to_delay_a_message_is_in_its_trace(traced: Subject, clients: JavaDriver, fresh: Fresh) -> None:
    """Levels, `__STARTDELIVERTIME`, and the three properties of timers."""
    topic, soon_ms = fresh("traced"), int(time.time() * 1e3) + 1_000
    ways: dict[str, dict[str, object]] = {
        "plain": {},
        "level": {"delay": 1},
        "start": {"x.__STARTDELIVERTIME": str(soon_ms)},
        "seconds": {"delay_sec": 1},
        "milliseconds": {"delay_ms": 1_000},
        "time": {"deliver_ms": soon_ms},
    }
    with producer(clients, traced, fresh, queues=1, trace=True) as p:
        for way, options in ways.items():
            clients.call("send", producer=p, topic=topic, body="m", keys=way, **options)

    delayed = {way: "Delay_Msg" if options else "Normal_Msg" for way, options in ways.items()}
    with Talk(traced.address) as talk:

        def kinds() -> dict[str, str]:
            records = (one for body in talk.read(TRACE_TOPIC) for one in parse_trace(body))
            return {one["keys"]: one["msgType"] for one in records if one.get("topic") == topic}

        until(lambda: kinds() == delayed, f"{delayed}", seconds=SECONDS)


@pytest.mark.parametrize("clients", [REFERENCE], indirect=True)
def test_without_the_broker_s_trace_topic(subject: Subject, clients: JavaDriver, fresh: Fresh) -> None:
    """`traceTopicEnable` is off by default: a traced client sends and consumes as ever."""
    topic = fresh("untraced")
    with producer(clients, subject, fresh, queues=1, trace=True) as p, push(clients, subject, fresh, topic, trace=True) as c:
        [sent] = clients.call("send", producer=p, topic=topic, body="m")
        clients.wait_messages(c, 1)
    assert sent["status"] == "SEND_OK"


def _rows(printed: str) -> list[tuple[str, str, str]]:
    """Type, group and status of every row that is printed, in an order of our own."""
    rows = [line.split() for line in printed.splitlines()]
    return sorted((row[0], row[1], row[-1]) for row in rows if row and row[0] in ("Pub", "Sub"))
