"""Defects of delay, timers, transactions, POP and replies: what a server without them cannot show."""

from __future__ import annotations

from collections.abc import Iterable

from conformance.controls import frames
from conformance.controls.defect import wire
from conformance.controls.proxy import Seen, Step, answering
from conformance.controls.wire_clients import accepted
from conformance.controls.wire_messages import each_unit, without
from rmq_wire import properties as property_text
from rmq_wire import property_names as names
from rmq_wire.codes import RequestCode as Code
from rmq_wire.codes import ResponseCode
from rmq_wire.sys_flag import TRANSACTION_COMMIT, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK

SEND = (Code.SEND_MESSAGE_V2,)
POP = (Code.POP_MESSAGE,)
END = (Code.END_TRANSACTION,)
PROPERTIES, SYS_FLAG = "i", "f"
"""Names of the fields in a send."""


def change_properties(seen: Seen, changed: dict[str, str]) -> None:
    """Other values for properties that the message has."""
    pairs = property_text.decode(str(seen.request.ext.get(PROPERTIES, "")))
    pairs |= {name: changed[name] for name in pairs if name in changed}
    seen.request.ext[PROPERTIES] = property_text.encode(pairs)


def drop_properties(seen: Seen, *dropped: str) -> None:
    """The message without them."""
    seen.request.ext[PROPERTIES] = without(str(seen.request.ext.get(PROPERTIES, "")), *dropped)


# Delay


@wire("delay.ignored", "delivers at once", "delay.level-1", "delay.level-2", requests=SEND)
def delay_ignored(seen: Seen) -> None:
    """The property DELAY counts for nothing."""
    drop_properties(seen, names.DELAY)


@wire("delay.next-level", "takes each level for the next one", "delay.levels-beside-each-other", requests=SEND)
def next_level(seen: Seen) -> None:
    """Off by one in the table; here of the first level."""
    text = str(seen.request.ext.get(PROPERTIES, ""))
    if property_text.decode(text).get(names.DELAY) == "1":
        change_properties(seen, {names.DELAY: "2"})


@wire("delay.zero-is-one", "delays messages of level 0", "delay.level-0", requests=SEND)
def zero_is_one(seen: Seen) -> None:
    """By a second."""
    text = str(seen.request.ext.get(PROPERTIES, ""))
    if property_text.decode(text).get(names.DELAY) == "0":
        change_properties(seen, {names.DELAY: "1"})


# Timers


@wire("timer.ignored", "delivers at once", "timer.deliver-at", "timer.delay-ms", requests=SEND)
def timer_ignored(seen: Seen) -> None:
    """The timer's properties count for nothing."""
    drop_properties(seen, names.TIMER_DELIVER_MS, names.TIMER_DELAY_MS, names.TIMER_DELAY_SEC)


@wire("timer.seconds-as-milliseconds", "takes seconds for milliseconds", "timer.delay-sec", requests=SEND)
def seconds(seen: Seen) -> None:
    """3 s are over at once."""
    pairs = property_text.decode(str(seen.request.ext.get(PROPERTIES, "")))
    if names.TIMER_DELAY_SEC in pairs:
        pairs[names.TIMER_DELAY_MS] = pairs.pop(names.TIMER_DELAY_SEC)
        seen.request.ext[PROPERTIES] = property_text.encode(pairs)


@wire("timer.too-far-accepted", "accepts times beyond its wheel", "timer.too-far", answers=SEND)
def too_far(seen: Seen) -> None:
    """Code 0 instead of 13."""
    if seen.reply.code == ResponseCode.MESSAGE_ILLEGAL:
        seen.reply.code = ResponseCode.SUCCESS


@wire("timer.recall-ignored", "answers a recall and delivers all the same", "timer.recall", requests=(Code.RECALL_MESSAGE,))
def recall_ignored(seen: Seen) -> Iterable[Step]:
    """With the handle as the message's id."""
    return [answering(seen.request.answer(ext={"msgId": "7F000001000018B4AAC2000000000001"}))]


# Transactions


@wire("transaction.half-visible", "shows half messages to consumers", "transaction.half-unseen", requests=SEND)
def half_visible(seen: Seen) -> None:
    """They are stored as any others."""
    if int(seen.request.ext.get(SYS_FLAG, 0)) & TRANSACTION_PREPARED:
        drop_properties(seen, names.TRAN_MSG)
        seen.request.ext[SYS_FLAG] = str(int(seen.request.ext[SYS_FLAG]) & ~TRANSACTION_PREPARED)


@wire("transaction.rollback-delivers", "delivers what is rolled back", "transaction.rollback", requests=END)
def rollback_delivers(seen: Seen) -> None:
    """As if it were committed."""
    if seen.request.ext.get("commitOrRollback") == str(TRANSACTION_ROLLBACK):
        seen.request.ext["commitOrRollback"] = str(TRANSACTION_COMMIT)


@wire("transaction.commit-lost", "forgets commits", "transaction.commit", "transaction.order-of-commits", requests=END)
def commit_lost(seen: Seen) -> Iterable[Step] | None:
    """The message stays half."""
    return [] if seen.request.ext.get("commitOrRollback") == str(TRANSACTION_COMMIT) else None


