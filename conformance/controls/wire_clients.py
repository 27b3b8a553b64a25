"""Defects towards consumers and producers: progress, locks, membership, retries, filters."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Any

from conformance.controls import frames
from conformance.controls.defect import wire
from conformance.controls.proxy import Seen, Step, answering
from conformance.controls.wire_messages import PULLS, each_unit, shift
from rmq_wire import property_names
from rmq_wire.codes import RequestCode as Code
from rmq_wire.codes import ResponseCode

COMMIT = (Code.UPDATE_CONSUMER_OFFSET,)
ASK = (Code.QUERY_CONSUMER_OFFSET,)
EVERYBODY = "CONF_everybody"
BACK = (Code.CONSUMER_SEND_MSG_BACK,)


def accepted(seen: Seen) -> Iterable[Step]:
    """Answer 0 and do nothing."""
    return [] if seen.request.is_one_way else [answering(seen.request.answer())]


def edit_json(body: bytes, edit: Callable[[Any], None]) -> bytes:
    """A JSON body edited; bare integer keys are put in quotes first."""
    table = json.loads(re.sub(rb"([{,]\s*)(-?\d+)(\s*:)", rb'\1"\2"\3', body))
    edit(table)
    return json.dumps(table, ensure_ascii=False, separators=(",", ":")).encode()


# Progress


@wire(
    "offsets.commit-forgotten",
    "answers a commit and stores nothing",
    "offsets.commit-then-query",
    "offsets.per-group",
    requests=COMMIT,
)
def commit_forgotten(seen: Seen) -> Iterable[Step]:
    """The next query tells the old progress."""
    return accepted(seen)


@wire("offsets.one-way-commit-forgotten", "does not count one-way commits", "offsets.one-way-commit", requests=COMMIT)
def one_way_forgotten(seen: Seen) -> Iterable[Step] | None:
    """Which is how clients commit."""
    return [] if seen.request.is_one_way else None


@wire("offsets.query-off-by-one", "tells a progress of one less", "offsets.commit-then-query", answers=ASK)
def query_off(seen: Seen) -> None:
    """So one message is read again."""
    shift(seen, "offset", -1)


@wire("offsets.groups-share", "keeps one progress for all groups", "offsets.per-group", requests=(*COMMIT, *ASK))
def groups_share(seen: Seen) -> None:
    """Of each topic and queue: that of the group which came first."""
    fields = seen.request.ext
    fields["consumerGroup"] = seen.state.setdefault(fields.get("topic"), fields.get("consumerGroup"))


@wire("offsets.queues-share", "keeps one progress for all queues", "offsets.per-group", requests=(*COMMIT, *ASK))
def queues_share(seen: Seen) -> None:
    """Of each group and topic."""
    seen.request.ext["queueId"] = "0"


@wire(
    "offsets.guessed", "answers 0 where a client wants to know that there is nothing", "offsets.not-found-if-asked", answers=ASK
)
def guessed(seen: Seen) -> None:
    """Instead of 22."""
    if seen.reply.code == ResponseCode.QUERY_NOT_FOUND:
        seen.reply.code, seen.reply.ext = ResponseCode.SUCCESS, {"offset": "0"}


@wire(
    "offsets.max-off-by-one",
    "tells the last message's offset as the end",
    "offsets.max-and-min",
    "send.max-offset-after",
    answers=(Code.GET_MAX_OFFSET,),
)
def max_off(seen: Seen) -> None:
    """One too low."""
    shift(seen, "offset", -1)


@wire(
    "offsets.min-off-by-one",
    "tells the second message's offset as the start",
    "offsets.max-and-min",
    answers=(Code.GET_MIN_OFFSET,),
)
def min_off(seen: Seen) -> None:
    """One too high."""
    shift(seen, "offset", 1)


@wire(
    "offsets.time-after",
    "finds the message behind a time, not the one at it",
    "offsets.by-time",
    requests=(Code.SEARCH_OFFSET_BY_TIMESTAMP,),
)
def time_after(seen: Seen) -> None:
    """Greater instead of greater or equal."""
    seen.request.ext["timestamp"] = str(int(seen.request.ext.get("timestamp", 0)) + 1)


@wire(
    "offsets.earliest-now",
    "tells no time of the oldest message",
    "offsets.earliest-time",
    answers=(Code.GET_EARLIEST_MSG_STORETIME,),
)
def earliest(seen: Seen) -> None:
    """-1, as for an empty queue."""
    seen.reply.ext["timestamp"] = "-1"


@wire(
    "offsets.reset-forgotten",
    "answers a reset and moves nothing",
    "offsets.reset-to-time",
    "offsets.reset-to-offset",
    requests=(Code.INVOKE_BROKER_TO_RESET_OFFSET,),
)
def reset_forgotten(seen: Seen) -> Iterable[Step]:
    """With an empty table."""
    return [answering(seen.request.answer(body=b'{"offsetTable":{}}'))]


# Locks


@wire("locks.granted-twice", "gives everybody the lock", "locks.first-come", answers=(Code.LOCK_BATCH_MQ,))
def granted_twice(seen: Seen) -> None:
    """Every queue that was asked for."""
    wanted = json.loads(seen.request.body).get("mqSet", [])
    seen.reply.body = json.dumps({"lockOKMQSet": wanted}).encode()


@wire("locks.unlock-ignored", "answers an unlock and keeps the lock", "locks.given-back", requests=(Code.UNLOCK_BATCH_MQ,))
def unlock_ignored(seen: Seen) -> Iterable[Step]:
    """Until it expires."""
    return accepted(seen)


@wire("locks.not-renewed", "refuses the lock to whom holds it", "locks.renewed", answers=(Code.LOCK_BATCH_MQ,))
def not_renewed(seen: Seen) -> None:
    """From the second time on."""
    if seen.state.setdefault(seen.request.body, seen.request.opaque) != seen.request.opaque:
        seen.reply.body = b'{"lockOKMQSet":[]}'


@wire("locks.groups-share", "has one lock for all groups", "locks.per-group", requests=(Code.LOCK_BATCH_MQ, Code.UNLOCK_BATCH_MQ))
def locks_share(seen: Seen) -> None:
    """Of each queue."""
    seen.request.body = edit_json(seen.request.body, lambda asked: asked.update(consumerGroup=EVERYBODY))


@wire(
    "locks.anybody-unlocks",
    "lets anybody give a lock back",
    "locks.not-by-others",
    requests=(Code.LOCK_BATCH_MQ, Code.UNLOCK_BATCH_MQ),
)
def anybody_unlocks(seen: Seen) -> None:
    """In the name of the holder."""
    asked = json.loads(seen.request.body)
    holder = seen.state.setdefault(asked["consumerGroup"], asked["clientId"])
    if seen.request.code == Code.UNLOCK_BATCH_MQ:
        seen.request.body = edit_json(seen.request.body, lambda asked: asked.update(clientId=holder))


# Members


@wire(
    "clients.notice-dropped",
    "does not tell members of a change",
    "clients.notice.joins",
    "clients.notice.goes",
    notices=(Code.NOTIFY_CONSUMER_IDS_CHANGED,),
)
def notice_dropped(seen: Seen) -> Iterable[Step]:
    """They find out by themselves, 20 s later."""
    return []


@wire(
    "clients.notice-wants-answer",
    "asks for an answer to its notices",
    "clients.notice.joins",
    notices=(Code.NOTIFY_CONSUMER_IDS_CHANGED,),
)
def notice_wants_answer(seen: Seen) -> None:
    """The one-way bit is missing."""
    seen.request.flag &= ~frames.ONE_WAY


@wire(
    "clients.notice-of-another-group",
    "names the wrong group in its notices",
    "clients.notice.joins",
    notices=(Code.NOTIFY_CONSUMER_IDS_CHANGED,),
)
def notice_of_another(seen: Seen) -> None:
    """A client then does nothing."""
    seen.request.ext["consumerGroup"] = EVERYBODY


@wire(
    "clients.member-missing",
    "leaves one out of the list of members",
    "clients.heartbeat",
    answers=(Code.GET_CONSUMER_LIST_BY_GROUP,),
)
def member_missing(seen: Seen) -> None:
    """The last of several."""
    if seen.reply.body:
        seen.reply.body = edit_json(seen.reply.body, lambda table: table.update(consumerIdList=table["consumerIdList"][:1]))


@wire("clients.goodbye-ignored", "keeps a member that unregisters", "clients.leaves", requests=(Code.UNREGISTER_CLIENT,))
def goodbye_ignored(seen: Seen) -> Iterable[Step]:
    """Until its connection ends."""
    return accepted(seen)


@wire(
    "clients.heartbeat-forgotten",
    "answers a heartbeat and forgets who sent it",
    "clients.heartbeat",
    "clients.notice.switched-off",
    "clients.subscription-on-record",
    requests=(Code.HEART_BEAT,),
)
def heartbeat_forgotten(seen: Seen) -> Iterable[Step]:
    """Nobody is a member of anything."""
    return [answering(seen.request.answer(ext={"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true"}))]


@wire(
    "clients.heartbeat-answer-bare",
    "does not say that version 2 of the heartbeat is understood",
    "clients.heartbeat.answer",
    answers=(Code.HEART_BEAT,),
)
def heartbeat_bare(seen: Seen) -> None:
    """No ext fields."""
    seen.reply.ext.clear()


@wire(
    "clients.connection-id-wrong",
    "lists connections without their client ids",
    "clients.consumer-connections",
    "clients.producers",
    answers=(Code.GET_CONSUMER_CONNECTION_LIST, Code.GET_PRODUCER_CONNECTION_LIST),
)
def connection_id(seen: Seen) -> None:
    """The address stands in their place."""

    def edit(table: Any) -> None:
        for row in table.get("connectionSet", ()):
            row["clientId"] = row.get("clientAddr")

    if seen.reply.body:
        seen.reply.body = edit_json(seen.reply.body, edit)


@wire(
    "clients.old-subscription-used",
    "pulls by a subscription that is not the latest",
    "clients.subscription-not-latest",
    requests=PULLS,
)
def old_subscription(seen: Seen) -> None:
    """It does not look at the version."""
    seen.request.ext["subVersion"] = "0"


# Retries


@wire("retry.attempts-not-counted", "counts no attempts", "retry.again", "retry.dead-letters.at-once", answers=PULLS)
def attempts(seen: Seen) -> None:
    """reconsumeTimes is 0 in every unit."""

    each_unit(seen, lambda unit: frames.put(unit, "reconsume_times", 0))


@wire(
    "retry.swallowed",
    "accepts a message that is given back, and forgets it",
    "retry.dead-letters.at-once",
    "retry.again",
    requests=BACK,
)
def swallowed(seen: Seen) -> Iterable[Step]:
    """It is lost."""
    return accepted(seen)


@wire("retry.dead-letter-elsewhere", "sends dead letters to the retry topic", "retry.dead-letters.at-once", requests=BACK)
def elsewhere(seen: Seen) -> None:
    """As if it could be tried again."""
    seen.request.ext["delayLevel"] = "1"


@wire(
    "retry.clients-limit-ignored",
    "does not look at the client's limit of attempts",
    "retry.dead-letters.clients-limit",
    requests=BACK,
)
def limit_ignored(seen: Seen) -> None:
    """Only at the group's."""
    seen.request.ext.pop("maxReconsumeTimes", None)


