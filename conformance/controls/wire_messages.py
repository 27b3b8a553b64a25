"""Defects of messages: sending, pulling, waiting for them, looking them up."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from conformance.controls import frames
from conformance.controls.defect import Row
from conformance.controls.edits import (
    SEND_PROPERTIES,
    add,
    answers,
    code,
    constant,
    each_unit,
    gone,
    no_property,
    number,
    of,
    one_way_dropped,
    rearranged,
    requests,
    sent_properties,
    together,
    unset,
)
from conformance.controls.proxy import Seen, Step, answering
from rmq_wire import properties as property_text
from rmq_wire import property_names as prop
from rmq_wire.codes import RequestCode as Code
from rmq_wire.codes import ResponseCode
from rmq_wire.sys_flag import PULL_COMMIT_OFFSET, PULL_SUSPEND

SENDS: Final = (Code.SEND_MESSAGE, Code.SEND_MESSAGE_V2, Code.SEND_BATCH_MESSAGE)
SINGLE: Final = (Code.SEND_MESSAGE, Code.SEND_MESSAGE_V2)
PULLS: Final = (Code.PULL_MESSAGE, Code.LITE_PULL_MESSAGE)
V2: Final = (Code.SEND_MESSAGE_V2, Code.SEND_BATCH_MESSAGE)
"""Their fields have one letter: b topic, e queue, h flag, i properties, m batch."""
FOUND: Final = ResponseCode.SUCCESS
OVERSLEPT_S: Final = 6.0
"""A wake-up by the sweep instead of by the message."""
LONG_MS: Final = 10_000
"""A pull that waits longer is meant to be woken."""
NOWHERE: Final = {"msgId": "7F000001000000000000000000000000", "queueId": "0", "queueOffset": "0"}
"""The place of the first message of all."""


def id_of_another(seen: Seen) -> None:
    """64 bytes before."""
    msg_id = str(seen.reply.ext.get("msgId", ""))
    if re.fullmatch("[0-9A-F]{32}", msg_id):
        seen.reply.ext["msgId"] = f"{msg_id[:16]}{max(int(msg_id[16:], 16) - 64, 0):016X}"


def body_flipped(seen: Seen) -> None:
    """In its last byte."""
    if seen.request.body:
        seen.request.body = seen.request.body[:-1] + bytes([seen.request.body[-1] ^ 1])


def property_dropped(seen: Seen) -> None:
    """The first."""
    if pairs := sent_properties(seen):
        del pairs[next(iter(pairs))]
        seen.request.ext[SEND_PROPERTIES] = property_text.encode(pairs)


def next_port(unit: bytearray) -> bytearray:
    """The address of another client."""
    address, port = frames.born_at(unit)
    return frames.put_born_at(unit, address, port + 1)


def batch_as_one(seen: Seen) -> None:
    """The body as it came."""
    if seen.request.ext.get("m") == "true" or seen.request.code == Code.SEND_BATCH_MESSAGE:
        seen.request.ext["m"], seen.request.code = "false", int(Code.SEND_MESSAGE_V2)


def not_stored(seen: Seen) -> Iterable[Step] | None:
    """But for one-way sends, of which nobody would hear."""
    return None if seen.request.is_one_way else [answering(seen.request.answer(ext=dict(NOWHERE)))]


def refusals_alike(seen: Seen) -> None:
    """So that a client cannot tell them apart."""
    if seen.reply.code != ResponseCode.SUCCESS:
        seen.reply.code = ResponseCode.SYSTEM_ERROR


def body_end_flipped(unit: bytearray) -> bytearray:
    """In its last byte; the check sum stays."""
    if size := frames.number(unit, "body_size"):
        unit[frames.BODY_AT + size - 1] ^= 1
    return unit


def bytes_differ(seen: Seen) -> None:
    """The store timestamp goes on."""
    seen.state["pulls"] = pulls = seen.state.get("pulls", 0) + 1
    each_unit(lambda unit: frames.put(unit, "store_timestamp", frames.number(unit, "store_timestamp") + pulls))(seen)


def woken(seen: Seen) -> bool:
    """This answers a pull that was to wait for messages and got some."""
    return int(seen.request.ext.get("suspendTimeoutMillis", 0)) > LONG_MS and seen.reply.code == FOUND


def not_woken(seen: Seen) -> Iterable[Step] | None:
    """So late is every message that was waited for."""
    return [Step(seen.reply.encode(), after_s=OVERSLEPT_S)] if woken(seen) else None


def never_ends(seen: Seen) -> Iterable[Step] | None:
    """It is never answered."""
    waits = int(seen.request.ext.get("sysFlag", 0)) & PULL_SUSPEND
    return [] if waits and seen.reply.code == ResponseCode.PULL_NOT_FOUND else None


def wakes_one(seen: Seen) -> Iterable[Step] | None:
    """The others get nothing."""
    if not woken(seen):
        return None
    first = seen.state.setdefault(seen.request.ext["topic"], seen.request.ext["consumerGroup"])
    return None if first == seen.request.ext["consumerGroup"] else []


def another_key(seen: Seen) -> None:
    """Nothing has it."""
    seen.request.ext["key"] = f"{seen.request.ext.get('key')}?"


def wrong_message(seen: Seen) -> None:
    """The first that was ever found in the topic."""
    seen.reply.body = seen.state.setdefault(seen.request.ext["topic"], seen.reply.body)


def view_flipped(seen: Seen) -> None:
    """One bit of the body."""
    if len(seen.reply.body) > frames.BODY_AT:
        body = bytearray(seen.reply.body)
        body[frames.BODY_AT] ^= 1
        seen.reply.body = bytes(body)


DEFECTS: Final = {
    # Sending
    "send.offset-off-by-one": Row(
        "names the next queue offset in the answer", "send.v2 send.offsets-per-queue", answers(SENDS, add("queueOffset", 1))
    ),
    "send.message-id-of-another": Row(
        "names another place in the message id", "send.stored-as-sent send.view-by-id", answers(SENDS, id_of_another)
    ),
    "send.region-missing": Row(
        "leaves MSG_REGION out of the answer", "send.broker-properties", answers(SENDS, gone("MSG_REGION"))
    ),
    "send.transaction-id-missing": Row(
        "leaves the unique key out of the answer", "send.v2", answers(SENDS, gone("transactionId"))
    ),
    "send.queue-always-0": Row(
        "stores everything in queue 0", "send.v2 send.any-queue send.offsets-per-queue", requests(V2, constant(e="0"))
    ),
    "send.body-flipped": Row("stores a body with one bit changed", "send.v1 send.stored-as-sent", requests(SINGLE, body_flipped)),
    "send.property-dropped": Row("loses one of a message's properties", "send.stored-as-sent", requests(V2, property_dropped)),
    "send.flag-lost": Row(
        "stores 0 for a message's own flag",
        "send.v1 send.stored-as-sent",
        together(requests(Code.SEND_MESSAGE, constant(flag="0")), requests(Code.SEND_MESSAGE_V2, constant(h="0"))),
    ),
    "send.born-host-changed": Row("stores another client's address", "send.stored-as-sent", answers(PULLS, each_unit(next_port))),
    "send.batch-as-one": Row("stores a batch as one message", "send.batch send.batch-over-310", requests(V2, batch_as_one)),
    "send.one-way-lost": Row("forgets one-way sends", "send.one-way", requests(SENDS, one_way_dropped)),
    "send.acknowledged-not-stored": Row(
        "answers a send and stores nothing", "send.view-by-id send.v1", requests(SINGLE, not_stored)
    ),
    "send.refusals-alike": Row(
        "refuses everything with code 1",
        "send.refused.unknown-topic send.refused.queue-out-of-range send.refused.body-too-big"
        " send.refused.properties-too-long send.refused.topic-name",
        answers(SENDS, refusals_alike),
    ),
    "send.priority-ignored": Row(
        "keeps a message with a priority in the queue that its sender named",
        "send.priority",
        requests(V2, no_property(prop.PRIORITY)),
    ),
    # Pulling
    "pull.next-offset-too-high": Row(
        "leaves one message out of the next offset",
        "pull.found pull.count pull.lite",
        answers(PULLS, of(FOUND, add("nextBeginOffset", 1))),
    ),
    "pull.next-offset-too-low": Row(
        "brings the last message again", "pull.found pull.count pull.lite", answers(PULLS, of(FOUND, add("nextBeginOffset", -1)))
    ),
    "pull.min-offset-wrong": Row("answers a start that is not the queue's", "pull.found", answers(PULLS, add("minOffset", 1))),
    "pull.max-offset-wrong": Row(
        "answers an end that is not the queue's", "pull.found pull.nothing-new", answers(PULLS, add("maxOffset", -1))
    ),
    "pull.tags-ignored": Row("brings messages of all tags", "pull.tags", requests(PULLS, constant(subscription="*"))),
    "pull.count-ignored": Row("brings as many as fit", "pull.count", requests(PULLS, constant(maxMsgNums="32"))),
    "pull.message-lost": Row("leaves a message out", "pull.found pull.many", answers(PULLS, rearranged(lambda units: units[1:]))),
    "pull.message-doubled": Row(
        "brings a message twice in one answer",
        "pull.found pull.many",
        answers(PULLS, rearranged(lambda units: [units[0], units[0], *units[2:]])),
    ),
    "pull.order-reversed": Row(
        "brings messages from the newest to the oldest", "pull.found", answers(PULLS, rearranged(lambda units: units[::-1]))
    ),
    "pull.body-flipped": Row(
        "brings a body with one bit changed", "send.stored-as-sent pull.found", answers(PULLS, each_unit(body_end_flipped))
    ),
    "pull.store-time-zero": Row(
        "stores no time", "offsets.by-time offsets.earliest-time", answers(PULLS, number("store_timestamp", 0))
    ),
    "pull.bytes-differ": Row("brings other bytes the second time", "pull.same-bytes-again", answers(PULLS, bytes_differ)),
    "pull.unknown-topic-code": Row(
        "answers 1 for a topic that is not there",
        "pull.refused.unknown-topic",
        answers(PULLS, of(ResponseCode.TOPIC_NOT_EXIST, code(ResponseCode.SYSTEM_ERROR))),
    ),
    "pull.moved-as-not-found": Row(
        "lets a client wait that is behind the end",
        "pull.behind-the-end",
        answers(PULLS, of(ResponseCode.PULL_OFFSET_MOVED, code(ResponseCode.PULL_NOT_FOUND))),
    ),
    "pull.permission-ignored": Row(
        "lets write-only topics be read",
        "pull.refused.write-only-topic pull.refused.disabled-group",
        answers(PULLS, of(ResponseCode.NO_PERMISSION, code(ResponseCode.PULL_NOT_FOUND))),
    ),
    "pull.commit-forgotten": Row(
        "overlooks the progress that a pull brings along",
        "pull.commits-offset",
        requests(PULLS, unset("sysFlag", PULL_COMMIT_OFFSET)),
    ),
    "pull.slave-suggested": Row(
        "sends clients to a slave that is not there", "pull.found", answers(PULLS, constant(suggestWhichBrokerId="1"))
    ),
    # Waiting
    "hold.not-woken": Row("wakes a waiting pull by its sweep only", "hold.wakes hold.wakes-all", answers(PULLS, not_woken)),
    "hold.answered-at-once": Row(
        "never lets a pull wait", "hold.wakes hold.ends", requests(PULLS, unset("sysFlag", PULL_SUSPEND))
    ),
    "hold.never-ends": Row("forgets a pull for which no message came", "hold.ends", answers(PULLS, never_ends)),
    "hold.wakes-one": Row("wakes only the first of those who wait", "hold.wakes-all", answers(PULLS, wakes_one)),
    # Looking up
    "query.finds-nothing": Row(
        "does not index keys", "query.by-key query.other-topic", requests(Code.QUERY_MESSAGE, another_key)
    ),
    "query.wrong-message": Row(
        "brings a message of another key", "query.by-key query.odd-keys", answers(Code.QUERY_MESSAGE, of(FOUND, wrong_message))
    ),
    "query.count-ignored": Row(
        "brings more messages than asked for", "query.at-most", requests(Code.QUERY_MESSAGE, constant(maxNum="32"))
    ),
    "query.times-ignored": Row(
        "finds messages of any time",
        "query.time-range",
        requests(Code.QUERY_MESSAGE, constant(beginTimestamp="0", endTimestamp=str(1 << 62))),
    ),
    "query.header-zero": Row(
        "does not answer how far the index is",
        "query.answer-header",
        answers(Code.QUERY_MESSAGE, constant(indexLastUpdatePhyoffset="0", indexLastUpdateTimestamp="0")),
    ),
    "query.nowhere-found": Row(
        "answers 0 for a place where nothing is",
        "query.view.nowhere",
        answers(Code.VIEW_MESSAGE_BY_ID, code(ResponseCode.SUCCESS)),
    ),
    "query.view-flipped": Row(
        "brings other bytes by id than by pull", "query.view.unit", answers(Code.VIEW_MESSAGE_BY_ID, view_flipped)
    ),
}
