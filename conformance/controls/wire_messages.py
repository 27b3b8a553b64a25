"""Defects of messages: sending, pulling, waiting for them, looking them up."""

from __future__ import annotations

import re
from collections.abc import Iterable

from conformance.controls import frames
from conformance.controls.defect import wire
from conformance.controls.proxy import Seen, Step, answering
from rmq_wire import properties as property_text
from rmq_wire.codes import RequestCode as Code
from rmq_wire.codes import ResponseCode
from rmq_wire.sys_flag import PULL_COMMIT_OFFSET, PULL_SUSPEND

SENDS = (Code.SEND_MESSAGE, Code.SEND_MESSAGE_V2, Code.SEND_BATCH_MESSAGE)
PULLS = (Code.PULL_MESSAGE, Code.LITE_PULL_MESSAGE)
V2 = (Code.SEND_MESSAGE_V2, Code.SEND_BATCH_MESSAGE)
"""Their fields have one letter: b topic, e queue, h flag, i properties, m batch."""
OVERSLEPT_S = 6.0
"""A wake-up by the sweep instead of by the message."""


def shift(seen: Seen, field: str, by: int) -> None:
    """A number of the answer, made greater."""
    if field in seen.reply.ext:
        seen.reply.ext[field] = str(int(seen.reply.ext[field]) + by)


def flags(seen: Seen, clear: int) -> None:
    """Take bits away from a pull's sysFlag."""
    seen.request.ext["sysFlag"] = str(int(seen.request.ext.get("sysFlag", 0)) & ~clear)


def each_unit(seen: Seen, edit: frames.Edit) -> None:
    """Edit the units of an answer that has some."""
    if seen.reply.code == ResponseCode.SUCCESS and seen.reply.body:
        seen.reply.body = frames.edit_units(seen.reply.body, edit)


def rearrange(seen: Seen, order: slice | list[int]) -> None:
    """The answer's units in another order, or some of them, if there are several."""
    units = frames.units_of(seen.reply.body) if seen.reply.code == ResponseCode.SUCCESS else []
    if len(units) > 1:
        chosen = units[order] if isinstance(order, slice) else [units[at] for at in order] + units[len(order) :]
        seen.reply.body = b"".join(map(bytes, chosen))


def without(text: str, *names: str) -> str:
    """Properties without some of them."""
    return property_text.encode({name: value for name, value in property_text.decode(text).items() if name not in names})


# Sending


@wire("send.offset-off-by-one", "names the next queue offset in the answer", "send.v2", "send.offsets-per-queue", answers=SENDS)
def offset_off(seen: Seen) -> None:
    """One too high."""
    shift(seen, "queueOffset", 1)


@wire(
    "send.message-id-of-another", "names another place in the message id", "send.stored-as-sent", "send.view-by-id", answers=SENDS
)
def id_of_another(seen: Seen) -> None:
    """64 bytes before."""
    told = str(seen.reply.ext.get("msgId", ""))
    if re.fullmatch("[0-9A-F]{32}", told):
        seen.reply.ext["msgId"] = f"{told[:16]}{max(int(told[16:], 16) - 64, 0):016X}"


@wire("send.region-missing", "leaves MSG_REGION out of the answer", "send.broker-properties", answers=SENDS)
def region_missing(seen: Seen) -> None:
    """Clients then do not trace."""
    seen.reply.ext.pop("MSG_REGION", None)


@wire("send.transaction-id-missing", "leaves the unique key out of the answer", "send.v2", answers=SENDS)
def transaction_id(seen: Seen) -> None:
    """The field transactionId."""
    seen.reply.ext.pop("transactionId", None)


@wire("send.queue-always-0", "stores everything in queue 0", "send.v2", "send.any-queue", "send.offsets-per-queue", requests=V2)
def queue_0(seen: Seen) -> None:
    """Whatever was asked for."""
    seen.request.ext["e"] = "0"


