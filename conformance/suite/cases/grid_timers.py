"""The grid's rows about messages for later: 60, 61, 370, 5001."""

from __future__ import annotations

import re

from conformance.suite.grid.expect import INVALID, NEVER_MIND, NO_LIMIT, NO_PERMISSION, NO_TOPIC, Expect, by_handler, changed, has
from conformance.suite.grid.goods import nobody, plain
from conformance.suite.grid.grid import Asked, Cell, grid
from conformance.suite.kit import Need, ResponseCode, Trial
from rmq_wire import property_names
from rmq_wire.headers.timers import GetTimerCheckPoint, GetTimerMetrics, RecallMessage, SwitchTimerEngine

CHECK_POINT_BYTES = 56
"""Seven longs (`TimerCheckpoint`)."""
NO_HANDLE = Expect(code=ResponseCode.ILLEGAL_OPERATION)


async def delayed(t: Trial) -> Asked:
    """A message that is due in an hour."""
    topic = await t.topic(attributes="+message.type=DELAY")
    sent = await t.send(topic, b"later", {property_names.TIMER_DELAY_SEC: "3600"}, unique_key=t.name("unique"))
    return RecallMessage(topic=topic, recall_handle=sent.recall_handle or "none came", producer_group="CONF_producers")


grid(
    GetTimerCheckPoint,
    plain(GetTimerCheckPoint),
    "AdminBrokerProcessor.getTimerCheckPoint",
    ok=Expect(body=lambda body: len(body) == CHECK_POINT_BYTES),
    none=NEVER_MIND,
    since=(5,),
)
grid(
    GetTimerMetrics,
    plain(GetTimerMetrics),
    "AdminBrokerProcessor.getTimerMetrics",
    ok=Expect(body=has("timingCount")),
    none=NEVER_MIND,
    since=(5,),
)
grid(
    RecallMessage,
    delayed,
    "RecallMessageProcessor.processRequest",
    ok=Expect(ext={"msgId": str}),
    needs=(Need.OWN,),
    cells={
        "unknown-topic": Cell(change=nobody("topic"), expect=NO_TOPIC),
        "unknown-handle": Cell(change={"recallHandle": "no handle"}, expect=NO_HANDLE),
    },
    missing={"recallHandle": by_handler(ResponseCode.ILLEGAL_OPERATION)},
    none={"permission": NO_PERMISSION, "limit": NO_LIMIT},
    since=(5, 3, 2),
)
grid(
    SwitchTimerEngine,
    plain(lambda: SwitchTimerEngine(engine_type="F")),
    "AdminBrokerProcessor.switchTimerEngine",
    missing={"E_T": INVALID},
    cells={
        "unknown-engine": Cell(change={"E_T": "X"}, expect=INVALID),
        "limit-engine-off": Cell(change={"E_T": "R"}, expect=changed(INVALID, remark=re.compile("timerRocksDBEnable"))),
    },
    none={"permission": NO_PERMISSION},
    since=(5, 5),
    alone=True,
    needs=(Need.OWN,),
)
