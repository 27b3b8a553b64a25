"""How the directories and files of a store are called, and what a name says.

Source: `StorePathConfigHelper`, `UtilAll.offset2FileName`, `ConsumeQueueStore.loadConsumeQueues`, `IndexService`.
"""

from __future__ import annotations

from typing import Final

COMMIT_LOG: Final = "commitlog"
QUEUES: Final = "consumequeue"
BATCH_QUEUES: Final = "batchconsumequeue"
EXTENSIONS: Final = "consumequeue_ext"
INDEX: Final = "index"
CONFIG: Final = "config"
CHECKPOINT: Final = "checkpoint"
ABORT: Final = "abort"
LOCK: Final = "lock"
OFFSET_DIGITS: Final = 20
INDEX_DIGITS: Final = 17
QUEUE_ID_MAX: Final = (1 << 31) - 1
_OFFSET_MAX: Final = (1 << 63) - 1
_QUEUE_ID_DIGITS: Final = len(str(QUEUE_ID_MAX))


def offset_name(start: int) -> str:
    """The file that begins with this byte of its log or queue (`offset2FileName`)."""
    return f"{start:0{OFFSET_DIGITS}d}"


def offset_of(name: str) -> int | None:
    """With which byte of its log or queue the file of this name begins; None when it belongs to none: Java refuses to start."""
    start = int(name) if len(name) == OFFSET_DIGITS and name.isascii() and name.isdigit() else -1
    return start if 0 <= start <= _OFFSET_MAX else None


def queue_id_of(name: str) -> int | None:
    """Which queue lies in the directory of this name; None for none.

    *Differs*: Java reads `007` as a 7, but looks into `7` for its files.
    """
    number = int(name) if len(name) <= _QUEUE_ID_DIGITS and name.isascii() and name.isdigit() else -1
    return number if 0 <= number <= QUEUE_ID_MAX and str(number) == name else None


def is_index_name(name: str) -> bool:
    """Local wall time, yyyyMMddHHmmssSSS."""
    return len(name) == INDEX_DIGITS and name.isascii() and name.isdigit()