@wire(
    "send.body-flipped",
    "stores a body with one bit changed",
    "send.v1",
    "send.stored-as-sent",
    requests=(Code.SEND_MESSAGE, Code.SEND_MESSAGE_V2),
)
def body_flipped(seen: Seen) -> None:
    """In its last byte."""
    if seen.request.body:
        seen.request.body = seen.request.body[:-1] + bytes([seen.request.body[-1] ^ 1])


@wire("send.property-dropped", "loses one of a message's properties", "send.stored-as-sent", requests=V2)
def property_dropped(seen: Seen) -> None:
    """The first."""
    text = str(seen.request.ext.get("i", ""))
    if names := list(property_text.decode(text)):
        seen.request.ext["i"] = without(text, names[0])


@wire(
    "send.flag-lost",
    "stores 0 for a message's own flag",
    "send.v1",
    "send.stored-as-sent",
    requests=(Code.SEND_MESSAGE, Code.SEND_MESSAGE_V2),
)
def flag_lost(seen: Seen) -> None:
    """Applications may use it."""
    seen.request.ext["h" if seen.request.code == Code.SEND_MESSAGE_V2 else "flag"] = "0"


@wire("send.born-host-changed", "stores another client's address", "send.stored-as-sent", answers=PULLS)
def born_host(seen: Seen) -> None:
    """The next port."""

    def changed(unit: bytearray) -> bytearray:
        address, port = frames.born_at(unit)
        return frames.put_born_at(unit, address, port + 1)

    each_unit(seen, changed)


@wire("send.batch-as-one", "stores a batch as one message", "send.batch", "send.batch-over-310", requests=V2)
def batch_as_one(seen: Seen) -> None:
    """The body as it came."""
    if seen.request.ext.get("m") == "true" or seen.request.code == Code.SEND_BATCH_MESSAGE:
        seen.request.ext["m"], seen.request.code = "false", int(Code.SEND_MESSAGE_V2)


@wire("send.one-way-lost", "forgets one-way sends", "send.one-way", requests=SENDS)
def one_way_lost(seen: Seen) -> Iterable[Step] | None:
    """Nobody waits for an answer."""
    return [] if seen.request.is_one_way else None


@wire(
    "send.acknowledged-not-stored",
    "answers a send and stores nothing",
    "send.view-by-id",
    "send.v1",
    requests=(Code.SEND_MESSAGE, Code.SEND_MESSAGE_V2),
)
def not_stored(seen: Seen) -> Iterable[Step] | None:
    """At the place of the first message of all."""
    if seen.request.is_one_way:
        return None
    return [answering(seen.request.answer(ext={"msgId": "7F000001000000000000000000000000", "queueId": "0", "queueOffset": "0"}))]


@wire(
    "send.refusals-alike",
    "refuses everything with code 1",
    "send.refused.unknown-topic",
    "send.refused.queue-out-of-range",
    "send.refused.body-too-big",
    "send.refused.properties-too-long",
    "send.refused.topic-name",
    answers=SENDS,
)
def refusals_alike(seen: Seen) -> None:
    """So that a client cannot tell them apart."""
    if seen.reply.code not in (ResponseCode.SUCCESS, ResponseCode.SYSTEM_ERROR):
        seen.reply.code = ResponseCode.SYSTEM_ERROR


# Pulling


@wire(
    "pull.next-offset-too-high",
    "leaves one message out of the next offset",
    "pull.found",
    "pull.count",
    "pull.lite",
    answers=PULLS,
)
def next_too_high(seen: Seen) -> None:
    """One too high."""
    shift(seen, "nextBeginOffset", 1 if seen.reply.code == ResponseCode.SUCCESS else 0)


@wire("pull.next-offset-too-low", "brings the last message again", "pull.found", "pull.count", "pull.lite", answers=PULLS)
def next_too_low(seen: Seen) -> None:
    """One too low."""
    shift(seen, "nextBeginOffset", -1 if seen.reply.code == ResponseCode.SUCCESS else 0)


@wire("pull.min-offset-wrong", "tells a start that is not the queue's", "pull.found", answers=PULLS)
def min_wrong(seen: Seen) -> None:
    """One too high."""
    shift(seen, "minOffset", 1)


