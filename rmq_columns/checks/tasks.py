"""The pieces of work that a whole store is checked by: each can be sent to another process or machine, and done there by itself.

`whole` says which there are, and what follows from their answers.  The log's own pieces are in `log`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rmq_columns.checks.files import CheckedFile
from rmq_columns.checks.findings import Findings
from rmq_columns.checks.index import IndexState, check_index_file, walked
from rmq_columns.checks.places import LogPlaces, find_dangling
from rmq_columns.checks.queues import Key, LogBounds, QueueState, check_queue
from rmq_columns.decode.dtypes import Ints
from rmq_columns.errors import CannotLook


class QueueTask(NamedTuple):
    """One queue by itself."""

    files: Sequence[CheckedFile]
    bounds: LogBounds
    file_bytes: int
    is_batch: bool

    @property
    def size(self) -> int:
        """Bytes to be read."""
        return sum(file.size for file in self.files)

    def check(self) -> tuple[QueueState, Findings]:
        """The answer to it."""
        return check_queue(self.files, self.bounds, self.file_bytes, is_batch=self.is_batch)


class IndexTask(NamedTuple):
    """One index file by itself."""

    file: CheckedFile
    file_bytes: int
    slots: int | None
    settled: bool

    @property
    def size(self) -> int:
        """Bytes to be read."""
        return self.file.size

    def check(self) -> tuple[IndexState, Findings]:
        """The answer to it."""
        return check_index_file(*self)

    def walked(self, state: IndexState, findings: Findings) -> Iterator[tuple[int, Ints]]:
        """The same, into state and findings; as `index.walked`."""
        return walked(*self, state, findings)


class DanglingTask(NamedTuple):
    """For `places.find_dangling`."""

    key: Key
    state: QueueState
    file: CheckedFile


@dataclass(frozen=True)
class Dangling:
    """The last pass: the same for all its tasks; can be sent anywhere."""

    bounds: LogBounds
    log: Sequence[CheckedFile]
    reported: set[tuple[str, int, int]]
    gaps: list[tuple[int, int]]
    repaired: bool

    def find(self, tasks: Sequence[DanglingTask]) -> Iterator[Findings]:
        """Of each task.  A file that cannot be read has been reported already."""
        places = LogPlaces(self.log)
        try:
            for task in tasks:
                with contextlib.suppress(CannotLook):
                    yield find_dangling(
                        task.key, task.state, task.file, self.bounds, places, self.reported, self.gaps, self.repaired
                    )
        finally:
            places.readers.close()
