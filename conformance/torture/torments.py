"""What each torment makes of an honest answer: a list of moves that the server then carries out on the connection.

Moves are bytes with the size of their pieces, waits, ends of the connection.  Everything here is a pure function of the
answer and the step, except which answers a `glue` or `reorder` still holds back: that stays with the connection.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from conformance.torture.cluster import Answer
from conformance.torture.script import Step, request_code, response_code
from rmq_wire import fastjson
from rmq_wire.codes import VERSION
from rmq_wire.encoding import RESPONSE, Form, encode_request, encode_response, frame_prefix
from rmq_wire.layout.flat import flat
from rmq_wire.layout.frame import FRAME_BYTES_MAX, PREFIX

STRANGE_OPAQUE: Final = 1_987_654_321
"""Of an answer to nobody: stock clients count from 0."""
ASKED_OPAQUE: Final = 7_000
"""Of the requests that this server sends to a client."""
GARBAGE_BYTES: Final = 64
GARBAGE_SEED: Final = 5
_PREFIX_SIZE: Final = flat(PREFIX).packed.size


class Put(NamedTuple):
    """Send bytes in pieces of this size (0: in one piece), with a wait before each piece but the first."""

    data: bytes
    chunk_bytes: int = 0
    pause_ms: int = 0


class Wait(NamedTuple):
    """Do what follows later; other answers on the connection go on."""

    ms: int


class End(NamedTuple):
    """Close the connection, orderly or by a reset."""

    reset: bool = False


class StopReading(NamedTuple):
    """Read nothing from the connection for so long."""

    ms: int


Move = Put | Wait | End | StopReading


def encode(answer: Answer) -> bytes:
    """The honest bytes."""
    parts = encode_response(answer.code, answer.opaque, form=answer.form, remark=answer.remark, ext=answer.ext, body=answer.body)
    return parts if isinstance(parts, bytes) else b"".join(parts)


def moves(step: Step, answer: Answer) -> list[Move]:
    """What to send instead of the answer."""
    return _TORMENTS[step.do](step, answer)


def _split(step: Step, answer: Answer) -> list[Move]:
    """In pieces of chunk_bytes, each a segment of its own, ms apart."""
    return [Put(encode(answer), step.chunk_bytes, step.ms)]


def _delay(step: Step, answer: Answer) -> list[Move]:
    """ms later."""
    return [Wait(step.ms), Put(encode(answer))]


def _drop(step: Step, answer: Answer) -> list[Move]:
    """Never."""
    return []


def _double(step: Step, answer: Answer) -> list[Move]:
    """count times."""
    return [Put(encode(answer) * step.count)]


def _unknown_opaque(step: Step, answer: Answer) -> list[Move]:
    """After `count` answers to questions that nobody asked, in the same segment."""
    unknown = b"".join(
        encode(Answer(code=1, opaque=number, form=answer.form, remark=step.remark, ext={"offset": "7"}))
        for number in (STRANGE_OPAQUE, -1, STRANGE_OPAQUE + 1)[: step.count]
    )
    return [Put(unknown + encode(answer))]


def _null_fields(step: Step, answer: Answer) -> list[Move]:
    """With members that are null: the remark, ext fields, and extFields itself where there are none."""
    members = _members(answer)
    members["remark"] = None
    ext = members.get("extFields")
    members["extFields"] = {**ext, "nothing": None, "transactionId": None} if ext else None
    return [Put(_json_frame(members, answer.body))]


def _extra_fields(step: Step, answer: Answer) -> list[Move]:
    """With members that no version knows, in header, ext fields and JSON body."""
    members = _members(answer)
    members |= {"zzz": {"deep": [1, {"er": None}]}, "aaa": "a text", "extra": 12345678901234}
    members["extFields"] = {**(members.get("extFields") or {}), "fromTheFuture": "1", "π": "π"}
    body = answer.body
    if isinstance(answer.plain_body, dict):
        body = json.dumps({**answer.plain_body, "fromTheFuture": {"a": [1, 2.5, None]}}).encode()
    return [Put(_json_frame(members, body))]


def _numbers(step: Step, answer: Answer) -> list[Move]:
    """With ext fields that are JSON numbers and truth values, header numbers as texts, and the language as a number."""
    members = _members(answer)
    ext = members.get("extFields") or {}
    members["extFields"] = {name: _bare(value) for name, value in ext.items()}
    members |= {"code": str(members["code"]), "flag": str(members["flag"]), "opaque": str(members["opaque"])}
    return [Put(_json_frame(members, answer.body))]


def _bare_keys(step: Step, answer: Answer) -> list[Move]:
    """With the JSON body in fastjson's own spelling: integers as keys without quotes."""
    body = fastjson.dumps_fastjson(_integer_keys(answer.plain_body)) if answer.plain_body is not None else answer.body
    return [Put(encode(_changed(answer, body=body)))]


def _binary(step: Step, answer: Answer) -> list[Move]:
    """In the header form that was not asked in."""
    form = Form.JSON if answer.form == Form.ROCKETMQ else Form.ROCKETMQ
    return [Put(encode(_changed(answer, form=form)))]


