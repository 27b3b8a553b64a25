"""What an application does with messages: its listener, async or a plain function in a thread, so many at once.

Source: `MessageListenerConcurrently`, `ConsumeConcurrentlyContext`, `ConsumeMessageConcurrentlyService.processConsumeResult`,
`MessageListenerOrderly`, `ConsumeOrderlyContext`.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, Protocol

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


class ConsumeOrderlyStatus(Enum):
    """What an orderly listener says.  None is the first, an exception the last; the middle two are for `auto_commit=False`."""

    SUCCESS = 0
    ROLLBACK = 1
    COMMIT = 2
    SUSPEND_CURRENT_QUEUE_A_MOMENT = 3


@dataclass(slots=True)
class ConsumeOrderlyContext:
    """What an orderly listener may set.

    `auto_commit`: False, and SUCCESS only goes on: progress waits for COMMIT, and ROLLBACK puts all back since the last one.
    `suspend_current_queue_time_ms`: 10 to 30,000, until a queue that was put off is tried again; None: as the settings say.
    """

    queue: MessageQueue
    auto_commit: bool = True
    suspend_current_queue_time_ms: int | None = None


Context = ConsumeConcurrentlyContext | ConsumeOrderlyContext
Outcome = ConsumeConcurrentlyStatus | ConsumeOrderlyStatus | None
Listener = (
    Callable[[Sequence[ReceivedMessage], ConsumeConcurrentlyContext], Outcome | Awaitable[Outcome]]
    | Callable[[Sequence[ReceivedMessage], ConsumeOrderlyContext], Outcome | Awaitable[Outcome]]
)


class ConsumeReturnType(Enum):
    """How a call of a listener ended, in one word.  Source: `ConsumeReturnType`, for hooks `ConsumeContextType`."""

    SUCCESS = 0
    TIME_OUT = 1
    EXCEPTION = 2
    RETURNNULL = 3
    """It returned nothing, which is a success here."""
    FAILED = 4


PUT_OFF = (ConsumeConcurrentlyStatus.RECONSUME_LATER, ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT)


class Called(NamedTuple):
    """How a call went."""

    status: Outcome
    error: Exception | None
    took_ms: int


@dataclass(slots=True)
class ConsumeContext:
    """What hooks see of one call.  `called`, `return_type`: afterwards.  `kept`: a hook's own, from before to after."""

    group: str
    messages: Sequence[ReceivedMessage]
    queue: MessageQueue
    called: Called | None = None
    return_type: ConsumeReturnType | None = None
    kept: dict[str, object] = field(default_factory=dict)


class ConsumeHook(Protocol):
    """Looks on.  What it raises is logged and stops nothing.  Java: `ConsumeMessageHook`."""

    def before(self, context: ConsumeContext) -> None:
        """Before a listener is called."""

    def after(self, context: ConsumeContext) -> None:
        """When it has returned or raised."""


def return_type(called: Called, timeout_ms: int) -> ConsumeReturnType:
    """What hooks are told of a call.  Source: `ConsumeRequest.run` of both services."""
    if called.error is not None:
        return ConsumeReturnType.EXCEPTION
    if called.status is None:
        return ConsumeReturnType.RETURNNULL
    if called.took_ms >= timeout_ms:
        return ConsumeReturnType.TIME_OUT
    return ConsumeReturnType.FAILED if called.status in PUT_OFF else ConsumeReturnType.SUCCESS


def acknowledged(count: int, status: Outcome, ack_index: int | None) -> int:
    """How many of a batch are done, from its first on.  Source: `processConsumeResult`."""
    if status is ConsumeConcurrentlyStatus.RECONSUME_LATER:
        return 0
    return count if ack_index is None else max(0, min(ack_index + 1, count))


def is_async(listener: Listener) -> bool:
    """It is awaited, else it runs in a thread."""
    call = listener if inspect.isroutine(listener) else type(listener).__call__
    return inspect.iscoroutinefunction(call)


class Listening:
    """Calls a listener, at most so many times at once.  `working`: how many batches are in its hands or wait for that."""

    def __init__(
        self,
        listener: Listener,
        most: int,
        log: Log,
        *,
        group: str = "",
        hooks: Sequence[ConsumeHook] = (),
        timeout_ms: int,
    ) -> None:
        """group: as its caller knows it.  timeout_ms: from then on hooks are told that a call was late."""
        self._listener = listener
        self._group = group
        self._hooks = tuple(hooks)
        self._timeout_ms = timeout_ms
        self._is_async = is_async(listener)
        self._limiter = trio.CapacityLimiter(most)
        self._threads = trio.CapacityLimiter(math.inf)
        self._log = log
        self.on_more: Callable[[], None] | None = None
        """Called when there are more at once than before."""

    @property
    def most(self) -> int:
        """How many at once; may be set."""
        return int(self._limiter.total_tokens)

    @most.setter
    def most(self, most: int) -> None:
        if most < 1:
            raise CallerError("consume_thread_max must be at least 1")
        self._limiter.total_tokens = most
        if self.on_more is not None:
            self.on_more()

    async def call(self, messages: Sequence[ReceivedMessage], context: Context, begins: Callable[[], bool]) -> Called | None:
        """Wait for a turn, ask `begins` whether it is still wanted, call.  None: it was not."""
        async with self._limiter:
            return await self.call_in_turn(messages, context) if begins() else None

    async def call_in_turn(self, messages: Sequence[ReceivedMessage], context: Context) -> Called:
        """The same for who has its turn already: hooks look on."""
        if not self._hooks:
            return await self.call_now(messages, context)
        seen = ConsumeContext(self._group, messages, context.queue)
        for hook in self._hooks:
            self._tell(hook.before, seen)
        called = seen.called = await self.call_now(messages, context)
        seen.return_type = return_type(called, self._timeout_ms)
        for hook in self._hooks:
            self._tell(hook.after, seen)
        return called

    def _tell(self, hook: Callable[[ConsumeContext], None], seen: ConsumeContext) -> None:
        try:
            hook(seen)
        except Exception as error:
            self._log.error("a consume hook failed", error=error)

    async def call_now(self, messages: Sequence[ReceivedMessage], context: Context) -> Called:
        """The same beside all turns and hooks."""
        began_s = trio.current_time()
        status, failed = None, None
        try:
            status = await self._call(messages, context)
        except Exception as error:
            self._log.error("a listener failed", error=error)
            failed = error
        return Called(status, failed, int((trio.current_time() - began_s) * 1e3))

    async def _call(self, messages: Sequence[ReceivedMessage], context: Context) -> Outcome:
        if self._is_async:
            outcome = self._listener(messages, context)  # type: ignore[arg-type]  # the settings say which kind it is
            assert inspect.isawaitable(outcome)
            return await outcome
        found = await trio.to_thread.run_sync(
            self._listener,  # type: ignore[arg-type]
            messages,
            context,
            abandon_on_cancel=True,
            limiter=self._threads,
        )
        assert not inspect.isawaitable(found)
        return found
