"""What a pop tells its client about what it handed out: the receipt of a message, and the three infos of an answer.

A receipt is POP_CK of a popped message, and `extraInfo` of who acknowledges it or wants more time: eight words, the last of
which old clients leave out; the Proxy has a ninth for itself.  Nothing in it is secret or signed: whoever has seen one can make
others.  The infos are lists joined by semicolons, one entry for a queue: where the pop began, which offsets it handed out, how
often an ordered one did so before.  Java reads a word only when it needs it, and more words than there are; here a receipt is
whole or none.

Source: `ExtraInfoUtil`.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from typing import Final, NamedTuple

from rmq_wire import names
from rmq_wire.errors import BadReceipt
from rmq_wire.java import parse_int, parse_long

NORMAL: Final = "0"
RETRY_V1: Final = "1"
RETRY_V2: Final = "2"
"""From which topic a message came: the flag that stands for it."""
ORDER_QUEUE: Final = 999
"""As the revive queue: an ordered pop, no queue of the revive topic watches over it (`KeyBuilder.POP_ORDER_REVIVE_QUEUE`)."""
_WORDS: Final = 8
_OLD_WORDS: Final = 7
_PROXY_WORDS: Final = 9
"""With the place in the log, which only the Proxy reads (`ReceiptHandle`)."""
_QUEUE_OFFSET: Final = "qo"
_CHARACTERS_MAX: Final = 1_024
_ENTRY_WORDS: Final = 3


class Receipt(NamedTuple):
    """A receipt, word by word.  Times in wall milliseconds; `flag` one of the three above.

    `start_offset`: where the pop began, which with `pop_time` names it.  `queue_offset`: of the message; None in the old form.
    """

    start_offset: int
    pop_time: int
    invisible_time: int
    revive_queue: int
    flag: str
    broker_name: str
    queue_id: int
    queue_offset: int | None = None

    @property
    def is_ordered(self) -> bool:
        """Of an ordered pop (`isOrder`)."""
        return self.revive_queue == ORDER_QUEUE

    @property
    def due_ms(self) -> int:
        """When the message may be handed out again."""
        return self.pop_time + self.invisible_time

    def text(self) -> str:
        """As it is sent (`buildExtraInfo`)."""
        return " ".join([str(word) for word in self if word is not None])

    def topic_of(self, topic: str, group: str) -> str:
        """Where the message lies of which a client says that it belongs to this topic (`getRealTopic`)."""
        return topic_of_flag(self.flag, topic, group)


def read_receipt(text: str) -> Receipt:
    """What somebody sent.  Raises `BadReceipt` for what is none, with Java's text where Java has one."""
    words = text.split(" ") if len(text) <= _CHARACTERS_MAX else []
    if len(words) not in (_OLD_WORDS, _WORDS, _PROXY_WORDS):
        raise BadReceipt(f"extraInfo has {len(words)} words of {_WORDS}")
    start, popped, invisible, revive, flag, broker_name, queue_id, *last = words
    if flag not in (NORMAL, RETRY_V1, RETRY_V2):
        raise BadReceipt("getRetry fail, format is wrong")
    if len(words) == _PROXY_WORDS:
        _long(words[-1])
    return Receipt(
        _long(start),
        _long(popped),
        _long(invisible),
        _int(revive),
        flag,
        broker_name,
        _int(queue_id),
        _long(last[0]) if last else None,
    )


def is_v2_retry_topic(topic: str) -> bool:
    """`KeyBuilder.isPopRetryTopicV2`."""
    return topic.startswith(names.RETRY_PREFIX) and names.V2_SEPARATOR in topic


def flag_of(topic: str) -> str:
    """The flag that stands for a topic (`getRetry`)."""
    if not topic.startswith(names.RETRY_PREFIX):
        return NORMAL
    return RETRY_V2 if names.V2_SEPARATOR in topic else RETRY_V1


def topic_of_flag(flag: str, topic: str, group: str) -> str:
    """And the topic for which it stands (`getRealTopic`).  Raises `BadReceipt`."""
    if flag == NORMAL:
        return topic
    if flag in (RETRY_V1, RETRY_V2):
        return names.pop_retry_topic(topic, group, v2=flag == RETRY_V2)
    raise BadReceipt("getRetry fail, format is wrong")


