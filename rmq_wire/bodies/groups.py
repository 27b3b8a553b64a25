"""Subscription groups as JSON: one group's configuration, the table of a broker, what is forbidden to whom."""

from __future__ import annotations

from msgspec import field

from rmq_wire.bodies.body import Body
from rmq_wire.bodies.data_version import DataVersion
from rmq_wire.bodies.enumerations import GroupRetryPolicyType
from rmq_wire.declare import I32, I64

_RETRY_SECONDS = (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)


class CustomizedRetryPolicy(Body):
    """The milliseconds between the tries, one by one."""

    next: list[I64] = field(default_factory=lambda: [1000 * seconds for seconds in _RETRY_SECONDS])


class ExponentialRetryPolicy(Body):
    """Milliseconds: `initial`, each time `multiplier` times as much, at most `max`."""

    initial: I64 = 5_000
    max: I64 = 2 * 3_600_000
    multiplier: I64 = 2


class GroupRetryPolicy(Body):
    """How the proxy spaces retries; the broker only keeps it (`GroupRetryPolicy`)."""

    customized_retry_policy: CustomizedRetryPolicy | None = None
    exponential_retry_policy: ExponentialRetryPolicy | None = None
    type: GroupRetryPolicyType = "CUSTOMIZED"


class SimpleSubscriptionData(Body):
    """One topic of a group whose subscriptions are configured (`SimpleSubscriptionData`).  `version` in wall milliseconds."""

    topic: str | None = None
    expression_type: str | None = None
    expression: str | None = None
    version: I64 = 0


class SubscriptionGroupConfig(Body):
    """One consumer group (`SubscriptionGroupConfig`), with its class defaults.  `consume_timeout_minute` in minutes."""

    group_name: str = ""
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    consume_message_orderly: bool = False
    retry_queue_nums: I32 = 1
    retry_max_times: I32 = 16
    group_retry_policy: GroupRetryPolicy = field(default_factory=GroupRetryPolicy)
    broker_id: I64 = 0
    which_broker_when_consume_slowly: I64 = 1
    notify_consumer_ids_changed_enable: bool = True
    group_sys_flag: I32 = 0
    consume_timeout_minute: I32 = 15
    subscription_data_set: list[SimpleSubscriptionData] | None = None
    attributes: dict[str, str] = field(default_factory=dict)


class SubscriptionGroupTable(Body):
    """Answer 201 (`SubscriptionGroupWrapper`) and `subscriptionGroup.json`."""

    data_version: DataVersion = field(default_factory=DataVersion)
    forbidden_table: dict[str, dict[str, I32]] = field(default_factory=dict)
    subscription_group_table: dict[str, SubscriptionGroupConfig] = field(default_factory=dict)


class SubscriptionGroupList(Body):
    """Request 225."""

    group_config_list: list[SubscriptionGroupConfig] = field(default_factory=list)


class GroupForbidden(Body):
    """Answer 353: may this group read this topic?"""

    group: str = ""
    readable: bool | None = None
    topic: str = ""
