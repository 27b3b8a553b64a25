"""Defects of a name server: routes, expiry, lists, key-value table, configuration."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from conformance.controls.defect import wire
from conformance.controls.proxy import Seen, Step, answering
from conformance.controls.wire_clients import accepted, edit_json
from rmq_wire.codes import RequestCode as Code
from rmq_wire.codes import ResponseCode

ROUTE = (Code.GET_ROUTEINFO_BY_TOPIC,)
REGISTER = (Code.REGISTER_BROKER,)
ADDRESS_TABLE = re.compile(rb'("brokerAddrs":\{)([^}]*)(\})')


@wire(
    "names.unknown-topic-code",
    "answers 1 for a topic without a route",
    "names.route.unknown-topic",
    "grid.get-routeinfo-by-topic.unknown-topic",
    answers=ROUTE,
)
def unknown_topic(seen: Seen) -> None:
    """Instead of 17."""
    if seen.reply.code == ResponseCode.TOPIC_NOT_EXIST:
        seen.reply.code = ResponseCode.SYSTEM_ERROR


@wire(
    "names.never-expires",
    "keeps the routes of brokers that are gone",
    "names.gone.connection",
    "names.gone.unregister",
    answers=ROUTE,
)
def never_expires(seen: Seen) -> None:
    """The last route of a topic is told for ever."""
    topic = seen.request.ext.get("topic")
    if seen.reply.code == ResponseCode.SUCCESS:
        seen.state[topic] = seen.reply.body
    elif topic in seen.state:
        seen.reply.code, seen.reply.remark, seen.reply.body = ResponseCode.SUCCESS, None, seen.state[topic]


@wire("names.heartbeat-ignored", "drops brokers that send heartbeats", "names.stays.heartbeat", requests=(Code.BROKER_HEARTBEAT,))
def heartbeat_ignored(seen: Seen) -> Iterable[Step]:
    """Only registrations count."""
    return accepted(seen)


@wire("names.slave-missing", "tells clients of masters only", "names.register.slave", answers=ROUTE)
def slave_missing(seen: Seen) -> None:
    """The first address of each broker."""

    def master(found: re.Match[bytes]) -> bytes:
        return found[1] + found[2].split(b",")[0] + found[3]

    seen.reply.body = ADDRESS_TABLE.sub(master, seen.reply.body)


@wire("names.master-not-told", "does not tell a slave its master", "names.register.slave", answers=REGISTER)
def master_not_told(seen: Seen) -> None:
    """Neither address."""
    for name in ("masterAddr", "haServerAddr"):
        seen.reply.ext.pop(name, None)


@wire("names.queues-wrong", "tells another number of queues", "names.register.route", answers=ROUTE)
def queues_wrong(seen: Seen) -> None:
    """One more to read from."""
    seen.reply.body = re.sub(
        rb'"readQueueNums":(\d+)', lambda found: b'"readQueueNums":%d' % (int(found[1]) + 1), seen.reply.body
    )


@wire("names.keys-bare", "spells keys for new clients as for old ones", "names.route.keys-in-quotes", answers=ROUTE)
def keys_bare(seen: Seen) -> None:
    """Without quotes."""
    seen.reply.body = re.sub(rb'"(\d+)":', rb"\1:", seen.reply.body)


@wire("names.keys-quoted", "spells keys for old clients as for new ones", "names.route.bare-keys-for-old", answers=ROUTE)
def keys_quoted(seen: Seen) -> None:
    """In quotes."""
    seen.reply.body = re.sub(rb"([{,])(\d+):", rb'\1"\2":', seen.reply.body)


@wire(
    "names.registration-forgotten",
    "answers a registration and forgets it",
    "names.register.route",
    "names.register.increment",
    "names.register.unchecked-body",
    requests=REGISTER,
)
def registration_forgotten(seen: Seen) -> Iterable[Step]:
    """Nobody gets a route."""
    return accepted(seen)


@wire(
    "names.route-empty",
    "answers 0 and no route",
    "names.register.route",
    "names.register.increment",
    "names.register.unchecked-body",
    "names.topics.delete-in-cluster",
    answers=ROUTE,
)
def route_empty(seen: Seen) -> None:
    """A client cannot do anything with it."""
    seen.reply.code, seen.reply.body = ResponseCode.SUCCESS, b""


@wire("names.check-sum-ignored", "takes registrations whose body is broken", "names.register.broken-body", requests=REGISTER)
def check_sum_ignored(seen: Seen) -> None:
    """It does not look at bodyCrc32."""
    seen.request.ext["bodyCrc32"] = "0"


@wire("names.one-broker-only", "tells of one broker of a topic", "names.route.two-brokers", answers=ROUTE)
def one_broker(seen: Seen) -> None:
    """The first."""

    def first(route: Any) -> None:
        route["brokerDatas"] = route["brokerDatas"][:1]

    if seen.reply.body:
        seen.reply.body = edit_json(seen.reply.body, first)


@wire("names.zone-ignored", "tells clients of all zones", "names.zone.filter", requests=ROUTE)
def zone_ignored(seen: Seen) -> None:
    """It does not know the fields of zones."""
    for name in ("zoneMode", "zoneName", "__ZONE_MODE", "__ZONE_NAME"):
        seen.request.ext.pop(name, None)


@wire("names.value-cut", "cuts values at a semicolon", "names.kv.put-get-delete", requests=(Code.PUT_KV_CONFIG,))
def value_cut(seen: Seen) -> None:
    """Which order configurations have."""
    seen.request.ext["value"] = str(seen.request.ext.get("value", "")).partition(";")[0]


@wire(
    "names.deleted-key-stays", "answers a delete and keeps the key", "names.kv.put-get-delete", requests=(Code.DELETE_KV_CONFIG,)
)
def key_stays(seen: Seen) -> Iterable[Step]:
    """It can still be read."""
    return accepted(seen)


@wire(
    "names.write-perm-kept",
    "counts the topics and leaves their permission",
    "names.write-perm.wipe-and-add",
    requests=(Code.WIPE_WRITE_PERM_OF_BROKER,),
)
def write_perm_kept(seen: Seen) -> Iterable[Step]:
    """Three, as the case has."""
    return [answering(seen.request.answer(ext={"wipeTopicCount": "3"}))]


@wire(
    "names.list-lacks-one",
    "leaves one topic out of a cluster's list",
    "names.topics.lists",
    answers=(Code.GET_TOPICS_BY_CLUSTER,),
)
def list_lacks(seen: Seen) -> None:
    """The last."""
    if seen.reply.body:
        seen.reply.body = edit_json(seen.reply.body, lambda table: table.update(topicList=table.get("topicList", [])[:-1]))


@wire(
    "names.version-never-changes",
    "says that a broker's topics are known, always",
    "names.data-version.changed",
    answers=(Code.QUERY_DATA_VERSION,),
)
def never_changes(seen: Seen) -> None:
    """So they are never registered anew."""
    seen.reply.ext["changed"] = "false"


@wire(
    "names.delete-everywhere",
    "deletes a topic in all clusters",
    "names.topics.delete-in-cluster",
    requests=(Code.DELETE_TOPIC_IN_NAMESRV,),
)
def delete_everywhere(seen: Seen) -> None:
    """It does not look at the cluster."""
    seen.request.ext.pop("clusterName", None)


@wire(
    "names.deleted-topic-stays",
    "answers a delete and keeps the route",
    "names.topics.delete",
    requests=(Code.DELETE_TOPIC_IN_NAMESRV,),
)
def topic_stays(seen: Seen) -> Iterable[Step]:
    """Of every topic."""
    return accepted(seen)


@wire(
    "names.goodbye-ignored",
    "keeps the routes of a broker that unregisters",
    "names.gone.unregister",
    requests=(Code.UNREGISTER_BROKER,),
)
def goodbye_ignored(seen: Seen) -> Iterable[Step]:
    """Until it is silent for long enough."""
    return accepted(seen)


@wire(
    "names.cluster-without-addresses",
    "names brokers without their addresses",
    "names.brokers.cluster-info",
    answers=(Code.GET_BROKER_CLUSTER_INFO,),
)
def without_addresses(seen: Seen) -> None:
    """An empty table each."""
    seen.reply.body = ADDRESS_TABLE.sub(rb"\1\3", seen.reply.body)


@wire("names.config-unsorted", "lists its configuration in any order", "names.config.read", answers=(Code.GET_NAMESRV_CONFIG,))
def config_unsorted(seen: Seen) -> None:
    """From the last key to the first."""
    seen.reply.body = b"\n".join(reversed(seen.reply.body.rstrip().split(b"\n"))) + b"\n"


@wire(
    "names.black-list-ignored",
    "lets its paths be changed over the wire",
    "names.config.forbidden",
    answers=(Code.UPDATE_NAMESRV_CONFIG,),
)
def black_list(seen: Seen) -> None:
    """Only says so, here."""
    seen.reply.code = ResponseCode.SUCCESS
