"""The lock on a store directory: one broker writes there, whatever becomes of the file that says so.

Java locks byte 0 of the file `lock` (POSIX, exclusive); so do we, which keeps each out of the other's store.  But a file can be
deleted, and then the name leads to another inode, which anybody may lock.  So the holder looks again and again: a name that is
gone is made and locked anew, and one that leads to a file that is not ours means that somebody else may be writing.  The
directory itself is locked too (flock), which keeps a second broker of ours out from the first instant.
(Java: DefaultMessageStore, which takes its lock once and never looks again)
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import Final, TypeAlias

from rmq_store.errors import ForeignFile

Identity: TypeAlias = tuple[int, int]
"""Device and inode."""
NO_FOLLOW: Final = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
"""O_NONBLOCK: opening a pipe must not hang; regular files ignore it."""
MODE: Final = 0o644
TAKEN: Final = (errno.EACCES, errno.EAGAIN)
"""What a lock says that another process has."""
_HELD: Final[set[Identity]] = set()
"""Every lock file this process holds: POSIX locks do not exclude their own process, and closing any descriptor of the file would
drop the lock."""


class RealLock:
    """A POSIX lock on byte 0, as `FileChannel.tryLock(0, 1, false)` takes it, and a flock on the directory."""

    def __init__(self, path: str, descriptor: int, directory: int) -> None:
        self._path = path
        self._descriptors = [descriptor, directory]
        self._identity = _identity(os.fstat(descriptor))
        _HELD.add(self._identity)

    def is_held(self) -> bool:
        """Nobody else can have it: the name leads to our file, or is made to.  Raises OSError when that cannot be found out."""
        for _ in range(2):
            found = _look(self._path)
            if found is not None:
                return found == self._identity
            with contextlib.suppress(FileExistsError):
                self._take_anew()
        return False

    def _take_anew(self) -> None:
        """The name is gone."""
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | NO_FOLLOW, MODE)
        identity = _identity(os.fstat(descriptor))
        if not _locked(descriptor):
            os.close(descriptor)
            return
        _HELD.add(identity)
        _HELD.discard(self._identity)
        os.close(self._descriptors[0])
        self._descriptors[0], self._identity = descriptor, identity

    def release(self) -> None:
        _HELD.discard(self._identity)
        if self._descriptors:
            descriptor, directory = self._descriptors
            self._descriptors.clear()
            os.close(descriptor)
            _leave_directory(directory)


def take(path: str) -> RealLock | None:
    """The lock, or None when another broker has it.  Raises OSError, ForeignFile."""
    found = _look(path)
    if found in _HELD:
        return None
    directory = _lock_directory(path.rpartition("/")[0] or "/")
    if directory is None:
        return None
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | NO_FOLLOW, MODE)
        try:
            if _locked(descriptor) and _look(path) == _identity(os.fstat(descriptor)):
                os.pwrite(descriptor, b"lock", 0)
                return RealLock(path, descriptor, directory)
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
    except BaseException:
        _leave_directory(directory)
        raise
    _leave_directory(directory)
    return None


def _look(path: str) -> Identity | None:
    """What the name leads to, None for nothing.  Raises ForeignFile when that is no regular file, OSError."""
    try:
        found = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found.st_mode):
        raise ForeignFile(f"{path} is not a regular file: move it away")
    return _identity(found)


def in_the_way(path: str, there: FileExistsError) -> FileExistsError:
    """What says why a file cannot be made: `there`, unless it is no regular file.  Raises OSError."""
    if stat.S_ISREG(os.lstat(path).st_mode):
        return there
    return FileExistsError(errno.EEXIST, "not a regular file, move it away", path)


def _identity(found: os.stat_result) -> Identity:
    return found.st_dev, found.st_ino


def _locked(descriptor: int) -> bool:
    """Lock byte 0; False when another process has it.  Raises OSError."""
    import fcntl  # POSIX only; imported here so that the module can be read elsewhere

    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
    except OSError as reason:
        if reason.errno in TAKEN:
            return False
        raise
    return True


def _lock_directory(path: str) -> int | None:
    """A descriptor of the directory, locked where the file system can do that; None when another broker has it."""
    import fcntl

    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as reason:
        if reason.errno in TAKEN:
            os.close(descriptor)
            return None
        # Some network file systems lock no directory; the file's lock is what counts then.
    return descriptor


def _leave_directory(descriptor: int) -> None:
    """Unlock and close: a child that was forked meanwhile shares the flock, and would keep it until it ends or runs a program."""
    import fcntl

    with contextlib.suppress(OSError):  # a file system that locks no directory
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)
