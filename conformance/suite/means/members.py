"""A client that a case plays: a connection that sends heartbeats for groups and gets what a broker sends its clients."""

from __future__ import annotations

from typing import Any

from conformance.suite.link import Answer, Link
from conformance.suite.trial import Trial
from rmq_wire.bodies.heartbeat import (
    CLUSTERING,
    CONSUME_PASSIVELY,
    ConsumerData,
    HeartbeatData,
    ProducerData,
    SubscriptionData,
)
from rmq_wire.codes import RequestCode
from rmq_wire.command import Command
from rmq_wire.headers.clients import Heartbeat, UnregisterClient
from rmq_wire.java import string_hash

NOTICE_S = 10.0
"""How long a notice may take."""


class Member:
    """One client id on one connection."""

    def __init__(self, t: Trial, client_id: str = "") -> None:
        self.t = t
        self.link: Link = t.connect()
        self.client_id = client_id or t.name("client")

    async def consumes(self, group: str, *topics: str, tags: str = "*", **fields: Any) -> Answer:
        """A heartbeat (34) as a push consumer of the group; fields: others of `ConsumerData`.  Must succeed."""
        subscriptions = [
            SubscriptionData(
                topic=topic,
                sub_string=tags,
                sub_version=1,
                tags_set=_tags(tags),
                code_set=[string_hash(tag) for tag in _tags(tags)],
            )
            for topic in topics
        ]
        consumer = ConsumerData(
            **{
                "group_name": group,
                "consume_type": CONSUME_PASSIVELY,
                "message_model": CLUSTERING,
                "consume_from_where": "CONSUME_FROM_LAST_OFFSET",
                "subscription_data_set": subscriptions,
                **fields,
            }
        )
        return await self.beats(HeartbeatData(client_id=self.client_id, consumer_data_set=[consumer]))

    async def produces(self, group: str) -> Answer:
        """A heartbeat as a producer of the group.  Must succeed."""
        return await self.beats(HeartbeatData(client_id=self.client_id, producer_data_set=[ProducerData(group_name=group)]))

    async def beats(self, data: HeartbeatData) -> Answer:
        """Any heartbeat; must succeed."""
        return self.t.answer("heartbeat", await self.link.ask(Heartbeat(), data.encode()))

    async def leaves(self, *, consumer: str = "", producer: str = "") -> None:
        """Unregister (35) from a consumer or producer group.  Must succeed."""
        asked = UnregisterClient(client_id=self.client_id, consumer_group=consumer or None, producer_group=producer or None)
        self.t.answer("unregister", await self.link.ask(asked))

    async def notice_of_change(self) -> Command | None:
        """The next notice that a group's members have changed (40)."""
        return await self.link.request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, seconds=NOTICE_S)

    async def told(self, code: int = RequestCode.NOTIFY_CONSUMER_IDS_CHANGED) -> list[Command]:
        """The broker's requests with this code up to now: those that it sent before it answers a heartbeat of nobody.

        A server answers that in a thread of its own, behind what others have put on the connection's way.
        """
        await self.beats(HeartbeatData(client_id=self.client_id))
        found = []
        while command := await self.link.request(code, seconds=0):
            found.append(command)
        return found


def _tags(text: str) -> list[str]:
    return [] if text == "*" else [tag.strip() for tag in text.split("||")]
