"""A broker whose tables are written when the test says so, on a disk in memory that fails when asked to."""

from __future__ import annotations

import errno
from typing import Any

from broker_impl.saves import THREAD
from rmq_wire.bodies.groups import SubscriptionGroupConfig
from rmq_wire.codes import ResponseCode
from rmq_wire.declare import Request
from rmq_wire.headers.groups import UpdateAndCreateSubscriptionGroup
from tests.support.driver import Client
from tests.support.engine import Harness
from tests.support.memory_disk import Fault, MemoryDisk
from tests.support.requests import send

OK, FAILED, BUSY = ResponseCode.SUCCESS, ResponseCode.SYSTEM_ERROR, ResponseCode.SYSTEM_BUSY


class Machine(Harness):
    """A broker on a disk in memory, its jobs held."""

    def __init__(self, **settings: Any) -> None:
        super().__init__("/store", disk=MemoryDisk(), **settings)
        self.driver.held = True

    def writes(self) -> int:
        """How often a table was begun to be written since the last look; the list of the disk's calls begins anew."""
        made = [path for call, path, *_ in self.disk.log if call == "create" and path.endswith(".json.tmp")]
        self.disk.log.clear()
        return len(made)

    def end_writes(self, error: BaseException | None = None) -> None:
        """Let every write of a table that is under way, or follows it, end."""
        self.driver.run()
        while any(job.thread == THREAD for job in self.driver.jobs):
            while self.driver.jobs[0].thread != THREAD:
                self.driver.jobs.rotate(-1)
            self.driver.end_job(error)
            self.driver.run()

    def full(self) -> None:
        self.disk.faults = [Fault("write", times=1 << 30, error=errno.ENOSPC, path_part="/config/")]

    def after(self, keep: str = "synced") -> Harness:
        """Who starts on what the power cut leaves."""
        return Harness("/store", disk=self.disk.crash(keep))


def group(name: str) -> tuple[Request, bytes]:
    return UpdateAndCreateSubscriptionGroup(), SubscriptionGroupConfig(group_name=name).encode()


def answered(client: Client) -> list[int]:
    """Codes, in the order of the requests."""
    return [client.answers[opaque].code for opaque in sorted(client.answers)]


def state(harness: Harness) -> dict[str, Any]:
    """Everything that a change of a table may change, but for versions."""
    node = harness.node
    return {
        "topics": {name: row.plain() for name, row in node.topics.table.items()},
        "groups": {name: row.plain() for name, row in node.groups.table.items()},
        "forbidden": {name: dict(row) for name, row in node.groups.forbidden_table.items()},
        "progress": {key: dict(row) for key, row in node.offsets._offsets.rows.items()},
        "messages": {name: harness.stored(name) for name in ("T", "Fresh") if name in node.topics},
    }


def settled(machine: Machine) -> None:
    """A topic with a message, a group with progress and something forbidden, all on the disk."""
    machine.driver.held = False
    machine.topic("T")
    machine.node.groups.find("G")
    machine.node.groups.set_forbidden("G", "Other", 2, True)
    machine.driver.run()
    assert machine.connect().ask(send("T"), b"old").code == OK
    machine.node.offsets.commit("G", "T", 0, 1)
    machine.driver.advance(20_000)
    machine.driver.held = True
