"""Defects of POP, of queues that the broker shares out, and of replies: what a server without them cannot show."""

from __future__ import annotations

from typing import Final

from conformance.controls.defect import Row
from conformance.controls.edits import (
    accepted,
    answers,
    code,
    constant,
    dropped,
    no_property,
    notices,
    number,
    of,
    rearranged,
    requests,
    text,
    where,
)
from conformance.controls.proxy import Seen
from rmq_wire import property_names as prop
from rmq_wire.codes import RequestCode as Code
from rmq_wire.codes import ResponseCode

POP: Final = Code.POP_MESSAGE
PUSH: Final = Code.PUSH_REPLY_MESSAGE_TO_CLIENT


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
    "pop.expression-ignored": Row(
        "hands out messages that the expression does not select",
        "pop.sql",
        requests(POP, where(constant(exp="TRUE"), expType="SQL92")),
    ),
    "pop.lowest-priority-first": Row(
        "hands out what has the lowest priority first",
        "pop.priorities",
        answers(POP, rearranged(lambda units: units[::-1])),
    ),
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
    # Assignment
    "assignment.nothing-for-anybody": Row(
        "gives nobody a queue",
        "assignment.shares assignment.pops",
        answers(Code.QUERY_ASSIGNMENT, text(rb'"messageQueueAssignments":\[.*\]', b'"messageQueueAssignments":[]')),
    ),
    "assignment.mode-forgotten": Row(
        "says that everybody pulls", "assignment.pops", answers(Code.QUERY_ASSIGNMENT, text(rb'"mode":"POP"', b'"mode":"PULL"'))
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
