"""Filters by expression: SQL92 over a message's properties (`enablePropertyFilter`)."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import trio

from conformance.suite.kit import MUST, QUIRK, SHOULD, Answer, Code, Link, Need, ResponseCode, Trial
from conformance.suite.kit import case as declare
from conformance.suite.means.holding import hold_ms, parked, woken_s
from conformance.suite.means.members import Member
from conformance.suite.means.settings import configured
from conformance.suite.trial import Pulled
from conformance.version import Version
from rmq_wire.bodies.heartbeat import CheckClientRequest, SubscriptionData
from rmq_wire.headers.clients import CheckClientConfig
from rmq_wire.sys_flag import PULL_SUSPEND

RESTS = "SqlFilter, ExpressionMessageFilter, SelectorParser"
CODES = (Code.PULL_MESSAGE, Code.HEART_BEAT)
OWN = (Need.OWN,)
ROWS: tuple[dict[str, str], ...] = (
    {"TAGS": "a", "n": "1", "name": "one", "flag": "true"},
    {"TAGS": "b", "n": "2", "name": "two", "flag": "false"},
    {"TAGS": "c", "n": "3", "name": "three", "d": "3.5"},
    {"TAGS": "d", "name": "none"},
    {"TAGS": "e", "n": "-4", "name": "it's", "flag": "TRUE"},
)
"""What the messages m0 to m4 carry."""


case = partial(declare, needs=OWN)


async def selected(t: Trial, expression: str, topic: str) -> list[int]:
    """Numbers of the messages that a group with this expression gets of a topic that `filled` made."""
    group, member = await t.group(), Member(t)
    await subscribe(member, group, topic, expression)
    offset, got = 0, []
    while offset < len(ROWS):
        pulled = await pull(member, group, topic, offset)
        t.check(
            f"{expression}: pull from {offset}",
            pulled.answer.code in (0, ResponseCode.PULL_RETRY_IMMEDIATELY),
            seen=pulled.answer,
        )
        got += [int(bytes(unit.body)[1:]) for unit in pulled.messages]
        offset = int(pulled.answer.ext["nextBeginOffset"])
    return got


async def subscribe(member: Member, group: str, topic: str, expression: str, *, version: int = 1) -> None:
    """Heartbeats with this expression, until a pull is not answered 27 any more.

    One may not be enough: every 10 s the reference clears away topics without filters, and with them one whose first filter is
    being compiled just then (`ConsumerFilterManager.clean`).  The next heartbeat registers it anew, in real life after 30 s.
    """

    async def compiled() -> bool:
        await say(member, group, topic, expression, version)
        return (await pull(member, group, topic, 0, version=version)).answer.code != ResponseCode.FILTER_DATA_NOT_EXIST

    await member.t.until(f"{expression} is compiled", compiled)


async def say(member: Member, group: str, topic: str, expression: str, version: int) -> None:
    """One heartbeat with this expression."""
    subscription = SubscriptionData(topic=topic, sub_string=expression, expression_type="SQL92", sub_version=version)
    await member.consumes(group, subscription_data_set=[subscription])


async def pull(
    member: Member, group: str, topic: str, offset: int, *, hold_ms: int = 0, link: Link | None = None, version: int = 1
) -> Pulled:
    """Pull by the expression of the group's heartbeat, not judged.  version: of the subscription that the puller has."""
    return await member.t.pull(
        topic,
        offset,
        group=group,
        hold_ms=hold_ms,
        link=link or member.link,
        sys_flag=PULL_SUSPEND if hold_ms else 0,
        subscription=None,
        sub_version=version,
        expression_type="SQL92",
    )


async def filled(t: Trial) -> str:
    """A topic with one message of each row."""
    topic = await t.topic()
    for number, row in enumerate(ROWS):
        await t.send(topic, b"m%d" % number, row)
    await t.pull_all(topic, len(ROWS))
    return topic


async def allowed(t: Trial, expression: str, *, kind: str = "SQL92") -> Answer:
    """Ask whether a subscription may be made (46), not judged."""
    subscription = SubscriptionData(topic=await t.topic(), sub_string=expression, expression_type=kind)
    body = CheckClientRequest(client_id=t.name("client"), group=t.name("g"), subscription_data=subscription).encode()
    return await t.broker.ask(CheckClientConfig(), body)


def _selects(name: str, title: str, table: dict[str, list[int]], *, since: Version = ()) -> None:
    @case(f"filter.sql.{name}", MUST, title=title, codes=CODES, since=since, rests_on=RESTS)
    async def selects(t: Trial) -> None:
        topic = await filled(t)
        for expression, expected in table.items():
            t.equal(expression, await selected(t, expression, topic), expected)


