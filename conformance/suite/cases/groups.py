"""Consumer groups: made, by an operator or by naming them, listed, kept from topics, deleted."""

from __future__ import annotations

import json
from typing import Any

from conformance.suite.kit import MUST, SHOULD, Code, Need, ResponseCode, Trial, case
from conformance.suite.means.members import Member
from conformance.suite.means.settings import configured
from rmq_wire.bodies.groups import SubscriptionGroupConfig, SubscriptionGroupList
from rmq_wire.headers import groups
from rmq_wire.headers.clients import GetConsumerListByGroup
from rmq_wire.headers.offsets import QueryConsumerOffset, UpdateConsumerOffset

ADMIN = "AdminBrokerProcessor"


@case(
    "groups.create",
    MUST,
    codes=(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, Code.GET_SUBSCRIPTIONGROUP_CONFIG),
    since=(5,),
    rests_on="SubscriptionGroupManager",
)
async def group_created(t: Trial) -> None:
    """A group is what it was made to be."""
    name = await t.group(retry_queue_nums=2, retry_max_times=5, consume_enable=False)
    row = t.answer("row", await t.broker.ask(groups.GetSubscriptionGroupConfig(group=name))).json()
    t.equal("fields", (row["groupName"], row["retryQueueNums"], row["retryMaxTimes"], row["consumeEnable"]), (name, 2, 5, False))
    t.equal("defaults", (row["consumeBroadcastEnable"], row["brokerId"], row["whichBrokerWhenConsumeSlowly"]), (True, 0, 1))


@case("groups.all", MUST, codes=Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, rests_on=f"{ADMIN}.getAllSubscriptionGroup")
async def all_groups(t: Trial) -> None:
    """All groups in one table."""
    name = await t.group(retry_max_times=7)
    table = t.answer("all", await t.broker.ask(groups.GetAllSubscriptionGroup())).json()
    t.equal("ours", table["subscriptionGroupTable"].get(name, {}).get("retryMaxTimes"), 7)
    t.check("the table has a version", "counter" in table["dataVersion"], seen=table["dataVersion"])


@case(
    "groups.retry-policy",
    SHOULD,
    codes=(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, Code.GET_SUBSCRIPTIONGROUP_CONFIG),
    since=(5,),
    rests_on="SubscriptionGroupConfig.groupRetryPolicy: the proxy's",
)
async def retry_policy(t: Trial) -> None:
    """How a group wants its retries spaced is kept and given back.

    The broker goes by its delay levels all the same.
    """
    name = await t.group()
    exponential = {"initial": 1_000, "max": 60_000, "multiplier": 3}
    for policy in (
        {"type": "EXPONENTIAL", "exponentialRetryPolicy": exponential},
        {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1_000, 2_000, 60_000]}},
    ):
        body = json.dumps({"groupName": name, "groupRetryPolicy": policy}).encode()
        t.answer("set", await t.broker.ask(groups.UpdateAndCreateSubscriptionGroup(), body))
        kept = t.answer("get", await t.broker.ask(groups.GetSubscriptionGroupConfig(group=name))).json()["groupRetryPolicy"]
        t.equal("kept", {key: kept.get(key) for key in policy}, policy)


@case("groups.delete", MUST, codes=Code.DELETE_SUBSCRIPTIONGROUP, rests_on=f"{ADMIN}.deleteSubscriptionGroup")
async def group_deleted(t: Trial) -> None:
    """A deleted group is no group any more.

    With `cleanOffset` its progress goes, too.
    """
    name, topic = await t.group(), await t.topic()
    await t.send(topic, b"x")
    await t.pull_all(topic, 1)
    t.answer("commit", await t.broker.ask(UpdateConsumerOffset(consumer_group=name, topic=topic, queue_id=0, commit_offset=1)))
    t.answer("delete", await t.broker.ask(groups.DeleteSubscriptionGroup(group_name=name, clean_offset=True)))
    table = (await t.broker.ask(groups.GetAllSubscriptionGroup())).json()
    t.check("not in the table", name not in table["subscriptionGroupTable"])
    if t.version is None or t.version >= (5,):
        asked_progress = QueryConsumerOffset(consumer_group=name, topic=topic, queue_id=0, set_zero_if_not_found=False)
        t.answer("its progress", await t.broker.ask(asked_progress), code=ResponseCode.QUERY_NOT_FOUND)


@case(
    "groups.create-list",
    SHOULD,
    codes=Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
    since=(5, 3),
    rests_on=f"{ADMIN}.updateAndCreateSubscriptionGroupList",
)
async def group_list(t: Trial) -> None:
    """Several groups are made in one request."""
    names = [t.name("g") for _ in range(3)]
    body = SubscriptionGroupList(
        group_config_list=[SubscriptionGroupConfig(group_name=name, retry_max_times=3) for name in names]
    )
    t.answer("create", await t.broker.ask(groups.UpdateAndCreateSubscriptionGroupList(), body.encode()))
    table = (await t.broker.ask(groups.GetAllSubscriptionGroup())).json()["subscriptionGroupTable"]
    t.equal("limits", [table.get(name, {}).get("retryMaxTimes") for name in names], [3, 3, 3])


