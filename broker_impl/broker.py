"""The composition root: the only module here that knows trio.

`RunningServers` are what one process runs: a name server, brokers, or both.  `run` serves until it is stopped, and stops
in order: brokers take their leave of the name servers, pending answers go out, stores close, the name server goes last.
Behaviour is elsewhere: engines decide, shells move bytes, `registration` says what to send to which name server and when.
"""

from __future__ import annotations

import contextlib
import gc
import math
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import trio

from broker_impl.engine.slices import Slices
from broker_impl.namesrv.server import NameServer
from broker_impl.node import BrokerNode
from broker_impl.registration import Asked
from broker_impl.topic_routes import ROUTE_TIMEOUT_MS
from rmq_net.connection import Connection, ConnectionLost
from rmq_net.log import Log
from rmq_net.reason import reason
from rmq_net.service import Service
from rmq_net.streams import StreamShell
from rmq_wire.bodies.route import TopicRouteData
from rmq_wire.codes import ResponseCode
from rmq_wire.command import Command
from rmq_wire.declare import Request
from rmq_wire.errors import BadHeader, WireError
from rmq_wire.headers.naming import GetRouteInfo

GC_THRESHOLDS = (50_000, 50, 100)
"""Requests make next to no cycles, and what stays is looked through between turns (`rmq_net.garbage`): within a turn, rarely.
What the start made is frozen."""
HEAP_SLACK_BYTES = 16 * 1024 * 1024
"""Freed memory that the process keeps for what comes next: a turn's worth of full pulls (4 MiB) and to spare."""
MS_PER_S = 1_000
NOTICE_S_MAX = 3.0
"""To connect to a broker and send it a notice (Java: 3 s to connect, 300 ms to write)."""
NOTICE_LINKS_MAX = 16
"""Connections to brokers at a time."""
ROUTES_AT_ONCE = 8
"""Questions to name servers where a topic is that are under way together; the rest waits."""
T = TypeVar("T")
Sockets = Sequence[tuple[socket.socket, str]]
"""Listening sockets, each with the name of the listener."""


class NotSaved(Exception):
    """A stop in which something could not be written."""


class ShellLike(Protocol):
    """`rmq_net.shell.Shell` or `rmq_net.streams.StreamShell`."""

    def stop(self) -> None: ...
    def wake(self) -> None: ...
    async def serve(self, task_status: trio.TaskStatus[None] = ...) -> None: ...


class BrokerPlace(NamedTuple):
    """A broker and the sockets that it answers on.  `keeps_address`: an embedded name server answers brokerIP1 to everybody."""

    node: BrokerNode
    sockets: Sockets
    keeps_address: bool = False


class RunningServers(NamedTuple):
    """What one process runs.  `plain_streams`: serve over trio streams even where there is epoll."""

    name_server: NameServer | None = None
    name_server_sockets: Sockets = ()
    brokers: Sequence[BrokerPlace] = ()
    plain_streams: bool = False

    @property
    def alone(self) -> bool:
        """There is but one."""
        return (self.name_server is not None) + len(self.brokers) == 1


def shell_for(service: Service[Any], sockets: Sockets, *, plain_streams: bool, alone: bool = False) -> ShellLike:
    """The fast shell where the system has epoll, the portable one elsewhere or when it is asked for.

    `alone`: of `Shell`; nobody else serves in this loop.
    """
    if plain_streams or sys.platform != "linux":
        return StreamShell(service, sockets)
    from rmq_net.shell import Shell

    return Shell(service, sockets, alone=alone)


async def run(servers: RunningServers, ready: Callable[[], Awaitable[None]], stop: trio.Event | None = None) -> None:
    """Serve until SIGTERM, SIGINT or `stop`; `ready()` runs when everything listens and all brokers are registered once.

    Raises what a server could not bear; everything is closed then too.  Raises `NotSaved` after a stop that lost something.
    """
    unsaved: list[str] = []
    stop = trio.Event() if stop is None else stop
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_stop_by_signal, stop, _log_of(servers))
        async with contextlib.AsyncExitStack() as stack:
            if servers.name_server is not None:
                sockets = servers.name_server_sockets
                stack.callback(_close, servers.name_server, "the name server", unsaved)
                await stack.enter_async_context(_serving(servers, servers.name_server.engine, sockets))
                nursery.start_soon(_send_notices, servers.name_server)
            for place in servers.brokers:
                await stack.enter_async_context(_broker(servers, place, unsaved))
            gc.collect()
            gc.freeze()
            gc.set_threshold(*GC_THRESHOLDS)
            _keep_freed_memory()
            await _until(stop, ready)
            await stop.wait()
        nursery.cancel_scope.cancel()
    if unsaved:
        raise NotSaved(f"{' and '.join(unsaved)} could not write everything at the stop: the log above says what")


def _close(server: BrokerNode | NameServer, who: str, unsaved: list[str]) -> None:
    if not server.close():
        unsaved.append(who)


