"""The grid's rows about how far groups have consumed: 14, 15, 43, 45, 222, 223, 308, 314."""

from __future__ import annotations

import re

from conformance.suite.grid.expect import (
    NEVER_MIND,
    NO_GROUP,
    NO_LIMIT,
    NO_PERMISSION,
    NO_TOPIC,
    REFUSED,
    UNREAD,
    Expect,
    by_handler,
    changed,
    four,
    has,
)
from conformance.suite.grid.goods import answering, consumer, fill, nobody, of_both, plain
from conformance.suite.grid.grid import Asked, Cell, grid
from conformance.suite.kit import QUIRK, SHOULD, Answer, Code, ResponseCode, Trial
from rmq_wire.headers.clients import GetConsumerStatus
from rmq_wire.headers.offsets import (
    CloneGroupOffset,
    QueryConsumerOffset,
    QueryCorrectionOffset,
    ResetOffset,
    UpdateConsumerOffset,
)
from rmq_wire.headers.replication import GetAllConsumerOffset, GetAllDelayOffset

NONE = {"permission": NO_PERMISSION}
ANY = "Any offset of any queue number is taken, also where the queue holds nothing or there is no such queue"
LAST = str(2**63 - 1)


NOT_FOUND = Expect(
    code=ResponseCode.QUERY_NOT_FOUND, remark=re.compile("maybe this group consumer boot first"), absent=("offset",)
)
STATUS = b'{"messageQueueTable":{}}'
ZERO = Expect(ext={"offset": "0"})
"""4.x guesses wherever it knows nothing."""


async def is_committed(t: Trial, asked: UpdateConsumerOffset, _: Answer) -> None:
    """A query answers what was committed."""
    query = QueryConsumerOffset(consumer_group=asked.consumer_group, topic=asked.topic, queue_id=0)
    t.answer("14 after it", await t.broker.ask(query), ext={"offset": str(asked.commit_offset)})


async def is_reset(t: Trial, asked: ResetOffset, _: Answer) -> None:
    """A query answers the end of the queue (5.x; with 4.x only members hear of it, and there are none)."""
    if t.by_version({"": True, "4": False}):
        query = QueryConsumerOffset(consumer_group=asked.group, topic=asked.topic, queue_id=0)
        t.answer("14 after it", await t.broker.ask(query), ext={"offset": "2"})


async def is_cloned(t: Trial, asked: CloneGroupOffset, _: Answer) -> None:
    """The other group stands where the first one stands."""
    query = QueryConsumerOffset(consumer_group=asked.dest_group, topic=asked.topic or "", queue_id=0)
    t.answer("14 of the other group", await t.broker.ask(query), ext={"offset": "1"})


NULL = four(by_handler(ResponseCode.INVALID_PARAMETER))
NO_GROUP_NAME = by_handler(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)


async def committed(t: Trial) -> Asked:
    """A group that has committed 1 on a queue that holds one message."""
    topic, group = await t.topic(), await t.group()
    await fill(t, topic, 1)
    commit = UpdateConsumerOffset(consumer_group=group, topic=topic, queue_id=0, commit_offset=1)
    t.answer("commit", await t.broker.ask(commit))
    return QueryConsumerOffset(consumer_group=group, topic=topic, queue_id=0)


async def cloning(t: Trial) -> Asked:
    """A group that has committed, and another that has not."""
    asked = await committed(t)
    assert isinstance(asked, QueryConsumerOffset)
    return CloneGroupOffset(src_group=asked.consumer_group, dest_group=t.name("g"), topic=asked.topic)


async def correcting(t: Trial) -> Asked:
    """A group that has committed: without an entry in the table Java never looks at the topic."""
    asked = await committed(t)
    assert isinstance(asked, QueryConsumerOffset)
    return QueryCorrectionOffset(compare_group=asked.consumer_group, topic=asked.topic)


async def asking_members(t: Trial) -> Asked:
    """A group with a member that says where it stands."""
    topic, group = await t.topic(), await t.group()
    await consumer(t, topic, group, link=answering(t, Code.GET_CONSUMER_STATUS_FROM_CLIENT, STATUS))
    return GetConsumerStatus(group=group, topic=topic)