@wire("pull.max-offset-wrong", "tells an end that is not the queue's", "pull.found", "pull.nothing-new", answers=PULLS)
def max_wrong(seen: Seen) -> None:
    """One too low."""
    shift(seen, "maxOffset", -1)


@wire("pull.tags-ignored", "brings messages of all tags", "pull.tags", requests=PULLS)
def tags_ignored(seen: Seen) -> None:
    """As if `*` had been asked for."""
    seen.request.ext["subscription"] = "*"


@wire("pull.count-ignored", "brings as many as fit", "pull.count", requests=PULLS)
def count_ignored(seen: Seen) -> None:
    """At least 32."""
    seen.request.ext["maxMsgNums"] = "32"


@wire("pull.message-lost", "leaves a message out", "pull.found", "pull.many", answers=PULLS)
def message_lost(seen: Seen) -> None:
    """The first of several."""
    rearrange(seen, slice(1, None))


@wire("pull.message-doubled", "brings a message twice in one answer", "pull.found", "pull.many", answers=PULLS)
def message_doubled(seen: Seen) -> None:
    """The first of several."""
    rearrange(seen, [0, 0])


@wire("pull.order-reversed", "brings messages from the newest to the oldest", "pull.found", answers=PULLS)
def order_reversed(seen: Seen) -> None:
    """Within an answer."""
    rearrange(seen, slice(None, None, -1))


@wire("pull.body-flipped", "brings a body with one bit changed", "send.stored-as-sent", "pull.found", answers=PULLS)
def pulled_flipped(seen: Seen) -> None:
    """In its last byte; the check sum stays."""

    def flipped(unit: bytearray) -> bytearray:
        if size := frames.number(unit, "body_size"):
            unit[frames.BODY_AT + size - 1] ^= 1
        return unit

    each_unit(seen, flipped)


@wire("pull.store-time-zero", "stores no time", "offsets.by-time", "offsets.earliest-time", answers=PULLS)
def time_zero(seen: Seen) -> None:
    """The unit's store timestamp is 0."""

    each_unit(seen, lambda unit: frames.put(unit, "store_timestamp", 0))


@wire("pull.bytes-differ", "brings other bytes the second time", "pull.same-bytes-again", answers=PULLS)
def bytes_differ(seen: Seen) -> None:
    """The store timestamp goes on."""
    seen.state["pulls"] = pulls = seen.state.get("pulls", 0) + 1

    each_unit(seen, lambda unit: frames.put(unit, "store_timestamp", frames.number(unit, "store_timestamp") + pulls))


@wire("pull.unknown-topic-code", "answers 1 for a topic that is not there", "pull.refused.unknown-topic", answers=PULLS)
def unknown_topic(seen: Seen) -> None:
    """Instead of 17."""
    if seen.reply.code == ResponseCode.TOPIC_NOT_EXIST:
        seen.reply.code = ResponseCode.SYSTEM_ERROR


@wire("pull.moved-as-not-found", "lets a client wait that is behind the end", "pull.behind-the-end", answers=PULLS)
def moved(seen: Seen) -> None:
    """19 instead of 21."""
    if seen.reply.code == ResponseCode.PULL_OFFSET_MOVED:
        seen.reply.code = ResponseCode.PULL_NOT_FOUND


@wire(
    "pull.permission-ignored",
    "lets write-only topics be read",
    "pull.refused.write-only-topic",
    "pull.refused.disabled-group",
    answers=PULLS,
)
def permission_ignored(seen: Seen) -> None:
    """Nothing is found in them, but it may be looked for."""
    if seen.reply.code == ResponseCode.NO_PERMISSION:
        seen.reply.code = ResponseCode.PULL_NOT_FOUND


@wire("pull.commit-forgotten", "overlooks the progress that a pull brings along", "pull.commits-offset", requests=PULLS)
def commit_forgotten(seen: Seen) -> None:
    """As if the flag were not set."""
    flags(seen, PULL_COMMIT_OFFSET)


@wire("pull.slave-suggested", "sends clients to a slave that is not there", "pull.found", answers=PULLS)
def slave_suggested(seen: Seen) -> None:
    """The broker id 1."""
    seen.reply.ext["suggestWhichBrokerId"] = "1"


