"""Defects towards consumers and producers: progress, locks, membership, retries, filters."""

from __future__ import annotations

import json
from typing import Any, Final

from conformance.controls import frames
from conformance.controls.defect import Row
from conformance.controls.edits import (
    accepted,
    add,
    answered,
    answers,
    code,
    constant,
    dropped,
    each_unit,
    edit_json,
    gone,
    mark,
    notices,
    number,
    of,
    one_way_dropped,
    requests,
    table,
    where,
)
from conformance.controls.proxy import Seen
from conformance.controls.wire_messages import PULLS
from rmq_wire import property_names
from rmq_wire.codes import RequestCode as Code
from rmq_wire.codes import ResponseCode

COMMIT: Final = Code.UPDATE_CONSUMER_OFFSET
ASK: Final = Code.QUERY_CONSUMER_OFFSET
CHANGED: Final = Code.NOTIFY_CONSUMER_IDS_CHANGED
BACK: Final = Code.CONSUMER_SEND_MSG_BACK
LOCK: Final = Code.LOCK_BATCH_MQ
UNLOCK: Final = Code.UNLOCK_BATCH_MQ
CHECK: Final = Code.CHECK_CLIENT_CONFIG
EVERYBODY: Final = "CONF_everybody"


def groups_share(seen: Seen) -> None:
    """Of each topic and queue: that of the group which came first."""
    fields = seen.request.ext
    fields["consumerGroup"] = seen.state.setdefault(fields.get("topic"), fields.get("consumerGroup"))


def time_after(seen: Seen) -> None:
    """Greater instead of greater or equal."""
    seen.request.ext["timestamp"] = str(int(seen.request.ext.get("timestamp", 0)) + 1)


def granted_twice(seen: Seen) -> None:
    """Every queue that was asked for."""
    wanted = json.loads(seen.request.body).get("mqSet", [])
    seen.reply.body = json.dumps({"lockOKMQSet": wanted}).encode()


def not_renewed(seen: Seen) -> None:
    """From the second time on."""
    if seen.state.setdefault(seen.request.body, seen.request.opaque) != seen.request.opaque:
        seen.reply.body = b'{"lockOKMQSet":[]}'


def anybody_unlocks(seen: Seen) -> None:
    """In the name of the holder."""
    asked = json.loads(seen.request.body)
    holder = seen.state.setdefault(asked["consumerGroup"], asked["clientId"])
    if seen.request.code == UNLOCK:
        seen.request.body = edit_json(seen.request.body, lambda asked: asked.update(clientId=holder))


def address_as_id(connections: Any) -> None:
    """In place of the client's id."""
    for row in connections.get("connectionSet", ()):
        row["clientId"] = row.get("clientAddr")


def origin_lost(unit: bytearray) -> bytearray:
    """The property has another name."""
    name, text = property_names.ORIGIN_MESSAGE_ID.encode(), frames.properties_text(unit)
    return frames.with_properties(unit, text.replace(name, b"X" * len(name))) if name in text else unit


def always_true(beat: Any) -> None:
    """Every expression of a heartbeat."""
    for consumer in beat.get("consumerDataSet", ()):
        for subscription in consumer.get("subscriptionDataSet", ()):
            if subscription.get("expressionType") == "SQL92":
                subscription["subString"] = "1 = 1"


