"""What a listener is: what it gets, what it may set and say, and what that means.

Source: `MessageListenerConcurrently`, `ConsumeConcurrentlyContext`, `ConsumeMessageConcurrentlyService.processConsumeResult`,
`MessageListenerOrderly`, `ConsumeOrderlyContext`.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, Protocol

from rmq_client.consuming.received import ReceivedMessage
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