# Waiting


@wire("hold.not-woken", "wakes a waiting pull by its sweep only", "hold.wakes", "hold.wakes-all", answers=PULLS)
def not_woken(seen: Seen) -> Iterable[Step] | None:
    """So late is every message that was waited for."""
    if int(seen.request.ext.get("suspendTimeoutMillis", 0)) > 10_000 and seen.reply.code == ResponseCode.SUCCESS:
        return [Step(seen.reply.encode(), after_s=OVERSLEPT_S)]
    return None


@wire("hold.answered-at-once", "never lets a pull wait", "hold.wakes", "hold.ends", requests=PULLS)
def answered_at_once(seen: Seen) -> None:
    """As if the flag were not set."""
    flags(seen, PULL_SUSPEND)


@wire("hold.never-ends", "forgets a pull for which no message came", "hold.ends", answers=PULLS)
def never_ends(seen: Seen) -> Iterable[Step] | None:
    """It is never answered."""
    waits = int(seen.request.ext.get("sysFlag", 0)) & PULL_SUSPEND
    return [] if waits and seen.reply.code == ResponseCode.PULL_NOT_FOUND else None


@wire("hold.wakes-one", "wakes only the first of those who wait", "hold.wakes-all", answers=PULLS)
def wakes_one(seen: Seen) -> Iterable[Step] | None:
    """The others get nothing."""
    if int(seen.request.ext.get("suspendTimeoutMillis", 0)) <= 10_000 or seen.reply.code != ResponseCode.SUCCESS:
        return None
    woken = seen.state.setdefault(seen.request.ext["topic"], seen.request.ext["consumerGroup"])
    return None if woken == seen.request.ext["consumerGroup"] else []


# Looking up


@wire("query.finds-nothing", "does not index keys", "query.by-key", "query.other-topic", requests=(Code.QUERY_MESSAGE,))
def finds_nothing(seen: Seen) -> None:
    """Another key is looked for."""
    seen.request.ext["key"] = f"{seen.request.ext.get('key')}?"


@wire("query.wrong-message", "brings a message of another key", "query.by-key", "query.odd-keys", answers=(Code.QUERY_MESSAGE,))
def wrong_message(seen: Seen) -> None:
    """The first that was ever found in the topic."""
    if seen.reply.code == ResponseCode.SUCCESS:
        seen.reply.body = seen.state.setdefault(seen.request.ext["topic"], seen.reply.body)


@wire("query.count-ignored", "brings more messages than asked for", "query.at-most", requests=(Code.QUERY_MESSAGE,))
def query_count(seen: Seen) -> None:
    """Up to 32."""
    seen.request.ext["maxNum"] = "32"


@wire("query.times-ignored", "finds messages of any time", "query.time-range", requests=(Code.QUERY_MESSAGE,))
def times_ignored(seen: Seen) -> None:
    """From the first to the last."""
    seen.request.ext |= {"beginTimestamp": "0", "endTimestamp": str(1 << 62)}


@wire("query.header-zero", "does not tell how far the index is", "query.answer-header", answers=(Code.QUERY_MESSAGE,))
def header_zero(seen: Seen) -> None:
    """0 and 0."""
    seen.reply.ext |= {"indexLastUpdatePhyoffset": "0", "indexLastUpdateTimestamp": "0"}


@wire("query.nowhere-found", "answers 0 for a place where nothing is", "query.view.nowhere", answers=(Code.VIEW_MESSAGE_BY_ID,))
def nowhere_found(seen: Seen) -> None:
    """With no body."""
    seen.reply.code = ResponseCode.SUCCESS


@wire("query.view-flipped", "brings other bytes by id than by pull", "query.view.unit", answers=(Code.VIEW_MESSAGE_BY_ID,))
def view_flipped(seen: Seen) -> None:
    """One bit of the body."""
    if len(seen.reply.body) > frames.BODY_AT:
        body = bytearray(seen.reply.body)
        body[frames.BODY_AT] ^= 1
        seen.reply.body = bytes(body)
