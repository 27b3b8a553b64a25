"""What a repair saved and what it lost, kept short: the worst directory must not make a list without end."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Final

LISTED_MAX: Final = 1000
"""Kept of each list; `counts` has them all."""


@dataclass
class Report:
    """Bytes and messages are counted whole; lists are cut."""

    messages: int = 0
    fillers: int = 0
    """units that an earlier repair put into the place of lost ones"""
    message_bytes: int = 0
    log_start: int = 0
    log_end: int = 0
    last_stored_ms: int = 0
    """of the newest message"""
    lost_bytes: int = 0
    queues: int = 0
    queue_units: int = 0
    index_files: int = 0
    index_entries: int = 0
    lost: list[dict[str, Any]] = field(default_factory=list)
    """stretches of the log: file, byte, bytes, why"""
    gaps: list[dict[str, Any]] = field(default_factory=list)
    """queue offsets that no message has any more: topic, queueId, from, count"""
    known: list[dict[str, Any]] = field(default_factory=list)
    """likewise, but the old queue had no message there either"""
    restarts: int = 0
    """queues that begin anew in the log: their topics were deleted and made again"""
    unqueued: list[dict[str, Any]] = field(default_factory=list)
    """messages that are in the log but can be in no queue: offset, why"""
    config: list[str] = field(default_factory=list)
    """configuration files that were taken over"""
    notes: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    """how many there were of each list"""

    def add(self, name: str, entry: Any) -> None:
        """To one of the lists."""
        self.counts[name] = self.counts.get(name, 0) + 1
        listed = getattr(self, name)
        if len(listed) < LISTED_MAX:
            listed.append(entry)

    @property
    def is_whole(self) -> bool:
        """Nothing was lost."""
        return not self.counts.get("lost") and not self.counts.get("gaps") and not self.counts.get("unqueued")

    def as_json(self) -> dict[str, Any]:
        return {"whole": self.is_whole, **asdict(self)}
