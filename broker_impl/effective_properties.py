"""The properties that a broker obeys, with their types, by the Java class that declares them.

Made from `config_keys.json` by `make pages`; change that, not this.
"""

from __future__ import annotations


class EffectiveProperties:
    """Typed attributes, set by `broker_impl.properties.Properties`: Java's names in snake case."""

    # BrokerIdentity
    broker_cluster_name: str
    broker_id: int
    broker_name: str
    # BrokerConfig
    allow_recall_when_broker_not_writeable: bool
    auto_create_subscription_group: bool
    auto_create_topic_enable: bool
    auto_delete_unused_stats: bool
    broker_ip1: str
    broker_ip2: str
    broker_permission: int
    broker_topic_enable: bool
    channel_expired_timeout: int
    clear_retry_topic_when_delete_topic: bool
    cluster_topic_enable: bool
    compressed_register: bool
    config_black_list: str
    consumer_offset_update_version_step: int
    default_topic_queue_nums: int
    delay_offset_update_version_step: int
    enable_create_sys_group: bool
    enable_detail_stat: bool
    enable_mixed_message_type: bool
    enable_property_filter: bool
    enable_register_producer: bool
    enable_single_topic_register: bool
    enable_split_metadata: bool
    enable_split_registration: bool
    flush_consumer_offset_interval: int
    force_register: bool
    lite_pull_message_enable: bool
    long_polling_enable: bool
    max_stats_idle_time_in_minutes: int
    msg_trace_topic_name: str
    namesrv_addr: str | None
    notify_consumer_ids_changed_enable: bool
    recall_message_enable: bool
    region_id: str
    register_broker_timeout_mills: int
    register_name_server_period: int
    reject_pull_consumer_enable: bool
    reject_transaction_message: bool
    revive_queue_num: int
    short_polling_time_mills: int
    split_metadata_size: int
    split_registration_size: int
    start_accept_send_request_time_stamp: int
    subscription_expired_timeout: int
    trace_on: bool
    trace_topic_enable: bool
    transaction_check_interval: int
    transaction_check_max: int
    transaction_metric_flush_interval: int
    transaction_op_batch_interval: int
    transaction_op_msg_max_size: int
    transaction_time_out: int
    use_server_side_reset_offset: bool
    validate_system_topic_when_update_topic: bool
    # NettyServerConfig
    bind_address: str
    listen_port: int
    server_channel_max_idle_time_seconds: int
    # NettyClientConfig
    connect_timeout_millis: int
    # MessageStoreConfig
    access_message_in_memory_max_ratio: int
    append_topic_for_timer_delete_key: bool
    clean_file_forcibly_enable: bool
    clean_resource_interval: int
    default_query_max_num: int
    delete_commit_log_files_interval: int
    delete_consume_queue_files_interval: int
    delete_file_batch_max: int
    delete_when: str
    disk_max_used_space_ratio: int
    disk_space_clean_forcibly_ratio: int
    disk_space_warning_level_ratio: int
    enable_consume_queue_ext: bool
    enable_lmq: bool
    enable_multi_dispatch: bool
    enable_schedule_message_stats: bool
    enabled_append_prop_crc: bool
    file_reserved_time: int
    flush_commit_log_least_pages: int
    flush_commit_log_thorough_interval: int
    flush_commit_log_timed: bool
    flush_consume_queue_least_pages: int
    flush_consume_queue_thorough_interval: int
    flush_delay_offset_interval: int
    flush_disk_type: str
    flush_interval_commit_log: int
    flush_interval_consume_queue: int
    force_verify_prop_crc: bool
    ha_listen_port: int
    mapped_file_size_commit_log: int
    mapped_file_size_consume_queue: int
    mapped_file_size_consume_queue_ext: int
    mapped_file_size_timer_log: int
    mapper_file_size_batch_consume_queue: int
    max_hash_slot_num: int
    max_index_num: int
    max_lmq_consume_queue_num: int
    max_message_size: int
    max_transfer_bytes_on_message_in_disk: int
    max_transfer_bytes_on_message_in_memory: int
    max_transfer_count_on_message_in_disk: int
    max_transfer_count_on_message_in_memory: int
    message_delay_level: str
    message_index_enable: bool
    read_only_commit_log_store_paths: str | None
    redelete_hanged_file_interval: int
    store_path_commit_log: str | None
    store_path_root_dir: str
    sync_flush_timeout: int
    timer_congest_num_each_slot: int
    timer_flush_interval_ms: int
    timer_max_delay_sec: int
    timer_precision_ms: int
    timer_roll_window_slot: int
    timer_stop_enqueue: bool
    timer_wheel_enable: bool
