"""A frame's body as values ready for JSON, by the kind that its request code gives it.

The table says which codes carry stored messages, batches, properties texts or JSON of which Java class.  JSON is read by the
tolerant reader of `rmq_wire.fastjson` and kept whole: a member that our classes do not know must not get lost here.  A body that
is not what the table says is shown as text or base64, with the reason.
"""

from __future__ import annotations

import base64
from typing import Any, Final, NamedTuple

import msgspec

from rmq_inspect.decode.records import host_text, properties_of, topic_of, unpacked_body
from rmq_wire import fastjson
from rmq_wire.batch import read_items
from rmq_wire.bodies.properties_text import loads as read_properties
from rmq_wire.bodies.registration import read_register_body
from rmq_wire.codes import RequestCode as Code
from rmq_wire.errors import BadBody, BadRecord
from rmq_wire.message import MAGIC_V2, has_good_crc, read_unit
from rmq_wire.message_id import offset_message_id
from rmq_wire.properties import decode as decode_properties

MESSAGES: Final = "messages"
"""Stored message units, one after the other."""
BATCH: Final = "batch"
"""Items of a batch send."""
PROPERTIES: Final = "properties"
"""`key=value` lines."""
MESSAGE: Final = "message"
"""What an application sends: text or bytes."""
TEXT: Final = "text"
BYTES: Final = "bytes"
JSON: Final = "JSON"
REGISTRATION: Final = "RegisterBrokerBody"

ASKED: Final[dict[int, str]] = {
    Code.SEND_MESSAGE: MESSAGE,
    Code.SEND_MESSAGE_V2: MESSAGE,
    Code.SEND_BATCH_MESSAGE: BATCH,
    Code.SEND_REPLY_MESSAGE: MESSAGE,
    Code.SEND_REPLY_MESSAGE_V2: MESSAGE,
    Code.PUSH_REPLY_MESSAGE_TO_CLIENT: MESSAGE,
    Code.CHECK_TRANSACTION_STATE: MESSAGES,
    Code.CONSUME_MESSAGE_DIRECTLY: MESSAGES,
    Code.UPDATE_BROKER_CONFIG: PROPERTIES,
    Code.UPDATE_NAMESRV_CONFIG: PROPERTIES,
    Code.UPDATE_COLD_DATA_FLOW_CTR_CONFIG: PROPERTIES,
    Code.REGISTER_BROKER: REGISTRATION,
    Code.HEART_BEAT: "HeartbeatData",
    Code.CHECK_CLIENT_CONFIG: "CheckClientRequestBody",
    Code.LOCK_BATCH_MQ: "LockBatchRequestBody",
    Code.UNLOCK_BATCH_MQ: "UnlockBatchRequestBody",
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: "SubscriptionGroupConfig",
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: "SubscriptionGroupList",
    Code.UPDATE_AND_CREATE_TOPIC_LIST: "CreateTopicListRequestBody",
    Code.REGISTER_TOPIC_IN_NAMESRV: "TopicRouteData",
    Code.QUERY_DATA_VERSION: "DataVersion",
    Code.QUERY_ASSIGNMENT: "QueryAssignmentRequestBody",
    Code.SET_MESSAGE_REQUEST_MODE: "SetMessageRequestModeRequestBody",
    Code.BATCH_ACK_MESSAGE: "BatchAckMessageRequestBody",
    Code.RESET_CONSUMER_CLIENT_OFFSET: "ResetOffsetBody",
}
"""What a request of this code carries."""

