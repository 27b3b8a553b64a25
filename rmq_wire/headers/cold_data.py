"""Groups that read old messages from disk: their limits, and how the commit log is read ahead."""

from __future__ import annotations

from rmq_wire.codes import RequestCode
from rmq_wire.declare import Request, Role, wire


class UpdateColdDataFlowCtrConfig(Request, code=RequestCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG, to=Role.BROKER):
    """Limit what groups may read cold.  The body is the text of a Java properties file, `group=bytes`."""


class RemoveColdDataFlowCtrConfig(Request, code=RequestCode.REMOVE_COLD_DATA_FLOW_CTR_CONFIG, to=Role.BROKER):
    """Lift a group's limit.  The body is the group's name."""


class GetColdDataFlowCtrInfo(Request, code=RequestCode.GET_COLD_DATA_FLOW_CTR_INFO, to=Role.BROKER):
    """Who reads how much cold, and what are the limits?  The answer's body is a JSON object."""


class SetCommitLogReadMode(Request, code=RequestCode.SET_COMMITLOG_READ_MODE, to=Role.BROKER):
    """Read the commit log ahead as usual (`0`) or expect random reads (`1`).  The field has no header class in Java.

    Source: `AdminBrokerProcessor.setCommitLogReadaheadMode`.
    """

    read_ahead_mode: str | None = wire("READ_AHEAD_MODE", default=None)
