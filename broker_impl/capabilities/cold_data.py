"""Limits of what groups may read cold (2001 to 2003), and how the log is read ahead (2004).

They are taken and told as by a broker that has `coldDataFlowControlEnable` off, its default, and count for nothing: a cold
read is a thread's here, and holds up its own pull only.  Like the reference's they are kept in memory.
Java: `AdminBrokerProcessor.updateColdDataFlowCtrGroupConfig` and its neighbours, `ColdDataCgCtrService`.
"""

from __future__ import annotations

from typing import Final

import msgspec

from broker_impl.config import BrokerConfig
from broker_impl.engine.answers import Answer, Refusal, Reply
from broker_impl.engine.call import Call
from broker_impl.engine.router import Capability, answers
from rmq_wire.bodies import properties_text
from rmq_wire.codes import ResponseCode
from rmq_wire.errors import BadBody
from rmq_wire.headers.cold_data import (
    GetColdDataFlowCtrInfo,
    RemoveColdDataFlowCtrConfig,
    SetCommitLogReadMode,
    UpdateColdDataFlowCtrConfig,
)
from rmq_wire.java import parse_int, parse_long

CHARACTERS_MAX: Final = 256 << 10
"""Of all groups with a limit."""
MADV_NORMAL: Final = 0
MADV_RANDOM: Final = 1


class ColdData(Capability):
    """`limits`: bytes by group."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self.limits: dict[str, int] = {}

    @answers(UpdateColdDataFlowCtrConfig)
    def update(self, call: Call, asked: UpdateColdDataFlowCtrConfig) -> Answer:
        """Take the limits that are numbers; the others are passed over, as in Java."""
        try:
            entries = properties_text.loads(bytes(call.checked_body()).decode("utf-8", "replace"))
        except BadBody:
            raise Refusal(ResponseCode.SYSTEM_ERROR, "string2Properties error") from None
        changed = {group: limit for group, text in entries.items() if (limit := parse_long(text)) is not None}
        if sum(map(len, {**self.limits, **changed})) > CHARACTERS_MAX:
            raise Refusal(ResponseCode.SYSTEM_ERROR, "too many groups have a limit")
        self.limits.update(changed)
        return Reply()

    @answers(RemoveColdDataFlowCtrConfig)
    def remove(self, call: Call, asked: RemoveColdDataFlowCtrConfig) -> Answer:
        """Lift the limit of the group that the body names."""
        self.limits.pop(bytes(call.checked_body()).decode("utf-8", "replace"), None)
        return Reply()

    @answers(GetColdDataFlowCtrInfo)
    def show(self, call: Call, asked: GetColdDataFlowCtrInfo) -> Answer:
        """The limits; nobody reads so much cold that he would be listed."""
        said = {
            "runtimeTable": {},
            "configTable": self.limits,
            "cgColdReadThreshold": int(self._config.shown("cgColdReadThreshold")),
            "globalColdReadThreshold": int(self._config.shown("globalColdReadThreshold")),
            "globalAcc": 0,
        }
        return Reply(body=msgspec.json.encode(said))

    @answers(SetCommitLogReadMode)
    def read_mode(self, call: Call, asked: SetCommitLogReadMode) -> Answer:
        """Only the key that says it changes: this broker's log is read ahead by its own threads."""
        mode = None if asked.read_ahead_mode is None else parse_int(asked.read_ahead_mode)
        if mode is None:
            raise Refusal(ResponseCode.SYSTEM_ERROR, "set commitlog readahead mode failed")
        if mode not in (MADV_NORMAL, MADV_RANDOM):
            raise Refusal(ResponseCode.INVALID_PARAMETER, "set commitlog readahead mode param value error")
        self._config.change({"dataReadAheadEnable": "true" if mode == MADV_NORMAL else "false"})
        return Reply(remark=f"set commitlog readahead mode success, mode: {mode}")
