"""What the store is told, from the broker's properties: once at its start, and by what it deletes, at any time."""

from __future__ import annotations

import os

from broker_impl.config import BrokerConfig
from broker_impl.engine.limits import Limits
from rmq_store.disk_space import RetentionRules, hours
from rmq_store.settings import FlushDiskType, StoreSettings


def store_settings(config: BrokerConfig, open_files_max: int = Limits().open_files_max) -> StoreSettings:
    """What counts from the start on. `open_files_max`: descriptors that the process has for this store."""
    return StoreSettings(
        store_path_root_dir=config.store_path_root_dir,
        store_path_commit_log=config.store_path_commit_log,
        read_only_commit_log_store_paths=config.read_only_commit_log_store_paths,
        enabled_append_prop_crc=config.enabled_append_prop_crc,
        force_verify_prop_crc=config.force_verify_prop_crc,
        enable_lmq=config.enable_lmq,
        enable_multi_dispatch=config.enable_multi_dispatch,
        max_lmq_consume_queue_num=config.max_lmq_consume_queue_num,
        enable_consume_queue_ext=config.enable_consume_queue_ext,
        mapped_file_size_consume_queue_ext=config.mapped_file_size_consume_queue_ext,
        mapper_file_size_batch_consume_queue=config.mapper_file_size_batch_consume_queue,
        mapped_file_size_commit_log=config.mapped_file_size_commit_log,
        mapped_file_size_consume_queue=config.mapped_file_size_consume_queue,
        message_index_enable=config.message_index_enable,
        max_hash_slot_num=config.max_hash_slot_num,
        max_index_num=config.max_index_num,
        flush_disk_type=FlushDiskType(config.flush_disk_type),
        flush_interval_commit_log=config.flush_interval_commit_log,
        flush_commit_log_least_pages=config.flush_commit_log_least_pages if config.is_set("flushCommitLogLeastPages") else 0,
        flush_commit_log_thorough_interval=config.flush_commit_log_thorough_interval,
        flush_commit_log_timed=config.flush_commit_log_timed,
        flush_interval_consume_queue=config.flush_interval_consume_queue,
        flush_consume_queue_least_pages=config.flush_consume_queue_least_pages,
        flush_consume_queue_thorough_interval=config.flush_consume_queue_thorough_interval,
        max_message_size=config.max_message_size,
        auto_message_version_on_topic_len=config.auto_message_version_on_topic_len,
        delay_levels_ms=config.delay_levels,
        max_transfer_bytes_on_message_in_memory=config.max_transfer_bytes_on_message_in_memory,
        max_transfer_count_on_message_in_memory=config.max_transfer_count_on_message_in_memory,
        max_transfer_bytes_on_message_in_disk=config.max_transfer_bytes_on_message_in_disk,
        max_transfer_count_on_message_in_disk=config.max_transfer_count_on_message_in_disk,
        access_message_in_memory_max_ratio=config.access_message_in_memory_max_ratio,
        physical_memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        disk_space_warning_level_ratio=config.disk_space_warning_level_ratio / 100,
        open_files_max=open_files_max,
    )


def retention_rules(config: BrokerConfig) -> RetentionRules:
    """What counts from now on."""
    return RetentionRules(
        file_reserved_time=config.file_reserved_time,
        delete_when=hours(config.delete_when),
        disk_max_used_space_ratio=config.disk_max_used_space_ratio,
        disk_space_clean_forcibly_ratio=config.disk_space_clean_forcibly_ratio,
        disk_space_warning_level_ratio=config.disk_space_warning_level_ratio,
        clean_file_forcibly_enable=config.clean_file_forcibly_enable,
        clean_resource_interval=config.clean_resource_interval,
        delete_commit_log_files_interval=config.delete_commit_log_files_interval,
        delete_consume_queue_files_interval=config.delete_consume_queue_files_interval,
        delete_file_batch_max=config.delete_file_batch_max,
        redelete_hanged_file_interval=config.redelete_hanged_file_interval,
    )
