"""A capture as lines for people: when, who to whom, what, how long the answer took; below it every field and the body.

Names are short: C0, C1, ... are the client's ends of the connections; a server goes by its part and, where there are several, its
name.  Long texts are cut for the screen; `--json` gives them whole.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from conformance.captures.bodies import BATCH, MESSAGES, Body
from conformance.captures.decoding import ANSWERS, Said, decode_all
from conformance.captures.file import BROKER, Capture, event_json
from conformance.captures.kinds import KINDS, Kind
from conformance.captures.recorder import Frame, Mark
from rmq_inspect.decode.records import fit, printable
from rmq_inspect.times import text_of
from rmq_wire.codes import LanguageCode, RequestCode, ResponseCode

INDENT: Final = " " * 14
VALUE_COLUMNS: Final = 100
"""A field's value on the screen; `full` shows all of it."""
TIMES: Final = frozenset(
    {name for name, kind in KINDS.items() if kind is Kind.TIME} | {"beginTimestamp", "endTimestamp", "bornTime"}
)


class Shown(NamedTuple):
    """What of a capture is shown."""

    codes: frozenset[str] = frozenset()
    """Names or numbers of request codes, with their answers; empty: all."""
    connections: frozenset[int] = frozenset()
    """Empty: all."""
    events: frozenset[int] | None = None
    """Events that are meant, with their questions; None: all."""
    full: bool = False
    """Values whole."""

    def wants(self, at: int, event: Frame | Mark, said: Said | None) -> bool:
        """Whether this event is shown."""
        if self.connections and event.connection not in self.connections:
            return False
        if said is None:
            return not self.codes and self.events is None
        if self.codes and not self.codes & {said.asked_name, str(said.asked)}:
            return False
        return self.events is None or at in self.events


def code_named(text: str) -> str | None:
    """The name or number that `Shown.codes` knows a request code by; None when there is no such code."""
    if text.isascii() and text.isdigit():
        return str(int(text))
    name = text.upper().replace("-", "_")
    return name if name in RequestCode.__members__ else None


def as_json(capture: Capture, shown: Shown) -> Iterator[dict[str, Any]]:
    """The events that are shown, as the file has them but without the raw frames; answers with their round trip in ms."""
    said = decode_all(capture.events)
    for at, (event, one) in enumerate(zip(capture.events, said, strict=True)):
        if shown.wants(at, event, one):
            line = {"event": at, **event_json(event, one, raw=False)}
            trip_ms = _round_trip_ms(capture, event, one)
            yield line if trip_ms is None else {**line, "round_trip_ms": trip_ms}


def lines(capture: Capture, shown: Shown) -> Iterator[str]:
    """The timeline.  No line holds what a terminal would obey."""
    return map(printable, _lines(capture, shown))


def _lines(capture: Capture, shown: Shown) -> Iterator[str]:
    yield from _heading(capture)
    said = decode_all(capture.events)
    servers = _Servers(capture)
    for at, (event, one) in enumerate(zip(capture.events, said, strict=True)):
        if shown.wants(at, event, one):
            yield from _event(capture, event, one, servers, shown)


class _Servers:
    """Who is at the other end of a connection."""

    def __init__(self, capture: Capture) -> None:
        self._capture = capture
        brokers = [server for server in capture.servers if server.role == BROKER]
        self._several = len(brokers) > 1
        self._by_connection = {
            event.connection: event.server for event in capture.events if isinstance(event, Mark) and event.what == "open"
        }

    def name(self, connection: int) -> str:
        address = self._by_connection.get(connection)
        if address is None:
            return "server"
        server = self._capture.server_at(address)
        if server is None:
            return address
        return server.name if server.role == BROKER and self._several else server.role.replace(" ", "-")


def _heading(capture: Capture) -> Iterator[str]:
    for label, text in (("recorded", capture.subject), ("command", capture.command), ("about", capture.about)):
        if text:
            yield f"# {label + ':':<10} {printable(text)}"
    if capture.wall_ms:
        yield f"# {'begun:':<10} {text_of(capture.wall_ms)}"
    for server in capture.servers:
        name = f" {server.name} ({server.cluster}, id {server.broker_id})" if server.name else ""
        at = server.address if server.address == server.reached_at else f"{server.address}, reached at {server.reached_at}"
        yield f"# {server.role + ':':<10} {at}{printable(name)}"


