"""What a client and its producers are told, by Java's names in our spelling, with Java's defaults."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rmq_client.errors import CallerError
from rmq_wire import names
from rmq_wire.bodies.heartbeat import BROADCASTING, CLUSTERING
from rmq_wire.codes import ResponseCode

RETRY_RESPONSE_CODES: Final = frozenset(
    {
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.NO_PERMISSION,
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.NO_BUYER_ID,
        ResponseCode.NOT_IN_CURRENT_UNIT,
        ResponseCode.GO_AWAY,
    }
)
"""After these another broker may do better.  Source: `DefaultMQProducer.retryResponseCodes`."""


def _at_least(least: int, settings: object, *names: str) -> None:
    """Raises `CallerError` for one that is less, or no number."""
    for name in names:
        value = getattr(settings, name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value < math.inf:
            raise CallerError(f"{name} must be a number of at least {least}, not {value!r}")


@dataclass(frozen=True, kw_only=True, slots=True)
class ClientSettings:
    """Of one client, which all its producers and consumers share.  Times in milliseconds.  Java: `ClientConfig`."""

    namespace: str = ""
    instance_name: str | None = None
    """Half of the client id, `ip@instance_name`; None: one that no other process has."""
    connect_timeout_ms: int = 3_000
    mq_client_api_timeout_ms: int = 3_000
    poll_name_server_interval_ms: int = 30_000
    heartbeat_broker_interval_ms: int = 30_000
    use_heartbeat_v2: bool = False
    """Say again only that nothing has changed, to brokers that know that form (5.0 on)."""

    def __post_init__(self) -> None:
        _at_least(1, self, "connect_timeout_ms", "mq_client_api_timeout_ms")
        _at_least(1, self, "poll_name_server_interval_ms", "heartbeat_broker_interval_ms")


@dataclass(frozen=True, kw_only=True, slots=True)
class ConsumerSettings:
    """Of one push consumer.  Times in milliseconds, sizes in bytes.  Java: `DefaultMQPushConsumer`."""

    consume_from_where: str = "CONSUME_FROM_LAST_OFFSET"
    """Where a queue begins that the group has no progress of: or CONSUME_FROM_FIRST_OFFSET, CONSUME_FROM_TIMESTAMP."""
    consume_timestamp_ms: int | None = None
    """Of CONSUME_FROM_TIMESTAMP, wall milliseconds; None: half an hour before a queue is begun."""
    message_model: str = "CLUSTERING"
    """Members share the messages; or BROADCASTING: each gets all, and keeps its progress in a file of its own machine."""
    orderly: bool = False
    """One batch of a queue after the other, each until it is done."""
    local_offset_store_dir: Path | None = None
    """Of broadcasting consumers; None: `~/.rocketmq_offsets`.  Java: `rocketmq.client.localOffsetStoreDir`."""
    consume_thread_max: int = 20
    """Listeners at once."""
    consume_message_batch_max_size: int = 1
    pull_batch_size: int = 32
    pull_interval_ms: int = 0
    pull_threshold_for_queue: int = 1_000
    pull_threshold_size_for_queue: int = 100 << 20
    pull_threshold_for_topic: int = -1
    """Messages that are here of all queues together, a share for each; -1: the limit of a queue counts."""
    pull_threshold_size_for_topic: int = -1
    """The same in bytes."""
    consume_concurrently_max_span: int = 2_000
    consume_timeout_ms: int = 900_000
    suspend_current_queue_time_ms: int = 1_000
    """How long an orderly consumer waits until it tries again."""
    max_reconsume_times: int = -1
    """-1: as the group's settings at the broker say, 16 by default; an orderly consumer then never gives up."""
    persist_consumer_offset_interval_ms: int = 5_000
    rebalance_interval_ms: int = 20_000
    await_termination_ms: int = 10_000
    """How long leaving waits for listeners that are at work."""

    def __post_init__(self) -> None:
        _at_least(1, self, "consume_thread_max", "consume_message_batch_max_size", "pull_batch_size")
        _at_least(1, self, "pull_threshold_for_queue", "pull_threshold_size_for_queue", "consume_concurrently_max_span")
        _at_least(1, self, "consume_timeout_ms", "persist_consumer_offset_interval_ms", "rebalance_interval_ms")
        _at_least(0, self, "pull_interval_ms", "suspend_current_queue_time_ms", "await_termination_ms")
        _at_least(-1, self, "max_reconsume_times")
        for name in ("pull_threshold_for_topic", "pull_threshold_size_for_topic"):
            if getattr(self, name) < 1 and getattr(self, name) != -1:
                raise CallerError(f"{name} must be at least 1, or -1 for none")
        if self.consume_from_where not in FROM_WHERE:
            raise CallerError(f"consume_from_where is one of {', '.join(FROM_WHERE)}")
        if self.message_model not in (CLUSTERING, BROADCASTING):
            raise CallerError(f"message_model is {CLUSTERING} or {BROADCASTING}")

    @property
    def broadcasting(self) -> bool:
        """Each member gets all."""
        return self.message_model == BROADCASTING

    def limits_of_queue(self, queues: int) -> tuple[int, int]:
        """Messages and bytes that may be here of each of so many queues.  Source: `RebalancePushImpl.messageQueueChanged`."""
        count, size = self.pull_threshold_for_topic, self.pull_threshold_size_for_topic
        return (
            self.pull_threshold_for_queue if count == -1 else max(count // max(queues, 1), 1),
            self.pull_threshold_size_for_queue if size == -1 else max(size // max(queues, 1), _SIZE_MIN),
        )

    @property
    def max_retries_asked_for(self) -> int:
        """What a message that is given back says.

        Source: `DefaultMQPushConsumerImpl.getMaxReconsumeTimes`, `ConsumeMessageOrderlyService.getMaxReconsumeTimes`.
        """
        if self.max_reconsume_times == -1:
            return (1 << 31) - 1 if self.orderly else 16
        return self.max_reconsume_times


LEVELS: Final = {"zlib": (0, 9), "zstd": (1, 22)}
FROM_WHERE: Final = ("CONSUME_FROM_LAST_OFFSET", "CONSUME_FROM_FIRST_OFFSET", "CONSUME_FROM_TIMESTAMP")
_SIZE_MIN: Final = 1 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class ProducerSettings:
    """Of one producer.  Times in milliseconds, sizes in bytes.  Java: `DefaultMQProducer`."""

    send_msg_timeout_ms: int = 3_000
    """For all attempts of one send together, and the look-up of the route."""
    send_msg_max_timeout_per_request_ms: int | None = None
    """For one attempt, where another may follow."""
    retry_times_when_send_failed: int = 2
    retry_response_codes: frozenset[int] = RETRY_RESPONSE_CODES
    retry_another_broker_when_not_store_ok: bool = False
    compress_msg_body_over_howmuch: int = 4_096
    compress_type: str = "zlib"
    """`zlib`, `lz4` or `zstd`; the last two need pyarrow (the extra `columns`)."""
    compress_level: int = 5
    """0 to 9 of zlib, 1 to 22 of zstd; lz4 has none."""
    max_message_size: int = 4 << 20
    create_topic_key: str = names.AUTO_CREATE_TOPIC
    default_topic_queue_nums: int = 4
    enable_backpressure_for_async_mode: bool = False
    """Sends beyond the next two limits wait, within their time-out.  Here they are about all sends but one-way ones."""
    back_pressure_for_async_send_num: int = 1_024
    """Sends at once; at least 10."""
    back_pressure_for_async_send_size: int = 100 << 20
    """Bytes of their bodies; at least 1 MiB."""
    send_latency_enable: bool = False
    """Avoid brokers that were slow or failed, for a time that grows with how slow (`producing.latency`)."""
    start_detector_enable: bool = False
    """Ask brokers that failed whether they are back, before a message is risked."""
    detect_timeout_ms: int = 200
    detect_interval_ms: int = 2_000

    def __post_init__(self) -> None:
        _at_least(1, self, "send_msg_timeout_ms", "max_message_size", "default_topic_queue_nums")
        _at_least(1, self, "detect_timeout_ms", "detect_interval_ms")
        _at_least(0, self, "retry_times_when_send_failed", "compress_msg_body_over_howmuch")
        if self.send_msg_max_timeout_per_request_ms is not None:
            _at_least(1, self, "send_msg_max_timeout_per_request_ms")
        if self.compress_type not in ("zlib", "lz4", "zstd"):
            raise CallerError(f"compress_type {self.compress_type!r}: zlib, lz4 and zstd are known")
        least, most = LEVELS.get(self.compress_type, (self.compress_level, self.compress_level))
        if not least <= self.compress_level <= most:
            raise CallerError(f"compress_level {self.compress_level}: {self.compress_type} has {least} to {most}")
