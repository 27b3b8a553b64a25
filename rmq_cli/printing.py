"""Standard output that complains in one line when it cannot be written: a full disk, no descriptor at all.

A character that its encoding has not is written as an escape: what a producer sent, or how a directory is called, ends nothing.

Where nobody reads the pipe any more (`| head`) the command ends without a word, as one that SIGPIPE ends.
"""

from __future__ import annotations

import contextlib
import io
import os
import select
import sys
from collections.abc import Iterator
from typing import Any, TextIO, cast

from rmq_cli.complaint import Complaint, Unread


class _Output:
    """A text stream whose write errors are complaints.  Everything else is the stream's own, but for its bytes.

    Where the encoding is ASCII click would write past this to what is under the stream, in UTF-8.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """As `TextIO.write`.  Raises `Complaint`."""
        if text == "":  # click finds out with it whether this takes text, and would swallow the complaint
            return 0
        with self._complaining():
            return self._stream.write(text)

    def flush(self) -> None:
        """As `TextIO.flush`.  Raises `Complaint`."""
        with self._complaining():
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        if name == "buffer":
            raise AttributeError("nobody writes bytes here")
        return getattr(self._stream, name)

    @contextlib.contextmanager
    def _complaining(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            self._forget()
            raise Unread from None
        except OSError as error:
            self._forget()
            raise Complaint(f"standard output cannot be written: {error.strerror or error}") from None

    def _forget(self) -> None:
        """What is still in the buffer goes nowhere: the interpreter would fail on it once more at its end."""
        with contextlib.suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)


@contextlib.contextmanager
def complaining_output() -> Iterator[None]:
    """Inside the block `sys.stdout` complains; at its end it is flushed.  Raises `Complaint`."""
    stream = sys.stdout
    if stream is None:  # the process was started with the descriptor closed
        raise Complaint("standard output is closed: give it a place to go, for example >/dev/null")
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")
    sys.stdout = cast(TextIO, _Output(stream))
    try:
        yield
        sys.stdout.flush()
    finally:
        sys.stdout = stream


UNREAD_LOOK_S = 0.5


async def until_unread() -> None:
    """Raises `Unread` when nobody reads standard output any more (`| head`): who prints rarely would not find out by writing."""
    import trio

    poll = select.poll()
    try:
        poll.register(sys.stdout.fileno(), 0)  # errors alone, which nobody need ask for
    except (OSError, ValueError):  # no descriptor
        await trio.sleep_forever()
    while not any(event & select.POLLERR for _, event in poll.poll(0)):
        await trio.sleep(UNREAD_LOOK_S)
    raise Unread
