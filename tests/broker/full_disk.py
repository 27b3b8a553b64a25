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
from rmq_wire.headers.groups import DeleteSubscriptionGroup, UpdateAndCreateSubscriptionGroup
from rmq_wire.headers.offsets import UpdateConsumerOffset
from rmq_wire.headers.topics import DeleteTopic
from tests.support.engine import Harness
from tests.support.requests import create_topic, send
from tests.support.troubled_disk import TroubledDisk

NAMES = 6
STEPS = 40
LEFT_BYTES_MAX = 40_000
"""What filling leaves: less than two tables, now and then nothing."""
SETTINGS = {"mappedFileSizeCommitLog": 1 << 16, "mappedFileSizeConsumeQueue": 2000, "maxHashSlotNum": 100, "maxIndexNum": 400}
PASSING = {"diskSpaceWarningLevelRatio": "100", "diskMaxUsedSpaceRatio": "95", "diskSpaceCleanForciblyRatio": "99"}
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
        self.harness = Harness(self.place.root, disk=self.place.disk, **SETTINGS, **PASSING)
        self.client = self.harness.connect()

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
        answer = self.client.ask(request, body)  # type: ignore[arg-type]
        self.refused += answer.code != 0
        return answer.code == 0

    def _look(self) -> None:
        node = self.harness.node
        assert {name for name in node.topics.table if name[:1] == "T" and name[1:].isdigit()} == self.topics.keys()
        assert {name for name in node.groups.table if name[:1] == "G" and name[1:].isdigit()} == self.groups
        for name, bodies in self.topics.items():
            assert [bytes(unit.body) for unit in self.harness.stored(name, 0)] == bodies, f"messages of {name}"
