"""What one check point, record or message has against it holds up no other: unreadable, damaged, without room, half copied."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker_impl.engine.cold_reads import ColdReads
from rmq_store.errors import Cold
from rmq_store.results import Read
from rmq_wire.implied.pop import REVIVE_GROUP, revive_topic
from tests.support.driver import Client
from tests.support.engine import Harness, failing_commits
from tests.support.popping import ack, take
from tests.support.requests import send

REVIVE = revive_topic("DefaultCluster")
RETRY = "%RETRY%G_T"
SHORT_MS, LONG_MS = 5_000, 20_000
"""For which messages are invisible."""
MINUTE_MS = 60_000
BODY_SIZE_AT = 84
"""In a unit without IPv6 hosts."""
DAMAGE = [(0, b"\x7f\0\0\0"), (4, b"XXXX"), (BODY_SIZE_AT, b"\x7f\0\0\0"), (BODY_SIZE_AT, b"\0\0\0\1")]
"""To a unit's size, magic and body size."""


@pytest.fixture
def broker(tmp_path: Path) -> Harness:
    return Harness(tmp_path, reviveQueueNum=1).begun()


def fill(client: Client, count: int, queue_id: int = 0) -> None:
    for number in range(count):
        assert client.ask(send("T", queue_id), b"m%d" % number).code == 0


def again(broker: Harness, topic: str = RETRY) -> Counter[str]:
    """What has come again, and how often."""
    return Counter(bytes(one.body).decode() for one in broker.stored(topic)) if topic in broker.node.topics else Counter()


def once(*numbers: int) -> Counter[str]:
    return Counter(f"m{number}" for number in numbers)


def read_with(broker: Harness, offset: int, wrong: Callable[[], None], why: str) -> None:
    """The message at this offset is not in memory, as long as `wrong`, which would read it, is not done."""
    plain = broker.node.store.read_queue

    def read(topic: str, queue_id: int, at: int, *more: Any) -> Read:
        if (topic, at) == ("T", offset) and not getattr(wrong, "done", False):
            raise Cold(wrong, why)
        return plain(topic, queue_id, at, *more)

    broker.node.store.read_queue = read  # type: ignore[method-assign, assignment]


class BadSector:
    """An error as often as that, each time that somebody reads."""

    def __init__(self, times: int) -> None:
        self.left = times

    @property
    def done(self) -> bool:
        return not self.left

    def __call__(self) -> None:
        self.left -= 1
        raise OSError(5, "Input/output error")


@pytest.mark.parametrize("times", [1, 3])
def test_a_message_that_cannot_be_read_for_a_while_comes_later_and_the_others_once(broker: Harness, times: int) -> None:
    client = broker.connect()
    fill(client, 3)
    assert len(take(client, count=3, invisible_time=LONG_MS)) == 3
    read_with(broker, 2, BadSector(times), "a bad sector")
    broker.driver.advance(LONG_MS + SHORT_MS)
    assert again(broker) == once(0, 1)
    broker.driver.advance(5 * MINUTE_MS)
    assert again(broker) == once(0, 1, 2)
    assert not broker.node.revive.open


def test_a_message_that_can_never_be_read_is_tried_more_and_more_seldom(broker: Harness) -> None:
    client = broker.connect()
    fill(client, 3)
    assert len(take(client, count=3, invisible_time=LONG_MS)) == 3
    sector = BadSector(1 << 30)
    read_with(broker, 1, sector, "a bad sector")
    tries = []
    for _ in range(3):
        before = sector.left
        broker.driver.advance(10 * MINUTE_MS)
        tries.append(before - sector.left)
    assert again(broker) == once(0, 2)
    assert tries[0] > tries[1] >= tries[2] > 0
    assert tries[0] < 12


def damaged(broker: Harness, topic: str, offset: int, where: int, data: bytes) -> None:
    """Restart with these bytes in a unit: where it lies now, a run has served it before."""
    broker.restart()
    at = broker.node.store.queue_unit(topic, 0, offset)[0]
    broker.stop()
    [log] = Path(broker.root, "commitlog").iterdir()
    with log.open("r+b") as file:
        file.seek(at + where)
        file.write(data)
    broker.open()


@pytest.mark.parametrize(("where", "data"), DAMAGE)
@pytest.mark.parametrize("together", [False, True])
def test_a_message_that_is_damaged_comes_no_more_and_the_others_do(
    broker: Harness, where: int, data: bytes, together: bool
) -> None:
    client = broker.connect()
    fill(client, 3)
    for count in [3] if together else [1, 1, 1]:
        assert len(take(client, count=count, invisible_time=LONG_MS)) == count
    damaged(broker, "T", 1, where, data)
    broker.driver.advance(MINUTE_MS)
    assert again(broker) == once(0, 2)
    assert not broker.node.revive.open


@pytest.mark.parametrize(("where", "data"), DAMAGE)
def test_a_record_that_is_damaged_is_passed_over(broker: Harness, where: int, data: bytes) -> None:
    client = broker.connect()
    fill(client, 3)
    for _ in range(3):
        assert len(take(client, count=1, invisible_time=LONG_MS)) == 1
    broker.driver.advance(LONG_MS + 300)
    assert broker.node.store.queue_bounds(REVIVE, 0)[1] == 3
    damaged(broker, REVIVE, 1, where, data)
    broker.driver.advance(MINUTE_MS)
    assert again(broker) == once(0, 2)
    assert not broker.node.revive.open


