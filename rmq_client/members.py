"""Who of this client is a member of which group: what its heartbeats say.

Source: `MQClientInstance.prepareHeartbeatData`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rmq_client.errors import CallerError
from rmq_wire.bodies.heartbeat import ConsumerData, HeartbeatData, ProducerData

Consuming = Callable[[], ConsumerData]
"""What a consumer says of itself at this moment."""


class Members:
    """Producer groups, and consumer groups with what they subscribe to; names as on the wire."""

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
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

    def join_producer(self, group: str) -> None:
        """Raises `CallerError` when the client has a producer of that group: brokers would take both for one."""
        if group in self._producers:
            raise CallerError(f"the client has a producer of the group {group} already: use that one, or another group")
        self._producers.add(group)

    def join_consumer(self, group: str, consuming: Consuming) -> None:
        """The same of a consumer."""
        if group in self._consumers:
            raise CallerError(f"the client has a consumer of the group {group} already: use that one, or another client")
        self._consumers[group] = consuming

    def leave_consumer(self, group: str) -> None:
        """It consumes no more."""
        self._consumers.pop(group, None)

    def groups(self) -> Iterator[tuple[str | None, str | None]]:
        """Producer group or consumer group, one of them, as a goodbye names it."""
        yield from ((group, None) for group in sorted(self._producers))
        yield from ((None, group) for group in sorted(self._consumers))

    def heartbeat(self) -> HeartbeatData:
        """What a broker is told."""
        return HeartbeatData(
            client_id=self._client_id,
            producer_data_set=[ProducerData(group_name=group) for group in sorted(self._producers)],
            consumer_data_set=[self._consumers[group]() for group in sorted(self._consumers)],
        )
