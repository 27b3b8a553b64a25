"""JSON of POP: the records that the revive topic holds, and the acknowledgements of a whole pop in one request (200151).

The records are made for every pop and every acknowledgement, so their text comes from a form, equal to what 5.5.0 writes
(fastjson2, names in order).  They are read by their short names; acknowledgements also by the long ones, as Java does.

Source: `PopCheckPoint`, `AckMsg`, `BatchAckMsg`, `BatchAckMessageRequestBody`, `BatchAck`.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar, Final, Self

import msgspec
from msgspec import field

from rmq_wire import fastjson
from rmq_wire.bodies.body import LENIENT_VALUES_MAX, Body
from rmq_wire.declare import I32, I64
from rmq_wire.errors import BadBody
from rmq_wire.pop_receipt import numbers_text

MESSAGES_MAX: Final = 32
"""Of one check point, and so of one pop: its bit map is a Java `int`."""
_WORD: Final = 0xFFFFFFFF
_SIGN: Final = 0x80000000


_NAMES_MAX: Final = 1_024
"""Of forms of records, by what is the same in the records of one group: some 300 bytes each, of names of a usual length."""
_GROUP_CHARACTERS_MAX: Final = 255
"""Who acknowledges may name any group: that of a longer name has no form that is kept."""


def _quoted(name: str) -> str:
    """As a part of a form."""
    return fastjson.dumps_strict(name).decode().replace("%", "%%")


@lru_cache(maxsize=_NAMES_MAX)
def _point_form(
    broker_name: str | None, group: str | None, topic: str | None, re_put_times: str | None, has_diffs: bool, suspend: bool
) -> str:
    """Of a check point; its numbers go in, in the order of their names."""
    parts = ['{"bm":%d']
    if broker_name is not None:
        parts.append(f'"bn":{_quoted(broker_name)}')
    if group is not None:
        parts.append(f'"c":{_quoted(group)}')
    parts.append('"d":[%s]' if has_diffs else "%s")
    parts.append('"it":%d,"n":%d,"pt":%d,"q":%d,"reviveTime":%d,"ro":%d')
    if re_put_times is not None:
        parts.append(f'"rp":{_quoted(re_put_times)}')
    parts.append(f'"so":%d,"sp":{"true" if suspend else "false"}')
    if topic is not None:
        parts.append(f'"t":{_quoted(topic)}')
    return (",".join(parts) + "}").replace(",%s,", "%s,")


@lru_cache(maxsize=_NAMES_MAX)
def _ack_form(broker_name: str | None, group: str | None, topic: str | None) -> str:
    """Of an acknowledgement; its numbers go in, in the order of their names, the list of several behind the first."""
    broker = "" if broker_name is None else f',"bn":{_quoted(broker_name)}'
    named = "" if group is None else f',"c":{_quoted(group)}'
    of_topic = "" if topic is None else f',"t":{_quoted(topic)}'
    return f'{{"ao":%d%s{broker}{named},"pt":%d,"q":%d,"so":%d{of_topic}}}'


_FIRST: Final = tuple([list(range(count)) for count in range(MESSAGES_MAX + 1)])
_FIRST_TEXTS: Final = tuple(map(numbers_text, _FIRST))


def _diffs_text(diffs: list[int]) -> str:
    """Most pops hand out what lies one behind another."""
    count = len(diffs)
    if count <= MESSAGES_MAX and (diffs is (first := _FIRST[count]) or diffs == first):
        return _FIRST_TEXTS[count]
    return numbers_text(diffs)


def diffs_of(offsets: Sequence[int], start: int) -> list[int]:
    """`diffs` of a check point for the messages at these queue offsets.  Nobody may change the list."""
    if isinstance(offsets, range) and offsets.start == start and offsets.step == 1 and len(offsets) <= MESSAGES_MAX:
        return _FIRST[len(offsets)]
    return [offset - start for offset in offsets]


class PopCheckPoint(Body, kw_only=False, rename=None):
    """What one pop handed out of one queue.  Times in wall milliseconds.

    `start_offset` is where the pop began to read; the `num` messages lie at `start_offset` + one of `diffs`, or one behind
    another where there are none (old brokers).  `bit_map` has the bits of those that are done.  `re_put_times`: how often a copy
    could not be stored, None for never.  `suspend`: the next delivery does not count as another attempt.
    """

    start_offset: I64 = field(name="so", default=0)
    pop_time: I64 = field(name="pt", default=0)
    invisible_time: I64 = field(name="it", default=0)
    bit_map: I32 = field(name="bm", default=0)
    num: int = field(name="n", default=0)
    queue_id: I32 = field(name="q", default=0)
    topic: str | None = field(name="t", default=None)
    group: str | None = field(name="c", default=None)
    revive_offset: I64 = field(name="ro", default=0)
    diffs: list[I32] | None = field(name="d", default=None)
    broker_name: str | None = field(name="bn", default=None)
    re_put_times: str | None = field(name="rp", default=None)
    suspend: bool = field(name="sp", default=False)

    @classmethod
    def read(cls, body: bytes | bytearray | memoryview) -> Self:
        """As `Body.read`, one with few brackets in fewer steps."""
        text = bytes(body)
        if text.count(b"{") + text.count(b"[") <= fastjson.DEPTH_MAX:
            try:
                found: Self = _decode_point(text)
            except (msgspec.DecodeError, UnicodeDecodeError):
                pass
            else:
                return found
        return super().read(text)

    @property
    def due_ms(self) -> int:
        """`getReviveTime`: when what is not acknowledged comes again."""
        return self.pop_time + self.invisible_time

    def encode(self) -> bytes:
        """As the record's body."""
        diffs, pop_time, invisible_time = self.diffs, self.pop_time, self.invisible_time
        form_of = _point_form if self.group is None or len(self.group) <= _GROUP_CHARACTERS_MAX else _point_form.__wrapped__
        form = form_of(self.broker_name, self.group, self.topic, self.re_put_times, diffs is not None, self.suspend)
        text = form % (
            self.bit_map,
            "" if diffs is None else _diffs_text(diffs),
            invisible_time,
            self.num,
            pop_time,
            self.queue_id,
            pop_time + invisible_time,
            self.revive_offset,
            self.start_offset,
        )
        return text.encode("utf-8", "replace")

    def offset_at(self, index: int) -> int:
        """The queue offset of the message of this bit (`ackOffsetByIndex`).  Raises `BadBody` where there is none."""
        if not self.diffs:
            return self.start_offset + index
        if not 0 <= index < len(self.diffs):
            raise BadBody(f"a check point of {self.num} messages that names {len(self.diffs)}")
        return self.start_offset + self.diffs[index]

    @property
    def offsets(self) -> Sequence[int]:
        """Of all its messages, in the order of its bits.  Raises `BadBody` as `offset_at`."""
        start, num, diffs = self.start_offset, self.num, self.diffs
        if num <= MESSAGES_MAX and (not diffs or diffs == _FIRST[num]):
            return range(start, start + num)
        return [self.offset_at(index) for index in range(num)]

    def index_of(self, offset: int) -> int:
        """The bit of the message at this queue offset; -1 for one that was not handed out (`indexOfAck`)."""
        distance = offset - self.start_offset
        if distance < 0:
            return -1
        if not self.diffs:
            return distance if distance < self.num else -1
        return self.diffs.index(distance) if distance in self.diffs else -1

    def has_bit(self, index: int) -> bool:
        """The message of this bit is done."""
        return bool(self.bit_map >> index & 1)

    def set_bit(self, index: int) -> None:
        """It is done.  The map stays a Java `int`."""
        self.bit_map = (((self.bit_map | 1 << index) & _WORD) ^ _SIGN) - _SIGN

    def end(self, acked: Collection[int]) -> bool:
        """Those of its messages that lie at these queue offsets are done.  Whether all are.  Raises `BadBody` as `offset_at`."""
        num, start, diffs = self.num, self.start_offset, self.diffs
        if len(acked) == num <= MESSAGES_MAX and diffs == _FIRST[num] and acked == [*range(start, start + num)]:
            self.bit_map = ((self.bit_map | (1 << num) - 1) & _WORD ^ _SIGN) - _SIGN
            return True
        offsets = frozenset(acked)
        if not diffs and num <= MESSAGES_MAX:
            own: Sequence[int] = range(start, start + num)
        elif diffs and num == len(diffs) <= MESSAGES_MAX:
            own = [start + diff for diff in diffs]
        else:
            own = [self.offset_at(index) for index in range(num)]
        if num <= MESSAGES_MAX and offsets.issuperset(own):
            self.bit_map = ((self.bit_map | (1 << num) - 1) & _WORD ^ _SIGN) - _SIGN
            return True
        for index, offset in enumerate(own):
            if offset in offsets:
                self.set_bit(index)
        return self.is_done

    @property
    def is_done(self) -> bool:
        """All of its messages are."""
        whole = (1 << min(self.num, MESSAGES_MAX)) - 1
        return self.bit_map & whole == whole

    def clear_bit(self, index: int) -> None:
        """It is not done after all."""
        self.bit_map = (((self.bit_map & ~(1 << index)) & _WORD) ^ _SIGN) - _SIGN

    def re_puts(self) -> int:
        """How often it was stored again; 127 where nobody can read it (`parseRePutTimes`)."""
        if self.re_put_times is None:
            return 0
        try:
            return int(self.re_put_times)
        except ValueError:
            return 127


