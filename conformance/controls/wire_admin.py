"""Defects of administration: topics, groups, pages, figures and configuration of a broker."""

from __future__ import annotations

from typing import Any, Final

from conformance.controls.defect import Row
from conformance.controls.edits import accepted, answers, code, constant, gone, of, requests, table, text, together
from conformance.controls.proxy import Mutate, Seen
from rmq_wire.codes import RequestCode as Code
from rmq_wire.codes import ResponseCode

CREATE: Final = Code.UPDATE_AND_CREATE_TOPIC
ALL_TOPICS: Final = Code.GET_ALL_TOPIC_CONFIG
INFO: Final = Code.GET_BROKER_RUNTIME_INFO
MADE: Final = "made"
"""In a mutator's memory: topics that were made through it."""


def made(seen: Seen) -> set[Any]:
    """Topics that were made through this mutator."""
    topics: set[Any] = seen.state.setdefault(MADE, set())
    return topics


def remembered(seen: Seen) -> None:
    """A topic is made."""
    made(seen).add(seen.request.ext.get("topic"))


def new_ones_left_out(seen: Seen) -> None:
    """The table of all topics has none of them."""

    def left_out(all_topics: Any) -> None:
        rows = all_topics["topicConfigTable"].items()
        all_topics["topicConfigTable"] = {name: row for name, row in rows if name not in made(seen)}

    table(left_out)(seen)


def no_route(seen: Seen) -> None:
    """For topics that were made since."""
    if seen.request.ext.get("topic") in made(seen):
        code(ResponseCode.TOPIC_NOT_EXIST, body=b"")(seen)


def queues_swapped(seen: Seen) -> None:
    """And the other way round."""
    fields = seen.request.ext
    fields["readQueueNums"], fields["writeQueueNums"] = fields.get("writeQueueNums", "1"), fields.get("readQueueNums", "1")


def first_page(seen: Seen) -> None:
    """So topics come twice."""
    if "topicSeq" in seen.request.ext:
        seen.request.ext["topicSeq"] = "0"


WITHOUT_NEW_ONES: Final[Mutate] = together(requests(CREATE, remembered), answers(ALL_TOPICS, new_ones_left_out))

DEFECTS: Final = {
    "topics.row-missing": Row("leaves new topics out of the table of all", "topics.all", WITHOUT_NEW_ONES),
    "topics.permission-kept": Row("does not change a topic's permission", "topics.update", requests(CREATE, constant(perm="6"))),
    "topics.queues-swapped": Row("takes read queues for write queues", "topics.create", requests(CREATE, queues_swapped)),
    "topics.attributes-dropped": Row("forgets a topic's attributes", "topics.attributes", requests(CREATE, gone("attributes"))),
    "topics.delete-ignored": Row(
        "answers a delete and keeps the topic", "topics.delete", requests(Code.DELETE_TOPIC_IN_BROKER, accepted)
    ),
    "topics.system-deleted": Row(
        "lets its own topics be deleted", "topics.delete-system", answers(Code.DELETE_TOPIC_IN_BROKER, code(ResponseCode.SUCCESS))
    ),
    "topics.unknown-code": Row(
        "answers 1 for the configuration of no topic",
        "topics.config-unknown",
        answers(Code.GET_TOPIC_CONFIG, of(ResponseCode.TOPIC_NOT_EXIST, code(ResponseCode.SYSTEM_ERROR))),
    ),
    "topics.stats-off-by-one": Row(
        "reports queue ends of one less",
        "topics.stats",
        answers(Code.GET_TOPIC_STATS_INFO, text(rb'(?<="maxOffset":)\d+', lambda end: b"%d" % max(int(end[0]) - 1, 0))),
    ),
    "topics.not-registered": Row(
        "does not register new topics with the name server",
        "topics.route-follows",
        together(requests(CREATE, remembered), answers(Code.GET_ROUTEINFO_BY_TOPIC, no_route)),
    ),
    "paging.page-lost": Row("leaves topics out between two pages", "paging.topics", WITHOUT_NEW_ONES),
    "paging.first-page-again": Row(
        "sends the first page whatever page is asked for", "paging.topics", requests(ALL_TOPICS, first_page)
    ),
    "groups.setting-lost": Row(
        "stores a group with the usual attempts",
        "groups.all",
        requests(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, table(lambda group: group.update(retryMaxTimes=16))),
    ),
    "groups.delete-ignored": Row(
        "answers a delete and keeps the group", "groups.delete", requests(Code.DELETE_SUBSCRIPTIONGROUP, accepted)
    ),
    "runtime.figure-missing": Row(
        "leaves a figure out that tools read", "runtime.figures", answers(INFO, text(b'"getTotalTps"', b'"getAllTps"'))
    ),
    "runtime.puts-not-counted": Row(
        "does not count what is put", "runtime.counts", answers(INFO, text(rb'("putMessageTimesTotal":)"?\d+"?', rb'\1"7"'))
    ),
    "runtime.name-wrong": Row(
        "reports another broker's name in its configuration",
        "runtime.config.read",
        answers(Code.GET_BROKER_CONFIG, text(rb"(?m)^brokerName=.*$", b"brokerName=nobody")),
    ),
    "runtime.black-list-ignored": Row(
        "lets its paths be changed over the wire",
        "runtime.config.forbidden",
        answers(Code.UPDATE_BROKER_CONFIG, code(ResponseCode.SUCCESS)),
    ),
    "runtime.lag-wrong": Row(
        "reports the queue's end as the group's place",
        "runtime.consume-stats",
        answers(Code.GET_CONSUME_STATS, text(rb'"consumerOffset":\d+', b'"consumerOffset":3')),
    ),
}
