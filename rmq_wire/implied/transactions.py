"""Transactional messages: what of a send makes a half message, and what becomes of it.

A half message lies in RMQ_SYS_TRANS_HALF_TOPIC and says in its properties where it belongs.  Its end is an entry of an op message
(its queue offset, in RMQ_SYS_TRANS_OP_HALF_TOPIC in the queue of the same number); a commit is a copy in the topic where it
belongs, which names the half message by its place in the log.  A check of a half message without end asks its producer, and puts
it back first, at the end of the queue: the copy counts from then on.
Sources: `TransactionalMessageBridge`, `TransactionalMessageServiceImpl`, `TransactionalMessageUtil`, `EndTransactionProcessor`.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from rmq_wire import property_names as prop
from rmq_wire.java import parse_int, parse_long
from rmq_wire.properties import Rewriter, decode, encode, encode_java
from rmq_wire.sys_flag import TRANSACTION_COMMIT, TRANSACTION_NOT, with_transaction_type

HALF_QUEUE: Final = 0
"""Where a half message goes, whatever the queue it is meant for."""
REMOVE_TAG: Final = "d"
"""The tag of op messages."""
SEPARATOR: Final = ","
"""Behind every offset in the body of an op message."""
OP_PROPERTIES: Final = encode_java({prop.WAIT: "true", prop.TAGS: REMOVE_TAG}, 16)
"""All that an op message has, as it is stored."""
FORGEABLE: Final = (prop.TRANSACTION_CHECK_TIMES, prop.TRAN_PREPARED_QUEUE_OFFSET)
"""What brokers count in a half message: a sender that says it is not believed."""
CUT_NAMES_MAX: Final = 90
"""Of more names Java's map is a larger one, and their order another."""


class CheckRules(NamedTuple):
    """`transactionTimeOut`, ms; `transactionCheckMax`; `fileReservedTime`, ms."""

    timeout_ms: int = 6_000
    check_max: int = 15
    reserved_ms: int = 72 * 3_600_000


class Verdict(enum.Enum):
    """What a check does with a half message that has no end."""

    GIVE_UP = enum.auto()
    """It goes to TRANS_CHECK_MAX_TIME_TOPIC."""
    LATER = enum.auto()
    """It is too young, and so are those behind it: the check ends here."""
    PUT_BACK = enum.auto()
    """Its sender wants it to be left in peace for longer than others: it goes to the end of the queue."""
    ASK = enum.auto()
    """It goes to the end of the queue, and its producer is asked."""


# Intake


def is_half(values: Mapping[str, str], reconsume_times: int, delay_level: int) -> bool:
    """Whether a send with these properties is one of a half message; retries of clients before 4.6.1 are not."""
    return values.get(prop.TRAN_MSG, "").lower() == "true" and not (reconsume_times > 0 and delay_level > 0)


def half_values(values: Mapping[str, str], topic: str, queue_id: int) -> dict[str, str]:
    """The properties of the half message of a message that belongs there (`parseHalfMessageInner`)."""
    half = {name: value for name, value in values.items() if name not in FORGEABLE}
    unique_key = values.get(prop.UNIQ_KEY)
    if unique_key:
        half[prop.TRANSACTION_ID] = unique_key
    half[prop.REAL_TOPIC] = topic
    half[prop.REAL_QID] = str(queue_id)
    return half


def addressed(sent: str | None, topic: str, queue_id: int) -> str:
    """A sender's property string, and at its end where the message belongs: what the half message's properties follow from."""
    return f"{sent}{prop.REAL_TOPIC}\x01{topic}\x02{prop.REAL_QID}\x01{queue_id}\x02"


def half_string(text: str, rewriter: Rewriter) -> bytes:
    """What is stored as the properties of the half message of an `addressed` string with a unique key."""
    sent = decode(text)
    topic, queue_id = sent.pop(prop.REAL_TOPIC), sent.pop(prop.REAL_QID)
    half = half_values(rewriter.rewrite(encode(sent), str)[1], topic, HALF_QUEUE)
    half[prop.REAL_QID] = queue_id
    return encode_java(half)


def half_sys_flag(flag: int) -> int:
    """Of type none, so that the half message is in its queue."""
    return with_transaction_type(flag, TRANSACTION_NOT)


# Ends


def committed_values(values: Mapping[str, str]) -> dict[str, str]:
    """The properties of a committed message, of those of its half message (`endMessageTransaction` of 5.5.0)."""
    return {name: value for name, value in values.items() if name not in (prop.REAL_TOPIC, prop.REAL_QID)}


