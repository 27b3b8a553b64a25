"""Frames as values: the header field by field under its declared names, the body by its kind, an answer with its question.

Decoding is for looking and comparing; the frame itself stays the truth.  What cannot be read says why and is never an error:
a capture may hold anything that a client or server sends.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import rmq_wire.headers.all  # noqa: F401  (fills REQUESTS)
from conformance.captures.bodies import Body, decode_body
from conformance.captures.recorder import Frame, Mark
from rmq_wire.codes import RequestCode, ResponseCode
from rmq_wire.command import Command, Unreadable
from rmq_wire.conversation import Conversation
from rmq_wire.declare import REQUESTS, Field, Header, Request, Role
from rmq_wire.encoding import Form
from rmq_wire.errors import BadFrame, BadHeader
from rmq_wire.properties import decode as decode_properties

ASKS: Final = "request"
ONEWAY: Final = "one-way"
ANSWERS: Final = "answer"
UNREADABLE: Final = "unreadable"

_AFTER_UNDERSCORE: Final = re.compile(r"_(.)")


class Said(NamedTuple):
    """One frame decoded."""

    what: str
    """`request`, `one-way`, `answer` or `unreadable`."""
    code: int
    name: str
    """Of the code: of a request or of a response."""
    opaque: int
    asked: int | None
    """The request code that this is or answers; None for an answer whose question was not kept."""
    question: int | None
    """Index of the event that asked, for an answer."""
    form: Form = Form.JSON
    flag: int = 0
    language: str = ""
    version: int = 0
    remark: str | None = None
    ext: dict[str, str] | None = None
    """Every ext field as text under its wire name; None when there is not even an empty table."""
    body: Body | None = None
    problem: str | None = None
    to_client: bool = False
    """The question goes, or went, from the server to the client."""

    @property
    def asked_name(self) -> str:
        """Name of the request code that this is about."""
        return request_name(self.asked) if self.asked is not None else "?"

    def fields(self) -> dict[str, Any]:
        """The ext fields by Java's member names, typed as declared, message properties taken apart; unknown ones as they are."""
        if not self.ext:
            return {}
        known = {field.wire: field for field in declared_fields(self)}
        return {_shown_name(known.get(name), name): _typed(known.get(name), value) for name, value in self.ext.items()}


def request_name(code: int) -> str:
    """Java's name of a request code, or its number."""
    return RequestCode(code).name if code in RequestCode.__members__.values() else str(code)


def response_name(code: int) -> str:
    """Java's name of a response code, or its number."""
    return ResponseCode(code).name if code in ResponseCode.__members__.values() else str(code)


def declared_fields(said: Said) -> tuple[Field, ...]:
    """The fields that the registry knows for such a frame."""
    request = declared(said.asked, to_client=said.to_client)
    if request is None:
        return ()
    kind: type[Header] = request.reply if said.what == ANSWERS else request
    return kind.fields()


def declared(code: int | None, *, to_client: bool) -> type[Request] | None:
    """The request class of a code; those that a client answers first when it is asked."""
    roles = (Role.CLIENT,) if to_client else (Role.BROKER, Role.NAME_SERVER, Role.CONTROLLER)
    for role in (*roles, *Role):
        if found := REQUESTS.get((role, -1 if code is None else code)):
            return found
    return None


class Decoder:
    """Decodes the events of one capture in their order; it remembers who asked what."""

    def __init__(self) -> None:
        self._questions: dict[tuple[int, bool, int], tuple[int, int]] = {}
        """(connection, asked by the client?, opaque) -> event, code."""
        self._events = 0

    def decode(self, event: Frame | Mark) -> Said | None:
        """What the next event says; None when it is no frame."""
        at, self._events = self._events, self._events + 1
        if isinstance(event, Mark):
            return None
        command = parse(event.data)
        question: tuple[int | None, int | None] = (None, None)
        if isinstance(command, Command):
            if command.is_response:
                question = self._questions.pop((event.connection, not event.to_server, command.opaque), question)
            elif not command.is_oneway:
                self._questions[event.connection, event.to_server, command.opaque] = (at, command.code)
        return said(command, event, question[1])._replace(question=question[0])


def said(command: Command | Unreadable | str, frame: Frame, asked: int | None) -> Said:
    """A frame and the command that it is, decoded.  asked: the code that it answers, if it is an answer."""
    if isinstance(command, str):
        return Said(UNREADABLE, 0, UNREADABLE, 0, None, None, problem=command)
    if isinstance(command, Unreadable):
        return Said(UNREADABLE, 0, UNREADABLE, command.opaque, None, None, command.form, command.flag, problem=command.why)
    problem: str | None = None
    ext: dict[str, str] = {}
    try:
        ext = dict(command.ext_map())
    except BadHeader as wrong:
        problem = str(wrong)
    is_answer = command.is_response
    about = asked if is_answer else command.code
    what, name = (ANSWERS, response_name(command.code)) if is_answer else (ASKS, request_name(command.code))
    if what == ASKS and command.is_oneway:
        what = ONEWAY
    raw = bytes(command.body)
    body = decode_body(-1 if about is None else about, is_answer=is_answer, ext=ext, version=command.version, raw=raw)
    has_table = bool(ext) or bool(bytes(command.raw_ext))
    return Said(
        what,
        command.code,
        name,
        command.opaque,
        about,
        None,
        Form(command.form),
        command.flag,
        str(command.language_name),
        command.version,
        command.remark,
        ext if has_table else None,
        body,
        problem,
        frame.to_server == is_answer,
    )


def parse(data: bytes) -> Command | Unreadable | str:
    """The command of one whole frame, or why there is none."""
    try:
        [command] = Conversation().feed(data)
    except BadFrame as wrong:
        return str(wrong)
    except ValueError:
        return "not one whole frame"
    return command


def decode_all(events: Iterable[Frame | Mark]) -> list[Said | None]:
    """What each event says; None for what is no frame."""
    decoder = Decoder()
    return [decoder.decode(event) for event in events]


def _shown_name(field: Field | None, wire: str) -> str:
    return wire if field is None else _AFTER_UNDERSCORE.sub(lambda found: found[1].upper(), field.name)


def _typed(field: Field | None, value: str) -> Any:
    if field is None or field.kind is str:
        return decode_properties(value) if field is not None and field.name == "properties" else value
    if field.kind is bool:
        return value.lower() == "true"
    try:
        return int(value)
    except ValueError:
        return value
