"""Old log files go while somebody has messages of them: what is gone does not come again, and holds up nothing that is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmq_store.disk.disk import Usage
from rmq_wire.headers.groups import DeleteSubscriptionGroup
from rmq_wire.headers.offsets import ResetOffset
from rmq_wire.implied.pop import REVIVE_GROUP, revive_topic
from tests.support.driver import Client
from tests.support.engine import Harness
from tests.support.popping import ack, take
from tests.support.requests import WALL_MS, send
from tests.support.troubled_disk import TroubledDisk

LOG_BYTES = 32_768
HOUR_MS = 3_600_000
INVISIBLE_MS = 10_000
SOON_MS = INVISIBLE_MS + 6_000
REVIVE = revive_topic("DefaultCluster")


class FullDisk(TroubledDisk):
    """Of which so much is used; every file was written when the test began."""

    used_percent = 50

    def modified_ms(self, path: str) -> int:
        return WALL_MS

    def usage(self, path: str) -> Usage:
        return Usage(100, 100 - self.used_percent, 100 - self.used_percent)


@pytest.fixture
def disk() -> FullDisk:
    return FullDisk()


@pytest.fixture
def broker(tmp_path: Path, disk: FullDisk) -> Harness:
    never = {"deleteWhen": "", "fileReservedTime": 1000}
    made = Harness(tmp_path, disk=disk, reviveQueueNum=1, mappedFileSizeCommitLog=LOG_BYTES, **never).begun()
    made.topic("Other", queues=1)
    return made


def roll(broker: Harness, client: Client, disk: FullDisk) -> None:
    """The log goes on in other files, and those before are removed for want of space."""
    for _ in range(3 * LOG_BYTES // 3_000):
        assert client.ask(send("Other"), b"." * 2_900).code == 0
    before = broker.node.store.min_offset
    broker.driver.advance(60_000)
    disk.used_percent = 86
    broker.driver.advance(21_000)
    disk.used_percent = 50
    assert broker.node.store.min_offset > before
    broker.driver.advance(11_000)


def copies(broker: Harness) -> list[bytes]:
    return [bytes(one.body) for one in broker.stored("%RETRY%G_T")]


@pytest.mark.parametrize("kill", [None, False, True], ids=["running", "stopped", "killed"])
@pytest.mark.parametrize("wait_ms", [0, INVISIBLE_MS], ids=["in the wheel", "read by revival"])
def test_check_points_whose_files_go(broker: Harness, disk: FullDisk, wait_ms: int, kill: bool | None) -> None:
    client = broker.connect()
    assert client.ask(send(), b"gone").code == 0
    assert len(take(client, invisible_time=wait_ms or HOUR_MS)) == 1
    broker.driver.advance(wait_ms + 500)
    if wait_ms:
        assert broker.node.revive.open == 1
        broker.env.wall_ms -= HOUR_MS  # what was read is not due for a while
    roll(broker, client, disk)
    if kill is not None:
        broker.restart(kill=kill)
    client = broker.connect()
    assert client.ask(send(), b"here").code == 0
    assert [one.body for one in take(client, invisible_time=INVISIBLE_MS)] == [b"here"]
    broker.driver.advance(SOON_MS)
    broker.env.wall_ms += HOUR_MS
    broker.driver.advance(SOON_MS)
    assert copies(broker) == [b"here"]
    low, high = broker.node.store.queue_bounds(REVIVE, 0)
    assert broker.node.offsets.query(REVIVE_GROUP, REVIVE, 0) == high - 1 >= low
    assert broker.node.revive.open == 0
    ack(client, *take(client))


def test_a_message_that_is_popped_again_after_its_first_files_went(broker: Harness, disk: FullDisk) -> None:
    """A copy lives as long as any message from then on, whatever becomes of the original."""
    client = broker.connect()
    assert client.ask(send(), b"m").code == 0
    take(client, invisible_time=INVISIBLE_MS)
    broker.driver.advance(SOON_MS)
    roll(broker, client, disk)
    client.ask(send(), b"n")
    found = {one.body for one in take(client, queue_id=-1, invisible_time=INVISIBLE_MS)}
    assert found <= {b"m", b"n"}
    broker.driver.advance(SOON_MS)
    assert sorted(copies(broker)[-len(found) :]) == sorted(found)


def test_a_group_that_is_deleted_and_made_again_before_its_time(broker: Harness) -> None:
    """Its messages come again for the new one of its name, once; its progress was not to be cleared."""
    client = broker.connect()
    for body in (b"a", b"b"):
        client.ask(send(), body)
    take(client, invisible_time=INVISIBLE_MS)
    assert client.ask(DeleteSubscriptionGroup(group_name="G", clean_offset=False)).code == 0
    broker.restart()
    client = broker.connect()
    assert take(client) == []
    broker.driver.advance(SOON_MS)
    assert copies(broker) == [b"a", b"b"]
    ack(client, *take(client))
    broker.driver.advance(SOON_MS)
    assert copies(broker) == [b"a", b"b"]


def test_a_reset_while_thousands_are_open(broker: Harness) -> None:
    """The group starts anew at once; what it had comes again besides, and nothing of that moves its progress."""
    client = broker.connect()
    for _ in range(2_000):
        client.send(send(), b"x")
    while take(client, count=1, invisible_time=INVISIBLE_MS):
        pass
    broker.driver.advance(INVISIBLE_MS + 1_500)
    assert broker.node.revive.open > 1_000
    asked = ResetOffset(group="G", topic="T", timestamp=-1, is_force=True, queue_id=0, offset=0)
    assert client.ask(asked).code == 0
    assert len(take(client, count=32, invisible_time=600_000)) == 32
    broker.driver.advance(SOON_MS)
    assert len(copies(broker)) == 2_000
    assert broker.node.offsets.query("G", "T", 0) == 32
    broker.restart(kill=True)
    assert broker.node.offsets.query("G", "T", 0) == 32
