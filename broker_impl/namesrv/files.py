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
from rmq_wire.codes import ResponseCode

log = logging.getLogger("rmq.namesrv")

LANE = "sync"


class Files:
    """Writes whole files for capabilities."""

    def __init__(self, engine: Engine, disk: Disk) -> None:
        self._engine = engine
        self._disk = disk

    def write(self, call: Call, path: str, text: bytes) -> Later:
        """Replace the file, then answer: 0, or 1 when it could not be written (Java logs that and answers 0)."""
        parked = call.detach()
        self._engine.job(
            Job(LANE, lambda: persist_config(self._disk, path, [text]), lambda _, error: self._done(parked, path, error))
        )
        return LATER

    @staticmethod
    def _done(parked: Parked, path: str, error: BaseException | None) -> None:
        if error is None:
            parked.answer(Reply())
            return
        log.error("%s was not written: %s", path, error)
        parked.answer(Reply(code=ResponseCode.SYSTEM_ERROR, remark=f"changed, but not saved to {path}: {error}"))
