"""Counts what a process of Python reads of logs, where RMQ_COUNTED_READS names a file: on the path of a driver and its workers.

Each read is a line of that file, `bytes path`; a line is one write, so those of several processes do not mix.
"""

from __future__ import annotations

import os
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

MODULE = "rmq_columns.files.filesystem"


class Counting(MetaPathFinder):
    """Finds the one module that opens files of this machine, and puts itself around its reads."""

    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target) if name == MODULE else None
        if spec is not None and spec.loader is not None:
            spec.loader = Counted(spec.loader)
        return spec


class Counted(Loader):
    """Loads it as its own loader does."""

    def __init__(self, own: Any) -> None:
        self._own = own

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        found: ModuleType | None = self._own.create_module(spec)
        return found

    def exec_module(self, module: ModuleType) -> None:
        self._own.exec_module(module)
        file = module.LocalFile
        read, read_into = file.read, file.read_into
        lines = os.open(os.environ["RMQ_COUNTED_READS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)

        def counted(own: Any, size: int) -> None:
            os.write(lines, f"{size} {own._path}\n".encode())

        def counted_read(own: Any, at: int, size: int) -> Any:
            data = read(own, at, size)
            counted(own, len(data))
            return data

        def counted_read_into(own: Any, at: int, buffer: memoryview) -> Any:
            size = read_into(own, at, buffer)
            counted(own, size)
            return size

        file.read, file.read_into = counted_read, counted_read_into


if "RMQ_COUNTED_READS" in os.environ:
    sys.meta_path.insert(0, Counting())
