"""The grid's rows about consumer groups: 200, 201, 207, 225, 345, 352, 353."""

from __future__ import annotations

import re

from conformance.suite.grid.expect import (
    INVALID,
    NO_GROUP,
    NO_LIMIT,
    NO_PERMISSION,
    NOTHING_TO_DO,
    PAGED,
    REFUSED,
    UNREAD,
    Expect,
    changed,
    has,
    holds,
)
from conformance.suite.grid.goods import nobody, of_both, of_group, plain
from conformance.suite.grid.grid import Asked, Cell, Good, grid
from conformance.suite.kit import QUIRK, SHOULD, Answer, Trial
from rmq_wire.bodies.groups import SubscriptionGroupConfig, SubscriptionGroupList
from rmq_wire.headers.groups import (
    DeleteSubscriptionGroup,
    GetAllSubscriptionGroup,
    GetSubscriptionGroupConfig,
    QuerySubscriptionByConsumer,
    UpdateAndCreateSubscriptionGroup,
    UpdateAndCreateSubscriptionGroupList,
    UpdateGroupForbidden,
)

NONE = {"permission": NO_PERMISSION, "limit": NO_LIMIT}
GROUP_CHARACTERS_MAX = 120


async def is_made_again(t: Trial, asked: DeleteSubscriptionGroup, _: Answer) -> None:
    """The table still has it."""
    found = t.answer("201 after it", await t.broker.ask(GetAllSubscriptionGroup()))
    t.check("the table still has it", asked.group_name in found.json()["subscriptionGroupTable"])


async def is_gone(t: Trial, asked: DeleteSubscriptionGroup, _: Answer) -> None:
    """The table is without it."""
    found = t.answer("201 after it", await t.broker.ask(GetAllSubscriptionGroup()))
    t.check("the table is without it", asked.group_name not in found.json()["subscriptionGroupTable"])


def named(name: str = "", length: int = 0) -> Good:
    """Make a group of this name, or of one of its own, filled up to a length."""

    async def good(t: Trial) -> Asked:
        config = SubscriptionGroupConfig(group_name=name or t.name("g").ljust(length, "x"))
        return UpdateAndCreateSubscriptionGroup(), config.encode()

    return good


def listed(name: str = "") -> Good:
    """Make two groups at once, one of them of this name."""

    async def good(t: Trial) -> Asked:
        names = (t.name("g"), name or t.name("g"))
        body = SubscriptionGroupList(group_config_list=[SubscriptionGroupConfig(group_name=found) for found in names])
        return UpdateAndCreateSubscriptionGroupList(), body.encode()

    return good


BAD_NAME = {"": INVALID, "5.3": Expect(), "4": Expect()}

grid(
    UpdateAndCreateSubscriptionGroup,
    named(),
    "AdminBrokerProcessor.updateAndCreateSubscriptionGroup",
    body=True,
    cells={
        "unknown-characters": Cell(ask=named("no blanks"), expect=BAD_NAME),
        "limit-name-longest": Cell(ask=named(length=GROUP_CHARACTERS_MAX), expect=Expect()),
        "limit-name": Cell(ask=named(length=GROUP_CHARACTERS_MAX + 1), expect=BAD_NAME),
    },
    missing={"body": {"": NOTHING_TO_DO, "5.3": REFUSED, "4": REFUSED}},
    none={"permission": NO_PERMISSION},
)
grid(
    UpdateAndCreateSubscriptionGroupList,
    listed(),
    "AdminBrokerProcessor.updateAndCreateSubscriptionGroupList",
    body=True,
    cells={
        "unknown-characters": Cell(ask=listed("no blanks"), expect=BAD_NAME),
        "limit-name": Cell(ask=listed("x" * (GROUP_CHARACTERS_MAX + 1)), expect=BAD_NAME),
    },
    none={"permission": NO_PERMISSION},
    since=(5, 3),
)
grid(
    GetAllSubscriptionGroup,
    plain(lambda: GetAllSubscriptionGroup(group_seq=0, max_group_num=2000, data_version="")),
    "AdminBrokerProcessor.getAllSubscriptionGroup",
    alone=True,  # 5.5.0 copies the table while others change it, and may trip (ArrayIndexOutOfBoundsException)
    ok=Expect(body=has("subscriptionGroupTable", "dataVersion")),
    cells={
        "unknown-version": Cell(change={"dataVersion": "{}"}, expect=Expect(body=has("subscriptionGroupTable")), level=SHOULD),
        "limit-page": Cell(change={"maxGroupNum": "1"}, expect=Expect(), since=(5, 5)),
        "limit-page-beyond": Cell(change={"groupSeq": "100000"}, expect=Expect(body=has("subscriptionGroupTable")), since=(5, 5)),
    },
    missing={"groupSeq": PAGED},
    mistyped={"groupSeq": PAGED},
    none={"permission": NO_PERMISSION},
)
grid(
    DeleteSubscriptionGroup,
    of_group(lambda group: DeleteSubscriptionGroup(group_name=group, clean_offset=True)),
    "AdminBrokerProcessor.deleteSubscriptionGroup",
    then=is_gone,
    cells={
        "unknown-group": Cell(change=nobody("groupName"), expect=Expect()),
        "keep-offsets": Cell(
            change={"cleanOffset": "false"},
            expect=Expect(),
            then=is_made_again,
            level=QUIRK,
            title="A group that is deleted without its offsets is made again at once",
            since=(5, 5),
        ),
    },
    none=NONE,
)
grid(
    GetSubscriptionGroupConfig,
    of_group(lambda group: GetSubscriptionGroupConfig(group=group)),
    "AdminBrokerProcessor.getSubscriptionGroup",
    ok=Expect(body=has("groupName", "consumeEnable")),
    cells={
        "unknown-group-illegal": Cell(
            change={"group": "no group"}, expect=changed(NO_GROUP, remark=re.compile("No group in this broker"))
        )
    },
    none=NONE,
    since=(5,),
)
grid(
    UpdateGroupForbidden,
    of_both(lambda topic, group: UpdateGroupForbidden(group=group, topic=topic)),
    "AdminBrokerProcessor.updateAndGetGroupForbidden",
    ok=Expect(body=holds(readable=True)),
    cells={
        "unknown-group": Cell(change=nobody("group"), expect=Expect(body=holds(readable=True))),
        "unknown-topic": Cell(change=nobody("topic"), expect=Expect(body=holds(readable=True))),
        "permission-taken": Cell(change={"readable": "false"}, expect=Expect(body=holds(readable=False))),
    },
    missing={"topic": UNREAD},
    none={"limit": NO_LIMIT},
    since=(5,),
)
grid(
    QuerySubscriptionByConsumer,
    of_both(lambda topic, group: QuerySubscriptionByConsumer(group=group, topic=topic)),
    "AdminBrokerProcessor.querySubscriptionByConsumer",
    ok=Expect(body=has("group", "topic")),
    cells={
        "unknown-group": Cell(change=nobody("group"), expect=Expect(body=has("group"))),
        "unknown-topic": Cell(change=nobody("topic"), expect=Expect(body=has("group"))),
    },
    none=NONE,
    since=(5,),
)
