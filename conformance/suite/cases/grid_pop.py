"""The grid's rows about POP: 400, 401, 402, 200050 to 200056, 200151."""

from __future__ import annotations

import json
import re
from functools import partial

from conformance.suite.grid.expect import (
    INVALID,
    NEVER_MIND,
    NO_GROUP,
    NO_LIMIT,
    NO_PERMISSION,
    NO_RIGHT,
    NO_TOPIC,
    REFUSED,
    UNREAD,
    Expect,
    changed,
    has,
)
from conformance.suite.grid.goods import fill, nobody, plain
from conformance.suite.grid.grid import Asked, Cell, Good, grid
from conformance.suite.kit import SHOULD, Answer, ResponseCode, Trial, units
from conformance.suite.means.played import route_comes
from rmq_wire.headers.pop import (
    AckMessage,
    BatchAckMessage,
    ChangeInvisibleTime,
    GetAllMessageRequestMode,
    Notification,
    PeekMessage,
    PollingInfo,
    PopMessage,
    PopMessageResponse,
    PopRollback,
    QueryAssignment,
    SetMessageRequestMode,
)

MESSAGES_MAX = 32
"""Of one pop (`PopMessageProcessor`)."""
INVISIBLE_MS = 60_000
NO_QUEUE = re.compile(r"queueId\[\d+\] is illegal")
GROUP_GONE = changed(NO_GROUP, remark=re.compile("subscription group.*not exist"))


def one_unit(body: bytes) -> bool:
    """One message unit."""
    return len(units(body)) == 1


def popping(*, messages: int = 1, perm: int = 6, enabled: bool = True, count: int = 1) -> Good:
    """A pop from a queue that holds so many messages."""

    async def good(t: Trial) -> Asked:
        topic, group = await t.topic(), await t.group(consume_enable=enabled)
        await fill(t, topic, messages)
        if perm != 6:
            await t.topic(name=topic, perm=perm)
        return PopMessage(
            consumer_group=group,
            topic=topic,
            queue_id=0,
            max_msg_nums=count,
            invisible_time=INVISIBLE_MS,
            poll_time=0,
            born_time=0,
            init_mode=0,
        )

    return good


async def popped(t: Trial) -> tuple[PopMessage, PopMessageResponse, str]:
    """A message that is out: what was asked, what was answered, the handle of the message."""
    asked = await popping(messages=2)(t)
    assert isinstance(asked, PopMessage)
    answer = t.answer("pop", await t.broker.ask(asked))
    header = answer.header(PopMessageResponse)
    handle = f"0 {header.pop_time} {header.invisible_time} {header.revive_qid} 0 {t.target.broker_name} 0 0"
    return asked, header, handle


async def acking(t: Trial) -> Asked:
    """Acknowledge a message that is out."""
    asked, _, handle = await popped(t)
    return AckMessage(consumer_group=asked.consumer_group, topic=asked.topic, queue_id=0, extra_info=handle, offset=0)


async def postponing(t: Trial) -> Asked:
    """Postpone a message that is out."""
    asked, _, handle = await popped(t)
    return ChangeInvisibleTime(
        consumer_group=asked.consumer_group, topic=asked.topic, queue_id=0, extra_info=handle, offset=0, invisible_time=30_000
    )


def acking_several(*, acks: bool = True) -> Good:
    """Acknowledge several messages in one request."""

    async def good(t: Trial) -> Asked:
        asked, header, _ = await popped(t)
        ack = {
            "c": asked.consumer_group,
            "t": asked.topic,
            "r": "0",
            "so": 0,
            "q": 0,
            "rq": header.revive_qid,
            "pt": header.pop_time,
            "it": header.invisible_time,
            "b": "AQ==",
        }
        body = {"brokerName": t.target.broker_name, "acks": [ack] if acks else []}
        return BatchAckMessage(), json.dumps(body).encode()

    return good


def peeking(*, perm: int = 6, enabled: bool = True) -> Good:
    """Look at a message without taking it."""

    async def good(t: Trial) -> Asked:
        topic, group = await t.topic(), await t.group(consume_enable=enabled)
        await fill(t, topic, 1)
        if perm != 6:
            await t.topic(name=topic, perm=perm)
        return PeekMessage(topic=topic, queue_id=0, max_msg_nums=1, consumer_group=group)

    return good


def notified(*, perm: int = 6, enabled: bool = True) -> Good:
    """Ask whether there is a message."""

    async def good(t: Trial) -> Asked:
        topic, group = await t.topic(), await t.group(consume_enable=enabled)
        await fill(t, topic, 1)
        if perm != 6:
            await t.topic(name=topic, perm=perm)
        return Notification(consumer_group=group, topic=topic, queue_id=0, poll_time=1, born_time=2**62)

    return good


