"""What a power cut would take from a real directory: what was written or named since its last sync.

`Power` looks on from the edge of the operating system.  A sync of a file keeps a digest of what is in it, a sync of a directory
its names; `lost` compares these with what is there now.  So it does not matter how something was written (buffered, at an offset,
by a library), and nothing that was never given to `os.fsync` or `os.fdatasync` counts as kept.  What lay there at first is kept.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

READ_BYTES = 1 << 20
NAMING = ("rename", "replace", "link", "unlink", "rmdir")
"""Calls that change names; what is not synced when one is made, a cut right behind it may take."""


class Power:
    """`before_naming(call, path)` runs before each call that takes a name away or gives one anew."""

    def __init__(self, root: Path, patch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.files: dict[int, bytes] = {}
        """Inode -> digest of the content at its last sync."""
        self.directories: dict[int, dict[str, int]] = {}
        """Inode -> names and their inodes at its last sync."""
        self.syncs = 0
        self.before_naming: Callable[[str, str], None] = lambda _call, _path: None
        self._look_at(root)
        for name in ("fsync", "fdatasync"):
            patch.setattr(os, name, self._noting(getattr(os, name)))
        patch.setattr("rmq_store.disk.disk._SYNC", os.fdatasync)
        for name in NAMING:
            patch.setattr(os, name, self._watched(name, getattr(os, name)))

    def lost(self, *below: str) -> list[str]:
        """Paths below the root (below these names in it) whose content, or whose name, a cut would take now, sorted."""
        found: list[str] = []
        self._compare(self.root, found)
        return sorted(path for path in found if not below or path.split("/")[0] in below)

    def lost_in(self, directory: str) -> list[str]:
        """The same beneath this directory alone, wherever it is about to be moved to."""
        found: list[str] = []
        self._compare(Path(directory), found)
        return sorted(found)

    def _look_at(self, directory: Path) -> None:
        self.directories[directory.stat().st_ino] = _names(str(directory))
        for path in directory.iterdir():
            if path.is_dir():
                self._look_at(path)
            elif path.is_file():
                self._keep(os.open(path, os.O_RDONLY), close=True)

    def _keep(self, descriptor: int, close: bool = False) -> None:
        found = os.fstat(descriptor)
        if stat.S_ISDIR(found.st_mode):
            self.directories[found.st_ino] = _names(descriptor)
        else:
            path = f"/proc/self/fd/{descriptor}"  # it may be open for writing only
            self.files[found.st_ino] = _digest(path)
        if close:
            os.close(descriptor)

    def _noting(self, sync: Callable[[int], None]) -> Callable[[Any], None]:
        def noting(descriptor: Any) -> None:
            sync(descriptor)
            self.syncs += 1
            self._keep(descriptor if isinstance(descriptor, int) else descriptor.fileno())

        return noting

    def _watched(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def watched(path: Any, *more: Any, **options: Any) -> Any:
            self.before_naming(name, os.fspath(path))
            return call(path, *more, **options)

        return watched

    def _compare(self, directory: Path, found: list[str]) -> None:
        kept = self.directories.get(directory.stat().st_ino, {})
        now = _names(str(directory))
        found += [str((directory / name).relative_to(self.root)) for name in kept.keys() - now.keys()]
        for name, inode in now.items():
            path = directory / name
            if kept.get(name) != inode:
                found.append(str(path.relative_to(self.root)))
            elif path.is_dir():
                self._compare(path, found)
            elif path.is_file() and self.files.get(inode) != _digest(str(path)):
                found.append(str(path.relative_to(self.root)))


def _names(directory: str | int) -> dict[str, int]:
    with os.scandir(directory) as scan:
        return {entry.name: entry.inode() for entry in scan}


def _digest(path: str) -> bytes:
    digest = hashlib.blake2b()
    with open(path, "rb") as file:
        while data := file.read(READ_BYTES):
            digest.update(data)
    return digest.digest()
