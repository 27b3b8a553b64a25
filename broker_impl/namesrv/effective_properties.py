"""The properties that a name server obeys, with their types, by the Java class that declares them.

Made from `config_keys.json` by `make pages`; change that, not this.
"""

from __future__ import annotations


class EffectiveProperties:
    """Typed attributes, set by `broker_impl.properties.Properties`: Java's names in snake case."""

    # NamesrvConfig
    config_black_list: str
    config_store_path: str
    delete_topic_with_broker_registration: bool
    enable_all_topic_list: bool
    enable_topic_list: bool
    kv_config_path: str
    need_wait_for_service: bool
    notify_min_broker_id_changed: bool
    order_message_enable: bool
    return_order_topic_config_to_broker: bool
    scan_not_active_broker_interval: int
    support_acting_master: bool
    wait_seconds_for_service: int
    # NettyServerConfig
    bind_address: str
    listen_port: int
    server_channel_max_idle_time_seconds: int