def committed_properties(half: bytes, topic: str, queue_id: int | str) -> bytes:
    """The same as stored bytes, of those of a half message that belongs there: both pairs are cut out where they stand once."""
    if half.count(b"\x02") > CUT_NAMES_MAX:
        return _encoded_anew(half)
    encoded = half
    for pair in (f"\x02{prop.REAL_TOPIC}\x01{topic}\x02".encode(), f"\x02{prop.REAL_QID}\x01{queue_id}\x02".encode()):
        if encoded.count(pair) != 1:
            return _encoded_anew(half)
        encoded = encoded.replace(pair, b"\x02")
    return encoded


def _encoded_anew(half: bytes) -> bytes:
    return encode_java(committed_values(decode(half.decode("utf-8", "replace"))))


def committed_sys_flag(flag: int) -> int:
    """Of type commit."""
    return with_transaction_type(flag, TRANSACTION_COMMIT)


def op_entry(offset: int) -> str:
    """How a half message's queue offset stands in the body of an op message."""
    return f"{offset}{SEPARATOR}"


def op_body(offsets: Iterable[int]) -> bytes:
    """The body of an op message that ends these half messages."""
    return "".join(map(op_entry, offsets)).encode()


def op_offsets(body: bytes | bytearray | memoryview) -> list[int]:
    """The half messages that an op message ends.  What is no number is passed over, as in the reference."""
    pieces = bytes(body).decode("utf-8", "replace").split(SEPARATOR)
    return [offset for piece in pieces if (offset := parse_long(piece)) is not None and offset >= 0]


def end_immunity_ms(values: Mapping[str, str], timeout_ms: int) -> int | None:
    """How old a half message may be for its producer to end it unasked, ms; None for any age (`getImmunityTime` of the ends)."""
    text = values.get(prop.CHECK_IMMUNITY_TIME_IN_SECONDS)
    return max((parse_long(text) or 0) * 1000, timeout_ms) if text else None


# Checks


def check_immunity_ms(values: Mapping[str, str], timeout_ms: int) -> int | None:
    """How old a half message with a wish of its own must be to be asked about, ms; None without one."""
    text = values.get(prop.CHECK_IMMUNITY_TIME_IN_SECONDS)
    if text is None:
        return None
    seconds = parse_long(text)
    return timeout_ms if seconds in (None, -1) else seconds * 1000


def check_times(values: Mapping[str, str]) -> int:
    """How often it was asked about; -1 where nobody can read it (`needDiscard`)."""
    text = values.get(prop.TRANSACTION_CHECK_TIMES)
    times = 0 if text is None else parse_int(text)
    return -1 if times is None else times


def verdict(values: Mapping[str, str], born_ms: int, now_ms: int, rules: CheckRules) -> Verdict:
    """What a check does with a half message that has no end."""
    age_ms = now_ms - born_ms
    if prop.TRANSACTION_CHECK_TIMES in values and check_times(values) >= rules.check_max:
        return Verdict.GIVE_UP
    if age_ms > rules.reserved_ms:
        return Verdict.GIVE_UP
    immunity_ms = check_immunity_ms(values, rules.timeout_ms)
    if immunity_ms is not None:
        return Verdict.PUT_BACK if age_ms <= immunity_ms else Verdict.ASK
    return Verdict.LATER if 0 <= age_ms <= rules.timeout_ms else Verdict.ASK


def asked_values(values: Mapping[str, str]) -> dict[str, str]:
    """The properties of the copy that is put back when the producer is asked."""
    return {**values, prop.TRANSACTION_CHECK_TIMES: str(check_times(values) + 1)}


def given_up_values(values: Mapping[str, str], check_max: int) -> dict[str, str]:
    """The properties of one that is given up: one that is only too old counts one check more, as in the reference."""
    return dict(values) if prop.TRANSACTION_CHECK_TIMES in values and check_times(values) >= check_max else asked_values(values)


def immune_values(values: Mapping[str, str], queue_offset: int) -> dict[str, str]:
    """The properties of the copy that is put back unasked: it names the first of its kind (`renewImmunityHalfMessageInner`)."""
    first = values.get(prop.TRAN_PREPARED_QUEUE_OFFSET, str(queue_offset))
    return {**values, prop.WAIT: "false", prop.TRAN_PREPARED_QUEUE_OFFSET: first}
