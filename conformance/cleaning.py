"""Takes away what a run made on somebody's server: its topics and groups, known by the run's mark in their names.

A server of the suite's own ends with the run and is not cleaned.  What cannot be deleted stays; nothing here fails a run.
"""

from __future__ import annotations

from typing import Any, Final

import trio

from conformance.link import Frame, Link, NoAnswer
from conformance.subjects.base import Target
from conformance.trial import PREFIX
from rmq_wire.codes import ResponseCode
from rmq_wire.errors import WireError
from rmq_wire.headers.groups import DeleteSubscriptionGroup, GetAllSubscriptionGroup
from rmq_wire.headers.naming import DeleteTopicFromNamesrv
from rmq_wire.headers.topics import DeleteTopic, GetAllTopicConfig

CLEANING_S: Final = 60.0
"""How long it may take."""
CLEANING_SHORT_S: Final = 3.0
"""How long it may take after a run that stopped early."""


async def clean(target: Target, *marks: str, seconds: float = CLEANING_S) -> str:
    """Delete everything whose name has one of the marks; says how many topics and groups that were, and what went wrong."""
    topics = groups = 0
    problem = "not done in time"
    evidence: list[Frame] = []
    with trio.move_on_after(seconds):
        async with trio.open_nursery() as nursery:
            broker = Link(target.broker, nursery, evidence, number=0)
            names = Link(target.namesrv, nursery, evidence, number=1)
            try:
                for group in await _names(broker, GetAllSubscriptionGroup(), "subscriptionGroupTable", marks):
                    asked = DeleteSubscriptionGroup(group_name=group, clean_offset=True)
                    groups += (await broker.ask(asked)).code == ResponseCode.SUCCESS
                for topic in await _names(broker, GetAllTopicConfig(), "topicConfigTable", marks):
                    topics += (await broker.ask(DeleteTopic(topic=topic))).code == ResponseCode.SUCCESS
                    await names.ask(DeleteTopicFromNamesrv(topic=topic))
                problem = ""
            except (NoAnswer, WireError) as error:
                problem = str(error)
            nursery.cancel_scope.cancel()
    return f"{topics} topics and {groups} groups" + (f"; then: {problem}" if problem else "")


async def _names(
    broker: Link, asked: GetAllTopicConfig | GetAllSubscriptionGroup, table: str, marks: tuple[str, ...]
) -> list[str]:
    answer = await broker.ask(asked)
    if answer.code != ResponseCode.SUCCESS:
        return []
    body: Any = answer.json()
    return [str(name) for name in body.get(table) or () if any(f"{PREFIX}_{mark}" in str(name) for mark in marks)]
