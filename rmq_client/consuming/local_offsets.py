"""The progress of a broadcasting consumer, in a file of its own machine that a Java consumer of the same client id goes on with.

`~/.rocketmq_offsets/<client id>/<group>/offsets.json`, and `.bak` beside it, the one before.  Queues that are not named now stay
in the file.  A file is replaced, never written in place: a kill leaves the old one or the new one.
Source: `LocalFileOffsetStore`, `OffsetSerializeWrapper`, `MixAll.string2File`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Final

from msgspec import field

from rmq_client.errors import CallerError
from rmq_wire import fastjson, names
from rmq_wire.bodies.body import DialectBody
from rmq_wire.declare import I64
from rmq_wire.errors import BadBody
from rmq_wire.fastjson import MessageQueue

DIRECTORY: Final = ".rocketmq_offsets"
FILE: Final = "offsets.json"
BACKUP: Final = ".bak"


class OffsetSerializeWrapper(DialectBody):
    """The file."""

    odd_bytes_max: ClassVar[int] = 1 << 30
    """It is ours: one that is not read would count as none."""
    offset_table: dict[MessageQueue, I64] = field(default_factory=dict)


class LocalOffsets:
    """The file of one client and group."""

    def __init__(self, client_id: str, group: str, root: Path | None = None) -> None:
        """root: instead of `~/.rocketmq_offsets` (Java: `rocketmq.client.localOffsetStoreDir`).  Raises `CallerError`."""
        for name in (client_id, group):
            if problem := names.path_problem(name):
                raise CallerError(f"{name!r} cannot be a directory for offsets: {problem}")
        self.path = (root or Path.home() / DIRECTORY) / client_id / group / FILE

    def load(self) -> dict[MessageQueue, int]:
        """What it says, or `.bak` where it is absent, empty or broken; nothing where there is nothing in either.

        Raises `CallerError` when one is broken and the other is not there or broken, too, and when one cannot be read: to begin
        anew without a word would consume all again, or skip.
        """
        broken = False
        for path in (self.path, self._backup):
            try:
                if (found := self._read(path)) is not None:
                    return found
            except BadBody:
                broken = True
        if broken:
            raise CallerError(f"neither {self.path} nor {BACKUP} beside it says any progress: mend or remove them")
        return {}

    def save(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Replace what it says of these queues.  Raises `OSError`, and `CallerError` as `load`."""
        text = fastjson.dumps_pretty({"offsetTable": {**self.load(), **offsets}})
        self.path.parent.mkdir(parents=True, exist_ok=True)
        part = self.path.with_name(FILE + ".tmp")
        with part.open("wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if self._is_good():  # a broken one must not push out a good .bak
            os.replace(self.path, self._backup)
        os.replace(part, self.path)

    @property
    def _backup(self) -> Path:
        return self.path.with_name(FILE + BACKUP)

    def _is_good(self) -> bool:
        try:
            return self._read(self.path) is not None
        except BadBody:
            return False

    @staticmethod
    def _read(path: Path) -> dict[MessageQueue, int] | None:
        """None: it is absent or empty.  Raises `BadBody`, `CallerError`."""
        try:
            text = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise CallerError(f"{path} cannot be read: {error.strerror or error}") from None
        return OffsetSerializeWrapper.read(text).offset_table if text else None
