"""Where `rmq dev` differs from Java's defaults, and why: data for its `--help`, and what `--like-java` drops."""

from __future__ import annotations

from typing import NamedTuple


class Difference(NamedTuple):
    """A default of `rmq dev` that is not Java's.  `value` None: measured at start."""

    value: str | None
    why: str


DEV_DIFFERENCES: dict[str, Difference] = {
    "bindAddress": Difference("127.0.0.1", "nobody else can connect"),
    "brokerIP1": Difference("127.0.0.1", "the address that is given to clients"),
    "brokerIP2": Difference("127.0.0.1", "as brokerIP1"),
    "brokerName": Difference("broker-a", "Java takes the host name; a store then follows you to another machine"),
    "enablePropertyFilter": Difference("true", "as most installations have it"),
    "cleanFileForciblyEnable": Difference("false", "a disk that is full of other things costs no message before its time"),
    "diskSpaceWarningLevelRatio": Difference(None, "measured: Java stops at 90 % of the disk, however much the rest is"),
}
"""What `rmq dev` sets unless it is given `--like-java`."""

DEV_DEFAULTS: dict[str, str] = {key: differs.value for key, differs in DEV_DIFFERENCES.items() if differs.value is not None}
"""Those that are the same on every machine."""

DEV_FREE_BYTES_MIN = 512 << 20
"""`rmq dev` takes messages until the disk has less room than this (room for half a commit log file)."""
PERCENT_MAX = 99
JAVA_PERCENT = 90


def measured_disk_ratios(total_bytes: int, used_bytes: int) -> dict[str, str]:
    """The disk limit of `rmq dev` in per cent: where `DEV_FREE_BYTES_MIN` are left, at least Java's 90; 99 on a fuller disk."""
    room = max(0, total_bytes - DEV_FREE_BYTES_MIN)
    level = min(PERCENT_MAX, max(JAVA_PERCENT, room * 100 // max(1, total_bytes)))
    if used_bytes * 100 >= level * total_bytes:
        level = PERCENT_MAX
    return {"diskSpaceWarningLevelRatio": str(level)}
