"""How our broker makes itself known to name servers: what to say (`Announcement`), to whom and when (`Registrar`).

Pure: no clock, no connection.  Whoever drives a `Registrar` asks it what is `due`, puts each question to its name server, and
reports `answered` or `failed`; name servers do not wait for each other.  Cadence as Java's `BrokerController`: at the start, 10 s
later, then every period; a changed topic at once, alone.  Better than there: a name server whose connection broke, or that did
not answer, is asked again soon and gets everything, so that one that restarted knows us after a second and not after half a
minute (apache/rocketmq#9411).
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from broker_impl.engine.slices import ROWS_PER_SLICE, Slices, joined
from broker_impl.namesrv.registrations import Registration, Unregistration
from rmq_net.log import Log
from rmq_wire.bodies.data_version import DataVersion
from rmq_wire.bodies.kv import KVTable
from rmq_wire.bodies.registration import RegisterBrokerBody, compressed_pieces
from rmq_wire.bodies.route import QueueData, TopicRouteData
from rmq_wire.bodies.topics import PERM_READ, PERM_WRITE, TopicConfig, TopicConfigTable
from rmq_wire.checksum import body_crc
from rmq_wire.codes import ResponseCode
from rmq_wire.command import Command
from rmq_wire.declare import Request
from rmq_wire.errors import WireError
from rmq_wire.headers.naming import QueryDataVersion, QueryDataVersionResponse, RegisterBroker, RegisterTopic, UnregisterBroker
from rmq_wire.layout.frame import FRAME_BYTES_MAX

SECOND_MS: Final = 10_000
"""The second registration follows the first after this (Java: the initial delay of the register task)."""
PERIOD_MS_MIN, PERIOD_MS_MAX = 10_000, 60_000
"""Bounds that Java puts on `registerNameServerPeriod`."""
BODY_BYTES_MAX: Final = FRAME_BYTES_MAX - (64 << 10)
"""What leaves room for the header of a frame."""
LEAVE_TIMEOUT_MS: Final = 3_000
SINGLE_TOPIC_TIMEOUT_MS: Final = 3_000
RETRY_MS_MIN, RETRY_MS_MAX = 1_000, 5_000
"""Pause after a failure, doubled each time: a dead name server costs twelve attempts a minute."""


class Settings(Protocol):
    """What is taken from `BrokerConfig`; `broker_permission` may change while we run."""

    @property
    def broker_permission(self) -> int: ...
    @property
    def compressed_register(self) -> bool: ...
    @property
    def enable_single_topic_register(self) -> bool: ...
    @property
    def enable_split_registration(self) -> bool: ...
    @property
    def force_register(self) -> bool: ...
    @property
    def register_broker_timeout_mills(self) -> int: ...
    @property
    def register_name_server_period(self) -> int: ...
    @property
    def split_registration_size(self) -> int: ...


class Topics(Protocol):
    """What is taken from `TopicTable`."""

    @property
    def table(self) -> Mapping[str, TopicConfig]: ...
    @property
    def data_version(self) -> DataVersion: ...
    def is_saved(self, name: str) -> bool: ...
    def version_told(self, *, again: bool = False) -> DataVersion: ...
    def set_order_topics(self, ordered: Iterable[str]) -> None: ...


class Identity(NamedTuple):
    """Who we are.  Addresses are `host:port` as others reach them."""

    cluster: str
    name: str
    broker_id: int
    addr: str
    ha_addr: str


class Asked(NamedTuple):
    """A question to a name server (`host:port`) and how long its answer may take."""

    namesrv: str
    request: Request
    body: bytes
    timeout_ms: int


class Announcement:
    """What a broker says about itself and its topics, all of them or some."""

    def __init__(self, identity: Identity, settings: Settings, topics: Topics) -> None:
        self.identity = identity
        self.settings = settings
        self.topics = topics

    def registration(self, topics: dict[str, TopicConfig]) -> Registration:
        """For a name server in this process: `NameServer.embed`.  `topics` are `offered`."""
        who = self.identity
        version = self.topics.version_told()
        return Registration(who.cluster, who.name, who.broker_id, who.addr, who.ha_addr, topics, version, acting_master=False)

    def unregistration(self) -> Unregistration:
        """The same at the end: `NameServer.withdraw`."""
        who = self.identity
        return Unregistration(who.cluster, who.name, who.broker_id, who.addr)

    def registers(self, changed: Iterable[TopicConfig] | None = None) -> Slices[list[tuple[Request, bytes]]]:
        """Code 103 with its body: one request, or several when the table is to be split, or fits into no frame (*differs*: Java
        sends what name servers close the connection for).
        """
        table: dict[str, TopicConfig] = {}
        version = self.topics.version_told(again=changed is not None)  # what is announced from here on has another one
        yield from self.offering(table, None if changed is None else list(changed))
        size = max(len(table), 1)
        if self.settings.enable_split_registration and changed is None:
            size = self.settings.split_registration_size
        items = list(table.items())
        parts = deque(items[start : start + size] for start in range(0, max(len(items), 1), size))
        found: list[tuple[Request, bytes]] = []
        is_split = len(parts) > 1
        while parts:
            part = parts.popleft()
            if is_split:  # a name server has been told of `version`, and passes over what comes under it again
                version = self.topics.version_told(again=True)
            request, body = yield from self._register(dict(part), version)
            if len(body) > BODY_BYTES_MAX and len(part) > 1:
                is_split = True
                parts.extendleft((part[len(part) // 2 :], part[: len(part) // 2]))
            else:
                found.append((request, body))
            yield None
        return found

    def single_topics(self, changed: Iterable[TopicConfig]) -> Slices[list[tuple[Request, bytes]]]:
        """Code 217, one per topic: what `enableSingleTopicRegister` wants instead of an increment."""
        found: list[tuple[Request, bytes]] = []
        for count, (name, config) in enumerate(self.offered(changed).items(), 1):
            found.append((RegisterTopic(topic=name), TopicRouteData(queue_datas=[self._queues(config)]).encode()))
            if count % ROWS_PER_SLICE == 0:
                yield None
        return found

    def question(self) -> tuple[Request, bytes]:
        """Code 322: do you have this version?"""
        who = self.identity
        asked = QueryDataVersion(broker_name=who.name, broker_addr=who.addr, cluster_name=who.cluster, broker_id=who.broker_id)
        return asked, self.topics.data_version.encode()

    def goodbye(self) -> Request:
        """Code 104."""
        who = self.identity
        return UnregisterBroker(broker_name=who.name, broker_addr=who.addr, cluster_name=who.cluster, broker_id=who.broker_id)

    def _register(self, table: dict[str, TopicConfig], version: DataVersion) -> Slices[tuple[Request, bytes]]:
        said = RegisterBrokerBody(
            topic_config_serialize_wrapper=TopicConfigTable(
                data_version=version,
                mapping_data_version=DataVersion(timestamp=version.timestamp),
                topic_config_table=table,
                topic_queue_mapping_detail_map={},
                topic_queue_mapping_info_map={},
            )
        )
        compressed = self.settings.compressed_register
        body = yield from joined(compressed_pieces(said) if compressed else said.pieces(), bytes_max=sys.maxsize)
        who = self.identity
        header = RegisterBroker(
            broker_name=who.name,
            broker_addr=who.addr,
            cluster_name=who.cluster,
            ha_server_addr=who.ha_addr,
            broker_id=who.broker_id,
            enable_acting_master=False,
            compressed=compressed,
            body_crc32=body_crc(body),
        )
        return header, body

    def offering(self, offered: dict[str, TopicConfig], topics: Sequence[TopicConfig] | None = None) -> Slices[None]:
        """Fill `offered` with these topics, or all as each is when its turn comes.

        Left out is one that is deleted meanwhile, and one that is not on the disk: nobody takes it back if it never gets there.
        """
        names = [config.topic_name for config in topics] if topics is not None else list(self.topics.table)
        given = {config.topic_name: config for config in topics} if topics is not None else self.topics.table
        for start in range(0, len(names), 4 * ROWS_PER_SLICE):
            if start:
                yield None
            some = [name for name in names[start : start + 4 * ROWS_PER_SLICE] if self.topics.is_saved(name)]
            offered.update(self.offered(given[name] for name in some))

    def offered(self, topics: Iterable[TopicConfig]) -> dict[str, TopicConfig]:
        """By name, with no more permission than the broker itself has."""
        permission = self.settings.broker_permission
        if permission & PERM_READ and permission & PERM_WRITE:
            return {config.topic_name: config for config in topics}
        return {config.topic_name: _limited(config, permission) for config in topics}

    def _queues(self, config: TopicConfig) -> QueueData:
        return QueueData(
            broker_name=self.identity.name,
            read_queue_nums=config.read_queue_nums,
            write_queue_nums=config.write_queue_nums,
            perm=config.perm,
            topic_sys_flag=config.topic_sys_flag,
        )


def _limited(config: TopicConfig, permission: int) -> TopicConfig:
    return TopicConfig(
        topic_name=config.topic_name,
        read_queue_nums=config.read_queue_nums,
        write_queue_nums=config.write_queue_nums,
        perm=config.perm & permission,
        topic_sys_flag=config.topic_sys_flag,
    )


class _Target:
    """One name server as we see it.  `queue`: what it is still to be asked; its head is under way while `asking`."""

    __slots__ = ("all_wanted", "asking", "changed", "failures", "namesrv", "next_ms", "queue", "registered", "retry_ms", "said")

    def __init__(self, namesrv: str, now_ms: int) -> None:
        self.namesrv = namesrv
        self.next_ms = now_ms
        self.retry_ms = now_ms
        self.failures = 0
        self.said = ""
        """Why it failed last, as it was logged; empty while it answers."""
        self.all_wanted = True
        self.changed: dict[str, TopicConfig] = {}
        self.queue: deque[Asked] = deque()
        self.asking = False
        self.registered = False


class Registrar:
    """Keeps a broker registered with several name servers.  Times are mono milliseconds.

    `on_due()` is called whenever something may have become due before `next_due_ms()` said so: whoever sleeps until then wakes.
    """

    def __init__(
        self,
        announcement: Announcement,
        namesrvs: Sequence[str],
        now_ms: int,
        log: Log,
        on_due: Callable[[], None] | None = None,
    ) -> None:
        self.announcement = announcement
        self.settings = announcement.settings
        self.on_due = on_due
        self._log = log
        self._targets = {namesrv: _Target(namesrv, now_ms) for namesrv in namesrvs}
        self._started_ms = now_ms
        self._left = False

    @property
    def registered(self) -> list[str]:
        """Name servers that know us, as far as we know."""
        return [target.namesrv for target in self._targets.values() if target.registered]

    def topics_changed(self, changed: Sequence[TopicConfig]) -> None:
        """These topics are new or different: register them everywhere at once.  (A listener for `TopicTable.on_change`.)"""
        for target in self._targets.values():
            target.changed.update((config.topic_name, config) for config in changed)
        self._woken()

    def everything_changed(self) -> None:
        """Register all over at once, as after a change of `brokerPermission`."""
        self.announcement.topics.version_told(again=True)  # name servers pass over topics of a version that they know
        for target in self._targets.values():
            target.all_wanted = True
        self._woken()

    def due(self, now_ms: int) -> Slices[list[Asked]]:
        """What to ask now; each name server at most one question at a time.  Nobody may ask again before this has ended."""
        found = []
        for target in self._targets.values():
            if self._left or target.asking or now_ms < target.retry_ms:
                continue
            yield from self._fill(target, now_ms)
            if target.queue and not self._left:
                target.asking = True
                found.append(target.queue[0])
        return found

    def next_due_ms(self) -> int | None:
        """When something is due next; None while all that is wanted is under way."""
        times = [
            target.retry_ms if target.queue or target.changed or target.all_wanted else max(target.next_ms, target.retry_ms)
            for target in self._targets.values()
            if not target.asking
        ]
        return min(times, default=None) if not self._left else None

    def answered(self, asked: Asked, response: Command, now_ms: int) -> str | None:
        """A name server's answer.  Returns what is wrong with it, if anything."""
        target = self._targets[asked.namesrv]
        if response.code != ResponseCode.SUCCESS:
            return self.failed(asked, f"answered {response.code} {response.remark or ''}", now_ms)
        try:
            self._take(target, asked, response)
        except WireError as wrong:
            return self.failed(asked, str(wrong), now_ms)
        target.queue.popleft()
        target.asking = False
        if target.failures:
            self._log.warning("name server %s answers again after %d failures", asked.namesrv, target.failures)
        target.failures, target.said = 0, ""
        return None

    def failed(self, asked: Asked, why: str, now_ms: int) -> str:
        """There was no good answer: everything is said again after a pause.  Logged when it is news; returned always."""
        target = self._targets[asked.namesrv]
        target.queue.clear()
        target.asking = False
        target.registered = False
        target.all_wanted = True
        pause_ms = min(RETRY_MS_MIN << min(target.failures, 8), RETRY_MS_MAX)
        target.failures += 1
        target.retry_ms = now_ms + pause_ms
        if why != target.said:
            target.said = why
            self._log.warning("name server %s: %s; tried again every %d ms", asked.namesrv, why, RETRY_MS_MAX)
        return f"name server {asked.namesrv}: {why}"

    def disconnected(self, namesrv: str) -> None:
        """The connection to it broke: it has dropped us from its routes, so it is sent everything as soon as it can be
        reached.
        """
        target = self._targets[namesrv]
        target.registered = False
        target.all_wanted = True
        self._woken()

    def leave(self) -> list[Asked]:
        """What to say at the end to everybody who may know us; answers do not matter.  Nothing else is due afterwards."""
        self._left = True
        request = self.announcement.goodbye()
        known = [target.namesrv for target in self._targets.values() if target.registered or target.asking]
        return [Asked(namesrv, request, b"", LEAVE_TIMEOUT_MS) for namesrv in known]

    def _woken(self) -> None:
        if self.on_due is not None:
            self.on_due()

    def _fill(self, target: _Target, now_ms: int) -> Slices[None]:
        """Decide what this name server is asked next."""
        if target.queue:
            return
        if now_ms >= target.next_ms:
            target.next_ms = self._following(now_ms)
            if target.registered and not target.all_wanted and not self.settings.force_register:
                self._put(target, [self.announcement.question()])
                return
            target.all_wanted = True
        if target.all_wanted:
            target.all_wanted = False
            target.changed.clear()
            self._put(target, (yield from self.announcement.registers()))
        elif target.changed:
            is_saved = self.announcement.topics.is_saved
            changed, target.changed = [config for name, config in target.changed.items() if is_saved(name)], {}
            if not changed:
                return
            if self.settings.enable_single_topic_register:
                self._put(target, (yield from self.announcement.single_topics(changed)), SINGLE_TOPIC_TIMEOUT_MS)
            else:
                self._put(target, (yield from self.announcement.registers(changed)))

    def _following(self, now_ms: int) -> int:
        """The next regular time after `now_ms`."""
        second = self._started_ms + SECOND_MS
        if now_ms < second:
            return second
        period = min(max(self.settings.register_name_server_period, PERIOD_MS_MIN), PERIOD_MS_MAX)
        return second + ((now_ms - second) // period + 1) * period

    def _put(self, target: _Target, questions: Sequence[tuple[Request, bytes]], timeout_ms: int | None = None) -> None:
        timeout_ms = timeout_ms or self.settings.register_broker_timeout_mills
        target.queue.extend(Asked(target.namesrv, request, body, timeout_ms) for request, body in questions)

    def _take(self, target: _Target, asked: Asked, response: Command) -> None:
        if isinstance(asked.request, QueryDataVersion):
            known = DataVersion.read(response.body) if response.body else None
            changed = response.header(QueryDataVersionResponse).changed
            target.all_wanted = target.all_wanted or changed or known != self.announcement.topics.data_version
        elif isinstance(asked.request, RegisterBroker):
            target.registered = True
            if response.body:
                self.announcement.topics.set_order_topics(KVTable.read(response.body).table)
