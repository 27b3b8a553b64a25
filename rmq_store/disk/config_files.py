"""The config files' write and load steps; what is in the files is not our business.

Write: a temporary file is written and synced, the last good file gets the name `.bak` beside its own, the temporary one takes
its place, the directory is synced.  So the file itself is there and whole at every instant, and whatever call fails, however
often, the file and its backup stay readable and what was acknowledged stays in the file.  (*Differs*: Java renames the old file
away before it writes the new one.)  Load: an absent, empty or unreadable main file falls back to `.bak`, and an unreadable one is
kept as `.broken` for whoever wants to mend it; when both exist and neither can be read the caller must refuse to start, for
defaults would delete topics and progress.
(Java: ConfigManager.load, MixAll.string2File)
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from rmq_store.disk.disk import Disk, write_all
from rmq_store.errors import StoreDamaged
from rmq_wire.errors import WireError

T = TypeVar("T")

BACKUP_SUFFIX = ".bak"
BROKEN_SUFFIX = ".broken"
TEMPORARY_SUFFIX = ".tmp"
"""Of a file that is being written; nobody reads one."""
BACKUP_TEMPORARY_SUFFIX = ".bak.tmp"
"""Of the good file's second name, before it takes the place of the backup's."""
WRITE_BYTES: Final = 1 << 20
"""Chunks are gathered to so much before they are written."""


def load_config(disk: Disk, path: str, decode: Callable[[bytes], T], report: Callable[[str], None]) -> T | None:
    """The decoded content of `path`, else of its backup; None when neither exists (or both are empty).

    `decode` raises ValueError or WireError for text it cannot read; what else it raises is a bug and passes.  `report` hears one
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
            _make_way(disk, path, failures, report)
        return decoded
    if failures:
        raise StoreDamaged(f"no readable copy of {path} is left; mend or remove it: " + "; ".join(failures))
    return None


def _make_way(disk: Disk, path: str, failures: list[str], report: Callable[[str], None]) -> None:
    """The backup was read: a main file that is torn must not become the backup at the next write, nor be lost."""
    if failures:
        disk.rename(path, path + BROKEN_SUFFIX)
        report(f"{failures[0]}; its backup is used, the unreadable file is kept as {path}{BROKEN_SUFFIX}")
    else:
        _unlink(disk, path)
        report(f"{path} is missing or empty; its backup is used")
    disk.sync_directory(path.rpartition("/")[0])


def _read(disk: Disk, path: str) -> bytes:
    try:
        file = disk.open(path)
        return file.read_at(0, file.length())
    except FileNotFoundError:
        return b""
    except OSError as error:
        error.filename = error.filename or path  # so that a start that fails can name it
        raise


def persist_config(disk: Disk, path: str, chunks: Iterable[bytes]) -> None:
    """Replace the file by these bytes.  Raises OSError; the file then has the old content, or the new one, whole.

    When the last step alone fails it has the new one, and a power cut may bring the old one back.
    """
    directory = path.rpartition("/")[0]
    for made in disk.make_directories(directory):
        disk.sync_directory(made)
    temporary = path + TEMPORARY_SUFFIX
    _unlink(disk, temporary)
    try:
        _write(disk, temporary, chunks)
        _keep_as_backup(disk, path)
        disk.rename(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            disk.unlink(temporary)  # a full disk needs the room
        raise
    disk.sync_directory(directory)


def _write(disk: Disk, path: str, chunks: Iterable[bytes]) -> None:
    file = disk.create(path, 0)
    at = 0
    gathered = bytearray()
    for chunk in chunks:
        gathered += chunk
        if len(gathered) >= WRITE_BYTES:
            write_all(file, at, gathered)
            at += len(gathered)
            gathered = bytearray()
    if gathered:
        write_all(file, at, gathered)
    file.sync()


def _keep_as_backup(disk: Disk, path: str) -> None:
    """Give the good file the backup's name, too.  An empty one is what a torn write of Java's leaves: the backup stays, then."""
    if not _length(disk, path):
        return
    second = path + BACKUP_TEMPORARY_SUFFIX
    _unlink(disk, second)
    if disk.link(path, second):
        disk.rename(second, path + BACKUP_SUFFIX)
    else:
        # Without links the file is away for an instant; the directory is synced so that its backup is there by then.
        disk.rename(path, path + BACKUP_SUFFIX)
        disk.sync_directory(path.rpartition("/")[0])


def _length(disk: Disk, path: str) -> int:
    try:
        return disk.open(path).length()
    except FileNotFoundError:
        return 0


def _unlink(disk: Disk, path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        disk.unlink(path)
