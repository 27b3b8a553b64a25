"""What every message passes on its way into the store, whoever sends it: a producer, a consumer that gives one back, the broker.

The reference runs hooks before each put; the order of their checks decides which error a sender sees, so it is kept: name
lengths, inner batches, timers, delay levels.  A delay level moves the message into SCHEDULE_TOPIC_XXXX and writes down where it
belongs.  `NotTaken` carries Java's put status; what a client is answered for it is the business of whoever answers.

A message that names a time goes into the timer's topic likewise.

Java: `HookUtils` (checkBeforePutMessage, checkInnerBatch, handleScheduleMessage), `MessageExtBrokerInner`, `PutMessageStatus`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from broker_impl.engine.answers import Refusal
from broker_impl.state.attributes import CLEANUP_POLICY, COMPACTION
from rmq_net.service import Buffer
from rmq_store.errors import CreateFailed, Illegal, IllegalKind, StoreError, Unwritable
from rmq_store.log.batch import Batch
from rmq_store.log.draft import NO_DELAY, Draft, Placed
from rmq_store.store import Store
from rmq_wire import names, properties, sys_flag
from rmq_wire import property_names as prop
from rmq_wire.codes import ResponseCode
from rmq_wire.implied import timers
from rmq_wire.implied.delay_levels import delay_of
from rmq_wire.implied.index_keys import index_keys
from rmq_wire.implied.tags import tags_code
from rmq_wire.java import parse_int
from rmq_wire.message import StoredMessage

STORED_TOPIC_BYTES_MAX: Final = 255
"""`HookUtils.MAX_TOPIC_LENGTH`: what a directory name may have."""


class PutStatus(enum.Enum):
    """Why a message was not taken, under Java's names (`PutMessageStatus`)."""

    MESSAGE_ILLEGAL = enum.auto()
    PROPERTIES_SIZE_EXCEEDED = enum.auto()
    SERVICE_NOT_AVAILABLE = enum.auto()
    CREATE_MAPPED_FILE_FAILED = enum.auto()
    WHEEL_TIMER_NOT_ENABLE = enum.auto()
    WHEEL_TIMER_MSG_ILLEGAL = enum.auto()
    WHEEL_TIMER_FLOW_CONTROL = enum.auto()
    LMQ_CONSUME_QUEUE_NUM_EXCEEDED = enum.auto()


class NotTaken(Exception):
    """A put that failed.  `status` is Java's, `why` our own words for the log."""

    def __init__(self, status: PutStatus, why: object = "") -> None:
        super().__init__(status.name, str(why))
        self.status = status
        self.why = str(why)


def not_taken(error: StoreError) -> NotTaken:
    """What the store's refusal is called in Java."""
    if isinstance(error, Illegal):
        return NotTaken(_ILLEGAL[error.kind], error)
    if isinstance(error, CreateFailed):
        return NotTaken(PutStatus.CREATE_MAPPED_FILE_FAILED, error)
    return NotTaken(PutStatus.SERVICE_NOT_AVAILABLE, error)


_ILLEGAL: Final = {
    IllegalKind.MESSAGE: PutStatus.MESSAGE_ILLEGAL,
    IllegalKind.PROPERTIES: PutStatus.PROPERTIES_SIZE_EXCEEDED,
    IllegalKind.LIGHT_QUEUES: PutStatus.LMQ_CONSUME_QUEUE_NUM_EXCEEDED,
}


class Message:
    """A message about to be stored (`MessageExtBrokerInner`).  `values` are its properties, in Java's order of insertion."""

    __slots__ = ("body", "born_host", "born_timestamp", "flag", "queue_id", "reconsume_times", "sys_flag", "topic", "values")

    def __init__(
        self,
        topic: str,
        queue_id: int,
        body: Buffer,
        values: dict[str, str],
        *,
        flag: int,
        sys_flag: int,
        born_timestamp: int,
        born_host: bytes,
        reconsume_times: int,
    ) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.body = body
        self.values = values
        self.flag = flag
        self.sys_flag = sys_flag
        self.born_timestamp = born_timestamp
        self.born_host = born_host
        self.reconsume_times = reconsume_times


