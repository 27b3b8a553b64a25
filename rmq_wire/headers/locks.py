"""Owning queues, for orderly consumption: who holds a queue's lock may consume it."""

from __future__ import annotations

from rmq_wire.codes import RequestCode
from rmq_wire.declare import Role
from rmq_wire.headers.base import RpcRequest


class LockBatchMq(RpcRequest, code=RequestCode.LOCK_BATCH_MQ, to=Role.BROKER):
    """Lock these queues for this client of the group, or renew the locks.

    The body is a `LockBatchRequestBody`; the answer's, a `LockBatchResponseBody`, names the queues that it holds now.
    Source: `LockBatchMqRequestHeader`.
    """


class UnlockBatchMq(RpcRequest, code=RequestCode.UNLOCK_BATCH_MQ, to=Role.BROKER):
    """Give these queues' locks back.  The body is an `UnlockBatchRequestBody`.  Source: `UnlockBatchMqRequestHeader`."""
