"""Times as the reference spells them in names of files and for tools: pure conversions, no clock."""

from __future__ import annotations

from datetime import datetime, tzinfo
from typing import TypeAlias

Zone: TypeAlias = tzinfo | None
"""The zone of local times; None for that of the process."""


def compact_time(wall_ms: int, zone: Zone) -> str:
    """Local time as 17 digits, `yyyyMMddHHmmssSSS` (`UtilAll.timeMillisToHumanString`)."""
    moment = datetime.fromtimestamp(wall_ms // 1000, zone)
    return f"{moment:%Y%m%d%H%M%S}{wall_ms % 1000:03d}"


def tool_time(wall_ms: int, zone: Zone) -> str:
    """Local time for tools, `yyyy-MM-dd#HH:mm:ss:SSS` (`UtilAll.formatDate` with `UtilAll.YYYY_MM_DD_HH_MM_SS_SSS`)."""
    moment = datetime.fromtimestamp(wall_ms // 1000, zone)
    return f"{moment:%Y-%m-%d#%H:%M:%S}:{wall_ms % 1000:03d}"


def local_hour(wall_ms: int, zone: Zone) -> int:
    """Hour of the day, 0 to 23 (`UtilAll.isItTimeToDo`)."""
    return datetime.fromtimestamp(wall_ms // 1000, zone).hour
