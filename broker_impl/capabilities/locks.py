"""Queue locks of ordered consumption (41, 42).  Java: `AdminBrokerProcessor.lockBatchMQ`, `unlockBatchMQ`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker_impl.engine.answers import Answer, Refusal, Reply
from broker_impl.engine.call import Call
from broker_impl.engine.router import Capability, answers
from broker_impl.state.locks import LOCK_MS, QueueLocks
from rmq_wire.bodies.locks import LockBatchRequest, LockBatchResponse
from rmq_wire.codes import ResponseCode
from rmq_wire.headers.locks import LockBatchMq, UnlockBatchMq

if TYPE_CHECKING:
    from broker_impl.engine.engine import Engine

QUEUES_PER_REQUEST_MAX = 16_384
"""Queues of one request: as many as a topic may have."""


class Locks(Capability):
    """Works on the table of locks, and has the engine forget expired ones."""

    def __init__(self, engine: Engine, locks: QueueLocks) -> None:
        self._locks = locks
        engine.every(LOCK_MS, locks.sweep)

    @answers(LockBatchMq)
    def lock(self, call: Call, asked: LockBatchMq) -> Answer:
        """Lock or renew; the answer names what the member holds."""
        wanted = self._read(call)
        held = self._locks.lock(wanted.consumer_group or "", wanted.mq_set, wanted.client_id or "")
        return Reply(body=LockBatchResponse(lock_ok_mq_set=held).encode())

    @answers(UnlockBatchMq)
    def unlock(self, call: Call, asked: UnlockBatchMq) -> Answer:
        """Give back."""
        given = self._read(call)
        self._locks.unlock(given.consumer_group or "", given.mq_set, given.client_id or "")
        return Reply()

    @staticmethod
    def _read(call: Call) -> LockBatchRequest:
        body = call.read(LockBatchRequest)
        if len(body.mq_set) > QUEUES_PER_REQUEST_MAX:
            raise Refusal(ResponseCode.SYSTEM_ERROR, f"more than {QUEUES_PER_REQUEST_MAX} queues in one request")
        return body
