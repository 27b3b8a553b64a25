"""For how long a request may wait for its turn before it is answered 2 instead of being served.

Only what stands in a backlog waits here: a request is served in the turn that read it, unless that turn had no room for it.  Its
waiting begins when its bytes were read.  A peer that does not take its answers, or waits for one that takes long, makes its own
requests wait: that does not count.

Java: `BrokerFastFailure.cleanExpiredRequest`, which looks every 10 ms at the heads of its queues.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from broker_impl.engine.answers import Reply
from rmq_wire.codes import ResponseCode
from rmq_wire.command import RESPONSE, Command, Unreadable

REMARK: Final = "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, period in queue: %dms, size of queue: %d"

Patience = Mapping[int, Callable[[], int | None]]
"""Code -> for how many ms such a request may wait, at this moment; None: for as long as it takes."""


def is_late(patience: Patience, command: Command | Unreadable, waited_ms: int) -> bool:
    """It has waited for so long that its asker has most likely given up, or tries another broker at once when told."""
    if not isinstance(command, Command) or command.flag & RESPONSE:
        return False
    most = patience.get(command.code)
    most_ms = None if most is None else most()
    return most_ms is not None and waited_ms >= most_ms


def late_reply(waited_ms: int, waiting: int) -> Reply:
    """`waiting`: connections whose requests wait, too.  *Differs*: Java gives the length of its queue."""
    return Reply(code=ResponseCode.SYSTEM_BUSY, remark=REMARK % (waited_ms, waiting))
