"""What `rmq send` sends: its argument, a file, or lines as they come.

A thread waits for the file, or for who types.  Meanwhile the client says that it is there, and sees which connections end.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, Final, Self

import trio

from rmq_cli.complaint import Complaint

CHUNK_BYTES: Final = 1 << 16
"""At most so much is read at once: what a pipe holds."""
STANDARD_INPUT: Final = Path("-")


class Bodies:
    """Of messages, in their order."""

    def __init__(self, body: str | None, file: Path | None, lines: bool) -> None:
        """body: the only one.  file: what it is read from, None is standard input.  lines: each line of that is one."""
        self._body = None if body is None else os.fsencode(body)
        self._file = None if file == STANDARD_INPUT else file
        self._lines = lines
        self._source: Any = None
        self._begun: list[bytes] = []
        self._ended = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None and self._source is not None:
            self._source.close()

    async def more(self) -> list[bytes]:
        """Those that are there next, waited for; none at the end.  Raises `Complaint` for what cannot be read."""
        if self._lines:
            return await self._more_lines()
        if self._ended:
            return []
        self._ended = True
        if self._body is not None:
            return [self._body]
        while chunk := await self._chunk():
            self._begun.append(chunk)
        return [b"".join(self._begun)]

    async def _more_lines(self) -> list[bytes]:
        """Without their ends; empty ones are left out."""
        while not self._ended:
            chunk = await self._chunk()
            head, newline, tail = chunk.rpartition(b"\n")
            if chunk and not newline:
                self._begun.append(chunk)
                continue
            text = b"".join((*self._begun, head))
            self._begun, self._ended = [tail], not chunk
            if found := [line for one in text.split(b"\n") if (line := one.rstrip(b"\r"))]:
                return found
        return []

    async def _chunk(self) -> bytes:
        while True:
            try:
                chunk: bytes | None = await trio.to_thread.run_sync(self._read, abandon_on_cancel=True)
            except OSError as error:
                raise Complaint(f"{self._file or 'standard input'}: {error.strerror or error}") from None
            if chunk is not None:
                return chunk
            await trio.lowlevel.wait_readable(self._source)  # who started us has made it non-blocking

    def _read(self) -> Any:
        if self._source is None:  # a pipe by name opens when somebody writes
            self._source = _standard_input() if self._file is None else self._file.open("rb", buffering=0)
        return self._source.read(CHUNK_BYTES)


def _standard_input() -> Any:
    """Without its buffer: the interpreter, at its end, would wait in vain for what a thread that is left behind holds of it."""
    if sys.stdin is None:  # the process was started with the descriptor closed
        raise Complaint("standard input is closed: give it a place to come from, or name a --file")
    return getattr(sys.stdin.buffer, "raw", sys.stdin.buffer)
