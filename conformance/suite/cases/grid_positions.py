"""The grid's rows about places in a queue: 29, 30, 31, 32."""

from __future__ import annotations

import re
from functools import partial

from conformance.suite.grid.expect import NO_PERMISSION, Expect, four
from conformance.suite.grid.goods import nobody, of_topic
from conformance.suite.grid.grid import Cell, grid
from conformance.suite.kit import SHOULD
from rmq_wire.headers.positions import GetEarliestMsgStoretime, GetMaxOffset, GetMinOffset, SearchOffset

ADMIN = "AdminBrokerProcessor"
AT_END = four(Expect(ext={"offset": "2"}), code=0, ext={"offset": "1"})
LAST_MS = str(2**63 - 1)

row = partial(grid, none={"permission": NO_PERMISSION})

row(
    GetMaxOffset,
    of_topic(lambda topic: GetMaxOffset(topic=topic, queue_id=0), messages=2),
    f"{ADMIN}.getMaxOffset",
    ok=Expect(ext={"offset": "2"}),
    cells={
        "unknown-topic": Cell(change=nobody("topic"), expect=Expect(ext={"offset": "0"})),
        "limit-queue-beyond": Cell(change={"queueId": "7"}, expect=Expect(ext={"offset": "0"}), level=SHOULD),
    },
)
row(
    GetMinOffset,
    of_topic(lambda topic: GetMinOffset(topic=topic, queue_id=0), messages=1),
    f"{ADMIN}.getMinOffset",
    ok=Expect(ext={"offset": "0"}),
    cells={
        "unknown-topic": Cell(change=nobody("topic"), expect=Expect(ext={"offset": "0"})),
        "limit-queue-beyond": Cell(change={"queueId": "7"}, expect=Expect(ext={"offset": "0"}), level=SHOULD),
    },
)
row(
    GetEarliestMsgStoretime,
    of_topic(lambda topic: GetEarliestMsgStoretime(topic=topic, queue_id=0), messages=1),
    f"{ADMIN}.getEarliestMsgStoretime",
    ok=Expect(ext={"timestamp": re.compile(r"^1\d{12}$")}),
    cells={
        "unknown-topic": Cell(change=nobody("topic"), expect=Expect(ext={"timestamp": "-1"})),
        "limit-queue-beyond": Cell(change={"queueId": "7"}, expect=Expect(ext={"timestamp": "-1"}), level=SHOULD),
    },
)
row(
    SearchOffset,
    of_topic(lambda topic: SearchOffset(topic=topic, queue_id=0, timestamp=0), messages=2),
    f"{ADMIN}.searchOffsetByTimestamp",
    ok=Expect(ext={"offset": "0"}),
    cells={
        "unknown-topic": Cell(change=nobody("topic"), expect=Expect(ext={"offset": "0"})),
        "unknown-boundary": Cell(change={"boundaryType": "MIDDLE"}, expect=Expect(ext={"offset": "0"}), level=SHOULD),
        "limit-last-time": Cell(change={"timestamp": LAST_MS}, expect=AT_END, level=SHOULD),
        "limit-last-time-upper": Cell(
            change={"timestamp": LAST_MS, "boundaryType": "UPPER"}, expect=Expect(ext={"offset": "1"}), level=SHOULD
        ),
    },
)
