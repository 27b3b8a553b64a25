"""Which start of the machine the running store belongs to: whether the page cache still holds what the last process wrote.

A killed process loses nothing that it wrote; a machine that went down loses any part of what was not synced; and after a failed
sync the cache shows bytes that the medium never got.  A small file beside `abort` names the machine's start.  It stands only
while the store runs and no sync has failed.  When it names this start after an unclean stop, the files are as they were written;
when it names another, they are as the medium has them; when it is not there, nobody knows, and recovery writes what it means to
keep once more.  Java does not know the file and leaves it alone.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from rmq_store.disk.disk import Disk, write_all

NAME: Final = "abort.boot"


class Cache(Enum):
    """What the files show after an unclean stop."""

    WHOLE = "all that was written"
    LOST = "what the medium has: the machine was down"
    UNKNOWN = "perhaps bytes that the medium does not have: a sync may have failed"


class BootMark:
    """The file in one store's root. Methods raise OSError unless they say otherwise."""

    __slots__ = ("_disk", "path")

    def __init__(self, disk: Disk, root: str) -> None:
        self._disk = disk
        self.path = f"{root}/{NAME}"

    def take(self) -> Cache:
        """What the file says; it is gone then, until `put`."""
        try:
            file = self._disk.open(self.path)
        except FileNotFoundError:
            return Cache.UNKNOWN
        said = file.read_at(0, file.length())
        self.remove()
        if not said:
            return Cache.UNKNOWN
        return Cache.WHOLE if said == self._disk.boot_id.encode() else Cache.LOST

    def put(self) -> None:
        """The files are what this process writes from now on."""
        name = self._disk.boot_id.encode()
        write_all(self._disk.create(self.path, 0), 0, name)

    def remove(self) -> None:
        try:
            self._disk.unlink(self.path)
        except FileNotFoundError:
            pass

    def distrust(self) -> None:
        """A sync failed. Raises nothing: what cannot be removed is made to name no start."""
        try:
            self.remove()
        except OSError:
            try:
                self._disk.open(self.path).set_length(0)
            except OSError:
                pass  # a directory where nothing can be changed will not be opened again either
