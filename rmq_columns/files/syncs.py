"""What was made on this machine, onto its disk: contents of files, and names, which are contents of directories.

A rename or a new file is safe only when its directory is synced, and that only when its own name is, up to what was there before.
A file system that cannot sync directories (CIFS says EINVAL) is taken to need no such thing.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress


def sync_directory(path: str) -> None:
    """The names in it.  Raises OSError."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    except OSError as reason:
        if reason.errno != errno.EINVAL:
            raise
    finally:
        os.close(handle)


def sync_up(path: str, top: str) -> None:
    """The names in this directory and in those above it, up to `top`; one that has gone again meanwhile is nobody's.

    Raises OSError.
    """
    while True:
        with suppress(FileNotFoundError):
            sync_directory(path)
        if path == top or len(path) <= len(top):
            return
        path = os.path.dirname(path)


def sync_tree(root: str) -> None:
    """Every file and every name beneath.  Raises OSError."""
    for directory, _, names in os.walk(root, onerror=_raised):
        for name in names:
            handle = os.open(os.path.join(directory, name), os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
        sync_directory(directory)


def make_directories(path: str) -> None:
    """This directory and what is missing above it, with their names.  Raises OSError."""
    path = os.path.abspath(path)
    if os.path.isdir(path):
        return
    above = os.path.dirname(path)
    if not os.path.exists(above):
        make_directories(above)
    try:
        os.mkdir(path)
    except FileExistsError:
        if not os.path.isdir(path):
            raise
    sync_directory(above)


def _raised(reason: OSError) -> None:
    raise reason
