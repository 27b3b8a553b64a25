"""Timer messages: which message is one, in which slot of the wheel it waits, and what it is when its time has come.

A message that names a time waits in `rmq_sys_wheel_timer`, queue 0.  Three properties say what it is: TIMER_OUT_MS the slot,
REAL_TOPIC and REAL_QID where it belongs.  From there it enters the wheel.  A slot farther away than the roll window is reached in
several steps: the message is stored anew in the timer's topic when the step is over.  A message with TIMER_DEL_UNIQKEY is a mark
in its slot: the message of this slot with that unique key is not delivered.

Sources: `HookUtils.handleScheduleMessage`, `transformTimerMessage`; `TimerMessageStore` (doEnqueue, convert, convertMessage,
buildDeleteKey, isReject).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from rmq_wire import names
from rmq_wire import property_names as prop
from rmq_wire.implied.real_place import real_place_of
from rmq_wire.java import long_of, parse_int, parse_long, string_hash

TIMES: Final = (prop.TIMER_DELIVER_MS, prop.TIMER_DELAY_MS, prop.TIMER_DELAY_SEC)
"""By each of these a producer names the time."""
PRECISION_MS: Final = 1_000
"""`timerPrecisionMs`: how long a slot is."""
MAX_DELAY_S: Final = 259_200
"""`timerMaxDelaySec`: three days."""
WHEEL_SLOTS: Final = 7 * 86_400
"""`TIMER_WHEEL_TTL_DAY` in slots of a second; the file has twice as many."""
BLANK_SLOTS: Final = 60
"""So many slots of it are never used (`TIMER_BLANK_SLOTS`)."""
ROLL_WINDOW_SLOTS: Final = 172_800
"""`timerRollWindowSlot`: two days."""

PLAIN: Final = 1
ROLLS: Final = 2
DELETES: Final = 4
MAGIC_MAX: Final = 15
"""What a unit of the timer log is (`MAGIC_DEFAULT`, `MAGIC_ROLL`, `MAGIC_DELETE`, `isMagicOK`)."""

RECALL_TAG: Final = "_RECALL_TAG_"
"""The tag of the mark that a broker makes of a recall (`RecallMessageProcessor`)."""
NEVER_IN_WHEEL_MS: Final = (1 << 63) - 1
"""TIMER_ENQUEUE_MS of a message that was due before it could enter the wheel (`Long.MAX_VALUE`)."""
_DELAY_MS_MAX: Final = (1 << 31) - 1
_CACHED_MAX: Final = 1_024
"""Times and topics: a burst has few of either."""


class IllegalTime(Exception):
    """The time cannot be read, lies beyond the limit, or is over for a mark (`WHEEL_TIMER_MSG_ILLEGAL`)."""


class NoTimer(Exception):
    """A unit of the timer's topic that does not say what a timer message says; the text says what is wrong."""


def is_timer(topic: str, values: Mapping[str, str]) -> bool:
    """Of a message without a delay level, which would go before (`checkIfTimerMessage`)."""
    if topic == names.WHEEL_TIMER_TOPIC or prop.TIMER_OUT_MS in values:
        return False
    return any(name in values for name in TIMES)


def slot_time(values: Mapping[str, str], now_ms: int, *, precision_ms: int, max_delay_s: int) -> int | None:
    """TIMER_OUT_MS for what the properties say, None for a time that is over: the message is delivered at once.

    The slot begins before the time and ends after it, or at it: nothing is delivered early, for a slot is read when it is over.
    Seconds go before milliseconds, both before a time of day.  Raises `IllegalTime`.
    """
    deliver_ms = _deliver_ms(values, now_ms)
    if deliver_ms <= now_ms and prop.TIMER_DEL_UNIQKEY in values:
        raise IllegalTime("a mark for a time that is over")
    return slot_at(deliver_ms, now_ms, precision_ms=precision_ms, max_delay_s=max_delay_s)


def slot_at(deliver_ms: int, now_ms: int, *, precision_ms: int, max_delay_s: int) -> int | None:
    """The same of a time.  Raises `IllegalTime`."""
    if deliver_ms <= now_ms:
        return None
    if deliver_ms - now_ms > max_delay_s * 1_000:
        raise IllegalTime(f"{deliver_ms - now_ms} ms from now, more than {max_delay_s} s")
    return (deliver_ms - 1) // precision_ms * precision_ms


def _deliver_ms(values: Mapping[str, str], now_ms: int) -> int:
    for name, unit_ms, begin_ms in (
        (prop.TIMER_DELAY_SEC, 1_000, now_ms),
        (prop.TIMER_DELAY_MS, 1, now_ms),
        (prop.TIMER_DELIVER_MS, 1, 0),
    ):
        text = values.get(name)
        if text is not None:
            number = parse_long(text)
            if number is None:
                raise IllegalTime(f"{name} is no number: {text[:64]!r}")
            return long_of(begin_ms + long_of(number * unit_ms))
    raise IllegalTime("no time")


