"""The name server: which registrations count, and what a broker is answered."""

from __future__ import annotations

import re
from functools import partial

from conformance.suite.kit import MUST, READ_WRITE, SHOULD, Code, ResponseCode, Trial
from conformance.suite.kit import case as declare
from conformance.suite.means.played import OWN, Broker, brokers_of, registered, route, topic_of
from rmq_wire.bodies.data_version import DataVersion
from rmq_wire.bodies.route import QueueData, TopicRouteData
from rmq_wire.headers import naming
from rmq_wire.sys_flag import PERM_READ

case = partial(declare, codes=Code.REGISTER_BROKER, needs=OWN, rests_on="RouteInfoManager.registerBroker")


@case(
    "names.register.route",
    MUST,
    codes=(Code.REGISTER_BROKER, Code.GET_ROUTEINFO_BY_TOPIC),
    rests_on="RouteInfoManager.registerBroker, pickupTopicRouteData",
)
async def register_route(t: Trial) -> None:
    """What a broker registers is what clients are given."""
    first, second = t.name(), t.name()
    broker = Broker(t)
    answer = await broker.register(topic_of(first, 3), topic_of(second, 5, perm=PERM_READ))
    t.answer("register", answer, absent=("masterAddr",))
    for topic, queues, perm in ((first, 3, READ_WRITE), (second, 5, PERM_READ)):
        found = TopicRouteData.read(t.answer(f"route of {topic}", await route(t, topic)).body)
        t.equal(
            "brokers",
            [(b.broker_name, b.cluster, b.broker_addrs) for b in found.broker_datas],
            [(broker.name, broker.cluster, {0: broker.address})],
        )
        queue = found.queue_datas[0] if found.queue_datas else QueueData()
        t.equal(
            "queue data",
            (len(found.queue_datas), queue.broker_name, queue.read_queue_nums, queue.write_queue_nums, queue.perm),
            (1, broker.name, queues, queues, perm),
        )


@case("names.register.slave", MUST)
async def slave(t: Trial) -> None:
    """A slave learns its master and stands in the route beside it."""
    topic = t.name()
    master = await registered(t, topic, t.name())
    reader = Broker(t, name=master.name, cluster=master.cluster, id=1)
    answer = await reader.register(topic_of(topic), topic_of(t.name()))
    t.answer(
        "the slave registers",
        answer,
        ext={"masterAddr": master.address, "haServerAddr": master.address.replace("10911", "10912")},
    )
    t.equal("addresses in the route", brokers_of(await route(t, topic)), {master.name: {0: master.address, 1: reader.address}})


@case("names.register.first-with-one-topic", MUST, since=(5,))
async def increment_of_an_unknown_broker(t: Trial) -> None:
    """One topic alone is taken for an increment, and refused from an unknown broker."""
    broker, topic = Broker(t), t.name()
    t.answer("register", await broker.register(topic_of(topic)), code=ResponseCode.SYSTEM_ERROR)
    t.answer("route", await route(t, topic), code=ResponseCode.TOPIC_NOT_EXIST)


@case("names.register.increment", MUST)
async def increment(t: Trial) -> None:
    """A registered broker may add one topic."""
    first, second, third = t.name(), t.name(), t.name()
    broker = await registered(t, first, second)
    broker.version.counter += 1
    t.answer("register one more", await broker.register(topic_of(third)))
    for topic in (first, second, third):
        found = t.answer(f"route of {topic}", await route(t, topic))
        t.equal(f"brokers of {topic}", brokers_of(found), {broker.name: {0: broker.address}})


@case("names.register.broken-body", MUST, rests_on="DefaultRequestProcessor.checksum")
async def wrong_crc(t: Trial) -> None:
    """A body whose check sum is wrong is refused."""
    topic = t.name()
    t.answer(
        "register",
        await Broker(t).register(topic_of(topic), topic_of(t.name()), crc=12_345),
        code=ResponseCode.SYSTEM_ERROR,
        remark=re.compile("crc32"),
    )
    t.answer("route", await route(t, topic), code=ResponseCode.TOPIC_NOT_EXIST)


