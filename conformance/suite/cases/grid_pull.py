"""The grid's rows about pulling: 11, 361."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from conformance.suite.grid.expect import INVALID, NO_GROUP, NO_RIGHT, NO_TOPIC, REFUSED, UNREAD, Expect, changed, four
from conformance.suite.grid.goods import consumer, fill, nobody, where_made
from conformance.suite.grid.grid import Asked, Cell, Good, grid
from conformance.suite.kit import QUIRK, SHOULD, ResponseCode, Trial, units
from rmq_wire.bodies.heartbeat import BROADCASTING, CLUSTERING
from rmq_wire.headers.groups import UpdateGroupForbidden
from rmq_wire.headers.pull import LitePullMessage, PullMessage
from rmq_wire.sys_flag import PULL_SUBSCRIPTION

GROUP_FORBIDDEN, TOPIC_FORBIDDEN, BROADCAST_FORBIDDEN, SUBSCRIPTION_FORBIDDEN = 2, 3, 4, 5
"""`ForbiddenType`."""
FOUND = {"nextBeginOffset": "2", "minOffset": "0", "maxOffset": "2", "suggestWhichBrokerId": "0"}

UNREAD_FIELDS = {"commitOffset": UNREAD, "suspendTimeoutMillis": UNREAD, "subVersion": UNREAD}


def two_units(body: bytes) -> bool:
    """Two message units."""
    return len(units(body)) == 2


def pulling(kind: type[PullMessage], *, perm: int = 6, flags: int = PULL_SUBSCRIPTION, **group: Any) -> Good:
    """A pull of two messages that are there."""

    async def good(t: Trial) -> Asked:
        topic, name = await t.topic(), await t.group(**group)
        await fill(t, topic, 2)
        if perm != 6:
            await t.topic(name=topic, perm=perm)
        return kind(
            consumer_group=name,
            topic=topic,
            queue_id=0,
            queue_offset=0,
            max_msg_nums=32,
            sys_flag=flags,
            commit_offset=0,
            suspend_timeout_millis=0,
            sub_version=0,
            subscription="*",
            expression_type="TAG",
        )

    return good


def online(kind: type[PullMessage], *, model: str = CLUSTERING, readable: bool = True, **group: Any) -> Good:
    """A pull by the subscription of a member that is online."""

    async def good(t: Trial) -> Asked:
        asked = await pulling(kind, flags=0, **group)(t)
        assert isinstance(asked, PullMessage)
        await consumer(t, asked.topic, asked.consumer_group, model=model)
        if not readable:
            forbid = UpdateGroupForbidden(group=asked.consumer_group, topic=asked.topic, readable=False)
            t.answer("forbid", await t.broker.ask(forbid))
        return asked

    return good


def forbidden(kind: int, why: str) -> Mapping[str, Expect]:
    """Refused for lack of a permission; 5.x also says which by a number (`ForbiddenType`)."""
    refused = changed(NO_RIGHT, remark=re.compile(why))
    return {"": changed(refused, ext={"forbiddenType": str(kind)}), "4": refused}


def cells(kind: type[PullMessage]) -> dict[str, Cell]:
    """What both codes have in common."""
    return {
        "unknown-topic": Cell(change=nobody("topic"), expect=NO_TOPIC),
        "unknown-group-illegal": Cell(
            change={"consumerGroup": "not a group"},
            expect=four(changed(NO_GROUP, remark=re.compile("subscription group.*not exist")), code=0, remark=...),
        ),
        "unknown-group": Cell(
            ask=where_made(pulling(kind)),
            change=nobody("consumerGroup"),
            expect=Expect(),
            title="A group that nobody made is made by its first pull",
        ),
        "unknown-consumer": Cell(
            ask=pulling(kind, flags=0),
            expect=Expect(code=ResponseCode.SUBSCRIPTION_NOT_EXIST, remark=re.compile("(subscription|group info) not exist")),
        ),
        "unknown-expression-type": Cell(
            change={"expressionType": "XPATH"},
            expect=Expect(),
            level=QUIRK,
            title="An expression of a type that nobody knows filters nothing",
        ),
        "permission-write-only": Cell(
            ask=pulling(kind, perm=2), expect=forbidden(TOPIC_FORBIDDEN, "pulling message is forbidden")
        ),
        "permission-group-disabled": Cell(
            ask=pulling(kind, consume_enable=False), expect=forbidden(GROUP_FORBIDDEN, "subscription group no permission")
        ),
        "permission-broadcast-disabled": Cell(
            ask=online(kind, model=BROADCASTING, consume_broadcast_enable=False),
            expect=forbidden(BROADCAST_FORBIDDEN, "can not consume by broadcast way"),
        ),
        "permission-topic-forbidden-to-group": Cell(
            ask=online(kind, readable=False), expect=forbidden(SUBSCRIPTION_FORBIDDEN, "forbidden"), since=(5,)
        ),
        "by-heartbeat": Cell(
            ask=online(kind),
            expect=Expect(ext=FOUND, body=two_units),
            title="Without a subscription the one of the heartbeat counts",
        ),
        "limit-queue": Cell(
            change={"queueId": "1"}, expect=four(changed(INVALID, remark=re.compile(r"queueId\[1\] is illegal")))
        ),
        "limit-one-message": Cell(
            change={"maxMsgNums": "1"}, expect=Expect(ext={"nextBeginOffset": "1"}, body=lambda body: len(units(body)) == 1)
        ),
        "limit-offset-at-end": Cell(
            change={"queueOffset": "2"}, expect=Expect(code=ResponseCode.PULL_NOT_FOUND, ext={"nextBeginOffset": "2"})
        ),
        "limit-offset-beyond": Cell(
            change={"queueOffset": "3"}, expect=Expect(code=ResponseCode.PULL_OFFSET_MOVED, ext={"nextBeginOffset": "2"})
        ),
        "limit-offset-negative": Cell(
            change={"queueOffset": "-1"},
            expect=Expect(code=ResponseCode.PULL_OFFSET_MOVED, ext={"nextBeginOffset": "0"}),
            level=SHOULD,
        ),
    }


grid(
    PullMessage,
    pulling(PullMessage),
    "PullMessageProcessor.processRequest",
    ok=Expect(ext=FOUND, body=two_units),
    cells=cells(PullMessage),
    mistyped={"maxMsgBytes": four(REFUSED, code=0), "requestSource": four(REFUSED, code=0)},
    missing=UNREAD_FIELDS,
)
grid(
    LitePullMessage,
    pulling(LitePullMessage),
    "PullMessageProcessor.processRequest",
    ok=Expect(ext=FOUND, body=two_units),
    cells=cells(LitePullMessage),
    missing=UNREAD_FIELDS,
    since=(5,),
)