def copy_of(original: StoredMessage, topic: str, queue_id: int, values: dict[str, str]) -> Message:
    """What is stored as a message of the log once more, elsewhere and with these properties."""
    return Message(
        topic,
        queue_id,
        original.body,
        values,
        flag=original.flag,
        sys_flag=original.sys_flag,
        born_timestamp=original.born_timestamp,
        born_host=original.born_host,
        reconsume_times=original.reconsume_times,
    )


class Slots(Protocol):
    """Which slot (ms) a message takes now (ms), None when it is due.  Both raise `NotTaken`."""

    def __call__(self, values: Mapping[str, str], now_ms: int, /) -> int | None:
        """Of one with these properties."""

    def of_time(self, deliver_ms: int, now_ms: int, /) -> int | None:
        """Of one with TIMER_DELIVER_MS and no other time."""


class Intake:
    """Puts messages.  `delay_levels_ms`: the delay of level 1, 2, …  `store_host`: packed address and port, for every unit.

    `has_batch_queues`: does this topic have them?  `slot_of`: the timer's; None: there is no timer.
    """

    def __init__(
        self,
        store: Store,
        *,
        store_host: bytes,
        delay_levels_ms: tuple[int, ...],
        has_batch_queues: Callable[[str], bool | None] = lambda _: False,
        slot_of: Slots | None = None,
    ) -> None:
        self._slot_of = slot_of
        self.has_batch_queues = has_batch_queues
        self.store = store
        self.store_host = store_host
        self.delay_levels_ms = delay_levels_ms

    def slot_of(self, deliver_ms: int, wall_ms: int) -> int | None:
        """TIMER_OUT_MS of a record of the broker's own that is due then; None when it is due now.  Raises `NotTaken`."""
        if self._slot_of is None:
            raise NotTaken(PutStatus.WHEEL_TIMER_NOT_ENABLE)
        return self._slot_of.of_time(deliver_ms, wall_ms)

    def put(self, message: Message, wall_ms: int) -> Placed:
        """Check, divert if it is to be delayed, stage.  Raises `NotTaken`; the message may be changed then."""
        check_names(message.topic)
        check_inner_batch(message.values, message.sys_flag, self.has_batch_queues(message.topic))
        self.divert(message, wall_ms)
        return self.stage(message, wall_ms)

    def divert(self, message: Message, wall_ms: int) -> None:
        """Send a message with a delay level or a time the long way round (`handleScheduleMessage`).  Raises `NotTaken`."""
        if sys_flag.transaction_type(message.sys_flag) in (sys_flag.TRANSACTION_PREPARED, sys_flag.TRANSACTION_ROLLBACK):
            return
        values = message.values
        level = delay_level(values)
        if level <= 0:
            if timers.is_timer(message.topic, values):
                self._divert_timer(message, wall_ms)
            return
        for name in timers.TIMES:
            values.pop(name, None)
        if level > len(self.delay_levels_ms):
            level = len(self.delay_levels_ms)
            values[prop.DELAY] = str(level)
        values[prop.REAL_TOPIC] = message.topic
        values[prop.REAL_QID] = str(message.queue_id)
        message.topic = names.SCHEDULE_TOPIC
        message.queue_id = level - 1

    def check_time(self, topic: str, values: dict[str, str], wall_ms: int) -> None:
        """A message that is to take the long way later could do so now.  Raises `NotTaken`."""
        if delay_level(values) <= 0 and timers.is_timer(topic, values):
            self._slot(values, wall_ms)

    def _slot(self, values: dict[str, str], wall_ms: int) -> int | None:
        if self._slot_of is None:
            raise NotTaken(PutStatus.WHEEL_TIMER_NOT_ENABLE)
        return self._slot_of(values, wall_ms)

    def _divert_timer(self, message: Message, wall_ms: int) -> None:
        slot_ms = self._slot(message.values, wall_ms)
        if slot_ms is not None:
            timers.divert(message.topic, message.queue_id, message.values, slot_ms)
            message.topic = names.WHEEL_TIMER_TOPIC
            message.queue_id = 0

    def stage(self, message: Message, wall_ms: int, *, store_host: bytes | None = None) -> Placed:
        """Stage as it is.  `store_host`: that of the original when it is not ours.  Raises `NotTaken`."""
        draft = self.draft(message)
        if store_host is not None:
            draft.store_host = store_host
        return self.stage_draft(draft, wall_ms)

    def stage_draft(self, draft: Draft, wall_ms: int) -> Placed:
        """Stage what `draft` gave.  Raises `NotTaken`."""
        try:
            return self.store.stage(draft, wall_ms)
        except (Illegal, Unwritable) as error:
            raise not_taken(error) from None

    def put_batch(self, batch: Batch, wall_ms: int) -> Sequence[Placed]:
        """Stage all of `Store.open_batch`, or none.  Raises `NotTaken`."""
        try:
            return self.store.stage_batch(batch, wall_ms)
        except (Illegal, Unwritable) as error:
            raise not_taken(error) from None

    def draft(self, message: Message) -> Draft:
        """The message as the store takes it."""
        delay_ms = self._deliver_delay(message)
        values = message.values
        tags = values.get(prop.TAGS)
        return Draft(
            message.topic,
            message.queue_id,
            message.body,
            properties.encode_java(values),
            message.born_timestamp,
            message.born_host,
            self.store_host,
            message.flag,
            message.sys_flag,
            message.reconsume_times,
            0,
            tags_code(tags) if tags else 0,
            index_keys(values.get(prop.UNIQ_KEY), values.get(prop.KEYS), tags),
            delay_ms,
        )

    def _deliver_delay(self, message: Message) -> int:
        if message.topic != names.SCHEDULE_TOPIC:
            return NO_DELAY
        level = delay_level(message.values)
        return delay_of(level, self.delay_levels_ms) if level > 0 else NO_DELAY


