"""Which requests are answered 2 when they have waited too long for their turn, and which property says how long that is.

Java: `BrokerFastFailure`.  Left out are requests of administration (`waitTimeMillsInAdminBrokerQueue`), which wait as long as it
takes, and what Java answers when its page cache is slow: see docs/differences.md.
"""

from __future__ import annotations

from collections.abc import Callable

from broker_impl.config import BrokerConfig
from broker_impl.engine.patience import Patience
from rmq_wire.codes import RequestCode as Code


def patience(config: BrokerConfig) -> Patience:
    """As the configuration says it at the moment of asking."""

    def unless_off(wait_ms: Callable[[], int]) -> Callable[[], int | None]:
        return lambda: wait_ms() if config.broker_fast_failure_enable else None

    send = unless_off(lambda: config.wait_time_mills_in_send_queue)
    return {
        Code.SEND_MESSAGE: send,
        Code.SEND_MESSAGE_V2: send,
        Code.SEND_BATCH_MESSAGE: send,
        Code.CONSUMER_SEND_MSG_BACK: send,
        Code.RECALL_MESSAGE: send,
        Code.PULL_MESSAGE: unless_off(lambda: config.wait_time_mills_in_pull_queue),
        Code.LITE_PULL_MESSAGE: unless_off(lambda: config.wait_time_mills_in_lite_pull_queue),
        Code.HEART_BEAT: unless_off(lambda: config.wait_time_mills_in_heartbeat_queue),
        Code.END_TRANSACTION: unless_off(lambda: config.wait_time_mills_in_transaction_queue),
    }
