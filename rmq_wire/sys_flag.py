"""The bits of the `sysFlag` field of messages, pulls and topics, and the permission bits of a topic.

Sources: `MessageSysFlag`, `PullSysFlag`, `TopicSysFlag`, `PermName` of the reference.
"""

from __future__ import annotations

from typing import Final

# MessageSysFlag: in send headers and stored units
COMPRESSED: Final = 0x1
MULTI_TAGS: Final = 0x2
TRANSACTION_NOT: Final = 0x0
TRANSACTION_PREPARED: Final = 0x4
TRANSACTION_COMMIT: Final = 0x8
TRANSACTION_ROLLBACK: Final = 0xC
TRANSACTION_MASK: Final = 0xC
BORN_HOST_V6: Final = 0x10
STORE_HOST_V6: Final = 0x20
NEED_UNWRAP: Final = 0x40
INNER_BATCH: Final = 0x80
COMPRESSION_LZ4: Final = 0x100
COMPRESSION_ZSTD: Final = 0x200
COMPRESSION_ZLIB: Final = 0x300
COMPRESSION_MASK: Final = 0x700
"""No bit of it set means zlib, too: what clients before 5.0 send."""

# PullSysFlag: in pull headers
PULL_COMMIT_OFFSET: Final = 0x1
PULL_SUSPEND: Final = 0x2
PULL_SUBSCRIPTION: Final = 0x4
PULL_CLASS_FILTER: Final = 0x8
PULL_LITE: Final = 0x10

# TopicSysFlag: in topic configurations
TOPIC_UNIT: Final = 0x1
TOPIC_UNIT_SUBSCRIBED: Final = 0x2

# PermName
PERM_INHERIT: Final = 0x1
PERM_WRITE: Final = 0x2
PERM_READ: Final = 0x4
PERM_PRIORITY: Final = 0x8


def transaction_type(flag: int) -> int:
    """One of the four `TRANSACTION_…` values."""
    return flag & TRANSACTION_MASK


def with_transaction_type(flag: int, kind: int) -> int:
    """The flag with its transaction bits replaced (`MessageSysFlag.resetTransactionValue`)."""
    return (flag & ~TRANSACTION_MASK) | kind


def topic_sys_flag(*, unit: bool, subscribed: bool) -> int:
    """`TopicSysFlag.buildSysFlag`."""
    return (TOPIC_UNIT if unit else 0) | (TOPIC_UNIT_SUBSCRIBED if subscribed else 0)


def perm_text(perm: int) -> str:
    """`PermName.perm2String`: `RWX`, or a dash for each bit that is not set."""
    pairs = ((PERM_READ, "R"), (PERM_WRITE, "W"), (PERM_INHERIT, "X"))
    return "".join(letter if perm & bit else "-" for bit, letter in pairs)
