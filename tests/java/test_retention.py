"""Old files go in the real broker and in ours: the same minimum offsets, the same answers for what is gone, the same calls.

Both get the same messages over a dozen log files, are asked by mqadmin to delete what has expired (everything but the newest
file), and are looked at when they have done so, a minute after their start.
"""

from __future__ import annotations

import contextlib
import time
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
PLACES = ("FIRST_OFFSET", "TIMESTAMP", "LAST_OFFSET")
"""Where a group that has no progress may begin."""
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
    begun: dict[str, list[list[int]]]
    """What new groups were given by queue, by where they wanted to begin."""


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
        with ThreadPoolExecutor(len(kinds)) as both:
            return dict(zip(sides, both.map(look, sides.values()), strict=True))


def look(side: Side) -> Look:
    orders, old = ([side.offsets(topic, queue) for queue in range(QUEUES)] for topic in ("Orders", "Old"))
    low, high = orders[0]
    pulled = [side.pull(offset) for offset in (0, low - 1, low, high - 1, high, high + 1)]
    printed = [side.mqadmin(line) for line in LINES]
    side.change(f"cleanExpiredCQ -b {side.broker}", "success")
    cleaned: list[object] = [side.offsets(topic, queue) for topic in ("Old", "Orders") for queue in range(QUEUES)]
    cleaned.append(side.mqadmin("topicStatus -t Old"))
    return Look(orders, old, pulled, printed, cleaned, begin(side))


def begin(side: Side) -> dict[str, list[list[int]]]:
    """Behind what is left come two messages a queue, with a second before them, and one more when every group has its queues."""
    side.change(f"updateBrokerConfig -b {side.broker} -k fileReservedTime -v 72", "success")  # from now on nothing more goes
    producer, names = f"p-{side.broker}", {place: f"{place}-{side.broker}" for place in PLACES}
    since_ms = (int(time.time()) + 1) * 1000  # a client says whole seconds
    until(lambda: time.time() * 1000 >= since_ms, "a second in which nothing was stored")
    side.tools.call("producer.start", name=producer, namesrv=side.namesrv, group="PID")

    def send(count: int) -> dict[int, int]:
        """To each queue; (queue, its last message) when the broker shows them."""
        at = {"producer": producer, "topic": "Orders", "broker": "broker-a", "form": "queue", "body": "new", "count": count}
        last = {queue: side.tools.call("send", queue=queue, **at)[-1]["offset"] for queue in range(QUEUES)}
        until(lambda: all(side.offsets("Orders", queue)[1] == last[queue] + 1 for queue in last), "what was sent")
        return last

    def queues_held() -> int:
        held = [queue["topic"] for name in names.values() for queue in side.tools.call("push.queues", consumer=name)]
        return held.count("Orders")

    def offsets(name: str) -> set[tuple[int, int]]:
        return {(message["queue"], message["offset"]) for message in side.tools.messages(name)}

    send(2)
    side.tools.call("rebalance_interval", ms=1000)
    for place, name in names.items():
        at = {"name": name, "group": f"GID-{place}", "namesrv": side.namesrv, "topic": "Orders", "from_ms": since_ms}
        side.tools.call("push.start", **at, **{"from": f"CONSUME_FROM_{place}"})
    until(lambda: queues_held() == len(PLACES) * QUEUES, "all queues, by each group")
    last = send(1)
    for name in names.values():
        side.tools.wait(lambda name=name: last.items() <= offsets(name), f"the last messages for {name}")  # type: ignore[misc]
        until(lambda name=name: side.tools.call("push.cached", consumer=name) == 0, "those before them")  # type: ignore[misc]
        side.tools.call("push.stop", consumer=name)
    side.tools.call("producer.stop", producer=producer)
    return {
        place: [sorted(at for queue, at in offsets(name) if queue == own) for own in range(QUEUES)]
        for place, name in names.items()
    }


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


def test_a_new_group_begins_where_it_says(sides: dict[str, Look]) -> None:
    """`consumeFromWhere` counts where a queue no longer has its first message: what is left, what is newer, what comes."""
    expected: dict[str, list[list[int]]] = {place: [] for place in PLACES}
    for low, high in sides["theirs"].orders:
        for place, first in zip(PLACES, (low, high, high + 2), strict=True):
            expected[place].append(list(range(first, high + 3)))
    assert sides["ours"].begun == sides["theirs"].begun == expected
