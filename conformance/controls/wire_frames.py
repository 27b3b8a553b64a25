"""Defects of frames and headers, and of what every answer has."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from conformance.controls.defect import Row
from conformance.controls.edits import answers, code, every_answer, every_request, mark, of, requests
from conformance.controls.frames import BINARY, ONE_WAY, RESPONSE
from conformance.controls.proxy import Seen, Step, answering, passing
from rmq_wire.codes import RequestCode as Code
from rmq_wire.codes import ResponseCode

SMALL_OPAQUE_MAX: Final = 0xFFFF
UNKNOWN: Final = ResponseCode.REQUEST_CODE_NOT_SUPPORTED
TOPIC_MAX: Final = 127


def opaque_narrowed(seen: Seen) -> None:
    """Sees only answers to large numbers."""
    if not 0 <= seen.request.opaque <= SMALL_OPAQUE_MAX:
        seen.reply.opaque &= SMALL_OPAQUE_MAX


def one_way_answered(seen: Seen) -> Iterable[Step] | None:
    """At once, with code 0."""
    return [passing(seen.request), answering(seen.request.answer())] if seen.request.is_one_way else None


def cut_short(seen: Seen) -> Iterable[Step]:
    """After half of it."""
    data = seen.reply.encode()
    return [Step(data[: len(data) // 2], close=True)]


def length_too_large(seen: Seen) -> Iterable[Step]:
    """So the answer never ends."""
    data = seen.reply.encode()
    return [Step((int.from_bytes(data[:4], "big") + 1).to_bytes(4, "big") + data[4:])]


def remark_lost(seen: Seen) -> None:
    """No error has a remark."""
    if seen.reply.code != ResponseCode.SUCCESS:
        seen.reply.remark = None


def remark_text(seen: Seen) -> None:
    """As a careless encoder would."""
    if seen.reply.remark is None:
        seen.reply.remark = "null"


def numbers_refused(seen: Seen) -> Iterable[Step] | None:
    """A request with one is answered 1."""
    numbers = any(not isinstance(value, str) for value in seen.request.ext.values())
    return [answering(seen.request.answer(ResponseCode.SYSTEM_ERROR))] if numbers else None


def escapes(seen: Seen) -> Iterable[Step] | None:
    """A header with one is taken for garbage: the connection is closed."""
    return [Step(b"", close=True)] if rb"\u00" in seen.frame else None


def binary_field_lost(seen: Seen) -> None:
    """Off by one in the length of the map."""
    if seen.request.form == BINARY and seen.request.ext:
        seen.request.ext.popitem()


def renamed(seen: Seen) -> None:
    """Clients read `queueId`."""
    if "queueId" in seen.reply.ext:
        seen.reply.ext["queueid"] = seen.reply.ext.pop("queueId")


def missing_accepted(seen: Seen) -> None:
    """And answers 0."""
    if not {"queueId", "topic"} <= seen.request.ext.keys():
        seen.reply.code, seen.reply.ext = ResponseCode.SUCCESS, {"offset": "0"}


def long_topic(seen: Seen) -> Iterable[Step] | None:
    """As if it were stored."""
    if len(str(seen.request.ext.get("b", ""))) <= TOPIC_MAX:
        return None
    return [answering(seen.request.answer(ext={"msgId": "0" * 32, "queueId": "0", "queueOffset": "0"}))]


def unknown_group(seen: Seen) -> None:
    """Instead of an error."""
    if seen.reply.code:
        seen.reply.code, seen.reply.remark, seen.reply.body = 0, None, b'{"consumerIdList":[]}'


DEFECTS: Final = {
    "frame.opaque-narrowed": Row("keeps 16 bits of the opaque", "frame.opaque-limits", every_answer(opaque_narrowed)),
    "frame.other-bits-set": Row("answers with the one-way bit set, too", "frame.response-marks", every_answer(mark(on=ONE_WAY))),
    "frame.response-bit-missing": Row(
        "answers unknown codes without the response bit", "frame.unknown-code", every_answer(of(UNKNOWN, mark(off=RESPONSE)))
    ),
    "frame.one-way-answered": Row("answers one-way requests", "frame.one-way send.one-way", every_request(one_way_answered)),
    "frame.answers-doubled": Row(
        "sends every answer twice", "frame.glued frame.one-way", every_answer(lambda seen: [passing(seen.reply)] * 2)
    ),
    "frame.glued-dropped": Row(
        "serves only the first frame of a segment", "frame.glued", every_request(lambda seen: [] if seen.nth else None)
    ),
    "frame.answer-cut-short": Row(
        "hangs up in the middle of an answer", "send.view-by-id query.view.unit", answers(Code.VIEW_MESSAGE_BY_ID, cut_short)
    ),
    "frame.length-too-large": Row(
        "states a length that is one more than the frame's", "query.view.unit", answers(Code.VIEW_MESSAGE_BY_ID, length_too_large)
    ),
    "frame.unknown-code-accepted": Row(
        "answers 0 to codes that nobody knows", "frame.unknown-code", every_answer(of(UNKNOWN, code(ResponseCode.SUCCESS)))
    ),
    "frame.remark-lost": Row("refuses without saying why", "pull.refused.* names.route.unknown-topic", every_answer(remark_lost)),
    "header.remark-null-as-text": Row(
        "says the remark `null` where there is none", "send.v2", answers(Code.SEND_MESSAGE_V2, remark_text)
    ),
    "header.numbers-refused": Row(
        "does not read numbers among the ext fields", "header.json.numbers-as-fields", every_request(numbers_refused)
    ),
    "header.escapes-not-read": Row("does not read escaped characters", "header.json.escapes", every_request(escapes)),
    "header.binary-field-lost": Row(
        "loses the last field of a binary header", "header.binary.fields", every_request(binary_field_lost)
    ),
    "header.answer-field-renamed": Row(
        "spells an answer's field `queueid`", "send.v2 send.v1", answers((Code.SEND_MESSAGE_V2, Code.SEND_MESSAGE), renamed)
    ),
    "grid.missing-field-accepted": Row(
        "guesses a queue that is not named", "grid.get-max-offset.missing-field", answers(Code.GET_MAX_OFFSET, missing_accepted)
    ),
    "grid.long-topic-accepted": Row(
        "takes names of any length", "grid.send-message-v2.limit-topic", requests(Code.SEND_MESSAGE_V2, long_topic)
    ),
    "grid.unknown-group-has-members": Row(
        "answers an empty list for groups that nobody knows",
        "grid.get-consumer-list-by-group.unknown-group clients.nobody",
        answers(Code.GET_CONSUMER_LIST_BY_GROUP, unknown_group),
    ),
}