def delay_level(values: dict[str, str]) -> int:
    """`Message.getDelayTimeLevel`.  Raises `Refusal` for a text that is no Java int, as the reference fails there."""
    text = values.get(prop.DELAY)
    return 0 if text is None else java_int(text)


def java_int(text: str) -> int:
    """`Integer.parseInt`.  Raises `Refusal` with Java's exception as the remark."""
    number = parse_int(text)
    if number is not None:
        return number
    raise Refusal(ResponseCode.SYSTEM_ERROR, f'java.lang.NumberFormatException: For input string: "{text[:64]}"')


def check_names(topic: str) -> None:
    """Topic lengths (`checkBeforePutMessage`): only retry topics may be longer than 127 bytes.  Raises `NotTaken`."""
    size = len(topic.encode("utf-8", "replace"))
    if size > STORED_TOPIC_BYTES_MAX or (size > names.TOPIC_CHARACTERS_MAX and not names.is_retry_topic(topic)):
        raise NotTaken(PutStatus.MESSAGE_ILLEGAL, f"topic name of {size} bytes")


def check_inner_batch(values: dict[str, str], flags: int, has_batch_queues: bool | None) -> None:
    """An inner batch says so in its flags, and belongs into a batch queue (`HookUtils.checkInnerBatch`).  Raises `NotTaken`."""
    is_inner = bool(flags & sys_flag.INNER_BATCH)
    if (is_inner and not has_batch_queues) or (prop.INNER_NUM in values and not is_inner):
        raise NotTaken(PutStatus.MESSAGE_ILLEGAL, "an inner batch where there are no batch queues, or the half of one")


def check_key(attributes: Mapping[str, str], values: Mapping[str, str]) -> None:
    """A topic that is to be compacted, by its attributes, has messages with keys.  Raises `Refusal`."""
    if attributes.get(CLEANUP_POLICY) == COMPACTION and not values.get(prop.KEYS, "").strip():
        raise Refusal(ResponseCode.MESSAGE_ILLEGAL, "Required message key is missing")


def has_other_type(values: dict[str, str]) -> bool:
    """`TopicMessageType.parseFromMessageProperty` finds something before PRIORITY."""
    if values.get(prop.TRAN_MSG, "").lower() == "true":
        return True
    return not _OTHER_TYPES.isdisjoint(values)


_OTHER_TYPES: Final = frozenset({prop.DELAY, *timers.TIMES, prop.SHARDING_KEY})
