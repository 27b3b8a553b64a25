"""The real 5.5.0 broker on a generated store: it starts without recovery, serves every message, delivers what is due, goes on."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from planted_stores.config import delivered
from planted_stores.generate import Made, Wanted, generate
from planted_stores.pattern import SCHEDULE, WHEEL, Kind
from planted_stores.plan import Plan, Sizes
from rmq_wire import properties
from rmq_wire.codes import RequestCode
from rmq_wire.fastjson import loads
from rmq_wire.message import read_unit
from tests.support import remoting
from tests.support.clients import JavaDriver
from tests.support.courses import Place, plays
from tests.support.process import NotReady, until
from tests.support.reference import SMALL_STORE, JavaBroker
from tests.support.store_differ import read_files
from tests.support.store_view import Stored, units_of
from tests.support.talk import pulled_once

SIZES = Sizes(
    int(SMALL_STORE["mappedFileSizeCommitLog"]),
    int(SMALL_STORE["mappedFileSizeConsumeQueue"]),
    int(SMALL_STORE["maxHashSlotNum"]),
    int(SMALL_STORE["maxIndexNum"]),
)
SIZE, BODY_BYTES, SEED = 18_000_000, 200, 5
AGE_MS = 60_000
"""All that waits is due when the broker starts."""


class Served:
    """A generated store and the real broker on it."""

    def __init__(self, directory: Path, namesrv: str, tools: JavaDriver) -> None:
        first_ms = time.time_ns() // 1_000_000 - AGE_MS
        self.made: Made = generate(directory / "made", Wanted(SIZE, BODY_BYTES, SEED, sizes=SIZES, first_ms=first_ms))
        self.plan = Plan(SIZE, BODY_BYTES, SEED, SIZES, first_ms)
        self.units: list[Stored] = list(units_of(read_files(self.made.store, ("commitlog/",))))
        self.namesrv = namesrv
        self.tools = tools
        self.broker = JavaBroker(directory / "broker", namesrv, name="broker-generated", store=self.made.store)


def serve(place: Place) -> Served:
    """A course: the store is generated and the broker starts."""
    made = Served(place.directory, place.name_server(), place.tools())
    place.kept.callback(made.broker.end)
    made.broker.start()
    return made


pytestmark = [pytest.mark.java, plays(serve, seconds=26, stays=True)]


@pytest.fixture
def served(course: Future[Served]) -> Served:
    return course.result()


def end_of(served: Served, topic: str, queue_id: int) -> int:
    answer = remoting.ask(served.broker.address, RequestCode.GET_MAX_OFFSET, {"topic": topic, "queueId": str(queue_id)})
    return int(json.loads(answer.ext["offset"]))


def pulled(served: Served, topic: str, queue_id: int, end: int) -> Iterator[bytes]:
    """The units of a queue up to an offset."""
    offset = 0
    while offset < end:
        answer = pulled_once(served.broker.address, topic, queue_id, offset)
        at = 0
        while answer.code == 0 and at < len(answer.body) and offset < end:
            unit = read_unit(answer.body, at)
            assert unit.queue_offset == offset
            yield bytes(answer.body[at : at + unit.total_size])
            at, offset = at + unit.total_size, offset + 1
        assert at, answer


def test_every_message_is_pulled_as_it_stands(served: Served) -> None:
    stored: dict[tuple[str, int], list[bytes]] = {}
    for one in served.units:
        stored.setdefault((one.topic, one.unit.queue_id), []).append(one.data)
    assert sum(map(len, stored.values())) == served.made.messages
    for (topic, queue_id), units in stored.items():
        if not topic.startswith(("RMQ_SYS", "rmq_sys", SCHEDULE)):
            assert list(pulled(served, topic, queue_id, len(units))) == units, f"{topic} {queue_id}"


def test_what_was_due_is_delivered_once(served: Served) -> None:
    kinds = Counter(one.topic for one in served.units)
    waiting = {
        ("orders", 1): kinds[SCHEDULE] - delivered(served.plan, Kind.DELIVERED),
        ("payments", 2): kinds[WHEEL] - delivered(served.plan, Kind.TIMED_DELIVERED),
    }
    for (topic, queue_id), count in waiting.items():
        assert count > 0
        before = served.plan.queue_end(served.plan.queues.index((topic, queue_id)))
        with suppress(NotReady):
            until(partial(has_end, served, topic, queue_id, before + count), f"{count} deliveries to {topic}")
        assert end_of(served, topic, queue_id) - before == count, served.broker.log_tail()
        after = [read_unit(unit) for unit in pulled(served, topic, queue_id, before + count)][before:]
        origin = SCHEDULE if topic == "orders" else WHEEL
        expected = [key_of(one) for one in served.units if one.topic == origin][-count:]
        assert sorted(properties.decode(unit.properties.decode())["UNIQ_KEY"] for unit in after) == sorted(expected)
        assert end_of(served, topic, queue_id) == before + count


def has_end(served: Served, topic: str, queue_id: int, end: int) -> bool:
    return end_of(served, topic, queue_id) >= end


def key_of(one: Stored) -> str:
    return properties.decode(one.unit.properties.decode())["UNIQ_KEY"]


def test_mqadmin_finds_messages_and_progress(served: Served) -> None:
    some = [one for one in served.units if one.topic in ("orders", "order-steps", "payments")][:: served.made.messages // 6]
    for one in some:
        call = ("queryMsgByUniqueKey", "-t", one.topic, "-i", key_of(one), "-n", served.namesrv)
        printed = served.tools.mqadmin(*call)
        assert properties.decode(one.unit.properties.decode())["KEYS"] in printed.out, printed
        assert re.search(rf"Queue Offset: +{one.unit.queue_offset}\b", printed.out), printed
    printed = served.tools.mqadmin("topicStatus", "-t", "order-steps", "-n", served.namesrv)
    ends = [served.plan.queue_end(served.plan.queues.index(("order-steps", queue_id))) for queue_id in range(4)]
    assert all(str(end) in printed.out for end in ends), printed


def test_positions_are_those_of_the_file(served: Served) -> None:
    reported = loads(remoting.ask(served.broker.address, RequestCode.GET_ALL_CONSUMER_OFFSET).body)["offsetTable"]
    for number, (topic, queue_id) in enumerate(served.plan.queues):
        if topic in ("orders", "clicks"):
            assert 0 <= served.plan.queue_end(number) - reported[f"{topic}@GID-orders"][str(queue_id)] <= 7


def test_it_started_without_cutting_anything(served: Served) -> None:
    log = list(units_of(read_files(served.made.store, ("commitlog/",))))
    assert [one.data for one in log[: len(served.units)]] == [one.data for one in served.units]