def _event(capture: Capture, event: Frame | Mark, said: Said | None, servers: _Servers, shown: Shown) -> Iterator[str]:
    here, there = f"C{event.connection}", servers.name(event.connection)
    when = f"{event.at_ms:>10.3f}  "
    if isinstance(event, Mark):
        by = there if event.by_server else here
        what = {"open": f"{here} -- {there}  opened from {event.client} to {event.server}"}
        yield when + what.get(event.what, f"{here} -- {there}  {event.what} by {by}")
        return
    assert said is not None
    who = f"{here} -> {there}" if event.to_server else f"{there} -> {here}"
    yield when + f"{who}  {_title(capture, event, said)}"
    limit = 1 << 30 if shown.full else VALUE_COLUMNS
    if said.problem is not None:
        yield f"{INDENT}! {printable(said.problem)}"
    if said.remark:
        yield f"{INDENT}remark: {fit(printable(said.remark), limit)}"
    for name, value in said.fields().items():
        yield f"{INDENT}{printable(name)}: {_value(name, value, limit)}"
    if said.body is not None:
        yield from _body(said.body, limit)


def _title(capture: Capture, event: Frame, said: Said) -> str:
    head = f"{said.name} ({said.code})"
    if said.what == ANSWERS:
        trip_ms = _round_trip_ms(capture, event, said)
        took = "" if trip_ms is None else f" after {trip_ms:.3f} ms"
        head = f"answer to {said.asked_name}: {head}{took}"
    elif said.what != "request":
        head = f"{said.what} {head}"
    return f"{head}  opaque {said.opaque}, {said.form.name}, {_language(said)} version {said.version}, {len(event.data)} bytes"


def _language(said: Said) -> str:
    return LanguageCode(int(said.language)).name if said.language.isdigit() else printable(said.language) or "no language"


def _round_trip_ms(capture: Capture, event: Frame | Mark, said: Said | None) -> float | None:
    if said is None or said.question is None or not capture.wall_ms:  # bare frames have no times
        return None
    return round(event.at_ms - capture.events[said.question].at_ms, 3)


def _body(body: Body, limit: int) -> Iterator[str]:
    if body.problem is not None:
        yield f"{INDENT}! body: {printable(body.problem)}"
    if body.kind in (MESSAGES, BATCH):
        yield f"{INDENT}body: {body.kind}, {len(body.value)}"
        for at, message in enumerate(body.value):
            yield f"{INDENT}  [{at}]"
            for name, value in message.items():
                yield f"{INDENT}    {name}: {_value(name, value, limit)}"
    elif isinstance(body.value, dict) and "base64" not in body.value:
        yield f"{INDENT}body: {body.kind}"
        yield from _members(body.value, INDENT + "  ", limit)
    else:
        yield f"{INDENT}body: {body.kind} {_value('', body.value, limit)}"


def _members(value: dict[str, Any], indent: str, limit: int) -> Iterator[str]:
    """Objects of objects one member a line; what is small stays on its line."""
    for name, item in value.items():
        if isinstance(item, dict) and any(isinstance(below, dict) for below in item.values()):
            yield f"{indent}{printable(name)}:"
            yield from _members(item, indent + "  ", limit)
        else:
            yield f"{indent}{printable(name)}: {_value(name, item, limit)}"


def _value(name: str, value: Any, limit: int) -> str:
    if isinstance(value, bool) or value is None or isinstance(value, list | dict):
        return fit(printable(json.dumps(value, ensure_ascii=False)), limit)
    text = fit(printable(str(value)), limit)
    if name in TIMES and isinstance(value, int) and value > 0:
        return f"{text} ({text_of(value)})"
    if name == "code" and isinstance(value, int) and value in ResponseCode.__members__.values():
        return f"{text} ({ResponseCode(value).name})"
    return text
