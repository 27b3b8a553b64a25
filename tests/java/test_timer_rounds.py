"""Timer messages between the real broker and ours: each goes on with what waits in the other's wheel, and the files are the same.

A course: Java takes messages for several times, some of which roll; it is stopped and ours goes on; ours is killed, Java again.
By night Java is killed, too: before its wheel has anything, and with all of them in it.
"""

from __future__ import annotations

import enum
import time
from collections import Counter
from concurrent.futures import Future
from pathlib import Path
from shutil import copytree, rmtree
from typing import Any, NamedTuple

import pytest

from conformance.subjects.ours import OurBroker, OurNameServer
from rmq_store.disk.disk import RealDisk
from rmq_store.layouts import TIMER_CHECK, TIMER_UNIT
from rmq_store.settings import StoreSettings
from rmq_store.store import Store
from rmq_store.timer import steps
from rmq_store.timer.machine import Timer
from rmq_store.timer.settings import TimerSettings
from rmq_store.timer.timer_log import UNIT_BYTES
from rmq_store.timer.wheel import TimerWheel
from rmq_wire.headers.positions import GetMaxOffset
from rmq_wire.headers.timers import GetTimerCheckPoint, RecallMessage
from rmq_wire.message import StoredMessage
from tests.support.courses import Place, plays
from tests.support.java import REFERENCE, library
from tests.support.process import until
from tests.support.reference import QUIET, JavaBroker
from tests.support.requests import pairs, props, pull, send, units
from tests.support.store_rig import open_store
from tests.support.talk import Talk

pytestmark = pytest.mark.java

TOPIC = "Timed"
WINDOW_SLOTS = 12
"""So far ahead reaches one step: what waits longer rolls."""
PROPERTIES = {"recallMessageEnable": "true", "timerRollWindowSlot": str(WINDOW_SLOTS), "timerFlushIntervalMs": "1000"}
LATE_MS = 300_000
"""Later than due by a stop and a start."""


class Played(NamedTuple):
    """What came of it.

    `expected`: unique keys of what is not recalled; `messages`: at the end, `ours`: how many of them there were when ours was
    killed; `first`: a copy of Java's first files.
    """

    expected: set[str]
    messages: list[StoredMessage]
    ours: int
    first: Path

    def came(self) -> Counter[str]:
        """Unique keys, how often."""
        return Counter(bytes(message.body).decode() for message in self.messages if message.body != b"x")


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Course:
    """One directory, two brokers by turns."""

    def __init__(self, place: Place, names: str) -> None:
        library(REFERENCE)
        self.store = place.directory / "store"
        self.java = JavaBroker(place.directory / "java", names, name="broker-timers", store=self.store, properties=PROPERTIES)
        self.ours = OurBroker(
            place.directory / "ours", names, name="broker-timers", port=self.java.port, store=self.store, properties=PROPERTIES
        )
        self.ours.properties = dict(self.java.properties)
        self.due: dict[str, int] = {}
        self.handles: dict[str, str] = {}
        self.recalled: set[str] = set()

    def send(self, after_ms: int, count: int = 3) -> None:
        with Talk(self.java.address) as talk:
            for _ in range(count):
                key, due_ms = f"{len(self.due):032X}", now_ms() + after_ms
                given = pairs(UNIQ_KEY=key, TAGS="A", TIMER_DELIVER_MS=str(due_ms))
                told = talk.ask(send(TOPIC, properties=given, broker_name="broker-timers"), key.encode())
                assert told.code == 0, told.remark
                self.due[key] = due_ms
                self.handles[key] = told.ext_map()["recallHandle"]

    def recall(self, key: str) -> None:
        with Talk(self.java.address) as talk:
            told = talk.ask(RecallMessage(topic=TOPIC, recall_handle=self.handles[key], producer_group="P"))
            assert told.code == 0, told.remark
        self.recalled.add(key)

    def expected(self) -> set[str]:
        """Keys of what is not recalled."""
        return self.due.keys() - self.recalled

    def until_entered(self) -> None:
        """The wheel has every message."""

        def entered() -> bool:
            with Talk(self.java.address) as talk:
                return _queue_offset(talk.ask(GetTimerCheckPoint()).body) >= highest

        highest = self._highest()
        until(entered, "all timers in the wheel")

    def until_on_disk(self) -> None:
        """The check file says so: of what it does not speak for, Java delivers at once what is due, recalled or not."""
        highest = self._highest()
        path = self.store / "config" / "timercheck"
        until(lambda: _queue_offset(path.read_bytes()) >= highest, "all timers in the check file")

    def _highest(self) -> int:
        with Talk(self.java.address) as talk:
            return int(talk.ask(GetMaxOffset(topic="rmq_sys_wheel_timer", queue_id=0)).ext_map()["offset"])

    def messages(self) -> list[StoredMessage]:
        found: list[StoredMessage] = []
        with Talk(self.java.address) as talk:
            while (answer := talk.ask(pull(TOPIC, 0, len(found)))).code == 0:
                found += units(answer.body)
        return found

    def wait_for(self, keys: set[str]) -> None:
        def came() -> bool:
            return {bytes(message.body).decode() for message in self.messages()} >= keys

        until(came, f"{len(keys)} messages", seconds=600)

    def end(self) -> None:
        for broker in (self.java, self.ours):
            broker.kill()


