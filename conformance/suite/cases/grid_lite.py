"""The grid's rows about lite topics: 200070, 200071, 200074 to 200079."""

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
    NO_TOPIC,
    REFUSED,
    Expect,
    accident,
    has,
)
from conformance.suite.grid.goods import nobody, plain
from conformance.suite.grid.grid import Asked, Cell, Good, grid
from conformance.suite.kit import ResponseCode, Trial
from rmq_wire.headers.lite import (
    GetBrokerLiteInfo,
    GetLiteClientInfo,
    GetLiteGroupInfo,
    GetLiteTopicInfo,
    GetParentTopicInfo,
    LiteSubscriptionCtl,
    PopLiteMessage,
    TriggerLiteDispatch,
)

NOTHING_THERE = Expect(code=ResponseCode.POLLING_TIMEOUT, ext={"reviveQid": re.compile("^(999|0)$")})
NOT_ASKED_FOR = accident("a list of 0 or fewer makes Java trip", code=ResponseCode.SYSTEM_ERROR)


async def lite(t: Trial) -> tuple[str, str]:
    """A parent topic and a group that is tied to it."""
    topic = await t.topic(attributes="+message.type=LITE")
    group = await t.group(attributes={"+lite.bind.topic": topic})
    return topic, group


async def popping(t: Trial) -> Asked:
    """Pop where nothing is subscribed."""
    topic, group = await lite(t)
    return PopLiteMessage(
        client_id=t.name("client"),
        consumer_group=group,
        topic=topic,
        max_msg_num=1,
        invisible_time=60_000,
        poll_time=0,
        born_time=0,
    )


def subscribing(*, names: bool = True) -> Good:
    """Subscribe to one lite topic."""

    async def good(t: Trial) -> Asked:
        topic, group = await lite(t)
        one = {
            "action": "PARTIAL_ADD",
            "clientId": t.name("client"),
            "group": group,
            "topic": topic,
            "liteTopicSet": ["lite1"],
            "version": 1,
        }
        return LiteSubscriptionCtl(), json.dumps({"subscriptionSet": [one] if names else []}).encode()

    return good


async def of_parent(t: Trial) -> Asked:
    """A parent topic."""
    return GetParentTopicInfo(topic=(await lite(t))[0])


async def of_lite_topic(t: Trial) -> Asked:
    """A lite topic that holds nothing."""
    return GetLiteTopicInfo(parent_topic=(await lite(t))[0], lite_topic="lite1")


async def of_client(t: Trial) -> Asked:
    """A client that is not there."""
    topic, group = await lite(t)
    return GetLiteClientInfo(parent_topic=topic, group=group, client_id=t.name("client"))


async def of_group(t: Trial) -> Asked:
    """A group without clients."""
    return GetLiteGroupInfo(group=(await lite(t))[1], top_k=5)


async def triggering(t: Trial) -> Asked:
    """A group without clients."""
    return TriggerLiteDispatch(group=(await lite(t))[1])


async def plain_topic(t: Trial) -> Asked:
    """A topic that is no parent."""
    return GetParentTopicInfo(topic=await t.topic())


async def plain_group(t: Trial) -> Asked:
    """A group that is not tied to a parent."""
    return GetLiteGroupInfo(group=await t.group(), top_k=5)


row = partial(grid, none={"permission": NO_PERMISSION, "limit": NO_LIMIT}, since=(5, 5))

row(
    PopLiteMessage,
    popping,
    "PopLiteMessageProcessor.processRequest",
    ok=NOTHING_THERE,
    cells={
        "unknown-topic": Cell(change=nobody("topic"), expect=NO_TOPIC),
        "unknown-group-illegal": Cell(change={"consumerGroup": "no group"}, expect=NO_GROUP),
        "limit-count": Cell(change={"maxMsgNum": "33"}, expect=INVALID),
    },
    none={"permission": NO_PERMISSION},
)
row(
    LiteSubscriptionCtl,
    subscribing(),
    "LiteSubscriptionCtlProcessor.processRequest",
    body=True,
    cells={"limit-no-subscriptions": Cell(ask=subscribing(names=False), expect=Expect(code=ResponseCode.ILLEGAL_OPERATION))},
    missing={"body": Expect(code=ResponseCode.ILLEGAL_OPERATION)},
    none={"permission": NO_PERMISSION, "unknown": "names are judged by capability lite"},
)
row(
    GetBrokerLiteInfo,
    plain(GetBrokerLiteInfo),
    "LiteManagerProcessor.getBrokerLiteInfo",
    ok=Expect(body=has("maxLmqNum", "currentLmqNum")),
    none=NEVER_MIND,
)
row(
    GetParentTopicInfo,
    of_parent,
    "LiteManagerProcessor.getParentTopicInfo",
    ok=Expect(body=has("topic")),
    cells={
        "unknown-topic": Cell(change=nobody("topic"), expect=NO_TOPIC),
        "unknown-parent": Cell(ask=plain_topic, expect=INVALID),
    },
)
row(
    GetLiteTopicInfo,
    of_lite_topic,
    "LiteManagerProcessor.getLiteTopicInfo",
    missing=dict.fromkeys(("parentTopic", "liteTopic"), REFUSED),
    cells={"unknown-topic": Cell(change=nobody("parentTopic"), expect=NO_TOPIC)},
)
row(
    GetLiteClientInfo,
    of_client,
    "LiteManagerProcessor.getLiteClientInfo",
    missing=dict.fromkeys(("parentTopic", "group", "clientId"), REFUSED),
    cells={
        "unknown-topic": Cell(change=nobody("parentTopic"), expect=NO_TOPIC),
        "unknown-group-illegal": Cell(change={"group": "no group"}, expect=NO_GROUP),
    },
)
row(
    GetLiteGroupInfo,
    of_group,
    "LiteManagerProcessor.getLiteGroupInfo",
    cells={
        "unknown-group-illegal": Cell(change={"group": "no group"}, expect=NO_GROUP),
        "unknown-lite-group": Cell(ask=plain_group, expect=INVALID),
    },
    missing={"topK": NOT_ASKED_FOR},
    mistyped={"topK": NOT_ASKED_FOR},
)
row(
    TriggerLiteDispatch,
    triggering,
    "LiteManagerProcessor.triggerLiteDispatch",
    cells={"unknown-group-illegal": Cell(change={"group": "no group"}, expect=NO_GROUP)},
)