def divert(topic: str, queue_id: int, values: dict[str, str], slot_ms: int) -> None:
    """Write down where the message belongs; its topic becomes `rmq_sys_wheel_timer`, its queue 0."""
    values[prop.TIMER_OUT_MS] = str(slot_ms)
    values[prop.REAL_TOPIC] = topic
    values[prop.REAL_QID] = str(queue_id)


def is_rejected(count: int, limit: int, chance: int) -> bool:
    """A slot with `count` messages takes no more: none from twice the limit on, and between them the fewer the fuller it is.

    `chance`: 0 to 999, at random.  (*Sic*: `isReject` refuses the more the less full the slot is.)
    """
    if count <= limit:
        return False
    return count >= 2 * limit or chance > 1000 * (count - limit) / (limit + 0.1)


def due_of(values: Mapping[str, str]) -> int:
    """TIMER_OUT_MS of a message in the timer's topic.  Raises `NoTimer`."""
    return due_said(values.get(prop.TIMER_OUT_MS, ""))


@lru_cache(maxsize=_CACHED_MAX)
def due_said(text: str) -> int:
    """The same of the value.  Raises `NoTimer`."""
    due_ms = parse_long(text)
    if due_ms is None or due_ms < 0:
        raise NoTimer("it does not say when it is due")
    return due_ms


def step(due_ms: int, write_ms: int, *, window_slots: int, precision_ms: int) -> tuple[int, int]:
    """The slot (ms) that a message enters now, and its magic: that of its time, or one where it rolls.

    The last step but one is half a window when the rest is short: a message does not roll in a slot that is read already.
    """
    window_ms = window_slots * precision_ms
    rest_ms = due_ms - write_ms - window_ms
    if rest_ms < 0:
        return due_ms, PLAIN
    if rest_ms < window_slots // 3 * precision_ms:
        return write_ms + window_slots // 2 * precision_ms, PLAIN | ROLLS
    return write_ms + window_ms, PLAIN | ROLLS


def usable_window(window_slots: int, precision_ms: int = PRECISION_MS) -> int:
    """What becomes of a `timerRollWindowSlot` that makes no sense; of any, as the log has 31 bits for the ms until a slot."""
    most = min(WHEEL_SLOTS - BLANK_SLOTS, _DELAY_MS_MAX // precision_ms)
    return window_slots if 2 <= window_slots <= most else most


@lru_cache(maxsize=_CACHED_MAX)
def topic_hash(topic: str | None) -> int:
    """`hashTopicForMetrics` of the topic where a message belongs, REAL_TOPIC."""
    return 0 if topic is None else string_hash(topic)


def delete_key(topic: str, unique_key: str, *, with_topic: bool) -> str:
    """TIMER_DEL_UNIQKEY of what recalls this message.  `with_topic`: `appendTopicForTimerDeleteKey`."""
    return f"{topic}+{unique_key}" if with_topic else unique_key


def delete_keys(topic: str, unique_key: str) -> tuple[str, str]:
    """The same where nobody knows how the broker was configured."""
    return delete_key(topic, unique_key, with_topic=False), delete_key(topic, unique_key, with_topic=True)


def note_dequeue(values: dict[str, str], enqueue_ms: int, now_ms: int, *, rolls: bool) -> None:
    """What a message gets that leaves the wheel, for its own topic or to roll.  Raises `NoTimer` (`convert`)."""
    values[prop.TIMER_ENQUEUE_MS] = str(enqueue_ms)
    if rolls:
        times = parse_int(values.get(prop.TIMER_ROLL_TIMES, "0"))
        if times is None:
            raise NoTimer("TIMER_ROLL_TIMES is no number")
        values[prop.TIMER_ROLL_TIMES] = str(times + 1)
    values[prop.TIMER_DEQUEUE_MS] = str(now_ms)


def forget_dequeue(values: dict[str, str]) -> bool:
    """Take out again what `note_dequeue` wrote.  False when nothing is there."""
    count = len(values)
    for name in (prop.TIMER_ENQUEUE_MS, prop.TIMER_ROLL_TIMES, prop.TIMER_DEQUEUE_MS):
        values.pop(name, None)
    return len(values) < count


def destination(values: Mapping[str, str]) -> tuple[str, int]:
    """Topic and queue where it belongs.  The copy there keeps all of its properties.  Raises `NoTimer`."""
    place = real_place_of(values)
    if place is None:
        raise NoTimer("it does not say where it belongs")
    return place
