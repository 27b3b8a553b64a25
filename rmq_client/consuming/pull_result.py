"""What comes of a pull."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from rmq_client.consuming.received import ReceivedMessage
from rmq_client.errors import BrokerError, ClientError
from rmq_wire.codes import ResponseCode


class PullStatus(Enum):
    """Source: `PullStatus`, `MQClientAPIImpl.processPullResponse`."""

    FOUND = ResponseCode.SUCCESS
    NO_NEW_MSG = ResponseCode.PULL_NOT_FOUND
    NO_MATCHED_MSG = ResponseCode.PULL_RETRY_IMMEDIATELY
    OFFSET_ILLEGAL = ResponseCode.PULL_OFFSET_MOVED


STATUS_OF: Final = {int(one.value): one for one in PullStatus}


@dataclass(frozen=True, slots=True)
class PullResult:
    """`messages`: those that are wanted, in order.  Go on with `next_offset`; the queue has `min_offset` up to `max_offset`."""

    status: PullStatus
    next_offset: int
    min_offset: int
    max_offset: int
    messages: tuple[ReceivedMessage, ...]


ERROR_PAUSE_S: Final = 3.0
BUSY_PAUSE_S: Final = 0.02
"""The broker has enough to do just now."""
FRUITLESS_S: Final = 1.0
"""A broker that was to hold a pull, and answers at once that nothing is there and nothing goes on, is not asked without end."""


def pause_after(error: ClientError) -> float:
    """Seconds until a queue is pulled again whose pull failed.  Source: `PullCallback.onException` of the push consumer."""
    return BUSY_PAUSE_S if isinstance(error, BrokerError) and error.code == ResponseCode.FLOW_CONTROL else ERROR_PAUSE_S


def ask_again_s(began_s: float, hold_ms: int) -> float:
    """When a queue is pulled again whose pull, begun then, brought nothing and moved nothing: at once where it was held."""
    return began_s + min(hold_ms / 1e3, FRUITLESS_S)