_decode_point: Final[Callable[[bytes], Any]] = msgspec.json.Decoder(PopCheckPoint).decode
_DECODERS: Final[dict[type[Body], Callable[[bytes | bytearray | memoryview], Any]]] = {}
"""Of those with long names."""
_NAMES: Final[dict[type[Body], dict[str, str]]] = {}
"""Of the same: every name of a member to the short one."""


class _LongNames(Body, forbid_unknown_fields=True):
    """A body whose members have a second name each.  One that has none but the first ones is read at once: they do not nest."""

    long_names: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def read(cls, body: bytes | bytearray | memoryview) -> Self:
        """As `Body.read`, by either name."""
        decode = _DECODERS.get(cls)
        if decode is None:
            decode = _DECODERS[cls] = msgspec.json.Decoder(cls).decode
        try:
            found: Self = decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return cls._read_otherwise(bytes(body))
        return found

    @classmethod
    def _read_otherwise(cls, text: bytes) -> Self:
        """One that has long names, members that nobody knows, or values that are spelled otherwise."""
        if fastjson.nests_deeper(text, fastjson.DEPTH_MAX):
            raise BadBody(f"{cls.__name__}: JSON of more than {fastjson.DEPTH_MAX} levels")
        return cls.from_plain(cls.short(fastjson.loads(text)), LENIENT_VALUES_MAX)

    @classmethod
    def short(cls, value: Any) -> Any:
        """Parsed JSON with its members under their short names, those that nobody knows left out."""
        if not isinstance(value, dict):
            return value
        names = _NAMES.get(cls)
        if names is None:
            own = {name: name for name in cls.__struct_encode_fields__}
            names = _NAMES[cls] = {**own, **cls.long_names}
        return {names[name]: item for name, item in value.items() if name in names}


