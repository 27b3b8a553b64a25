"""Units that `rmq inspect repair` puts into the place of lost ones: brokers walk over them, no queue and no index has them."""

from __future__ import annotations

from typing import Final

from rmq_wire.message import StoredMessage
from rmq_wire.sys_flag import TRANSACTION_ROLLBACK

FILLER_TOPIC: Final = "RMQ_INSPECT_REPAIR_FILLER"
"""Short ones have a beginning of it."""


def is_filler(unit: StoredMessage) -> bool:
    """Whether this is one, and no message that anybody sent."""
    return (
        unit.sys_flag == TRANSACTION_ROLLBACK
        and not unit.properties
        and FILLER_TOPIC.encode().startswith(unit.topic)
        and not (unit.queue_id or unit.queue_offset)
    )
