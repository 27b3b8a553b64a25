"""A store directory that follows a running broker's, with defects: what `Target.store` leads cases to.

Each time a case looks, files that are new in the broker's store appear here as hard links (so their contents are the live ones),
and those that a defect changes as copies, made anew and spoiled.  The broker's own files are never written.  Of the consume
queues only those of topics that have come since are shown: no case looks at others.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Final

from conformance.subjects.base import Target

QUEUES: Final = "consumequeue"
FRESH_S: Final = 0.4
"""How long a look is good for; cases look every 50 ms until they see what they wait for."""
_LOOSE: Final = "spoiled.new"


class Shadow:
    """The directory.  `spoil` is called at each look, after everything is up to date."""

    def __init__(self, live: Path, root: Path, spoil: Spoil | None, *, slots: int) -> None:
        """root: an empty directory, best on the same disk.  slots: hash slots of an index file."""
        self.live = live
        self.root = root
        self.slots = slots
        self._spoil = spoil
        self._looked_s = -FRESH_S
        self._old = {entry.name for entry in os.scandir(live / QUEUES)} if (live / QUEUES).is_dir() else set()

    def look(self) -> Path:
        """Bring it up to date, unless that was just done."""
        if time.monotonic() - self._looked_s < FRESH_S:
            return self.root
        shutil.rmtree(self.root, ignore_errors=True)
        for directory, below, names in os.walk(self.live):
            there = Path(directory).relative_to(self.live)
            if there.parts == (QUEUES,):
                below[:] = [name for name in below if name not in self._old]
            (self.root / there).mkdir(parents=True, exist_ok=True)
            for name in names:
                self._take(there / name)
        if self._spoil is not None:
            self._spoil(self)
        self._looked_s = time.monotonic()
        return self.root

    def new_topics(self) -> set[str]:
        """Topics that have come since."""
        return {path.name for path in (self.root / QUEUES).iterdir() if path.name not in self._old}

    def new_queues(self) -> Iterator[Path]:
        """Their consume queues' files, relative to the store."""
        for topic in sorted(self.new_topics()):
            yield from (path.relative_to(self.root) for path in sorted((self.root / QUEUES / topic).glob("*/*")))

    def change(self, file: Path, edit: Callable[[bytes], bytes]) -> None:
        """Put a changed copy in a file's place.  file: relative to the store."""
        loose = self.root / _LOOSE
        loose.write_bytes(edit((self.root / file).read_bytes()))
        loose.replace(self.root / file)

    def remove(self, file: Path) -> None:
        """Let it be missing."""
        (self.root / file).unlink(missing_ok=True)

    def rename(self, file: Path, name: str) -> None:
        """Give it another name in the same directory."""
        (self.root / file).rename(self.root / file.with_name(name))

    def files(self, directory: str) -> list[Path]:
        """The files of a directory, by name, relative to the store."""
        there = self.root / directory
        return sorted(path.relative_to(self.root) for path in there.iterdir()) if there.is_dir() else []

    def _take(self, file: Path) -> None:
        """A link; on another disk a copy.  What is gone meanwhile is left out."""
        try:
            os.link(self.live / file, self.root / file)
        except FileNotFoundError:
            return
        except OSError:
            shutil.copyfile(self.live / file, self.root / file)


Spoil = Callable[[Shadow], None]


class ShadowTarget(Target):
    """A target whose store is brought up to date whenever somebody asks for it."""

    shadow: Shadow

    def __getattribute__(self, name: str) -> object:
        if name == "store":
            return object.__getattribute__(self, "shadow").look()
        return object.__getattribute__(self, name)


def shadowed(target: Target, shadow: Shadow) -> Target:
    """The same target with this directory as its store."""
    made = ShadowTarget(**{one.name: getattr(target, one.name) for one in fields(Target)})
    object.__setattr__(made, "shadow", shadow)  # the class is frozen
    return made
