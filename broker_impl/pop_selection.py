"""One pop: it goes through queues, takes what it may of each, and writes down what it took.

What is taken of a queue stands or falls with its check point (for an ordered pop: with the queue's order); both are staged, and
the answer leaves when they are written.  A pop may meet bytes that are not in memory: one that has something already leaves that
queue for the next; one that has nothing waits, with the queue locked, and goes on where it was.

Java: `PopMessageProcessor.popMsgFromQueue`, `appendCheckPoint`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from broker_impl.filtering import Wanted
from broker_impl.intake import NotTaken
from broker_impl.pop_parts import PopParts
from broker_impl.pop_walk import Leg, NoRoom
from broker_impl.state.consumer_offsets import FULL
from broker_impl.state.pop_lines import QueueOfGroup, Stretch
from rmq_net.service import Buffer
from rmq_store.errors import Cold
from rmq_store.results import GetStatus, Read
from rmq_wire import pop_receipt
from rmq_wire import property_names as prop
from rmq_wire.bodies.pop import PopCheckPoint, diffs_of
from rmq_wire.headers.pop import PopMessage
from rmq_wire.message import pack_unit, queue_offsets, read_unit
from rmq_wire.pop_receipt import Receipt
from rmq_wire.properties import decode, encode_java

READ_BYTES_MAX: Final = 128 * 1024 * 1024
"""Of one queue, as for a pull; the store's own limits are far below."""
FULL_BYTES: Final = 8 * 1024 * 1024
"""A pop that has so much is full: 32 queues may have a message of 4 MiB each."""
_WRONG_PLACE: Final = (GetStatus.OFFSET_TOO_SMALL, GetStatus.OFFSET_OVERFLOW_BADLY, GetStatus.OFFSET_FOUND_NULL)
_PASSED: Final = (
    GetStatus.NO_MATCHED_MESSAGE,
    GetStatus.OFFSET_FOUND_NULL,
    GetStatus.MESSAGE_WAS_REMOVING,
    GetStatus.NO_MATCHED_LOGIC_QUEUE,
)