_selects(
    "comparisons",
    "Numbers are compared as numbers",
    {
        "n > 1": [1, 2],
        "n >= 1": [0, 1, 2],
        "n < 0": [4],
        "n <= -4": [4],
        "n = 3": [2],
        "d > 3.4": [2],
        "n <> 1": [1, 2, 4],
    },
)
_selects(
    "texts",
    "Texts are compared in quotes, a doubled quote is one",
    {
        "name = 'two'": [1],
        "name <> 'two'": [0, 2, 3, 4],
        "name = 'it''s'": [4],
        "name IN ('one', 'two')": [0, 1],
        "name NOT IN ('one', 'two')": [2, 3, 4],
    },
)
_selects(
    "logic",
    "AND, OR, NOT and parentheses combine conditions",
    {
        "n > 0 AND name = 'one'": [0],
        "n > 2 OR name = 'none'": [2, 3],
        "NOT (n > 1)": [0, 4],
        "(n = 1 OR n = 2) AND name <> 'one'": [1],
        "n = 1 OR n = 2 AND name = 'one'": [0],
    },
)
_selects(
    "null",
    "A property that is not there is null: neither equal nor unequal to anything",
    {
        "n IS NULL": [3],
        "n IS NOT NULL": [0, 1, 2, 4],
        "nothing = 1": [],
        "nothing <> 1": [],
    },
)
_selects("between", "BETWEEN holds both ends", {"n BETWEEN 1 AND 2": [0, 1], "n NOT BETWEEN 1 AND 2": [2, 4]})
_selects("booleans", "TRUE and FALSE are values to compare with", {"flag = TRUE": [0, 4], "flag = FALSE": [1]})
_selects(
    "parts-of-texts",
    "CONTAINS, STARTSWITH and ENDSWITH look at a text, its case included; what is not there has neither a part nor none",
    {
        "name CONTAINS 'ne'": [0, 3],
        "name NOT CONTAINS 'ne'": [1, 2, 4],
        "name STARTSWITH 't'": [1, 2],
        "name NOT STARTSWITH 't'": [0, 3, 4],
        "name ENDSWITH 'e'": [0, 2, 3],
        "name NOT ENDSWITH 'e'": [1, 4],
        "flag CONTAINS 'e'": [0, 1],
        "flag NOT CONTAINS 'als'": [0, 4],
        "n STARTSWITH '-' OR name ENDSWITH 'ree'": [2, 4],
    },
    since=(5, 1, 3),
)
_selects("tags-as-property", "The tags are a property like any other", {"TAGS = 'a' OR TAGS = 'c'": [0, 2]})


@case("filter.sql.broken", MUST, codes=Code.CHECK_CLIENT_CONFIG, rests_on="ClientManageProcessor.checkClientConfig")
async def broken(t: Trial) -> None:
    """An expression that cannot be compiled is refused when it is asked about: code 23."""
    for expression in ("n >", "n = = 1", "(n = 1", "name = 'open", "> 5"):
        answer = await allowed(t, expression)
        t.answer(expression, answer, code=ResponseCode.SUBSCRIPTION_PARSE_FAILED)


@case("filter.sql.accepted", MUST, codes=Code.CHECK_CLIENT_CONFIG, rests_on="ClientManageProcessor.checkClientConfig")
async def accepted(t: Trial) -> None:
    """An expression that can be compiled is accepted."""
    for expression in ("n > 1", "a IS NOT NULL AND b BETWEEN 1 AND 9", "x IN ('1', '2')"):
        t.answer(expression, await allowed(t, expression))


@case(
    "filter.tag-is-always-allowed",
    MUST,
    codes=Code.CHECK_CLIENT_CONFIG,
    needs=(),
    rests_on="ClientManageProcessor.checkClientConfig",
)
async def tags_allowed(t: Trial) -> None:
    """A subscription by tags needs no permission."""
    t.answer("a || b", await allowed(t, "a || b", kind="TAG"))


@case("filter.sql.wakes", MUST, codes=Code.PULL_MESSAGE, rests_on="PullRequestHoldService, ExpressionMessageFilter")
async def wakes(t: Trial) -> None:
    """A held pull with an expression wakes for what it selects."""
    topic, group, member = await t.topic(), await t.group(), Member(t)
    await subscribe(member, group, topic, "n > 5")
    bodies: list[bytes] = []
    waiting = t.connect()

    async def hold() -> None:
        offset = 0
        while not bodies:
            pulled = await pull(member, group, topic, offset, hold_ms=hold_ms(t), link=waiting)
            bodies.extend(bytes(unit.body) for unit in pulled.messages)
            offset = int(pulled.answer.ext["nextBeginOffset"])

    with trio.move_on_after(woken_s(t)):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(hold)
            await parked(t, topic, waiting)
            await t.send(topic, b"no", {"n": "1"})
            await t.send(topic, b"yes", {"n": "9"})
    t.equal("bodies", bodies, [b"yes"])


