"""Check points and acknowledgements on their way into the log: timer messages for the revive topic, made by forms.

They are many: one for each pop, one for each acknowledgement.  What an ordinary message goes through on its way (hooks, a map of
properties, its order) comes out the same for all of them, so they are packed straight away; who is due already goes into the
revive topic itself, as the timer's rule says.

Java: `PopMessageProcessor.buildCkMsg`, `AckMessageProcessor.appendAck`, `EscapeBridge.putMessageToSpecificQueue`.
"""

from __future__ import annotations

from typing import Final

from broker_impl.config import BrokerConfig
from broker_impl.engine.engine import Engine
from broker_impl.intake import Intake
from broker_impl.timer_slots import UNLIMITED
from rmq_store.log.draft import Draft, Placed
from rmq_wire import names
from rmq_wire.bodies.pop import AckMsg, BatchAckMsg, PopCheckPoint
from rmq_wire.implied import pop

SLOTS_MAX: Final = 64
"""That are known at a time."""


class PopRecords:
    """Of one broker, for the revive topic of its cluster."""

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

    def put_check_point(self, point: PopCheckPoint, queue_id: int, wall_ms: int) -> Placed:
        """Stage it.  Raises `NotTaken`."""
        due_ms = pop.check_point_due_ms(point)
        return self._put(pop.CHECK_POINT_TAG, point.encode(), queue_id, due_ms, pop.check_point_key(point), wall_ms)

    def put_ack(self, ack: AckMsg, queue_id: int, due_ms: int, wall_ms: int) -> Placed:
        """Stage an acknowledgement.  `due_ms`: when its messages would come again.  Raises `NotTaken`."""
        tag = pop.BATCH_ACK_TAG if isinstance(ack, BatchAckMsg) else pop.ACK_TAG
        return self._put(tag, ack.encode(), queue_id, due_ms, pop.ack_key(ack), wall_ms)

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