class PopSelection:
    """A pop under way.  `run` until it returns; a `Cold` that it raises is to be read first.

    `rest`: how much is left in the queues that were looked at.  `end_offset`: of what was staged.  `body_bytes`: of all `chunks`.
    `lacks_room`: of some queue it takes nothing, for the group's progress there would not be kept.
    """

    def __init__(self, parts: PopParts, asked: PopMessage, legs: Iterator[Leg], wanted: Wanted, revive_queue: int) -> None:
        self.parts = parts
        self.asked = asked
        self.wanted = wanted
        self.pop_ms = parts.env.wall_ms
        self.revive_queue = revive_queue
        self.count = self.size = self.body_bytes = self.rest = self.end_offset = 0
        self.chunks: list[Buffer] = []
        self.start_infos: list[str] = []
        self.offset_infos: list[str] = []
        self.count_infos: list[str] = []
        self.lacks_room = False
        self.stretches: list[Stretch] = []
        """Whose check points are staged."""
        self._legs = legs
        self._leg: Leg | None = None
        self._done = 0
        """Queues of it that were looked at."""
        self._has_cold = False
        """Where a new group begins in one of them is not in memory."""
        self._locked: QueueOfGroup | None = None

    def run(self) -> None:
        """Take what there is.  Raises `Cold` while there is nothing yet: call it again when that is read, or `give_up`."""
        self._unlock()
        leg = self._leg or next(self._legs, None)
        most = self.asked.max_msg_nums
        while leg is not None:
            for at in range(self._done, len(leg.queue_ids)):
                if (self.count >= most or self.size >= FULL_BYTES) and ((leg.last and not at) or self._sums_up(leg, at)):
                    break
                self._look(leg, at)
            self._done = 0
            leg = next(self._legs, None)

    def _sums_up(self, leg: Leg, at: int) -> bool:
        """Count what the queues from this one on have, of which it takes nothing; False when each has to be looked at."""
        asked, parts = self.asked, self.parts
        if asked.order or parts.offsets.has_resets or self._has_cold:
            return False
        try:
            self.rest += parts.walk.rest_of(leg.topic, asked.consumer_group, leg.queue_ids[at:], asked.init_mode)
        except Cold:
            self._has_cold = True
        return not self._has_cold

    def _look(self, leg: Leg, at: int) -> None:
        """Take what there is in a queue.  Raises `Cold`, see `run`."""
        queue = QueueOfGroup(leg.topic, self.asked.consumer_group, leg.queue_ids[at])
        try:
            self._take(leg, queue)
        except NoRoom:
            self.lacks_room = True
            self.parts.env.log.warning("pop of group %s from %s queue %d: %s", queue.group, queue.topic, queue.queue_id, FULL)
        except Cold as cold:
            if not self.count:
                self._leg, self._done, self._locked = leg, at, queue
                self.parts.lines.locked.add(queue)
                raise
            self.rest += max(self.parts.walk.rest(queue, max(self.parts.lines.latest(queue), 0)), 0)
            self.parts.reads.after(cold, lambda _: None)

    def give_up(self) -> None:
        """Nobody waits for it any more."""
        self._unlock()

    def _unlock(self) -> None:
        if self._locked is not None:
            self.parts.lines.locked.discard(self._locked)
            self._locked = None

    def _take(self, leg: Leg, queue: QueueOfGroup) -> None:
        """What there is in one queue, for as much as there is room.  Raises Cold, `NoRoom`, and then nothing of it was taken."""
        asked, parts = self.asked, self.parts
        lines, walk, config = parts.lines, parts.walk, parts.config
        if lines.locked and queue in lines.locked:
            if not asked.order:
                self.rest += walk.rest(queue, walk.begin(queue, asked.init_mode))
            return
        if config.enable_pop_message_threshold and lines.in_flight(queue) > config.pop_inflight_message_threshold:
            self.rest += walk.rest(queue, walk.begin(queue, asked.init_mode))
            return
        offset = walk.begin(queue, asked.init_mode, init=True)
        if config.use_server_side_reset_offset and parts.offsets.has_resets:
            reset = walk.take_reset(queue)
            offset = offset if reset is None else reset
        if asked.order:
            orders = parts.orders
            if orders.is_blocked(asked.attempt_id, *queue, asked.invisible_time) or not orders.has_room(*queue):
                return
            lines.forget_in_flight(queue)
        if self.count >= asked.max_msg_nums or self.size >= FULL_BYTES:
            self.rest += walk.rest(queue, offset)
            return
        read = self._read(queue, offset)
        if not read.message_count and read.status in _WRONG_PLACE:
            parts.env.log.warning(
                "pop of group %s from %s queue %d at %d: %s, goes on at %d",
                queue.group,
                queue.topic,
                queue.queue_id,
                offset,
                read.status.name,
                read.next_offset,
            )
            offset = read.next_offset
            parts.offsets.commit(queue.group, queue.topic, queue.queue_id, offset, "popMsgFromQueue")
            read = self._read(queue, offset)
        if read.message_count:
            self._found(leg, queue, offset, read)
        else:
            if read.status in _PASSED and read.next_offset >= 0:
                self._passed(queue, read.next_offset)
            self.rest += read.max_offset - read.next_offset

    def _read(self, queue: QueueOfGroup, offset: int) -> Read:
        wanted = self.wanted
        room = self.asked.max_msg_nums - self.count
        topic, _, queue_id = queue
        return self.parts.store.read_queue(topic, queue_id, offset, room, READ_BYTES_MAX, wanted.codes, wanted.matches)

    def _passed(self, queue: QueueOfGroup, next_offset: int) -> None:
        """Nothing that is wanted: the group's progress moves on, in its turn (`addCkMock`)."""
        if self.asked.order:
            self.parts.offsets.commit(queue.group, queue.topic, queue.queue_id, next_offset, "popMsgFromQueue")
        elif next_offset > self.parts.walk.begin(queue):
            self.parts.lines.settle(self.parts.lines.open(queue, next_offset))

    def _found(self, leg: Leg, queue: QueueOfGroup, offset: int, read: Read) -> None:
        parts = self.parts
        chunks = read.chunks
        offsets = self._offsets_of(queue, offset, read)
        topic, group, queue_id = queue
        flag = pop_receipt.flag_of(topic)
        if self.asked.order:
            self._ordered(queue, offset, offsets, flag)
        elif not self._check_point(queue, offset, offsets, read.next_offset):
            self.rest += len(offsets)
            return
        self.start_infos.append(pop_receipt.start_offset_entry(flag, queue_id, offset))
        self.offset_infos.append(pop_receipt.msg_offset_entry(flag, queue_id, offsets))
        count = len(offsets)
        if leg.is_retry and not parts.config.pop_response_return_actual_retry_topic:
            chunks = self._as_of_plain_topic(queue, offset, chunks)
            self.body_bytes += sum(map(len, chunks))
        else:
            self.body_bytes += read.size
        self.chunks += chunks
        self.count += count
        self.size += read.size
        self.rest += read.max_offset - read.next_offset
        parts.stats.add_get(group, topic, queue_id, read.message_count, read.size)

    def _offsets_of(self, queue: QueueOfGroup, offset: int, read: Read) -> Sequence[int]:
        """The queue offsets of what was read: no unit is looked at when they follow each other."""
        if read.next_offset - offset == read.message_count and not self.parts.has_batch_queues(queue.topic):
            return range(offset, read.next_offset)
        return [number for chunk in read.chunks for number in queue_offsets(chunk)]

    def _ordered(self, queue: QueueOfGroup, offset: int, offsets: Sequence[int], flag: str) -> None:
        asked, parts = self.asked, self.parts
        topic, group, queue_id = queue
        handed = parts.orders.update(asked.attempt_id, topic, group, queue_id, self.pop_ms, asked.invisible_time, offsets)
        parts.offsets.commit(group, topic, queue_id, offset, "popMsgFromQueue")
        parts.lines.took(queue, len(offsets))
        for number, count in handed.counts.items():
            self.count_infos.append(pop_receipt.offset_count_entry(flag, queue_id, number, count))
        self.count_infos.append(pop_receipt.queue_count_entry(flag, queue_id, handed.least))

    def _check_point(self, queue: QueueOfGroup, offset: int, offsets: Sequence[int], next_offset: int) -> bool:
        """Write down what is handed out.  False when that is not possible now: then it is not handed out."""
        asked, parts = self.asked, self.parts
        topic, group, queue_id = queue
        point = PopCheckPoint(
            offset,
            self.pop_ms,
            asked.invisible_time,
            0,
            len(offsets),
            queue_id,
            topic,
            group,
            0,
            diffs_of(offsets, offset),
            parts.config.broker_name,
        )
        parts.stats.add_check_point(asked.consumer_group, asked.topic)
        stretch = parts.lines.open(queue, next_offset, len(offsets))
        if parts.buffer.add(point, self.revive_queue, stretch):
            return True
        try:
            placed = parts.records.put_check_point(point, self.revive_queue, self.pop_ms)
        except NotTaken as no:
            parts.lines.undo(stretch)
            parts.env.log.warning("a check point of group %s was not stored: %s", queue.group, no)
            return False
        stretch.end_offset = self.end_offset = placed.end_offset
        self.stretches.append(stretch)
        return True

    def _as_of_plain_topic(self, queue: QueueOfGroup, offset: int, chunks: Sequence[Buffer]) -> list[Buffer]:
        """Retries look like messages of the topic that they were sent to, and bring their receipts."""
        found: list[Buffer] = []
        topic = self.asked.topic.encode()
        flag = pop_receipt.flag_of(queue.topic)
        name, asked = self.parts.config.broker_name, self.asked
        for chunk in chunks:
            at = 0
            while at < len(chunk):
                unit = read_unit(chunk, at)
                at += unit.total_size
                values = decode(unit.properties.decode("utf-8", "replace"))
                receipt = Receipt(
                    offset,
                    self.pop_ms,
                    asked.invisible_time,
                    self.revive_queue,
                    flag,
                    name,
                    unit.queue_id,
                    unit.queue_offset,
                )
                values.setdefault(prop.POP_CK, receipt.text())
                found.append(pack_unit(*unit[3:-2], topic, encode_java(values)))
        return found