@wire(
    "transaction.check-dropped",
    "asks no producer how it ended",
    "transaction.check-then-commit",
    "transaction.unknown-asks-again",
    notices=(Code.CHECK_TRANSACTION_STATE,),
)
def check_dropped(seen: Seen) -> Iterable[Step]:
    """The message stays half for ever."""
    return []


@wire(
    "transaction.check-without-message",
    "asks without the half message",
    "transaction.check-then-commit",
    notices=(Code.CHECK_TRANSACTION_STATE,),
)
def check_bare(seen: Seen) -> None:
    """Without its unique key in the header."""
    seen.request.ext["msgId"] = ""


@wire("transaction.any-group-ends", "lets any group end a transaction", "transaction.wrong-group", requests=(*SEND, *END))
def any_group(seen: Seen) -> None:
    """It does not compare the producer groups."""
    if seen.request.code == Code.SEND_MESSAGE_V2:
        pairs = property_text.decode(str(seen.request.ext.get(PROPERTIES, "")))
        if names.PGROUP in pairs:
            seen.state[pairs.get(names.UNIQ_KEY)] = pairs[names.PGROUP]
    else:
        seen.request.ext["producerGroup"] = seen.state.get(seen.request.ext.get("msgId"), "")


# POP


@wire(
    "pop.receipt-wrong", "tells offsets that are not those of the messages", "pop.answer-header", "pop.acknowledged", answers=POP
)
def receipt_wrong(seen: Seen) -> None:
    """The start of each queue is one too high."""
    entries = [entry.split(" ") for entry in str(seen.reply.ext.get("startOffsetInfo", "")).split(";") if entry]
    if seen.reply.code == ResponseCode.SUCCESS and entries:
        moved = [f"{kind} {queue} {int(start) + 1}" for kind, queue, start in entries]
        seen.reply.ext["startOffsetInfo"] = ";".join(moved)


@wire("pop.handed-out-twice", "hands out what somebody else is working on", "pop.invisible", "pop.shared-queue", answers=POP)
def handed_out_twice(seen: Seen) -> None:
    """The answer of the first pop comes again and again."""
    key = (seen.request.ext.get("topic"), seen.request.ext.get("consumerGroup"))
    if seen.reply.code == ResponseCode.SUCCESS and key not in seen.state:
        seen.state[key] = (dict(seen.reply.ext), seen.reply.body)
    elif key in seen.state:
        seen.reply.code, seen.reply.remark = ResponseCode.SUCCESS, None
        seen.reply.ext, seen.reply.body = seen.state[key]


@wire(
    "pop.acknowledgement-ignored",
    "answers an acknowledgement and forgets it",
    "pop.acknowledged",
    "pop.order",
    requests=(Code.ACK_MESSAGE,),
)
def ack_ignored(seen: Seen) -> Iterable[Step]:
    """The message comes again."""
    return accepted(seen)


@wire("pop.attempts-not-counted", "counts no attempts", "pop.again", answers=POP)
def pop_attempts(seen: Seen) -> None:
    """reconsumeTimes is 0 in every unit."""

    each_unit(seen, lambda unit: frames.put(unit, "reconsume_times", 0))


@wire("pop.never-waits", "answers a pop at once", "pop.waits", "pop.waited-in-vain", requests=POP)
def never_waits(seen: Seen) -> None:
    """As if no time to wait were given."""
    seen.request.ext["pollTime"] = "0"


@wire("pop.tags-ignored", "hands out messages of all tags", "pop.tags", requests=POP)
def pop_tags(seen: Seen) -> None:
    """As if `*` had been asked for."""
    seen.request.ext["exp"] = "*"


@wire("pop.order-ignored", "hands out the next messages of a queue before these are acknowledged", "pop.order", requests=POP)
def order_ignored(seen: Seen) -> None:
    """As if order were not asked for."""
    seen.request.ext["order"] = "false"


@wire(
    "pop.invisible-time-kept",
    "answers a change of the time and keeps the old one",
    "pop.change-invisible-time",
    requests=(Code.CHANGE_MESSAGE_INVISIBLETIME,),
)
def time_kept(seen: Seen) -> None:
    """60 s, whatever is asked for."""
    seen.request.ext["invisibleTime"] = "60000"


@wire("pop.always-something", "says that there is something to pop, always", "pop.notification", answers=(Code.NOTIFICATION,))
def always_something(seen: Seen) -> None:
    """hasMsg is true."""
    seen.reply.ext["hasMsg"] = "true"


# Replies


@wire("reply.dropped", "does not pass replies on", "reply.arrives", notices=(Code.PUSH_REPLY_MESSAGE_TO_CLIENT,))
def reply_dropped(seen: Seen) -> Iterable[Step]:
    """The requester waits in vain."""
    return []


@wire(
    "reply.correlation-lost",
    "passes replies on without saying to which request",
    "reply.arrives",
    notices=(Code.PUSH_REPLY_MESSAGE_TO_CLIENT,),
)
def correlation_lost(seen: Seen) -> None:
    """The property CORRELATION_ID is missing."""
    seen.request.ext["properties"] = without(str(seen.request.ext.get("properties", "")), names.CORRELATION_ID)


@wire("reply.nobody-accepted", "answers 0 where nobody takes the reply", "reply.nobody", answers=(Code.SEND_REPLY_MESSAGE_V2,))
def nobody_accepted(seen: Seen) -> None:
    """The reply is lost."""
    seen.reply.code = ResponseCode.SUCCESS
