"""Messages in flight between the real broker and ours: who is stopped or killed with some of them handed out, and who goes on.

One of the two hands messages out, of an ordinary group and of one in order; some are acknowledged, some get another time, some
are forgotten.  The other takes the directory over: it gives at first only what nobody has, gives the forgotten ones again when
their time is over and not before, counted as one attempt more, and never one that was acknowledged.
"""

from __future__ import annotations

import contextlib
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from conformance.subjects.ours import OurBroker, OurNameServer
from rmq_wire import fastjson
from rmq_wire.errors import BadBody
from rmq_wire.headers.pop import BatchAckMessage
from tests.support.courses import Place, plays
from tests.support.java import REFERENCE, library
from tests.support.pop_client import Got, Popped, ack, batch_ack, change, changed, pop, popped
from tests.support.process import until
from tests.support.reference import JavaBroker
from tests.support.requests import create_topic
from tests.support.talk import Talk

pytestmark = pytest.mark.java

NAME = "broker-pops"
TOPIC, ORDERS = "Popped", "PoppedInOrder"
GROUP, IN_ORDER = "pop-group", "pop-order-group"
INVISIBLE_MS = 75_000
"""Longer than a stop and a start, on a busy machine, too: this course waits beside others."""
LONGER_BY_MS = 5_000
TIMES = (1, 3, 6)
"""So many times as long on a machine that is too slow for the one before."""
FILES = ("consumerOffset.json", "consumerOrderInfo.json")
PATIENCE_S = max(TIMES) * INVISIBLE_MS // 1_000 + 180
WHOLE_MS = 1_800_000
"""Longer than the course."""


class Seen(NamedTuple):
    """What came of it.  `at_once`: bodies that the second broker had for us straight away, in order: of the ordered topic.

    `again`: body to (when it came, when its time was over, as how many attempts); `more`: what came after all of it.
    """

    at_once: list[bytes]
    blocked: list[bytes]
    again: dict[bytes, tuple[int, int, int]]
    in_order: list[bytes]
    counts: dict[str, int]
    order_wait_ms: int
    more: list[bytes]


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class TooSlow(Exception):
    """The time of what was handed out was over before the other broker was asked: nothing can be said."""


class Course:
    """One directory, two brokers."""

    def __init__(self, directory: Path, names: str, invisible_ms: int) -> None:
        library(REFERENCE)
        self.invisible_ms = invisible_ms
        self.store = directory / "store"
        self.java = JavaBroker(directory / "java", names, name=NAME, store=self.store)
        self.ours = OurBroker(directory / "ours", names, name=NAME, port=self.java.port, store=self.store)
        self.ours.properties = dict(self.java.properties)

    def pop(self, topic: str, group: str, **more: Any) -> Popped:
        with Talk(self.java.address) as talk:
            answer = talk.ask(pop(topic, group, born_ms=now_ms(), **more))
            assert answer.code in (0, 210), answer.remark
            return popped(answer, topic, group, NAME)

    def take(self, topic: str, group: str, count: int, **more: Any) -> list[Got]:
        """So many messages, in as many pops as it takes: a queue may be locked for a moment."""
        found: list[Got] = []

        def enough() -> bool:
            found.extend(self.pop(topic, group, count=count - len(found), **more).got)
            return len(found) >= count

        until(enough, f"{count} messages of {topic}")
        return found

    def give_back(self, popped_ones: list[Got], ordered: list[Got]) -> dict[bytes, int]:
        """m0 to m4 are consumed, m5 gets more time, of the ordered ones the first is consumed.  When the others are due."""
        with Talk(self.java.address) as talk:
            for one in popped_ones[:3]:
                assert talk.ask(ack(one, GROUP)).code == 0
            assert talk.ask(BatchAckMessage(), batch_ack(popped_ones[3:5], GROUP, TOPIC, NAME)).code == 0
            answer = talk.ask(change(popped_ones[5], GROUP, self.invisible_ms + LONGER_BY_MS))
            assert answer.code == 0, answer.remark
            later = changed(popped_ones[5], answer)
            assert talk.ask(ack(ordered[0], IN_ORDER)).code == 0
        return {one.body: one.receipt.due_ms for one in (later, *popped_ones[6:])}

    def is_saved(self) -> bool:
        """What a kill must not take back: both brokers write it 10 s after their start, and then every 5 s."""
        try:
            offsets, orders = (fastjson.loads((self.store / "config" / name).read_bytes()) for name in FILES)
        except (FileNotFoundError, BadBody):  # between two renames
            return False
        saved = offsets["offsetTable"]
        batch = orders["table"].get(f"{ORDERS}@{IN_ORDER}", {}).get("0", {})
        places = (saved.get(f"{TOPIC}@{GROUP}", {}).get("0"), saved.get(f"{ORDERS}@{IN_ORDER}", {}).get("0"))
        return places == (8, 1) and batch.get("cm") == 1

    def end(self) -> None:
        for broker in (self.java, self.ours):
            broker.kill()
            broker.end()


