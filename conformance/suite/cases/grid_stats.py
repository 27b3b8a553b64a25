"""The grid's rows about figures: 28, 202, 208, 303, 315, 317."""

from __future__ import annotations

import re
from functools import partial

from conformance.suite.grid.expect import NEVER_MIND, NO_LIMIT, NO_PERMISSION, NO_TOPIC, NOTHING_NAMED, UNREAD, Expect, has
from conformance.suite.grid.goods import nobody, of_both, of_topic, plain
from conformance.suite.grid.grid import Asked, Cell, grid
from conformance.suite.kit import ResponseCode, Trial
from conformance.suite.means.figures import sampled
from rmq_wire.headers.runtime import GetBrokerRuntimeInfo
from rmq_wire.headers.stats import (
    GetConsumeStats,
    GetConsumeStatsInBroker,
    GetTopicStatsInfo,
    QueryConsumeTimeSpan,
    ViewBrokerStatsData,
)

NONE = {"permission": NO_PERMISSION, "limit": NO_LIMIT}


async def counted(t: Trial) -> Asked:
    """A counter that has counted."""
    topic = await t.topic()
    await t.send(topic)
    return ViewBrokerStatsData(stats_name="TOPIC_PUT_NUMS", stats_key=topic)


async def sampling(t: Trial) -> Asked:
    """The figures of a broker that has taken a sample."""
    await sampled(t)
    return GetBrokerRuntimeInfo()


NO_COUNTER = Expect(code=ResponseCode.SYSTEM_ERROR, remark=re.compile("stats.*not exist"))

row = partial(grid, none=NONE)

row(GetBrokerRuntimeInfo, sampling, "AdminBrokerProcessor.getBrokerRuntimeInfo", ok=Expect(body=has("table")), none=NEVER_MIND)
row(
    GetTopicStatsInfo,
    of_topic(lambda topic: GetTopicStatsInfo(topic=topic), messages=1),
    "AdminBrokerProcessor.getTopicStatsInfo",
    ok=Expect(body=has("offsetTable")),
    cells={"unknown-topic": Cell(change=nobody("topic"), expect=NO_TOPIC)},
)
row(
    GetConsumeStats,
    of_both(lambda topic, group: GetConsumeStats(consumer_group=group, topic=topic)),
    "AdminBrokerProcessor.getConsumeStats",
    ok=Expect(body=has("offsetTable", "consumeTps")),
    cells={
        "unknown-topic": Cell(change=nobody("topic"), expect=Expect(body=has("offsetTable"))),
        "unknown-group": Cell(change=nobody("consumerGroup"), expect=Expect(body=has("offsetTable"))),
    },
)
row(
    QueryConsumeTimeSpan,
    of_both(lambda topic, group: QueryConsumeTimeSpan(topic=topic, group=group), messages=1),
    "AdminBrokerProcessor.queryConsumeTimeSpan",
    ok=Expect(body=has("consumeTimeSpanSet")),
    cells={
        "unknown-topic": Cell(change=nobody("topic"), expect=NO_TOPIC),
        "unknown-group": Cell(change=nobody("group"), expect=Expect(body=has("consumeTimeSpanSet"))),
    },
    missing={"group": UNREAD},
)
row(
    ViewBrokerStatsData,
    counted,
    "AdminBrokerProcessor.viewBrokerStatsData",
    ok=Expect(body=has("statsMinute", "statsHour", "statsDay")),
    cells={
        "unknown-name": Cell(change=nobody("statsName"), expect=NO_COUNTER),
        "unknown-key": Cell(change=nobody("statsKey"), expect=NO_COUNTER),
    },
)
row(
    GetConsumeStatsInBroker,
    plain(lambda: GetConsumeStatsInBroker(is_order=False)),
    "AdminBrokerProcessor.fetchAllConsumeStatsInBroker",
    ok=Expect(body=has("consumeStatsList", "brokerAddr", "totalDiff")),
    none={**NONE, "unknown": NOTHING_NAMED},
)
