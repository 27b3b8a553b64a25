"""What brokers ask of a consumer, mostly for `mqadmin`.

Go on elsewhere (220), where are you (221), what are you doing (307), take this message (309).

Source: `ClientRemotingProcessor`, `MQClientInstance`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import trio

from rmq_client.broker_call import BrokerCall
from rmq_client.errors import ClientError
from rmq_client.members import Consuming, Members
from rmq_client.stack_dump import stack_dump
from rmq_net.log import Log
from rmq_wire.bodies.consumer_answers import ConsumerStatus
from rmq_wire.bodies.offsets import ResetOffset
from rmq_wire.codes import VERSION_NAME, ResponseCode
from rmq_wire.headers.clients import ConsumeMessageDirectly, GetConsumerRunningInfo, GetConsumerStatusFromClient
from rmq_wire.headers.offsets import ResetConsumerClientOffset

DIRECT_MAX: Final = 32
"""Messages in listeners' hands that brokers gave directly: more than operators need, and no broker can start any number."""


class BrokerCalls:
    """Answers for the consumers of one client.  `answering`: by request code."""

    def __init__(self, members: Members, name_servers: Sequence[str], nursery: trio.Nursery, log: Log) -> None:
        self._members = members
        self._name_servers = name_servers
        self._nursery = nursery
        self._log = log
        self._direct = 0
        self.answering: dict[int, Callable[[BrokerCall], bytes | None]] = {
            ResetConsumerClientOffset.code: self._reset,
            GetConsumerStatusFromClient.code: self._status,
            GetConsumerRunningInfo.code: self._running_info,
            ConsumeMessageDirectly.code: self._consume_directly,
        }

    def _reset(self, call: BrokerCall) -> None:
        asked = call.command.header(ResetConsumerClientOffset)
        offsets = ResetOffset.read(bytes(call.command.body)).offset_table if call.command.body else {}
        self._log.info("%s sets %s on %s to %d offsets", call.address, asked.group, asked.topic, len(offsets))
        consumer = self._members.consumer(asked.group)
        if consumer is not None:
            consumer.go_on_at(asked.topic, offsets)

    def _status(self, call: BrokerCall) -> bytes:
        asked = call.command.header(GetConsumerStatusFromClient)
        consumer = self._members.consumer(asked.group)
        table = {} if consumer is None else consumer.progress(asked.topic)
        return call.answer(ResponseCode.SUCCESS, body=ConsumerStatus(message_queue_table=table).encode())

    def _running_info(self, call: BrokerCall) -> bytes:
        asked = call.command.header(GetConsumerRunningInfo)
        consumer = self._members.consumer(asked.consumer_group)
        if consumer is None:
            return self._nobody(call, asked.consumer_group)
        info = consumer.running_info()
        info.properties["PROP_NAMESERVER_ADDR"] = "".join(f"{address};" for address in self._name_servers)
        info.properties["PROP_CLIENT_VERSION"] = VERSION_NAME
        if asked.jstack_enable:
            info.jstack = stack_dump()
        return call.answer(ResponseCode.SUCCESS, body=info.encode())

    def _consume_directly(self, call: BrokerCall) -> bytes | None:
        asked = call.command.header(ConsumeMessageDirectly)
        consumer = self._members.consumer(asked.consumer_group)
        if consumer is None:
            return self._nobody(call, asked.consumer_group)
        if self._direct >= DIRECT_MAX:
            return call.answer(ResponseCode.SYSTEM_BUSY, f"{DIRECT_MAX} messages are being consumed directly already")
        self._direct += 1
        kept = BrokerCall(call.address, call.command.kept(), call.reply)
        self._nursery.start_soon(self._take, kept, consumer, asked.broker_name or "")
        return None

    async def _take(self, call: BrokerCall, consumer: Consuming, broker_name: str) -> None:
        try:
            result = await consumer.consume_directly(bytes(call.command.body), broker_name)
        except ClientError as error:
            call.reply(call.answer(ResponseCode.SYSTEM_ERROR, str(error)))
        else:
            call.reply(call.answer(ResponseCode.SUCCESS, body=result.encode()))
        finally:
            self._direct -= 1

    @staticmethod
    def _nobody(call: BrokerCall, group: str) -> bytes:
        return call.answer(ResponseCode.SYSTEM_ERROR, f"The Consumer Group <{group}> not exist in this consumer")
