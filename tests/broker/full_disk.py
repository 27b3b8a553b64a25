"""A broker that lives on a disk which runs full, again and again, beside a model that knows what it has acknowledged.

A place is a disk with little room: a real small file system, or one handed in that takes so many bytes and then none.  In a life
topics and groups come and go, messages and progress are written; every now and then the disk is filled.  Each life ends with a
stop or a kill; then there is room again, and the next start must find all that was answered with 0, and nothing that was refused.
"""

from __future__ import annotations

import contextlib
import errno
import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from rmq_store.disk.disk import Disk, RealDisk
from rmq_store.errors import StoreError
from rmq_wire.bodies.groups import SubscriptionGroupConfig
from rmq_wire.command import Command
from rmq_wire.headers.groups import DeleteSubscriptionGroup, UpdateAndCreateSubscriptionGroup
from rmq_wire.headers.offsets import UpdateConsumerOffset
from rmq_wire.headers.topics import DeleteTopic
from rmq_wire.headers.transactions import EndTransaction
from rmq_wire.sys_flag import TRANSACTION_COMMIT, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from tests.support.engine import Harness
from tests.support.requests import beat, create_topic, pairs, send
from tests.support.troubled_disk import TroubledDisk

NAMES = 6
STEPS = 40
LEFT_BYTES_MAX = 40_000
"""What filling leaves: less than two tables, now and then nothing."""
SETTINGS = {"mappedFileSizeCommitLog": 1 << 16, "mappedFileSizeConsumeQueue": 2000, "maxHashSlotNum": 100, "maxIndexNum": 400}
WAITING = {"transactionCheckMax": "1000", "enablePropertyFilter": "true", "timerMaxDelaySec": "36000"}
HOUR_MS = 3_600_000
UNSEEN_S = 5
"""The end of a half message that no queue has yet, since the disk is full, is answered so much later at most."""
ROOM_LOOKS = 20
"""So many seconds a broker may take to see that there is room again."""
PASSING = {
    "cleanFileForciblyEnable": "false",
    "diskSpaceWarningLevelRatio": "100",
    "diskMaxUsedSpaceRatio": "95",
    "diskSpaceCleanForciblyRatio": "99",
}
BLOCK = 4096


class Place(Protocol):
    """Where the store is."""

    disk: Disk
    root: Path

    def fill(self, left_bytes: int) -> None: ...
    def empty(self) -> None: ...


