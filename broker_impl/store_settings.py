"""What the store is given, from the broker's properties: once at its start, and by what it deletes, at any time.

Both sides have Java's names in snake case, so what they share is converted by name; only what differs stands here.
"""

from __future__ import annotations

import os
from typing import TypeVar

import msgspec

from broker_impl.config import BrokerConfig
from broker_impl.engine.limits import Limits
from rmq_store.disk_space import RetentionRules, hours
from rmq_store.settings import StoreSettings
from rmq_store.timer.settings import TimerSettings

Converted = TypeVar("Converted", StoreSettings, RetentionRules, TimerSettings)


def store_settings(config: BrokerConfig, open_files_max: int = Limits().open_files_max) -> StoreSettings:
    """What counts from the start on. `open_files_max`: descriptors that the process has for this store."""
    return _converted(
        config,
        StoreSettings,
        flush_commit_log_least_pages=config.flush_commit_log_least_pages if config.is_set("flushCommitLogLeastPages") else 0,
        delay_levels_ms=config.delay_levels,
        physical_memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        disk_space_warning_level_ratio=config.disk_space_warning_level_ratio / 100,
        open_files_max=open_files_max,
    )


def timer_settings(config: BrokerConfig) -> TimerSettings:
    """What the timer is given, from the start on."""
    return _converted(config, TimerSettings)


def retention_rules(config: BrokerConfig) -> RetentionRules:
    """What counts from now on."""
    return _converted(config, RetentionRules, delete_when=hours(config.delete_when))


def _converted(config: BrokerConfig, kind: type[Converted], **others: object) -> Converted:
    """Each field from the property with its name, but for the others."""
    shared = {name: getattr(config, name) for name in kind.__struct_fields__ if hasattr(config, name)}
    return msgspec.convert(shared | others, kind)
