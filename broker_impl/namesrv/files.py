"""The name server's two files, written while nobody waits but the one who asked.

The change is in memory at once, and its asker gets the answer when it is on disk.  One text of a file is under way at a time:
it is made in slices and written by the shell's sync lane; changes that come meanwhile are gathered into the next.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from broker_impl.call import LATER, Call, Later, Parked, Refusal, Reply
from broker_impl.engine import Engine
from broker_impl.slices import Slices, finished
from rmq_net.service import Job
from rmq_store.config_files import persist_config
from rmq_store.disk import Disk
from rmq_store.errors import StoreError
from rmq_wire.codes import ResponseCode

LANE = "sync"
WAITING_MAX: Final = 4_096
"""Askers that wait for one file; a disk that hangs must not fill the memory."""

Text = Callable[[], Slices[bytes]]


class Files:
    """Writes whole files for capabilities."""

    def __init__(self, engine: Engine, disk: Disk) -> None:
        self._engine = engine
        self._disk = disk
        self._waiting: dict[str, list[Parked]] = {}
        """By file who waits for its next text; an entry, maybe empty, while a text is under way."""
        self._unsaved: dict[str, Text] = {}
        """By file, while what is in memory is not on the disk."""
        self._writing: set[str] = set()
        """Files that a thread is writing."""

    def check_room(self, path: str) -> None:
        """Before a change.  Raises `Refusal` when too many wait for the file."""
        if len(self._waiting.get(path, ())) >= WAITING_MAX:
            raise Refusal(ResponseCode.SYSTEM_BUSY, f"{WAITING_MAX} changes wait for {path} to be written")

    def write(self, call: Call, path: str, text: Text) -> Later:
        """Replace the file by `text()`, then answer: 0, or 1 when it could not be written (Java logs that and answers 0)."""
        self._unsaved[path] = text
        waiting = self._waiting.get(path)
        if waiting is None:
            self._waiting[path] = [call.detach()]
            self._begin(path, text)
        else:
            waiting.append(call.detach())
        return LATER

    def close(self) -> bool:
        """The last try to write what could not be written, when no thread writes any more.  False: something is lost."""
        for path, text in self._unsaved.items():
            try:
                if path in self._writing:
                    raise OSError("the disk did not answer in time")
                persist_config(self._disk, path, [finished(text())])
            except (OSError, StoreError) as error:
                self._engine.env.log.error("%s could not be written, its last changes are lost: %s", path, error)
                return False
        return True

    def _begin(self, path: str, text: Text) -> None:
        asked: list[Parked] = []

        def made() -> Slices[bytes]:
            asked.extend(self._waiting[path])  # at the first slice, when this turn's changes are all in memory
            self._waiting[path] = []
            return (yield from text())

        def write(made: bytes | None, error: BaseException | None) -> None:
            if made is None:
                self._done(asked, path, text, error)
                return
            self._writing.add(path)
            job = Job(
                LANE,
                lambda: persist_config(self._disk, path, [made]),
                lambda _, failed: self._done(asked, path, text, failed),
            )
            self._engine.job(job)

        self._engine.long_work(made(), write)

    def _done(self, asked: list[Parked], path: str, text: Text, error: BaseException | None) -> None:
        self._writing.discard(path)
        if self._waiting[path]:
            self._begin(path, text)
        else:
            del self._waiting[path]
            if error is None:
                del self._unsaved[path]
        if error is not None:
            self._engine.env.log.error("%s was not written: %s", path, error)
        for parked in asked:
            if error is None:
                parked.answer(Reply())
            else:
                parked.answer(Reply(code=ResponseCode.SYSTEM_ERROR, remark=f"changed, but not saved to {path}: {error}"))