class Budget:
    """A disk handed in: so many bytes can be written, then none until there is room again."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.disk = TroubledDisk()
        self.left: int | None = None
        self.disk.trouble = self._trouble

    def fill(self, left_bytes: int) -> None:
        self.left = left_bytes

    def empty(self) -> None:
        self.left = None

    def _trouble(self, operation: str, path: str, size: int) -> OSError | int | None:
        if self.left is None or operation not in ("write", "create", "link"):
            return None
        if self.left <= 0:
            return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        taken = min(self.left, size)
        self.left -= max(taken, 1)
        return taken if taken < size else None


class FileSystem:
    """A real one; a file beside the store takes the room."""

    def __init__(self, at: Path) -> None:
        self.root = at / "store"
        self.disk = RealDisk()
        self._filler = at / "filler"

    def fill(self, left_bytes: int) -> None:
        with self._filler.open("ab", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(BLOCK))
        with contextlib.suppress(OSError):
            os.truncate(self._filler, max(0, self._filler.stat().st_size - left_bytes))

    def empty(self) -> None:
        self._filler.unlink(missing_ok=True)


@contextlib.contextmanager
def mounted(kind: str, scratch: Path, size: str = "12m") -> Iterator[Path]:
    """A file system of this kind and size, gone at the end.  Raises `OSError` where that is not allowed."""
    at = scratch / "mounted"
    at.mkdir()
    source = scratch / "image"
    if kind == "tmpfs":
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(at)]
    else:
        with source.open("wb") as file:
            file.truncate(16 << 20)
        _run(["mkfs.ext4", "-q", "-m", "0", "-O", "^has_journal", str(source)])
        command = ["mount", "-o", "loop", str(source), str(at)]
    _run(command)
    try:
        yield at
    finally:
        _run(["umount", "--lazy", str(at)])  # a broker that was killed may hold files


def _run(command: list[str]) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True)
    except subprocess.CalledProcessError as failed:
        raise PermissionError(errno.EPERM, failed.stderr.decode(errors="replace").strip()) from None


class Lives:
    """The broker of one place, life after life, and what it has acknowledged."""

    def __init__(self, place: Place, seed: int) -> None:
        self.place = place
        self.chance = random.Random(seed)
        self.topics: dict[str, list[bytes]] = {}
        """Name -> the bodies in its queue."""
        self.groups: set[str] = set()
        self.progress: dict[tuple[str, str], int] = {}
        self.refused = 0
        self.starts_refused = 0
        self.sent = 0
        self._names = [f"T{number}" for number in range(NAMES)]
        self._harness: Harness | None = None
        self._start()

    def life(self) -> None:
        """Some steps, the disk full now and then; an end; a start on the full disk, perhaps; a start with room."""
        for _ in range(STEPS):
            doing = self.chance.random()
            if doing < 0.10:
                self.place.fill(self.chance.choice((0, self.chance.randrange(LEFT_BYTES_MAX))))
            elif doing < 0.14:
                self.place.empty()
                self.harness.driver.advance(11_000)
                self.client = self.harness.connect()  # who said nothing for so long was closed
            else:
                self._step()
        if self.chance.random() < 0.5:
            with contextlib.suppress(OSError, StoreError):
                self.harness.node.close()
        self.harness.node.store._lock.release()
        if self.chance.random() < 0.5:
            try:
                self._start()
            except (OSError, StoreError):
                self.starts_refused += 1
            else:
                self.harness.node.store._lock.release()
        self.place.empty()
        self._start()
        self._look()

    def end(self) -> None:
        """The last stop, with room."""
        self.harness.stop()

    def _start(self) -> None:
        """On what is there; the clocks go on."""
        if self._harness is None:
            self._harness = Harness(self.place.root, disk=self.place.disk, **SETTINGS, **PASSING, **WAITING)
        else:
            self._harness.open()
        self.client = self.harness.connect()

    @property
    def harness(self) -> Harness:
        assert self._harness is not None
        return self._harness

    def _step(self) -> None:
        name = self.chance.choice(self._names)
        group = f"G{self.chance.randrange(NAMES)}"
        kind = self.chance.choice(("topic", "send", "send", "send", "group", "no topic", "no group", "progress"))
        if kind == "topic":
            if self._done(create_topic(name, 1 + self.chance.randrange(4))):
                self.topics.setdefault(name, [])
        elif kind == "send":
            self.sent += 1
            body = b"%d " % self.sent * self.chance.choice((1, 100))
            if self._done(send(name, 0), body):
                self.topics.setdefault(name, []).append(body)
            elif name in self.harness.node.topics:
                self.topics.setdefault(name, [])  # there was room for the topic, and none for the message
        elif kind == "group":
            if self._done(UpdateAndCreateSubscriptionGroup(), SubscriptionGroupConfig(group_name=group).encode()):
                self.groups.add(group)
        elif kind == "no topic" and self.chance.random() < 0.3:
            if self._done(DeleteTopic(topic=name)):
                self.topics.pop(name, None)
                self._names[self._names.index(name)] = (
                    f"T{self.sent + NAMES}"  # a start that reads the log brings old messages back
                )
        elif kind == "no group":
            if self._done(DeleteSubscriptionGroup(group_name=group, clean_offset=False)):
                self.groups.discard(group)
        elif kind == "progress":
            self._done(UpdateConsumerOffset(consumer_group=group, topic=name, queue_id=0, commit_offset=0))

    def _done(self, request: object, body: bytes = b"") -> bool:
        return self._asked(request, body).code == 0

    def _asked(self, request: object, body: bytes = b"") -> Command:
        opaque = self.client.send(request, body)  # type: ignore[arg-type]
        for _ in range(UNSEEN_S):
            if opaque not in self.client.answers:
                self.harness.driver.advance(1_000)
        answer = self.client.answers.pop(opaque)
        self.refused += answer.code != 0
        return answer

    def _look(self) -> None:
        node = self.harness.node
        assert {name for name in node.topics.table if name[:1] == "T" and name[1:].isdigit()} == self.topics.keys()
        assert {name for name in node.groups.table if name[:1] == "G" and name[1:].isdigit()} == self.groups
        for name, bodies in self.topics.items():
            assert [bytes(unit.body) for unit in self.harness.stored(name, 0)] == bodies, f"messages of {name}"


class WaitingLives(Lives):
    """The same with messages that wait: delayed, timed, half ones; and with groups that filter by properties.

    At the end of each life all that was acknowledged is due, and must have come: at least once, since a kill may repeat.
    """

    def __init__(self, place: Place, seed: int) -> None:
        super().__init__(place, seed)
        self.halves: list[tuple[bytes, EndTransaction]] = []
        """Acknowledged, and no end of them is: (body, the end that its producer wants)."""
        self.wanted: set[bytes] = set()
        self.never: set[bytes] = set()
        assert self._done(create_topic("W", 1))

    def _step(self) -> None:
        kind = self.chance.choice(("else", "else", "delayed", "timed", "half", "end", "filter", "wait"))
        body = b"w%d" % self.sent
        self.sent += 1
        if kind == "else":
            super()._step()
        elif kind == "delayed":
            self._put(body, DELAY=str(self.chance.randrange(1, 5)))
        elif kind == "timed":
            after_ms = self.chance.choice((-1_000, 1_500, 7_000, 60_000, HOUR_MS))
            self._put(body, TIMER_DELIVER_MS=str(self.harness.env.wall_ms + after_ms))
        elif kind == "half":
            self._half(body)
        elif kind == "end" and self.halves:
            self._end(self.chance.randrange(len(self.halves)))
        elif kind == "filter":
            said = beat(
                f"F{self.chance.randrange(NAMES)}", "W", f"a > {self.sent}", "f", sub_version=self.sent, expression_type="SQL92"
            )
            self._done(*said)
        elif kind == "wait":
            self.harness.driver.advance(self.chance.choice((300, 1_000, 6_000)))
            self.client = self.harness.connect()

    def _put(self, body: bytes, **properties: str) -> None:
        if self._done(send("W", 0, pairs(UNIQ_KEY=f"{self.sent:032X}", **properties)), body):
            self.wanted.add(body)
        else:
            self.never.add(body)

    def _half(self, body: bytes) -> None:
        key = f"{self.sent:032X}"
        given = pairs(TRAN_MSG="true", PGROUP="P", UNIQ_KEY=key)
        born_ms = self.harness.env.wall_ms
        answer = self._asked(send("W", 0, given, sys_flag=TRANSACTION_PREPARED, born_timestamp=born_ms), body)
        if answer.code != 0:
            self.never.add(body)
            return
        placed = answer.ext_map()
        end = EndTransaction(
            producer_group="P",
            tran_state_table_offset=int(placed["queueOffset"]),
            commit_log_offset=int(placed["msgId"][16:], 16),
            commit_or_rollback=self.chance.choice((TRANSACTION_COMMIT, TRANSACTION_ROLLBACK)),
            msg_id=key,
            topic="W",
        )
        self.halves.append((body, end))

    def _end(self, number: int) -> bool:
        body, end = self.halves[number]
        if not self._done(end):
            return False
        del self.halves[number]
        (self.wanted if end.commit_or_rollback == TRANSACTION_COMMIT else self.never).add(body)
        return True

    def _look(self) -> None:
        super()._look()
        for _ in range(ROOM_LOOKS):
            while self.halves and self._end(0):
                pass
            self.harness.driver.advance(1_000)
        assert not self.halves, "there is room, and a transaction cannot be ended"
        for _ in range(3):
            self.harness.env.wall_ms += 2 * HOUR_MS
            self.harness.driver.advance(30_000)
        self.client = self.harness.connect()
        came = {bytes(unit.body) for unit in self.harness.stored("W", 0)}
        assert not (lost := self.wanted - came), f"lost: {sorted(lost)}"
        assert not (unasked := self.never & came), f"came, and must not: {sorted(unasked)}"