grid(
    QueryConsumerOffset,
    committed,
    "ConsumerManageProcessor.queryConsumerOffset",
    ok=Expect(ext={"offset": "1"}),
    cells={
        "unknown-topic": Cell(change=nobody("topic"), expect={"": NOT_FOUND, "4": ZERO}),
        "unknown-group": Cell(change=nobody("consumerGroup"), expect=Expect(ext={"offset": "0"})),
        "unknown-group-no-guess": Cell(
            change=lambda t: {"consumerGroup": t.name("nobody"), "setZeroIfNotFound": "false"},
            expect={"": changed(NOT_FOUND, remark=re.compile("boot first")), "4": ZERO},
        ),
        "limit-queue-beyond": Cell(change={"queueId": "7"}, expect={"": NOT_FOUND, "4": ZERO}, level=SHOULD),
    },
    missing={"consumerGroup": UNREAD},
    none=NONE,
)
grid(
    UpdateConsumerOffset,
    of_both(
        lambda topic, group: UpdateConsumerOffset(consumer_group=group, topic=topic, queue_id=0, commit_offset=3), messages=3
    ),
    "ConsumerManageProcessor.updateConsumerOffset",
    then=is_committed,
    cells={
        "unknown-topic": Cell(change=nobody("topic"), expect=four(NO_TOPIC, code=0, remark=...)),
        "unknown-group": Cell(change=nobody("consumerGroup"), expect=four(NO_GROUP, code=0, remark=...)),
        "limit-offset-beyond": Cell(change={"commitOffset": "4"}, expect=Expect(), level=QUIRK, title=ANY),
        "limit-offset-negative": Cell(change={"commitOffset": "-1"}, expect=Expect(), level=QUIRK, title=ANY),
        "limit-queue-beyond": Cell(change={"queueId": "7"}, expect=Expect(), level=QUIRK, title=ANY),
        "limit-last-offset": Cell(change={"commitOffset": LAST}, expect=Expect(), level=QUIRK, title=ANY),
    },
    missing={"topic": four(REFUSED, code=0), "consumerGroup": four(NO_GROUP_NAME, code=0), "queueId": NULL, "commitOffset": NULL},
    mistyped={"queueId": NULL, "commitOffset": NULL},
    none=NONE,
)
grid(
    GetAllConsumerOffset,
    plain(GetAllConsumerOffset),
    "AdminBrokerProcessor.getAllConsumerOffset",
    ok=Expect(body=has("offsetTable")),
    none=NEVER_MIND,
)
grid(
    GetAllDelayOffset,
    plain(GetAllDelayOffset),
    "AdminBrokerProcessor.getAllDelayOffset",
    ok=Expect(body=has("offsetTable")),
    none=NEVER_MIND,
)
RESET = four(Expect(body=has("offsetTable")), body=...)
"""4.x notifies the members, and fails when nobody is online."""

grid(
    ResetOffset,
    of_both(lambda topic, group: ResetOffset(group=group, topic=topic, timestamp=-1, is_force=True), messages=2),
    "AdminBrokerProcessor.resetOffset",
    then=is_reset,
    ok=RESET,
    cells={
        "unknown-topic": Cell(change=nobody("topic"), expect=four(NO_TOPIC, remark=re.compile("no topic"))),
        "unknown-group": Cell(change=nobody("group"), expect=four(NO_GROUP)),
        "limit-offset-beyond": Cell(change={"queueId": "0", "offset": "3"}, expect=RESET, level=SHOULD),
    },
    missing={"group": four(NO_GROUP_NAME)},
    none=NONE,
)
grid(
    GetConsumerStatus,
    asking_members,
    "Broker2Client.getConsumeStatus",
    ok=Expect(body=has("consumerTable")),
    cells={
        "unknown-topic": Cell(change=nobody("topic"), expect=Expect(body=has("consumerTable"))),
        "unknown-group": Cell(change=nobody("group"), expect=Expect(code=ResponseCode.SYSTEM_ERROR)),
    },
    missing={"topic": UNREAD},
    none={**NONE, "limit": NO_LIMIT},
)
grid(
    CloneGroupOffset,
    cloning,
    "AdminBrokerProcessor.cloneGroupOffset",
    then=is_cloned,
    cells={
        "unknown-topic": Cell(change=nobody("topic"), expect=Expect()),
        "unknown-group": Cell(change=nobody("srcGroup"), expect=Expect()),
    },
    missing={"destGroup": UNREAD},
    none={**NONE, "limit": NO_LIMIT},
)
grid(
    QueryCorrectionOffset,
    correcting,
    "AdminBrokerProcessor.queryCorrectionOffset",
    ok=Expect(body=has("correctionOffsets")),
    cells={
        "unknown-topic": Cell(change=nobody("topic"), expect=Expect(body=has("correctionOffsets"))),
        "unknown-group": Cell(change=nobody("compareGroup"), expect=Expect(body=has("correctionOffsets"))),
        "unknown-filter-group": Cell(change=nobody("filterGroups"), expect=Expect(body=has("correctionOffsets"))),
    },
    missing={"compareGroup": UNREAD},
    none={**NONE, "limit": NO_LIMIT},
)
