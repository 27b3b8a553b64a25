"""What is looked at: which files a store has, and which of the checks are to be made, on one machine or by Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rmq_columns.checks.files import CheckedFile
from rmq_columns.checks.queues import Key


@dataclass(frozen=True)
class StoreFiles:
    """What is checked of a store.  Lists ascend by where the files begin, index files by name."""

    log: Sequence[CheckedFile]
    queues: Mapping[Key, Sequence[CheckedFile]] = field(default_factory=dict)
    batch_queues: Mapping[Key, Sequence[CheckedFile]] = field(default_factory=dict)
    extensions: Mapping[Key, Sequence[CheckedFile]] = field(default_factory=dict)
    index: Sequence[CheckedFile] = ()


@dataclass(frozen=True)
class Scope:
    """What to look at, wherever it is done."""

    with_queues: bool = True
    with_index: bool = True
    with_crc: bool = True
    with_sequence: bool = False
    """as in `Known`"""
    index_slots: int | None = None
    """maxHashSlotNum when the store was made with another than 5000000"""
    workers: int | None = None
    """processes of this machine; None: one for each core"""
