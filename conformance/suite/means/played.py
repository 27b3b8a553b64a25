"""A broker that a case plays towards a name server, and what the name server then answers.

An address nobody listens on, a cluster of its own; it is there as long as its connection is.
"""

from __future__ import annotations

import itertools
import secrets
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

from conformance.suite.case import Need
from conformance.suite.link import Answer, Link
from conformance.suite.trial import READ_WRITE, Trial
from rmq_wire.bodies.data_version import DataVersion
from rmq_wire.bodies.registration import RegisterBrokerBody, write_compressed
from rmq_wire.bodies.route import TopicQueueMappingInfo, TopicRouteData
from rmq_wire.bodies.topics import TopicConfig, TopicConfigTable
from rmq_wire.codes import ResponseCode
from rmq_wire.headers import naming

OWN = (Need.NAMESRV,)
V4_9_3 = 399
"""The last version that does not understand map keys in quotes."""
EXPIRY_S = 20.0
"""The shortest time-out that a case asks for, plus a scan every 5 s (10 s in 4.x), plus a busy machine."""

_NUMBERS: Final = itertools.count(secrets.randbelow(1 << 22))
"""Each played broker has an address of its own: a name server of 4.x knows brokers by that alone."""


class Broker:
    """A broker that a case plays: an address nobody listens on, and what it says of itself."""

    def __init__(self, t: Trial, *, name: str = "", cluster: str = "", id: int = 0) -> None:
        self.t = t
        self.link = t.connect(t.target.namesrv)
        self.name = name or t.name("b")
        self.cluster = cluster or t.name("c")
        self.id = id
        number = next(_NUMBERS)
        self.address = f"127.{9 + (number >> 16)}.{number >> 8 & 255}.{number & 255}:10911"
        self.version = DataVersion(state_version=0, timestamp=1_700_000_000_000, counter=1)

    @property
    def who(self) -> dict[str, Any]:
        """The fields by which every request names a broker."""
        return {"broker_name": self.name, "broker_addr": self.address, "cluster_name": self.cluster, "broker_id": self.id}

    async def register(
        self,
        *topics: TopicConfig,
        compressed: bool = False,
        crc: int | None = None,
        mappings: Mapping[str, TopicQueueMappingInfo] | None = None,
        filter_servers: Sequence[str] = (),
        **fields: Any,
    ) -> Answer:
        """Register (103) with these topics, mappings of static ones and filter servers, not judged.  fields: of the header."""
        table = TopicConfigTable(data_version=self.version, topic_config_table={topic.topic_name: topic for topic in topics})
        if mappings:
            table.topic_queue_mapping_info_map = {name: mapping.plain() for name, mapping in mappings.items()}
        registration = RegisterBrokerBody(filter_server_list=list(filter_servers), topic_config_serialize_wrapper=table)
        body = write_compressed(registration) if compressed else registration.encode()
        asked = naming.RegisterBroker(
            **self.who,
            ha_server_addr=self.address.replace("10911", "10912"),
            compressed=compressed,
            body_crc32=zlib.crc32(body) & 0x7FFFFFFF if crc is None else crc,
            **fields,
        )
        return await self.link.ask(asked, body)


def topic_of(name: str, queues: int = 4, *, perm: int = READ_WRITE, flag: int = 0) -> TopicConfig:
    """One row of a broker's topic table."""
    return TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=perm, topic_sys_flag=flag)


async def registered(t: Trial, *names: str, **options: Any) -> Broker:
    """A broker that has registered these topics."""
    broker = Broker(t, **options)
    t.answer(f"{broker.name} registers", await broker.register(*(topic_of(name) for name in names)))
    return broker


async def route(t: Trial, topic: str, link: Link | None = None) -> Answer:
    """What the name server says where this topic is (105), not judged."""
    return await (link or t.names).ask(naming.GetRouteInfo(topic=topic))


async def route_comes(t: Trial, topic: str) -> None:
    """Name servers know that the topic is on the broker that is judged: it reports new ones on its own time."""

    async def there() -> bool:
        answer = await route(t, topic)
        return answer.code == ResponseCode.SUCCESS and t.target.broker_name in brokers_of(answer)

    await t.until(f"the route of {topic}", there)


async def route_goes(t: Trial, topic: str) -> None:
    """The topic's route disappears in time."""

    async def gone() -> bool:
        return (await route(t, topic)).code == ResponseCode.TOPIC_NOT_EXIST

    await t.until(f"the route of {topic} goes", gone, seconds=EXPIRY_S)


def brokers_of(answer: Answer) -> dict[str, dict[int, str]]:
    """Addresses by broker name and id."""
    return {data.broker_name: data.broker_addrs for data in TopicRouteData.read(answer.body).broker_datas}
