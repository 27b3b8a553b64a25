"""Filters by expression: SQL92 over a message's properties (`enablePropertyFilter`)."""

from __future__ import annotations

import trio

from conformance.case import Level, Need, case
from conformance.link import Answer
from conformance.members import Member
from conformance.trial import POLL_S, SETTLE_S, Trial
from rmq_wire.bodies.heartbeat import CheckClientRequest, SubscriptionData
from rmq_wire.codes import RequestCode as Code
from rmq_wire.codes import ResponseCode
from rmq_wire.headers.clients import CheckClientConfig

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


async def selected(t: Trial, expression: str, topic: str) -> list[int]:
    """Numbers of the messages that a group with this expression gets of a topic that `filled` made.

    The filter is compiled behind the heartbeat's answer: until then a pull is answered 27.
    """
    group, member = await t.group(), Member(t)
    await subscribe(member, group, topic, expression)
    offset, got = 0, []
    compiled_by = trio.current_time() + SETTLE_S
    while offset < len(ROWS):
        pulled = await t.pull(
            topic, offset, group=group, sys_flag=0, subscription=None, expression_type="SQL92", link=member.link, sub_version=1
        )
        if pulled.answer.code == ResponseCode.FILTER_DATA_NOT_EXIST and trio.current_time() < compiled_by:
            await trio.sleep(POLL_S)
            continue
        t.check(
            f"{expression}: pull from {offset}",
            pulled.answer.code in (0, ResponseCode.PULL_RETRY_IMMEDIATELY),
            seen=pulled.answer,
        )
        got += [int(bytes(unit.body)[1:]) for unit in pulled.messages]
        offset = int(pulled.answer.ext["nextBeginOffset"])
    return got


async def subscribe(member: Member, group: str, topic: str, expression: str) -> None:
    """A heartbeat with this expression."""
    subscription = SubscriptionData(topic=topic, sub_string=expression, expression_type="SQL92", sub_version=1)
    await member.consumes(group, subscription_data_set=[subscription])


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


def _selects(name: str, title: str, table: dict[str, list[int]]) -> None:
    @case(f"filter.sql.{name}", Level.MUST, title, codes=CODES, needs=OWN, rests_on=RESTS)
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
_selects("tags-as-property", "The tags are a property like any other", {"TAGS = 'a' OR TAGS = 'c'": [0, 2]})


@case(
    "filter.sql.broken",
    Level.MUST,
    "An expression that cannot be compiled is refused when it is asked about: code 23",
    codes=(Code.CHECK_CLIENT_CONFIG,),
    needs=OWN,
    rests_on="ClientManageProcessor.checkClientConfig",
)
async def broken(t: Trial) -> None:
    for expression in ("n >", "n = = 1", "(n = 1", "name = 'open", "> 5"):
        answer = await allowed(t, expression)
        t.answer(expression, answer, code=ResponseCode.SUBSCRIPTION_PARSE_FAILED)


@case(
    "filter.sql.accepted",
    Level.MUST,
    "An expression that can be compiled is accepted",
    codes=(Code.CHECK_CLIENT_CONFIG,),
    needs=OWN,
    rests_on="ClientManageProcessor.checkClientConfig",
)
async def accepted(t: Trial) -> None:
    for expression in ("n > 1", "a IS NOT NULL AND b BETWEEN 1 AND 9", "x IN ('1', '2')"):
        t.answer(expression, await allowed(t, expression))


@case(
    "filter.tag-is-always-allowed",
    Level.MUST,
    "A subscription by tags needs no permission",
    codes=(Code.CHECK_CLIENT_CONFIG,),
    rests_on="ClientManageProcessor.checkClientConfig",
)
async def tags_allowed(t: Trial) -> None:
    t.answer("a || b", await allowed(t, "a || b", kind="TAG"))


@case(
    "filter.sql.wakes",
    Level.MUST,
    "A held pull with an expression wakes for what it selects",
    codes=(Code.PULL_MESSAGE,),
    needs=OWN,
    rests_on="PullRequestHoldService, ExpressionMessageFilter",
)
async def wakes(t: Trial) -> None:
    topic, group, member = await t.topic(), await t.group(), Member(t)
    await subscribe(member, group, topic, "n > 5")
    bodies: list[bytes] = []

    async def hold() -> None:
        offset = 0
        while not bodies:
            pulled = await t.pull(
                topic,
                offset,
                group=group,
                sys_flag=2,
                suspend_timeout_millis=10_000,
                subscription=None,
                sub_version=1,
                expression_type="SQL92",
                link=member.link,
                seconds=20,
            )
            bodies.extend(bytes(unit.body) for unit in pulled.messages)
            offset = int(pulled.answer.ext["nextBeginOffset"])

    with trio.move_on_after(15):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(hold)
            await trio.sleep(0.3)
            await t.send(topic, b"no", {"n": "1"})
            await t.send(topic, b"yes", {"n": "9"})
    t.equal("bodies", bodies, [b"yes"])


@case(
    "filter.unknown-kind",
    Level.QUIRK,
    "An expression of a kind that nobody has selects everything",
    codes=(Code.PULL_MESSAGE,),
    rests_on="FilterFactory; ExpressionMessageFilter without filter data",
)
async def unknown_kind(t: Trial) -> None:
    topic = await filled(t)
    pulled = await t.pull(topic, 0, tags="n > 1", expression_type="LUA")
    t.equal("messages", len(pulled.messages), len(ROWS))


@case(
    "filter.sql.broken-in-request",
    Level.QUIRK,
    "An expression in the pull that cannot be compiled selects everything",
    codes=(Code.PULL_MESSAGE,),
    needs=OWN,
    rests_on="PullMessageProcessor: an assert that production does not run",
)
async def broken_in_request(t: Trial) -> None:
    topic = await filled(t)
    pulled = await t.pull(topic, 0, tags="n = = 2", expression_type="SQL92")
    t.equal("messages", len(pulled.messages), len(ROWS))


@case(
    "filter.sql.in-request",
    Level.SHOULD,
    "The expression may stand in the pull itself",
    codes=(Code.PULL_MESSAGE,),
    needs=OWN,
    rests_on="PullMessageProcessor: FilterAPI.build",
)
async def in_request(t: Trial) -> None:
    topic = await filled(t)
    pulled = await t.pull(topic, 0, tags="n = 2", expression_type="SQL92")
    t.equal("bodies", [bytes(unit.body) for unit in pulled.messages], [b"m1"])