@case(
    "filter.unknown-kind",
    QUIRK,
    codes=Code.PULL_MESSAGE,
    needs=(),
    rests_on="FilterFactory; ExpressionMessageFilter without filter data",
)
async def unknown_kind(t: Trial) -> None:
    """An expression of a kind that nobody has selects everything."""
    topic = await filled(t)
    pulled = await t.pull(topic, 0, tags="n > 1", expression_type="LUA")
    t.equal("messages", len(pulled.messages), len(ROWS))


@case(
    "filter.sql.broken-in-request",
    QUIRK,
    codes=Code.PULL_MESSAGE,
    rests_on="PullMessageProcessor: an assert that production does not run",
)
async def broken_in_request(t: Trial) -> None:
    """An expression in the pull that cannot be compiled selects everything."""
    topic = await filled(t)
    pulled = await t.pull(topic, 0, tags="n = = 2", expression_type="SQL92")
    t.equal("messages", len(pulled.messages), len(ROWS))


@case("filter.sql.in-request", SHOULD, codes=Code.PULL_MESSAGE, rests_on="PullMessageProcessor: FilterAPI.build")
async def in_request(t: Trial) -> None:
    """The expression may stand in the pull itself."""
    topic = await filled(t)
    pulled = await t.pull(topic, 0, tags="n = 2", expression_type="SQL92")
    t.equal("bodies", [bytes(unit.body) for unit in pulled.messages], [b"m1"])


@case(
    "filter.sql.not-compiled",
    MUST,
    codes=CODES,
    rests_on="PullMessageProcessor.processRequest, ConsumerFilterManager.register",
)
async def not_compiled(t: Trial) -> None:
    """Who subscribes by an expression that cannot be compiled is told so by his pulls: code 27.

    Also when the group had a good one before: that is not used any more.
    """
    topic, group, member = await filled(t), await t.group(), Member(t)
    remark = re.compile("consumer filter data is not exist")
    for version, expression in ((1, "n = = 2"), (3, "n >")):
        await say(member, group, topic, expression, version)
        pulled = await pull(member, group, topic, 0, version=version)
        t.answer(expression, pulled.answer, code=ResponseCode.FILTER_DATA_NOT_EXIST, remark=remark)
        await subscribe(member, group, topic, "n = 2", version=version + 1)
        pulled = await pull(member, group, topic, 0, version=version + 1)
        t.equal("then by a good one", [bytes(unit.body) for unit in pulled.messages], [b"m1"])


@case("filter.sql.not-latest", SHOULD, codes=CODES, rests_on="PullMessageProcessor.processRequest: FILTER_DATA_NOT_LATEST")
async def filter_not_latest(t: Trial) -> None:
    """While the broker has only an older expression than the subscription's, a pull must wait: code 28.

    A heartbeat with an empty expression leaves it so.  Who has the older subscription is served by the older expression.
    """
    topic, group, member = await filled(t), await t.group(), Member(t)
    await subscribe(member, group, topic, "n = 2")
    await say(member, group, topic, "", 2)
    newer = await pull(member, group, topic, 0, version=2)
    remark = "the consumer's consumer filter data not latest"
    t.answer("the newer version", newer.answer, code=ResponseCode.FILTER_DATA_NOT_LATEST, remark=remark)
    older = await pull(member, group, topic, 0, version=1)
    t.equal("the older version", [bytes(unit.body) for unit in older.messages], [b"m1"])


@case(
    "filter.sql.switched-off",
    MUST,
    codes=(*CODES, Code.CHECK_CLIENT_CONFIG, Code.UPDATE_BROKER_CONFIG),
    alone=True,
    rests_on="PullMessageProcessor.processRequest, ClientManageProcessor.checkClientConfig: enablePropertyFilter",
)
async def switched_off(t: Trial) -> None:
    """A broker that does not filter by properties refuses such pulls and subscriptions with 1; tags go on."""
    topic, group, member = await filled(t), await t.group(), Member(t)
    await subscribe(member, group, topic, "n = 2")
    refused: dict[str, Any] = {
        "code": ResponseCode.SYSTEM_ERROR,
        "remark": "The broker does not support consumer to filter message by SQL92",
    }
    async with configured(t, enablePropertyFilter="false"):
        t.answer("by the heartbeat's", (await pull(member, group, topic, 0)).answer, **refused)
        t.answer("by the request's", (await t.pull(topic, 0, tags="n = 2", expression_type="SQL92")).answer, **refused)
        t.answer("may I subscribe", await allowed(t, "n = 2"), **refused)
        t.equal("by tags", [bytes(unit.body) for unit in (await t.pull(topic, 0, tags="a || c")).messages], [b"m0", b"m2"])
    t.equal("again", [bytes(unit.body) for unit in (await pull(member, group, topic, 0)).messages], [b"m1"])
