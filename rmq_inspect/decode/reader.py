"""Read-only access to one regular file by position, reached without following a link.

Whatever hinders a look is one line (`CannotLook`).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from rmq_columns.errors import DENIED, FileGone, NotPermitted
from rmq_columns.files.filesystem import READ_FLAGS, LocalFile, why
from rmq_inspect.errors import CannotLook


class Reader(LocalFile):
    """Access by position, of a file that is named as it is shown to a person."""

    def __init__(self, descriptor: int, name: str) -> None:
        super().__init__(descriptor, name)
        self.name = name

    def cannot_read(self, at: int, reason: OSError) -> Exception:
        return CannotLook(f"{self.name}: cannot be read at {at}: {why(reason)}")


def open_directory(base: str, parts: tuple[str, ...]) -> int:
    """A descriptor of base/parts…; only base itself may be a link.  Raises OSError, `NotPermitted`."""
    with permitted(base):
        descriptor = os.open(base, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for number, part in enumerate(parts, 1):
        try:
            with permitted(base, *parts[:number]):
                below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=descriptor)
        finally:
            os.close(descriptor)
        descriptor = below
    return descriptor


@contextmanager
def permitted(base: str, *parts: str) -> Iterator[None]:
    """What may not be looked at is `NotPermitted`, wherever it is met: to leave it out would say that it is empty."""
    try:
        yield
    except PermissionError as reason:
        raise NotPermitted(os.path.join(base, *parts), -1, DENIED) from reason


def open_beneath(base: str, parts: tuple[str, ...]) -> int:
    name = os.path.join(base, *parts)
    try:
        directory = open_directory(base, parts[:-1])
        try:
            with permitted(name):
                descriptor = os.open(parts[-1], READ_FLAGS, dir_fd=directory)
        finally:
            os.close(directory)
    except FileNotFoundError as reason:
        raise FileGone(name, -1, why(reason)) from reason
    except (OSError, ValueError) as reason:
        raise CannotLook(f"{name}: {why(reason)}") from reason
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise CannotLook(f"{name}: not a regular file")
    return descriptor