ANSWERED: Final[dict[int, str]] = {
    Code.PULL_MESSAGE: MESSAGES,
    Code.LITE_PULL_MESSAGE: MESSAGES,
    Code.POP_MESSAGE: MESSAGES,
    Code.PEEK_MESSAGE: MESSAGES,
    Code.POP_LITE_MESSAGE: MESSAGES,
    Code.QUERY_MESSAGE: MESSAGES,
    Code.VIEW_MESSAGE_BY_ID: MESSAGES,
    Code.GET_BROKER_CONFIG: PROPERTIES,
    Code.GET_NAMESRV_CONFIG: PROPERTIES,
    Code.GET_COLD_DATA_FLOW_CTR_INFO: JSON,
    Code.GET_ROUTEINFO_BY_TOPIC: "TopicRouteData",
    Code.GET_BROKER_CLUSTER_INFO: "ClusterInfo",
    Code.REGISTER_BROKER: "KVTable",
    Code.GET_KVLIST_BY_NAMESPACE: "KVTable",
    Code.GET_BROKER_RUNTIME_INFO: "KVTable",
    Code.GET_BROKER_MEMBER_GROUP: "GetBrokerMemberGroupResponseBody",
    Code.QUERY_DATA_VERSION: "DataVersion",
    Code.GET_CONSUMER_LIST_BY_GROUP: "GetConsumerListByGroupResponseBody",
    Code.LOCK_BATCH_MQ: "LockBatchResponseBody",
    Code.GET_ALL_TOPIC_CONFIG: "TopicConfigAndMappingSerializeWrapper",
    Code.GET_TOPIC_CONFIG: "TopicConfigAndQueueMapping",
    Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: "SubscriptionGroupWrapper",
    Code.GET_SUBSCRIPTIONGROUP_CONFIG: "SubscriptionGroupConfig",
    Code.GET_ALL_CONSUMER_OFFSET: "ConsumerOffsetSerializeWrapper",
    Code.GET_ALL_DELAY_OFFSET: "DelayOffsetSerializeWrapper",
    Code.GET_TOPIC_STATS_INFO: "TopicStatsTable",
    Code.GET_CONSUME_STATS: "ConsumeStats",
    Code.GET_BROKER_CONSUME_STATS: "ConsumeStatsList",
    Code.VIEW_BROKER_STATS_DATA: "BrokerStatsData",
    Code.GET_CONSUMER_CONNECTION_LIST: "ConsumerConnection",
    Code.GET_PRODUCER_CONNECTION_LIST: "ProducerConnection",
    Code.GET_ALL_PRODUCER_INFO: "ProducerTableInfo",
    Code.QUERY_TOPIC_CONSUME_BY_WHO: "GroupList",
    Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: "TopicList",
    Code.GET_TOPICS_BY_CLUSTER: "TopicList",
    Code.GET_SYSTEM_TOPIC_LIST_FROM_NS: "TopicList",
    Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: "TopicList",
    Code.GET_UNIT_TOPIC_LIST: "TopicList",
    Code.GET_HAS_UNIT_SUB_TOPIC_LIST: "TopicList",
    Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: "TopicList",
    Code.QUERY_TOPICS_BY_CONSUMER: "TopicList",
    Code.QUERY_CONSUME_QUEUE: "QueryConsumeQueueResponseBody",
    Code.QUERY_ASSIGNMENT: "QueryAssignmentResponseBody",
    Code.QUERY_CONSUME_TIME_SPAN: "QueryConsumeTimeSpanBody",
    Code.QUERY_CORRECTION_OFFSET: "QueryCorrectionOffsetBody",
    Code.QUERY_SUBSCRIPTION_BY_CONSUMER: "QuerySubscriptionResponseBody",
    Code.GET_CONSUMER_RUNNING_INFO: "ConsumerRunningInfo",
    Code.INVOKE_BROKER_TO_RESET_OFFSET: "ResetOffsetBody",
    Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: "GetConsumerStatusBody",
    Code.GET_CONSUMER_STATUS_FROM_CLIENT: "GetConsumerStatusBody",
    Code.GET_BROKER_HA_STATUS: "HARuntimeInfo",
    Code.CONSUME_MESSAGE_DIRECTLY: "ConsumeMessageDirectlyResult",
    Code.UPDATE_AND_GET_GROUP_FORBIDDEN: "GroupForbidden",
    Code.GET_ALL_MESSAGE_REQUEST_MODE: "MessageRequestModeSerializeWrapper",
    Code.BATCH_ACK_MESSAGE: "BitSet",
}
"""What the successful answer to a request of this code carries."""


