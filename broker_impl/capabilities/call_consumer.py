"""Asking consumers in somebody's place: what are you doing (307), consume this message now (309), where are you (223).

The question of 307 and 309 goes on to the one connection, the answer comes back as it is.  A consumer that is silent, or gone,
costs the asker an error after 10 s.  223 asks all members of a group at once with 221, Java one after the other, and puts
together what those say who answer within 5 s.

Java: `AdminBrokerProcessor` (getConsumerRunningInfo, consumeMessageDirectly, callConsumer, getConsumerStatus), `Broker2Client`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

import msgspec

from broker_impl.config import BrokerConfig
from broker_impl.engine.answers import LATER, Answer, Pause, Refusal, Reply
from broker_impl.engine.call import Call, PendingAnswer
from broker_impl.engine.engine import Engine
from broker_impl.engine.router import Capability, answers
from broker_impl.engine.slices import ROWS_PER_SLICE, Slices, begun, spelled
from broker_impl.state.clients import Clients
from broker_impl.state.consumer_group import Client
from broker_impl.state.groups import GroupTable
from broker_impl.state.topics import TopicTable
from rmq_net.service import Job
from rmq_store.errors import Cold
from rmq_wire import names
from rmq_wire.bodies.body import FASTJSON
from rmq_wire.bodies.consumer_answers import ConsumerStatus
from rmq_wire.codes import VERSION_RESETS_OFFSET, ResponseCode
from rmq_wire.declare import Request
from rmq_wire.errors import BadBody, WireError
from rmq_wire.headers.clients import (
    ConsumeMessageDirectly,
    GetConsumerRunningInfo,
    GetConsumerStatus,
    GetConsumerStatusFromClient,
)
from rmq_wire.message_id import parse_offset_message_id

if TYPE_CHECKING:
    from rmq_wire.command import Command

ASK_MS = 10_000
"""How long a consumer may take (`Broker2Client.callClient`)."""
VERSION_MIN = 62
"""`V3_1_8_SNAPSHOT`: older clients do not know the questions."""
STATUS_MS = 5_000
"""How long members may take to say where they are (`Broker2Client.getConsumeStatus`)."""
STATUS_BYTES_MAX = 256 << 10
"""Of what one member says of one topic, some 80 bytes a queue; decoded in one piece.  Who says more is left out."""
ANSWER_BYTES_MAX = 4 << 20
"""What is relayed; a thread dump of a large consumer has some 100 KiB."""


class UnitStore(Protocol):
    """What is asked of the store here."""

    def lookup(self, physical_offset: int, *, checked: bool = ...) -> memoryview | bytes | None: ...


class CallConsumer(Capability):
    """Finds the connection of a consumer and relays."""

    def __init__(
        self, engine: Engine, config: BrokerConfig, topics: TopicTable, groups: GroupTable, clients: Clients, store: UnitStore
    ) -> None:
        self._engine = engine
        self._config = config
        self._topics = topics
        self._groups = groups
        self._clients = clients
        self._store = store

    @answers(GetConsumerRunningInfo)
    def running(self, call: Call, asked: GetConsumerRunningInfo) -> Answer:
        """What one consumer says it is doing."""
        client = self._find(asked.consumer_group, asked.client_id)
        self._relay(call.detach(), client, asked.consumer_group, asked, b"")
        return LATER

    @answers(ConsumeMessageDirectly)
    def consume(self, call: Call, asked: ConsumeMessageDirectly) -> Answer:
        """Let one consumer consume one stored message, and answer how it went."""
        client = self._find(asked.consumer_group, asked.client_id or "")
        try:
            offset = parse_offset_message_id(asked.msg_id or "").physical_offset
        except WireError as wrong:
            raise Refusal(ResponseCode.SYSTEM_ERROR, str(wrong)) from None
        topic = self._topics.get(asked.topic or "")
        group = self._groups.find(asked.consumer_group)
        question = msgspec.structs.replace(
            asked,
            broker_name=self._config.broker_name,
            topic_sys_flag=topic.topic_sys_flag if topic is not None else asked.topic_sys_flag,
            group_sys_flag=group.group_sys_flag if group is not None else asked.group_sys_flag,
        )
        self._consume(call.detach(), client, question, offset)
        return LATER

    @answers(GetConsumerStatus)
    def status(self, call: Call, asked: GetConsumerStatus) -> Answer:
        """Where the members of a group, or the one of this client id, say they are in a topic."""
        group = self._clients.consumer_group(asked.group)
        if group is None:
            raise Refusal(ResponseCode.SYSTEM_ERROR, f"No Any Consumer online in the consumer group: [{asked.group}]")
        members = list(group.members.values())
        old = next((client for client in members if client.version < VERSION_RESETS_OFFSET), None)
        if old is not None:
            remark = f"the client does not support this feature. version={old.version}"
            raise Refusal(ResponseCode.SYSTEM_ERROR, remark)
        if not names.is_blank(asked.client_addr):
            members = [client for client in members if client.client_id == asked.client_addr][:1]
        return begun(self._status(members, GetConsumerStatusFromClient(topic=asked.topic, group=asked.group)))

    def _status(self, members: list[Client], question: GetConsumerStatusFromClient) -> Slices[Reply]:
        said: list[tuple[str, bytes]] = []
        everybody = Pause()
        silent = len(members)

        def then(client_id: str, response: Command | None) -> None:
            nonlocal silent
            silent -= 1
            if response is not None and response.code == ResponseCode.SUCCESS and len(response.body) <= STATUS_BYTES_MAX:
                said.append((client_id, bytes(response.body)))
            if not silent:
                everybody.end()

        for count, client in enumerate(members, 1):
            self._engine.ask(client.peer, question, b"", timeout_ms=STATUS_MS, then=partial(then, client.client_id))
            if count % ROWS_PER_SLICE == 0:
                yield None
        if silent:
            yield everybody
        body = ConsumerStatus()
        for client_id, text in said:
            try:
                body.consumer_table[client_id] = ConsumerStatus.read(text).message_queue_table if text else {}
            except BadBody as wrong:
                log = self._engine.env.log
                log.warning("consumer %s of group %s does not say where it is: %s", client_id, question.group, str(wrong))
            yield None
        return (yield from spelled(body, FASTJSON))

    def _consume(self, pending: PendingAnswer, client: Client, question: ConsumeMessageDirectly, offset: int) -> None:
        """Look the message up, on the read thread when it is cold, and ask."""
        try:
            unit = self._store.lookup(offset, checked=True)
        except Cold as cold:

            def loaded(_: object, error: BaseException | None) -> None:
                if error is None:
                    self._consume(pending, client, question, offset)
                else:
                    pending.answer(Refusal(ResponseCode.SYSTEM_ERROR, f"message {question.msg_id} cannot be read: {error}"))

            self._engine.job(Job("read", cold.run, loaded))
            return
        if unit is None:
            pending.answer(Refusal(ResponseCode.SYSTEM_ERROR, f"message {question.msg_id} is not in this broker"))
            return
        self._relay(pending, client, question.consumer_group, question, bytes(unit))

    def _find(self, group: str, client_id: str) -> Client:
        client = self._clients.consumer(group, client_id)
        if client is None:
            raise Refusal(ResponseCode.SYSTEM_ERROR, f"The Consumer <{group}> <{client_id}> not online")
        if client.version < VERSION_MIN:
            raise Refusal(
                ResponseCode.SYSTEM_ERROR,
                f"The Consumer <{client_id}> Version <{client.version}> too low to finish, please upgrade it to V3_1_8_SNAPSHOT",
            )
        return client

    def _relay(self, pending: PendingAnswer, client: Client, group: str, question: Request, body: bytes) -> None:
        who = f"<{group}> <{client.client_id}>"

        def then(response: Command | None) -> None:
            if response is None:
                pending.answer(Refusal(ResponseCode.CONSUME_MSG_TIMEOUT, f"consumer {who} Timeout: no answer within {ASK_MS} ms"))
            elif len(response.body) > ANSWER_BYTES_MAX:
                size = len(response.body)
                pending.answer(Refusal(ResponseCode.SYSTEM_ERROR, f"invoke consumer {who} Exception: it answers {size} bytes"))
            else:
                pending.answer(
                    Reply(code=response.code, remark=response.remark, ext=response.ext_map() or None, body=bytes(response.body))
                )

        try:
            self._engine.ask(client.peer, question, body, timeout_ms=ASK_MS, then=then)
        except ValueError as too_large:  # for one frame
            pending.answer(Refusal(ResponseCode.SYSTEM_ERROR, f"invoke consumer {who} Exception: {too_large}"))
