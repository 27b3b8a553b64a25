"""What own subjects are given: every interval that a case would otherwise wait for, and store files of a few megabytes.

Kept as they are: what clients see of it in ordinary life (delay levels, the precision of the timer, `maxMessageSize`, limits).
A case that waits reads the interval out of `Target.config`, and takes Java's default where it is not given.
Names as in BrokerConfig, MessageStoreConfig and NamesrvConfig of 5.5.0; other versions ignore the names that they do not know
(MixAll.properties2Object).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

SMALL_STORE: Final[Mapping[str, str]] = {
    "mappedFileSizeCommitLog": "16777216",
    "mappedFileSizeConsumeQueue": "60000",
    "mappedFileSizeTimerLog": "1048576",
    "maxHashSlotNum": "5000",
    "maxIndexNum": "20000",
    "diskMaxUsedSpaceRatio": "99",
}
"""Store files of a few megabytes instead of gigabytes; a test machine's disk may be fuller than a broker likes."""

PATIENT: Final[Mapping[str, str]] = {
    "waitTimeMillsInSendQueue": "60000",
    "waitTimeMillsInTransactionQueue": "60000",
    "waitTimeMillsInAckQueue": "60000",
    "waitTimeMillsInPullQueue": "60000",
    "waitTimeMillsInLitePullQueue": "60000",
    "waitTimeMillsInAdminBrokerQueue": "60000",
    "osPageCacheBusyTimeOutMills": "60000",
}
"""A busy machine is no overloaded broker (Java answers 2 to a send that waited for 200 ms)."""

ENDS_AT_ONCE: Final[Mapping[str, str]] = {"transactionOpBatchInterval": "3600000", "transactionOpMsgMaxSize": "1"}
"""Each end of a transaction is written down when it comes, and none is gathered."""

QUIET: Final[Mapping[str, str]] = {
    "transactionMetricFlushInterval": "300",
    "timerFlushIntervalMs": "10000",
    **ENDS_AT_ONCE,
}
"""What a Java broker of 5.x burns while nobody asks anything.  `TransactionMetricsFlushService` does not wait for its first
interval, it counts the milliseconds: ten seconds of a core after each start.  `TimerFlushService` compares the 37 MB of the wheel
with the file byte by byte, once a second: a seventh of a core.  `TransactionalOpBatchService` of 5.5.0 turns round without a
pause from `transactionOpBatchInterval` after the last end of a transaction on, until the next one: a whole core."""

OWN_BROKER_PROPERTIES: Final[Mapping[str, str]] = {
    **SMALL_STORE,
    **QUIET,
    # What is off by default and answers more when it is on.
    "enablePropertyFilter": "true",
    "traceTopicEnable": "true",
    "recallMessageEnable": "true",
    "timerWheelEnable": "true",
    # Transactions: half messages are asked about after 1 s instead of 6, looked at each second instead of every 30, given up
    # after 4 checks instead of 15.
    "transactionTimeOut": "1000",
    "transactionCheckInterval": "1000",
    "transactionCheckMax": "4",
    # POP: what was not acknowledged is looked for five times a second instead of each second, an idle queue as often.
    "reviveInterval": "200",
    "reviveMaxSlow": "1",
    # What a case reads off the disk is there soon.
    "flushConsumerOffsetInterval": "1000",
    "flushDelayOffsetInterval": "1000",
    # The least that Java takes: what a case took away from the name server comes back.
    "registerNameServerPeriod": "10000",
    **PATIENT,
}

OURS_ONLY: Final[Mapping[str, str]] = {"diskSpaceWarningLevelRatio": "99", "diskSpaceCleanForciblyRatio": "99"}
"""What Java takes as system properties (`java.DISK`)."""

OWN_NAMESRV_PROPERTIES: Final[Mapping[str, str]] = {"scanNotActiveBrokerInterval": "500"}
"""A broker whose heart stopped is forgotten after half a second more than it asked for, instead of five."""

LOCK_LIVES: Final = "rocketmq.broker.rebalance.lockMaxLiveTime"
OWN_JAVA_SYSTEM_PROPERTIES: Final[Mapping[str, str]] = {LOCK_LIVES: "5000"}
"""A queue's lock that nobody renews lives 5 s instead of 60 (RebalanceLockManager); in `Target.config` under the same name."""
