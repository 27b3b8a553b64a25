"""Messages for later: the timer's state, which of its engines runs, and calling a delayed message back."""

from __future__ import annotations

from rmq_wire.codes import RequestCode
from rmq_wire.declare import Header, Request, Role, wire
from rmq_wire.headers.base import TopicRequest


class RecallMessageResponse(Header):
    """The unique key of the message that was called back.  Source: `RecallMessageResponseHeader`."""

    msg_id: str


class RecallMessage(TopicRequest, code=RequestCode.RECALL_MESSAGE, to=Role.BROKER, reply=RecallMessageResponse):
    """Do not deliver this delayed message after all.  `recall_handle` came with the answer to the send.

    Source: `RecallMessageRequestHeader`.
    """

    topic: str
    recall_handle: str
    producer_group: str | None = None


class GetTimerCheckPoint(Request, code=RequestCode.GET_TIMER_CHECK_POINT, to=Role.BROKER):
    """Slave to master: how far is the timer?  The answer's body is a `TimerCheckpoint`, packed as in its file."""


class GetTimerMetrics(Request, code=RequestCode.GET_TIMER_METRICS, to=Role.BROKER):
    """Slave to master: how many messages wait per topic?  The answer's body is a `TimerMetricsSerializeWrapper`."""


class SwitchTimerEngine(Request, code=RequestCode.SWITCH_TIMER_ENGINE, to=Role.BROKER):
    """Let another engine run the timer: `R` RocksDB, `F` the file wheel.  The field has no header class in Java.

    Source: `AdminBrokerProcessor.switchTimerEngine`.
    """

    engine_type: str | None = wire("E_T", default=None)
