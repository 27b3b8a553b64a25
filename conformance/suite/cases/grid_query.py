"""The grid's rows about looking messages up: 12, 33, 321."""

from __future__ import annotations

import re

from conformance.suite.grid.expect import NO_PERMISSION, REFUSED, Expect, by_handler, has, holds
from conformance.suite.grid.goods import fill, nobody, of_topic
from conformance.suite.grid.grid import Asked, Cell, grid
from conformance.suite.kit import SHOULD, ResponseCode, Trial, units
from rmq_wire.headers.query import QueryConsumeQueue, QueryMessage, ViewMessage
from rmq_wire.message_id import parse_offset_message_id

NONE = {"permission": NO_PERMISSION}
NOT_FOUND = Expect(code=ResponseCode.QUERY_NOT_FOUND, remark=re.compile("can not find message"))


def one_unit(body: bytes) -> bool:
    """One message unit."""
    return len(units(body)) == 1


async def indexed(t: Trial) -> Asked:
    """A key that the index knows."""
    topic = await t.topic()
    await fill(t, topic, 1)
    asked = QueryMessage(topic=topic, key="key0", max_num=5, begin_timestamp=0, end_timestamp=2**63 - 1)

    async def found() -> bool:
        return (await t.broker.ask(asked)).code == ResponseCode.SUCCESS

    await t.until("the index holds the key", found)
    return asked


async def stored(t: Trial) -> Asked:
    """A message that is stored."""
    topic = await t.topic()
    sent = await t.send(topic)
    return ViewMessage(topic=topic, offset=parse_offset_message_id(sent.msg_id).physical_offset)


grid(
    QueryMessage,
    indexed,
    "QueryMessageProcessor.queryMessage",
    ok=Expect(ext={"indexLastUpdateTimestamp": int, "indexLastUpdatePhyoffset": int}, body=one_unit),
    cells={
        "unknown-topic": Cell(change=nobody("topic"), expect=NOT_FOUND),
        "unknown-key": Cell(change=nobody("key"), expect=NOT_FOUND),
        "unknown-index-type": Cell(change={"indexType": "Z"}, expect=Expect(body=one_unit), level=SHOULD),
        "limit-no-messages": Cell(change={"maxNum": "0"}, expect=NOT_FOUND, level=SHOULD),
        "limit-time-before": Cell(change={"endTimestamp": "1"}, expect=NOT_FOUND),
    },
    missing={"topic": by_handler(ResponseCode.QUERY_NOT_FOUND), "key": by_handler(ResponseCode.QUERY_NOT_FOUND)},
    none=NONE,
)
grid(
    ViewMessage,
    stored,
    "QueryMessageProcessor.viewMessageById",
    ok=Expect(body=one_unit),
    cells={
        "unknown-offset": Cell(
            change={"offset": str(2**62)},
            expect=Expect(code=ResponseCode.SYSTEM_ERROR, remark=re.compile("can not find message by the offset")),
        ),
        "limit-offset-negative": Cell(change={"offset": "-1"}, expect=Expect(code=ResponseCode.SYSTEM_ERROR), level=SHOULD),
    },
    none=NONE,
)
grid(
    QueryConsumeQueue,
    of_topic(lambda topic: QueryConsumeQueue(topic=topic, queue_id=0, index=0, count=5), messages=2),
    "AdminBrokerProcessor.queryConsumeQueue",
    missing={"topic": REFUSED},
    ok=Expect(body=has("queueData", "maxQueueIndex", "minQueueIndex")),
    cells={
        "unknown-topic": Cell(change=nobody("topic"), expect=Expect(code=ResponseCode.SYSTEM_ERROR)),
        "unknown-group": Cell(change=nobody("consumerGroup"), expect=Expect(body=holds(filterData=re.compile("is not online")))),
        "limit-index-beyond": Cell(
            change={"index": "9"}, expect=Expect(remark=re.compile("Index 9 of .* is not exist"), body=b""), level=SHOULD
        ),
    },
    none=NONE,
)