def test_a_group_without_room_for_its_retry_topic_waits_alone(broker: Harness) -> None:
    client, topics = broker.connect(), broker.node.topics
    fill(client, 1)
    take(client, consumer_group="H", invisible_time=SHORT_MS)
    broker.driver.advance(3 * SHORT_MS)
    assert again(broker, "%RETRY%H_T") == once(0)
    assert client.ask(send("T", 1), b"of H").code == 0
    room, topics.rows_max = topics.rows_max, len(topics)
    take(client, consumer_group="G", invisible_time=SHORT_MS)
    broker.driver.advance(1_000)
    assert b"of H" in [one.body for _ in range(4) for one in take(client, "T", 1, consumer_group="H", invisible_time=SHORT_MS)]
    broker.driver.advance(3 * SHORT_MS)
    assert again(broker, "%RETRY%H_T")["of H"] == 1
    assert RETRY not in topics
    topics.rows_max = room
    broker.driver.advance(5 * MINUTE_MS)
    assert again(broker) == once(0)


def test_a_message_that_cannot_be_copied_for_a_reason_nobody_foresaw(broker: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    client, intake = broker.connect(), broker.node.revive._parts.intake
    fill(client, 3)
    take(client, invisible_time=LONG_MS)
    plain = intake.draft

    def draft(message: Any) -> Any:
        if bytes(message.body) == b"m1":
            raise ArithmeticError("a bug")
        return plain(message)

    with monkeypatch.context() as patch:
        patch.setattr(intake, "draft", draft)
        broker.driver.advance(MINUTE_MS)
        assert again(broker) == once(0, 2)
    broker.driver.advance(10 * MINUTE_MS)
    assert again(broker) == once(0, 1, 2)


@pytest.mark.parametrize("cold_at", [1, 20])
@pytest.mark.parametrize("earlier", [False, True])
def test_a_clean_stop_in_the_middle_of_a_check_point_repeats_none_of_its_copies(
    broker: Harness, monkeypatch: pytest.MonkeyPatch, cold_at: int, earlier: bool
) -> None:
    """earlier: another one waits before it in the queue, and has time."""
    client = broker.connect()
    if earlier:
        fill(client, 1, queue_id=1)
        assert len(take(client, queue_id=1, invisible_time=LONG_MS)) == 1
        broker.driver.advance(LONG_MS - 500)  # its check point is in the queue, and waits for what may be behind it
        broker.env.wall_ms -= MINUTE_MS
    fill(client, 32)
    assert len(take(client, invisible_time=LONG_MS)) == 32
    never_read: list[Cold] = []
    plain = ColdReads.after

    def after(self: ColdReads, cold: Cold, then: Any) -> None:
        if str(cold) != "slow":
            plain(self, cold, then)
        else:
            never_read.append(cold)

    monkeypatch.setattr(ColdReads, "after", after)
    read_with(broker, cold_at, lambda: None, "slow")
    broker.driver.advance(LONG_MS + SHORT_MS)
    assert never_read
    assert again(broker) == once(*range(cold_at))
    broker.restart()
    broker.driver.advance(3 * MINUTE_MS)
    assert again(broker) == once(*range(32)) + (once(0) if earlier else Counter())


@pytest.mark.parametrize("precision_ms", [1_000, 5_000, 10_000])
def test_what_is_acknowledged_in_time_does_not_come_again_whatever_the_timer_s_slots(tmp_path: Path, precision_ms: int) -> None:
    """Records of one slot come in the order in which they were stored: an acknowledgement behind those of the slot's end."""
    broker = Harness(tmp_path, reviveQueueNum=1, timerPrecisionMs=precision_ms).begun()
    client, later_ms = broker.connect(), precision_ms - 900
    for queue_id in (0, 1):
        fill(client, 40, queue_id)
    broker.driver.advance(precision_ms - broker.env.wall_ms % precision_ms + 100)
    mine = take(client, invisible_time=LONG_MS)
    broker.driver.advance(later_ms)
    ack(client, *(one for _ in range(40) for one in take(client, queue_id=1, count=1, invisible_time=LONG_MS)))
    broker.driver.advance(LONG_MS - later_ms - 1_000)
    ack(client, *mine)
    broker.driver.advance(2 * MINUTE_MS)
    assert len(mine) == 32
    assert not again(broker)
    assert not broker.node.revive.open


@pytest.mark.parametrize("beyond", [0, 1, 98])
@pytest.mark.parametrize("done", [0, 1])
def test_progress_beyond_the_revive_queue_passes_nothing_over(broker: Harness, beyond: int, done: int) -> None:
    """As of a Java directory after a power cut.  The progress of that group is the last record that is done with."""
    client = broker.connect()
    fill(client, 3)
    for _ in range(done):
        ack(client, *take(client, count=1, invisible_time=SHORT_MS))
        broker.driver.advance(10 * SHORT_MS)
    end = broker.node.store.queue_bounds(REVIVE, 0)[1]
    assert (end > 0) is (done > 0)
    broker.node.offsets.commit(REVIVE_GROUP, REVIVE, 0, end + beyond)
    broker.restart()
    client = broker.connect()
    got = [bytes(one.body) for _ in range(done, 3) for one in take(client, count=1, invisible_time=SHORT_MS)]
    broker.driver.advance(MINUTE_MS)
    assert got == [b"m%d" % number for number in range(done, 3)]
    assert again(broker) == once(*range(done, 3))


def test_of_two_faults_in_a_row_each_holds_up_its_own(broker: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies cannot be written, and at the next try the message behind them cannot be read."""
    client = broker.connect()
    fill(client, 3)
    take(client, invisible_time=LONG_MS)
    broker.driver.advance(LONG_MS - 500)
    left = failing_commits(broker, monkeypatch, 2)
    read_with(broker, 2, BadSector(1), "a bad sector")
    broker.driver.advance(10 * MINUTE_MS)
    assert not left
    assert again(broker) == once(0, 1, 2)
