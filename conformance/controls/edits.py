"""The operations of the tables of defects: to which messages something is done (`requests`, `answers`, …), and what.

An edit changes the message that passes in place, or says what is done instead of passing it.  Edits of a number, a field or a
code stand here; what needs a thought of its own is a function beside its table.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Any

from conformance.controls import frames
from conformance.controls.frames import Message
from conformance.controls.proxy import Mutate, Seen, Step, answering
from rmq_wire import properties as property_text
from rmq_wire.codes import ResponseCode

Edit = Mutate
Codes = int | Iterable[int]
SEND_PROPERTIES = "i"
"""The field of a send by version 2."""


# To which messages


def _those(codes: Codes, edit: Edit, wanted: Callable[[Seen], bool]) -> Mutate:
    chosen = frozenset([codes] if isinstance(codes, int) else codes)
    return lambda seen: edit(seen) if seen.request.code in chosen and wanted(seen) else None


def requests(codes: Codes, edit: Edit) -> Mutate:
    """Requests with these codes on their way to the server."""
    return _those(codes, edit, lambda seen: not seen.own and seen.answer is None)


def answers(codes: Codes, edit: Edit) -> Mutate:
    """The answers of requests with these codes."""
    return _those(codes, edit, lambda seen: seen.answer is not None)


def notices(codes: Codes, edit: Edit) -> Mutate:
    """The server's own requests with these codes."""
    return _those(codes, edit, lambda seen: seen.own)


def every_request(edit: Edit) -> Mutate:
    """Whatever its code."""
    return lambda seen: edit(seen) if not seen.own and seen.answer is None else None


def every_answer(edit: Edit) -> Mutate:
    """Whatever was asked for."""
    return lambda seen: edit(seen) if seen.answer is not None else None


def together(first: Mutate, second: Mutate) -> Mutate:
    """Two mutators of different messages."""

    def either(seen: Seen) -> Iterable[Step] | None:
        steps = first(seen)
        return second(seen) if steps is None else steps

    return either


def of(code: int, edit: Edit) -> Edit:
    """Only answers with this code."""
    return lambda seen: edit(seen) if seen.reply.code == code else None


def where(edit: Edit, **fields: str) -> Edit:
    """Only messages whose fields have these values."""
    return lambda seen: edit(seen) if fields.items() <= message_of(seen).ext.items() else None


# In place of passing it


def accepted(seen: Seen) -> Iterable[Step]:
    """Answer 0 and do nothing."""
    return [] if seen.request.is_one_way else [answering(seen.request.answer())]


def answered(*, body: bytes = b"", **fields: str) -> Edit:
    """Answer 0 with this, and do nothing."""
    return lambda seen: [answering(seen.request.answer(ext=fields, body=body))]


def dropped(seen: Seen) -> Iterable[Step]:
    """It never arrives."""
    return []


def one_way_dropped(seen: Seen) -> Iterable[Step] | None:
    """What wants no answer never arrives."""
    return [] if seen.request.is_one_way else None


# Header


def message_of(seen: Seen) -> Message:
    """The message that passes."""
    return seen.request if seen.answer is None else seen.answer


def constant(**fields: str) -> Edit:
    """These fields have these values, always."""
    return lambda seen: message_of(seen).ext.update(fields)


def add(field: str, by: int) -> Edit:
    """A number of an answer that has it, made greater."""

    def edit(seen: Seen) -> None:
        if field in seen.reply.ext:
            seen.reply.ext[field] = str(int(seen.reply.ext[field]) + by)

    return edit


def gone(*fields: str) -> Edit:
    """Without these fields."""

    def edit(seen: Seen) -> None:
        for field in fields:
            message_of(seen).ext.pop(field, None)

    return edit


def unset(field: str, bits: int) -> Edit:
    """Bits of a field taken away from a request."""
    return lambda seen: seen.request.ext.update({field: str(int(seen.request.ext.get(field, 0)) & ~bits)})


def code(to: int, *, body: bytes | None = None, **fields: str) -> Edit:
    """Another code; with other fields and another body where they are given."""

    def edit(seen: Seen) -> None:
        seen.reply.code = to
        if body is not None:
            seen.reply.body = body
        if fields:
            seen.reply.ext = dict(fields)

    return edit


def mark(*, on: int = 0, off: int = 0) -> Edit:
    """Bits of the flag set, and taken away."""

    def edit(seen: Seen) -> None:
        message = message_of(seen)
        message.flag = (message.flag | on) & ~off

    return edit


# Properties


def without(text: str, *names: str) -> str:
    """Properties without some of them."""
    return property_text.encode({name: value for name, value in property_text.decode(text).items() if name not in names})


def sent_properties(seen: Seen) -> dict[str, str]:
    """Those of a message that is sent."""
    return property_text.decode(str(seen.request.ext.get(SEND_PROPERTIES, "")))


def no_property(*names: str, field: str = SEND_PROPERTIES) -> Edit:
    """The message without these properties."""
    return lambda seen: seen.request.ext.update({field: without(str(seen.request.ext.get(field, "")), *names)})


def other_property(name: str, was: str, becomes: str) -> Edit:
    """Another value of a property that has this one."""

    def edit(seen: Seen) -> None:
        pairs = sent_properties(seen)
        if pairs.get(name) == was:
            seen.request.ext[SEND_PROPERTIES] = property_text.encode(pairs | {name: becomes})

    return edit


# Body


def text(pattern: bytes | re.Pattern[bytes], by: bytes | Callable[[re.Match[bytes]], bytes]) -> Edit:
    """What looks so in an answer's body replaced, everywhere."""
    compiled = re.compile(pattern)

    def edit(seen: Seen) -> None:
        seen.reply.body = compiled.sub(by, seen.reply.body)

    return edit


def edit_json(body: bytes, edit: Callable[[Any], None]) -> bytes:
    """A JSON body edited; bare integer keys are put in quotes first."""
    table = json.loads(re.sub(rb"([{,]\s*)(-?\d+)(\s*:)", rb'\1"\2"\3', body))
    edit(table)
    return json.dumps(table, ensure_ascii=False, separators=(",", ":")).encode()


def table(change: Callable[[Any], None]) -> Edit:
    """The table that is a message's body, where it has one, changed."""

    def edit(seen: Seen) -> None:
        message = message_of(seen)
        if message.body:
            message.body = edit_json(message.body, change)

    return edit


def each_unit(change: frames.Edit) -> Edit:
    """The units of an answer that has some, changed one by one."""

    def edit(seen: Seen) -> None:
        if seen.reply.code == ResponseCode.SUCCESS and seen.reply.body:
            seen.reply.body = frames.edit_units(seen.reply.body, change)

    return edit


def number(field: str, value: int) -> Edit:
    """A number of each unit is this, always."""
    return each_unit(lambda unit: frames.put(unit, field, value))


def rearranged(arrange: Callable[[list[bytearray]], list[bytearray]]) -> Edit:
    """The answer's units in another order, or some of them, if there are several."""

    def edit(seen: Seen) -> None:
        units = frames.units_of(seen.reply.body) if seen.reply.code == ResponseCode.SUCCESS else []
        if len(units) > 1:
            seen.reply.body = b"".join(map(bytes, arrange(units)))

    return edit
