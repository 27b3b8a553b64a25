"""Old files go in the real broker and in ours: the same minimum offsets, the same answers for what is gone, the same calls.

Both get the same messages over a dozen log files, are told by mqadmin to delete what has expired (everything but the newest
file), and are looked at when they have done so, a minute after their start.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import NamedTuple

import pytest

from rmq_wire.codes import RequestCode
from tests.java.mqadmin import normalise
from tests.support import remoting
from tests.support.clients import JavaDriver
from tests.support.java import REFERENCE
from tests.support.process import until
from tests.support.reference import SMALL_STORE
from tests.support.subject import SUBJECTS, start_broker, start_name_server

pytestmark = pytest.mark.java

LOG_BYTES = 65_536
QUEUES = 4
MESSAGES = 240
"""Of 3,000 bytes: eleven files and a bit."""
FIRST_LOOK_S = 60
WAIT_S = FIRST_LOOK_S + 60


def properties() -> dict[str, str]:
    """Everything has expired, but it is not the hour: only a request deletes."""
    return {
        **SMALL_STORE,
        "mappedFileSizeCommitLog": str(LOG_BYTES),
        "mappedFileSizeConsumeQueue": "200",
        "fileReservedTime": "0",
        "deleteWhen": f"{(datetime.now().hour + 12) % 24:02d}",
        "cleanResourceInterval": "1000",
    }


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

    def pull(self, offset: int) -> tuple[int, dict[str, str]]:
        ext = {
            "consumerGroup": "G",
            "topic": "Orders",
            "queueId": "0",
            "queueOffset": str(offset),
            "maxMsgNums": "1",
            "sysFlag": "4",
            "commitOffset": "0",
            "suspendTimeoutMillis": "0",
            "subscription": "*",
            "subVersion": "0",
            "expressionType": "TAG",
        }
        answer = remoting.ask(self.broker, RequestCode.PULL_MESSAGE, ext)
        return answer.code, {name: value for name, value in answer.ext.items() if name != "suggestWhichBrokerId"}


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Side]]:
    kinds = {"theirs": "java", "ours": SUBJECTS[0]}
    directories = {side: tmp_path_factory.mktemp(f"retention-{side}") for side in kinds}
    with contextlib.ExitStack() as stack:
        names = {side: start_name_server(kind, directories[side] / "namesrv") for side, kind in kinds.items()}
        brokers = {
            side: start_broker(kind, directories[side] / "broker", names[side].address, properties=properties(), wait=False)
            for side, kind in kinds.items()
        }
        for server in (*names.values(), *brokers.values()):
            stack.callback(server.end)
        drivers = {side: stack.enter_context(JavaDriver(directories[side] / "tools", REFERENCE)) for side in kinds}
        for broker in brokers.values():
            broker.wait_ready()
        found = {side: Side(drivers[side], names[side].address, brokers[side].address) for side in kinds}
        with ThreadPoolExecutor(len(kinds)) as both:
            list(both.map(fill, found.values()))
        until(lambda: all(side.offsets("Orders", 0)[0] > 0 for side in found.values()), "the first look", seconds=WAIT_S)
        until(lambda: at_rest(found), "the last deletion", seconds=WAIT_S)
        yield found


def fill(side: Side) -> None:
    for topic in ("Old", "Orders"):
        side.mqadmin(f"updateTopic -b {side.broker} -t {topic} -r {QUEUES} -w {QUEUES}")
    side.tools.call("producer.start", name="p", namesrv=side.namesrv, group="PID")
    for number in range(MESSAGES):
        topic = "Old" if number < QUEUES else "Orders"
        side.tools.call(
            "send",
            producer="p",
            topic=topic,
            broker="broker-a",
            form="queue",
            body="." * 3000,
            keys=f"k{number}",
            tags="T",
            queue=number % QUEUES,
        )
    side.mqadmin(f"deleteExpiredCommitLog -b {side.broker}")


def at_rest(sides: dict[str, Side]) -> bool:
    """The queues speak of one file only, on both sides."""
    return all(side.offsets("Orders", queue)[0] * QUEUES > MESSAGES - 40 for side in sides.values() for queue in range(QUEUES))


def test_minimum_offsets_agree(sides: dict[str, Side]) -> None:
    """001-72, 001-78, 001-79, S22."""
    theirs, ours = sides["theirs"], sides["ours"]
    for queue in range(QUEUES):
        assert ours.offsets("Orders", queue) == theirs.offsets("Orders", queue)
        assert ours.offsets("Old", queue) == theirs.offsets("Old", queue) == (1, 1)


def test_what_is_gone_is_answered_alike(sides: dict[str, Side]) -> None:
    low, high = sides["theirs"].offsets("Orders", 0)
    for offset in (0, low - 1, low, high - 1, high, high + 1):
        assert sides["ours"].pull(offset) == sides["theirs"].pull(offset)


def test_the_tools_show_the_same(sides: dict[str, Side]) -> None:
    for line in ("topicStatus -t Orders", "topicStatus -t Old", "queryMsgByKey -t Orders -k k239"):
        assert sides["ours"].mqadmin(line) == sides["theirs"].mqadmin(line)


def test_queues_without_a_message_are_cleaned_alike(sides: dict[str, Side]) -> None:
    """The last of this module: cleanExpiredCQ makes their offsets begin anew."""
    for side in sides.values():
        side.mqadmin(f"cleanExpiredCQ -b {side.broker}")
    for queue in range(QUEUES):
        assert sides["ours"].offsets("Old", queue) == sides["theirs"].offsets("Old", queue)
        assert sides["ours"].offsets("Orders", queue) == sides["theirs"].offsets("Orders", queue)
    assert sides["ours"].mqadmin("topicStatus -t Old") == sides["theirs"].mqadmin("topicStatus -t Old")
