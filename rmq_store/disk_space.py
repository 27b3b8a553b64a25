"""How full the disk is, and what follows from it: append or not, delete what has expired, delete whatever its age.

Three levels, each a part of the partition in use: above `disk_max_used_space_ratio` expired files go at once, above
`disk_space_clean_forcibly_ratio` the oldest go whatever their age, above `disk_space_warning_level_ratio` they go as well and
appends are refused.  Of several log directories the least full one counts; the queues' partition is looked at likewise.
(Java: DefaultMessageStore.CleanCommitLogService.isSpaceToDelete, isSpaceFull)
"""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

from rmq_store.disk.disk import Disk
from rmq_store.disk.multi_path_segments import MultiPathSegments
from rmq_store.disk.segments import Segments
from rmq_store.log.writability import Writability
from rmq_store.settings import StoreSettings
from rmq_store.statistics import double_text
from rmq_wire import store_names

PERCENT: Final = 100
MAX_USED_BOUNDS: Final = (10, 95)
"""Java: MessageStoreConfig.getDiskMaxUsedSpaceRatio."""
FORCIBLY_BOUNDS: Final = (30, 85)
"""Java: CleanCommitLogService.getDiskSpaceCleanForciblyRatio."""
UNKNOWN: Final = -1.0
WARNING_MIN: Final = 35
"""Java: getDiskSpaceWarningLevelRatio; its upper bound of 90 is not kept (docs/differences.md)."""


class RetentionRules(Struct, frozen=True, kw_only=True):
    """What may be deleted, and when: `MessageStoreConfig` keys in snake case, with Java's defaults. May change at any time."""

    file_reserved_time: int = 72
    """hours that a log file is kept after its last change"""
    delete_when: frozenset[int] = frozenset({4})
    """hours of the day, local time, in which expired files are deleted"""
    disk_max_used_space_ratio: int = 75
    """percent, as the two that follow"""
    disk_space_clean_forcibly_ratio: int = 85
    disk_space_warning_level_ratio: int | None = 90
    """None: only a disk that is really full refuses."""
    clean_file_forcibly_enable: bool = True
    clean_resource_interval: int = 10_000
    """ms from one look to the next"""
    delete_commit_log_files_interval: int = 100
    """ms between two log files"""
    delete_consume_queue_files_interval: int = 100
    """ms to wait after a queue that lost files"""
    delete_file_batch_max: int = 10
    """log files of one look"""
    redelete_hanged_file_interval: int = 120_000
    """ms after which a file that could not be removed is tried again"""


_HOUR: Final = re.compile(r"0{0,8}(?:1?[0-9]|2[0-3])", re.ASCII)


def hours(text: str) -> frozenset[int]:
    """`deleteWhen`: hours separated by `;`. What is no hour of a day is passed over."""
    pieces = [piece.strip() for piece in text.split(";")]
    return frozenset(int(piece) for piece in pieces if _HOUR.fullmatch(piece))


class DiskSpace:
    """Ratios are parts in whole percent, rounded up as Java does; negative while unknown."""

    def __init__(self, disk: Disk, settings: StoreSettings, segments: Segments, writability: Writability) -> None:
        """`segments`: the log's; it is given which of their directories are full."""
        self.rules = RetentionRules(disk_space_warning_level_ratio=_percent(settings.disk_space_warning_level_ratio))
        self.log_ratio = UNKNOWN
        """of the least full log directory"""
        self.queue_ratio = UNKNOWN
        self._disk = disk
        self._settings = settings
        self._segments = segments
        self._writability = writability

    def look(self) -> None:
        """Measure, and refuse or allow appends by it. A partition that cannot be asked leaves things as they are."""
        rules = self.rules
        try:
            used = {path: self._disk.usage(path).used_ratio for path in self._settings.commit_log_directories}
            self.log_ratio = min(used.values())
            self.queue_ratio = self._queue_ratio_now()
        except OSError:
            return
        if isinstance(self._segments, MultiPathSegments):
            forcibly = _between(rules.disk_space_clean_forcibly_ratio, FORCIBLY_BOUNDS)
            self._segments.full = frozenset(path for path, ratio in used.items() if ratio > forcibly)
        over = f"{max(self.log_ratio, self.queue_ratio):.0%} used" if self._is_over_warning else None
        self._writability.set_over_limit(over)

    def runtime_info(self) -> dict[str, str]:
        """The ratios' part of code 28, measured now; -1 for a directory that is not there. Raises OSError."""
        used = {path: self._ratio(path) for path in self._settings.commit_log_directories}
        info = {f"commitLogDiskRatio_{path}": double_text(ratio) for path, ratio in used.items()}
        info["commitLogDiskRatio"] = double_text(min(used.values()))
        info["consumeQueueDiskRatio"] = double_text(self._queue_ratio_now())
        return info

    def _queue_ratio_now(self) -> float:
        """Queues may lie on a partition of their own; before there are any, the root's counts. Raises OSError."""
        root = self._settings.store_path_root_dir
        ratio = self._ratio(f"{root}/{store_names.QUEUES}")
        return self._ratio(root) if ratio == UNKNOWN else ratio

    def _ratio(self, path: str) -> float:
        try:
            return self._disk.usage(path).used_ratio
        except FileNotFoundError:
            return UNKNOWN

    @property
    def deletes_expired(self) -> bool:
        """There is so little space that files past their time go now."""
        return self._above(self.rules.disk_max_used_space_ratio, MAX_USED_BOUNDS) or self._is_short

    @property
    def deletes_any(self) -> bool:
        """There is so little space that the oldest files go whatever their age; if that is allowed at all."""
        return self.rules.clean_file_forcibly_enable and self._is_short

    @property
    def _is_short(self) -> bool:
        return self._above(self.rules.disk_space_clean_forcibly_ratio, FORCIBLY_BOUNDS) or self._is_over_warning

    @property
    def _is_over_warning(self) -> bool:
        level = self.rules.disk_space_warning_level_ratio
        return level is not None and self._above(level, (WARNING_MIN, PERCENT))

    def _above(self, percent: int, bounds: tuple[int, int]) -> bool:
        return max(self.log_ratio, self.queue_ratio) > _between(percent, bounds)


def _between(percent: int, bounds: tuple[int, int]) -> float:
    low, high = bounds
    return min(max(percent, low), high) / PERCENT


def _percent(ratio: float | None) -> int | None:
    return None if ratio is None else round(ratio * PERCENT)
