"""Servers with large tables, and the largest that can be asked of them, code by code (`bench.pieces` measures, tests count).

Every code gets its real question about the largest rows there are, a header that is as large as one may be, and bodies of the
largest frame that no reader wants.  What a code makes more of than its header says stands in `_NAMESRV` and `_BROKER`.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from broker_impl.engine.answers import Row
from broker_impl.engine.body_limits import BODY_BYTES_MAX
from broker_impl.engine.engine import Engine
from broker_impl.env import Env
from broker_impl.namesrv.config import NamesrvConfig
from broker_impl.namesrv.registrations import Registration
from broker_impl.namesrv.server import create_name_server
from broker_impl.state.consumer_group import Client
from broker_impl.state.persisted import PersistedTable
from rmq_wire.batch import Item, pack_items
from rmq_wire.bodies.data_version import DataVersion
from rmq_wire.bodies.groups import SubscriptionGroupConfig
from rmq_wire.bodies.heartbeat import ConsumerData
from rmq_wire.bodies.registration import RegisterBrokerBody, write_compressed
from rmq_wire.bodies.topics import TopicConfig, TopicConfigTable
from rmq_wire.command import encode_request
from tests.support.engine import broker_node

FRAME_BYTES: Final = (16 << 20) - 8192
"""Of a body: the rest of the largest frame is the header's."""
HEADER_BYTES: Final = (1 << 20) - 4096
QUEUES: Final = 8
WALL_MS: Final = 1_700_000_000_000


class World(NamedTuple):
    """A server with `rows` rows in each table.  `frame_bytes`: of the largest bodies."""

    server: str
    engine: Engine
    tables: Any
    """The `NameServer` or the `BrokerNode`."""
    rows: int
    frame_bytes: int
    close: Callable[[], object]

    def cases(self) -> Iterator[Case]:
        """Every code's, what changes tables last."""
        rows = sorted(self.engine._rows.items())
        own = _NAMESRV if self.server == "namesrv" else _BROKER
        for code, row in sorted(rows, key=lambda item: item[0] in _REMOVING):
            yield from _generic(self.server, code, row)
        for code, _row in rows:
            for what, data in own.get(code, {}).items():
                yield Case(self.server, code, what, data, hangs_up=what.endswith("goes away"))


class Case(NamedTuple):
    """`data(world)`: the bytes to send.  `hangs_up`: what is measured is the end of the connection after them."""

    server: str
    code: int
    what: str
    data: Callable[[World], bytes]
    hangs_up: bool = False


def worlds(scratch: Path, rows: int, only: str | None = None, frame_bytes: int = FRAME_BYTES) -> Iterator[World]:
    """The two servers, one after the other."""
    if only != "broker":
        yield name_server(scratch / "names", rows, frame_bytes)
    if only != "namesrv":
        yield broker(scratch / "broker", rows, frame_bytes)


