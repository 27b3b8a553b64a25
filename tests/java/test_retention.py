"""Old files go in the real broker and in ours: the same minimum offsets, the same answers for what is gone, the same calls.

Both get the same messages over a dozen log files, are asked by mqadmin to delete what has expired (everything but the newest
file), and are looked at when they have done so, a minute after their start.
"""

from __future__ import annotations

import contextlib
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import pytest

from rmq_wire.codes import RequestCode
from tests.support import remoting
from tests.support.clients import JavaDriver
from tests.support.courses import Place, plays
from tests.support.mqadmin import normalise
from tests.support.process import until
from tests.support.reference import SMALL_STORE
from tests.support.requests import pull
from tests.support.subject import SUBJECTS, start_broker, start_name_server

LOG_BYTES = 65_536
QUEUES = 4
MESSAGES = 240
"""Of 3,000 bytes: eleven files and a bit."""
FIRST_LOOK_S = 60
WAIT_S = FIRST_LOOK_S + 240
LINES = ("topicStatus -t Orders", "topicStatus -t Old", "queryMsgByKey -t Orders -k k239")


PROPERTIES = {
    **SMALL_STORE,
    "mappedFileSizeCommitLog": str(LOG_BYTES),
    "mappedFileSizeConsumeQueue": "200",
    "fileReservedTime": "0",
    "deleteWhen": "24",
    "cleanResourceInterval": "1000",
}
"""Everything has expired, but it is never the hour: only a request deletes."""


class Side(NamedTuple):
    """A broker with its messages."""

    tools: JavaDriver
    namesrv: str
    broker: str

    def offsets(self, topic: str, queue_id: int) -> tuple[int, int]:
        """(min, max)"""
        ext = {"topic": topic, "queueId": str(queue_id)}
        low, high = (
            remoting.ask(self.broker, code, ext).ext["offset"]
            for code in (RequestCode.GET_MIN_OFFSET, RequestCode.GET_MAX_OFFSET)
        )
        return int(low), int(high)

    def mqadmin(self, line: str) -> list[str]:
        printed = self.tools.mqadmin(*line.split(), "-n", self.namesrv)
        assert printed.status == 0, printed
        return normalise(printed.out)

    def change(self, line: str, done: str) -> None:
        """On a busy machine the tool gives up after 5 s, says so and exits with status 0."""
        until(lambda: done in " ".join(self.mqadmin(line)), line)

    def pull(self, offset: int) -> tuple[int, dict[str, str]]:
        asked = pull("Orders", 0, offset, max_msg_nums=1)
        answer = remoting.ask(self.broker, asked.code, asked.encode())
        return answer.code, {name: value for name, value in answer.ext.items() if name != "suggestWhichBrokerId"}


class Look(NamedTuple):
    """What a side shows when it has deleted."""

    orders: list[tuple[int, int]]
    """(min, max) by queue"""
    old: list[tuple[int, int]]
    pulled: list[tuple[int, dict[str, str]]]
    """At both ends of the first queue, and beyond."""
    printed: list[list[str]]
    cleaned: list[object]
    """Once queues without a message are cleaned, too."""


def both_after_the_first_look(place: Place) -> dict[str, Look]:
    """A course: both sides are filled, asked to delete, and looked at when they have done so."""
    kinds = {"theirs": "java", "ours": SUBJECTS[0]}
    with contextlib.ExitStack() as stack:
        names = {side: start_name_server(kind, place.directory / side / "namesrv") for side, kind in kinds.items()}
        brokers = {
            side: start_broker(kind, place.directory / side / "broker", names[side].address, properties=PROPERTIES, wait=False)
            for side, kind in kinds.items()
        }
        for server in (*names.values(), *brokers.values()):
            stack.callback(server.end)
        for broker in brokers.values():
            broker.wait_ready()
        sides = {side: Side(place.tools(), names[side].address, brokers[side].address) for side in kinds}
        with ThreadPoolExecutor(len(kinds)) as both:
            list(both.map(fill, sides.values()))
        until(lambda: all(side.offsets("Orders", 0)[0] > 0 for side in sides.values()), "the first look", seconds=WAIT_S)
        until(lambda: at_rest(sides), "the last deletion", seconds=WAIT_S)
        return {name: look(side) for name, side in sides.items()}


def look(side: Side) -> Look:
    orders, old = ([side.offsets(topic, queue) for queue in range(QUEUES)] for topic in ("Orders", "Old"))
    low, high = orders[0]
    pulled = [side.pull(offset) for offset in (0, low - 1, low, high - 1, high, high + 1)]
    printed = [side.mqadmin(line) for line in LINES]
    side.change(f"cleanExpiredCQ -b {side.broker}", "success")
    cleaned = [side.offsets(topic, queue) for topic in ("Old", "Orders") for queue in range(QUEUES)]
    return Look(orders, old, pulled, printed, [*cleaned, side.mqadmin("topicStatus -t Old")])


pytestmark = [pytest.mark.java, plays(both_after_the_first_look, seconds=72)]


@pytest.fixture
def sides(course: Future[dict[str, Look]]) -> dict[str, Look]:
    return course.result()


def fill(side: Side) -> None:
    for topic in ("Old", "Orders"):
        side.change(f"updateTopic -b {side.broker} -t {topic} -r {QUEUES} -w {QUEUES}", "create topic to")
    producer = f"p-{side.broker}"
    side.tools.call("producer.start", name=producer, namesrv=side.namesrv, group="PID")
    for number in range(MESSAGES):
        topic = "Old" if number < QUEUES else "Orders"
        side.tools.call(
            "send",
            producer=producer,
            topic=topic,
            broker="broker-a",
            form="queue",
            body="." * 3000,
            keys=f"k{number}",
            tags="T",
            queue=number % QUEUES,
        )
    side.tools.call("producer.stop", producer=producer)
    side.change(f"deleteExpiredCommitLog -b {side.broker}", "success")


def at_rest(sides: dict[str, Side]) -> bool:
    """The queues speak of one file only, on both sides.  (Java goes from queue to queue, with a pause behind each.)"""
    return all(
        side.offsets("Old", queue)[0] == 1 and side.offsets("Orders", queue)[0] * QUEUES > MESSAGES - 40
        for side in sides.values()
        for queue in range(QUEUES)
    )


def test_minimum_offsets_agree(sides: dict[str, Look]) -> None:
    """001-72, 001-78, 001-79, S22."""
    assert sides["ours"].orders == sides["theirs"].orders
    assert sides["ours"].old == sides["theirs"].old == [(1, 1)] * QUEUES


def test_what_is_gone_is_answered_alike(sides: dict[str, Look]) -> None:
    assert sides["ours"].pulled == sides["theirs"].pulled


def test_the_tools_show_the_same(sides: dict[str, Look]) -> None:
    assert sides["ours"].printed == sides["theirs"].printed


def test_queues_without_a_message_are_cleaned_alike(sides: dict[str, Look]) -> None:
    """cleanExpiredCQ makes their offsets begin anew."""
    assert sides["ours"].cleaned == sides["theirs"].cleaned