def polled(*, perm: int = 6, enabled: bool = True) -> Good:
    """Ask how many wait."""

    async def good(t: Trial) -> Asked:
        return PollingInfo(consumer_group=await t.group(consume_enable=enabled), topic=await t.topic(perm=perm), queue_id=0)

    return good


def assigning(strategy: str = "AVG") -> Good:
    """Ask for one's queues."""

    async def good(t: Trial) -> Asked:
        topic = await t.topic()
        await route_comes(t, topic)
        body = {
            "topic": topic,
            "consumerGroup": await t.group(),
            "clientId": t.name("client"),
            "strategyName": strategy,
            "messageModel": "BROADCASTING",
        }
        return QueryAssignment(), json.dumps(body).encode()

    return good


def choosing(*, topic: str = "", group: str = "") -> Good:
    """Choose POP for a group."""

    async def good(t: Trial) -> Asked:
        about = t.name("nobody") if topic == "nobody" else topic or await t.topic()
        body = {"topic": about, "consumerGroup": group or await t.group(), "mode": "POP", "popShareQueueNum": 0}
        return SetMessageRequestMode(), json.dumps(body).encode()

    return good


async def is_chosen(t: Trial, _: object, __: Answer) -> None:
    """The mode is listed."""
    found = t.answer("402 after it", await t.broker.ask(GetAllMessageRequestMode()))
    mine, _, _ = t.name("t").rpartition("_t_")
    t.check("the mode is listed", any(topic.startswith(mine) for topic in found.json()["messageRequestModeMap"]))


NONE_THERE = Expect(code=ResponseCode.POLLING_TIMEOUT)
POP = "PopMessageProcessor.processRequest"
ACK = "AckMessageProcessor.processRequest"
CHANGE = "ChangeInvisibleTimeProcessor.processRequest"

row = partial(grid, since=(5,))

