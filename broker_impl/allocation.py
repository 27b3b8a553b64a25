"""How a group's members share the queues of a topic: the strategies by which a broker assigns them (code 400).

Members and queues are sorted first, so that every broker comes to the same result.  A strategy gives a member places in the
sorted queues.  Under POP a member shares its queues with those that follow it in the row of members, or all queues with all.

Java: `AllocateMessageQueueAveragely`, `AllocateMessageQueueAveragelyByCircle`, `QueryAssignmentProcessor.allocate4Pop`; a
broker knows no others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from rmq_wire import names
from rmq_wire.bodies.assignment import ANY_QUEUE
from rmq_wire.bodies.locks import QueueName
from rmq_wire.shares import averagely, averagely_by_circle

Strategy = Callable[[int, int, int], range]
"""(number of queues, number of members, place of the member) -> places of its queues."""
STRATEGIES: Final[Mapping[str, Strategy]] = {"AVG": averagely, "AVG_BY_CIRCLE": averagely_by_circle}
"""By the name that a client says."""


class Unallocatable(Exception):
    """There is nobody to give to, or nothing to give: the client keeps what it has (Java: an `IllegalArgumentException`)."""


class Members:
    """The sorted client ids of a group; one that is connected twice is there twice, and counts at its first place."""

    def __init__(self, client_ids: Sequence[str]) -> None:
        self.client_ids = sorted(client_ids, key=utf16)
        self._places: dict[str, int] = {}
        for place, client_id in enumerate(self.client_ids):
            self._places.setdefault(client_id, place)

    def __len__(self) -> int:
        return len(self.client_ids)

    def place(self, client_id: str) -> int | None:
        """Where a member stands; None: it is none."""
        return self._places.get(client_id)

    def strategic_place(self, place: int) -> int:
        """Where a strategy finds whoever stands there: a member that is there twice is found at its first place."""
        return self._places[self.client_ids[place]]


def pull_places(strategy: Strategy, queues: int, members: Members, client_id: str) -> list[int]:
    """The places of a member's queues; none for who is no member.  Raises `Unallocatable`."""
    _check(client_id, queues, members)
    place = members.place(client_id)
    return [] if place is None else list(strategy(queues, len(members), place))


def shares_all(members: Members, share: int) -> bool:
    """Under POP: does every member get all queues, because this many share each of them?"""
    return share <= 0 or share >= len(members) - 1


def pop_places(strategy: Strategy, queues: int, members: Members, client_id: str, share: int) -> list[int]:
    """Its own queues, and those of the `share` members after it; of more members than queues each gets one.

    Each place once, in the order in which they are given.  Raises `Unallocatable`.
    """
    if len(members) > queues:
        if names.is_blank(client_id):
            raise Unallocatable("no client id")
        _check(client_id, queues, members)
        place = members.place(client_id)
        return [] if place is None else [place % queues]
    found = dict.fromkeys(pull_places(strategy, queues, members, client_id))
    place = members.place(client_id)
    if place is not None:
        for step in range(1, share + 1):
            other = members.strategic_place((place + step) % len(members))
            found.update(dict.fromkeys(strategy(queues, len(members), other)))
    return list(found)


def one_for_each_broker(queues: Sequence[QueueName]) -> list[QueueName]:
    """What a member pops from that shares all queues: each broker, any queue."""
    found = dict.fromkeys((queue.topic, queue.broker_name) for queue in queues)
    return [QueueName(topic=topic, broker_name=broker, queue_id=ANY_QUEUE) for topic, broker in found]


def utf16(text: str) -> bytes:
    """Sorts texts as Java's `String.compareTo` does."""
    return text.encode("utf-16-be", "surrogatepass")


def _check(client_id: str, queues: int, members: Members) -> None:
    if not client_id:
        raise Unallocatable("no client id")
    if not queues:
        raise Unallocatable("no queue")
    if not len(members):
        raise Unallocatable("no member")
