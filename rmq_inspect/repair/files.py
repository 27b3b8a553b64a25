"""Files of a row (a log, a queue) as a repair writes them: each at full length from the beginning, holes where nothing was."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from rmq_wire.store_names import offset_name

WRITE_BYTES: Final = 4 << 20


def _write_all(descriptor: int, data: bytes | bytearray, at: int) -> None:
    view = memoryview(data)
    while view:
        count = os.pwrite(descriptor, view, at)
        view, at = view[count:], at + count


class FileWriter:
    """Appends and seeks over one file after another of a row, each at full length from the beginning, holes where nothing was."""

    def __init__(self, directory: Path, file_bytes: int) -> None:
        self.directory = directory
        self.file_bytes = file_bytes
        self._descriptor = -1
        self._start = -1
        self._pending = bytearray()
        self._pending_at = 0

    def write(self, at: int, data: bytes) -> None:
        """At this byte of the row; never across a file's end."""
        start = at - at % self.file_bytes
        if start != self._start:
            self._open(start)
        if at != self._pending_at + len(self._pending) or len(self._pending) >= WRITE_BYTES:
            self.flush()
            self._pending_at = at
        self._pending += data

    def _open(self, start: int) -> None:
        self.close()
        self.directory.mkdir(parents=True, exist_ok=True)
        path = self.directory / offset_name(start)
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        os.ftruncate(self._descriptor, self.file_bytes)
        self._start = start

    def flush(self) -> None:
        """To the operating system."""
        _write_all(self._descriptor, self._pending, self._pending_at - max(self._start, 0))
        self._pending_at += len(self._pending)
        self._pending = bytearray()

    def close(self) -> None:
        """To the disk."""
        if self._descriptor >= 0:
            self.flush()
            os.fsync(self._descriptor)
            os.close(self._descriptor)
            self._descriptor, self._start = -1, -1
            self._pending_at = 0
