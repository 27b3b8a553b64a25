"""A disk that fills up or fails in the middle of a turn, seen by everybody who is connected.

All of the turn gets the reference's code, nothing of it can be read, reads go on, and when there is room again sends are taken
without a restart.
"""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from rmq_wire.headers.positions import GetMaxOffset
from tests.broker.siege import Siege, siege
from tests.support.bad_frames import WITNESS
from tests.support.requests import pull, send
from tests.support.troubled_disk import TroubledDisk

SENDERS = 8


class FullLog(TroubledDisk):
    """After `fill` the next write of the log stops after `landed` bytes; later ones fail, but for those over what has landed."""

    def __init__(self, landed: int, code: int = errno.ENOSPC) -> None:
        super().__init__()
        self._landed = landed
        self._code = code
        self._begun = False

    def fill(self) -> None:
        self.trouble = self._write

    def _write(self, operation: str, path: str, size: int) -> OSError | int | None:
        if operation != "write" or "commitlog" not in path:
            return None
        if not self._begun and self._landed:
            self._begun = True
            return self._landed
        if self._code == errno.ENOSPC and size <= self._landed:
            return None
        return OSError(self._code, "no room", path)


def turn_of_sends(broker: Siege) -> list[int]:
    """Eight peers send in one turn; their answers' codes."""
    clients = [broker.connect() for _ in range(SENDERS)]
    broker.driver.run(*[(client, client.frame(send("T"), b"lost" * 100)) for client in clients])
    return [client.answers.pop(1).code for client in clients]


@pytest.mark.parametrize("landed", [0, 1, 90, 600, 2_000])
def test_disk_full_in_the_middle_of_a_turn(tmp_path: Path, landed: int) -> None:
    disk = FullLog(landed)
    with siege(tmp_path, disk=disk) as broker:
        broker.topic("T")
        reader = broker.connect()
        before = broker.state()
        disk.fill()
        assert turn_of_sends(broker) == [14] * SENDERS
        assert broker.state() == before
        assert reader.ask(GetMaxOffset(topic="T", queue_id=0)).ext_map() == {"offset": "0"}
        assert broker.read_all(reader, WITNESS, 0) == broker._witnessed
        assert broker.lines.about("append refused", "no room")
        disk.trouble = None
        broker.driver.advance(10_000)
        broker.keep_faith()
        assert turn_of_sends(broker) == [0] * SENDERS
        assert len(broker.stored("T", 0)) == SENDERS


def test_a_failing_write_fences_and_reads_go_on(tmp_path: Path) -> None:
    """What is on the disk is not known any more: nothing is appended until a restart, which finds what was acknowledged."""
    disk = FullLog(100, errno.EIO)
    with siege(tmp_path, disk=disk) as broker:
        broker.topic("T")
        disk.fill()
        assert turn_of_sends(broker) == [14] * SENDERS
        disk.trouble = None
        broker.driver.advance(60_000)
        assert turn_of_sends(broker) == [14] * SENDERS
        assert broker.read_all(broker.connect(), WITNESS, 0) == broker._witnessed
        assert broker.connect().ask(pull("T")).code == 19
        broker.restart(kill=True)
        assert broker.read_all(broker.connect(), WITNESS, 0) == broker._witnessed
        assert broker.read_all(broker.connect(), "T", 0) == []


def test_a_failing_sync_answers_14_and_never_0(tmp_path: Path) -> None:
    disk = TroubledDisk()
    with siege(tmp_path, disk=disk, flushDiskType="SYNC_FLUSH") as broker:
        broker.topic("T")
        disk.trouble = lambda operation, path, _: OSError(errno.EIO, "bad", path) if operation == "sync" else None
        assert turn_of_sends(broker) == [14] * SENDERS
        disk.trouble = None
        assert turn_of_sends(broker) == [14] * SENDERS, "no second sync can make it good"
        assert broker.connect().ask(pull("T")).code == 19, "consumers never see what is not flushed"
        assert broker.lines.about("flush failed")
        broker.restart(kill=True)


def test_a_log_file_that_cannot_be_made(tmp_path: Path) -> None:
    """At a roll: code 1 as the reference, and room later."""
    disk = TroubledDisk()
    with siege(tmp_path, disk=disk, mappedFileSizeCommitLog=8_192) as broker:
        broker.topic("T")
        disk.trouble = lambda operation, path, _: (
            OSError(errno.ENOSPC, "no room", path) if operation == "create" and "commitlog" in path else None
        )
        codes: set[int] = set()
        for _ in range(8):
            codes.update(turn_of_sends(broker))
        assert codes <= {0, 1, 14}
        assert 1 in codes
        kept = len(broker.stored("T", 0))
        disk.trouble = None
        broker.driver.advance(10_000)
        assert turn_of_sends(broker) == [0] * SENDERS
        assert len(broker.stored("T", 0)) == kept + SENDERS
