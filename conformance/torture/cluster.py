"""The honest part: a name server and one or two brokers in one memory, enough of the protocol for stock producers and consumers.

`Cluster.answer` does what a request asks for and returns the answer before it becomes bytes, so that a torment can still
change it.  `Hold` says that a pull waits for a message.  What is not known is answered with REQUEST_CODE_NOT_SUPPORTED.
Sources: `DefaultRequestProcessor` (name server), `SendMessageProcessor`, `PullMessageProcessor`, `ConsumerManageProcessor`,
`ClientManageProcessor`, `AdminBrokerProcessor` (offsets, locks).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

from conformance.torture.events import Events
from conformance.torture.log import HOST, Log, QueueKey, Stored, message_key, with_property
from conformance.torture.script import NAME_SERVER, NOWHERE
from rmq_wire import batch
from rmq_wire import property_names as prop
from rmq_wire.bodies.body import Body
from rmq_wire.bodies.connections import ConsumerIdList
from rmq_wire.bodies.heartbeat import HeartbeatData
from rmq_wire.bodies.locks import LockBatchRequest, LockBatchResponse
from rmq_wire.bodies.route import MASTER_ID, BrokerData, QueueData, TopicRouteData
from rmq_wire.codes import RequestCode, ResponseCode
from rmq_wire.command import Command
from rmq_wire.declare import Header
from rmq_wire.encoding import Form
from rmq_wire.headers.clients import GetConsumerListByGroup, UnregisterClient
from rmq_wire.headers.naming import GetRouteInfo
from rmq_wire.headers.offsets import QueryConsumerOffset, QueryConsumerOffsetResponse, UpdateConsumerOffset
from rmq_wire.headers.positions import GetMaxOffset, GetMaxOffsetResponse, GetMinOffset, GetMinOffsetResponse
from rmq_wire.headers.pull import PullMessage, PullMessageResponse
from rmq_wire.headers.send import SendMessage, SendMessageResponse, SendMessageV2
from rmq_wire.headers.send_back import ConsumerSendMsgBack
from rmq_wire.sys_flag import PERM_READ, PERM_WRITE, PULL_SUSPEND

CLUSTER: Final = "torture"
RETRY_PREFIX: Final = "%RETRY%"
PULL_MOST: Final = 32
FILL_BYTES: Final = 256
"""Of a message that is there from the beginning: more than all else in its unit, so that the unit's middle is in its body."""
REFUSING_PORT: Final = 1
"""Of the broker `nowhere`: a privileged port of loopback, on which nothing listens."""


class Answer(msgspec.Struct):
    """An answer that is not bytes yet."""

    code: int
    opaque: int
    form: Form
    remark: str | None = None
    ext: dict[str, str] | None = None
    body: bytes = b""
    plain_body: Any = None
    """The JSON value of the body, where it is one."""


class Hold(NamedTuple):
    """A pull that waits: answer it with `again()` when `queue` goes beyond `offset`, or after `ms`."""

    queue: QueueKey
    offset: int
    ms: int
    again: Callable[[], Answer]