def _log_of(servers: RunningServers) -> Log:
    """For what concerns the whole process."""
    engine = servers.name_server.engine if servers.name_server is not None else servers.brokers[0].node.engine
    return engine.env.log


def _keep_freed_memory() -> None:
    """Have glibc keep what a turn's answers used, for the next turn's.

    By default it gives the top of the heap back above 128 KiB and fetches it again page by page: with full pulls, once a turn.
    Freeing a block that it had mapped apart raises that limit to twice the block's size (mallopt(3), M_MMAP_THRESHOLD).
    No page of the block is ever touched; elsewhere this does nothing.
    """
    block = bytes(HEAP_SLACK_BYTES // 2)
    del block


async def _until(stop: trio.Event, job: Callable[[], Awaitable[None]]) -> None:
    """Do the job, or leave it undone when the stop comes first."""

    async def give_up() -> None:
        await stop.wait()
        nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(give_up)
        await job()
        nursery.cancel_scope.cancel()


@contextlib.asynccontextmanager
async def _serving(servers: RunningServers, service: Service[Any], sockets: Sockets) -> AsyncIterator[ShellLike]:
    """Serve inside the block; leaving it stops in order."""
    shell = shell_for(service, sockets, plain_streams=servers.plain_streams, alone=servers.alone)
    async with trio.open_nursery() as nursery:
        await nursery.start(shell.serve)
        try:
            yield shell
        finally:
            shell.stop()


async def _send_notices(names: NameServer) -> None:
    """Send brokers the notices of the name server, for ever; each address has its notices in order."""
    limiter = trio.CapacityLimiter(NOTICE_LINKS_MAX)
    while True:
        wake = trio.Event()
        names.notices.on_due = wake.set
        async with trio.open_nursery() as nursery:
            for addr, frames in names.notices.take().items():
                nursery.start_soon(_send_notice, addr, b"".join(frames), limiter, names.engine.env.log)
        await wake.wait()


async def _send_notice(addr: str, frames: bytes, limiter: trio.CapacityLimiter, log: Log) -> None:
    """Nobody answers a notice; a broker that cannot be reached learns the same when it registers next."""
    host, _, port = addr.rpartition(":")
    async with limiter:
        try:
            with trio.fail_after(NOTICE_S_MAX):
                async with await trio.open_tcp_stream(host.strip("[]"), int(port)) as stream:
                    await stream.send_all(frames)
        except (OSError, ValueError, OverflowError, trio.TooSlowError, trio.BrokenResourceError) as error:
            log.warning("broker %s was not notified of the new smallest id: %s", addr, reason(error))


async def _in_slices(work: Slices[T]) -> T:
    """Its result; others are served between two slices."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            found: T = end.value
            return found
        await trio.lowlevel.checkpoint()


@contextlib.asynccontextmanager
async def _broker(servers: RunningServers, place: BrokerPlace, unsaved: list[str]) -> AsyncIterator[None]:
    """One broker, registered with the embedded name server or with those of its configuration."""
    node, embedded = place.node, servers.name_server
    try:
        async with _serving(servers, node.engine, place.sockets) as shell:
            if embedded is not None:
                await _in_slices(node.register_with(embedded, keeps_address=place.keeps_address))
            async with keep_registered(node, shell.wake):
                yield
            if embedded is not None:
                node.withdraw_from_name_server()
    finally:
        _close(node, f"broker {node.config.broker_name}", unsaved)


class _NameServerLinks:
    """Connections to name servers elsewhere, one each, made when there is something to ask.

    `wake()` has the broker's engine take a turn.
    """

    def __init__(self, node: BrokerNode, nursery: trio.Nursery, wake: Callable[[], None]) -> None:
        self._registrar = node.registrar
        self._routes = node.routes
        self._name_servers = node.config.name_servers
        self._wake_engine = wake
        self._env = node.env
        self._timeout_ms = node.config.connect_timeout_millis
        self._nursery = nursery
        self._links: dict[str, Connection] = {}
        self._wake = trio.Event()
        self._registrar.on_due = self._woken
        self._route_wanted = trio.Event()
        self._routes.on_due = self._route_due
        self._connecting = {namesrv: trio.Lock() for namesrv in self._name_servers}
        self._route_limiter = trio.CapacityLimiter(ROUTES_AT_ONCE)

    def _woken(self) -> None:
        self._wake.set()

    def _route_due(self) -> None:
        self._route_wanted.set()

    async def drive(self) -> None:
        """Ask what is due, for ever; name servers do not wait for each other."""
        while True:
            self._wake = trio.Event()
            self._env.refresh()
            for asked in await _in_slices(self._registrar.due(self._env.mono_ms)):
                self._nursery.start_soon(self._ask, asked)
            due_ms = self._registrar.next_due_ms()
            pause_s = math.inf if due_ms is None else max(due_ms - self._env.mono_ms, 0) / MS_PER_S
            with trio.move_on_after(pause_s):
                await self._wake.wait()

    async def drive_routes(self) -> None:
        """Ask where topics are, when the broker wants to know, for ever."""
        while True:
            self._route_wanted = trio.Event()
            self._env.refresh()
            for topic in self._routes.due(self._env.mono_ms):
                self._nursery.start_soon(self._ask_route, topic)
            due_ms = self._routes.next_due_ms()
            pause_s = math.inf if due_ms is None else max(due_ms - self._env.mono_ms, 0) / MS_PER_S
            with trio.move_on_after(pause_s):
                await self._route_wanted.wait()

    async def _ask_route(self, topic: str) -> None:
        """The first name server that answers is believed."""
        async with self._route_limiter:
            for namesrv in self._name_servers:
                if await self._has_route(namesrv, topic):
                    break
            else:
                self._routes.failed(topic)
        self._wake_engine()

    async def _has_route(self, namesrv: str, topic: str) -> bool:
        """Has this name server said where the topic is, or that it is nowhere?"""
        try:
            asked = GetRouteInfo(topic=topic, accept_standard_json_only=True)
            response = await self._answer(namesrv, asked, timeout_ms=ROUTE_TIMEOUT_MS)
            if response.code == ResponseCode.TOPIC_NOT_EXIST:
                self._routes.unknown(topic)
                return True
            if response.code == ResponseCode.SUCCESS:
                self._routes.found(topic, TopicRouteData.read(response.body))
                return True
            said = f"{response.code} {response.remark or ''}"
        except (OSError, WireError, ConnectionLost, trio.TooSlowError) as error:
            said = reason(error)
        self._env.log.warning("name server %s: where is topic %s: %s", namesrv, topic, said)
        return False

    async def leave(self) -> None:
        """Unregister from everybody who may know us; who does not answer is left alone."""
        with trio.CancelScope(shield=True):
            async with trio.open_nursery() as nursery:
                for asked in self._registrar.leave():
                    nursery.start_soon(self._say_goodbye, asked)
            for link in list(self._links.values()):
                await link.close()

    async def _ask(self, asked: Asked) -> None:
        try:
            response = await self._answer(asked.namesrv, asked.request, asked.body, timeout_ms=asked.timeout_ms)
        except (OSError, ValueError, BadHeader, ConnectionLost, trio.TooSlowError) as error:  # ValueError: it cannot be sent
            self._env.refresh()
            self._registrar.failed(asked, reason(error), self._env.mono_ms)
        else:
            self._env.refresh()
            self._registrar.answered(asked, response, self._env.mono_ms)
        self._wake.set()

    async def _say_goodbye(self, asked: Asked) -> None:
        link = self._links.get(asked.namesrv)
        if link is not None:
            with contextlib.suppress(OSError, ValueError, BadHeader, ConnectionLost, trio.TooSlowError):
                await link.ask(asked.request, asked.body, timeout_ms=asked.timeout_ms)

    async def _answer(self, namesrv: str, request: Request, body: bytes = b"", *, timeout_ms: int) -> Command:
        """Raises what `connect` and `ask` of a `Connection` do.

        A connection on which nothing came all that time may lead nowhere (a router that forgot it says nothing), so it is given
        up, as Java does (`clientCloseSocketIfTimeout`): else this would last until the system gives it up.
        """
        link = await self._link(namesrv)
        try:
            return await link.ask(request, body, timeout_ms=timeout_ms)
        except trio.TooSlowError:
            if link.silent_ms >= timeout_ms:
                await link.close()
            raise

    async def _link(self, namesrv: str) -> Connection:
        async with self._connecting[namesrv]:
            link = self._links.get(namesrv)
            if link is None or link.closed.is_set():
                host, _, port = namesrv.rpartition(":")
                link = await Connection.connect(host.strip("[]"), int(port), nursery=self._nursery, timeout_ms=self._timeout_ms)
                self._links[namesrv] = link
                self._nursery.start_soon(self._watch, namesrv, link)
        return link

    async def _watch(self, namesrv: str, link: Connection) -> None:
        """Serve the connection until it breaks; the name server has then dropped us from its routes."""
        await link.closed.wait()
        if self._links.get(namesrv) is link:
            del self._links[namesrv]
        self._registrar.disconnected(namesrv)


@contextlib.asynccontextmanager
async def keep_registered(node: BrokerNode, wake: Callable[[], None]) -> AsyncIterator[None]:
    """Inside the block the broker is kept registered with the name servers of its configuration, and asks them where topics are;
    at its end it leaves.  `wake()` has its engine take a turn.
    """
    if not node.config.name_servers:
        yield
        return
    async with trio.open_nursery() as nursery:
        links = _NameServerLinks(node, nursery, wake)
        nursery.start_soon(links.drive)
        nursery.start_soon(links.drive_routes)
        try:
            yield
        finally:
            await links.leave()
            nursery.cancel_scope.cancel()


async def _stop_by_signal(stop: trio.Event, log: Log) -> None:
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for number in signals:
            if stop.is_set():
                raise KeyboardInterrupt
            log.info("%s: stopping", signal.Signals(number).name)
            stop.set()
