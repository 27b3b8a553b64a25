"""Transactional messages: ending a transaction, and asking the producer how one should end."""

from __future__ import annotations

from rmq_wire.codes import RequestCode
from rmq_wire.declare import I32, I64, Request, Role
from rmq_wire.headers.base import RpcRequest


class EndTransaction(RpcRequest, code=RequestCode.END_TRANSACTION, to=Role.BROKER):
    """Commit the half message at this commit log offset, or roll it back.  Sent one-way.  Source: `EndTransactionRequestHeader`.

    `commit_or_rollback` is the transaction's bits of a sys flag: 8 commit, 12 roll back, 0 not known yet.
    `tran_state_table_offset` is the half message's queue offset.  `from_transaction_check`: this answers a
    `CheckTransactionState`.
    """

    producer_group: str
    tran_state_table_offset: I64
    commit_log_offset: I64
    commit_or_rollback: I32
    msg_id: str | None = None
    topic: str | None = None
    from_transaction_check: bool = False
    transaction_id: str | None = None


class CheckTransactionState(RpcRequest, code=RequestCode.CHECK_TRANSACTION_STATE, to=Role.CLIENT):
    """Broker to producer, one-way: how did the transaction of this half message, the body, end?  It says by `EndTransaction`.

    Source: `CheckTransactionStateRequestHeader`.
    """

    tran_state_table_offset: I64
    commit_log_offset: I64
    topic: str | None = None
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None


class ResumeCheckHalfMessage(Request, code=RequestCode.RESUME_CHECK_HALF_MESSAGE, to=Role.BROKER):
    """Check this half message again, after the broker had given it up.  Source: `ResumeCheckHalfMessageRequestHeader`."""

    topic: str | None = None
    msg_id: str | None = None
