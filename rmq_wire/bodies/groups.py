"""Subscription groups as JSON: one group's configuration, the table of a broker, what is forbidden to whom."""

from __future__ import annotations

from typing import Any

from msgspec import field

from rmq_wire.bodies.body import Body
from rmq_wire.bodies.data_version import DataVersion


class GroupRetryPolicy(Body):
    """How the proxy spaces retries; the broker only keeps it (`GroupRetryPolicy`)."""

    customized_retry_policy: dict[str, Any] | None = None
    exponential_retry_policy: dict[str, Any] | None = None
    type: str = "CUSTOMIZED"


class SubscriptionGroupConfig(Body):
    """One consumer group (`SubscriptionGroupConfig`), with its class defaults.  `consume_timeout_minute` in minutes."""

    group_name: str = ""
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    consume_message_orderly: bool = False
    retry_queue_nums: int = 1
    retry_max_times: int = 16
    group_retry_policy: GroupRetryPolicy = field(default_factory=GroupRetryPolicy)
    broker_id: int = 0
    which_broker_when_consume_slowly: int = 1
    notify_consumer_ids_changed_enable: bool = True
    group_sys_flag: int = 0
    consume_timeout_minute: int = 15
    subscription_data_set: list[dict[str, Any]] | None = None
    attributes: dict[str, str] = field(default_factory=dict)


class SubscriptionGroupTable(Body):
    """Answer 201 (`SubscriptionGroupWrapper`) and `subscriptionGroup.json`."""

    data_version: DataVersion = field(default_factory=DataVersion)
    forbidden_table: dict[str, dict[str, int]] = field(default_factory=dict)
    subscription_group_table: dict[str, SubscriptionGroupConfig] = field(default_factory=dict)


class SubscriptionGroupList(Body):
    """Request 225."""

    group_config_list: list[SubscriptionGroupConfig] = field(default_factory=list)


class GroupForbidden(Body):
    """Answer 353: may this group read this topic?"""

    group: str = ""
    readable: bool | None = None
    topic: str = ""