row(
    PopMessage,
    popping(),
    POP,
    ok=Expect(
        ext={
            "popTime": int,
            "invisibleTime": str(INVISIBLE_MS),
            "reviveQid": int,
            "restNum": int,
            "startOffsetInfo": "0 0 0",
            "msgOffsetInfo": "0 0 0",
        },
        body=one_unit,
    ),
    each=True,
    cells={
        "unknown-topic": Cell(change=nobody("topic"), expect=NO_TOPIC),
        "unknown-group-illegal": Cell(change={"consumerGroup": "no group"}, expect=GROUP_GONE),
        "unknown-expression": Cell(
            change={"expType": "SQL92", "exp": "a = = b"}, expect=Expect(code=ResponseCode.SUBSCRIPTION_PARSE_FAILED)
        ),
        "permission-write-only": Cell(ask=popping(perm=2), expect=NO_RIGHT),
        "permission-group-disabled": Cell(ask=popping(enabled=False), expect=NO_RIGHT),
        "limit-count-largest": Cell(change={"maxMsgNums": str(MESSAGES_MAX)}, expect=Expect(body=one_unit)),
        "limit-count": Cell(
            change={"maxMsgNums": str(MESSAGES_MAX + 1)}, expect=changed(INVALID, remark=re.compile("greater than 32"))
        ),
        "limit-queue": Cell(change={"queueId": "1"}, expect=changed(INVALID, remark=NO_QUEUE)),
        "limit-nothing-there": Cell(ask=popping(messages=0), expect=NONE_THERE),
        "limit-too-late": Cell(
            change={"bornTime": "1", "pollTime": "0"},
            expect=Expect(code=ResponseCode.POLLING_TIMEOUT),
            title="A pop whose time was up before it came is not begun",
        ),
    },
    missing={"maxMsgNums": NONE_THERE},
    mistyped={"maxMsgNums": NONE_THERE, "bornTime": {"": Expect(), "5.3": NONE_THERE}},
)
row(
    AckMessage,
    acking,
    ACK,
    cells={
        "unknown-topic": Cell(change=nobody("topic"), expect=NO_TOPIC),
        "unknown-handle": Cell(change={"extraInfo": "no handle"}, expect=REFUSED),
        "limit-queue": Cell(change={"queueId": "1"}, expect=Expect(code=ResponseCode.MESSAGE_ILLEGAL, remark=NO_QUEUE)),
        "limit-offset": Cell(
            change={"offset": "99"}, expect=Expect(code=ResponseCode.NO_MESSAGE, remark=re.compile("offset is illegal"))
        ),
    },
    missing={"consumerGroup": UNREAD},
    none={"permission": NO_PERMISSION},
)
row(
    BatchAckMessage,
    acking_several(),
    ACK,
    body=True,
    cells={"limit-no-acks": Cell(ask=acking_several(acks=False), expect=Expect(code=ResponseCode.NO_MESSAGE))},
    missing={"body": Expect(code=ResponseCode.NO_MESSAGE)},
    none={"permission": NO_PERMISSION, "unknown": "what it names and nobody knows is left out"},
    since=(5, 2),
)
row(
    ChangeInvisibleTime,
    postponing,
    CHANGE,
    ok=Expect(ext={"popTime": int, "invisibleTime": "30000", "reviveQid": int}),
    cells={
        "unknown-topic": Cell(change=nobody("topic"), expect=NO_TOPIC),
        "unknown-handle": Cell(change={"extraInfo": "no handle"}, expect=REFUSED),
        "limit-queue": Cell(change={"queueId": "1"}, expect=Expect(code=ResponseCode.MESSAGE_ILLEGAL, remark=NO_QUEUE)),
        "limit-offset": Cell(change={"offset": "99"}, expect=Expect(code=ResponseCode.NO_MESSAGE)),
    },
    missing={"consumerGroup": UNREAD},
    none={"permission": NO_PERMISSION},
)
row(
    PeekMessage,
    peeking(),
    "PeekMessageProcessor.processRequest",
    ok=Expect(ext={"restNum": int}, body=one_unit),
    cells={
        "unknown-topic": Cell(change=nobody("topic"), expect=NO_TOPIC),
        "unknown-group-illegal": Cell(change={"consumerGroup": "no group"}, expect=GROUP_GONE),
        "permission-write-only": Cell(ask=peeking(perm=2), expect=NO_RIGHT),
        "permission-group-disabled": Cell(ask=peeking(enabled=False), expect=NO_RIGHT),
        "limit-queue": Cell(change={"queueId": "1"}, expect=changed(INVALID, remark=NO_QUEUE)),
    },
    missing={"maxMsgNums": Expect(code=ResponseCode.PULL_NOT_FOUND)},
    mistyped={"maxMsgNums": Expect(code=ResponseCode.PULL_NOT_FOUND)},
)
row(
    Notification,
    notified(),
    "NotificationProcessor.processRequest",
    ok=Expect(ext={"hasMsg": "true"}),
    cells={
        "unknown-topic": Cell(change=nobody("topic"), expect=NO_TOPIC),
        "unknown-group-illegal": Cell(change={"consumerGroup": "no group"}, expect=GROUP_GONE),
        "permission-write-only": Cell(ask=notified(perm=2), expect=NO_RIGHT),
        "permission-group-disabled": Cell(ask=notified(enabled=False), expect=NO_RIGHT),
        "limit-queue": Cell(change={"queueId": "1"}, expect=changed(INVALID, remark=NO_QUEUE)),
    },
)
row(
    PollingInfo,
    polled(),
    "PollingInfoProcessor.processRequest",
    ok=Expect(ext={"pollingNum": "0"}),
    cells={
        "unknown-topic": Cell(change=nobody("topic"), expect=NO_TOPIC),
        "unknown-group-illegal": Cell(change={"consumerGroup": "no group"}, expect=GROUP_GONE),
        "permission-write-only": Cell(ask=polled(perm=2), expect=NO_RIGHT),
        "permission-group-disabled": Cell(ask=polled(enabled=False), expect=NO_RIGHT),
        "limit-queue": Cell(change={"queueId": "1"}, expect=changed(INVALID, remark=NO_QUEUE)),
    },
)
row(PopRollback, plain(PopRollback), "AdminBrokerProcessor.transferPopToFsStore", none=NEVER_MIND, since=(5, 3, 3))
row(
    QueryAssignment,
    assigning(),
    "QueryAssignmentProcessor.queryAssignment",
    ok=Expect(body=has("messageQueueAssignments")),
    body=True,
    cells={"unknown-strategy": Cell(ask=assigning("NONE_SUCH"), expect=Expect(), level=SHOULD)},
    none={"permission": NO_PERMISSION, "limit": NO_LIMIT},
)
row(
    SetMessageRequestMode,
    choosing(),
    "QueryAssignmentProcessor.setMessageRequestMode",
    then=is_chosen,
    body=True,
    cells={
        "unknown-topic": Cell(ask=choosing(topic="nobody"), expect=NO_TOPIC),
        "unknown-group-illegal": Cell(ask=choosing(group="no group"), expect=NO_GROUP),
        "permission-retry-topic": Cell(ask=choosing(topic="%RETRY%CONF_no_group"), expect=NO_RIGHT),
    },
    none={"limit": NO_LIMIT},
)
row(
    GetAllMessageRequestMode,
    plain(GetAllMessageRequestMode),
    "AdminBrokerProcessor.getAllMessageRequestMode",
    ok=Expect(body=has("messageRequestModeMap")),
    none=NEVER_MIND,
    since=(5, 3),
)
