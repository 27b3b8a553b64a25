"""The file of a capture: JSON lines, for eyes and for replay.

The first line says what was recorded: format, time, command, subject and the servers.  Each line after it is one event in the
order in which it happened: a connection that opens or closes, or a frame with its time in ms from the start, its header and body
decoded, and the frame itself in base64.  Reading takes `raw` alone for the truth, so that replay is byte exact; the decoded part
is made anew.  Golden files of bare frames (`*.bin`) are read, too.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from conformance.captures.decoding import Said, decode_all
from conformance.captures.frames import load_directed
from conformance.captures.recorder import Frame, Mark
from conformance.frames import Cutter

FORMAT: Final = 1
NAME_SERVER: Final = "name server"
BROKER: Final = "broker"
MARKS: Final = ("open", "close", "lost")


class BadCapture(Exception):
    """The file is no capture, or cannot be read.  Says in one line which line is wrong and why."""


class Server(NamedTuple):
    """A server that was recorded."""

    role: str
    """`name server` or `broker`."""
    address: str
    """`host:port` by which clients and route answers know it."""
    reached_at: str
    """`host:port` to which the relay connected."""
    name: str = ""
    """brokerName."""
    cluster: str = ""
    broker_id: int = 0


class Capture(NamedTuple):
    """A recording."""

    command: str
    """What made it: the client's command line, or how to make it again."""
    subject: str
    """What was recorded: label and version of the server."""
    about: str
    wall_ms: int
    """When it began; the events count from then on."""
    servers: tuple[Server, ...]
    events: tuple[Frame | Mark, ...]

    def server_at(self, reached_at: str) -> Server | None:
        """The server that a connection was relayed to."""
        return next((server for server in self.servers if reached_at in (server.reached_at, server.address)), None)


def write(path: Path, capture: Capture) -> None:
    """Write the file.  Raises `OSError`."""
    text = "".join(f"{line}\n" for line in lines_of(capture))
    path.write_text(text, encoding="utf-8", errors="backslashreplace")  # half a surrogate pair, as JSON spells it


def lines_of(capture: Capture) -> Iterator[str]:
    """The lines of the file."""
    yield _line(
        {
            "type": "capture",
            "format": FORMAT,
            "command": capture.command,
            "subject": capture.subject,
            "about": capture.about,
            "wall_ms": capture.wall_ms,
            "servers": [server._asdict() for server in capture.servers],
        }
    )
    for event, said in zip(capture.events, decode_all(capture.events), strict=True):
        yield _line(event_json(event, said))


def event_json(event: Frame | Mark, said: Said | None, *, raw: bool = True) -> dict[str, Any]:
    """One event as its line says it."""
    head: dict[str, Any] = {"type": "frame" if isinstance(event, Frame) else event.what, "ms": event.at_ms}
    head["connection"] = event.connection
    if isinstance(event, Mark):
        if event.what == "open":
            return {**head, "client": event.client, "server": event.server}
        return {**head, "by": "server" if event.by_server else "client"}
    head["to"] = "server" if event.to_server else "client"
    if said is not None:
        head |= said_json(said)
    return {**head, "raw": base64.b64encode(event.data).decode()} if raw else head


def said_json(said: Said) -> dict[str, Any]:
    """The decoded part of a frame's line."""
    line: dict[str, Any] = {"what": said.what, "code": said.code, "name": said.name, "opaque": said.opaque}
    if said.what == "answer":
        line["asked"] = said.asked_name
    line |= {"form": said.form.name, "flag": said.flag, "language": said.language, "version": said.version}
    if said.remark is not None:
        line["remark"] = said.remark
    if said.ext is not None:
        line["fields"] = said.fields()
    if said.body is not None:
        line["body"] = said.body.as_json()
    if said.problem is not None:
        line["problem"] = said.problem
    return line


def read(path: Path) -> Capture:
    """The capture of a file.  Raises `BadCapture`."""
    try:
        if path.suffix == ".bin":
            about, frames = load_directed(path)
            return Capture("", "", about, 0, (), tuple(frames))
        with path.open(encoding="utf-8") as file:
            lines = [(number, _object(path, number, line)) for number, line in enumerate(file, 1) if line.strip()]
    except OSError as wrong:
        raise BadCapture(f"{path}: {wrong.strerror or wrong}") from None
    except UnicodeDecodeError:
        raise BadCapture(f"{path}: not a capture: it is not text") from None
    except ValueError as wrong:
        raise BadCapture(str(wrong)) from None
    if not lines or lines[0][1].get("type") != "capture":
        raise BadCapture(f"{path}: not a capture: its first line does not say so")
    return _capture(path, lines)


def _capture(path: Path, lines: list[tuple[int, dict[str, Any]]]) -> Capture:
    number, head = lines[0]
    if head.get("format") != FORMAT:
        raise BadCapture(f"{path}: a capture of format {head.get('format')!r}, this reads {FORMAT}")
    try:
        servers = tuple(Server(**server) for server in head["servers"])
        events = []
        for number, line in lines[1:]:  # noqa: B007  (named in the error)
            events.append(_event(line))
        return Capture(head["command"], head["subject"], head["about"], int(head["wall_ms"]), servers, tuple(events))
    except KeyError as wrong:
        raise BadCapture(f"{path}: line {number}: no member {wrong}") from None
    except (TypeError, ValueError, binascii.Error) as wrong:
        raise BadCapture(f"{path}: line {number}: {wrong}") from None


def _event(line: dict[str, Any]) -> Frame | Mark:
    connection, at_ms, what = int(line["connection"]), float(line["ms"]), line["type"]
    if what == "frame":
        data = base64.b64decode(line["raw"], validate=True)
        cutter = Cutter()
        if cutter.feed(data) != [data]:
            raise ValueError("raw is not one whole frame")
        if line["to"] not in ("server", "client"):
            raise ValueError(f"to {line['to']!r}")
        return Frame(connection, line["to"] == "server", data, at_ms)
    if what not in MARKS:
        raise ValueError(f"type {what!r}")
    return Mark(connection, at_ms, what, line.get("by") == "server", line.get("client", ""), line.get("server", ""))


def _object(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        read = json.loads(line)
    except ValueError as wrong:
        raise ValueError(f"{path}: not a capture: line {number} is not JSON: {wrong}") from None
    if not isinstance(read, dict):
        raise ValueError(f"{path}: not a capture: line {number} is no JSON object")
    return read


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