class Body(NamedTuple):
    """A body's kind and what it says.  `problem`: why it is not what its code wants."""

    kind: str
    value: Any
    problem: str | None = None

    def as_json(self) -> dict[str, Any]:
        line = {"kind": self.kind, "value": self.value}
        return line if self.problem is None else {**line, "problem": self.problem}


def decode_body(code: int, *, is_answer: bool, ext: dict[str, str], version: int, raw: bytes) -> Body | None:
    """The body of a request of this code, or of an answer to one; None when there is none.  Never raises for foreign bytes.

    `version`: the sender's `MQVersion`.
    """
    if not raw:
        return None
    kind = (ANSWERED if is_answer else ASKED).get(code)
    batch = ext.get("m" if code == Code.SEND_MESSAGE_V2 else "batch")
    if kind == MESSAGE and batch == "true":
        kind = BATCH
    try:
        match kind:
            case "messages":
                return Body(MESSAGES, _messages(raw))
            case "batch":
                return Body(BATCH, _items(raw))
            case "properties":
                return Body(PROPERTIES, read_properties(raw.decode()))
            case "message":
                return plain_body(raw, MESSAGE)
            case "RegisterBrokerBody":
                compressed = ext.get("compressed") == "true"
                return Body(REGISTRATION, read_register_body(raw, compressed=compressed, version=version).plain())
            case None:
                if raw[:1] not in (b"{", b"["):
                    return plain_body(raw)
                return Body(JSON, jsonable(fastjson.loads(raw)))
            case _:
                return Body(kind, jsonable(fastjson.loads(raw)))
    except (BadBody, BadRecord, UnicodeDecodeError, msgspec.ValidationError, RecursionError) as wrong:
        return plain_body(raw)._replace(problem=f"not {kind or JSON}: {str(wrong)[:200]}")


def plain_body(raw: bytes, kind: str | None = None) -> Body:
    """Text where it is UTF-8, else base64."""
    try:
        return Body(kind or TEXT, raw.decode())
    except UnicodeDecodeError:
        return Body(kind or BYTES, {"base64": base64.b64encode(raw).decode()})


def jsonable(value: Any) -> Any:
    """Keys that are queues become `topic@brokerName:queueId`."""
    if isinstance(value, dict):
        return {_key(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [jsonable(item) for item in value]
    return value


def _key(key: Any) -> str:
    if isinstance(key, fastjson.MessageQueue):
        return f"{key.topic}@{key.broker_name}:{key.queue_id}"
    return str(key)


def _messages(raw: bytes) -> list[dict[str, Any]]:
    found = []
    at = 0
    while at < len(raw):
        unit = read_unit(raw, at)
        at += unit.total_size
        body, packed = unpacked_body(unit)
        shown: dict[str, Any] = {
            "topic": topic_of(unit),
            "queueId": unit.queue_id,
            "queueOffset": unit.queue_offset,
            "physicalOffset": unit.physical_offset,
            "offsetMsgId": offset_message_id(unit.store_host, unit.physical_offset),
            "storeTimestamp": unit.store_timestamp,
            "storeHost": host_text(unit.store_host),
            "bornTimestamp": unit.born_timestamp,
            "bornHost": host_text(unit.born_host),
            "version": 2 if unit.magic == MAGIC_V2 else 1,
            "flag": unit.flag,
            "sysFlag": unit.sys_flag,
            "reconsumeTimes": unit.reconsume_times,
            "preparedTransactionOffset": unit.prepared_transaction_offset,
            "bodyCRCOk": has_good_crc(unit),
            "properties": properties_of(unit),
            "body": plain_body(bytes(body)).value,
        }
        if packed is not None:
            shown["bodyPackedAs"] = packed
        found.append(shown)
    return found


def _items(raw: bytes) -> list[dict[str, Any]]:
    return [
        {
            "flag": item.flag,
            "properties": decode_properties(item.properties.decode("utf-8", "replace")),
            "body": plain_body(bytes(item.body)).value,
        }
        for item in read_items(raw)
    ]
