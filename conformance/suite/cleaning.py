"""Makes what a run wants to find on somebody's server, and takes away what it made: topics and groups, known by the run's mark.

A server of the suite's own ends with the run and is not cleaned.  What cannot be deleted stays; nothing here fails a run.
"""

from __future__ import annotations

import contextlib
from typing import Any, Final

import trio

from conformance.subjects.base import Target
from conformance.suite.link import Frame, Link, NoAnswer
from conformance.suite.trial import MAKES_GROUPS, PREFIX, READERS
from rmq_wire.bodies.groups import SubscriptionGroupConfig
from rmq_wire.codes import ResponseCode
from rmq_wire.errors import WireError
from rmq_wire.headers.groups import DeleteSubscriptionGroup, GetAllSubscriptionGroup, UpdateAndCreateSubscriptionGroup
from rmq_wire.headers.naming import DeleteTopicFromNamesrv, GetAllTopicListFromNameserver
from rmq_wire.headers.topics import DeleteTopic, GetAllTopicConfig

CLEANING_S: Final = 60.0
"""How long it may take."""
CLEANING_SHORT_S: Final = 3.0
"""How long it may take after a run that stopped early."""


async def prepare(target: Target, *, seconds: float = CLEANING_SHORT_S) -> None:
    """Make the group that most pulls are made with, where the broker says that groups do not come by themselves."""
    if target.config.get(*MAKES_GROUPS) == MAKES_GROUPS[1]:
        return
    with trio.move_on_after(seconds):
        async with trio.open_nursery() as nursery:
            broker = Link(target.broker, nursery, [], number=0)
            with contextlib.suppress(NoAnswer, WireError):
                await broker.ask(UpdateAndCreateSubscriptionGroup(), SubscriptionGroupConfig(group_name=READERS).encode())
            nursery.cancel_scope.cancel()


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
                await _forget(names, marks)
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
    return [str(name) for name in body.get(table) or () if _ours(str(name), marks)]


def _ours(name: str, marks: tuple[str, ...]) -> bool:
    return name in (READERS, f"%RETRY%{READERS}") or any(f"{PREFIX}_{mark}" in name for mark in marks)


async def _forget(names: Link, marks: tuple[str, ...]) -> None:
    """A topic that the broker registered when it was deleted at the name server already."""
    answer = await names.ask(GetAllTopicListFromNameserver())
    for topic in answer.json().get("topicList") or () if answer.code == ResponseCode.SUCCESS else ():
        if _ours(str(topic), marks):
            await names.ask(DeleteTopicFromNamesrv(topic=str(topic)))
