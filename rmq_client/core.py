"""What all producers and consumers of a client share: connections, routes, heartbeats, answers to what brokers ask.

Three things happen by themselves: routes are asked for again every 30 s, brokers hear from us every 30 s, and what brokers ask is
answered.
Source: `MQClientInstance`, `ClientRemotingProcessor`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import trio

from rmq_client import namespaces
from rmq_client.broker_call import BrokerCall
from rmq_client.connections import Body, Connections, Reply
from rmq_client.errors import BrokerError, ClientClosed, ClientError, InvalidName, NoRoute, Unreadable
from rmq_client.heartbeats import Heartbeats, Round
from rmq_client.members import Members
from rmq_client.name_servers import NameServers
from rmq_client.routes import RouteTable, TopicRoute, modelled_on
from rmq_client.settings import ClientSettings
from rmq_client.signing import Credentials
from rmq_client.world import World, mono_ms
from rmq_net.log import Log
from rmq_wire import names
from rmq_wire.bodies.route import TopicRouteData
from rmq_wire.codes import ResponseCode
from rmq_wire.command import Command
from rmq_wire.declare import Request
from rmq_wire.errors import BadBody, WireError
from rmq_wire.headers.clients import Heartbeat, NotifyConsumerIdsChanged, UnregisterClient
from rmq_wire.headers.naming import GetRouteInfo

FIRST_HEARTBEAT_MS: Final = 1_000
GOODBYE_MS: Final = 1_000
"""How long leaving may wait for brokers to hear of it; they find out by the end of the connection, too."""
GOODBYES_S: Final = 10.0
"""The same for all groups of a client together."""
UNUSED_MS: Final = 600_000
"""A topic's route that nobody has used for so long is not asked for any more: who sends to ever new topics would ask for all."""

Answering = Callable[[BrokerCall], bytes | None]
"""What a broker asks, to the frame that answers it; None: later, or never."""


