"""A few files held open for whoever reads here and there in many."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from rmq_columns.checks.files import CheckedFile
from rmq_columns.files.filesystem import File

OPEN_MAX: Final = 64


class Readers:
    """Open files, the ones used longest ago closed first; a context manager.  Files are told apart by their names."""

    def __init__(self, open_max: int = OPEN_MAX) -> None:
        self._open: OrderedDict[str, File] = OrderedDict()
        self._open_max = open_max

    def __enter__(self) -> Readers:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def get(self, file: CheckedFile) -> File:
        """Stays open until others take its place.  Raises `CannotLook`."""
        found = self._open.get(file.name)
        if found is None:
            while len(self._open) >= self._open_max:
                self._open.popitem(last=False)[1].close()
            found = self._open[file.name] = file.open()
        self._open.move_to_end(file.name)
        return found

    def close(self) -> None:
        """May be used again."""
        while self._open:
            self._open.popitem()[1].close()
