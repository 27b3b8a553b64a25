"""A broker gives each queue to one member of the group: who consumes in order asks for that, and again every 20 s.

The broker's lock lives 60 s, ours counts as lost after 30 s: in between nobody consumes the queue.
Source: `RebalanceImpl.lock`, `lockAll`, `unlock`, `unlockAll`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from rmq_client.consuming.process_queue import ProcessQueue
from rmq_client.consuming.working import Working
from rmq_client.core import ClientCore
from rmq_client.errors import ClientError, NoBroker, Unreadable
from rmq_client.world import mono_ms
from rmq_wire.bodies.locks import LockBatchRequest, LockBatchResponse, QueueName
from rmq_wire.errors import BadBody
from rmq_wire.fastjson import MessageQueue
from rmq_wire.headers.locks import LockBatchMq, UnlockBatchMq

ASK_MS: Final = 1_000


class QueueLocks:
    """Of one consumer.  group, queues: on the wire."""

    def __init__(self, client: ClientCore, group: str) -> None:
        self._client = client
        self._group = group
        self._asked: set[MessageQueue] = set()
        """Those that brokers may have given, also where no answer has said so yet; a refusal or `unlock` takes them out."""
        self._asking = Working()

    async def lock(self, queue: MessageQueue) -> bool:
        """Ask for one.  Whether it is ours now."""
        try:
            return await self.granted(queue)
        except ClientError as error:
            self._client.log.warning("%s is not locked: %s", str(queue), str(error))
            return False

    async def granted(self, queue: MessageQueue) -> bool:
        """The same.  Raises `ClientError`."""
        return queue in await self._ask(queue.broker_name, [queue])

    async def renew(self, held: Mapping[MessageQueue, ProcessQueue]) -> None:
        """Ask for all of them, and note which are ours.  No answer has changed nothing: the lock grows old."""
        mine = {queue: one for queue, one in held.items() if not one.dropped}
        for broker, queues in by_broker(mine).items():
            try:
                ours = await self._ask(broker, queues)
            except ClientError as error:
                self._client.log.warning("the locks of %s are not renewed: %s", broker, str(error))
                continue
            for queue in queues:
                mine[queue].locked = queue in ours
                if queue in ours:
                    mine[queue].last_lock_ms = mono_ms()
                else:
                    self._client.log.warning("%s is somebody else's", str(queue))

    async def unlock_all(self) -> None:
        """Give back whatever was asked for.  Brokers may take requests in any order, so what is asked for now is awaited."""
        await self._asking.until_idle()
        await self.unlock(self._asked, wait=True)

    async def unlock(self, queues: Collection[MessageQueue], *, wait: bool) -> None:
        """Give them back.  One that cannot be given back is free after 60 s."""
        queues = list(queues)
        self._asked.difference_update(queues)
        for broker, some in by_broker(queues).items():
            body = self._request(some).encode()
            address = self._client.routes.master(broker)
            if address is None:
                continue
            try:
                if wait:
                    await self._client.ask(address, UnlockBatchMq(), body, timeout_ms=ASK_MS)
                else:
                    await self._client.connections.send_oneway(address, UnlockBatchMq(), body, timeout_ms=ASK_MS)
            except ClientError as error:
                self._client.log.warning("the locks of %s are not given back: %s", broker, str(error))

    async def _ask(self, broker: str, queues: Collection[MessageQueue]) -> set[MessageQueue]:
        address = self._client.routes.master(broker)
        if address is None:
            raise NoBroker(f"no route names a master of {broker}")
        self._asked.update(queues)
        with self._asking:
            answer = await self._client.ask(address, LockBatchMq(), self._request(queues).encode(), timeout_ms=ASK_MS)
        try:
            body = LockBatchResponse.read(bytes(answer.body))
        except BadBody as wrong:
            raise Unreadable(str(wrong), address) from None
        ours = {MessageQueue(one.topic, one.broker_name or "", one.queue_id) for one in body.lock_ok_mq_set}
        self._asked.difference_update(set(queues) - ours)
        return ours

    def _request(self, queues: Collection[MessageQueue]) -> LockBatchRequest:
        asked = [QueueName(broker_name=one.broker_name, queue_id=one.queue_id, topic=one.topic) for one in queues]
        return LockBatchRequest(client_id=self._client.client_id, consumer_group=self._group, mq_set=asked)


def by_broker(queues: Collection[MessageQueue]) -> dict[str, list[MessageQueue]]:
    """The same, broker by broker."""
    found: dict[str, list[MessageQueue]] = {}
    for queue in queues:
        found.setdefault(queue.broker_name, []).append(queue)
    return found