def _queue_offset(check: bytes | memoryview) -> int:
    return int(TIMER_CHECK.unpack(check[: TIMER_CHECK.size])[2])


class End(enum.Enum):
    """How Java's first life ends."""

    STOP = enum.auto()
    KILL_BEFORE_THE_WHEEL = enum.auto()
    KILL_WITH_THE_WHEEL = enum.auto()
    """The wheel has every message; the check file may be as old as a second."""


def course(place: Place, java_ends: End) -> Played:
    """Java, ours until it is killed, Java; each takes messages that the next delivers."""
    with OurNameServer(place.directory / "namesrv") as names:
        played = Course(place, names.address)
        try:
            first = place.directory / "first"
            _java_begins(played, java_ends)
            copytree(played.store, first)
            played.ours.start()
            played.wait_for({key for key in played.expected() if int(key, 16) < 6})
            played.until_on_disk()
            played.send(60_000)
            played.recall(f"{7:032X}")
            played.recall(f"{9:032X}")
            ours = len(played.messages())
            played.ours.kill()
            played.java.properties |= QUIET  # its files are not looked at any more
            played.java.start()
            played.wait_for(played.expected())
            return Played(played.expected(), played.messages(), ours, first)
        finally:
            played.end()


def _java_begins(played: Course, ends: End) -> None:
    """What it is killed with is due long after the other has started: what is due then comes at once, whatever is recalled."""
    played.java.start()
    with Talk(played.java.address) as talk:
        until(lambda: talk.send(TOPIC, b"x").code == 0, "the broker takes messages")
    played.send(3_000)
    played.send(40_000)
    played.send(180_000)
    played.recall(f"{3:032X}" if ends is End.STOP else f"{6:032X}")
    if ends is not End.KILL_BEFORE_THE_WHEEL:
        played.until_entered()
    if ends is End.STOP:
        played.java.stop()
    else:
        played.java.kill()


def everything_came(played: Played) -> None:
    """After a kill Java may put into its wheel again what is there (docs/differences.md)."""
    assert played.came().keys() == played.expected
    assert max(played.came().values()) <= 2


def none_came_early(played: Played) -> None:
    for message in played.messages:
        due_ms = int(props(message).get("TIMER_DELIVER_MS", 0))
        assert due_ms <= message.store_timestamp <= max(due_ms, 1) + LATE_MS or not due_ms


