"""The grid's rows about queue locks: 41, 42."""

from __future__ import annotations

from conformance.suite.grid.expect import NO_LIMIT, NO_PERMISSION, Expect, holds
from conformance.suite.grid.grid import Asked, Cell, Good, grid
from conformance.suite.kit import Trial
from rmq_wire.bodies.locks import LockBatchRequest, QueueName
from rmq_wire.declare import Request
from rmq_wire.headers.locks import LockBatchMq, UnlockBatchMq


def locking(kind: type[Request], *, exists: bool = True) -> Good:
    """A member of a group asks for one queue."""

    async def good(t: Trial) -> Asked:
        topic = await t.topic() if exists else t.name("nobody")
        queue = QueueName(topic=topic, broker_name=t.target.broker_name, queue_id=0)
        body = LockBatchRequest(consumer_group=t.name("g"), client_id="CONF_client", mq_set=[queue])
        return kind(), body.encode()

    return good


def one(found: object) -> bool:
    """A list of one."""
    return isinstance(found, list) and len(found) == 1


NONE = {"permission": NO_PERMISSION, "limit": NO_LIMIT}

grid(
    LockBatchMq,
    locking(LockBatchMq),
    "AdminBrokerProcessor.lockBatchMQ",
    ok=Expect(body=holds(lockOKMQSet=one)),
    body=True,
    cells={
        "unknown-topic": Cell(
            ask=locking(LockBatchMq, exists=False),
            expect=Expect(body=holds(lockOKMQSet=one)),
            title="A queue of a topic that nobody made can be locked: the lock table knows names only",
        )
    },
    none=NONE,
)
grid(
    UnlockBatchMq,
    locking(UnlockBatchMq),
    "AdminBrokerProcessor.unlockBatchMQ",
    body=True,
    cells={"unknown-topic": Cell(ask=locking(UnlockBatchMq, exists=False), expect=Expect())},
    none=NONE,
)