@wire("retry.default-too-short", "tries again after a second, always", "retry.default-delay", requests=BACK)
def default_too_short(seen: Seen) -> None:
    """Level 0 becomes level 1."""
    if seen.request.ext.get("delayLevel") == "0":
        seen.request.ext["delayLevel"] = "1"


@wire("retry.origin-lost", "names no first message in a retried one", "retry.origin-id", answers=PULLS)
def origin_lost(seen: Seen) -> None:
    """The property has another name."""
    name = property_names.ORIGIN_MESSAGE_ID.encode()

    def renamed(unit: bytearray) -> bytearray:
        text = frames.properties_text(unit)
        return frames.with_properties(unit, text.replace(name, b"X" * len(name))) if name in text else unit

    each_unit(seen, renamed)


@wire("retry.nothing-accepted", "accepts a place where no message is", "retry.refused.no-message", answers=BACK)
def nothing_accepted(seen: Seen) -> None:
    """Code 0."""
    seen.reply.code = ResponseCode.SUCCESS


# Filters


@wire(
    "filter.tags-refused",
    "wants a permission for subscriptions by tags",
    "filter.tag-is-always-allowed",
    answers=(Code.CHECK_CLIENT_CONFIG,),
)
def tags_refused(seen: Seen) -> None:
    """Code 1 for everybody."""
    seen.reply.code = ResponseCode.SYSTEM_ERROR


@wire(
    "filter.broken-accepted",
    "accepts expressions that it cannot compile",
    "filter.sql.broken",
    answers=(Code.CHECK_CLIENT_CONFIG,),
)
def broken_accepted(seen: Seen) -> None:
    """Code 0 for everything."""
    seen.reply.code = ResponseCode.SUCCESS


@wire(
    "filter.expression-ignored",
    "takes every expression for TRUE",
    "filter.sql.comparisons",
    "filter.sql.texts",
    requests=(Code.HEART_BEAT,),
)
def expression_ignored(seen: Seen) -> None:
    """Everybody gets everything."""

    def edit(beat: Any) -> None:
        for consumer in beat.get("consumerDataSet", ()):
            for subscription in consumer.get("subscriptionDataSet", ()):
                if subscription.get("expressionType") == "SQL92":
                    subscription["subString"] = "1 = 1"

    seen.request.body = edit_json(seen.request.body, edit)
