"""A whole broker on a disk in memory that fails, is killed, or loses its power: what tests of the promises start from."""

from __future__ import annotations

import random
from typing import Any

from rmq_wire.codes import ResponseCode
from tests.support.driver import Client
from tests.support.engine import Harness
from tests.support.memory_disk import Fault, MemoryDisk
from tests.support.requests import pairs, pull, send, units

ASYNC, SYNC = "ASYNC_FLUSH", "SYNC_FLUSH"
NOT_AVAILABLE = ResponseCode.SERVICE_NOT_AVAILABLE
SETTLED_MS = 11_000
"""After it a disk that has room is used again, and offsets are written."""


class Machine(Harness):
    """A broker on a disk in memory.  `disk.faults` make it fail; `kill` and `cut` end it and start the next one."""

    def __init__(self, mode: str, **settings: Any) -> None:
        super().__init__("/store", disk=MemoryDisk(), **{"flushDiskType": mode, "mappedFileSizeCommitLog": 65536, **settings})
        self.topic("T", queues=1)
        self.node.groups.find("G")
        self.driver.run()

    def kill(self) -> None:
        """kill -9, and a new start."""
        self._after("all")

    def cut(self, keep: str | random.Random = "synced") -> None:
        """The power goes; some of what was not synced may be there."""
        self._after(keep)

    def _after(self, keep: str | random.Random) -> None:
        self.disk = self.disk.crash(keep)
        self.open()

    def bodies(self) -> list[bytes]:
        return [bytes(unit.body) for unit in self.stored("T")]

    def fail(self, operation: str, part: str, error: int, times: int = 1_000_000) -> None:
        self.disk.faults = [Fault(operation, times=times, error=error, path_part=part)]

    def heal(self) -> None:
        self.disk.faults = []
        self.driver.advance(SETTLED_MS)


def put(client: Client, body: bytes, wait: str = "true") -> int:
    """Send and wait for the answer's code."""
    return client.ask(send("T", properties=pairs(UNIQ_KEY="7F000001" + "0" * 24, WAIT=wait)), body).code


def read(client: Client, offset: int = 0) -> list[bytes]:
    """What a consumer gets from there on."""
    answer = client.ask(pull("T", offset=offset))
    return [bytes(unit.body) for unit in units(answer.body)] if answer.code == 0 else []
