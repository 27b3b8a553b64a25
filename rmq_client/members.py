"""Who of this client is a member of which group: what its heartbeats say.

Source: `MQClientInstance.prepareHeartbeatData`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

from rmq_client.errors import CallerError
from rmq_wire.bodies.heartbeat import ConsumerData, HeartbeatData, ProducerData
from rmq_wire.fastjson import MessageQueue

if TYPE_CHECKING:
    from rmq_wire.bodies.consumer_answers import ConsumeMessageDirectlyResult, ConsumerRunningInfo


class Consuming(Protocol):
    """What a client needs of a consumer, to tell brokers.  Topics and queues as on the wire."""

    def consumer_data(self) -> ConsumerData:
        """What heartbeats say of it."""

    def running_info(self) -> ConsumerRunningInfo:
        """What it is doing."""

    def progress(self, topic: str) -> dict[MessageQueue, int]:
        """The offsets that it consumes next, as far as it has moved them."""

    def brokers(self) -> set[str]:
        """Names, of its queues."""

    def go_on_at(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Go on elsewhere in those queues that are its own, unless it has left before that."""

    async def consume_directly(self, unit: bytes, broker_name: str) -> ConsumeMessageDirectlyResult:
        """Have the listener take one message, outside of all order and progress.  Raises `Unreadable`."""


class Members:
    """Producer groups, and consumer groups with what they subscribe to; names as on the wire."""

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self.version = 0
        """Another one whenever somebody has come or gone."""
        self._producers: set[str] = set()
        self._consumers: dict[str, Consuming] = {}
        self.topics: set[str] = set()
        """Whose routes are needed for as long as the client lives."""

    def __bool__(self) -> bool:
        return bool(self._producers or self._consumers)

    @property
    def consumes(self) -> bool:
        """Somebody does."""
        return bool(self._consumers)

    @property
    def brokers(self) -> set[str]:
        """The names of those whose queues consumers have."""
        return set().union(*(one.brokers() for one in self._consumers.values()))

    def join_producer(self, group: str) -> None:
        """Raises `CallerError` when the client has a producer of that group: brokers would take both for one."""
        if group in self._producers:
            raise CallerError(f"the client has a producer of the group {group} already: use that one, or another group")
        self._producers.add(group)
        self.version += 1

    def join_consumer(self, group: str, consuming: Consuming) -> None:
        """The same of a consumer."""
        if group in self._consumers:
            raise CallerError(f"the client has a consumer of the group {group} already: use that one, or another client")
        self._consumers[group] = consuming
        self.version += 1

    def consumer(self, group: str) -> Consuming | None:
        """The one of this group."""
        return self._consumers.get(group)

    def leave_consumer(self, group: str) -> None:
        """It consumes no more."""
        self._consumers.pop(group, None)
        self.version += 1

    def groups(self) -> Iterator[tuple[str | None, str | None]]:
        """Producer group or consumer group, one of them, as a goodbye names it."""
        yield from ((group, None) for group in sorted(self._producers))
        yield from ((None, group) for group in sorted(self._consumers))

    def heartbeat(self) -> HeartbeatData:
        """What a broker is told."""
        return HeartbeatData(
            client_id=self._client_id,
            producer_data_set=[ProducerData(group_name=group) for group in sorted(self._producers)],
            consumer_data_set=[self._consumers[group].consumer_data() for group in sorted(self._consumers)],
        )
