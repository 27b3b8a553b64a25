"""Settings that nothing could run by are refused, by their names, before anything is asked."""

from __future__ import annotations

import math
from typing import Any

import pytest

from rmq_client.consuming.subscriptions import SQL92, Subscription
from rmq_client.errors import CallerError
from rmq_client.settings import ClientSettings, ConsumerSettings, ProducerSettings

LEAST: list[tuple[type[Any], int, tuple[str, ...]]] = [
    (
        ClientSettings,
        1,
        ("connect_timeout_ms", "mq_client_api_timeout_ms", "poll_name_server_interval_ms", "heartbeat_broker_interval_ms"),
    ),
    (
        ConsumerSettings,
        1,
        (
            "consume_thread_max",
            "consume_message_batch_max_size",
            "pull_batch_size",
            "pull_threshold_for_queue",
            "pull_threshold_size_for_queue",
            "consume_concurrently_max_span",
            "consume_timeout_ms",
            "persist_consumer_offset_interval_ms",
            "rebalance_interval_ms",
        ),
    ),
    (ConsumerSettings, 0, ("pull_interval_ms", "suspend_current_queue_time_ms", "await_termination_ms")),
    (ConsumerSettings, -1, ("max_reconsume_times",)),
    (
        ProducerSettings,
        1,
        (
            "send_msg_timeout_ms",
            "send_msg_max_timeout_per_request_ms",
            "max_message_size",
            "default_topic_queue_nums",
            "detect_timeout_ms",
            "detect_interval_ms",
        ),
    ),
    (ProducerSettings, 0, ("retry_times_when_send_failed", "compress_msg_body_over_howmuch")),
]


@pytest.mark.parametrize(("kind", "least", "name"), [(kind, least, name) for kind, least, names in LEAST for name in names])
def test_what_is_too_little_or_no_number(kind: type[Any], least: int, name: str) -> None:
    assert getattr(kind(**{name: least}), name) == least
    for wrong in (least - 1, math.nan, math.inf, "5", True):
        with pytest.raises(CallerError, match=name):
            kind(**{name: wrong})


@pytest.mark.parametrize("kind", ["TAG", SQL92])
def test_an_expression_that_no_encoding_takes(kind: str) -> None:
    with pytest.raises(CallerError, match="UTF-8"):
        Subscription("a = '\ud800'", kind)
