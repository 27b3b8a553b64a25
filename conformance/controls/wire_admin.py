"""Defects of administration: topics, groups, pages, figures and configuration of a broker."""

from __future__ import annotations

import re
from collections.abc import Iterable

from conformance.controls.defect import wire
from conformance.controls.proxy import Seen, Step
from conformance.controls.wire_clients import accepted, edit_json
from rmq_wire.codes import RequestCode as Code
from rmq_wire.codes import ResponseCode

CREATE = (Code.UPDATE_AND_CREATE_TOPIC,)
ALL_TOPICS = (Code.GET_ALL_TOPIC_CONFIG,)
MADE = "made"
"""In a mutator's memory: topics that were made through it."""
READ_WRITE = "6"


@wire("topics.row-missing", "leaves new topics out of the table of all", "topics.all", requests=CREATE, answers=ALL_TOPICS)
def row_missing(seen: Seen) -> None:
    """Those that were made since."""
    without_made(seen)


def without_made(seen: Seen) -> None:
    """Take the topics that were made since out of a table of topics."""
    made = seen.state.setdefault(MADE, set())
    if seen.answer is None:
        made.add(seen.request.ext.get("topic"))
    elif seen.answer.body:
        seen.answer.body = edit_json(
            seen.answer.body,
            lambda table: table.update(
                topicConfigTable={name: row for name, row in table["topicConfigTable"].items() if name not in made}
            ),
        )


@wire("topics.permission-kept", "does not change a topic's permission", "topics.update", requests=CREATE)
def permission_kept(seen: Seen) -> None:
    """It can be read and written."""
    seen.request.ext["perm"] = READ_WRITE


@wire("topics.queues-swapped", "takes read queues for write queues", "topics.create", requests=CREATE)
def queues_swapped(seen: Seen) -> None:
    """And the other way round."""
    fields = seen.request.ext
    fields["readQueueNums"], fields["writeQueueNums"] = fields.get("writeQueueNums", "1"), fields.get("readQueueNums", "1")


@wire("topics.attributes-dropped", "forgets a topic's attributes", "topics.attributes", requests=CREATE)
def attributes_dropped(seen: Seen) -> None:
    """All of them."""
    seen.request.ext.pop("attributes", None)


@wire("topics.delete-ignored", "answers a delete and keeps the topic", "topics.delete", requests=(Code.DELETE_TOPIC_IN_BROKER,))
def delete_ignored(seen: Seen) -> Iterable[Step]:
    """With its messages."""
    return accepted(seen)


@wire("topics.system-deleted", "lets its own topics be deleted", "topics.delete-system", answers=(Code.DELETE_TOPIC_IN_BROKER,))
def system_deleted(seen: Seen) -> None:
    """Only says so, here."""
    seen.reply.code = ResponseCode.SUCCESS


@wire(
    "topics.unknown-code",
    "answers 1 for the configuration of no topic",
    "topics.config-unknown",
    answers=(Code.GET_TOPIC_CONFIG,),
)
def unknown_code(seen: Seen) -> None:
    """Instead of 17."""
    if seen.reply.code == ResponseCode.TOPIC_NOT_EXIST:
        seen.reply.code = ResponseCode.SYSTEM_ERROR


@wire("topics.stats-off-by-one", "tells queue ends of one less", "topics.stats", answers=(Code.GET_TOPIC_STATS_INFO,))
def stats_off(seen: Seen) -> None:
    """Of queues that have messages."""
    seen.reply.body = re.sub(rb'"maxOffset":(\d+)', lambda found: b'"maxOffset":%d' % max(int(found[1]) - 1, 0), seen.reply.body)


@wire(
    "topics.not-registered",
    "does not tell the name server of new topics",
    "topics.route-follows",
    requests=CREATE,
    answers=(Code.GET_ROUTEINFO_BY_TOPIC,),
)
def not_registered(seen: Seen) -> None:
    """They have no route."""
    made = seen.state.setdefault(MADE, set())
    if seen.answer is None:
        made.add(seen.request.ext.get("topic"))
    elif seen.request.ext.get("topic") in made:
        seen.answer.code, seen.answer.body = ResponseCode.TOPIC_NOT_EXIST, b""


@wire("paging.page-lost", "leaves topics out between two pages", "paging.topics", requests=CREATE, answers=ALL_TOPICS)
def page_lost(seen: Seen) -> None:
    """New ones."""
    without_made(seen)


@wire("paging.first-page-again", "sends the first page whatever page is asked for", "paging.topics", requests=ALL_TOPICS)
def first_page(seen: Seen) -> None:
    """So topics come twice."""
    if "topicSeq" in seen.request.ext:
        seen.request.ext["topicSeq"] = "0"


@wire(
    "groups.setting-lost",
    "stores a group with the usual attempts",
    "groups.all",
    requests=(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,),
)
def setting_lost(seen: Seen) -> None:
    """Whatever it was told."""
    if seen.request.body:
        seen.request.body = edit_json(seen.request.body, lambda group: group.update(retryMaxTimes=16))


@wire("groups.delete-ignored", "answers a delete and keeps the group", "groups.delete", requests=(Code.DELETE_SUBSCRIPTIONGROUP,))
def group_kept(seen: Seen) -> Iterable[Step]:
    """With its progress."""
    return accepted(seen)


@wire("runtime.figure-missing", "leaves a figure out that tools read", "runtime.figures", answers=(Code.GET_BROKER_RUNTIME_INFO,))
def figure_missing(seen: Seen) -> None:
    """getTotalTps."""
    seen.reply.body = seen.reply.body.replace(b'"getTotalTps"', b'"getAllTps"')


@wire("runtime.puts-not-counted", "does not count what is put", "runtime.counts", answers=(Code.GET_BROKER_RUNTIME_INFO,))
def puts_not_counted(seen: Seen) -> None:
    """The figure stands still."""
    seen.reply.body = re.sub(rb'("putMessageTimesTotal":)"?\d+"?', rb'\1"7"', seen.reply.body)


@wire(
    "runtime.name-wrong",
    "tells another broker's name in its configuration",
    "runtime.config.read",
    answers=(Code.GET_BROKER_CONFIG,),
)
def name_wrong(seen: Seen) -> None:
    """The line of brokerName."""
    seen.reply.body = re.sub(rb"(?m)^brokerName=.*$", b"brokerName=nobody", seen.reply.body)


@wire(
    "runtime.black-list-ignored",
    "lets its paths be changed over the wire",
    "runtime.config.forbidden",
    answers=(Code.UPDATE_BROKER_CONFIG,),
)
def black_list(seen: Seen) -> None:
    """Only says so, here."""
    seen.reply.code = ResponseCode.SUCCESS


@wire(
    "runtime.lag-wrong", "tells the queue's end as the group's place", "runtime.consume-stats", answers=(Code.GET_CONSUME_STATS,)
)
def lag_wrong(seen: Seen) -> None:
    """So no group ever lags behind."""
    seen.reply.body = re.sub(rb'"consumerOffset":\d+', b'"consumerOffset":3', seen.reply.body)
