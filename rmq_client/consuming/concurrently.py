"""Messages in any order, many at once: each is done, or given back and comes again later.

Source: `ConsumeMessageConcurrentlyService`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

import trio

from rmq_client.consuming.listener import ConsumeConcurrentlyContext, ConsumeConcurrentlyStatus, acknowledged
from rmq_client.consuming.process_queue import ProcessQueue
from rmq_client.consuming.received import ReceivedMessage
from rmq_client.consuming.service import Consuming
from rmq_client.errors import ClientError
from rmq_client.world import mono_ms
from rmq_wire.bodies.enumerations import CMResult
from rmq_wire.fastjson import MessageQueue

LOCAL_RETRY_S: Final = 5.0
EXPIRED_LEVEL: Final = 3
BATCHES_A_TURN: Final = 8
"""That a worker takes before others have their turn: 160 with 20 workers, about 3 ms of ours."""
_Batch = tuple[Sequence[ReceivedMessage], MessageQueue, ProcessQueue]


class Concurrently:
    """For one consumer: what came waits in one line, and as many workers as there may be listeners at once take from it.

    A worker ends when nothing waits: a task for each batch would cost as much as all the rest of it.
    """

    def __init__(self, consuming: Consuming) -> None:
        self._own = consuming
        self._waiting: deque[_Batch] = deque()
        self._workers = 0
        consuming.listening.on_more = self._set_to_work

    def submit(self, messages: Sequence[ReceivedMessage], queue: MessageQueue, held: ProcessQueue) -> None:
        """In batches."""
        held.put(messages)
        most = self._own.settings.consume_message_batch_max_size
        for at in range(0, len(messages), most):
            self._waiting.append((messages[at : at + most], queue, held))
        self._set_to_work()

    def _set_to_work(self) -> None:
        for _ in range(min(self._own.listening.most - self._workers, len(self._waiting))):
            self._workers += 1
            self._own.nursery.start_soon(self._work)

    async def _work(self) -> None:
        """Take batches until none waits, or there are too many workers."""
        done = 0
        try:
            while self._waiting and not self._own.stopping and self._workers <= self._own.listening.most:
                await self._consume(*self._waiting.popleft())
                done += 1
                if not done % BATCHES_A_TURN:  # a listener that never waits would keep the loop
                    await trio.lowlevel.checkpoint()
        finally:
            self._workers -= 1

    async def let_go(self, held: ProcessQueue) -> bool:
        """Results that come late do not count."""
        return True

    def context(self, queue: MessageQueue) -> ConsumeConcurrentlyContext:
        """Java's defaults."""
        return ConsumeConcurrentlyContext(queue)

    def outcome(self, status: object) -> CMResult:
        """There are two."""
        return "CR_LATER" if status is ConsumeConcurrentlyStatus.RECONSUME_LATER else "CR_SUCCESS"

    async def run(self) -> None:
        """Messages whose listener hangs are given back, so that they do not hold the queue's progress for ever."""
        while True:
            await trio.sleep(self._own.settings.consume_timeout_ms / 1e3)
            for queue, held in list(self._own.queues.items()):
                late = held.expired(mono_ms(), self._own.settings.consume_timeout_ms)
                for message in late:
                    assert isinstance(message, ReceivedMessage)
                    if not await self._given_back([message], held, EXPIRED_LEVEL):
                        self._done([message], queue, held)

    async def _consume(self, messages: Sequence[ReceivedMessage], queue: MessageQueue, held: ProcessQueue) -> None:
        """One batch, once.  What is left of it when neither way back works is tried again here."""
        if held.dropped:
            return
        own = self._own
        context = self.context(own.shown(messages, queue))
        held.started(messages, mono_ms())
        with own.working:
            called = await own.listening.call_in_turn(messages, context)
            rates = own.rates_of(queue.topic)
            rates.consume_ms.add(called.took_ms)
            if held.dropped:  # another member has it now: whatever came out does not count
                return
            status = ConsumeConcurrentlyStatus.RECONSUME_LATER if called.error is not None else called.status
            done = acknowledged(len(messages), status, context.ack_index)
            rates.consumed.add(done)
            left: list[ReceivedMessage] = []
            if done < len(messages):
                rates.failed.add(len(messages) - done)
                left = await self._given_back(messages[done:], held, context.delay_level_when_next_consume)
                messages = [message for message in messages if message not in left]
            self._done(messages, queue, held)
        if left:
            own.nursery.start_soon(self._submit_later, left, queue, held)

    async def _submit_later(self, messages: Sequence[ReceivedMessage], queue: MessageQueue, held: ProcessQueue) -> None:
        await trio.sleep(LOCAL_RETRY_S)
        self._waiting.append((messages, queue, held))
        self._set_to_work()

    async def _given_back(
        self, messages: Sequence[ReceivedMessage], held: ProcessQueue, delay_level: int
    ) -> list[ReceivedMessage]:
        """Those that could not be given back.  Where all members get all messages nobody would take them: they are dropped."""
        left = []
        for message in messages:
            if not held.holds(message):  # it took too long, and was given back meanwhile
                continue
            if self._own.settings.broadcasting:
                self._own.client.log.warning("%s was not consumed, and will not come again", repr(message))
                continue
            try:
                await self._own.giving_back.give_back(message, delay_level)
            except ClientError as error:
                self._own.client.log.warning("%s is tried again here: %s", repr(message), str(error))
                left.append(message)
        return left

    def _done(self, messages: Sequence[ReceivedMessage], queue: MessageQueue, held: ProcessQueue) -> None:
        offset = held.remove(messages, mono_ms())
        if offset is not None and not held.dropped:
            self._own.progress.table.update(queue, offset, increase_only=True)
