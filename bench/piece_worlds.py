"""Servers with large tables, for what keeps others waiting (`bench.pieces`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

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
from rmq_wire.bodies.topics import TopicConfig
from rmq_wire.command import encode_request
from tests.support.driver import Driver
from tests.support.engine import broker_node

FRAME_BYTES: Final = (16 << 20) - 8192
"""Of a body: the rest of the largest frame is the header's."""
QUEUES: Final = 8
WALL_MS: Final = 1_700_000_000_000
KEYED_AT_ONCE: Final = 5_000
"""Messages of the large topic that one batch brings."""


class World(NamedTuple):
    """A server with `rows` rows in each table.  `frame_bytes`: of the largest bodies."""

    server: str
    engine: Engine
    tables: Any
    """The `NameServer` or the `BrokerNode`."""
    rows: int
    frame_bytes: int
    close: Callable[[], object]


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
    many = {name: TopicConfig(topic_name=name) for name in names_of("topic", rows)}
    for number, name in enumerate(names_of("broker", rows - rows // 5)):
        server.table.register(
            Registration("C", name, 0, f"10.0.0.1:{number}", None, many if number == 0 else wide, DataVersion(), link=number), 0
        )
    server.table.register(Registration("C", "broker-0000000", 1, "10.0.0.2:1", None, {}, DataVersion(), link="slave"), 0)
    for name in names_of("key", rows):
        server.kv.put("NS", name, "value")
        server.kv.put("ORDER_TOPIC_CONFIG", name, "broker-0000000:4")
    return World("namesrv", server.engine, server, rows, frame_bytes, lambda: None)


def broker(root: Path, rows: int, frame_bytes: int = FRAME_BYTES) -> World:
    """`rows` topics, `rows` groups; group G has progress in every topic, every group in the topic `shared`.

    Its queue 1 has `rows` messages of one key.  `rows` producers of 10 connections, and half as many connections in the groups G
    and P.
    """
    node = broker_node(
        Env(wall_ms=WALL_MS, mono_ms=1_000_000), root, mappedFileSizeCommitLog=16 << 20, enablePropertyFilter="true"
    )
    node.topics.put_all(
        [
            TopicConfig(topic_name=name, read_queue_nums=QUEUES, write_queue_nums=QUEUES)
            for name in ("shared", *names_of("topic", rows))
        ]
    )
    written(node.topics)
    node.topics.put(TopicConfig(topic_name="queues", read_queue_nums=16_384, write_queue_nums=16_384))
    node.groups.put_all([SubscriptionGroupConfig(group_name=name) for name in ("G", *names_of("group", rows))])
    written(node.groups)
    for name in names_of("topic", rows):
        for queue_id in range(QUEUES):
            node.offsets.commit("G", name, queue_id, 0)
    for name in names_of("group", rows):
        node.offsets.commit(name, "shared", 0, 0)
    asker = Driver(node.engine).connect()
    for begin in range(0, rows, KEYED_AT_ONCE):
        count = min(KEYED_AT_ONCE, rows - begin)
        asker.raw(batch((Item(0, b"x" * 20, _KEYED) for _ in range(count)), queue_id=1))
        assert asker.answers.pop(1).code == 0
    members = [_client(node.engine, number) for number in range(rows // 2)]
    for member in members:
        node.clients.register_consumer(member, ConsumerData(group_name="G"), notify=False)
        node.clients.register_producer("P", member)
    for number, name in enumerate(names_of("producer", rows)):
        for member in members[number % 10 :: len(members) // 10]:
            node.clients.register_producer(name, member)
    return World("broker", node.engine, node, rows, frame_bytes, node.close)


def written(table: PersistedTable) -> None:
    """As if its file had all that was put into it: what waits for the disk has an end."""
    table.encode()
    table.written()


def _client(engine: Engine, number: int) -> Client:
    peer = engine.opened(("127.0.0.1", number), ("127.0.0.1", 10_911), "main")
    assert peer is not None
    return Client(peer, f"client-{number}", 0, 513, engine.env)


def names_of(what: str, count: int) -> list[str]:
    return [f"{what}-{number:07}" for number in range(count)]


def request(code: int, body: bytes = b"", /, **ext: str) -> bytes:
    return encode_request(code, None, body, opaque=1, ext=ext, version=513)


_KEYED: Final = b"KEYS\1hot\2a\x010\2"


def sent(queue_id: int = 0, **more: str) -> dict[str, str]:
    """A send's header."""
    sent = {"a": "P", "b": "shared", "c": "TBW102", "d": "4", "e": str(queue_id), "f": "0", "g": "0", "h": "0"}
    return {**sent, **more}


def batch(items: Iterator[Item], queue_id: int = 0) -> bytes:
    return request(320, pack_items(items), **sent(queue_id, m="true"))
