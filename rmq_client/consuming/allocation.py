"""How the members of a group share a topic's queues: each computes its own share, and all come to the same.

A strategy gets the member's client id, all queues and all client ids, both sorted, and returns the queues of that member.  What
is equal everywhere must come out equal everywhere: no clock, no chance.  `tests/java/test_allocation.py` holds each against the
Java class of the same name over thousands of cases.
Source: `AllocateMessageQueueStrategy` and the classes that implement it, `ConsistentHashRouter`.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Collection, Sequence
from typing import Final, Protocol

from rmq_client.errors import CallerError
from rmq_wire.fastjson import MessageQueue
from rmq_wire.shares import averagely, averagely_by_circle

Queues = Sequence[MessageQueue]
VIRTUAL_NODES: Final = 10
ROOM_SEPARATOR: Final = "@"


class AllocateStrategy(Protocol):
    """`name` is what tools show, and what the members of a group must agree on."""

    @property
    def name(self) -> str:
        """Java's `getName`."""

    def allocate(self, client_id: str, queues: Queues, client_ids: Sequence[str]) -> list[MessageQueue]:
        """The share of this member; none where it is no member.  Raises `CallerError` without queues or members."""


def _is_member(client_id: str, queues: Queues, client_ids: Sequence[str]) -> bool:
    """Source: `AbstractAllocateMessageQueueStrategy.check`."""
    if not client_id or not queues or not client_ids:
        raise CallerError("to share queues there must be queues, members, and a client id")
    return client_id in client_ids


class AllocateMessageQueueAveragely:
    """To each member a block of neighbouring queues; the first ones get one more where it does not come out even."""

    name = "AVG"

    def allocate(self, client_id: str, queues: Queues, client_ids: Sequence[str]) -> list[MessageQueue]:
        """See `AllocateStrategy`."""
        if not _is_member(client_id, queues, client_ids):
            return []
        return [queues[at] for at in averagely(len(queues), len(client_ids), client_ids.index(client_id))]


class AllocateMessageQueueAveragelyByCircle:
    """Dealt like cards."""

    name = "AVG_BY_CIRCLE"

    def allocate(self, client_id: str, queues: Queues, client_ids: Sequence[str]) -> list[MessageQueue]:
        """See `AllocateStrategy`."""
        if not _is_member(client_id, queues, client_ids):
            return []
        return [queues[at] for at in averagely_by_circle(len(queues), len(client_ids), client_ids.index(client_id))]


class AllocateMessageQueueByConfig:
    """Those that were set, whoever else there is."""

    name = "CONFIG"

    def __init__(self, queues: Queues) -> None:
        self.queues = list(queues)

    def allocate(self, client_id: str, queues: Queues, client_ids: Sequence[str]) -> list[MessageQueue]:
        """See `AllocateStrategy`."""
        return list(self.queues)


class AllocateMessageQueueByMachineRoom:
    """Of the brokers `room@name` in the rooms that were set: a block each, then the rest one by one."""

    name = "MACHINE_ROOM"

    def __init__(self, rooms: Collection[str]) -> None:
        self.rooms = frozenset(rooms)

    def allocate(self, client_id: str, queues: Queues, client_ids: Sequence[str]) -> list[MessageQueue]:
        """See `AllocateStrategy`."""
        if not _is_member(client_id, queues, client_ids):
            return []
        near = [queue for queue in queues if self._is_near(queue.broker_name)]
        index = client_ids.index(client_id)
        share, more = divmod(len(near), len(client_ids))
        found = near[index * share : (index + 1) * share]
        if index < more:
            found.append(near[share * len(client_ids) + index])
        return found

    def _is_near(self, broker_name: str) -> bool:
        room, separator, name = broker_name.rstrip(ROOM_SEPARATOR).partition(ROOM_SEPARATOR)
        return bool(separator) and ROOM_SEPARATOR not in name and room in self.rooms


class AllocateMachineRoomNearby:
    """A room's queues to that room's members by an inner strategy; those of rooms without members to all members."""

    def __init__(
        self,
        inner: AllocateStrategy,
        broker_deploy_in: Callable[[MessageQueue], str],
        consumer_deploy_in: Callable[[str], str],
    ) -> None:
        """The last two name the room of a queue's broker, and of a client id.  Java: `MachineRoomResolver`."""
        self.name = f"MACHINE_ROOM_NEARBY-{inner.name}"
        self._inner = inner
        self._room_of_queue = broker_deploy_in
        self._room_of_client = consumer_deploy_in

    def allocate(self, client_id: str, queues: Queues, client_ids: Sequence[str]) -> list[MessageQueue]:
        """See `AllocateStrategy`.  Raises `CallerError` for a queue or a member that is in no room."""
        if not _is_member(client_id, queues, client_ids):
            return []
        queues_in: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            queues_in.setdefault(_room(self._room_of_queue(queue), queue), []).append(queue)
        members_in: dict[str, list[str]] = {}
        for member in client_ids:
            members_in.setdefault(_room(self._room_of_client(member), member), []).append(member)
        own_room = self._room_of_client(client_id)
        found: list[MessageQueue] = []
        if own := queues_in.pop(own_room, []):
            found += self._inner.allocate(client_id, own, members_in[own_room])
        for room in sorted(queues_in):
            if room not in members_in:
                found += self._inner.allocate(client_id, queues_in[room], client_ids)
        return found


def _room(room: str, of: object) -> str:
    if not room:
        raise CallerError(f"{of} is in no machine room")
    return room


class AllocateMessageQueueConsistentHash:
    """Members and queues on a ring: when a member comes or goes, few queues move.

    A place is the first four bytes of an MD5, unsigned; each member stands on the ring `virtual_nodes` times.
    """

    name = "CONSISTENT_HASH"

    def __init__(self, virtual_nodes: int = VIRTUAL_NODES) -> None:
        if virtual_nodes < 0:
            raise CallerError(f"virtual_nodes {virtual_nodes}: at least 0")
        self._virtual_nodes = virtual_nodes

    def allocate(self, client_id: str, queues: Queues, client_ids: Sequence[str]) -> list[MessageQueue]:
        """See `AllocateStrategy`."""
        if not _is_member(client_id, queues, client_ids):
            return []
        ring = {_place(f"{member}-{at}"): member for member in client_ids for at in range(self._virtual_nodes)}
        places = sorted(ring)
        if not places:
            return []

        def owner(queue: MessageQueue) -> str:
            text = f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, queueId={queue.queue_id}]"
            at = bisect_left(places, _place(text))
            return ring[places[at % len(places)]]

        return [queue for queue in queues if owner(queue) == client_id]


def _place(text: str) -> int:
    return int(hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()[:8], 16)