@case(
    "groups.forbidden",
    SHOULD,
    codes=Code.UPDATE_AND_GET_GROUP_FORBIDDEN,
    since=(5,),
    rests_on=f"{ADMIN}.updateAndGetGroupForbidden",
)
async def forbidden(t: Trial) -> None:
    """A group can be kept from one topic.

    Looked at in pulls that rest on the heartbeat's subscription, as stock clients' do after the first.
    """
    group, kept_from, other, member = await t.group(), await t.topic(), await t.topic(), Member(t)
    for topic in (kept_from, other):
        await t.send(topic, b"x")
        await t.pull_all(topic, 1)
    await member.consumes(group, kept_from, other)
    recorded: dict[str, Any] = {"group": group, "sys_flag": 0, "subscription": None, "link": member.link}
    shown = t.answer(
        "forbid", await t.broker.ask(groups.UpdateGroupForbidden(group=group, topic=kept_from, readable=False))
    ).json()
    t.equal("reset", (shown["group"], shown["topic"], shown["readable"]), (group, kept_from, False))
    t.answer("pull", (await t.pull(kept_from, **recorded)).answer, code=ResponseCode.NO_PERMISSION)
    t.answer("pull of another topic", (await t.pull(other, **recorded)).answer)
    t.answer("allow", await t.broker.ask(groups.UpdateGroupForbidden(group=group, topic=kept_from, readable=True)))
    t.answer("pull again", (await t.pull(kept_from, **recorded)).answer)


@case(
    "groups.not-made-by-naming",
    MUST,
    codes=(Code.HEART_BEAT, Code.QUERY_CONSUMER_OFFSET, Code.UPDATE_CONSUMER_OFFSET, Code.UPDATE_BROKER_CONFIG),
    needs=Need.OWN,
    since=(5,),
    alone=True,
    rests_on="SubscriptionGroupManager.findSubscriptionGroupConfig: autoCreateSubscriptionGroup",
)
async def not_made(t: Trial) -> None:
    """Without autoCreateSubscriptionGroup naming a group does not make it; groups of the system are made all the same.

    A heartbeat is answered 0, and its sender is no member of the group that is not there.
    """
    topic, group, member = await t.topic(), t.name("g"), Member(t)
    await t.send(topic, b"x")
    await t.pull_all(topic, 1)
    no_group = ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    commit = UpdateConsumerOffset(consumer_group=group, topic=topic, queue_id=0, commit_offset=1)
    async with configured(t, autoCreateSubscriptionGroup="false"):
        await member.consumes(group, topic)
        listed = await t.broker.ask(GetConsumerListByGroup(consumer_group=group))
        t.answer("its members", listed, code=ResponseCode.SYSTEM_ERROR)
        t.answer("a pull", (await t.pull(topic, 0, group=group)).answer, code=no_group)
        t.answer("a commit", await t.broker.ask(commit), code=no_group)
        asked = QueryConsumerOffset(consumer_group=group, topic=topic, queue_id=0)
        t.answer("its progress", await t.broker.ask(asked), ext={"offset": "0"})
        t.answer("the table", await t.broker.ask(groups.GetSubscriptionGroupConfig(group=group)), code=no_group)
        made = await t.group()
        t.answer("a group that was made", (await t.pull(topic, 0, group=made)).answer)
        system = "CID_RMQ_SYS_" + t.name("g").replace("_", "-")
        t.answer("a group of the system", (await t.pull(topic, 0, group=system)).answer)
    await member.consumes(group, topic)
    t.answer("a pull again", (await t.pull(topic, 0, group=group)).answer)
    t.answer("a commit again", await t.broker.ask(commit))


@case(
    "groups.names",
    MUST,
    codes=(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, Code.PULL_MESSAGE),
    since=(5, 5),
    rests_on="TopicValidator.validateGroup",
)
async def group_names(t: Trial) -> None:
    """A group's name has 120 characters at most, of letters, digits, `%`, `|`, `-` and `_`, whoever makes it."""
    topic, longest = await t.topic(), t.name("g").ljust(120, "g")
    await t.group(longest)
    t.answer("made", (await t.pull(topic, 0, group=longest)).answer, code=ResponseCode.PULL_NOT_FOUND)
    by_naming = t.name("n").ljust(120, "n")
    t.answer("made by naming", (await t.pull(topic, 0, group=by_naming)).answer, code=ResponseCode.PULL_NOT_FOUND)
    for illegal in (longest + "g", t.name("g") + ".", t.name("g") + " x"):
        config = SubscriptionGroupConfig(group_name=illegal)
        answer = await t.broker.ask(groups.UpdateAndCreateSubscriptionGroup(), config.encode())
        t.answer(f"{illegal}: made", answer, code=ResponseCode.INVALID_PARAMETER)
        named = await t.pull(topic, 0, group=illegal)
        t.answer(f"{illegal}: by naming", named.answer, code=ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)
