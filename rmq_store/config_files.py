"""The config files' write and load steps, as 5.5.0 does them; what is in the files is not our business.

Write: the old file becomes `.bak` by rename, the directory is synced, the new file is written and synced, the directory is
synced.  At every instant one of the two is whole.  Load: an absent, empty or unreadable main file falls back to `.bak`, and an
unreadable one is kept as `.broken` for whoever wants to mend it; when both exist and neither can be read the caller must refuse
to start, for defaults would delete topics and progress.
(Java: ConfigManager.load, MixAll.string2File)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from rmq_store.disk import Disk, write_all
from rmq_store.errors import StoreDamaged
from rmq_wire.errors import WireError

T = TypeVar("T")

BACKUP_SUFFIX = ".bak"
BROKEN_SUFFIX = ".broken"


def load_config(disk: Disk, path: str, decode: Callable[[bytes], T], tell: Callable[[str], None]) -> T | None:
    """The decoded content of `path`, else of its backup; None when neither exists (or both are empty).

    `decode` raises ValueError or WireError for text it cannot read; what else it raises is a bug and passes.  `tell` hears one
    line when the backup had to serve.  Raises StoreDamaged when nothing readable is left of a file that exists, OSError.
    """
    failures = []
    for candidate in (path, path + BACKUP_SUFFIX):
        text = _read(disk, candidate)
        if not text:
            continue
        try:
            decoded = decode(text)
        except (ValueError, WireError) as wrong:
            failures.append(f"{candidate}: {wrong}")
            continue
        if candidate != path:
            _make_way(disk, path, failures, tell)
        return decoded
    if failures:
        raise StoreDamaged("no readable copy of a config file is left; mend or remove it: " + "; ".join(failures))
    return None


def _make_way(disk: Disk, path: str, failures: list[str], tell: Callable[[str], None]) -> None:
    """The backup was read: a main file that is torn must not become the backup at the next write, nor be lost."""
    if failures:
        disk.rename(path, path + BROKEN_SUFFIX)
        tell(f"{failures[0]}; its backup is used, the unreadable file is kept as {path}{BROKEN_SUFFIX}")
    else:
        _unlink(disk, path)
        tell(f"{path} is missing or empty; its backup is used")
    disk.sync_directory(path.rpartition("/")[0])


def _read(disk: Disk, path: str) -> bytes:
    try:
        file = disk.open(path)
    except FileNotFoundError:
        return b""
    return file.read_at(0, file.length())


def persist_config(disk: Disk, path: str, chunks: Iterable[bytes]) -> None:
    """Replace the file by these bytes. Raises OSError; then the main file or its backup still has the old content."""
    directory = path.rpartition("/")[0]
    for made in disk.make_directories(directory):
        disk.sync_directory(made)
    data = b"".join(chunks)
    if _read(disk, path):
        # An empty main file is what a crash between create and write leaves: the backup is the good copy then.
        disk.rename(path, path + BACKUP_SUFFIX)
        disk.sync_directory(directory)
    else:
        _unlink(disk, path)
    file = disk.create(path, 0)
    write_all(file, 0, data)
    file.sync()
    disk.sync_directory(directory)


def _unlink(disk: Disk, path: str) -> None:
    try:
        disk.unlink(path)
    except FileNotFoundError:
        pass