def course(place: Place, first: str, kill: bool) -> Seen:
    """`first` hands out and ends, the other goes on."""
    with OurNameServer(place.directory / "namesrv") as names:
        for times in TIMES[:-1]:
            with contextlib.suppress(TooSlow):
                return _played(place.directory / str(times), names.address, first, kill, times * INVISIBLE_MS)
        return _played(place.directory / "last", names.address, first, kill, TIMES[-1] * INVISIBLE_MS)


def _played(directory: Path, names: str, first: str, kill: bool, invisible_ms: int) -> Seen:
    """With this time.  Raises `TooSlow`."""
    played = Course(directory, names, invisible_ms)
    try:
        begins, goes_on = (played.java, played.ours) if first == "java" else (played.ours, played.java)
        begins.start()
        handed = _begin(played)
        ordered = played.take(ORDERS, IN_ORDER, 3, queue=0, order=True, invisible_time=invisible_ms)
        due = played.give_back(handed, ordered)
        order_due = ordered[0].receipt.due_ms
        if kill:
            until(played.is_saved, "progress is written")
            begins.kill()
        else:
            begins.stop()
        goes_on.start()
        return _go_on(played, due, order_due)
    finally:
        played.end()


def _begin(played: Course) -> list[Got]:
    with Talk(played.java.address) as talk:
        for topic in (TOPIC, ORDERS):
            until(lambda topic=topic: talk.ask(create_topic(topic, 1)).code == 0, "the topic is made")  # type: ignore[misc]
            for number in range(10):
                assert talk.send(topic, b"m%d" % number).code == 0
    return played.take(TOPIC, GROUP, 8, queue=0, invisible_time=played.invisible_ms)


def _go_on(played: Course, due: dict[bytes, int], order_due: int) -> Seen:
    with Talk(played.java.address) as talk:
        until(lambda: talk.send("Other", b"x").code == 0, "the broker takes messages")
    blocked = [one.body for one in played.pop(ORDERS, IN_ORDER, queue=0, order=True, invisible_time=played.invisible_ms).got]
    at_once = played.take(TOPIC, GROUP, 2, invisible_time=WHOLE_MS)
    if now_ms() >= min(order_due, *due.values()):
        raise TooSlow
    again: dict[bytes, tuple[int, int, int]] = {}

    def all_came() -> bool:
        for one in played.pop(TOPIC, GROUP, invisible_time=WHOLE_MS).got:
            again[one.body] = (now_ms(), due.get(one.body, 0), one.unit.reconsume_times)
        return again.keys() >= due.keys()

    until(all_came, "what was forgotten comes again", seconds=PATIENCE_S)
    counts: dict[str, int] = {}
    in_order: list[bytes] = []
    waited = [0]

    def unblocked() -> bool:
        found = played.pop(ORDERS, IN_ORDER, queue=0, order=True, invisible_time=WHOLE_MS)
        in_order.extend(one.body for one in found.got)
        counts.update(found.counts)
        waited[0] = now_ms() - order_due
        return bool(in_order)

    until(unblocked, "the queue is free", seconds=PATIENCE_S)
    more = [one.body for _ in range(3) for one in played.pop(TOPIC, GROUP).got]
    return Seen([one.body for one in at_once], blocked, again, in_order, counts, waited[0], more)


BY_DAY = [
    pytest.param(first, False, marks=plays(course, first, False, seconds=90), id=f"{first} stops") for first in ("java", "ours")
]
BY_NIGHT = [
    pytest.param(first, True, marks=[plays(course, first, True, seconds=90), pytest.mark.nightly], id=f"{first} is killed")
    for first in ("java", "ours")
]


@pytest.mark.parametrize(("first", "kill"), [*BY_DAY, *BY_NIGHT])
def test_messages_in_flight(course: Future[Seen], first: str, kill: bool) -> None:
    seen = course.result()
    assert seen.at_once == [b"m8", b"m9"]
    assert seen.again.keys() == {b"m5", b"m6", b"m7"}
    for body, (came_ms, due_ms, attempts) in seen.again.items():
        assert came_ms >= due_ms, f"{body!r} comes {due_ms - came_ms} ms before its time"
        assert attempts == 1
    assert seen.more == []
    assert seen.blocked == []
    assert seen.in_order == [b"m%d" % number for number in range(1, 10)]
    assert seen.order_wait_ms >= 0
    assert {key: count for key, count in seen.counts.items() if "%" in key} == {"0@qo0%1": 1, "0@qo0%2": 1}