DEFECTS: Final = {
    # Progress
    "offsets.commit-forgotten": Row(
        "answers a commit and stores nothing", "offsets.commit-then-query offsets.per-group", requests(COMMIT, accepted)
    ),
    "offsets.one-way-commit-forgotten": Row(
        "does not count one-way commits", "offsets.one-way-commit", requests(COMMIT, one_way_dropped)
    ),
    "offsets.query-off-by-one": Row(
        "answers a committed offset of one less", "offsets.commit-then-query", answers(ASK, add("offset", -1))
    ),
    "offsets.groups-share": Row("keeps one progress for all groups", "offsets.per-group", requests((COMMIT, ASK), groups_share)),
    "offsets.queues-share": Row(
        "keeps one progress for all queues", "offsets.per-group", requests((COMMIT, ASK), constant(queueId="0"))
    ),
    "offsets.guessed": Row(
        "answers 0 where a client wants to know that there is nothing",
        "offsets.not-found-if-asked",
        answers(ASK, of(ResponseCode.QUERY_NOT_FOUND, code(ResponseCode.SUCCESS, offset="0"))),
    ),
    "offsets.max-off-by-one": Row(
        "answers the last message's offset as the end",
        "offsets.max-and-min send.max-offset-after",
        answers(Code.GET_MAX_OFFSET, add("offset", -1)),
    ),
    "offsets.min-off-by-one": Row(
        "answers the second message's offset as the start", "offsets.max-and-min", answers(Code.GET_MIN_OFFSET, add("offset", 1))
    ),
    "offsets.time-after": Row(
        "finds the message behind a time, not the one at it",
        "offsets.by-time",
        requests(Code.SEARCH_OFFSET_BY_TIMESTAMP, time_after),
    ),
    "offsets.earliest-now": Row(
        "answers no time of the oldest message",
        "offsets.earliest-time",
        answers(Code.GET_EARLIEST_MSG_STORETIME, constant(timestamp="-1")),
    ),
    "offsets.reset-forgotten": Row(
        "answers a reset and moves nothing",
        "offsets.reset-to-time offsets.reset-to-offset",
        requests(Code.INVOKE_BROKER_TO_RESET_OFFSET, answered(body=b'{"offsetTable":{}}')),
    ),
    # Locks
    "locks.granted-twice": Row("gives everybody the lock", "locks.first-come", answers(LOCK, granted_twice)),
    "locks.unlock-ignored": Row("answers an unlock and keeps the lock", "locks.given-back", requests(UNLOCK, accepted)),
    "locks.not-renewed": Row("refuses the lock to whom holds it", "locks.renewed", answers(LOCK, not_renewed)),
    "locks.groups-share": Row(
        "has one lock for all groups",
        "locks.per-group",
        requests((LOCK, UNLOCK), table(lambda asked: asked.update(consumerGroup=EVERYBODY))),
    ),
    "locks.anybody-unlocks": Row(
        "lets anybody give a lock back", "locks.not-by-others", requests((LOCK, UNLOCK), anybody_unlocks)
    ),
    # Members
    "clients.notice-dropped": Row(
        "does not notify members of a change", "clients.notice.joins clients.notice.goes", notices(CHANGED, dropped)
    ),
    "clients.notice-wants-answer": Row(
        "asks for an answer to its notices", "clients.notice.joins", notices(CHANGED, mark(off=frames.ONE_WAY))
    ),
    "clients.notice-of-another-group": Row(
        "names the wrong group in its notices", "clients.notice.joins", notices(CHANGED, constant(consumerGroup=EVERYBODY))
    ),
    "clients.member-missing": Row(
        "leaves one out of the list of members",
        "clients.heartbeat",
        answers(
            Code.GET_CONSUMER_LIST_BY_GROUP, table(lambda members: members.update(consumerIdList=members["consumerIdList"][:1]))
        ),
    ),
    "clients.goodbye-ignored": Row(
        "keeps a member that unregisters", "clients.leaves", requests(Code.UNREGISTER_CLIENT, accepted)
    ),
    "clients.heartbeat-forgotten": Row(
        "answers a heartbeat and forgets who sent it",
        "clients.heartbeat clients.notice.switched-off clients.subscription-on-record",
        requests(Code.HEART_BEAT, answered(IS_SUPPORT_HEART_BEAT_V2="true", IS_SUB_CHANGE="true")),
    ),
    "clients.heartbeat-answer-bare": Row(
        "does not say that version 2 of the heartbeat is understood",
        "clients.heartbeat.answer",
        answers(Code.HEART_BEAT, lambda seen: seen.reply.ext.clear()),
    ),
    "clients.connection-id-wrong": Row(
        "lists connections without their client ids",
        "clients.consumer-connections clients.producers",
        answers((Code.GET_CONSUMER_CONNECTION_LIST, Code.GET_PRODUCER_CONNECTION_LIST), table(address_as_id)),
    ),
    "clients.old-subscription-used": Row(
        "pulls by a subscription that is not the latest",
        "clients.subscription-not-latest",
        requests(PULLS, constant(subVersion="0")),
    ),
    # Retries
    "retry.attempts-not-counted": Row(
        "counts no attempts", "retry.again retry.dead-letters.at-once", answers(PULLS, number("reconsume_times", 0))
    ),
    "retry.swallowed": Row(
        "accepts a message that is given back, and forgets it", "retry.dead-letters.at-once retry.again", requests(BACK, accepted)
    ),
    "retry.dead-letter-elsewhere": Row(
        "sends dead letters to the retry topic", "retry.dead-letters.at-once", requests(BACK, constant(delayLevel="1"))
    ),
    "retry.clients-limit-ignored": Row(
        "does not look at the client's limit of attempts",
        "retry.dead-letters.clients-limit",
        requests(BACK, gone("maxReconsumeTimes")),
    ),
    "retry.default-too-short": Row(
        "tries again after a second, always",
        "retry.default-delay",
        requests(BACK, where(constant(delayLevel="1"), delayLevel="0")),
    ),
    "retry.origin-lost": Row(
        "names no first message in a retried one", "retry.origin-id", answers(PULLS, each_unit(origin_lost))
    ),
    "retry.nothing-accepted": Row(
        "accepts a place where no message is", "retry.refused.no-message", answers(BACK, code(ResponseCode.SUCCESS))
    ),
    # Filters
    "filter.tags-refused": Row(
        "wants a permission for subscriptions by tags",
        "filter.tag-is-always-allowed",
        answers(CHECK, code(ResponseCode.SYSTEM_ERROR)),
    ),
    "filter.broken-accepted": Row(
        "accepts expressions that it cannot compile", "filter.sql.broken", answers(CHECK, code(ResponseCode.SUCCESS))
    ),
    "filter.not-compiled-unsaid": Row(
        "lets a client wait whose expression it cannot compile",
        "filter.sql.not-compiled",
        answers(PULLS, of(ResponseCode.FILTER_DATA_NOT_EXIST, code(ResponseCode.PULL_NOT_FOUND))),
    ),
    "filter.expression-ignored": Row(
        "takes every expression for TRUE",
        "filter.sql.comparisons filter.sql.texts",
        requests(Code.HEART_BEAT, table(always_true)),
    ),
}
