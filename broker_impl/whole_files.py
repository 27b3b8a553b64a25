"""Files that are replaced as a whole, configuration and key-value tables, written while nobody waits but the one who asked.

The change is in memory at once, and its asker gets the answer when it is on disk.  One text of a file is under way at a time:
it is made in slices and written on a thread of the shell's; changes that come meanwhile are gathered into the next.  When it
cannot be written, every change that the disk does not have is taken back, newest first, and answered with SYSTEM_ERROR
(*differs*: Java logs that, keeps the change until its end and answers 0).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from broker_impl.engine.answers import LATER, Later, Refusal, Reply
from broker_impl.engine.call import Call, PendingAnswer
from broker_impl.engine.engine import Engine
from broker_impl.engine.slices import Slices, finished
from rmq_net.log import plain_text
from rmq_net.service import Job
from rmq_store.disk.config_files import persist_config
from rmq_store.disk.disk import Disk
from rmq_store.errors import StoreError
from rmq_wire.codes import ResponseCode

THREAD: Final = "files"
"""Neither the log's nor the tables': a disk that hangs here holds up nothing else."""
WAITING_MAX: Final = 4_096
"""Askers that wait for one file; a disk that hangs must not fill the memory."""
AGAIN_MS: Final = 10_000
"""After a failed write the file is written anew so much later: the disk may have had what was taken back."""

Text = Callable[[], Slices[bytes]]
Undo = Callable[[], None]


class WholeFiles:
    """Writes whole files for capabilities."""

    def __init__(self, engine: Engine, disk: Disk) -> None:
        self._engine = engine
        self._disk = disk
        self._files: dict[str, _File] = {}
        """By path, while the disk may not have what is in memory."""

    def check_room(self, path: str) -> None:
        """Before a change.  Raises `Refusal` when too many wait for the file."""
        file = self._files.get(path)
        if file is not None and len(file.waiting) >= WAITING_MAX:
            raise Refusal(ResponseCode.SYSTEM_BUSY, f"{WAITING_MAX} changes wait for {path} to be written")

    def write(self, call: Call, path: str, text: Text, undo: Undo) -> Later:
        """Replace the file by `text()`, then answer 0.  When it cannot be written, `undo` takes the change back: 1."""
        file = self._files.get(path)
        if file is None:
            file = self._files[path] = _File(path, text)
        file.waiting.append((call.detach(), undo))
        if not file.busy:
            self._begin(file)
        return LATER

    def close(self) -> bool:
        """The last try to write what the disk may not have, when no thread writes any more.  False: a change is lost that was
        not taken back.
        """
        saved = True
        for file in self._files.values():
            try:
                if file.thread:
                    raise OSError("the disk did not answer in time")
                persist_config(self._disk, file.path, [finished(file.text())])
            except (OSError, StoreError) as error:
                lost = len(file.begun) + len(file.waiting)
                self._engine.env.log.error("%s could not be written, %d changes are lost: %s", file.path, lost, plain_text(error))
                saved = saved and not lost
        return saved

    def _begin(self, file: _File) -> None:
        file.busy = True

        def made() -> Slices[bytes]:
            file.begun, file.waiting = file.waiting, []  # at the first slice, when this turn's changes are all in memory
            return (yield from file.text())

        def write(made: bytes | None, error: BaseException | None) -> None:
            if made is None:
                self._ended(file, error)
                return
            file.thread = True
            put = partial(persist_config, self._disk, file.path, [made])
            self._engine.job(Job(THREAD, put, lambda _, failed: self._ended(file, failed)))

        self._engine.in_background(made(), write)

    def _ended(self, file: _File, error: BaseException | None) -> None:
        file.busy = file.thread = False
        asked, file.begun = file.begun, []
        if error is None:
            if file.waiting:
                self._begin(file)
            else:
                del self._files[file.path]
            for pending, _ in asked:
                pending.answer(Reply())
            return
        asked, file.waiting = asked + file.waiting, []
        said = f"{file.path} could not be written: {plain_text(error)}"
        self._engine.env.log.error("%s; %d changes are taken back", said, len(asked))
        for _, undo in reversed(asked):
            self._engine.guard(undo)
        for pending, _ in asked:
            pending.answer(Refusal(ResponseCode.SYSTEM_ERROR, said))
        if not file.waits:
            file.waits = True
            self._engine.at(self._engine.env.mono_ms + AGAIN_MS, lambda: self._again(file))

    def _again(self, file: _File) -> None:
        file.waits = False
        if self._files.get(file.path) is file and not file.busy:
            self._begin(file)


class _File:
    """One of them.  `begun`: the changes that the text under way has; `waiting`: those since; `thread`: it is being written;
    `waits`: it is to be written anew.
    """

    __slots__ = ("begun", "busy", "path", "text", "thread", "waiting", "waits")

    def __init__(self, path: str, text: Text) -> None:
        self.path = path
        self.text = text
        self.begun: list[tuple[PendingAnswer, Undo]] = []
        self.waiting: list[tuple[PendingAnswer, Undo]] = []
        self.busy = self.thread = self.waits = False