@case("names.register.unchecked-body", MUST, rests_on="DefaultRequestProcessor.checksum")
async def no_crc(t: Trial) -> None:
    """A check sum of 0 is not looked at."""
    topic = t.name()
    broker = Broker(t)
    t.answer("register", await broker.register(topic_of(topic), topic_of(t.name()), crc=0))
    t.equal("brokers", brokers_of(t.answer("route", await route(t, topic))), {broker.name: {0: broker.address}})


@case("names.register.compressed", MUST, since=(5,), rests_on="RegisterBrokerBody.decode")
async def compressed(t: Trial) -> None:
    """The packed body is read."""
    topic = t.name()
    t.answer("register", await Broker(t).register(topic_of(topic, 7), topic_of(t.name()), compressed=True))
    found = TopicRouteData.read(t.answer("route", await route(t, topic)).body)
    t.equal("queues", [data.read_queue_nums for data in found.queue_datas], [7])


@case("names.register.moved", MUST)
async def moved(t: Trial) -> None:
    """A broker that comes back under another address replaces the old one."""
    topic, other = t.name(), t.name()
    old = await registered(t, topic, other)
    new = Broker(t, name=old.name, cluster=old.cluster)
    new.version.counter, new.version.timestamp = 2, old.version.timestamp + 1
    t.answer("register", await new.register(topic_of(topic), topic_of(other)))
    t.equal("addresses", brokers_of(await route(t, topic)), {old.name: {0: new.address}})


@case("names.register.same-address-other-id", MUST)
async def switched_id(t: Trial) -> None:
    """An address has one broker id: the newer one."""
    topic, other = t.name(), t.name()
    broker = await registered(t, topic, other)
    broker.id = 1
    broker.version.counter += 1
    t.answer("register with id 1", await broker.register(topic_of(topic), topic_of(other)))
    found = await route(t, topic)
    if found.code == 0:
        t.equal("addresses", brokers_of(found), {broker.name: {1: broker.address}})


@case("names.register.older-state", SHOULD, since=(5,))
async def older_state(t: Trial) -> None:
    """An older state under another address does not replace a newer one.

    After a change of master the old one must not push itself in front.
    """
    topic, other = t.name(), t.name()
    new = Broker(t)
    new.version.state_version = 5
    t.answer("state 5 registers", await new.register(topic_of(topic), topic_of(other)))
    old = Broker(t, name=new.name, cluster=new.cluster)
    old.version.state_version = 4
    t.answer("state 4 registers", await old.register(topic_of(topic), topic_of(other)))
    t.equal("addresses", brokers_of(await route(t, topic)), {new.name: {0: new.address}})


@case("names.register.topics-of-a-slave", MUST)
async def topics_of_a_slave(t: Trial) -> None:
    """A slave's topic table does not count."""
    known, own = t.name(), t.name()
    master = await registered(t, known, t.name())
    reader = Broker(t, name=master.name, cluster=master.cluster, id=1)
    t.answer("the slave registers", await reader.register(topic_of(known, 9), topic_of(own)))
    t.answer("route of the slave's own topic", await route(t, own), code=ResponseCode.TOPIC_NOT_EXIST)
    found = TopicRouteData.read((await route(t, known)).body)
    t.equal("queues of the other", [data.read_queue_nums for data in found.queue_datas], [4])


@case(
    "names.data-version.changed", MUST, codes=Code.QUERY_DATA_VERSION, rests_on="DefaultRequestProcessor.queryBrokerTopicConfig"
)
async def data_version(t: Trial) -> None:
    """A broker learns whether its topics are known as they are."""
    broker = await registered(t, t.name(), t.name())
    asked = naming.QueryDataVersion(**broker.who)
    same = t.answer("the same version", await broker.link.ask(asked, broker.version.encode()), ext={"changed": "false"})
    found = DataVersion.read(same.body)
    t.equal("the version that it knows", (found.counter, found.timestamp), (broker.version.counter, broker.version.timestamp))
    other = DataVersion(state_version=0, timestamp=broker.version.timestamp, counter=9)
    t.answer("another version", await broker.link.ask(asked, other.encode()), ext={"changed": "true"})
    unknown = Broker(t)
    t.answer(
        "an unknown broker's",
        await unknown.link.ask(naming.QueryDataVersion(**unknown.who), other.encode()),
        ext={"changed": "true"},
    )
