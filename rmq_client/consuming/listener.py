"""What a listener is: what it gets, what it may set and say, and what that means.

Source: `MessageListenerConcurrently`, `ConsumeConcurrentlyContext`, `ConsumeMessageConcurrentlyService.processConsumeResult`,
`MessageListenerOrderly`, `ConsumeOrderlyContext`.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Final, NamedTuple, Protocol

from rmq_client.consuming.received import ReceivedMessage
from rmq_wire.fastjson import MessageQueue


class ConsumeConcurrentlyStatus(Enum):
    """What a listener says.  None is the first, an exception or anything else the second."""

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
    """What an orderly listener says.

    None is the first, an exception or anything else the last; the middle two are for `auto_commit=False`.
    """

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


_STATUSES: Final = {ConsumeConcurrentlyContext: ConsumeConcurrentlyStatus, ConsumeOrderlyContext: ConsumeOrderlyStatus}


def checked(status: object, context: Context) -> Outcome:
    """What a listener returned, where it and what was set in `context` have a meaning; else nothing is done.

    Raises `TypeError`, and puts the context's default in the place of what is wrong: it is read once more.
    """
    for one in fields(context):
        value = getattr(context, one.name)
        if one.name == "queue" or (value is None and one.default is None):
            continue
        kind = bool if one.name == "auto_commit" else int
        if type(value) is not kind or (kind is int and not -(1 << 31) <= value < 1 << 31):
            setattr(context, one.name, one.default)
            raise TypeError(f"the listener set {one.name} to {value!r}")
    known = _STATUSES[type(context)]
    if status is None:
        return None
    if isinstance(status, ConsumeConcurrentlyStatus | ConsumeOrderlyStatus) and type(status) is known:
        return status
    if inspect.iscoroutine(status):
        status.close()
        raise TypeError("the listener is a plain function that returned a coroutine: make it async, or wait for what it calls")
    raise TypeError(f"the listener returned {status!r}: nothing, or a {known.__name__}, would be understood")


def is_async(listener: Listener) -> bool:
    """It is awaited, else it runs in a thread."""
    return inspect.iscoroutinefunction(listener) or inspect.iscoroutinefunction(type(listener).__call__)
