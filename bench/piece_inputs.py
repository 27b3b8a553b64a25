"""What single codes get besides what every code gets (`bench.piece_cases`): that of which they make more than its header says."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator
from typing import Any, Final

from bench.piece_worlds import WALL_MS, World, batch, names_of, request, sent
from rmq_wire.batch import Item
from rmq_wire.bodies.groups import SubscriptionGroupConfig
from rmq_wire.bodies.registration import RegisterBrokerBody, write_compressed
from rmq_wire.bodies.topics import TopicConfig, TopicConfigTable
from rmq_wire.command import encode_request
from rmq_wire.sys_flag import TRANSACTION_COMMIT, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from tests.support.driver import Driver


def _registration(body: bytes, name: str = "unknown", **ext: str) -> bytes:
    named = {"brokerName": name, "brokerAddr": f"10.0.0.9:{name}", "clusterName": "C", "haServerAddr": "", "brokerId": "0"}
    return request(103, body, **{**named, "compressed": "false", "bodyCrc32": "0", **ext})


def _topic_rows(count: int) -> dict[str, Any]:
    return {name: TopicConfig(topic_name=name).plain() for name in names_of("new", count)}


def _registered(count: int, compressed: bool = False) -> bytes:
    if compressed:
        table = TopicConfigTable(topic_config_table={name: TopicConfig(topic_name=name) for name in names_of("new", count)})
        return write_compressed(RegisterBrokerBody(topic_config_serialize_wrapper=table))
    table_text = {"dataVersion": {"counter": 1, "timestamp": 1, "stateVersion": 0}, "topicConfigTable": _topic_rows(count)}
    return json.dumps({"topicConfigSerializeWrapper": table_text}, separators=(",", ":")).encode()


def _bomb(world: World) -> bytes:
    """Announces 2^31 - 1 topics and holds as many as 64 MiB of text hold, then breaks off."""
    piece = b"a 1 1 6 SINGLE_TAG"
    topic = len(piece).to_bytes(4, "big") + piece
    return zlib.compress(b"\0\0\0\2{}\x7f\xff\xff\xff" + topic * (4 * world.frame_bytes // len(topic)))


def _many(frames: Iterator[bytes]) -> bytes:
    return b"".join(frames)


def _unknown_keys(count: int) -> bytes:
    return b"".join(b"k%d=v\n" % number for number in range(count))


Data = Callable[[World], bytes]

NAMESRV: Final[dict[int, dict[str, Data]]] = {
    100: {
        "1,500 writes at once": lambda _: _many(
            request(100, namespace="NS", key=f"k{number}", value="v" * 20) for number in range(1_500)
        ),
    },
    102: {"1,500 deletes at once": lambda _: _many(request(102, namespace="NS", key=f"k{number}") for number in range(1_500))},
    103: {
        "all rows as topics": lambda world: _registration(_registered(world.rows)),
        "nine times as many topics": lambda world: _registration(_registered(9 * world.rows)),
        "nine times as many topics, and goes away": lambda world: _registration(_registered(9 * world.rows)),
        "ten times as many topics, compressed": lambda world: _registration(
            _registered(10 * world.rows, True), compressed="true"
        ),
        "a hundred times as many topics, compressed": lambda world: _registration(
            _registered(100 * world.rows, True), compressed="true"
        ),
        "a bomb": lambda world: _registration(_bomb(world), compressed="true"),
        "200 brokers on one connection, goes away": lambda world: _many(
            _registration(_registered(2), name=str(number)) for number in range(world.rows // 50)
        ),
    },
    105: {
        "over all brokers": lambda _: request(105, topic="wide"),
        "over all brokers, for 4.9": lambda _: encode_request(105, None, b"", opaque=1, ext={"topic": "wide"}, version=399),
        "over all brokers, near": lambda _: request(105, topic="wide", __ZONE_MODE="true", __ZONE_NAME="z"),
    },
    318: {
        "keys nobody knows": lambda _: request(318, _unknown_keys(6_000)),
        "more than there may be": lambda world: request(318, _unknown_keys(world.frame_bytes // 12)),
    },
}


def _heartbeat(groups: int, subscriptions: int) -> bytes:
    said = [{"topic": name, "subString": "*", "subVersion": 1} for name in names_of("topic", subscriptions)]
    consumers = [
        {"groupName": name, "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING", "subscriptionDataSet": said}
        for name in names_of("group", groups)
    ]
    body = {"clientID": "c", "consumerDataSet": consumers, "producerDataSet": [{"groupName": n} for n in names_of("P", groups)]}
    return json.dumps(body, separators=(",", ":")).encode()


_CROWD: Final = b'"consumerDataSet":[{"groupName":"G","subscriptionDataSet":[{"topic":"shared"}]}]'


def _locks(count: int) -> bytes:
    queues = [{"brokerName": "broker-a", "queueId": number, "topic": "queues"} for number in range(count)]
    return json.dumps({"clientId": "c", "consumerGroup": "G", "mqSet": queues}, separators=(",", ":")).encode()


def _topic_list(count: int) -> bytes:
    return json.dumps({"topicConfigList": list(_topic_rows(count).values())}, separators=(",", ":")).encode()


def _group_list(count: int) -> bytes:
    rows = [SubscriptionGroupConfig(group_name=name).plain() for name in names_of("new", count)]
    return json.dumps({"groupConfigList": rows}, separators=(",", ":")).encode()


_KEYS: Final = b"KEYS\1" + b"k " * 16_000
_UNIQUE: Final = b"UNIQ_KEY\x017F00000123456B884D571234567812AB\x02WAIT\x01true\x02"


def _pairs(count: int, **more: str) -> str:
    """That many properties, which a message still may have, and these."""
    return "".join(f"{name}\1{value}\2" for name, value in {**{f"p{number}": "v" for number in range(count)}, **more}.items())


def _half_ended(world: World, how: int) -> bytes:
    """The end of a half message that is put there first: as large as one may be."""
    asker = Driver(world.engine).connect()
    header = sent(f=str(TRANSACTION_PREPARED), i=_pairs(2_000, TRAN_MSG="true", PGROUP="P", UNIQ_KEY="A" * 32))
    asker.raw(encode_request(310, None, b"x" * (world.frame_bytes // 4), opaque=1, ext=header, version=513))
    answer = asker.answers.pop(1).ext_map()
    place = {"tranStateTableOffset": answer["queueOffset"], "commitLogOffset": str(int(answer["msgId"][16:], 16))}
    return request(37, producerGroup="P", commitOrRollback=str(how), msgId="A" * 32, **place)


def _selectors(groups: int, subscriptions: int, longest: bool) -> bytes:
    """A heartbeat of groups that filter by properties."""
    text = "a > 1" + (" OR a > 1" * _MORE_OPERANDS if longest else "")
    said = [{"topic": f"t{n}", "subString": text, "expressionType": "SQL92", "subVersion": 1} for n in range(subscriptions)]
    consumers = [{"groupName": name, "subscriptionDataSet": said} for name in names_of("sql", groups)]
    return json.dumps({"clientID": "c", "consumerDataSet": consumers}, separators=(",", ":")).encode()


_MORE_OPERANDS: Final = 498
"""Of `OR` in a selector: 1,995 tokens; more than 2,000 are refused unread."""


def _selector_pulls(code: int, count: int) -> bytes:
    """Pulls with the longest selectors, each another."""
    fields = {"consumerGroup": "G", "topic": "shared", "queueId": "1", "queueOffset": "0", "maxMsgNums": "32", "sysFlag": "4"}
    more = {"commitOffset": "0", "suspendTimeoutMillis": "0", "subVersion": "0", "expressionType": "SQL92"}
    return _many(
        request(code, **fields, **more, subscription=f"n{code}{number} > 0" + " OR a > 1" * _MORE_OPERANDS)
        for number in range(count)
    )


def _check(count: int) -> bytes:
    said = {"topic": "shared", "subString": "n > 0" + " OR a > 1" * count, "expressionType": "SQL92"}
    return json.dumps({"clientId": "c", "group": "G", "subscriptionData": said}).encode()


BROKER: Final[dict[int, dict[str, Data]]] = {
    12: {
        "20 queries for what everybody has": lambda _: _many(
            request(12, topic="shared", key="hot", maxNum="64", beginTimestamp="0", endTimestamp=str(1 << 62)) for _ in range(20)
        ),
        "20 queries for what nobody has": lambda _: _many(
            request(12, topic="shared", key="not", maxNum="64", beginTimestamp="0", endTimestamp=str(1 << 62)) for _ in range(20)
        ),
    },
    29: {"of one moment": lambda _: request(29, topic="shared", queueId="1", timestamp=str(WALL_MS))},
    33: {"the first": lambda _: request(33, offset="0")},
    36: {"the first": lambda _: request(36, offset="0", group="G", delayLevel="0", originTopic="shared", originMsgId="x")},
    37: {
        "the largest is committed": lambda world: _half_ended(world, TRANSACTION_COMMIT),
        "the largest is rolled back": lambda world: _half_ended(world, TRANSACTION_ROLLBACK),
    },
    303: {"all queues": lambda _: request(303, topic="queues", group="G")},
    310: {
        "4 MiB and 2,000 properties": lambda world: request(310, b"x" * (world.frame_bytes // 4), **sent(i=_pairs(2_000))),
        "4 MiB for later": lambda world: request(310, b"x" * (world.frame_bytes // 4), **sent(i=_pairs(2_000, DELAY="3"))),
        "4 MiB for a time": lambda world: request(
            310, b"x" * (world.frame_bytes // 4), **sent(i=_pairs(2_000, TIMER_DELAY_SEC="60"))
        ),
    },
    325: {
        "4 MiB and 2,000 properties": lambda world: request(
            325, b"x" * (world.frame_bytes // 4), **sent(i=_pairs(2_000, REPLY_TO_CLIENT="client-3"))
        ),
        "to nobody": lambda world: request(325, b"x" * (world.frame_bytes // 4), **sent(i=_pairs(2_000, REPLY_TO_CLIENT="no"))),
    },
    11: {"20 of the longest selectors": lambda _: _selector_pulls(11, 20)},
    361: {"20 of the longest selectors": lambda _: _selector_pulls(361, 20)},
    46: {"the longest selector": lambda _: request(46, _check(_MORE_OPERANDS))},
    222: {"all queues": lambda _: request(222, topic="queues", group="G", timestamp="0", isForce="true")},
    314: {"all topics": lambda _: request(314, srcGroup="G", destGroup="group-0000001", topic="", offline="false")},
    321: {"65,536 entries": lambda _: request(321, topic="shared", queueId="0", index="0", count="65536", consumerGroup="G")},
    345: {"a group": lambda _: request(345, group="G", topic="shared")},
    308: {"all topics": lambda _: request(308, filterGroups="", compareGroup="G", topic="shared")},
    5001: {"a topic": lambda _: request(5001, topic="queues")},
    18: {"2,000 topics": lambda world: request(18, _topic_list(min(2_000, world.rows)))},
    25: {
        "keys nobody knows": lambda _: request(25, _unknown_keys(6_000)),
        "more than there may be": lambda _: request(25, _unknown_keys(100_000)),
    },
    34: {
        "1,536 groups": lambda world: request(34, _heartbeat(min(1_536, world.rows), 1)),
        "4,096 subscriptions": lambda world: request(34, _heartbeat(1, min(4_096, world.rows))),
        "200 groups of 200 subscriptions": lambda world: request(34, _heartbeat(200, 200)),
        "1,200 groups in ordinals": lambda _: request(34, _heartbeat(1_200, 1).replace(b'"CLUSTERING"', b"1")),
        "1,536 groups, goes away": lambda world: request(34, _heartbeat(min(1_536, world.rows), 1)),
        "1,000 groups with selectors": lambda world: request(34, _selectors(min(1_000, world.rows), 1, False)),
        "200 of the longest selectors": lambda _: request(34, _selectors(1, 200, True)),
        "into a crowd": lambda _: request(34, _heartbeat(0, 1).replace(b'"consumerDataSet":[]', _CROWD)),
        "into a crowd, goes away": lambda _: request(34, _heartbeat(0, 1).replace(b'"consumerDataSet":[]', _CROWD)),
    },
    41: {
        "16,384 queues": lambda world: request(41, _locks(min(16_384, 2 * world.rows))),
        "ten times as many": lambda world: request(41, _locks(min(163_840, 20 * world.rows))),
    },
    42: {"16,384 queues": lambda world: request(42, _locks(min(16_384, 2 * world.rows)))},
    200: {"one": lambda _: request(200, json.dumps(SubscriptionGroupConfig(group_name="one").plain()).encode())},
    202: {"16,384 queues": lambda _: request(202, topic="queues")},
    208: {
        "all topics": lambda _: request(208, consumerGroup="G", topic=""),
        "as many as a header holds": lambda world: request(
            208, consumerGroup="G", topic="", topicList=";".join(f"t{number}" for number in range(12 * world.rows))
        ),
    },
    225: {"2,000 groups": lambda world: request(225, _group_list(min(2_000, world.rows)))},
    300: {"all groups": lambda _: request(300, topic="shared")},
    320: {
        "as many as 4 MiB hold": lambda world: batch(Item(0, b"x", _UNIQUE) for _ in range(min(55_000, 6 * world.rows))),
        "70,000 messages": lambda world: batch(Item(0, b"", b"") for _ in range(min(70_000, 7 * world.rows))),
        "4 MiB of keys": lambda world: batch(Item(0, b"", b"KEYS\1" + b"k " * 16_000) for _ in range(min(130, world.rows // 50))),
    },
    317: {"all groups": lambda _: request(317, isOrder="false")},
    343: {"all topics": lambda _: request(343, group="G")},
    215: {"one of many": lambda _: request(215, topic="topic-0000000")},
    207: {"with progress everywhere": lambda _: request(207, groupName="G", cleanOffset="true")},
}

REFUSED: Final[dict[tuple[int, str], int | None]] = {
    (11, "20 of the longest selectors"): 20,  # none of so many matched: the client goes on
    (12, "20 queries for what nobody has"): 22,
    (25, "more than there may be"): 1,
    (34, "200 groups of 200 subscriptions"): 1,
    (41, "ten times as many"): 1,
    (103, "a bomb"): 1,
    (103, "a hundred times as many topics, compressed"): 1,
    (318, "more than there may be"): 1,
    (317, "all groups"): None,  # it fills a frame, unless somebody subscribes otherwise
    (320, "70,000 messages"): 13,
    (325, "4 MiB and 2,000 properties"): None,  # it waits for the requester
    (325, "to nobody"): 1,
    (361, "20 of the longest selectors"): 20,
    (5001, "a topic"): 29,
}
"""The code of the answer to those that are illegal; all others get 0, or are worth nothing."""
