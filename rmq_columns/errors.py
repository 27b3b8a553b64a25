"""What goes wrong with a store's bytes, and where.  Every error says file and byte, and survives being sent between processes."""

from __future__ import annotations

import re
from typing import Final

DENIED: Final = "Permission denied"
_KEYS: Final = re.compile(r"(?<=://)[^/?#@]*@")


def without_keys(uri: str) -> str:
    """A path or URI as it may be shown: without what stands for a user and his password."""
    return _KEYS.sub("", uri)


class CannotLook(Exception):
    """The directory or file cannot be read as asked; the text says what is wrong and what to do."""


class StoreError(Exception):
    """The store, not the program.  path: as the file system names it.  at: byte of the file, -1 for the file as a whole."""

    def __init__(self, path: str, at: int, why: str) -> None:
        super().__init__(path, at, why)
        self.path, self.at, self.why = path, at, why

    def __str__(self) -> str:
        path = without_keys(self.path)
        return f"{path}: {self.why}" if self.at < 0 else f"{path}, byte {self.at}: {self.why}"


class Malformed(StoreError):
    """Bytes that are not what they should be, met in mode FAILFAST."""


class CannotRead(StoreError, CannotLook):
    """A file or directory that is gone, or that the file system does not give."""


class FileGone(CannotRead):
    """It was there when the splits were planned."""


class NotPermitted(StoreError):
    """A file or directory that its owner keeps from whoever asks.

    No `CannotRead`: what is wrong with a store is reported as a finding, and a row without it would say that it is not there.
    """

    def __str__(self) -> str:
        return f"{DENIED}: {without_keys(self.path)}"


class SeamMismatch(StoreError):
    """A split did not end where the next one begins: the point was forged by a message's body, or the log was changed meanwhile.

    Read with `splitStrategy=file`.
    """


class BadOption(ValueError):
    """An option that there is not, or a value that it does not take."""