def name_server(root: Path, rows: int, frame_bytes: int = FRAME_BYTES) -> World:
    """Four fifths of `rows` brokers that share the topic `wide`, `rows` topics of one broker, `rows` key-value entries."""
    config = NamesrvConfig({}, user_home=str(root), rocketmq_home=str(root))
    server = create_name_server(Env(wall_ms=WALL_MS, mono_ms=1_000_000), config)
    wide = {"wide": TopicConfig(topic_name="wide"), "wide2": TopicConfig(topic_name="wide2")}
    many = {name: TopicConfig(topic_name=name) for name in _names("topic", rows)}
    for number, name in enumerate(_names("broker", rows - rows // 5)):
        server.table.register(
            Registration("C", name, 0, f"10.0.0.1:{number}", None, many if number == 0 else wide, DataVersion(), link=number), 0
        )
    server.table.register(Registration("C", "broker-0000000", 1, "10.0.0.2:1", None, {}, DataVersion(), link="slave"), 0)
    for name in _names("key", rows):
        server.kv.put("NS", name, "value")
        server.kv.put("ORDER_TOPIC_CONFIG", name, "broker-0000000:4")
    return World("namesrv", server.engine, server, rows, frame_bytes, lambda: None)


def broker(root: Path, rows: int, frame_bytes: int = FRAME_BYTES) -> World:
    """`rows` topics, `rows` groups; group G has progress in every topic, every group in the topic `shared`.

    `rows` producers of 10 connections, and half as many connections in the groups G and P.
    """
    node = broker_node(Env(wall_ms=WALL_MS, mono_ms=1_000_000), root, mappedFileSizeCommitLog=16 << 20)
    node.topics.put_all(
        [
            TopicConfig(topic_name=name, read_queue_nums=QUEUES, write_queue_nums=QUEUES)
            for name in ("shared", *_names("topic", rows))
        ]
    )
    _written(node.topics)
    node.topics.put(TopicConfig(topic_name="queues", read_queue_nums=16_384, write_queue_nums=16_384))
    node.groups.put_all([SubscriptionGroupConfig(group_name=name) for name in ("G", *_names("group", rows))])
    _written(node.groups)
    for name in _names("topic", rows):
        for queue_id in range(QUEUES):
            node.offsets.commit("G", name, queue_id, 0)
    for name in _names("group", rows):
        node.offsets.commit(name, "shared", 0, 0)
    members = [_client(node.engine, number) for number in range(rows // 2)]
    for member in members:
        node.clients.register_consumer(member, ConsumerData(group_name="G"), notify=False)
        node.clients.register_producer("P", member)
    for number, name in enumerate(_names("producer", rows)):
        for member in members[number % 10 :: len(members) // 10]:
            node.clients.register_producer(name, member)
    return World("broker", node.engine, node, rows, frame_bytes, node.close)


def _written(table: PersistedTable) -> None:
    """As if its file had all that was put into it: what waits for the disk has an end."""
    table.encode()
    table.written()


def _client(engine: Engine, number: int) -> Client:
    peer = engine.opened(("127.0.0.1", number), ("127.0.0.1", 10_911), "main")
    assert peer is not None
    return Client(peer, f"client-{number}", 0, 513, engine.env)


def _names(what: str, count: int) -> list[str]:
    return [f"{what}-{number:07}" for number in range(count)]


_REMOVING: Final = frozenset((102, 104, 205, 207, 215, 216, 306, 316))
"""Codes whose real question takes away what others ask for."""


# What every code gets

_TEXTS: Final = {
    "topic": "wide",
    "namespace": "NS",
    "brokerName": "broker-0000000",
    "clusterName": "C",
    "cluster": "C",
    "brokerAddr": "10.0.0.1:0",
    "consumerGroup": "G",
    "group": "G",
    "producerGroup": "P",
}


def _fields(row: Row, text: Callable[[str], str]) -> dict[str, str]:
    values = {int: "0", bool: "false"}
    return {field.wire: values.get(field.kind) or text(field.wire) for field in row.request.fields()}


def _asked(code: int, row: Row, world: World, body: bytes = b"", **more: str) -> bytes:
    ext = {**_fields(row, lambda name: _TEXTS.get(name, "x")), **more}
    if world.server == "broker" and ext.get("topic") == "wide":
        ext["topic"] = "shared"
    return encode_request(code, None, body, opaque=1, ext=ext, version=513)


def _generic(server: str, code: int, row: Row) -> Iterator[Case]:
    texts = [field for field in row.request.fields() if field.kind is str]
    yield Case(server, code, "the real question", lambda world: _asked(code, row, world))
    if texts:
        share = HEADER_BYTES // len(texts)
        for what, letter in (("of letters", "a"), ("of escapes", "\x01"), ("of separators", ";")):
            size = share // (6 if letter == "\x01" else 1)
            yield Case(
                server, code, f"a header of 1 MiB {what}", lambda world, letter=letter, size=size: _huge(code, row, letter, size)
            )  # type: ignore[misc]
    if code in BODY_BYTES_MAX:
        most = BODY_BYTES_MAX[code]
        yield Case(server, code, "a body at its limit: rows", lambda world: _asked(code, row, world, _at_its_limit(code)))
        for what, piece in _JUNK.items():
            junk = piece * (most // len(piece))
            yield Case(server, code, f"a body at its limit: {what}", lambda world, junk=junk: _asked(code, row, world, junk))  # type: ignore[misc]
    for what, piece in _JUNK.items():
        yield Case(
            server, code, f"a body of 16 MiB: {what}", lambda world, piece=piece: _asked(code, row, world, _filled(world, piece))
        )  # type: ignore[misc]


_JUNK: Final = {"zeros": b"\0", "open brackets": b"[", "objects": b'[{"a":{}},', "odd keys": b"{1:2,", "text": b'"a=b\\n'}


_SMALLEST: Final = {
    18: (b'{"topicConfigList":[', b'{"topicName":"a"}', b"]}"),
    34: (b'{"clientID":"c","consumerDataSet":[{"groupName":"g","subscriptionDataSet":[', b'{"topic":"a"}', b"]}]}"),
    41: (b'{"consumerGroup":"G","mqSet":[', b'{"topic":"a","queueId":1}', b"]}"),
    42: (b'{"consumerGroup":"G","mqSet":[', b'{"topic":"a","queueId":1}', b"]}"),
    217: (b'{"queueDatas":[', b'{"brokerName":"broker-0000001"}', b"]}"),
    225: (b'{"groupConfigList":[', b'{"groupName":"a"}', b"]}"),
}
"""Bodies of as many rows as there is room for: beginning, row, end."""


def _filled(world: World, piece: bytes) -> bytes:
    return piece * (world.frame_bytes // len(piece))


def _at_its_limit(code: int) -> bytes:
    begin, row, end = _SMALLEST[code]
    return begin + b",".join([row] * ((BODY_BYTES_MAX[code] - len(begin + end)) // (len(row) + 1))) + end


def _huge(code: int, row: Row, letter: str, size: int) -> bytes:
    return encode_request(code, None, b"", opaque=1, ext=_fields(row, lambda _: letter * size), version=513)


# What single codes get besides


def _request(code: int, body: bytes = b"", /, **ext: str) -> bytes:
    return encode_request(code, None, body, opaque=1, ext=ext, version=513)


def _registration(body: bytes, name: str = "unknown", **ext: str) -> bytes:
    named = {"brokerName": name, "brokerAddr": f"10.0.0.9:{name}", "clusterName": "C", "haServerAddr": "", "brokerId": "0"}
    return _request(103, body, **{**named, "compressed": "false", "bodyCrc32": "0", **ext})


def _topic_rows(count: int) -> dict[str, Any]:
    return {name: TopicConfig(topic_name=name).plain() for name in _names("new", count)}


def _registered(count: int, compressed: bool = False) -> bytes:
    if compressed:
        table = TopicConfigTable(topic_config_table={name: TopicConfig(topic_name=name) for name in _names("new", count)})
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


Data = Callable[[World], bytes]

_NAMESRV: Final[dict[int, dict[str, Data]]] = {
    100: {
        "1,500 writes at once": lambda _: _many(
            _request(100, namespace="NS", key=f"k{number}", value="v" * 20) for number in range(1_500)
        ),
    },
    102: {"1,500 deletes at once": lambda _: _many(_request(102, namespace="NS", key=f"k{number}") for number in range(1_500))},
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
        "over all brokers": lambda _: _request(105, topic="wide"),
        "over all brokers, for 4.9": lambda _: encode_request(105, None, b"", opaque=1, ext={"topic": "wide"}, version=399),
        "over all brokers, near": lambda _: _request(105, topic="wide", __ZONE_MODE="true", __ZONE_NAME="z"),
    },
    318: {
        "keys nobody knows": lambda world: _request(
            318, b"".join(b"k%d=v\n" % number for number in range(world.frame_bytes // 12))
        ),
    },
}


def _heartbeat(groups: int, subscriptions: int) -> bytes:
    said = [{"topic": name, "subString": "*", "subVersion": 1} for name in _names("topic", subscriptions)]
    consumers = [
        {"groupName": name, "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING", "subscriptionDataSet": said}
        for name in _names("group", groups)
    ]
    body = {"clientID": "c", "consumerDataSet": consumers, "producerDataSet": [{"groupName": n} for n in _names("P", groups)]}
    return json.dumps(body, separators=(",", ":")).encode()


_CROWD: Final = b'"consumerDataSet":[{"groupName":"G","subscriptionDataSet":[{"topic":"shared"}]}]'


def _locks(count: int) -> bytes:
    queues = [{"brokerName": "broker-a", "queueId": number, "topic": "queues"} for number in range(count)]
    return json.dumps({"clientId": "c", "consumerGroup": "G", "mqSet": queues}, separators=(",", ":")).encode()


def _topic_list(count: int) -> bytes:
    return json.dumps({"topicConfigList": list(_topic_rows(count).values())}, separators=(",", ":")).encode()


def _group_list(count: int) -> bytes:
    rows = [SubscriptionGroupConfig(group_name=name).plain() for name in _names("new", count)]
    return json.dumps({"groupConfigList": rows}, separators=(",", ":")).encode()


_KEYS: Final = b"KEYS\1" + b"k " * 16_000
_UNIQUE: Final = b"UNIQ_KEY\x017F00000123456B884D571234567812AB\x02WAIT\x01true\x02"


def _batch(items: Iterator[Item]) -> bytes:
    sent = {"a": "P", "b": "shared", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "0", "h": "0", "m": "true"}
    return _request(320, pack_items(items), **sent)


def _selector_pulls(code: int, count: int) -> bytes:
    """Pulls with the longest selectors, each another."""
    fields = {"consumerGroup": "G", "topic": "shared", "queueId": "0", "queueOffset": "0", "maxMsgNums": "32", "sysFlag": "4"}
    more = {"commitOffset": "0", "suspendTimeoutMillis": "0", "subVersion": "0", "expressionType": "SQL92"}
    return _many(
        _request(code, **fields, **more, subscription=f"n{code}{number} > 0" + " OR a > 1" * 660) for number in range(count)
    )


def _check(count: int) -> bytes:
    said = {"topic": "shared", "subString": "n > 0" + " OR a > 1" * count, "expressionType": "SQL92"}
    return json.dumps({"clientId": "c", "group": "G", "subscriptionData": said}).encode()


_BROKER: Final[dict[int, dict[str, Data]]] = {
    11: {"20 of the longest selectors": lambda _: _selector_pulls(11, 20)},
    361: {"20 of the longest selectors": lambda _: _selector_pulls(361, 20)},
    46: {"the longest selector": lambda _: _request(46, _check(660))},
    222: {"all queues": lambda _: _request(222, topic="queues", group="G", timestamp="0", isForce="true")},
    314: {"all topics": lambda _: _request(314, srcGroup="G", destGroup="group-0000001", topic="", offline="false")},
    321: {"65,536 entries": lambda _: _request(321, topic="shared", queueId="0", index="0", count="65536", consumerGroup="G")},
    345: {"a group": lambda _: _request(345, group="G", topic="shared")},
    308: {"all topics": lambda _: _request(308, filterGroups="", compareGroup="G", topic="shared")},
    5001: {"a topic": lambda _: _request(5001, topic="queues")},
    18: {"2,000 topics": lambda world: _request(18, _topic_list(min(2_000, world.rows)))},
    25: {"keys nobody knows": lambda world: _request(25, b"".join(b"k%d=v\n" % number for number in range(100_000)))},
    34: {
        "1,536 groups": lambda world: _request(34, _heartbeat(min(1_536, world.rows), 1)),
        "4,096 subscriptions": lambda world: _request(34, _heartbeat(1, min(4_096, world.rows))),
        "200 groups of 200 subscriptions": lambda world: _request(34, _heartbeat(200, 200)),
        "1,200 groups in ordinals": lambda _: _request(34, _heartbeat(1_200, 1).replace(b'"CLUSTERING"', b"1")),
        "1,536 groups, goes away": lambda world: _request(34, _heartbeat(min(1_536, world.rows), 1)),
        "into a crowd": lambda _: _request(34, _heartbeat(0, 1).replace(b'"consumerDataSet":[]', _CROWD)),
        "into a crowd, goes away": lambda _: _request(34, _heartbeat(0, 1).replace(b'"consumerDataSet":[]', _CROWD)),
    },
    41: {
        "16,384 queues": lambda world: _request(41, _locks(min(16_384, 2 * world.rows))),
        "ten times as many": lambda world: _request(41, _locks(min(163_840, 20 * world.rows))),
    },
    42: {"16,384 queues": lambda world: _request(42, _locks(min(16_384, 2 * world.rows)))},
    200: {"one": lambda _: _request(200, json.dumps(SubscriptionGroupConfig(group_name="one").plain()).encode())},
    202: {"16,384 queues": lambda _: _request(202, topic="queues")},
    208: {"all topics": lambda _: _request(208, consumerGroup="G", topic="")},
    225: {"2,000 groups": lambda world: _request(225, _group_list(min(2_000, world.rows)))},
    300: {"all groups": lambda _: _request(300, topic="shared")},
    320: {
        "as many as 4 MiB hold": lambda world: _batch(Item(0, b"x", _UNIQUE) for _ in range(min(55_000, 6 * world.rows))),
        "70,000 messages": lambda world: _batch(Item(0, b"", b"") for _ in range(min(70_000, 7 * world.rows))),
        "4 MiB of keys": lambda world: _batch(
            Item(0, b"", b"KEYS\1" + b"k " * 16_000) for _ in range(min(130, world.rows // 50))
        ),
    },
    317: {"all groups": lambda _: _request(317, isOrder="false")},
    343: {"all topics": lambda _: _request(343, group="G")},
    215: {"one of many": lambda _: _request(215, topic="topic-0000000")},
    207: {"with progress everywhere": lambda _: _request(207, groupName="G", cleanOffset="true")},
}
