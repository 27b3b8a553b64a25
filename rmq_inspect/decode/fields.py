"""A record taken apart: where each of its fields lies, its raw bytes, its value, and what that value means to a reader."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from rmq_inspect.decode.log import Unit
from rmq_inspect.decode.records import TRANSACTIONS, compression_of, fit, host_text, printable
from rmq_inspect.times import text_of
from rmq_wire import sys_flag as flags
from rmq_wire.layout.flat import Flat
from rmq_wire.layout.message import BORN_V6, FIXED, MAGIC_V1, STORE_V6
from rmq_wire.message import PROPERTIES_LENGTH, TOPIC_LENGTHS, StoredMessage, has_good_crc
from rmq_wire.properties import NAME_END, PAIR_END

RAW_SHOWN: Final = 24
"""Bytes of a long field that are shown."""
TEXT_SHOWN: Final = 200


class Field(NamedTuple):
    """at: byte of the file.  meaning: empty where the value says it all."""

    at: int
    raw: bytes
    name: str
    value: str
    meaning: str = ""

    def as_json(self) -> dict[str, Any]:
        return {"byte": self.at, "raw": self.raw.hex(), "name": self.name, "value": self.value, "meaning": self.meaning}


def flat_fields(layout: Flat, raw: bytes, at: int) -> list[Field]:
    """Of a fixed record; its numbers without meanings."""
    values = layout.packed.unpack(raw)
    ends = [*[layout.at[name] for name in layout.names[1:]], layout.size]
    return [
        Field(at + layout.at[name], raw[layout.at[name] : end], name, _value(value))
        for name, value, end in zip(layout.names, values, ends, strict=True)
    ]


def _value(value: Any) -> str:
    return str(value) if isinstance(value, int) else value.hex()


def unit_fields(unit: Unit) -> list[Field]:
    """Of a message unit, all of them, without a gap."""
    message, raw, at = unit.message, unit.raw, unit.at
    layout = FIXED[message.sys_flag & (BORN_V6 | STORE_V6)]
    fields = [_said(one, message) for one in flat_fields(layout, raw[: layout.size], at)]
    body_end = layout.size + len(message.body)
    topic_length = TOPIC_LENGTHS[message.magic]
    topic_at = body_end + topic_length.size
    topic_end = topic_at + len(message.topic)
    properties_at = topic_end + PROPERTIES_LENGTH.size
    text = message.topic.decode("utf-8", "replace")
    pairs = message.properties.decode("utf-8", "replace").replace(NAME_END, "=").replace(PAIR_END, "; ")
    body = f"{len(message.body)} bytes" + (f", {compression_of(message)}" if compression_of(message) else "")
    return [
        *fields,
        Field(at + layout.size, raw[layout.size : body_end], "body", body, _crc(message)),
        Field(at + body_end, raw[body_end:topic_at], "topic_size", str(len(message.topic)), "bytes of the topic"),
        Field(at + topic_at, raw[topic_at:topic_end], "topic", fit(text, TEXT_SHOWN)),
        Field(at + topic_end, raw[topic_end:properties_at], "properties_size", str(len(message.properties)), "bytes"),
        Field(at + properties_at, raw[properties_at:], "properties", printable(pairs.strip())),
    ]


def _crc(message: StoredMessage) -> str:
    return "its check sum is right" if has_good_crc(message) else "ITS CHECK SUM IS WRONG: not the bytes that were stored"


def _flags(message: StoredMessage) -> str:
    flag = message.sys_flag
    said = [f"transaction {TRANSACTIONS[flags.transaction_type(flag)]}"]
    said += [f"compressed ({compression_of(message)})"] if flag & flags.COMPRESSED else []
    named = ((flags.MULTI_TAGS, "multi-tags"), (flags.BORN_HOST_V6, "born host IPv6"), (flags.STORE_HOST_V6, "store host IPv6"))
    said += [name for bit, name in (*named, (flags.INNER_BATCH, "inner batch")) if flag & bit]
    return ", ".join(said)


_SAID: Final[dict[str, Callable[[StoredMessage], dict[str, str]]]] = {
    "total_size": lambda m: {"meaning": "bytes of the whole unit"},
    "magic": lambda m: {"value": f"{m.magic & 0xFFFFFFFF:08X}", "meaning": "version 1" if m.magic == MAGIC_V1 else "version 2"},
    "body_crc": lambda m: {"meaning": "CRC-32 of the body without its top bit"},
    "queue_offset": lambda m: {"meaning": "its place in the queue"},
    "physical_offset": lambda m: {"meaning": "where it begins in the whole log"},
    "sys_flag": lambda m: {"meaning": _flags(m)},
    "born_timestamp": lambda m: {"meaning": text_of(m.born_timestamp)},
    "store_timestamp": lambda m: {"meaning": text_of(m.store_timestamp)},
    "born_host": lambda m: {"value": host_text(m.born_host), "meaning": "the producer"},
    "store_host": lambda m: {"value": host_text(m.store_host), "meaning": "the broker"},
    "body_size": lambda m: {"meaning": "bytes of the body that follows"},
    "reconsume_times": lambda m: {"meaning": "how often it was sent back"},
}


def _said(one: Field, message: StoredMessage) -> Field:
    said = _SAID[one.name](message) if one.name in _SAID else {}
    return one._replace(value=said.get("value", one.value), meaning=said.get("meaning", ""))


def hex_text(raw: bytes, shown: int = RAW_SHOWN) -> str:
    """`DA A3 20 A7 …`."""
    text = raw[:shown].hex(" ").upper()
    return text + (" …" if len(raw) > shown else "")