@pytest.mark.nightly
@pytest.mark.parametrize(
    "ends", [pytest.param(ends, marks=plays(course, ends, seconds=190)) for ends in End if ends is not End.STOP]
)
def test_both_are_killed(course: Future[Played], ends: End) -> None:
    played = course.result()
    everything_came(played)
    none_came_early(played)


@plays(course, End.STOP, seconds=190)
class TestByTurns:
    def test_each_delivers_what_the_other_took(self, course: Future[Played]) -> None:
        played = course.result()
        everything_came(played)
        by_ours = Counter(bytes(message.body) for message in played.messages[: played.ours])
        assert set(by_ours.values()) == {1}

    def test_none_comes_early(self, course: Future[Played]) -> None:
        none_came_early(course.result())

    def test_what_waited_long_has_rolled(self, course: Future[Played]) -> None:
        played = course.result()
        rolled = {bytes(message.body).decode() for message in played.messages if "TIMER_ROLL_TIMES" in props(message)}
        assert rolled == {key for key in played.expected if int(key, 16) >= 3}

    def test_the_same_messages_at_the_same_times_make_the_same_files(
        self, course: Future[Played], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Java's first log of messages, taken into our wheel at the times that its timer's log has: the same log and wheel."""
        theirs = course.result().first
        ours = tmp_path / "store"
        copytree(theirs, ours)
        rmtree(ours / "timerlog")
        for name in ("timerwheel", "config/timercheck"):
            (ours / name).unlink()
        log = (theirs / "timerlog" / f"{0:020d}").read_bytes()
        packed = [TIMER_UNIT.unpack_from(log, at) for at in range(0, len(log) - UNIT_BYTES, UNIT_BYTES)]
        writes = [unit[3] for unit in packed if unit[0] == UNIT_BYTES]
        timer = replayed(ours, writes, len(log), monkeypatch)
        assert timer.log.end == len(writes) * UNIT_BYTES
        assert (ours / "timerlog" / f"{0:020d}").read_bytes() == log
        kept = TimerWheel(RealDisk(), str(theirs), timer.wheel.slots, 1_000)
        assert kept.load()
        now = {slot.tick: slot for slot in timer.wheel.used()}
        assert now == {slot.tick: slot for slot in kept.used()}

    def test_the_check_file_of_java_speaks_for_its_log(self, course: Future[Played]) -> None:
        read_ms, position, offset, master, *_ = TIMER_CHECK.unpack(
            (course.result().first / "config" / "timercheck").read_bytes()[: TIMER_CHECK.size]
        )
        assert position % UNIT_BYTES == 0
        assert offset == master > 0
        assert read_ms % 1_000 == 0


def replayed(root: Path, writes: list[int], log_bytes: int, monkeypatch: pytest.MonkeyPatch) -> Timer:
    """A message of the queue per time, and no delivery."""
    settings = StoreSettings(
        store_path_root_dir=str(root),
        mapped_file_size_commit_log=next((root / "commitlog").iterdir()).stat().st_size,
        mapped_file_size_consume_queue=next((root / "consumequeue" / TOPIC / "0").iterdir()).stat().st_size,
        disk_space_warning_level_ratio=None,
        max_hash_slot_num=50_000,
        max_index_num=200_000,
    )
    store: Store = open_store(settings, writes[0])
    try:
        told = TimerSettings(
            store_path_root_dir=str(root), timer_roll_window_slot=WINDOW_SLOTS, mapped_file_size_timer_log=log_bytes
        )
        timer = Timer(RealDisk(), told, store, store.written_offset, writes[0], print)
        monkeypatch.setattr(steps, "ENTRIES_PER_STEP", 1)
        for wall_ms in writes:
            step = timer.step(wall_ms, _nobody, dequeues=False)
            assert step.trouble is None
            timer.done(step, wall_ms)
        return timer
    finally:
        store.close(writes[-1])


def _nobody(*_: Any) -> int:
    raise AssertionError("nothing is delivered here")
