"""POP: which messages are handed out and not acknowledged, as the records say that a broker has still to read.

A record waits in the timer's topic until it is due, then in its queue of the revive topic until the revive group has gone on
behind it.  What both hold together is what is in flight; the tags codes of the queue entries say which messages are records, so
only these are read.  What pairs them is `rmq_wire.implied.pop`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from rmq_inspect.decode import queues
from rmq_inspect.decode.directory import StoreDirectory
from rmq_inspect.decode.log import Log
from rmq_inspect.decode.records import properties_of
from rmq_wire import names
from rmq_wire import property_names as prop
from rmq_wire.bodies.pop import AckMsg, PopCheckPoint
from rmq_wire.errors import BadBody, BadRecord
from rmq_wire.implied import pop
from rmq_wire.message import StoredMessage
from rmq_wire.names import WHEEL_TIMER_TOPIC

TAGS: Final = (pop.CHECK_POINT_TAG, pop.ACK_TAG, pop.BATCH_ACK_TAG)
RECORDS_MAX: Final = 1_000_000
"""That are read; of what comes behind them nothing is said."""

Place = tuple[str, int, int]
"""(topic, queue, queue offset)"""


class Flight(NamedTuple):
    """A message that somebody has, as its check point says."""

    point: PopCheckPoint
    group: str


class InFlight:
    """What is in flight in one store.

    `position(topic, queue)`: where the revive group is.  `passed(message)`: has the timer gone on behind this message?
    """

    def __init__(
        self, store: StoreDirectory, position: Callable[[str, int], int | None], passed: Callable[[StoredMessage], bool]
    ) -> None:
        self.acked: dict[pop.Pop, set[int]] = {}
        """Queue offsets that are acknowledged, by pop."""
        self.flights: dict[Place, list[Flight]] = {}
        """Of each message that is not."""
        points: dict[pop.Pop, list[PopCheckPoint]] = {}
        for record in _records(store, position, passed):
            with contextlib.suppress(BadBody):
                of = _pop_of(record)
                if isinstance(record, PopCheckPoint):
                    known = points.setdefault(of, [])
                    if not any(pop.is_same_point(one, record) for one in known):
                        known.append(record)
                else:
                    self.acked.setdefault(of, set()).update(pop.acked_offsets(record))
        for of, known in points.items():
            for point in known:
                for offset in self.open(point):
                    self.flights.setdefault((of.topic, of.queue_id, offset), []).append(Flight(point, of.group))

    def open(self, point: PopCheckPoint) -> list[int]:
        """Queue offsets of its messages that nobody has acknowledged.  Raises `BadBody`."""
        return pop.open_offsets(point, self.acked.get(_pop_of(point), set()))


def _pop_of(record: PopCheckPoint | AckMsg) -> pop.Pop:
    """Without the broker's name, which a record may leave out: a store has one broker."""
    return pop.pop_of(record, "")._replace(broker_name="")


def record_of(message: StoredMessage) -> PopCheckPoint | AckMsg | None:
    """The record that this message is; None for one that is none, or that nobody can read."""
    tag = properties_of(message).get(prop.TAGS, "")
    try:
        return pop.read_record(tag, bytes(message.body))
    except BadBody:
        return None


def _records(
    store: StoreDirectory, position: Callable[[str, int], int | None], passed: Callable[[StoredMessage], bool]
) -> Iterator[PopCheckPoint | AckMsg]:
    """Of the revive queues behind the group's position, and those that wait for their time."""
    codes = {pop.record_tags_code(tag) for tag in TAGS}
    revive = [place for place in store.queues if place[0].startswith(names.REVIVE_LOG_PREFIX)]
    if not revive:
        return
    left = RECORDS_MAX
    waiting = [place for place in store.queues if place[0] == WHEEL_TIMER_TOPIC]
    with Log(store.commit_log) as log:
        for topic, queue_id in (*revive, *waiting):
            is_waiting = topic == WHEEL_TIMER_TOPIC
            done = None if is_waiting else position(topic, queue_id)
            for unit in queues.written(store.queues[topic, queue_id], 0 if done is None else done + 1):
                if unit.tags_code not in codes:
                    continue
                left -= 1
                if left < 0:
                    return
                with contextlib.suppress(BadRecord):
                    message = log.unit(unit.physical_offset, unit.size).message
                    if is_waiting and (not _for_revive(message) or passed(message)):
                        continue
                    record = record_of(message)
                    if record is not None:
                        yield record


def _for_revive(message: StoredMessage) -> bool:
    return properties_of(message).get(prop.REAL_TOPIC, "").startswith(names.REVIVE_LOG_PREFIX)
