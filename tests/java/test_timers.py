"""Timer messages of stock producers: three ways to name a time, and calling one back."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rmq_store.layouts import TIMER_CHECK
from rmq_wire.headers.timers import GetTimerCheckPoint, GetTimerMetrics
from rmq_wire.recall_handle import handle_text, read_handle
from tests.java.flows import producer, pull_all
from tests.support.clients import JavaDriver, JavaError
from tests.support.java import REFERENCE
from tests.support.subject import SUBJECTS, Subject, start_subject
from tests.support.talk import Talk

pytestmark = pytest.mark.java


HOUR_MS = 3_600_000
SOON_S = 20
"""Longer than calling back takes, on a slow machine, too."""


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
def test_times_that_are_over_or_too_far(subject: Subject, clients: JavaDriver, fresh: Fresh) -> None:
    """What is due already comes at once; what is too far off is refused, and nothing of it is stored."""
    topic = fresh("timed")
    with producer(clients, subject, fresh, queues=1) as p:
        sent_ms = now_ms()
        over = {"an hour ago": {"deliver_ms": sent_ms - HOUR_MS}, "1970": {"deliver_ms": 1}, "now": {"delay_ms": 0}}
        for body, way in over.items():
            clients.call("send", producer=p, topic=topic, body=body, **way)
        for way in ({"deliver_ms": sent_ms + 80 * HOUR_MS}, {"delay_ms": 80 * HOUR_MS}, {"delay_sec": 80 * 3_600}):
            with pytest.raises(JavaError, match=r"CODE: 13 .*timer message illegal, the delay time should not be bigger than"):
                clients.call("send", producer=p, topic=topic, body="too far", **way)
        found = pull_all(clients, subject, fresh, topic, 3)
    assert {message["body"] for message in found} == over.keys()
    assert all("TIMER_OUT_MS" not in message["properties"] for message in found if message["body"] != "now"), "no wheel"


@pytest.mark.parametrize("clients", [REFERENCE], indirect=True)
def test_a_stock_producer_calls_one_back(clients: JavaDriver, fresh: Fresh, tmp_path: Path) -> None:
    subject = start_subject(SUBJECTS[0], tmp_path, properties={"recallMessageEnable": "true"})
    try:
        topic = fresh("timed")
        with producer(clients, subject, fresh, queues=1) as p:
            told = clients.call("send", producer=p, topic=topic, body="m", keys="k", count=4, delay_sec=SOON_S)
            key = clients.call("recall", producer=p, topic=topic, handle=told[2]["recall_handle"])
            assert key == told[2]["msg_id"]
            good = read_handle(told[1]["recall_handle"])
            over = str(now_ms() - 1_000)
            for handle, remark in (
                ("forged", "recall handle is invalid"),
                (handle_text(good._replace(topic=fresh("other"))), "topic not match"),
                (handle_text(good._replace(broker_name="nobody")), "broker service not available|address not found"),
                (handle_text(good._replace(time=over)), "timestamp invalid"),
                (handle_text(good._replace(time=str(now_ms() + 80 * HOUR_MS))), "timestamp invalid"),
            ):
                with pytest.raises(JavaError, match=remark):
                    clients.call("recall", producer=p, topic=topic, handle=handle)
            of_no_message = handle_text(good._replace(unique_key="F" * 32))
            assert clients.call("recall", producer=p, topic=topic, handle=of_no_message) == "F" * 32
            found = pull_all(clients, subject, fresh, topic, 3)
        assert sorted(message["body"] for message in found) == ["m0", "m1", "m3"]
    finally:
        subject.end()
