"""Defects of delay, timers, transactions, POP and replies: what a server without them cannot show."""

from __future__ import annotations

from typing import Final

from conformance.controls.defect import Row
from conformance.controls.edits import (
    SEND_PROPERTIES,
    accepted,
    answered,
    answers,
    code,
    constant,
    dropped,
    no_property,
    notices,
    number,
    of,
    other_property,
    requests,
    sent_properties,
    together,
    unset,
    where,
)
from conformance.controls.proxy import Seen
from rmq_wire import properties as property_text
from rmq_wire import property_names as prop
from rmq_wire.codes import RequestCode as Code
from rmq_wire.codes import ResponseCode
from rmq_wire.sys_flag import TRANSACTION_COMMIT, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK

SEND: Final = Code.SEND_MESSAGE_V2
POP: Final = Code.POP_MESSAGE
END: Final = Code.END_TRANSACTION
CHECK: Final = Code.CHECK_TRANSACTION_STATE
PUSH: Final = Code.PUSH_REPLY_MESSAGE_TO_CLIENT
SYS_FLAG: Final = "f"
"""The field of a send."""
COMMIT, ROLLBACK = str(TRANSACTION_COMMIT), str(TRANSACTION_ROLLBACK)


def seconds_as_milliseconds(seen: Seen) -> None:
    """3 s are over at once."""
    pairs = sent_properties(seen)
    if prop.TIMER_DELAY_SEC in pairs:
        pairs[prop.TIMER_DELAY_MS] = pairs.pop(prop.TIMER_DELAY_SEC)
        seen.request.ext[SEND_PROPERTIES] = property_text.encode(pairs)


def half_visible(seen: Seen) -> None:
    """They are stored as any others."""
    if int(seen.request.ext.get(SYS_FLAG, 0)) & TRANSACTION_PREPARED:
        no_property(prop.TRAN_MSG)(seen)
        unset(SYS_FLAG, TRANSACTION_PREPARED)(seen)


def group_kept(seen: Seen) -> None:
    """Whose half message it is."""
    pairs = sent_properties(seen)
    if prop.PGROUP in pairs:
        seen.state[pairs.get(prop.UNIQ_KEY)] = pairs[prop.PGROUP]


def group_put_in(seen: Seen) -> None:
    """So the groups are always equal."""
    seen.request.ext["producerGroup"] = seen.state.get(seen.request.ext.get("msgId"), "")


def receipt_wrong(seen: Seen) -> None:
    """The start of each queue is one too high."""
    entries = [entry.split(" ") for entry in str(seen.reply.ext.get("startOffsetInfo", "")).split(";") if entry]
    if entries:
        moved = [f"{kind} {queue} {int(start) + 1}" for kind, queue, start in entries]
        seen.reply.ext["startOffsetInfo"] = ";".join(moved)


def handed_out_twice(seen: Seen) -> None:
    """The answer of the first pop comes again and again."""
    key = (seen.request.ext.get("topic"), seen.request.ext.get("consumerGroup"))
    if seen.reply.code == ResponseCode.SUCCESS and key not in seen.state:
        seen.state[key] = (dict(seen.reply.ext), seen.reply.body)
    elif key in seen.state:
        seen.reply.code, seen.reply.remark = ResponseCode.SUCCESS, None
        seen.reply.ext, seen.reply.body = seen.state[key]


