"""The broker shares a topic's queues out among the members of a group, and says whether they pull or pop (400, 401).

A client that leaves this to the broker asks again and again.  An answer without `messageQueueAssignments` means that it keeps
what it has; an empty list, that it has nothing any more.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from conformance.suite.kit import MUST, SHOULD, Code, Trial
from conformance.suite.kit import case as declare
from conformance.suite.means.members import Member
from conformance.suite.means.played import route_comes
from rmq_wire.headers.pop import QueryAssignment, SetMessageRequestMode

PROCESSOR = "QueryAssignmentProcessor"
ANY = -1

case = partial(declare, since=(5,), codes=Code.QUERY_ASSIGNMENT)
Queue = tuple[int, str]
"""(queue, how it is read)"""


async def members(t: Trial, group: str, topic: str, count: int) -> list[Member]:
    """So many of one group, in the order of their ids; of a topic that name servers know, as the broker asks them for it."""
    await route_comes(t, topic)
    found = [Member(t, f"{t.name('member')}-{number}") for number in range(count)]
    for one in found:
        await one.consumes(group, topic)
    return found


async def assigned(t: Trial, member: Member, group: str, topic: str, **said: Any) -> list[Queue] | None:
    """What a member is given."""
    question = {
        "topic": topic,
        "consumerGroup": group,
        "clientId": member.client_id,
        "strategyName": "AVG",
        "messageModel": "CLUSTERING",
        **said,
    }
    answer = t.answer(f"400 of {member.client_id}", await member.link.ask(QueryAssignment(), json.dumps(question).encode()))
    found = answer.json().get("messageQueueAssignments")
    return None if found is None else sorted((one["messageQueue"]["queueId"], one["mode"]) for one in found)


async def pops(t: Trial, group: str, topic: str, share: int = 0) -> None:
    """From now on the group pops the topic."""
    body = {"topic": topic, "consumerGroup": group, "mode": "POP", "popShareQueueNum": share}
    t.answer("401", await t.broker.ask(SetMessageRequestMode(), json.dumps(body).encode()))


@case("assignment.shares", MUST, rests_on=f"{PROCESSOR}, AllocateMessageQueueAveragely")
async def shares(t: Trial) -> None:
    """Two members share the queues, and the one that stays has them all."""
    topic, group = await t.topic(queues=5), await t.group()
    first, second = await members(t, group, topic, 2)
    t.equal("first", await assigned(t, first, group, topic), [(queue, "PULL") for queue in (0, 1, 2)])
    t.equal("second", await assigned(t, second, group, topic), [(queue, "PULL") for queue in (3, 4)])
    await second.leaves(consumer=group)
    t.equal("alone", await assigned(t, first, group, topic), [(queue, "PULL") for queue in range(5)])


@case("assignment.circle", SHOULD, rests_on=f"{PROCESSOR}, AllocateMessageQueueAveragelyByCircle")
async def circle(t: Trial) -> None:
    """The other strategy deals the queues like cards."""
    topic, group = await t.topic(queues=5), await t.group()
    first, second = await members(t, group, topic, 2)
    found = [await assigned(t, one, group, topic, strategyName="AVG_BY_CIRCLE") for one in (first, second)]
    t.equal("both", found, [[(queue, "PULL") for queue in (0, 2, 4)], [(queue, "PULL") for queue in (1, 3)]])


@case("assignment.pops", MUST, rests_on=f"{PROCESSOR}.allocate4Pop")
async def pops_any_queue(t: Trial) -> None:
    """Where a group pops, each member pops from any queue of the broker; its retry topic is pulled."""
    topic, group = await t.topic(queues=4), await t.group()
    both = await members(t, group, topic, 2)
    await pops(t, group, topic)
    t.equal("both", [await assigned(t, one, group, topic) for one in both], [[(ANY, "POP")]] * 2)
    retry = await assigned(t, both[0], group, f"%RETRY%{group}")
    t.equal("of the retry topic", retry, [(0, "PULL")])


@case("assignment.pop-share", SHOULD, rests_on=f"{PROCESSOR}.allocate4Pop")
async def pop_share(t: Trial) -> None:
    """With a share of one a member pops from its own queues and from those of the next member."""
    topic, group = await t.topic(queues=4), await t.group()
    four = await members(t, group, topic, 4)
    await pops(t, group, topic, share=1)
    found = [await assigned(t, one, group, topic) for one in four]
    t.equal("all", found, [sorted([(own, "POP"), ((own + 1) % 4, "POP")]) for own in range(4)])


@case("assignment.nobody", MUST, rests_on=f"{PROCESSOR}.doLoadBalance")
async def nobody(t: Trial) -> None:
    """A stranger to the group gets nothing, a group without members is told to keep what it has."""
    topic, group, empty = await t.topic(queues=2), await t.group(), await t.group()
    [member] = await members(t, group, topic, 1)
    t.equal("a stranger", await assigned(t, member, group, topic, clientId=t.name("stranger")), [])
    t.equal("nobody there", await assigned(t, member, empty, topic), None)
    t.equal("no such topic", await assigned(t, member, group, t.name("absent")), None)
