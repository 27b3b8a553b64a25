"""Timer messages of stock producers: three ways to name a time, and calling one back."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rmq_store.layouts import TIMER_CHECK
from rmq_wire.headers.timers import GetTimerCheckPoint, GetTimerMetrics
from tests.java.flows import producer, pull_all
from tests.support.clients import JavaDriver, JavaError
from tests.support.java import REFERENCE
from tests.support.subject import SUBJECTS, Subject, start_subject
from tests.support.talk import Talk

pytestmark = pytest.mark.java


def now_ms() -> int:
    return time.time_ns() // 1_000_000


Fresh = Callable[[str], str]


@pytest.mark.parametrize("clients", [REFERENCE], indirect=True)
def test_a_stock_producer_names_times_in_three_ways(subject: Subject, clients: JavaDriver, fresh: Fresh) -> None:
    topic = fresh("timed")
    with producer(clients, subject, fresh, queues=1) as p:
        began_ms = now_ms()
        ways = {"delay_sec": 2, "delay_ms": 2_500, "deliver_ms": began_ms + 3_000}
        for way, value in ways.items():
            clients.call("send", producer=p, topic=topic, body=way, keys=way, **{way: value})
        found = pull_all(clients, subject, fresh, topic, 3)
    assert {message["body"] for message in found} == ways.keys()
    for message, after_ms in ((one, {"delay_sec": 2_000, "delay_ms": 2_500, "deliver_ms": 3_000}[one["body"]]) for one in found):
        assert message["store_ms"] - began_ms >= after_ms - 1
    with Talk(subject.address) as talk:
        assert len(talk.ask(GetTimerCheckPoint()).body) == TIMER_CHECK.size
        assert topic.encode() in bytes(talk.ask(GetTimerMetrics()).body)


@pytest.mark.parametrize("clients", [REFERENCE], indirect=True)
def test_a_stock_producer_calls_one_back(clients: JavaDriver, fresh: Fresh, tmp_path: Path) -> None:
    subject = start_subject(SUBJECTS[0], tmp_path, properties={"recallMessageEnable": "true"})
    try:
        topic = fresh("timed")
        with producer(clients, subject, fresh, queues=1) as p:
            told = clients.call("send", producer=p, topic=topic, body="m", keys="k", count=4, delay_sec=6)
            key = clients.call("recall", producer=p, topic=topic, handle=told[2]["recall_handle"])
            assert key == told[2]["msg_id"]
            with pytest.raises(JavaError, match="recall handle is invalid"):
                clients.call("recall", producer=p, topic=topic, handle="forged")
            found = pull_all(clients, subject, fresh, topic, 3)
        assert sorted(message["body"] for message in found) == ["m0", "m1", "m3"]
    finally:
        subject.end()
