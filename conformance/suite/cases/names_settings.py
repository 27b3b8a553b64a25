"""The name server: what its switches change.  Each case turns one and turns it back."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import AsyncIterator
from functools import partial

import trio

from conformance.suite.kit import SHOULD, Code, ResponseCode, Trial
from conformance.suite.kit import case as declare
from conformance.suite.means.played import EXPIRY_S, OWN, Broker, brokers_of, registered, route, topic_of
from rmq_wire.command import Command
from rmq_wire.conversation import Conversation
from rmq_wire.headers import naming
from rmq_wire.headers.replication import NotifyMinBrokerIdChange
from rmq_wire.sys_flag import PERM_READ

MANAGER = "RouteInfoManager"
ORDERED = "ORDER_TOPIC_CONFIG"


case = partial(declare, needs=OWN, since=(5,))


@contextlib.asynccontextmanager
async def turned(t: Trial, key: str, *, to: bool = True) -> AsyncIterator[None]:
    """A switch of the name server (318) is this way for as long as the block lasts."""
    t.answer(f"{key}={to}", await t.names.ask(naming.UpdateNamesrvConfig(), f"{key}={str(to).lower()}\n".encode()))
    try:
        yield
    finally:
        await t.names.ask(naming.UpdateNamesrvConfig(), f"{key}={str(not to).lower()}\n".encode())


async def pair(t: Trial, topic: str) -> tuple[Broker, Broker]:
    """A master and a slave that may act for it."""
    master = Broker(t)
    t.answer("the master registers", await master.register(topic_of(topic), topic_of(t.name()), enable_acting_master=True))
    slave = Broker(t, name=master.name, cluster=master.cluster, id=1)
    t.answer("the slave registers", await slave.register(topic_of(topic), topic_of(t.name()), enable_acting_master=True))
    return master, slave


@case(
    "names.settings.acting-master",
    SHOULD,
    codes=(Code.GET_ROUTEINFO_BY_TOPIC, Code.REGISTER_BROKER),
    alone=True,
    rests_on=f"{MANAGER}.pickupTopicRouteData",
)
async def acting_master(t: Trial) -> None:
    """With supportActingMaster a slave stands in for its master that is gone, for reading.

    The route names the slave's address under id 0, and its queues can only be read: the slave registered that it may act.
    """
    topic = t.name()
    async with turned(t, "supportActingMaster"):
        master, slave = await pair(t, topic)
        t.equal("before", brokers_of(await route(t, topic)), {master.name: {0: master.address, 1: slave.address}})
        await master.link.close()

        async def acts() -> bool:
            return brokers_of(await route(t, topic)) == {master.name: {0: slave.address}}

        await t.until("the slave acts", acts, seconds=EXPIRY_S)
        [queue] = (await route(t, topic)).json()["queueDatas"]
        t.equal("permission", queue["perm"], PERM_READ)


@case(
    "names.settings.acting-master-off",
    SHOULD,
    codes=Code.GET_ROUTEINFO_BY_TOPIC,
    alone=True,
    rests_on=f"{MANAGER}.pickupTopicRouteData",
)
async def no_acting_master(t: Trial) -> None:
    """Without supportActingMaster the slave keeps its own id."""
    topic = t.name()
    master, slave = await pair(t, topic)
    await master.link.close()

    async def alone() -> bool:
        return brokers_of(await route(t, topic)) == {master.name: {1: slave.address}}

    await t.until("the slave is left under its id", alone, seconds=EXPIRY_S)


@case(
    "names.settings.min-id-notice",
    SHOULD,
    codes=(Code.NOTIFY_MIN_BROKER_ID_CHANGE, Code.REGISTER_BROKER),
    alone=True,
    rests_on=f"{MANAGER}.notifyMinBrokerIdChanged",
)
async def min_id_notice(t: Trial) -> None:
    """With notifyMinBrokerIdChanged the brokers of a name learn that their smallest id is another.

    A one-way request (905) to the broker's own address: the smallest id that is there, where it is, and who is gone.
    """
    async with turned(t, "notifyMinBrokerIdChanged"), trio.open_nursery() as nursery:
        master, slave = await pair(t, t.name())
        host, _, port = slave.address.rpartition(":")
        noticed = trio.Event()
        heard: list[Command] = []

        async def hear(stream: trio.SocketStream) -> None:
            conversation = Conversation()
            while data := await stream.receive_some():
                heard.extend(command.kept() for command in conversation.feed(data) if isinstance(command, Command))
                if any(command.code == Code.NOTIFY_MIN_BROKER_ID_CHANGE for command in heard):
                    noticed.set()

        await nursery.start(functools.partial(trio.serve_tcp, hear, int(port), host=host))
        await master.link.close()
        with trio.move_on_after(EXPIRY_S * t.patience):
            await noticed.wait()
        notices = [command for command in heard if command.code == Code.NOTIFY_MIN_BROKER_ID_CHANGE]
        t.check("the slave is notified", bool(notices), seen=heard)
        header = notices[-1].header(NotifyMinBrokerIdChange)
        t.equal("smallest id", header.min_broker_id, 1)
        t.equal("its address, who is gone", (header.min_broker_addr, header.offline_broker_addr), (slave.address, master.address))
        nursery.cancel_scope.cancel()


@case(
    "names.settings.topic-lists-off",
    SHOULD,
    codes=(Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, Code.GET_TOPICS_BY_CLUSTER, Code.GET_UNIT_TOPIC_LIST),
    alone=True,
    rests_on="DefaultRequestProcessor: enableAllTopicList, enableTopicList",
)
async def topic_lists_off(t: Trial) -> None:
    """Topic lists can be switched off: code 1."""
    async with turned(t, "enableAllTopicList", to=False):
        answer = await t.names.ask(naming.GetAllTopicListFromNameserver())
        t.answer("all topics", answer, code=ResponseCode.SYSTEM_ERROR, remark="disable")
    async with turned(t, "enableTopicList", to=False):
        for asked in (naming.GetTopicsByCluster(cluster="DefaultCluster"), naming.GetUnitTopicList()):
            answer = await t.names.ask(asked)
            t.answer(type(asked).__name__, answer, code=ResponseCode.SYSTEM_ERROR, remark="disable")
    t.answer("all topics again", await t.names.ask(naming.GetAllTopicListFromNameserver()))


@case(
    "names.settings.order-table-for-brokers",
    SHOULD,
    codes=(Code.REGISTER_BROKER, Code.PUT_KV_CONFIG),
    alone=True,
    rests_on="DefaultRequestProcessor.registerBroker",
)
async def order_table(t: Trial) -> None:
    """With returnOrderTopicConfigToBroker a registration is answered with the table of ordered topics."""
    topic = t.name()
    async with turned(t, "returnOrderTopicConfigToBroker"):
        t.answer("put", await t.names.ask(naming.PutKVConfig(namespace=ORDERED, key=topic, value="broker-a:4")))
        try:
            answer = t.answer("register", await Broker(t).register(topic_of(topic), topic_of(t.name())))
            t.equal("its row", answer.json()["table"].get(topic), "broker-a:4")
        finally:
            await t.names.ask(naming.DeleteKVConfig(namespace=ORDERED, key=topic))


@case("names.settings.vanished-topic", SHOULD, codes=Code.REGISTER_BROKER, alone=True, rests_on=f"{MANAGER}.registerBroker")
async def vanished_topic(t: Trial) -> None:
    """With deleteTopicWithBrokerRegistration a topic that its broker does not name any more has no route.

    Without it, which is the default, the route stays.
    """
    for switched, code in ((False, ResponseCode.SUCCESS), (True, ResponseCode.TOPIC_NOT_EXIST)):
        kept, gone = t.name(), t.name()
        async with turned(t, "deleteTopicWithBrokerRegistration", to=switched):
            broker = await registered(t, kept, t.name(), gone)
            broker.version.counter += 1
            t.answer("register without it", await broker.register(topic_of(kept), topic_of(t.name())))
            t.answer(f"its route, switch {switched}", await route(t, gone), code=code)
            t.answer("the other's route", await route(t, kept))
    await t.names.ask(naming.UpdateNamesrvConfig(), b"deleteTopicWithBrokerRegistration=false\n")