def _answer_code(step: Step, answer: Answer) -> list[Move]:
    """Another response code with a remark; no fields and no body unless the step says `whole`."""
    if step.whole:
        return [Put(encode(_changed(answer, code=response_code(step.code), remark=step.remark)))]
    return [Put(encode(Answer(code=response_code(step.code), opaque=answer.opaque, form=answer.form, remark=step.remark)))]


def _half(step: Step, answer: Answer) -> list[Move]:
    """The first half, then the connection is closed at once: no other answer may fill the other half."""
    data = encode(answer)
    return [Put(data[: len(data) // 2]), End()]


def _close(step: Step, answer: Answer) -> list[Move]:
    """The connection is closed instead."""
    return [End()]


def _reset(step: Step, answer: Answer) -> list[Move]:
    """The connection is reset (RST) instead."""
    return [End(reset=True)]


def _oversized(step: Step, answer: Answer) -> list[Move]:
    """The answer announces one byte more than any frame may have."""
    prefix = flat(PREFIX).packed.pack(FRAME_BYTES_MAX + 1, 16)
    return [Put(prefix + encode(answer)[_PREFIX_SIZE:])]


def _garbage(step: Step, answer: Answer) -> list[Move]:
    """A sound length, then bytes that are no header."""
    noise = random.Random(GARBAGE_SEED).randbytes(GARBAGE_BYTES)
    return [Put(frame_prefix(GARBAGE_BYTES, 0, Form.JSON) + noise)]


def _cut_body(step: Step, answer: Answer) -> list[Move]:
    """The body ends in the middle; the frame is sound."""
    return [Put(encode(_changed(answer, body=answer.body[: len(answer.body) // 2])))]


def _flip_body(step: Step, answer: Answer) -> list[Move]:
    """One bit of the body's middle byte is flipped."""
    body = bytearray(answer.body)
    if body:
        body[len(body) // 2] ^= 0x10
    return [Put(encode(_changed(answer, body=bytes(body))))]


def _ask(step: Step, answer: Answer) -> list[Move]:
    """Before the answer, the client is asked something itself."""
    code = request_code(step.code) or 0
    return [Put(encode_request(code, opaque=ASKED_OPAQUE, ext={"consumerGroup": "tormented"}) + encode(answer))]


def _stop_reading(step: Step, answer: Answer) -> list[Move]:
    """Answered, but nothing more is read for ms."""
    return [StopReading(step.ms), Put(encode(answer))]


def _plain(step: Step, answer: Answer) -> list[Move]:
    """Answered: what this torment does, the server does elsewhere (`route`, `down`, `glue`, `reorder`)."""
    return [Put(encode(answer))]


_TORMENTS: Final[dict[str, Callable[[Step, Answer], list[Move]]]] = {
    "answer-code": _answer_code,
    "ask": _ask,
    "bare-keys": _bare_keys,
    "binary": _binary,
    "close": _close,
    "cut-body": _cut_body,
    "delay": _delay,
    "double": _double,
    "down": _close,
    "drop": _drop,
    "extra-fields": _extra_fields,
    "flip-body": _flip_body,
    "garbage": _garbage,
    "glue": _plain,
    "half": _half,
    "null-fields": _null_fields,
    "numbers": _numbers,
    "oversized": _oversized,
    "reorder": _plain,
    "reset": _reset,
    "route": _plain,
    "split": _split,
    "stop-reading": _stop_reading,
    "unknown-opaque": _unknown_opaque,
}


def explain(torment: str) -> str:
    """One line on what a torment does to an answer."""
    return {
        "down": "The broker closes all its connections and its port.",
        "glue": "Held back until count answers are there (or ms have passed); all leave in one segment.",
        "reorder": "Held back until count answers are there (or ms have passed); they leave last come, first served.",
        "route": "From now on the name server names other brokers; then answered.",
    }.get(torment, (_TORMENTS[torment].__doc__ or "").strip())


def _changed(answer: Answer, **parts: Any) -> Answer:
    fields = {name: getattr(answer, name) for name in ("code", "opaque", "form", "remark", "ext", "body", "plain_body")}
    return Answer(**{**fields, **parts})


def _members(answer: Answer) -> dict[str, Any]:
    """The JSON header as Java's library would write it."""
    members: dict[str, Any] = {"code": answer.code, "flag": RESPONSE, "language": "JAVA", "opaque": answer.opaque}
    if answer.ext is not None:
        members["extFields"] = dict(answer.ext)
    if answer.remark is not None:
        members["remark"] = answer.remark
    return {**members, "serializeTypeCurrentRPC": "JSON", "version": VERSION}


def _json_frame(members: dict[str, Any], body: bytes) -> bytes:
    header = json.dumps(members, ensure_ascii=False, separators=(",", ":")).encode()
    return frame_prefix(len(header), len(body), Form.JSON) + header + body


def _bare(text: str) -> Any:
    if text.lstrip("-").isdigit():
        return int(text)
    return {"true": True, "false": False}.get(text, text)


def _integer_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {int(key) if str(key).isdigit() else key: _integer_keys(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_integer_keys(item) for item in value]
    return value
