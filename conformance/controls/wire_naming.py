"""Defects of a name server: routes, expiry, lists, key-value table, configuration."""

from __future__ import annotations

import re
from typing import Final

from conformance.controls.defect import Row
from conformance.controls.edits import accepted, answered, answers, code, constant, gone, of, requests, table, text
from conformance.controls.proxy import Seen
from rmq_wire.codes import RequestCode as Code
from rmq_wire.codes import ResponseCode

ROUTE: Final = Code.GET_ROUTEINFO_BY_TOPIC
REGISTER: Final = Code.REGISTER_BROKER
DELETE: Final = Code.DELETE_TOPIC_IN_NAMESRV
ADDRESSES: Final = re.compile(rb'(?<="brokerAddrs":\{)[^}]*(?=\})')
"""What the table of a broker's addresses holds."""


def never_expires(seen: Seen) -> None:
    """The last route of a topic is answered for ever."""
    topic = seen.request.ext.get("topic")
    if seen.reply.code == ResponseCode.SUCCESS:
        seen.state[topic] = seen.reply.body
    elif topic in seen.state:
        seen.reply.code, seen.reply.remark, seen.reply.body = ResponseCode.SUCCESS, None, seen.state[topic]


def value_cut(seen: Seen) -> None:
    """Which order configurations have."""
    seen.request.ext["value"] = str(seen.request.ext.get("value", "")).partition(";")[0]


def unsorted(seen: Seen) -> None:
    """From the last key to the first."""
    seen.reply.body = b"\n".join(reversed(seen.reply.body.rstrip().split(b"\n"))) + b"\n"


DEFECTS: Final = {
    "names.unknown-topic-code": Row(
        "answers 1 for a topic without a route",
        "names.route.unknown-topic grid.get-routeinfo-by-topic.unknown-topic",
        answers(ROUTE, of(ResponseCode.TOPIC_NOT_EXIST, code(ResponseCode.SYSTEM_ERROR))),
    ),
    "names.never-expires": Row(
        "keeps the routes of brokers that are gone", "names.gone.connection names.gone.unregister", answers(ROUTE, never_expires)
    ),
    "names.heartbeat-ignored": Row(
        "drops brokers that send heartbeats", "names.stays.heartbeat", requests(Code.BROKER_HEARTBEAT, accepted)
    ),
    "names.slave-missing": Row(
        "shows clients masters only",
        "names.register.slave",
        answers(ROUTE, text(ADDRESSES, lambda table: table[0].split(b",")[0])),
    ),
    "names.master-not-told": Row(
        "does not answer a slave its master", "names.register.slave", answers(REGISTER, gone("masterAddr", "haServerAddr"))
    ),
    "names.queues-wrong": Row(
        "answers another number of queues",
        "names.register.route",
        answers(ROUTE, text(rb'(?<="readQueueNums":)\d+', lambda count: b"%d" % (int(count[0]) + 1))),
    ),
    "names.keys-bare": Row(
        "spells keys for new clients as for old ones", "names.route.keys-in-quotes", answers(ROUTE, text(rb'"(\d+)":', rb"\1:"))
    ),
    "names.keys-quoted": Row(
        "spells keys for old clients as for new ones",
        "names.route.bare-keys-for-old",
        answers(ROUTE, text(rb"([{,])(\d+):", rb'\1"\2":')),
    ),
    "names.registration-forgotten": Row(
        "answers a registration and forgets it",
        "names.register.route names.register.increment names.register.unchecked-body",
        requests(REGISTER, accepted),
    ),
    "names.route-empty": Row(
        "answers 0 and no route",
        "names.register.route names.register.increment names.register.unchecked-body names.topics.delete-in-cluster",
        answers(ROUTE, code(ResponseCode.SUCCESS, body=b"")),
    ),
    "names.check-sum-ignored": Row(
        "takes registrations whose body is broken", "names.register.broken-body", requests(REGISTER, constant(bodyCrc32="0"))
    ),
    "names.one-broker-only": Row(
        "names one broker of a topic",
        "names.route.two-brokers",
        answers(ROUTE, table(lambda route: route.update(brokerDatas=route["brokerDatas"][:1]))),
    ),
    "names.zone-ignored": Row(
        "shows clients all zones",
        "names.zone.filter",
        requests(ROUTE, gone("zoneMode", "zoneName", "__ZONE_MODE", "__ZONE_NAME")),
    ),
    "names.value-cut": Row("cuts values at a semicolon", "names.kv.put-get-delete", requests(Code.PUT_KV_CONFIG, value_cut)),
    "names.deleted-key-stays": Row(
        "answers a delete and keeps the key", "names.kv.put-get-delete", requests(Code.DELETE_KV_CONFIG, accepted)
    ),
    "names.write-perm-kept": Row(
        "counts the topics and leaves their permission",
        "names.write-perm.wipe-and-add",
        requests(Code.WIPE_WRITE_PERM_OF_BROKER, answered(wipeTopicCount="3")),
    ),
    "names.list-lacks-one": Row(
        "leaves one topic out of a cluster's list",
        "names.topics.lists",
        answers(Code.GET_TOPICS_BY_CLUSTER, table(lambda found: found.update(topicList=found.get("topicList", [])[:-1]))),
    ),
    "names.version-never-changes": Row(
        "says that a broker's topics are known, always",
        "names.data-version.changed",
        answers(Code.QUERY_DATA_VERSION, constant(changed="false")),
    ),
    "names.delete-everywhere": Row(
        "deletes a topic in all clusters", "names.topics.delete-in-cluster", requests(DELETE, gone("clusterName"))
    ),
    "names.deleted-topic-stays": Row("answers a delete and keeps the route", "names.topics.delete", requests(DELETE, accepted)),
    "names.goodbye-ignored": Row(
        "keeps the routes of a broker that unregisters", "names.gone.unregister", requests(Code.UNREGISTER_BROKER, accepted)
    ),
    "names.cluster-without-addresses": Row(
        "names brokers without their addresses",
        "names.brokers.cluster-info",
        answers(Code.GET_BROKER_CLUSTER_INFO, text(ADDRESSES, b"")),
    ),
    "names.config-unsorted": Row(
        "lists its configuration in any order", "names.config.read", answers(Code.GET_NAMESRV_CONFIG, unsorted)
    ),
    "names.black-list-ignored": Row(
        "lets its paths be changed over the wire",
        "names.config.forbidden",
        answers(Code.UPDATE_NAMESRV_CONFIG, code(ResponseCode.SUCCESS)),
    ),
}