# Infos


def start_offset_entry(flag: str, queue_id: int, start_offset: int) -> str:
    """An entry of `startOffsetInfo` (`buildStartOffsetInfo`)."""
    return f"{flag} {queue_id} {start_offset}"


def msg_offset_entry(flag: str, queue_id: int, offsets: Collection[int]) -> str:
    """An entry of `msgOffsetInfo` (`buildMsgOffsetInfo`)."""
    return f"{flag} {queue_id} {numbers_text(offsets)}"


_FORMS: Final = tuple([",".join(["%d"] * count) for count in range(33)])
"""Of as many numbers: a pop has 32."""


_HUNDRED: Final = tuple([f"{number:02d}" for number in range(100)])


def numbers_text(numbers: Collection[int]) -> str:
    """Joined by commas."""
    count = len(numbers)
    if isinstance(numbers, range) and count and numbers.start >= 100 and numbers.step == 1:
        known = _known_range_text if count < len(_FORMS) else _range_text
        return known(numbers.start, numbers.stop - 1)
    return _FORMS[count] % (*numbers,) if count < len(_FORMS) else ",".join(map(str, numbers))


def _range_text(first: int, last: int) -> str:
    """Numbers of three digits or more, one behind the other: within a hundred they begin alike."""
    hundred = first // 100
    head = str(hundred)
    if hundred == last // 100:
        return head + ("," + head).join(_HUNDRED[first % 100 : last % 100 + 1])
    end = hundred * 100 + 99
    return f"{_range_text(first, end)},{_range_text(end + 1, last)}"


_known_range_text: Final = lru_cache(maxsize=256)(_range_text)
"""What was popped lately is acknowledged next, and its record says the same numbers."""


def queue_count_entry(flag: str, queue_id: int, count: int) -> str:
    """An entry of `orderCountInfo` for old clients, who look for the queue only (`buildQueueIdOrderCountInfo`)."""
    return f"{flag} {queue_id} {count}"


def offset_count_entry(flag: str, queue_id: int, queue_offset: int, count: int) -> str:
    """An entry of `orderCountInfo` for one message (`buildQueueOffsetOrderCountInfo`)."""
    return f"{flag} {_QUEUE_OFFSET}{queue_id}%{queue_offset} {count}"


def read_start_offsets(info: str | None) -> dict[str, int]:
    """`flag@queue` to where the pop began.  Raises `BadReceipt` (`parseStartOffsetInfo`)."""
    return {key: _long(value) for key, value in _entries(info, "startOffsetInfo").items()}


def read_msg_offsets(info: str | None) -> dict[str, list[int]]:
    """`flag@queue` to the offsets handed out.  Raises `BadReceipt` (`parseMsgOffsetInfo`)."""
    return {key: [_long(one) for one in value.split(",")] for key, value in _entries(info, "msgOffsetMap").items()}


def read_order_counts(info: str | None) -> dict[str, int]:
    """`flag@queue` and `flag@qoQUEUE%OFFSET` to a count.  Raises `BadReceipt` (`parseOrderCountInfo`)."""
    return {key: _int(value) for key, value in _entries(info, "orderCountInfo").items()}


def _entries(info: str | None, what: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for entry in info.split(";") if info else ():
        words = entry.split(" ")
        if len(words) != _ENTRY_WORDS:
            raise BadReceipt(f"parse {what} error, {info[:64] if info else ''}")
        key = f"{words[0]}@{words[1]}"
        if key in found:
            raise BadReceipt(f"parse {what} error, duplicate, {info[:64] if info else ''}")
        found[key] = words[2]
    return found


def _long(word: str) -> int:
    number = parse_long(word)
    if number is None:
        raise BadReceipt(f'For input string: "{word[:64]}"')
    return number


def _int(word: str) -> int:
    number = parse_int(word)
    if number is None:
        raise BadReceipt(f'For input string: "{word[:64]}"')
    return number