class Cluster:
    """What name server and brokers remember.  `route`: the brokers that the name server names now."""

    def __init__(self, topic: str, queues: int, ports: dict[str, int], events: Events) -> None:
        """ports: of each broker, by its name."""
        self.topic, self.queues, self.ports = topic, queues, ports
        self.route = list(ports)
        self.log = Log(ports)
        self._events = events
        self._offsets: dict[tuple[str, QueueKey], int] = {}
        self._consumers: dict[tuple[str, str], set[str]] = {}
        self._handlers: dict[int, Callable[[str, Command], Answer]] = {
            RequestCode.SEND_MESSAGE: self._send,
            RequestCode.SEND_MESSAGE_V2: self._send,
            RequestCode.SEND_BATCH_MESSAGE: self._send,
            RequestCode.HEART_BEAT: self._heartbeat,
            RequestCode.UNREGISTER_CLIENT: self._unregister,
            RequestCode.GET_CONSUMER_LIST_BY_GROUP: self._consumer_list,
            RequestCode.QUERY_CONSUMER_OFFSET: self._query_offset,
            RequestCode.UPDATE_CONSUMER_OFFSET: self._update_offset,
            RequestCode.GET_MAX_OFFSET: self._max_offset,
            RequestCode.GET_MIN_OFFSET: self._min_offset,
            RequestCode.LOCK_BATCH_MQ: self._lock,
            RequestCode.CONSUMER_SEND_MSG_BACK: self._send_back,
            RequestCode.UNLOCK_BATCH_MQ: self._nothing,
            RequestCode.CHECK_CLIENT_CONFIG: self._nothing,
        }

    def fill(self, messages: int) -> None:
        """Store so many messages, m-0 and on, spread over all queues in turn."""
        queues = [QueueKey(broker, self.topic, queue) for broker in self.route for queue in range(self.queues)]
        for number in range(messages):
            key = f"m-{number}"
            self._store(queues[number % len(queues)], f"{key} ".encode().ljust(FILL_BYTES, b"x"), f"{prop.KEYS}\x01{key}\x02")

    def answer(self, where: str, command: Command) -> Answer | Hold:
        """Do what is asked.  Raises `BadHeader`, `BadBody` for what no sound client sends."""
        if where == NAME_SERVER:
            return self._route(command)
        if command.code in (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE):
            return self._pull(where, command)
        handler = self._handlers.get(command.code)
        if handler is None:
            return blank(command, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f" request type {command.code} not supported")
        return handler(where, command)

    def _route(self, command: Command) -> Answer:
        if command.code != RequestCode.GET_ROUTEINFO_BY_TOPIC:
            return blank(command, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f" request type {command.code} not supported")
        topic = command.header(GetRouteInfo).topic
        queues = 1 if topic.startswith(RETRY_PREFIX) else self.queues
        if topic != self.topic and not topic.startswith(RETRY_PREFIX):
            return blank(command, ResponseCode.TOPIC_NOT_EXIST, f"No topic route info in name server for the topic: {topic}")
        route = TopicRouteData(
            queue_datas=[
                QueueData(broker_name=broker, read_queue_nums=queues, write_queue_nums=queues, perm=PERM_READ | PERM_WRITE)
                for broker in self.route
            ],
            broker_datas=[
                BrokerData(cluster=CLUSTER, broker_name=broker, broker_addrs={MASTER_ID: self._address(broker)})
                for broker in self.route
            ],
        )
        return _with_body(command, route)

    def _address(self, broker: str) -> str:
        return f"{HOST}:{REFUSING_PORT if broker == NOWHERE else self.ports[broker]}"

    def _send(self, where: str, command: Command) -> Answer:
        sent = _send_header(command)
        key = QueueKey(where, sent.topic, sent.queue_id)
        if not sent.batch:
            stored = [self._store(key, bytes(command.body), sent.properties or "", sent.sys_flag)]
        else:
            items = batch.read_items(command.body)
            stored = [self._store(key, bytes(item.body), item.properties.decode(), sent.sys_flag) for item in items]
        message_id = ",".join(one.message_id for one in stored)
        return _with_header(
            command, SendMessageResponse(msg_id=message_id, queue_id=sent.queue_id, queue_offset=stored[0].offset)
        )

    def _store(self, key: QueueKey, body: bytes, properties: str, sys_flag: int = 0, reconsume_times: int = 0) -> Stored:
        wall_ms = time.time_ns() // 1_000_000
        stored = self.log.append(key, body, properties, wall_ms=wall_ms, sys_flag=sys_flag, reconsume_times=reconsume_times)
        name = message_key(properties, body)
        self._events.add("stored", key.broker, message=name, queue=key.queue, offset=stored.offset, topic=key.topic)
        return stored

    def _pull(self, where: str, command: Command) -> Answer | Hold:
        asked = command.header(PullMessage)
        key = QueueKey(where, asked.topic, asked.queue_id)
        if self.log.end(key) > asked.queue_offset or not asked.sys_flag & PULL_SUSPEND:
            return self._pulled(command, key, asked)
        return Hold(key, asked.queue_offset, asked.suspend_timeout_millis, lambda: self._pulled(command, key, asked))

    def _pulled(self, command: Command, key: QueueKey, asked: PullMessage) -> Answer:
        units = self.log.read(key, asked.queue_offset, min(asked.max_msg_nums, PULL_MOST))
        end = self.log.end(key)
        code = ResponseCode.SUCCESS if units else ResponseCode.PULL_NOT_FOUND
        header = PullMessageResponse(
            suggest_which_broker_id=MASTER_ID,
            next_begin_offset=asked.queue_offset + len(units) if units else min(asked.queue_offset, end),
            min_offset=0,
            max_offset=end,
        )
        answer = _with_header(command, header)
        answer.code, answer.body = code, b"".join(units)
        answer.remark = ResponseCode(code).name
        return answer

    def _heartbeat(self, where: str, command: Command) -> Answer:
        beat = HeartbeatData.read(command.body)
        for consumer in beat.consumer_data_set:
            self._consumers.setdefault((where, consumer.group_name), set()).add(beat.client_id or "")
        return blank(command)

    def _unregister(self, where: str, command: Command) -> Answer:
        asked = command.header(UnregisterClient)
        self._consumers.get((where, asked.consumer_group or ""), set()).discard(asked.client_id)
        return blank(command)

    def _consumer_list(self, where: str, command: Command) -> Answer:
        group = command.header(GetConsumerListByGroup).consumer_group
        members = sorted(self._consumers.get((where, group), ()))
        if not members:
            return blank(command, ResponseCode.SYSTEM_ERROR, "no consumer for this group")
        return _with_body(command, ConsumerIdList(consumer_id_list=members))

    def _query_offset(self, where: str, command: Command) -> Answer:
        asked = command.header(QueryConsumerOffset)
        offset = self._offsets.get((asked.consumer_group, QueueKey(where, asked.topic, asked.queue_id)))
        if offset is None:
            return blank(command, ResponseCode.QUERY_NOT_FOUND, "Not found, maybe this group consumer boot first")
        return _with_header(command, QueryConsumerOffsetResponse(offset=offset))

    def _update_offset(self, where: str, command: Command) -> Answer:
        asked = command.header(UpdateConsumerOffset)
        self._offsets[asked.consumer_group, QueueKey(where, asked.topic, asked.queue_id)] = asked.commit_offset
        return blank(command)

    def _max_offset(self, where: str, command: Command) -> Answer:
        asked = command.header(GetMaxOffset)
        return _with_header(command, GetMaxOffsetResponse(offset=self.log.end(QueueKey(where, asked.topic, asked.queue_id))))

    def _min_offset(self, where: str, command: Command) -> Answer:
        command.header(GetMinOffset)
        return _with_header(command, GetMinOffsetResponse(offset=0))

    def _lock(self, where: str, command: Command) -> Answer:
        return _with_body(command, LockBatchResponse(lock_ok_mq_set=LockBatchRequest.read(command.body).mq_set))

    def _send_back(self, where: str, command: Command) -> Answer:
        """Into the group's retry topic at once, without the delay of a real broker."""
        asked = command.header(ConsumerSendMsgBack)
        kept = self.log.kept(where, asked.offset)
        if kept is None:
            return blank(command, ResponseCode.SYSTEM_ERROR, f"look message by offset failed, {asked.offset}")
        properties = with_property(kept.properties, prop.RETRY_TOPIC, self.topic)
        key = QueueKey(where, RETRY_PREFIX + asked.group, 0)
        self._store(key, kept.body, properties, reconsume_times=kept.reconsume_times + 1)
        return blank(command)

    def _nothing(self, where: str, command: Command) -> Answer:
        return blank(command)


