"""The clients that are tormented: a command run for each script, or a stock Java client that lives through many scripts.

A client is given where the name server is, which topic it is about and what to do (`ClientPart`), and prints one JSON line for
each thing that its application sees: `sent`, `failed`, `started`, `received`, in the end `done`.  A program that prints
nothing of the kind is judged by its frames alone.
"""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, Protocol

import trio

from conformance.torture.script import ClientPart

Report = Callable[[dict[str, Any]], None]
"""Takes each line that a program prints."""
RUN_S_MAX: Final = 85.0
"""A program that has not ended by then is killed; no script of the package needs half of it."""
END_S_MAX: Final = 5.0
"""Whoever has closed its standard input and output ends soon."""
LINE_BYTES_MAX: Final = 1 << 20


class ClientFailed(Exception):
    """The client cannot be run; one line says why."""


class Client(Protocol):
    """Somebody to torment.  behaves_like: the version whose behaviour is expected; quirks: whether Java's oddities are, too;
    at_once: scripts beside each other; is_resident: one process runs them all."""

    label: str
    behaves_like: tuple[int, ...]
    quirks: bool
    at_once: int
    is_resident: bool

    async def run(self, part: ClientPart, namesrv: str, topic: str, report: Report) -> None:
        """Run its program once, to its end.  Raises `ClientFailed`."""
        ...


def settings(part: ClientPart) -> dict[str, str]:
    """What a program is given, as texts."""
    plain: dict[str, Any] = {field: getattr(part, field) for field in part.__struct_fields__}
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in plain.items()}


class CommandClient:
    """A command with `{namesrv}`, `{topic}`, `{program}`, `{count}` and the other names of `ClientPart`, run for each script."""

    is_resident = False

    def __init__(
        self, command: str, *, label: str = "command", behaves_like: tuple[int, ...] = (5, 5, 0), at_once: int = 4
    ) -> None:
        """Raises `ClientFailed` when the command has no `{namesrv}`, or a name that nobody fills in."""
        self._words = shlex.split(command)
        self.label, self.behaves_like, self.quirks, self.at_once = label, behaves_like, False, at_once
        if not any("{namesrv}" in word for word in self._words):
            raise ClientFailed("the client's command needs {namesrv}, where the address of the name server goes")
        self._fill(ClientPart(), "", "")

    def _fill(self, part: ClientPart, namesrv: str, topic: str) -> list[str]:
        names = {"namesrv": namesrv, "topic": topic, **settings(part)}
        try:
            return [word.format_map(names) for word in self._words]
        except (KeyError, ValueError, IndexError) as wrong:
            raise ClientFailed(f"the client's command: {wrong}; known names are {', '.join(names)}") from None

    async def run(self, part: ClientPart, namesrv: str, topic: str, report: Report) -> None:
        """One process; its standard error goes where ours goes."""
        command = self._fill(part, namesrv, topic)
        try:
            process = await trio.lowlevel.open_process(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        except OSError as wrong:
            raise ClientFailed(f"{command[0]}: {wrong.strerror}") from None
        assert process.stdout is not None
        try:
            with trio.move_on_after(RUN_S_MAX):
                async for line in _lines(process.stdout):
                    event = _event(line)
                    if event is not None:
                        report(event)
                await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()
        if process.returncode:
            report({"event": "ended", "status": process.returncode})


class ResidentClient:
    """A program that reads lines of `name=value` words and runs each beside the others: one JVM for all scripts."""

    is_resident = True

    def __init__(self, process: trio.Process, log: Path, *, label: str, behaves_like: tuple[int, ...], at_once: int = 12) -> None:
        self._log = log
        self.label, self.behaves_like, self.quirks, self.at_once = label, behaves_like, True, at_once
        self._process = process
        self._runs = 0
        self._writing = trio.Lock()
        self._gone = False
        self._open: set[str] = set()
        self._report: dict[str, Report] = {}
        self._ended: dict[str, trio.Event] = {}

    async def read(self) -> None:
        """Hand out what the program prints; returns when it has ended."""
        assert self._process.stdout is not None
        async for line in _lines(self._process.stdout):
            event = _event(line)
            if event is None or event.get("run") not in self._report:
                continue
            run = event.pop("run")
            self._report[run](event)
            if event["event"] in ("done", "crashed"):
                self._open.discard(run)
                self._ended[run].set()
        self._gone = True
        for ended in self._ended.values():
            ended.set()

    async def run(self, part: ClientPart, namesrv: str, topic: str, report: Report) -> None:
        """One line, until its program says that it is done."""
        self._runs += 1
        run = str(self._runs)
        self._report[run], self._ended[run] = report, trio.Event()
        self._open.add(run)
        words: Mapping[str, str] = {"run": run, "namesrv": namesrv, "topic": topic, **settings(part)}
        assert self._process.stdin is not None
        try:
            async with self._writing:
                await self._process.stdin.send_all(" ".join(f"{name}={value}" for name, value in words.items()).encode() + b"\n")
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise await self._end() from None
        with trio.move_on_after(RUN_S_MAX):
            await self._ended[run].wait()
        del self._report[run]
        if self._gone and run in self._open:
            raise await self._end()

    async def _end(self) -> ClientFailed:
        """How it ended, with the last line that it wrote to its log."""
        with trio.move_on_after(END_S_MAX):
            await self._process.wait()
        lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()
        return ClientFailed(f"{self.label} has ended with status {self._process.returncode}: {lines[-1] if lines else 'no log'}")


@asynccontextmanager
async def resident(
    command: list[str], *, label: str, behaves_like: tuple[int, ...], environment: Mapping[str, str], log: Path
) -> AsyncIterator[ResidentClient]:
    """A running resident client; its standard error goes to a file.  Raises `ClientFailed`."""
    with log.open("wb") as errors:
        try:
            process = await trio.lowlevel.open_process(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, env=dict(environment)
            )
        except OSError as wrong:
            raise ClientFailed(f"{command[0]}: {wrong.strerror}") from None
    client = ResidentClient(process, log, label=label, behaves_like=behaves_like)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.read)
            yield client
            nursery.cancel_scope.cancel()
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()


def _event(line: bytes) -> dict[str, Any] | None:
    """The object of a line, when it is one that says what an application saw."""
    try:
        read = json.loads(line)
    except ValueError:
        return None
    return read if isinstance(read, dict) and isinstance(read.get("event"), str) else None


async def _lines(stream: trio.abc.ReceiveStream) -> AsyncIterator[bytes]:
    held = b""
    while data := await stream.receive_some(LINE_BYTES_MAX):
        *lines, held = (held + data).split(b"\n")
        for line in lines:
            yield line
    if held:
        yield held
