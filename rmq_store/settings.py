"""What the store is given: directories, sizes, intervals and limits, under the names of `MessageStoreConfig` 5.5.0.

Values are plain numbers with their unit in the name; nobody here reads a configuration file.  Defaults are Java's unless the
docstring of the field says otherwise.
"""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from rmq_store.layouts import BATCH_UNIT, QUEUE_UNIT
from rmq_wire.implied.delay_levels import DELAY_LEVELS_MS
from rmq_wire.store_names import COMMIT_LOG

MEBIBYTE = 1 << 20
QUEUE_UNITS_PER_FILE = 300_000
QUEUE_UNIT_BYTES = QUEUE_UNIT.size
BATCH_UNIT_BYTES = BATCH_UNIT.size

LOG_MAPS_MAX = 256
"""A quarter of a terabyte with files of the usual size."""
PATH_SEPARATOR = ","
"""Java: MULTI_PATH_SPLITTER, which a system property may change there."""


def split_paths(text: str | None) -> tuple[str, ...]:
    """The directories that a configuration value names, each once."""
    return tuple(dict.fromkeys(piece.strip() for piece in (text or "").split(PATH_SEPARATOR) if piece.strip()))


class FlushDiskType(Enum):
    """When an append counts as safe (Java: `FlushDiskType`)."""

    ASYNC_FLUSH = "ASYNC_FLUSH"
    SYNC_FLUSH = "SYNC_FLUSH"


class StoreSettings(Struct, frozen=True, kw_only=True):
    """Everything `Store.open` needs to know, `MessageStoreConfig` keys in snake case."""

    store_path_root_dir: str
    store_path_commit_log: str | None = None
    """None: `commitlog` under the root. Several directories are separated by commas."""
    read_only_commit_log_store_paths: str | None = None
    """Directories of log files where no new ones are made, separated by commas; counts only beside several directories."""
    mapped_file_size_commit_log: int = 1024 * MEBIBYTE
    mapped_file_size_consume_queue: int = QUEUE_UNITS_PER_FILE * QUEUE_UNIT_BYTES
    """Rounded up to whole units."""
    enable_consume_queue_ext: bool = False
    """Queue entries get an extension each, which holds their tags' hash and their time."""
    mapped_file_size_consume_queue_ext: int = 48 * MEBIBYTE
    mapper_file_size_batch_consume_queue: int = QUEUE_UNITS_PER_FILE * BATCH_UNIT_BYTES
    """Rounded up to whole units."""
    message_index_enable: bool = True
    max_hash_slot_num: int = 5_000_000
    max_index_num: int = 20_000_000
    flush_disk_type: FlushDiskType = FlushDiskType.ASYNC_FLUSH
    flush_interval_commit_log: int = 500
    """ms between two flushes of the log under ASYNC_FLUSH"""
    flush_commit_log_least_pages: int = 0
    """Fewer dirty pages than this wait for the thorough flush. 0, unlike Java's 4: whatever is dirty is flushed
    (docs/durability.md)."""
    flush_commit_log_thorough_interval: int = 10_000
    """ms between two flushes of the log that do not look at the number of pages"""
    flush_commit_log_timed: bool = True
    """False: what was appended is flushed as soon as the last flush is through."""
    flush_interval_consume_queue: int = 1_000
    """ms between two flushes of the queue files that have enough dirty pages"""
    flush_consume_queue_least_pages: int = 2
    """so many are enough (page borders passed since a file's last flush); a file that got full has enough"""
    flush_consume_queue_thorough_interval: int = 60_000
    """ms between two full flushes of queues and index; the first comes 1 s after the start."""
    max_message_size: int = 4 * MEBIBYTE
    """Body bytes; a whole unit may have `EXTRA_UNIT_BYTES` more."""
    enabled_append_prop_crc: bool = False
    """Every unit gets a check sum over all of it, as its last property."""
    force_verify_prop_crc: bool = False
    """At the start, units without that check sum, or with a wrong one, end the log."""
    enable_lmq: bool = False
    """Messages get their offsets in the light queues that they name."""
    enable_multi_dispatch: bool = False
    """They get there, too; both keys are needed."""
    max_lmq_consume_queue_num: int = 20_000
    """Light queues; Java obeys it only with `enableLmqQuota`."""
    delay_levels_ms: tuple[int, ...] = DELAY_LEVELS_MS
    max_transfer_bytes_on_message_in_memory: int = 256 * 1024
    max_transfer_count_on_message_in_memory: int = 32
    max_transfer_bytes_on_message_in_disk: int = 64 * 1024
    max_transfer_count_on_message_in_disk: int = 8
    access_message_in_memory_max_ratio: int = 40
    """Percent of `physical_memory_bytes` that counts as "in memory" in the pull limits."""
    physical_memory_bytes: int = 16 * 1024 * MEBIBYTE
    """Set by the composition root; Java asks the operating system."""
    max_filter_message_size: int = 16_000
    """Queue bytes that one pull may scan."""
    max_msgs_num_batch: int = 64
    """Most hits of one key query."""
    disk_space_warning_level_ratio: float | None = 0.90
    """Above this part of the disk used, appends are refused. None: only a disk that is really full refuses."""
    hot_window_bytes: int = 256 * MEBIBYTE
    """Ours: log bytes behind the end that are taken to be in memory without asking the kernel."""
    open_files_max: int = 4096
    """Ours: descriptors kept open on files of log, queues and index, and by maps of log files."""

    @property
    def memory_bytes(self) -> int:
        """So far behind the log's end messages are taken to be in memory."""
        return self.physical_memory_bytes * self.access_message_in_memory_max_ratio // 100

    @property
    def log_maps_max(self) -> int:
        """Maps of log files kept: of `open_files_max`, since each holds a descriptor."""
        return max(min(LOG_MAPS_MAX, self.open_files_max // 4), 1)

    @property
    def commit_log_directories(self) -> tuple[str, ...]:
        """Where new files of the commit log may be made, as configured."""
        read_only = self.read_only_commit_log_directories
        paths = split_paths(self.store_path_commit_log) or (f"{self.store_path_root_dir}/{COMMIT_LOG}",)
        return tuple(path for path in paths if path not in read_only)

    @property
    def read_only_commit_log_directories(self) -> tuple[str, ...]:
        return split_paths(self.read_only_commit_log_store_paths)

    @property
    def consume_queue_file_bytes(self) -> int:
        """`mappedFileSizeConsumeQueue` rounded up to a multiple of the unit (Java: getMappedFileSizeConsumeQueue)."""
        return -(-self.mapped_file_size_consume_queue // QUEUE_UNIT_BYTES) * QUEUE_UNIT_BYTES

    @property
    def batch_consume_queue_file_bytes(self) -> int:
        """Java takes `mapperFileSizeBatchConsumeQueue` as it is, and cannot use what is no multiple of the unit."""
        return -(-self.mapper_file_size_batch_consume_queue // BATCH_UNIT_BYTES) * BATCH_UNIT_BYTES


EXTRA_UNIT_BYTES = 64 * 1024
"""A unit may exceed `max_message_size` by this (Java: MessageExtEncoder)."""
PROPERTIES_BYTES_MAX = 32_767
"""Java: Short.MAX_VALUE."""
