"""Queue locks for consumption in order: one member of a group holds a queue.

Who consumes a queue in order asks the broker for its lock (41), renews it by asking again, and gives it back (42).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from conformance.suite.kit import MUST, SHOULD, Code, Trial
from conformance.suite.kit import case as declare
from rmq_wire.bodies.locks import LockBatchRequest, LockBatchResponse, QueueName
from rmq_wire.headers.locks import LockBatchMq, UnlockBatchMq

MANAGER = "RebalanceLockManager"
BOTH = (Code.LOCK_BATCH_MQ, Code.UNLOCK_BATCH_MQ)


case = partial(declare, codes=Code.LOCK_BATCH_MQ)


def _asked(t: Trial, group: str, client: str, topic: str, queues: Iterable[int]) -> bytes:
    names = [QueueName(broker_name=t.target.broker_name, queue_id=queue, topic=topic) for queue in queues]
    return LockBatchRequest(client_id=client, consumer_group=group, mq_set=names).encode()


async def locked(t: Trial, group: str, client: str, topic: str, queues: Iterable[int]) -> list[int]:
    """Ask for these queues' locks (41); the queues that are held now."""
    answer = t.answer("lock", await t.broker.ask(LockBatchMq(), _asked(t, group, client, topic, queues)))
    return sorted(name.queue_id for name in LockBatchResponse.read(answer.body).lock_ok_mq_set)


async def unlock(t: Trial, group: str, client: str, topic: str, queues: Iterable[int]) -> None:
    """Give them back (42)."""
    t.answer("unlock", await t.broker.ask(UnlockBatchMq(), _asked(t, group, client, topic, queues)))


@case("locks.first-come", MUST, rests_on=f"{MANAGER}.tryLockBatch")
async def first_come(t: Trial) -> None:
    """Who comes first holds the queue; others do not get it."""
    topic, group = await t.topic(queues=4), await t.group()
    t.equal("the first gets", await locked(t, group, "one", topic, (0, 1)), [0, 1])
    t.equal("the second gets what is left", await locked(t, group, "two", topic, range(4)), [2, 3])
    t.equal("the first still holds its own", await locked(t, group, "one", topic, range(4)), [0, 1])


@case("locks.renewed", MUST, rests_on=f"{MANAGER}.isLocked")
async def renewed(t: Trial) -> None:
    """The holder may ask again and again."""
    topic, group = await t.topic(), await t.group()
    for _ in range(5):
        t.equal("held", await locked(t, group, "one", topic, (0,)), [0])


@case("locks.given-back", MUST, codes=BOTH, rests_on=f"{MANAGER}.unlockBatch")
async def given_back(t: Trial) -> None:
    """A queue that was given back is free at once."""
    topic, group = await t.topic(queues=2), await t.group()
    await locked(t, group, "one", topic, (0, 1))
    await unlock(t, group, "one", topic, (0,))
    t.equal("the other gets", await locked(t, group, "two", topic, (0, 1)), [0])


@case("locks.not-by-others", MUST, codes=BOTH, rests_on=f"{MANAGER}.unlockBatch")
async def not_by_others(t: Trial) -> None:
    """Nobody gives back what another holds."""
    topic, group = await t.topic(), await t.group()
    await locked(t, group, "one", topic, (0,))
    await unlock(t, group, "two", topic, (0,))
    t.equal("the other gets", await locked(t, group, "two", topic, (0,)), [])
    t.equal("the holder holds", await locked(t, group, "one", topic, (0,)), [0])


@case("locks.per-group", MUST, rests_on=MANAGER)
async def per_group(t: Trial) -> None:
    """Groups lock independently of each other."""
    topic = await t.topic()
    for client in ("one", "two", "three"):
        t.equal(f"{client} holds", await locked(t, await t.group(), client, topic, (0,)), [0])


@case("locks.nothing", SHOULD, codes=BOTH, rests_on=MANAGER)
async def nothing(t: Trial) -> None:
    """Asking for no queue: none is held."""
    topic, group = await t.topic(), await t.group()
    t.equal("held", await locked(t, group, "one", topic, ()), [])
    await unlock(t, group, "one", topic, ())


@case("locks.of-no-queue", SHOULD, codes=BOTH, rests_on=f"{MANAGER}.tryLockBatch: nobody looks whether there is such a queue")
async def of_no_queue(t: Trial) -> None:
    """Queues that a topic does not have, and those of no topic, are locked like any others.

    A consumer may ask for a queue that was taken away meanwhile; nothing comes of it.
    """
    topic, group = await t.topic(queues=1), await t.group()
    for name, queues in ((topic, [5, 99]), (t.name("nowhere"), [0])):
        t.equal("held", await locked(t, group, "one", name, queues), queues)
        t.equal("by another", await locked(t, group, "two", name, queues), [])
        await unlock(t, group, "one", name, queues)
        t.equal("when they are given back", await locked(t, group, "two", name, queues), queues)


@case("locks.expire", MUST, slow=True, rests_on=f"{MANAGER}.REBALANCE_LOCK_MAX_LIVE_TIME")
async def expire(t: Trial) -> None:
    """A lock that is not renewed for 60 s is free."""
    topic, group = await t.topic(), await t.group()
    await locked(t, group, "one", topic, (0,))

    async def free() -> bool:
        return await locked(t, group, "two", topic, (0,)) == [0]

    await t.until("the other gets it", free, seconds=80)