class ClientCore:
    """`routes`: what name servers said last."""

    def __init__(
        self,
        nursery: trio.Nursery,
        name_servers: Sequence[str],
        settings: ClientSettings,
        world: World,
        credentials: Credentials | None,
    ) -> None:
        self.settings = settings
        self.world = world
        self.client_id = f"{world.ip}@{settings.instance_name or f'{world.pid}#{world.rng.getrandbits(48)}'}"
        self.unique_keys = world.unique_keys()
        self.nursery = nursery
        self.connections = Connections(
            nursery,
            world.dial,
            on_request=self._on_request,
            sign=credentials.sign if credentials else None,
            connect_ms=settings.connect_timeout_ms,
        )
        self.name_servers = NameServers(name_servers, self.connections, world)
        self.routes = RouteTable()
        self.members = Members(self.client_id)
        self.log = Log("rmq.client", mono_ms)
        self.answering: dict[int, Answering] = {NotifyConsumerIdsChanged.code: self._members_changed}
        """Request code -> what answers it; what is asked of consumers comes with the first question that is none of these."""
        self._knows_all_calls = False
        self.on_route_change: list[Callable[[str], None]] = []
        self.on_members_change: list[Callable[[str], None]] = []
        """Called with the topic, or the group, on the wire."""
        self.broker_versions: dict[str, int] = {}
        """Address -> the version that the broker's last answer to a heartbeat named (an ordinal of `MQVersion`)."""
        self._heartbeats = Heartbeats(settings.use_heartbeat_v2)
        self._beating: dict[str, trio.Lock] = {}
        """Brokers take heartbeats and goodbyes in any order: one at a time at each address.  Java: `lockHeartbeat`."""
        self._used_ms: dict[str, int] = {}
        self._lookups: dict[tuple[str, str | None], _Lookup] = {}

    # Names

    def on_wire(self, name: str) -> str:
        """A topic or group of the caller's as servers know it."""
        return namespaces.wrap(self.settings.namespace, name)

    def to_caller(self, name: str) -> str:
        """The other way round."""
        return namespaces.unwrap(self.settings.namespace, name)

    def group_on_wire(self, group: str) -> str:
        """The same of a group that must be lawful.  Raises `InvalidName`."""
        if problem := names.group_problem(group):
            raise InvalidName(problem)
        return self.on_wire(group)

    # Asking

    async def ask(
        self, address: str, request: Request, body: Body = b"", *, timeout_ms: int | None = None, also: Sequence[int] = ()
    ) -> Command:
        """The answer of a server.  Raises `BrokerError` for a code that is neither 0 nor among `also`, and `NetworkError`."""
        if timeout_ms is None:
            timeout_ms = self.settings.mq_client_api_timeout_ms
        answer = await self.connections.ask(address, request, body, timeout_ms=timeout_ms)
        if answer.code != ResponseCode.SUCCESS and answer.code not in also:
            raise BrokerError(answer.code, answer.remark, address)
        return answer

    async def ask_name_server(self, request: Request, *, also: Sequence[int] = ()) -> Command:
        """The answer of whichever name server answers; raises as `ask`."""
        answer = await self.name_servers.ask(request, timeout_ms=self.settings.mq_client_api_timeout_ms)
        if answer.code != ResponseCode.SUCCESS and answer.code not in also:
            raise BrokerError(answer.code, answer.remark, self.name_servers.chosen)
        return answer

    # Routes

    async def route(self, topic: str, *, fresh: bool = False) -> TopicRoute:
        """That of a topic (its name on the wire), asked for when not known or `fresh`.  Raises `NoRoute`, `NetworkError`."""
        known = self.known_route(topic)
        if known is not None and not fresh:
            return known
        return await self._looked_up(topic, None, 0)

    def known_route(self, topic: str, now_ms: int | None = None) -> TopicRoute | None:
        """The same without asking anybody; that it was wanted keeps it.  now_ms: where the caller has just looked."""
        found = self.routes.get(topic)
        if found is not None:
            self._used_ms[topic] = mono_ms() if now_ms is None else now_ms
        return found

    async def route_to_write(self, topic: str, model: str, queues_max: int) -> TopicRoute:
        """The same for a producer: a topic that nobody knows gets the queues of `model`, after which its broker will make it."""
        try:
            found = await self.route(topic)
            return found if found.writable else await self.route(topic, fresh=True)
        except NoRoute:
            try:
                return await self._looked_up(topic, model, queues_max)
            except NoRoute:
                raise NoRoute(f"no name server knows the topic {self.to_caller(topic)}, and no broker would make it") from None

    async def _looked_up(self, topic: str, model: str | None, queues_max: int) -> TopicRoute:
        """Whoever asks for what somebody else is asking for waits for that answer."""
        key = (topic, model)
        while (running := self._lookups.get(key)) is not None:
            await running.done.wait()
            if running.route is not None:
                return running.route
            if running.error is not None:
                raise running.error
        lookup = self._lookups[key] = _Lookup()
        try:
            lookup.route = await self._ask_route(topic, model, queues_max)
            return lookup.route
        except ClientError as error:
            lookup.error = error
            raise
        finally:
            del self._lookups[key]
            lookup.done.set()

    async def _ask_route(self, topic: str, model: str | None, queues_max: int) -> TopicRoute:
        asked = GetRouteInfo(topic=model or topic, accept_standard_json_only=True)
        answer = await self.ask_name_server(asked, also=(ResponseCode.TOPIC_NOT_EXIST,))
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            raise NoRoute(f"no name server knows the topic {self.to_caller(asked.topic)}")
        try:
            data = TopicRouteData.read(answer.body)
            changed = self.routes.put(topic, modelled_on(data, queues_max) if model else data)
            self._used_ms.setdefault(topic, mono_ms())  # of one that has no route nothing is kept
        except BadBody as wrong:
            raise Unreadable(str(wrong), self.name_servers.chosen) from None
        if changed:
            for heed in self.on_route_change:
                heed(topic)
        route = self.routes.get(topic)
        assert route is not None
        return route

    # By itself

    async def keep_routes(self) -> None:
        """Runs as long as the client: asks for the routes in use again and again."""
        while True:
            await trio.sleep(self.settings.poll_name_server_interval_ms / 1e3)
            for topic in self.routes.topics:
                if mono_ms() - self._used_ms.get(topic, 0) > UNUSED_MS and topic not in self.members.topics:
                    self.routes.forget(topic)
                    self._used_ms.pop(topic, None)
                    continue
                try:
                    await self._looked_up(topic, None, 0)
                except NoRoute:  # not made yet, or deleted: a producer's next send will say so
                    self.log.debug("no name server knows the topic %s", topic)
                except ClientClosed:
                    return
                except ClientError as error:
                    self.log.warning("the route of %s is not renewed: %s", topic, str(error))
            unneeded = self.routes.drop_unrouted(self._needed())
            for address in unneeded:
                self.broker_versions.pop(address, None)
            self.connections.close_unneeded(unneeded)

    def _needed(self) -> set[str]:
        """Brokers that live and whose queues consumers still have: they must hear how far these are, whatever routes say."""
        places = {name: self.routes.reading_place(name) for name in self.members.brokers}
        return {name for name, place in places.items() if place is not None and self.connections.living(place.address)}

    async def keep_beating(self) -> None:
        """Runs as long as the client: brokers hear from it."""
        await trio.sleep(FIRST_HEARTBEAT_MS / 1e3)
        while True:
            await self.heartbeat()
            await trio.sleep(self.settings.heartbeat_broker_interval_ms / 1e3)

    async def heartbeat(self, *, moved: bool = False) -> None:
        """Tell all brokers who we are: masters alone, unless somebody here consumes.  What cannot be reached is tried again.

        moved: queues have just changed hands, so that all is said.
        """
        if not self.members:
            return
        if moved:
            self._heartbeats.forget()
        said = self._heartbeats.round(self.members.heartbeat())
        async with trio.open_nursery() as nursery:
            for address in sorted(self.routes.addresses(masters_only=not self.members.consumes)):
                nursery.start_soon(self._beat, address, said, self.members.version)

    async def _beat(self, address: str, said: Round, version: int) -> None:
        try:
            await self.connections.open(address, timeout_ms=self.settings.mq_client_api_timeout_ms)
            async with self._beating.setdefault(address, trio.Lock()):
                if version != self.members.version:  # who went must not be named after his goodbye
                    if not self.members:
                        return
                    said = self._heartbeats.round(self.members.heartbeat())
                body = self._heartbeats.body(said, address, self.connections.living(address))
                answer = await self.ask(address, Heartbeat(), body)
                self.broker_versions[address] = answer.version
                self._heartbeats.answered(said, address, self.connections.living(address), answer)
        except ClientError as error:
            self.log.info("no heartbeat: %s", str(error))

    async def leave(self) -> None:
        """Say goodbye where we are known, then hang up."""
        with trio.move_on_after(GOODBYES_S):
            for producer_group, consumer_group in self.members.groups():
                await self.say_goodbye(producer_group, consumer_group)
        await self.connections.aclose()

    async def say_goodbye(self, producer_group: str | None, consumer_group: str | None) -> None:
        """Tell the brokers that know us that this group has a member less."""
        goodbye = UnregisterClient(client_id=self.client_id, producer_group=producer_group, consumer_group=consumer_group)
        with trio.move_on_after(GOODBYE_MS / 1e3):
            async with trio.open_nursery() as nursery:
                for address in sorted(self.routes.addresses().intersection(self.connections.open_addresses)):
                    nursery.start_soon(self._take_leave, address, goodbye)

    async def _take_leave(self, address: str, goodbye: UnregisterClient) -> None:
        try:
            async with self._beating.setdefault(address, trio.Lock()):
                await self.ask(address, goodbye, timeout_ms=GOODBYE_MS)
        except ClientError as error:
            self.log.debug("no goodbye: %s", str(error))

    # What brokers ask

    def _on_request(self, address: str, command: Command, reply: Reply) -> bytes | None:
        if command.code not in self.answering and not self._knows_all_calls:
            self._learn_all_calls()
        answer = self.answering.get(command.code)
        call = BrokerCall(address, command, reply)
        if answer is not None:
            try:
                return answer(call)
            except WireError as wrong:
                self.log.warning("%s asks %d, which cannot be read: %s", address, command.code, str(wrong))
                return None
        if command.is_oneway:
            return None
        return call.answer(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f" request type {command.code} not supported")

    def _learn_all_calls(self) -> None:
        from rmq_client.broker_calls import BrokerCalls

        calls = BrokerCalls(self.members, self.name_servers.addresses, self.nursery, self.log)
        self.answering = {**calls.answering, **self.answering}
        self._knows_all_calls = True

    def _members_changed(self, call: BrokerCall) -> None:
        group = call.command.ext_map().get("consumerGroup", "")
        self.log.info("%s says that the members of %s have changed", call.address, group)
        for heed in self.on_members_change:
            heed(group)


class _Lookup:
    """A route that somebody is asking for."""

    __slots__ = ("done", "error", "route")

    def __init__(self) -> None:
        self.done = trio.Event()
        self.route: TopicRoute | None = None
        self.error: ClientError | None = None
