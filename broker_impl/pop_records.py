"""Check points and acknowledgements on their way into the log: timer messages for the revive topic, made by forms.

They are many: one for each pop, one for each acknowledgement.  What an ordinary message goes through on its way (hooks, a map of
properties, its order) comes out the same for all of them, so they are packed straight away; who is due already goes into the
revive topic itself, as the timer's rule says.

Java: `PopMessageProcessor.buildCkMsg`, `AckMessageProcessor.appendAck`, `EscapeBridge.putMessageToSpecificQueue`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from broker_impl.config import BrokerConfig
from broker_impl.engine.engine import Engine
from broker_impl.intake import Intake
from broker_impl.timer_slots import UNLIMITED
from rmq_store.log.draft import Draft, Placed
from rmq_store.timer.steps import over
from rmq_wire import names
from rmq_wire.bodies.pop import AckMsg, BatchAckMsg, PopCheckPoint
from rmq_wire.implied import pop
from rmq_wire.implied.pop import Pop

SAME_TIME_MS: Final = 100
"""A check point is known by its place and time: one that is changed at once gets the millisecond after that of its pop, and so
again and again.  (*Differs*: Java takes the new one for the old one, and the end of the old one ends both.)"""
SLOTS_MAX: Final = 64
"""That are known at a time."""


class _Fresh:
    """A check point that has not gone to the timer yet.  `left`: offsets that nobody has acknowledged.  `told`: the places of its
    records in what is said of those that wait with it.
    """

    __slots__ = ("left", "told")

    def __init__(self, left: Sequence[int] | frozenset[int], told: int) -> None:
        self.left = left
        self.told = [told]


class PopRecords:
    """Of one broker, for the revive topic of its cluster.

    Who acknowledges all messages of a pop at once finds its check point still waiting for others on its way to the timer.  Nobody
    has to pair the two later: in the log and in the timer's queue they are as all others, and the timer passes them over
    (*differs*: in Java they meet in the revive topic, and are nothing there).  After a crash they go that way, too.

    One acknowledgement ends all check points of its name.  So one is passed over only where no other of its name can have gone to
    the timer: where those that have gone are of earlier milliseconds, or the latest of its own and of other names.
    """

    def __init__(self, engine: Engine, config: BrokerConfig, intake: Intake) -> None:
        self._unhurried = engine.unhurried
        self._config = config
        self._intake = intake
        self.topic = pop.revive_topic(config.broker_cluster_name)
        self._slots: dict[int, int | None] = {}
        """By when a record is due, the slot; of those of one millisecond, which mostly have two: of pops, and what ends them."""
        self._slots_of_ms = -1
        self._until_ms = 0
        """A record of that millisecond may wait so long: the slot of now is not over before."""
        self._told = engine.unhurried.told
        self._fresh: dict[tuple[int, Pop], _Fresh | None] = {}
        """Those among `_told`, by revive queue and name; None where there is another one of it, or may be."""
        self._latest_ms = engine.env.wall_ms + SAME_TIME_MS + 1
        """The latest time of a check point: of what an earlier run wrote, too, unless its clock was ahead."""
        self._latest: set[tuple[int, Pop]] = set()
        """Names of this run of that time."""
        self._gone_ms = self._latest_ms
        """The latest time of those that are not among `_told`."""

    def put_check_point(self, point: PopCheckPoint, queue_id: int, wall_ms: int) -> Placed:
        """Stage it.  Raises `NotTaken`."""
        due_ms = pop.check_point_due_ms(point)
        placed = self._put(pop.CHECK_POINT_TAG, point.encode(), queue_id, due_ms, pop.check_point_key(point), wall_ms)
        number = self._number(placed)
        name, pop_ms = (queue_id, pop.pop_of(point, self._config.broker_name)), point.pop_time
        is_alone = pop_ms > self._gone_ms or (pop_ms == self._latest_ms and name not in self._latest)
        if pop_ms > self._latest_ms:
            self._latest_ms = pop_ms
            self._latest.clear()
        if pop_ms == self._latest_ms:
            self._latest.add(name)
        if number is None:
            self._gone_ms = self._latest_ms
            if name in self._fresh:
                self._fresh[name] = None
        else:
            is_alone = is_alone and name not in self._fresh and not point.bit_map
            self._fresh[name] = _Fresh(point.offsets, number) if is_alone else None
        return placed

    def put_ack(self, ack: AckMsg, queue_id: int, due_ms: int, wall_ms: int) -> Placed:
        """Stage an acknowledgement.  `due_ms`: when its messages would come again.  Raises `NotTaken`."""
        tag = pop.BATCH_ACK_TAG if isinstance(ack, BatchAckMsg) else pop.ACK_TAG
        placed = self._put(tag, ack.encode(), queue_id, due_ms, pop.ack_key(ack), wall_ms)
        number = self._number(placed)
        if number is not None:
            name = queue_id, pop.pop_of(ack, self._config.broker_name)
            fresh = self._fresh.get(name)
            if fresh is not None:
                self._end(name, fresh, pop.acked_offsets(ack), number, placed.end_offset)
        return placed

    def _number(self, placed: Placed) -> int | None:
        """The place of a record in what is told of those that wait; None for one that does not, for it is due."""
        told = self._unhurried.told
        if told is not self._told:
            self._told = told
            self._fresh.clear()
            self._gone_ms = self._latest_ms
        return len(told) - 1 if told and told[-1][0] == placed.physical_offset else None

    def _end(self, name: tuple[int, Pop], fresh: _Fresh, acked: Sequence[int], number: int, end_offset: int) -> None:
        """These are acknowledged, by the record of this number and end.  When all are, it is over with its acknowledgements."""
        fresh.told.append(number)
        fresh.left = () if fresh.left == acked else frozenset(fresh.left).difference(acked)
        if not fresh.left:
            del self._fresh[name]
            told = self._told
            said = over(end_offset)
            for at in fresh.told:
                told[at] = (told[at][0], said, self.topic)

    def put_gathered(self, ack: BatchAckMsg, queue_id: int, due_ms: int, wall_ms: int) -> Placed:
        """The same of several that were gathered in memory.  Raises `NotTaken`."""
        return self._put(pop.BATCH_ACK_TAG, ack.encode(), queue_id, due_ms, pop.batch_ack_key(ack), wall_ms)

    def _put(self, tag: str, body: bytes, queue_id: int, due_ms: int, key: str, wall_ms: int) -> Placed:
        intake = self._intake
        slots = self._slots
        if wall_ms != self._slots_of_ms or self._config.timer_congest_num_each_slot < UNLIMITED:
            slots.clear()
            precision_ms = self._config.timer_precision_ms
            self._slots_of_ms, self._until_ms = wall_ms, (wall_ms // precision_ms + 1) * precision_ms
        if due_ms in slots:
            slot_ms = slots[due_ms]
        else:
            if len(slots) >= SLOTS_MAX:
                slots.clear()
            slot_ms = slots[due_ms] = intake.slot_of(due_ms, wall_ms)
        if slot_ms is None:
            topic, at, properties = self.topic, queue_id, pop.record_properties(tag, due_ms, key)
        else:
            topic, at = names.WHEEL_TIMER_TOPIC, 0
            properties = pop.waiting_properties(tag, due_ms, key, slot_ms, self.topic, queue_id)
        host = intake.store_host
        code, tag_key = pop.RECORD_INDEX[tag]
        draft = Draft(topic, at, body, properties, wall_ms, host, host, 0, 0, 0, 0, code, (key, tag_key))
        placed = intake.stage_draft(draft, wall_ms)
        if slot_ms is not None:
            self._unhurried.add(self._until_ms, (placed.physical_offset, slot_ms, self.topic))
        return placed
