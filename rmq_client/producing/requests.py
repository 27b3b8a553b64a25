"""A message as the request that a stock producer sends, and a broker's answer as a `SendResult`.

Source: `DefaultMQProducerImpl.sendKernelImpl`, `MQClientAPIImpl.processSendResponse`, `MessageBatch`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from rmq_client.errors import BrokerError, InvalidMessage, Unreadable
from rmq_client.messages import Message, SendResult, SendStatus, encoded_properties, item_of
from rmq_client.settings import ProducerSettings
from rmq_wire import batch, names, sys_flag
from rmq_wire import property_names as prop
from rmq_wire.command import Command
from rmq_wire.errors import BadHeader
from rmq_wire.fastjson import MessageQueue
from rmq_wire.headers.send import SendBatchMessage, SendMessageResponse, SendMessageV2
from rmq_wire.packed_body import FLAGS, CannotPack, pack

STORED: Final = frozenset(status.value for status in SendStatus)
DEFAULT_REGION: Final = "DefaultRegion"
"""`MixAll.DEFAULT_TRACE_REGION_ID`."""

MakeKey = Callable[[], str]


class Prepared(NamedTuple):
    """What stays the same over all attempts of a send.  topic: on the wire."""

    topic: str
    message_id: str
    fields: dict[str, Any]
    body: bytes
    is_batch: bool


def prepare(
    message: Message,
    topic: str,
    group: str,
    settings: ProducerSettings,
    namespace: str,
    key: MakeKey,
    packing: int | None = None,
) -> Prepared:
    """One message, packed where it is long.  group: on the wire.  Raises `InvalidMessage`.

    packing: the body is packed already, or not, as these bits of the sysFlag say, and stays so.
    """
    pairs = _pairs(message, namespace, key)
    message_id = pairs[prop.UNIQ_KEY]
    flags, body = packing or 0, message.body
    if packing is None and len(body) >= settings.compress_msg_body_over_howmuch:
        try:
            body = pack(body, settings.compress_type, settings.compress_level)
        except CannotPack as reason:
            raise InvalidMessage(f"the body cannot be packed: {reason}") from None
        flags |= sys_flag.COMPRESSED | FLAGS[settings.compress_type]
    if pairs.get(prop.TRAN_MSG, "").lower() == "true":
        flags |= sys_flag.TRANSACTION_PREPARED
    fields = _fields(topic, group, settings)
    fields |= {"sys_flag": flags, "flag": message.flag}
    if names.is_retry_topic(topic):
        for name, field in ((prop.RECONSUME_TIME, "reconsume_times"), (prop.MAX_RECONSUME_TIMES, "max_reconsume_times")):
            if name in pairs:
                fields[field] = int(pairs.pop(name))
    fields["properties"] = encoded_properties(pairs)
    return Prepared(topic, message_id, fields, body, is_batch=False)


def prepare_batch(
    messages: Sequence[Message], topic: str, group: str, settings: ProducerSettings, namespace: str, key: MakeKey
) -> Prepared:
    """Several messages as one request, which is stored whole or not at all.  A batch is never packed."""
    pairs = [_pairs(one, namespace, key) for one in messages]
    body = batch.pack_items(item_of(one, own) for one, own in zip(messages, pairs, strict=True))
    outer = {prop.WAIT: "true" if messages[0].wait_store_msg_ok else "false"}
    if namespace:
        outer[prop.INSTANCE_ID] = namespace
    fields = _fields(topic, group, settings) | {"sys_flag": 0, "flag": 0, "batch": True}
    fields["properties"] = encoded_properties(outer)
    return Prepared(topic, ",".join(one[prop.UNIQ_KEY] for one in pairs), fields, body, is_batch=True)


def split_batch(messages: Sequence[Message], topic: str, namespace: str, bytes_max: int) -> Iterator[list[Message]]:
    """The messages in order, in batches whose bodies have at most so many bytes.  Raises `InvalidMessage`: one alone has more."""
    part: list[Message] = []
    size = 0
    for message in messages:
        own = len(batch.pack_items([item_of(message, _pairs(message, namespace, lambda: "0" * _KEY_CHARACTERS_MAX))]))
        if own > bytes_max:
            raise InvalidMessage(f"a message of a batch has {own} bytes with its properties, max_message_size is {bytes_max}")
        if part and size + own > bytes_max:
            yield part
            part, size = [], 0
        part.append(message)
        size += own
    if part:
        yield part


_KEY_CHARACTERS_MAX: Final = 56
"""Of a unique key with an IPv6 address."""


def request_to(prepared: Prepared, queue: MessageQueue, born_ms: int) -> SendMessageV2:
    """The request of one attempt."""
    kind = SendBatchMessage if prepared.is_batch else SendMessageV2
    return kind(queue_id=queue.queue_id, born_timestamp=born_ms, broker_name=queue.broker_name, **prepared.fields)


def result_of(prepared: Prepared, queue: MessageQueue, answer: Command, address: str, topic: str) -> SendResult:
    """What a broker's answer means.  topic: as the caller knows it.  Raises `BrokerError`."""
    if answer.code not in STORED:
        raise BrokerError(answer.code, answer.remark, address)
    try:
        header = answer.header(SendMessageResponse)
    except BadHeader as wrong:
        raise Unreadable(str(wrong), address, done=True) from None
    return SendResult(
        status=SendStatus(answer.code),
        message_id=prepared.message_id,
        offset_message_id=header.msg_id,
        queue=MessageQueue(topic, queue.broker_name, header.queue_id),
        queue_offset=header.queue_offset,
        transaction_id=header.transaction_id,
        region_id=header.msg_region or DEFAULT_REGION,
        trace_on=header.trace_on is not False,
        recall_handle=header.recall_handle,
    )


def _pairs(message: Message, namespace: str, key: MakeKey) -> dict[str, str]:
    pairs = message.plain_properties()
    if prop.UNIQ_KEY not in pairs:
        pairs[prop.UNIQ_KEY] = key()
    if namespace:
        pairs[prop.INSTANCE_ID] = namespace
    return pairs


def _fields(topic: str, group: str, settings: ProducerSettings) -> dict[str, Any]:
    return {
        "producer_group": group,
        "topic": topic,
        "default_topic": settings.create_topic_key,
        "default_topic_queue_nums": settings.default_topic_queue_nums,
        "reconsume_times": 0,
        "unit_mode": False,
        "batch": False,
    }
