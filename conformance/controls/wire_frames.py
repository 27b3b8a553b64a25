"""Defects of frames and headers, and of what every answer has."""

from __future__ import annotations

from collections.abc import Iterable

from conformance.controls.defect import wire
from conformance.controls.frames import BINARY, ONE_WAY, RESPONSE
from conformance.controls.proxy import Seen, Step, answering, passing
from rmq_wire.codes import RequestCode as Code
from rmq_wire.codes import ResponseCode

SMALL_OPAQUE_MAX = 0xFFFF


@wire("frame.opaque-narrowed", "keeps 16 bits of the opaque", "frame.opaque-limits", everything=True)
def opaque_narrowed(seen: Seen) -> None:
    """Sees only answers to large numbers."""
    if seen.answer is not None and not 0 <= seen.request.opaque <= SMALL_OPAQUE_MAX:
        seen.answer.opaque &= SMALL_OPAQUE_MAX


@wire("frame.other-bits-set", "answers with the one-way bit set, too", "frame.response-marks", everything=True)
def other_bits(seen: Seen) -> None:
    """On every answer."""
    if seen.answer is not None:
        seen.answer.flag |= ONE_WAY


@wire("frame.response-bit-missing", "answers unknown codes without the response bit", "frame.unknown-code", everything=True)
def response_bit(seen: Seen) -> None:
    """On answers with code 3."""
    if seen.answer is not None and seen.answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
        seen.answer.flag &= ~RESPONSE


@wire("frame.one-way-answered", "answers one-way requests", "frame.one-way", "send.one-way", everything=True)
def one_way_answered(seen: Seen) -> Iterable[Step] | None:
    """At once, with code 0."""
    if seen.answer is None and seen.request.is_one_way:
        return [passing(seen.request), answering(seen.request.answer())]
    return None


@wire("frame.answers-doubled", "sends every answer twice", "frame.glued", "frame.one-way", everything=True)
def doubled(seen: Seen) -> Iterable[Step] | None:
    """One directly after the other."""
    return None if seen.answer is None else [passing(seen.answer)] * 2


@wire("frame.glued-dropped", "serves only the first frame of a segment", "frame.glued", everything=True)
def glued_dropped(seen: Seen) -> Iterable[Step] | None:
    """The others disappear."""
    return [] if seen.answer is None and seen.nth else None


@wire(
    "frame.answer-cut-short",
    "hangs up in the middle of an answer",
    "send.view-by-id",
    "query.view.unit",
    answers=(Code.VIEW_MESSAGE_BY_ID,),
)
def cut_short(seen: Seen) -> Iterable[Step]:
    """After half of it."""
    data = seen.reply.encode()
    return [Step(data[: len(data) // 2], close=True)]


@wire(
    "frame.length-too-large",
    "tells a length that is one more than the frame's",
    "query.view.unit",
    answers=(Code.VIEW_MESSAGE_BY_ID,),
)
def length_too_large(seen: Seen) -> Iterable[Step]:
    """So the answer never ends."""
    data = seen.reply.encode()
    return [Step((int.from_bytes(data[:4], "big") + 1).to_bytes(4, "big") + data[4:])]


@wire("frame.unknown-code-accepted", "answers 0 to codes that nobody knows", "frame.unknown-code", everything=True)
def unknown_accepted(seen: Seen) -> None:
    """Instead of 3."""
    if seen.answer is not None and seen.answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
        seen.answer.code = ResponseCode.SUCCESS


@wire("frame.remark-lost", "refuses without saying why", "pull.refused.*", "names.route.unknown-topic", everything=True)
def remark_lost(seen: Seen) -> None:
    """No error has a remark."""
    if seen.answer is not None and seen.answer.code != ResponseCode.SUCCESS:
        seen.answer.remark = None


@wire("header.remark-null-as-text", "says the remark `null` where there is none", "send.v2", answers=(Code.SEND_MESSAGE_V2,))
def remark_text(seen: Seen) -> None:
    """As a careless encoder would."""
    if seen.reply.remark is None:
        seen.reply.remark = "null"


@wire("header.numbers-refused", "does not read numbers among the ext fields", "header.json.numbers-as-fields", everything=True)
def numbers_refused(seen: Seen) -> Iterable[Step] | None:
    """A request with one is answered 1."""
    if seen.answer is None and any(not isinstance(value, str) for value in seen.request.ext.values()):
        return [answering(seen.request.answer(ResponseCode.SYSTEM_ERROR))]
    return None


@wire("header.escapes-not-read", "does not read escaped characters", "header.json.escapes", everything=True)
def escapes(seen: Seen) -> Iterable[Step] | None:
    """A header with one is taken for garbage: the connection is closed."""
    return [Step(b"", close=True)] if seen.answer is None and rb"\u00" in seen.frame else None


@wire("header.binary-field-lost", "loses the last field of a binary header", "header.binary.fields", everything=True)
def binary_field_lost(seen: Seen) -> None:
    """Off by one in the length of the map."""
    if seen.answer is None and seen.request.form == BINARY and seen.request.ext:
        seen.request.ext.popitem()


@wire(
    "header.answer-field-renamed",
    "spells an answer's field `queueid`",
    "send.v2",
    "send.v1",
    answers=(Code.SEND_MESSAGE_V2, Code.SEND_MESSAGE),
)
def renamed(seen: Seen) -> None:
    """Clients read `queueId`."""
    if "queueId" in seen.reply.ext:
        seen.reply.ext["queueid"] = seen.reply.ext.pop("queueId")


@wire(
    "grid.missing-field-accepted",
    "guesses a queue that is not named",
    "grid.get-max-offset.missing-field",
    answers=(Code.GET_MAX_OFFSET,),
)
def missing_accepted(seen: Seen) -> None:
    """And answers 0."""
    if "queueId" not in seen.request.ext or "topic" not in seen.request.ext:
        seen.reply.code, seen.reply.ext = ResponseCode.SUCCESS, {"offset": "0"}


@wire(
    "grid.long-topic-accepted", "takes names of any length", "grid.send-message-v2.limit-topic", requests=(Code.SEND_MESSAGE_V2,)
)
def long_topic(seen: Seen) -> Iterable[Step] | None:
    """As if it were stored."""
    if len(str(seen.request.ext.get("b", ""))) > 127:
        return [answering(seen.request.answer(ext={"msgId": "0" * 32, "queueId": "0", "queueOffset": "0"}))]
    return None


@wire(
    "grid.unknown-group-has-members",
    "answers an empty list for groups that nobody knows",
    "grid.get-consumer-list-by-group.unknown-group",
    "clients.nobody",
    answers=(Code.GET_CONSUMER_LIST_BY_GROUP,),
)
def unknown_group(seen: Seen) -> None:
    """Instead of an error."""
    if seen.reply.code:
        seen.reply.code, seen.reply.remark, seen.reply.body = 0, None, b'{"consumerIdList":[]}'