DEFECTS: Final = {
    # Delay
    "delay.ignored": Row("delivers at once", "delay.level-1 delay.level-2", requests(SEND, no_property(prop.DELAY))),
    "delay.next-level": Row(
        "takes each level for the next one",
        "delay.levels-beside-each-other",
        requests(SEND, other_property(prop.DELAY, "1", "2")),
    ),
    "delay.zero-is-one": Row("delays messages of level 0", "delay.level-0", requests(SEND, other_property(prop.DELAY, "0", "1"))),
    # Timers
    "timer.ignored": Row(
        "delivers at once",
        "timer.deliver-at timer.delay-ms",
        requests(SEND, no_property(prop.TIMER_DELIVER_MS, prop.TIMER_DELAY_MS, prop.TIMER_DELAY_SEC)),
    ),
    "timer.seconds-as-milliseconds": Row(
        "takes seconds for milliseconds", "timer.delay-sec", requests(SEND, seconds_as_milliseconds)
    ),
    "timer.too-far-accepted": Row(
        "accepts times beyond its wheel",
        "timer.too-far",
        answers(SEND, of(ResponseCode.MESSAGE_ILLEGAL, code(ResponseCode.SUCCESS))),
    ),
    "timer.recall-ignored": Row(
        "answers a recall and delivers all the same",
        "timer.recall",
        requests(Code.RECALL_MESSAGE, answered(msgId="7F000001000018B4AAC2000000000001")),
    ),
    # Transactions
    "transaction.half-visible": Row("shows half messages to consumers", "transaction.half-unseen", requests(SEND, half_visible)),
    "transaction.rollback-delivers": Row(
        "delivers what is rolled back",
        "transaction.rollback",
        requests(END, where(constant(commitOrRollback=COMMIT), commitOrRollback=ROLLBACK)),
    ),
    "transaction.commit-lost": Row(
        "forgets commits",
        "transaction.commit transaction.order-of-commits",
        requests(END, where(dropped, commitOrRollback=COMMIT)),
    ),
    "transaction.check-dropped": Row(
        "asks no producer how it ended", "transaction.check-then-commit transaction.unknown-asks-again", notices(CHECK, dropped)
    ),
    "transaction.check-without-message": Row(
        "asks without the half message", "transaction.check-then-commit", notices(CHECK, constant(msgId=""))
    ),
    "transaction.any-group-ends": Row(
        "lets any group end a transaction",
        "transaction.wrong-group",
        together(requests(SEND, group_kept), requests(END, group_put_in)),
    ),
    # POP
    "pop.receipt-wrong": Row(
        "answers offsets that are not those of the messages",
        "pop.answer-header pop.acknowledged",
        answers(POP, of(ResponseCode.SUCCESS, receipt_wrong)),
    ),
    "pop.handed-out-twice": Row(
        "hands out what somebody else is working on", "pop.invisible pop.shared-queue", answers(POP, handed_out_twice)
    ),
    "pop.acknowledgement-ignored": Row(
        "answers an acknowledgement and forgets it", "pop.acknowledged pop.order", requests(Code.ACK_MESSAGE, accepted)
    ),
    "pop.attempts-not-counted": Row("counts no attempts", "pop.again", answers(POP, number("reconsume_times", 0))),
    "pop.never-waits": Row("answers a pop at once", "pop.waits pop.waited-in-vain", requests(POP, constant(pollTime="0"))),
    "pop.tags-ignored": Row("hands out messages of all tags", "pop.tags", requests(POP, constant(exp="*"))),
    "pop.order-ignored": Row(
        "hands out the next messages of a queue before these are acknowledged",
        "pop.order",
        requests(POP, constant(order="false")),
    ),
    "pop.invisible-time-kept": Row(
        "answers a change of the time and keeps the old one",
        "pop.change-invisible-time",
        requests(Code.CHANGE_MESSAGE_INVISIBLETIME, constant(invisibleTime="60000")),
    ),
    "pop.always-something": Row(
        "says that there is something to pop, always", "pop.notification", answers(Code.NOTIFICATION, constant(hasMsg="true"))
    ),
    # Replies
    "reply.dropped": Row("does not pass replies on", "reply.arrives", notices(PUSH, dropped)),
    "reply.correlation-lost": Row(
        "passes replies on without saying to which request",
        "reply.arrives",
        notices(PUSH, no_property(prop.CORRELATION_ID, field="properties")),
    ),
    "reply.nobody-accepted": Row(
        "answers 0 where nobody takes the reply", "reply.nobody", answers(Code.SEND_REPLY_MESSAGE_V2, code(ResponseCode.SUCCESS))
    ),
}
