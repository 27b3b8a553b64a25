"""Pulls that are refused: what stands in their way, check by check, and what settings put there."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from conformance.suite.cases.pull import PROCESSOR, filled
from conformance.suite.kit import MUST, SHOULD, Code, Need, ResponseCode, Trial
from conformance.suite.kit import case as declare
from conformance.suite.means.members import Member
from conformance.suite.means.settings import configured
from rmq_wire.headers.pull import LitePullMessage
from rmq_wire.sys_flag import PERM_WRITE, PULL_LITE, PULL_SUBSCRIPTION

case = partial(declare, codes=Code.PULL_MESSAGE)


@case("pull.refused.unknown-topic", MUST, rests_on=PROCESSOR)
async def unknown_topic(t: Trial) -> None:
    """A topic that is not there: code 17."""
    topic = t.name("nobody")
    pulled = await t.pull(topic)
    t.answer("pull", pulled.answer, code=ResponseCode.TOPIC_NOT_EXIST, remark=re.compile(f"topic\\[{topic}\\] not exist"))


@case("pull.refused.write-only-topic", MUST, rests_on=PROCESSOR)
async def write_only(t: Trial) -> None:
    """A topic without read permission: code 16."""
    topic = await t.topic(perm=PERM_WRITE)
    pulled = await t.pull(topic)
    t.answer(
        "pull",
        pulled.answer,
        code=ResponseCode.NO_PERMISSION,
        remark=re.compile(f"the topic\\[{topic}\\] pulling message is forbidden"),
    )


@case("pull.refused.queue-out-of-range", MUST, rests_on=PROCESSOR)
async def queue_out_of_range(t: Trial) -> None:
    """A queue that the topic has not is refused.

    29 (INVALID_PARAMETER) since 5.1.4; 1 before.
    """
    topic = await t.topic(queues=2)
    for queue in (2, -1):
        pulled = await t.pull(topic, queue=queue)
        code = t.by_version({"": ResponseCode.INVALID_PARAMETER, "4": ResponseCode.SYSTEM_ERROR})
        t.answer(f"queue {queue}", pulled.answer, code=code, remark=re.compile(f"queueId\\[{queue}\\] is illegal"))


@case("pull.refused.no-subscription", MUST, rests_on=PROCESSOR)
async def no_subscription(t: Trial) -> None:
    """Without a subscription, in the request or on record: code 24."""
    topic, group = await filled(t, 1), await t.group()
    pulled = await t.pull(topic, group=group, sys_flag=0)
    t.answer(
        "pull",
        pulled.answer,
        code=ResponseCode.SUBSCRIPTION_NOT_EXIST,
        remark=re.compile("subscription not exist|consumer's group info not exist"),
    )


@case("pull.refused.disabled-group", MUST, rests_on=PROCESSOR)
async def disabled_group(t: Trial) -> None:
    """A group that must not consume: code 16."""
    topic, group = await filled(t, 1), await t.group(consume_enable=False)
    pulled = await t.pull(topic, group=group)
    t.answer(
        "pull", pulled.answer, code=ResponseCode.NO_PERMISSION, remark=re.compile(f"subscription group no permission, {group}")
    )


@case("pull.refused.broken-subscription", MUST, rests_on=PROCESSOR)
async def broken_subscription(t: Trial) -> None:
    """A subscription that cannot be parsed: code 23."""
    topic = await filled(t, 1)
    for text in ("||", "||||"):
        pulled = await t.pull(topic, tags=text)
        t.answer(
            f"{text!r}",
            pulled.answer,
            code=ResponseCode.SUBSCRIPTION_PARSE_FAILED,
            remark="parse the consumer's subscription failed",
        )


@case(
    "pull.refused.lite-switched-off",
    SHOULD,
    codes=(Code.LITE_PULL_MESSAGE, Code.UPDATE_BROKER_CONFIG),
    needs=Need.OWN,
    since=(5,),
    alone=True,
    rests_on="PullMessageProcessor.processRequest: litePullMessageEnable",
)
async def lite_switched_off(t: Trial) -> None:
    """A broker may refuse lite pulls (16); others go on."""
    topic, group = await filled(t, 1), await t.group()
    asked = LitePullMessage(
        consumer_group=group,
        topic=topic,
        queue_id=0,
        queue_offset=0,
        max_msg_nums=8,
        sys_flag=PULL_SUBSCRIPTION | PULL_LITE,
        commit_offset=0,
        suspend_timeout_millis=0,
        subscription="*",
        sub_version=0,
        expression_type="TAG",
    )
    async with configured(t, litePullMessageEnable="false"):
        answer = await t.broker.ask(asked)
        wanted = re.compile("for lite pull consumer is forbidden")
        t.answer("lite pull", answer, code=ResponseCode.NO_PERMISSION, remark=wanted, ext={"forbiddenType": "1"})
        t.answer("pull", (await t.pull(topic, 0, group=group)).answer)
    t.answer("lite pull again", await t.broker.ask(asked))


@case(
    "pull.refused.pull-consumers",
    SHOULD,
    codes=(Code.PULL_MESSAGE, Code.HEART_BEAT, Code.UPDATE_BROKER_CONFIG),
    needs=Need.OWN,
    since=(5,),
    alone=True,
    rests_on="PullMessageProcessor.processRequest, ClientManageProcessor.heartBeat: rejectPullConsumerEnable",
)
async def pull_consumers(t: Trial) -> None:
    """A broker may serve groups that push only: who sends no heartbeat, or one as a pull consumer, gets 24."""
    topic, active, passive = await filled(t, 1), await t.group(), await t.group()
    pulls, pushes = Member(t), Member(t)
    refused: dict[str, Any] = {
        "code": ResponseCode.SUBSCRIPTION_NOT_EXIST,
        "remark": re.compile("the pull consumer is rejected by server"),
    }
    async with configured(t, rejectPullConsumerEnable="true"):
        t.answer("nobody's group", (await t.pull(topic, 0, group=await t.group())).answer, **refused)
        await pulls.consumes(active, topic, consume_type="CONSUME_ACTIVELY")
        t.answer("a pull consumer", (await t.pull(topic, 0, group=active, link=pulls.link)).answer, **refused)
        await pushes.consumes(passive, topic)
        t.answer("a push consumer", (await t.pull(topic, 0, group=passive, link=pushes.link)).answer)


@case(
    "pull.refused.broadcasting",
    MUST,
    codes=(Code.PULL_MESSAGE, Code.HEART_BEAT),
    rests_on=f"{PROCESSOR}: consumeBroadcastEnable",
)
async def broadcasting(t: Trial) -> None:
    """A group that may not broadcast gets 16 when its members do; in clustering mode it is served."""
    topic, group = await filled(t, 1), await t.group(consume_broadcast_enable=False)
    member = Member(t)
    recorded: dict[str, Any] = {"group": group, "sys_flag": 0, "subscription": None, "link": member.link}
    await member.consumes(group, topic, message_model="BROADCASTING")
    remark = f"the consumer group[{group}] can not consume by broadcast way"
    t.answer("broadcasting", (await t.pull(topic, 0, **recorded)).answer, code=ResponseCode.NO_PERMISSION, remark=remark)
    await member.consumes(group, topic)
    t.answer("clustering", (await t.pull(topic, 0, **recorded)).answer)
