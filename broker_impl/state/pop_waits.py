"""Pops that wait for a message, and notifications of one, by topic, group and queue; each with what of the topic it wants.

Of those at one place who want the same, pops are woken by the earliest end of their time, notifications by the latest.  The table
neither reads nor answers.

Java: `PopLongPollingService` (pollingMap, topicCidMap), `PopRequest`.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Any, Final, NamedTuple

from broker_impl.filtering import PropertyFilter, RetryFilter, Wanted
from broker_impl.state.waits import Wait, Waits, places
from rmq_wire import names
from rmq_wire.sql92.selector import Selector

ANY_QUEUE: Final = -1
"""As the queue id: whatever the queue."""


class Place(NamedTuple):
    """What somebody waits for.  `queue_id`: `ANY_QUEUE` for all of the topic."""

    topic: str
    group: str
    queue_id: int


Choice = tuple[frozenset[int] | None, Selector | RetryFilter | None]
"""What of the topic somebody wants: tag hashes, None for any, and a selector.  Equal for equal expressions."""


class PopWait(Wait):
    """One that waits.  `end`: (when its time is up, a number in the order of arrival)."""

    __slots__ = ("choice", "end", "place", "wanted")

    def __init__(self, pending: Any, asked: Any, place: Place, wanted: Wanted, deadline_ms: int, number: int) -> None:
        needed = places(asked.exp, wanted.codes)
        super().__init__(pending, asked, peer=pending.peer, deadline_ms=deadline_ms, places=needed)
        self.place = place
        self.wanted = wanted
        matches = wanted.matches
        self.choice: Choice = (wanted.codes, matches.selector if isinstance(matches, PropertyFilter) else matches)
        self.end = (deadline_ms, number)


class PopWaits(Waits[PopWait]):
    """All of one kind.  Whatever a method hands out is no longer in the table."""

    def __init__(self) -> None:
        super().__init__()
        self._by_place: dict[Place, dict[Choice, list[PopWait]]] = {}
        """By the end of their time."""
        self._groups: dict[str, dict[str, int]] = {}
        """Topic to group to how many wait."""
        self._retries: dict[str, dict[tuple[str, str], None]] = {}
        """Retry topic to (topic, group) of those who wait for what comes there."""
        self._choosy = 0

    def _enter(self, one: PopWait) -> None:
        topic, group, _ = one.place
        insort(self._by_place.setdefault(one.place, {}).setdefault(one.choice, []), one, key=_end)
        groups = self._groups.setdefault(topic, {})
        groups[group] = groups.get(group, 0) + 1
        if groups[group] == 1:
            for retry in _retry_topics(topic, group):
                self._retries.setdefault(retry, {})[topic, group] = None
        self._choosy += one.choice != (None, None)

    def _leave(self, one: PopWait) -> None:
        topic, group, _ = one.place
        choices = self._by_place[one.place]
        same = choices[one.choice]
        del same[bisect_left(same, one.end, key=_end)]
        if not same:
            del choices[one.choice]
            if not choices:
                del self._by_place[one.place]
        groups = self._groups[topic]
        groups[group] -= 1
        if not groups[group]:
            del groups[group]
            if not groups:
                del self._groups[topic]
            for retry in _retry_topics(topic, group):
                del self._retries[retry][topic, group]
                if not self._retries[retry]:
                    del self._retries[retry]
        self._choosy -= one.choice != (None, None)

    @property
    def choosy(self) -> bool:
        """Somebody does not want everything."""
        return self._choosy > 0

    def concerns(self, topic: str) -> bool:
        """Somebody waits for what comes to this topic, itself or as a retry."""
        return topic in self._groups or topic in self._retries

    def groups_of(self, topic: str) -> list[str]:
        """Groups that wait for the topic itself."""
        return list(self._groups.get(topic, ()))

    def retried(self, topic: str) -> list[tuple[str, str]]:
        """(topic, group) of those who wait for what comes to this retry topic."""
        return list(self._retries.get(topic, ()))

    def choices(self, place: Place) -> list[Choice]:
        """What they want who wait at a place."""
        return list(self._by_place.get(place, ()))

    def count_at(self, place: Place) -> int:
        """How many wait there."""
        return sum(map(len, self._by_place.get(place, {}).values()))

    def one_of(self, place: Place, choice: Choice) -> PopWait | None:
        """Any of those who want the same there; it goes on waiting."""
        same = self._by_place.get(place, {}).get(choice)
        return same[0] if same else None

    def take(self, place: Place, choice: Choice, count: int, *, last: bool) -> list[PopWait]:
        """Up to so many of them, the earliest first, or the `last`."""
        same = self._by_place.get(place, {}).get(choice, [])
        taken = same[: -count - 1 : -1] if last else same[:count]
        for one in taken:
            self.remove(one)
        return taken


def _end(one: PopWait) -> tuple[int, int]:
    return one.end


def _retry_topics(topic: str, group: str) -> tuple[str, str]:
    return names.pop_retry_topic(topic, group), names.pop_retry_topic(topic, group, v2=True)