_ACK_NAMES: Final = {
    "ackOffset": "ao",
    "ackOffsetList": "aol",
    "startOffset": "so",
    "consumerGroup": "c",
    "topic": "t",
    "queueId": "q",
    "popTime": "pt",
    "brokerName": "bn",
}


class AckMsg(_LongNames, kw_only=False, rename=None):
    """The message at `ack_offset` is done, handed out by the pop that began at `start_offset` at `pop_time`."""

    long_names = _ACK_NAMES
    ack_offset: I64 = field(name="ao", default=0)
    start_offset: I64 = field(name="so", default=0)
    group: str | None = field(name="c", default=None)
    topic: str | None = field(name="t", default=None)
    queue_id: I32 = field(name="q", default=0)
    pop_time: I64 = field(name="pt", default=0)
    broker_name: str | None = field(name="bn", default=None)

    def encode(self) -> bytes:
        """As the record's body."""
        return self._text("").encode("utf-8", "replace")

    def _text(self, offsets: str) -> str:
        form_of = _ack_form if self.group is None or len(self.group) <= _GROUP_CHARACTERS_MAX else _ack_form.__wrapped__
        form = form_of(self.broker_name, self.group, self.topic)
        return form % (self.ack_offset, offsets, self.pop_time, self.queue_id, self.start_offset)


