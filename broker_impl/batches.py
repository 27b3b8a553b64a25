"""From the body of a batch send to what is stored: each message as it came, with the hashes and keys that it is found by.

A batch is stored as a whole or not at all, so nobody is served meanwhile: docs/limits.md has what that takes.
(Java: `MessageExtEncoder.encode(MessageExtBatch, …)`)
"""

from __future__ import annotations

from typing import Final

from broker_impl.engine.answers import Refusal
from broker_impl.intake import Message, NotTaken, PutStatus
from rmq_store.log.draft import Draft
from rmq_wire import properties, sys_flag
from rmq_wire import property_names as prop
from rmq_wire.batch import read_items
from rmq_wire.codes import ResponseCode
from rmq_wire.errors import BadBody
from rmq_wire.headers.send import SendBatchMessage, SendMessage, SendMessageV2
from rmq_wire.implied.index_keys import index_keys
from rmq_wire.implied.tags import tags_code

BATCH_MESSAGES_MAX: Final = 8_192
"""Of one batch: 50 ms."""
SHORT_BYTES: Final = 512
"""Of properties that are taken apart though three of them are wanted; 4 MiB of separators would take a fifth of a second."""
_FINDERS: Final = (prop.UNIQ_KEY, prop.KEYS, prop.TAGS)


def batch_drafts(
    asked: SendMessage | SendMessageV2 | SendBatchMessage,
    body: bytes | memoryview,
    queue_id: int,
    flags: int,
    born_host: bytes,
    store_host: bytes,
) -> list[Draft]:
    """All messages of the body, their properties byte for byte as sent: 5.5.0 adds nothing.  Raises `BadBody`, `Refusal`."""
    items = read_items(body)
    if len(items) > BATCH_MESSAGES_MAX:
        raise Refusal(ResponseCode.MESSAGE_ILLEGAL, f"more than {BATCH_MESSAGES_MAX} messages in a batch")
    times = asked.reconsume_times or 0
    drafts = []
    for flag, part, encoded in items:
        unique_key, keys, tags = _found(encoded)
        found_by = tags_code(tags), index_keys(unique_key, keys, tags)
        drafts.append(
            Draft(
                asked.topic,
                queue_id,
                part,
                encoded,
                asked.born_timestamp,
                born_host,
                store_host,
                flag,
                flags,
                times,
                0,
                *found_by,
            )
        )
    return drafts


def _found(encoded: bytes) -> list[str | None]:
    if len(encoded) <= SHORT_BYTES:
        values = properties.decode(encoded.decode("utf-8", "replace"))
        return [values.get(name) for name in _FINDERS]
    found = [properties.find(encoded, name.encode()) for name in _FINDERS]
    return [None if value is None else value.decode("utf-8", "replace") for value in found]


def inner_batch(
    asked: SendMessage | SendMessageV2,
    queue_id: int,
    flags: int,
    body: bytes | memoryview,
    values: dict[str, str],
    born_host: bytes,
) -> Message:
    """A batch as one message (`sendBatchMessage`); `values` get its count.  Raises `NotTaken` for a broken body."""
    try:
        values[prop.INNER_NUM] = str(len(read_items(body)))
    except BadBody as broken:
        raise NotTaken(PutStatus.MESSAGE_ILLEGAL, broken) from None
    return Message(
        asked.topic,
        queue_id,
        body,
        values,
        flag=asked.flag,
        sys_flag=flags | sys_flag.NEED_UNWRAP | sys_flag.INNER_BATCH,
        born_timestamp=asked.born_timestamp,
        born_host=born_host,
        reconsume_times=asked.reconsume_times or 0,
    )
