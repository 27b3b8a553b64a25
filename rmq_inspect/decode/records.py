"""One stored message as a flat record for people and programs: MessageExt's names, both ids, properties as a map.

Texts that are shown never contain what a terminal would obey.  A compressed body is unpacked, up to a limit; one that cannot be
is shown as stored, and the record says how it is packed.
"""

from __future__ import annotations

import base64
from enum import StrEnum
from typing import Any, Final

from rmq_columns.shown import cells as cells
from rmq_columns.shown import fit as fit
from rmq_columns.shown import json_line as json_line
from rmq_columns.shown import pad as pad
from rmq_columns.shown import printable as printable
from rmq_inspect.decode.log import Unit
from rmq_wire import packed_body as packing
from rmq_wire import property_names as prop
from rmq_wire import sys_flag as flags
from rmq_wire.checksum import body_crc
from rmq_wire.implied.light_queues import light_places
from rmq_wire.message import MAGIC_V2, SEAL_BYTES, StoredMessage, has_good_crc, has_good_seal
from rmq_wire.message_id import host_address, offset_message_id
from rmq_wire.packed_body import StillPacked, unpack
from rmq_wire.properties import decode

TRANSACTIONS: Final = {
    flags.TRANSACTION_NOT: "none",
    flags.TRANSACTION_PREPARED: "prepared",
    flags.TRANSACTION_COMMIT: "commit",
    flags.TRANSACTION_ROLLBACK: "rollback",
}


_CRC_NAME: Final = prop.CRC32.encode()


class BodyForm(StrEnum):
    """How a body is shown."""

    TEXT = "text"
    HEX = "hex"
    JSON = "json"
    NONE = "none"


def properties_of(message: StoredMessage) -> dict[str, str]:
    """Bytes that are no UTF-8 become replacement marks."""
    return decode(message.properties.decode("utf-8", "replace"))


def topic_of(message: StoredMessage) -> str:
    return message.topic.decode("utf-8", "replace")


def light_offsets(message: StoredMessage) -> dict[str, int]:
    """Light queues in which the message is besides its own: its offset there, as it says (`MultiDispatchUtils`)."""
    return light_places(topic_of(message), message.queue_id, message.properties)


def compression_of(message: StoredMessage) -> str | None:
    """None: not compressed."""
    return packing.compression_of(message.sys_flag)


def unpacked_body(message: StoredMessage) -> tuple[bytes, str | None]:
    """The body as it was sent, and what still packs it, and why, when it cannot be unpacked here."""
    body = bytes(message.body)
    packed = compression_of(message)
    if packed is None:
        return body, None
    try:
        return unpack(body, packed), None
    except StillPacked as reason:
        return body, f"{packed}, {reason}"


def has_good_unit_crc(unit: Unit) -> bool | None:
    """Whether the check sum over the whole unit is right; None when it has none (`enabledAppendPropCRC`, off by default)."""
    if not unit.message.properties[-SEAL_BYTES:].startswith(_CRC_NAME):
        return None
    return has_good_seal(unit.raw)


def host_text(host: bytes) -> str:
    address, port = host_address(host)
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def record_of(unit: Unit, form: BodyForm = BodyForm.TEXT) -> dict[str, Any]:
    """Ready for JSON.  `body` is text when it is UTF-8, else there is `body_base64`; form `hex`: `body_hex`; `json`: parsed."""
    message = unit.message
    values = properties_of(message)
    made: dict[str, Any] = {
        "topic": topic_of(message),
        "queueId": message.queue_id,
        "queueOffset": message.queue_offset,
        "commitLogOffset": message.physical_offset,
        "storeSize": message.total_size,
        "offsetMsgId": offset_message_id(message.store_host, message.physical_offset),
        "uniqKey": values.get(prop.UNIQ_KEY),
        "keys": [key for key in values.get(prop.KEYS, "").split(prop.KEY_SEPARATOR) if key],
        "tags": values.get(prop.TAGS),
        "storeTimestamp": message.store_timestamp,
        "storeHost": host_text(message.store_host),
        "bornTimestamp": message.born_timestamp,
        "bornHost": host_text(message.born_host),
        "version": 2 if message.magic == MAGIC_V2 else 1,
        "flag": message.flag,
        "sysFlag": message.sys_flag,
        "compression": compression_of(message),
        "transaction": TRANSACTIONS[flags.transaction_type(message.sys_flag)],
        "innerBatch": bool(message.sys_flag & flags.INNER_BATCH),
        "reconsumeTimes": message.reconsume_times,
        "preparedTransactionOffset": message.prepared_transaction_offset,
        "bodyCRC": message.body_crc,
        "bodyCRCOk": has_good_crc(message),
        "bodySize": len(message.body),
        "properties": values,
    }
    if not made["bodyCRCOk"]:
        made["bodyCRCComputed"] = body_crc(message.body)
    if (unit_crc := has_good_unit_crc(unit)) is not None:
        made["unitCRCOk"] = unit_crc
    if form is not BodyForm.NONE:
        made.update(_body_fields(message, form))
    return made


def _body_fields(message: StoredMessage, form: BodyForm) -> dict[str, Any]:
    body, packed = unpacked_body(message)
    fields: dict[str, Any] = {"bodyPackedAs": packed} if packed else {}
    if form is BodyForm.HEX:
        return {**fields, "body_hex": body.hex()}
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return {**fields, "body_base64": base64.b64encode(body).decode()}
    if form is BodyForm.JSON:
        from rmq_wire.fastjson import loads

        try:
            return {**fields, "body": loads(body)}
        except Exception as reason:  # whatever the body is, it is only shown
            return {**fields, "body": text, "bodyNotJson": str(reason)[:200]}
    return {**fields, "body": text}


def body_text(message: StoredMessage, form: BodyForm, characters: int) -> str:
    """The body for a column of so many characters."""
    body, packed = unpacked_body(message)
    head = body[: 4 * characters + 4]
    if form is BodyForm.NONE:
        return ""
    if form is BodyForm.TEXT and not packed:
        try:
            whole = head if len(head) == len(body) else _without_last_character(head)
            return fit(whole.decode(), characters)
        except UnicodeDecodeError:
            pass
    shown = f"[{packed}] " if packed else ""
    return fit(shown + "0x" + head.hex(), characters)


def _without_last_character(head: bytes) -> bytes:
    """The cut may lie in the middle of a character."""
    end = len(head)
    for back in range(1, 5):
        if head[end - back] & 0xC0 != 0x80:
            return head[: end - back]
    return head
