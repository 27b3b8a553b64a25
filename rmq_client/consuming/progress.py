"""Where a group's progress is kept: at the brokers, or, when all members get all messages, in a file of this machine.

Source: `RemoteBrokerOffsetStore`, `LocalFileOffsetStore`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, Protocol

import trio

from rmq_client.consuming.local_offsets import LocalOffsets
from rmq_client.consuming.offset_table import OffsetTable
from rmq_client.consuming.pulling import Puller
from rmq_client.consuming.queue_locks import by_broker
from rmq_client.core import ClientCore
from rmq_client.errors import CallerError, ClientError, NetworkError
from rmq_wire.fastjson import MessageQueue
from rmq_wire.headers.offsets import UpdateConsumerOffset

AT_ONCE_MAX: Final = 64
"""Of the queues of one broker: a thousand of them a hundred milliseconds away are told within two seconds."""


class Progress(Protocol):
    """`table`: what is known here, told every few seconds.  Queues as on the wire."""

    table: OffsetTable

    async def load(self) -> None:
        """Before anything is asked.  Raises `CallerError`."""

    async def stored(self, queue: MessageQueue) -> int | None:
        """As it was told last, by whomever; None: never.  Raises `ClientError`."""

    def with_pull(self, queue: MessageQueue) -> int | None:
        """What a pull takes along."""

    async def tell_all(self, queues: Collection[MessageQueue], *, wait: bool) -> None:
        """Tell it of these queues; whoever waits knows that it arrived, or finds a line in the log."""

    def forget(self, queue: MessageQueue) -> None:
        """The queue is given up, or begun: what was known here of it may be old."""


class RemoteProgress:
    """At the master of each queue, or its slave while there is none."""

    def __init__(self, client: ClientCore, group: str, puller: Puller) -> None:
        """group: on the wire."""
        self.table = OffsetTable()
        self._client = client
        self._group = group
        self._puller = puller

    async def load(self) -> None:
        """Nothing is needed before a queue is begun."""

    async def stored(self, queue: MessageQueue) -> int | None:
        """As the broker says."""
        return await self._puller.committed_offset(queue)

    def with_pull(self, queue: MessageQueue) -> int | None:
        """What is known here."""
        return self.table.get(queue)

    def forget(self, queue: MessageQueue) -> None:
        """Somebody else may move it now."""
        self.table.remove(queue)

    async def tell_all(self, queues: Collection[MessageQueue], *, wait: bool) -> None:
        """One request for each queue, one-way or awaited: a broker that does not answer keeps no other from hearing."""
        async with trio.open_nursery() as nursery:
            for some in by_broker(queues).values():
                nursery.start_soon(self._tell_broker, some, wait)

    async def _tell_broker(self, queues: Sequence[MessageQueue], wait: bool) -> None:
        """One queue of each topic before the others, where what is told now is the last that is told.

        Java's broker makes its table of a topic and group without a lock (`ConsumerOffsetManager.commitOffset`): of the first
        that come side by side it keeps one, and has acknowledged all.
        """
        known = {queue: offset for queue in queues if (offset := self.table.get(queue)) is not None}
        alone = {queue.topic: queue for queue in known} if wait else {}
        others = [queue for queue in known if alone.get(queue.topic) != queue]
        for some in ([*alone.values()], others):
            for at in range(0, len(some), AT_ONCE_MAX):
                there: list[bool] = []
                async with trio.open_nursery() as nursery:
                    for queue in some[at : at + AT_ONCE_MAX]:
                        nursery.start_soon(self._tell, queue, known[queue], wait, there)
                if not all(there):  # nobody is there: the others would wait as long
                    return

    async def _tell(self, queue: MessageQueue, offset: int, wait: bool, there: list[bool]) -> None:
        """there: gets False where the broker cannot be reached."""
        try:
            if wait:
                await self._puller.commit_offset(queue, offset)
            else:
                await self._tell_oneway(queue, offset)
        except ClientError as error:
            there.append(not isinstance(error, NetworkError))
            self._client.log.warning("progress in %s is not told: %s", str(queue), str(error))

    async def _tell_oneway(self, queue: MessageQueue, offset: int) -> None:
        place = self._client.routes.reading_place(queue.broker_name)
        if place is None:
            return
        request = UpdateConsumerOffset(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            commit_offset=offset,
            bname=queue.broker_name,
        )
        timeout_ms = self._client.settings.mq_client_api_timeout_ms
        await self._client.connections.send_oneway(place.address, request, timeout_ms=timeout_ms)


class LocalProgress:
    """In `offsets.json`.  What was once known of a queue stays, whoever has it now."""

    def __init__(self, client: ClientCore, file: LocalOffsets) -> None:
        self.table = OffsetTable()
        self._client = client
        self._file = file
        self._stored: dict[MessageQueue, int] = {}
        self._saving = trio.Lock()
        """One at a time: they write the same file beside it, and the last one has to be the last."""

    async def load(self) -> None:
        """Read the file."""
        self._stored = await trio.to_thread.run_sync(self._file.load)

    async def stored(self, queue: MessageQueue) -> int | None:
        """As the file says."""
        return self._stored.get(queue)

    def with_pull(self, queue: MessageQueue) -> int | None:
        """Brokers keep nothing of it."""
        return None

    def forget(self, queue: MessageQueue) -> None:
        """The file keeps it."""
        self.table.remove(queue)

    async def tell_all(self, queues: Collection[MessageQueue], *, wait: bool) -> None:
        """Write the file, when anything has changed."""
        with trio.CancelScope(shield=wait):  # a save that is under way ends whatever happens, and so does the one behind it
            async with self._saving:
                await self._save(queues)

    async def _save(self, queues: Collection[MessageQueue]) -> None:
        known = {queue: offset for queue in queues if (offset := self.table.get(queue)) is not None}
        moved = {queue: offset for queue, offset in known.items() if self._stored.get(queue) != offset}
        if not moved:
            return
        try:
            await trio.to_thread.run_sync(self._file.save, moved)
        except (OSError, CallerError) as error:
            self._client.log.warning("progress is not written to %s: %s", str(self._file.path), str(error))
        else:
            self._stored |= moved
