"""The config files' write and load steps, as 5.5.0 does them; what is in the files is not our business.

Write: the old file becomes `.bak` by rename, the directory is synced, the new file is written and synced, the directory is
synced.  At every instant one of the two is whole.  Load: an absent, empty or unreadable main file falls back to `.bak`; when
both exist and neither can be read the caller must refuse to start, for defaults would delete topics and progress.
(Java: ConfigManager.load, MixAll.string2File)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from rmq_store.disk import Disk, write_all
from rmq_store.errors import StoreDamaged

T = TypeVar("T")

BACKUP_SUFFIX = ".bak"


def load_config(disk: Disk, path: str, decode: Callable[[bytes], T]) -> T | None:
    """The decoded content of `path`, else of its backup; None when neither exists (or both are empty).

    `decode` raises ValueError, or an error of the wire package derived from Exception, for text it cannot read.
    Raises StoreDamaged when nothing readable is left of a file that exists, OSError.
    """
    failures = []
    for candidate in (path, path + BACKUP_SUFFIX):
        text = _read(disk, candidate)
        if not text:
            continue
        try:
            decoded = decode(text)
        except Exception as reason:
            failures.append(f"{candidate}: {reason}")
            continue
        if candidate != path:
            # A main file that is torn must not become the backup at the next write.
            _unlink(disk, path)
            disk.sync_directory(path.rpartition("/")[0])
        return decoded
    if failures:
        raise StoreDamaged("no readable copy of a config file is left; mend or remove it: " + "; ".join(failures))
    return None


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