def blank(command: Command, code: int = ResponseCode.SUCCESS, remark: str | None = None) -> Answer:
    """An answer without fields or body."""
    return Answer(code=code, opaque=command.opaque, form=command.form, remark=remark)


class About(NamedTuple):
    """What a request is about, as far as it says so."""

    message: str = ""
    topic: str = ""
    queue: int | None = None
    offset: int | None = None


def about(command: Command) -> About:
    """Raises `BadHeader`, `BadBody` for what no sound client sends."""
    if command.code in (RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE):
        sent = _send_header(command)
        body, properties = bytes(command.body), sent.properties or ""
        if sent.batch:
            first = batch.read_items(command.body)[0]
            body, properties = bytes(first.body), first.properties.decode()
        return About(message_key(properties, body), sent.topic, sent.queue_id)
    if command.code in (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE):
        asked = command.header(PullMessage)
        return About("", asked.topic, asked.queue_id, asked.queue_offset)
    named = command.ext_map()
    queue = named.get("queueId", "")
    return About("", named.get("topic", ""), int(queue) if queue.isdigit() else None)


def _send_header(command: Command) -> SendMessage | SendMessageV2:
    if command.code == RequestCode.SEND_MESSAGE:
        return command.header(SendMessage)
    return command.header(SendMessageV2)


def _with_header(command: Command, header: Header) -> Answer:
    answer = blank(command)
    answer.ext = header.encode()
    return answer


def _with_body(command: Command, body: Body) -> Answer:
    answer = blank(command)
    answer.body, answer.plain_body = body.encode(), body.plain()
    return answer