class BatchAckMsg(AckMsg, kw_only=False, rename=None):
    """The same of several messages of one pop: `ack_offset` is -1."""

    offsets: Sequence[I64] = field(name="aol", default_factory=list)

    def encode(self) -> bytes:
        """As the record's body."""
        return self._text(f',"aol":[{numbers_text(self.offsets)}]').encode("utf-8", "replace")


# Request 200151

_BATCH_NAMES: Final = {
    "consumerGroup": "c",
    "topic": "t",
    "retry": "r",
    "startOffset": "so",
    "queueId": "q",
    "reviveQueueId": "rq",
    "popTime": "pt",
    "invisibleTime": "it",
    "bitSet": "b",
}


class BatchAck(_LongNames, rename=None):
    """Messages of one pop of one queue.  `retry`: the receipt's flag.  `bits`: of offset - `start_offset`, as `bits_text`."""

    long_names = _BATCH_NAMES
    group: str | None = field(name="c", default=None)
    topic: str | None = field(name="t", default=None)
    retry: str | None = field(name="r", default=None)
    start_offset: I64 = field(name="so", default=0)
    queue_id: I32 = field(name="q", default=0)
    revive_queue: I32 = field(name="rq", default=0)
    pop_time: I64 = field(name="pt", default=0)
    invisible_time: I64 = field(name="it", default=0)
    bits: str | None = field(name="b", default=None)

    def offsets(self, distances_max: int) -> Sequence[int]:
        """The queue offsets of the messages, in order; bits beyond so many are none.  Raises `BadBody`."""
        bits, start = _bits(self.bits, distances_max) if self.bits else (), self.start_offset
        count = len(bits)
        if count and bits[-1] - bits[0] == count - 1:
            return range(start + bits[0], start + bits[-1] + 1)
        return [start + at for at in bits]


class BatchAckMessageRequestBody(_LongNames):
    """Request 200151."""

    broker_name: str | None = None
    acks: list[BatchAck] | None = None

    @classmethod
    def short(cls, value: Any) -> Any:
        """The same of every acknowledgement."""
        found = super().short(value)
        if isinstance(found, dict) and isinstance(found.get("acks"), list):
            found["acks"] = [BatchAck.short(one) for one in found["acks"]]
        return found


_KNOWN_CHARACTERS_MAX: Final = 16
"""Of bit sets that are remembered, and what they say: most acknowledge a whole pop."""
_BITS: Final = tuple(tuple(bit for bit in range(8) if byte >> bit & 1) for byte in range(256))
"""Of each byte the bits that are set."""


def bits_text(bits: Iterable[int]) -> str:
    """A `BitSet` as fastjson writes it: its bytes, lowest bit first, in base64."""
    packed = bytearray()
    for bit in bits:
        byte = bit >> 3
        packed.extend(bytes(max(byte + 1 - len(packed), 0)))
        packed[byte] |= 1 << (bit & 7)
    return base64.b64encode(packed).decode()


def read_bits(text: str | None, bits_max: int) -> list[int]:
    """The bits that are set, up to so many, in order.  Raises `BadBody` for what is no base64."""
    return list(_bits(text, bits_max)) if text else []


def _read_bits(text: str, bits_max: int) -> tuple[int, ...]:
    try:
        packed = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise BadBody("a bit set that is no base64") from None
    found = [8 * at + bit for at, byte in enumerate(packed[: (bits_max + 7) // 8]) for bit in _BITS[byte]]
    while found and found[-1] >= bits_max:
        found.pop()
    return tuple(found)


_known_bits: Final = lru_cache(maxsize=_NAMES_MAX)(_read_bits)


def _bits(text: str, bits_max: int) -> tuple[int, ...]:
    return _known_bits(text, bits_max) if len(text) <= _KNOWN_CHARACTERS_MAX else _read_bits(text, bits_max)
