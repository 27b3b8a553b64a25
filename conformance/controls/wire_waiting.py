"""Defects of what waits: delay levels, timers and their recall, transactions."""

from __future__ import annotations

from typing import Final

from conformance.controls.defect import Row
from conformance.controls.edits import (
    SEND_PROPERTIES,
    answered,
    answers,
    code,
    constant,
    dropped,
    no_property,
    notices,
    of,
    other_property,
    requests,
    sent_properties,
    together,
    unset,
    where,
)
from conformance.controls.proxy import Seen, Step, passing
from conformance.suite.trial import properties_of
from rmq_wire import properties as property_text
from rmq_wire import property_names as prop
from rmq_wire.codes import RequestCode as Code
from rmq_wire.codes import ResponseCode
from rmq_wire.java import parse_long
from rmq_wire.message import read_unit
from rmq_wire.recall_handle import handle_text, read_handle
from rmq_wire.sys_flag import TRANSACTION_COMMIT, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK

SEND: Final = Code.SEND_MESSAGE_V2
RECALL: Final = Code.RECALL_MESSAGE
END: Final = Code.END_TRANSACTION
CHECK: Final = Code.CHECK_TRANSACTION_STATE
SYS_FLAG: Final = "f"
"""The field of a send."""
COMMIT, ROLLBACK = str(TRANSACTION_COMMIT), str(TRANSACTION_ROLLBACK)
TIMES: Final = (prop.TIMER_DELIVER_MS, prop.TIMER_DELAY_MS, prop.TIMER_DELAY_SEC)


def with_properties(seen: Seen, pairs: dict[str, str]) -> None:
    """These instead of those of the message that is sent."""
    seen.request.ext[SEND_PROPERTIES] = property_text.encode(pairs)


def seconds_as_milliseconds(seen: Seen) -> None:
    """3 s are over at once."""
    pairs = sent_properties(seen)
    if prop.TIMER_DELAY_SEC in pairs:
        pairs[prop.TIMER_DELAY_MS] = pairs.pop(prop.TIMER_DELAY_SEC)
        with_properties(seen, pairs)


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


def unreadable_ignored(seen: Seen) -> None:
    """A time that is no number is none."""
    pairs = sent_properties(seen)
    with_properties(seen, {name: value for name, value in pairs.items() if name not in TIMES or parse_long(value) is not None})


def too_late(seen: Seen) -> None:
    """Twenty seconds later than asked for, what is over included."""
    pairs = sent_properties(seen)
    due_ms = parse_long(pairs.get(prop.TIMER_DELIVER_MS, ""))
    if due_ms is not None:
        with_properties(seen, pairs | {prop.TIMER_DELIVER_MS: str(due_ms + 20_000)})


def time_before_level(seen: Seen) -> None:
    """A message with both has no level."""
    if any(name in sent_properties(seen) for name in TIMES):
        no_property(prop.DELAY)(seen)


def seconds_last(seen: Seen) -> None:
    """They count only where no other time is named."""
    pairs = sent_properties(seen)
    if prop.TIMER_DELAY_MS in pairs or prop.TIMER_DELIVER_MS in pairs:
        no_property(prop.TIMER_DELAY_SEC)(seen)


def first_time_for_all(seen: Seen) -> None:
    """What a topic's first message waits for its others wait for."""
    pairs = sent_properties(seen)
    if prop.TIMER_DELIVER_MS in pairs:
        topic = seen.request.ext.get("b")
        with_properties(seen, pairs | {prop.TIMER_DELIVER_MS: seen.state.setdefault(topic, pairs[prop.TIMER_DELIVER_MS])})


def keys_lost(seen: Seen) -> None:
    """Of what waits."""
    if any(name in sent_properties(seen) for name in TIMES):
        no_property(prop.KEYS, prop.TAGS)(seen)


def any_key_recalled(seen: Seen) -> None:
    """The last message that waits for a time goes, whatever key the handle has."""
    if seen.request.code == SEND:
        pairs = sent_properties(seen)
        if prop.TIMER_DELIVER_MS in pairs:
            seen.state["key"] = pairs.get(prop.UNIQ_KEY, "")
    else:
        handle = read_handle(str(seen.request.ext.get("recallHandle", "")))
        seen.request.ext["recallHandle"] = handle_text(handle._replace(unique_key=seen.state["key"]))


def left_by_one(seen: Seen) -> list[Step] | None:
    """A group that one producer leaves has no producers any more."""
    if seen.own:
        pairs = properties_of(read_unit(seen.request.body))
        return [] if ("left", pairs.get(prop.PGROUP)) in seen.state else None
    seen.state["left", seen.request.ext.get("producerGroup")] = True
    return None


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
        requests(RECALL, answered(msgId="7F000001000018B4AAC2000000000001")),
    ),
    "timer.late": Row("delivers too late", "timer.past timer.deliver-at", requests(SEND, too_late)),
    "timer.unreadable-ignored": Row(
        "takes a time that is no number for none", "timer.unreadable", requests(SEND, unreadable_ignored)
    ),
    "timer.time-before-level": Row(
        "lets a time go before a delay level", "timer.level-goes-before", requests(SEND, time_before_level)
    ),
    "timer.seconds-last": Row("takes another time before the seconds", "timer.seconds-go-first", requests(SEND, seconds_last)),
    "timer.order-ignored": Row("delivers all of a topic at one time", "timer.order-of-times", requests(SEND, first_time_for_all)),
    "timer.properties-lost": Row("forgets tags and keys while they wait", "timer.keeps-properties", requests(SEND, keys_lost)),
    "timer.recall-unchecked": Row(
        "accepts any handle",
        "timer.recall-nonsense timer.recall-forged",
        answers(RECALL, of(ResponseCode.ILLEGAL_OPERATION, code(ResponseCode.SUCCESS))),
    ),
    "timer.recall-of-any-key": Row(
        "calls back what is due at that time, whatever the key",
        "timer.recall-of-another-key",
        requests((SEND, RECALL), any_key_recalled),
    ),
    "timer.recall-never-off": Row(
        "calls back where that is switched off",
        "timer.recall-switched-off",
        answers(RECALL, of(ResponseCode.NO_PERMISSION, code(ResponseCode.SUCCESS))),
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
    "transaction.immunity-ignored": Row(
        "asks too early",
        "transaction.end-too-late",
        requests(SEND, no_property(prop.CHECK_IMMUNITY_TIME_IN_SECONDS)),
    ),
    "transaction.immunity-cut-short": Row(
        "gives a second to who asks for three",
        "transaction.left-in-peace",
        requests(SEND, other_property(prop.CHECK_IMMUNITY_TIME_IN_SECONDS, "3", "1")),
    ),
    "transaction.asks-twice": Row(
        "asks about each half message twice", "transaction.given-up", notices(CHECK, lambda seen: [passing(seen.request)] * 2)
    ),
    "transaction.group-forgotten": Row(
        "asks nobody of a group that one producer has left",
        "transaction.any-of-the-group",
        together(notices(CHECK, left_by_one), requests(Code.UNREGISTER_CLIENT, left_by_one)),
    ),
    "transaction.nothing-ended": Row(
        "says that it has ended what was no half message",
        "transaction.end-of-nothing",
        answers(END, of(ResponseCode.SYSTEM_ERROR, code(ResponseCode.SUCCESS))),
    ),
}
