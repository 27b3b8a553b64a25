"""The messages of a queue one batch after the other: what is not done is tried again before anything behind it.

A task works on each queue that has messages, as long as its lock is ours.  A batch that failed is put back and the queue waits a
moment; only with a maximum of tries does it ever give up, and then the message goes to the dead letters.
Source: `ConsumeMessageOrderlyService`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import trio

from rmq_client.consuming.listener import Called, ConsumeOrderlyContext, ConsumeOrderlyStatus
from rmq_client.consuming.process_queue import ProcessQueue
from rmq_client.consuming.queue_locks import QueueLocks
from rmq_client.consuming.received import ReceivedMessage
from rmq_client.consuming.service import Consuming
from rmq_client.errors import ClientError
from rmq_client.world import mono_ms
from rmq_wire.bodies.enumerations import CMResult
from rmq_wire.fastjson import MessageQueue

FIRST_RENEWAL_S: Final = 1.0
RENEWAL_S: Final = 20.0
"""Java: `rocketmq.client.rebalance.lockInterval`."""
LOCKED_S, NOT_LOCKED_S = 0.01, 3.0
"""After a lock was asked for anew."""
LISTENER_ENDS_S: Final = 0.5
UNLOCK_DELAY_MS: Final = 20_000
"""A queue that is somebody else's goes although a listener is at it when its lock was last renewed so long ago."""
SUSPEND_MS_MIN: Final = 10
SUSPEND_MS_MAX: Final = 30_000
SUSPEND: Final = ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT
_RESULTS: Final[dict[object, CMResult]] = {
    ConsumeOrderlyStatus.COMMIT: "CR_COMMIT",
    ConsumeOrderlyStatus.ROLLBACK: "CR_ROLLBACK",
    SUSPEND: "CR_LATER",
}


def pause_ms(asked_ms: int | None, usual_ms: int) -> int:
    """How long a queue that was put off waits.  asked_ms: by the listener.  Source: `submitConsumeRequestLater`."""
    wanted_ms = usual_ms if asked_ms in (None, -1) else asked_ms
    assert wanted_ms is not None
    return min(max(wanted_ms, SUSPEND_MS_MIN), SUSPEND_MS_MAX)


def _together(messages: Sequence[ReceivedMessage]) -> int:
    """How many of the first are one batch.  A damaged one is alone: it is given up, and a batch only as a whole."""
    return next((max(at, 1) for at, message in enumerate(messages) if message.damaged), len(messages))


