"""The name server's two files, written while nobody waits but the one who asked.

The change is in memory at once; its text is handed to the shell's sync lane, and the asker gets the answer when it is on disk.
Texts for one file are written in the order of the changes, for a lane is one thread.
"""

from __future__ import annotations

import logging

from broker_impl.call import LATER, Call, Later, Parked, Reply
from broker_impl.engine import Engine
from rmq_net.service import Job
from rmq_store.config_files import persist_config
from rmq_store.disk import Disk
from rmq_store.errors import StoreError
from rmq_wire.codes import ResponseCode

log = logging.getLogger("rmq.namesrv")

LANE = "sync"


class Files:
    """Writes whole files for capabilities."""

    def __init__(self, engine: Engine, disk: Disk) -> None:
        self._engine = engine
        self._disk = disk
        self._unsaved: dict[str, tuple[bytes, bool]] = {}
        """Path -> the newest text that is not on the disk, and whether a write of it has failed."""

    def write(self, call: Call, path: str, text: bytes) -> Later:
        """Replace the file, then answer: 0, or 1 when it could not be written (Java logs that and answers 0)."""
        parked = call.detach()
        self._unsaved[path] = text, False
        self._engine.job(
            Job(LANE, lambda: persist_config(self._disk, path, [text]), lambda _, error: self._done(parked, path, text, error))
        )
        return LATER

    def close(self) -> bool:
        """The last try to write what could not be written, when no thread writes any more.  False: something is lost."""
        for path, (text, failed) in self._unsaved.items():
            try:
                if not failed:
                    raise OSError("the disk did not answer in time")
                persist_config(self._disk, path, [text])
            except (OSError, StoreError) as error:
                log.error("%s could not be written, its last changes are lost: %s", path, error)
                return False
        return True

    def _done(self, parked: Parked, path: str, text: bytes, error: BaseException | None) -> None:
        if error is None:
            if self._unsaved[path][0] is text:
                del self._unsaved[path]
            parked.answer(Reply())
            return
        if self._unsaved[path][0] is text:
            self._unsaved[path] = text, True
        log.error("%s was not written: %s", path, error)
        parked.answer(Reply(code=ResponseCode.SYSTEM_ERROR, remark=f"changed, but not saved to {path}: {error}"))
