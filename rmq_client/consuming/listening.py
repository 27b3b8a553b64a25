"""What an application does with messages: its listener, async or a plain function in a thread, so many at once.

Source: `MessageListenerConcurrently`, `ConsumeConcurrentlyContext`, `ConsumeMessageConcurrentlyService.processConsumeResult`.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import Enum

import trio

from rmq_client.consuming.received import ReceivedMessage
from rmq_client.errors import CallerError
from rmq_net.log import Log
from rmq_wire.fastjson import MessageQueue


class ConsumeConcurrentlyStatus(Enum):
    """What a listener says.  None is the first, an exception the second."""

    CONSUME_SUCCESS = 0
    RECONSUME_LATER = 1


@dataclass(slots=True)
class ConsumeConcurrentlyContext:
    """What a listener may set: which of a batch it has done, and when the others come again.

    `ack_index`: up to and with this one they are done.  `delay_level_when_next_consume`: -1 dead letters, 0 the broker chooses.
    """

    queue: MessageQueue
    delay_level_when_next_consume: int = 0
    ack_index: int | None = None


Outcome = ConsumeConcurrentlyStatus | None
Listener = Callable[[Sequence[ReceivedMessage], ConsumeConcurrentlyContext], Outcome | Awaitable[Outcome]]


def acknowledged(count: int, status: Outcome, ack_index: int | None) -> int:
    """How many of a batch are done, from its first on.  Source: `processConsumeResult`."""
    if status is ConsumeConcurrentlyStatus.RECONSUME_LATER:
        return 0
    return count if ack_index is None else max(0, min(ack_index + 1, count))


class Listening:
    """Calls a listener, at most so many times at once."""

    def __init__(self, listener: Listener, most: int, log: Log) -> None:
        self._listener = listener
        call = listener if inspect.isroutine(listener) else type(listener).__call__
        self._is_async = inspect.iscoroutinefunction(call)
        self._limiter = trio.CapacityLimiter(most)
        self._threads = trio.CapacityLimiter(math.inf)
        self._log = log

    @property
    def most(self) -> int:
        """How many at once; may be set."""
        return int(self._limiter.total_tokens)

    @most.setter
    def most(self, most: int) -> None:
        if most < 1:
            raise CallerError("consume_thread_max must be at least 1")
        self._limiter.total_tokens = most

    async def call(
        self,
        messages: Sequence[ReceivedMessage],
        context: ConsumeConcurrentlyContext,
        begins: Callable[[], bool],
    ) -> tuple[bool, Outcome]:
        """Wait for a turn, ask `begins` whether it is still wanted, call.  Whether it was called, and what it said."""
        async with self._limiter:
            if not begins():
                return False, None
            try:
                if self._is_async:
                    outcome = self._listener(messages, context)
                    assert inspect.isawaitable(outcome)
                    return True, await outcome
                found = await trio.to_thread.run_sync(
                    self._listener, messages, context, abandon_on_cancel=True, limiter=self._threads
                )
                assert not inspect.isawaitable(found)
                return True, found
            except Exception as error:
                self._log.error("a listener failed", error=error)
                return True, ConsumeConcurrentlyStatus.RECONSUME_LATER