class Orderly:
    """For one consumer.  locks: None where all members get all messages."""

    def __init__(self, consuming: Consuming, locks: QueueLocks | None) -> None:
        self._own = consuming
        self._locks = locks
        self._at_work: dict[ProcessQueue, trio.Event] = {}
        """Queues of which a listener has something now, and what it sets when it has ended."""

    def submit(self, messages: Sequence[ReceivedMessage], queue: MessageQueue, held: ProcessQueue) -> None:
        """A task for the queue, unless one is at it."""
        if held.put(messages):
            self._own.nursery.start_soon(self._work, queue, held)

    async def let_go(self, held: ProcessQueue) -> bool:
        """No listener has anything of the queue any more.  Source: `RebalancePushImpl.tryRemoveOrderMessageQueue`."""
        if self._locks is None or mono_ms() > held.last_lock_ms + UNLOCK_DELAY_MS:
            return True
        with trio.move_on_after(LISTENER_ENDS_S):
            while (ended := self._at_work.get(held)) is not None:
                await ended.wait()
        return held not in self._at_work

    def context(self, queue: MessageQueue) -> ConsumeOrderlyContext:
        """Java's defaults."""
        return ConsumeOrderlyContext(queue)

    def outcome(self, status: object) -> CMResult:
        """There are four."""
        return _RESULTS.get(status, "CR_SUCCESS")

    async def run(self) -> None:
        """The locks are asked for again and again."""
        if self._locks is None:
            return
        await trio.sleep(FIRST_RENEWAL_S)
        while True:
            await self._locks.renew(self._own.queues)
            await trio.sleep(RENEWAL_S)

    async def _work(self, queue: MessageQueue, held: ProcessQueue) -> None:
        """Until nothing waits, or the queue is somebody else's."""
        while not (held.dropped or self._own.stopping):
            if not self._is_ours(held):
                await trio.sleep(LOCKED_S)
                await trio.sleep(LOCKED_S if await self._locked(queue, held) else NOT_LOCKED_S)
                continue
            taken = held.take(self._own.settings.consume_message_batch_max_size, mono_ms())
            if not taken:
                return
            messages = [message for message in taken if isinstance(message, ReceivedMessage)]
            together = _together(messages)
            held.consume_again(messages[together:])
            messages = messages[:together]
            with self._own.working:
                waits_ms = await self._consume(messages, queue, held)
            if waits_ms:
                await trio.sleep(waits_ms / 1e3)

    def _is_ours(self, held: ProcessQueue) -> bool:
        return self._locks is None or (held.locked and not held.lock_expired(mono_ms()))

    async def _locked(self, queue: MessageQueue, held: ProcessQueue) -> bool:
        if held.dropped or self._locks is None or not await self._locks.lock(queue):
            return False
        held.locked = True
        held.last_lock_ms = mono_ms()
        return True

    async def _consume(self, messages: Sequence[ReceivedMessage], queue: MessageQueue, held: ProcessQueue) -> int:
        """One batch once.  How many milliseconds the queue waits then."""
        context = self.context(self._own.shown(messages, queue))

        def begins() -> bool:
            if held.dropped or self._own.stopping or not self._is_ours(held):
                return False
            self._at_work[held] = trio.Event()
            return True

        try:
            called = await self._own.listening.call(messages, context, begins)
        finally:
            if (ended := self._at_work.pop(held, None)) is not None:
                ended.set()
        if called is None:
            held.consume_again(messages)
            return 0
        self._own.rates_of(queue.topic).consume_ms.add(called.took_ms)
        return await self._judged(messages, called, context, queue, held)

    async def _judged(
        self,
        messages: Sequence[ReceivedMessage],
        called: Called,
        context: ConsumeOrderlyContext,
        queue: MessageQueue,
        held: ProcessQueue,
    ) -> int:
        """What becomes of a batch.  Source: `processConsumeResult`."""
        status = SUSPEND if called.error is not None else called.status or ConsumeOrderlyStatus.SUCCESS
        rates = self._own.rates_of(queue.topic)
        offset = None
        pause = False
        if status is SUSPEND:
            rates.failed.add(len(messages))
            pause = await self._put_off(messages)
            if pause:
                held.consume_again(messages)
            elif context.auto_commit:
                offset = held.commit()
        elif context.auto_commit:
            rates.consumed.add(len(messages))
            offset = held.commit()
        elif status is ConsumeOrderlyStatus.COMMIT:
            offset = held.commit()
        elif status is ConsumeOrderlyStatus.ROLLBACK:
            held.rollback()
            pause = True
        else:
            rates.consumed.add(len(messages))
        if offset is not None and not held.dropped:
            self._own.progress.table.update(queue, offset, increase_only=False)
        if not pause:
            return 0
        return pause_ms(context.suspend_current_queue_time_ms, self._own.settings.suspend_current_queue_time_ms)

    async def _put_off(self, messages: Sequence[ReceivedMessage]) -> bool:
        """Count a try more; those that have none left go to the broker.  Whether any of the batch is to be tried here again.

        Then all are, also those that were just sent away.  Source: `checkReconsumeTimes`.
        """
        again = False
        for message in messages:
            if message.damaged and self._own.settings.broadcasting:  # no group has its dead letters
                self._own.client.log.warning("%s was not consumed, and will not come again", repr(message))
                continue
            if message.damaged or message.reconsume_times >= self._own.settings.max_retries_asked_for:
                try:
                    await self._own.giving_back.send_copy(message)
                    continue
                except ClientError as error:
                    self._own.client.log.warning("%s is not given up: %s", repr(message), str(error))
            message.tried_here += 1
            again = True
        return again
