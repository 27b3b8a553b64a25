"""Evidence decoded: each frame's code by name, header fields, remark and the beginning of its body, as the report shows them.

Only looks: what cannot be read is shown as bytes.  Of a case with many frames the first and the last are shown.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from typing import Final

from conformance.frames import PREFIX_BYTES, split
from conformance.suite.link import Frame
from conformance.suite.results import FrameRecord
from rmq_wire.codes import LanguageCode, RequestCode, ResponseCode
from rmq_wire.command import Command, Limits, decode_header
from rmq_wire.encoding import ONE_WAY, RESPONSE, Form
from rmq_wire.errors import WireError

BODY_BYTES_MAX: Final = 400
"""Of a body, shown."""
FIELD_CHARACTERS_MAX: Final = 400
FRAMES_MAX: Final = 60
"""Of one case, shown: the first half and the last half of it."""
_LIMITS: Final = Limits(frame_bytes_max=2**31 - 1)
_REQUESTS: Final = {int(code): code.name for code in RequestCode}
_RESPONSES: Final = {int(code): code.name for code in ResponseCode}
_LANGUAGES: Final = {int(code): code.name for code in LanguageCode}


def decoded_frames(frames: Sequence[Frame], count: int = FRAMES_MAX) -> list[FrameRecord]:
    """Up to `count` frames decoded; a note stands where some were left out."""
    if len(frames) <= count:
        return [decoded_frame(frame) for frame in frames]
    half = count // 2
    left_out = len(frames) - 2 * half
    gap = FrameRecord(-1, False, frames[half].at_s, 0, "end", note=f"{left_out} frames left out")
    return [*map(decoded_frame, frames[:half]), gap, *map(decoded_frame, frames[-half:])]


def decoded_frame(frame: Frame) -> FrameRecord:
    """One frame decoded."""
    record = FrameRecord(frame.connection, frame.to_server, round(frame.at_s, 4), frame.size, note=frame.note)
    if not frame.data and frame.note:
        record.kind = "end"
        return record
    command = _decode(frame.data)
    if command is None:
        _set_body(record, frame.data, frame.size)
        return record
    answers = bool(command.flag & RESPONSE)
    record.kind = "response" if answers else "one-way" if command.flag & ONE_WAY else "request"
    record.code = command.code
    record.code_name = (_RESPONSES if answers else _REQUESTS).get(command.code, "")
    record.opaque = command.opaque
    record.form = Form(command.form).name
    record.language = _LANGUAGES.get(command.language, str(command.language))
    record.version = command.version
    record.remark = _cut(command.remark) if command.remark is not None else None
    record.fields = {name: _cut(value) for name, value in command.ext_map().items()}
    _set_body(record, bytes(command.body), len(command.body) + frame.size - len(frame.data))
    return record


def _decode(data: bytes) -> Command | None:
    """The command whose whole header is here; of the body what there is."""
    if len(data) < PREFIX_BYTES:
        return None
    form, header, body = split(data)
    if form not in (Form.JSON, Form.ROCKETMQ) or not header:
        return None
    try:
        command = decode_header(header, form, body, _LIMITS)
        if not isinstance(command, Command):
            return None
        command.form = Form(form)
        command.ext_map()
    except (WireError, ValueError):
        return None
    return command


def _set_body(record: FrameRecord, body: bytes, size: int) -> None:
    record.body_bytes = size
    shown = body[:BODY_BYTES_MAX]
    text = _text(shown, whole=len(shown) == size)
    record.body_hex = text is None
    record.body = shown.hex() if text is None else text


def _text(shown: bytes, whole: bool) -> str | None:
    """As text, or None when it is none; a cut may have gone through a character."""
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(shown, final=whole)
    except UnicodeDecodeError:
        return None
    return text if all(character.isprintable() or character in "\n\r\t" for character in text) else None


def _cut(text: str) -> str:
    return text if len(text) <= FIELD_CHARACTERS_MAX else f"{text[:FIELD_CHARACTERS_MAX]}… ({len(text)} characters)"
