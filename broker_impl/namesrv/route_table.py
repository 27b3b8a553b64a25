"""Who serves what: the tables of a name server, changed by registrations, unregistrations, closed connections and time.

Plain dictionaries, changed at once by whoever asks; time is handed in (`mono_ms`).  Java (`RouteInfoManager`) decides that a
broker is gone, queues it and removes it later by its address, so that a slow queue can remove what has just registered again
(apache/rocketmq#11043).  Here nothing lies between the decision and the removal, an entry knows the connection that made it,
and a connection that closes takes away only what is still its own.  The same rule holds for an unregistration that comes in on a
connection which registered this broker before a newer one did.

What always holds: every address in `brokers` is live under that name, and the other way round; a cluster lists a name exactly
while one of its brokers is live there; a topic has queues only in known brokers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Protocol

from broker_impl.engine.slices import ROWS_PER_SLICE, Slices, finished
from broker_impl.namesrv.registrations import (
    Expired,
    Key,
    Link,
    LiveBroker,
    LiveBrokers,
    MinIdChanged,
    Registered,
    Registration,
    Unregistration,
)
from broker_impl.namesrv.topic_queues import TopicQueues
from rmq_net.log import Log, plain_text
from rmq_wire.bodies.data_version import DataVersion
from rmq_wire.bodies.route import MASTER_ID, BrokerData, QueueData
from rmq_wire.bodies.topics import PERM_WRITE

EPOCH_MAX: Final = (1 << 31) - 1
"""Of a controller."""
WHO_CHARS_MAX: Final = 64
"""Of each name in a log line."""

BROKERS_MAX: Final = 10_000
"""Broker names.  A route over all of them is one answer."""
ROWS_PER_LINK_MAX: Final = 100_000
"""Topics, once for each broker, of all brokers that registered on one connection: they go at once when it closes."""


class Full(ValueError):
    """There is no room for what a registration brings.  The text says of what."""


class Settings(Protocol):
    """What the tables take from the configuration; both may change while we run."""

    @property
    def delete_topic_with_broker_registration(self) -> bool: ...
    @property
    def notify_min_broker_id_changed(self) -> bool: ...


class RouteTable:
    """The tables.  `on_min_id_changed` hears of changes of the smallest broker id, when the configuration asks for it."""

    def __init__(self, settings: Settings, log: Log, on_min_id_changed: Callable[[MinIdChanged], None] | None = None) -> None:
        self.settings = settings
        self._log = log
        self.on_min_id_changed = on_min_id_changed
        self.queues = TopicQueues()
        self.topics, self.mappings = self.queues.topics, self.queues.mappings
        self.brokers: dict[str, BrokerData] = {}
        self.clusters: dict[str, dict[str, None]] = {}
        """Cluster -> broker names (as keys: a set that keeps its order)."""
        self.live = LiveBrokers()
        self.filter_servers: dict[Key, list[str]] = {}

    # -- brokers come -------------------------------------------------------------------------------------------------

    def register(self, asked: Registration, mono_ms: int) -> Registered | None:
        """Enter a broker, or take its news.  None: refused, because an increment came from a broker that we do not know.

        Raises `Full`.
        """
        return finished(self.registering(asked, mono_ms))

    def registering(self, asked: Registration, mono_ms: int) -> Slices[Registered | None]:
        """The same in slices: the broker at once, then its topics.  What is left of them is dropped when the broker goes, or
        another connection registers it; an embedded one may say news meanwhile.
        """
        key = (asked.cluster, asked.addr)
        known = self.brokers.get(asked.name)
        holder = known.broker_addrs.get(asked.broker_id) if known else None
        if not asked.embedded and self._is_embedded(asked, holder):
            self._log.warning("registration ignored: it would take the place of a broker of this process: %s", _who(asked))
            return Registered()
        if holder is not None and holder != asked.addr and self._is_newer(asked, holder):
            self._remove([key])
            return Registered()
        if holder is None and len(asked.topics) == 1:
            self._log.warning("increment from a broker that has not registered: %s", _who(asked))
            return None
        self._check_room(asked)
        previous = self.live.get(key)
        if previous is not None and previous.name != asked.name:
            self._remove([key])
            previous = None
        changed = holder is None or previous is None or previous.unfinished > 0 or previous.version != asked.version
        broker, min_before = self._enter(asked, holder)
        live = LiveBroker(asked, mono_ms, previous)
        self.live.enter(key, live)
        if previous is None:
            self._log.info("broker registered: %s", _who(asked))
        if asked.broker_id == MASTER_ID or self._is_prime_slave(asked, broker):
            for _ in self._take_topics(asked, broker, changed=changed):
                yield None
                now = self.live.get(key)
                if now is not live and not (now is not None and now.embedded and now.name == asked.name and asked.embedded):
                    return Registered()
        entered = self.live[key]
        if len(asked.topics) >= entered.unfinished:  # fewer are news, and not what was begun
            entered.unfinished = 0
        self._take_filter_servers(key, asked.filter_servers)
        if asked.broker_id < min_before:
            self._notify_min_id(broker, None, asked.ha_addr)
        return self._master_of(asked, broker)

    def _is_embedded(self, asked: Registration, holder: str | None) -> bool:
        """Does a broker of this process, which surely lives, have this address or this id?"""
        there = self.live.get((asked.cluster, asked.addr))
        if there is not None and there.embedded:
            return True
        return any(self.live[key].embedded and key[1] in (asked.addr, holder) for key in self.live.of_name(asked.name))

    def _check_room(self, asked: Registration) -> None:
        if asked.embedded:
            return
        if asked.name not in self.brokers and len(self.brokers) >= BROKERS_MAX:
            raise Full(f"{BROKERS_MAX} brokers are registered")
        names = {self.live[key].name for key in self.live.of_link(asked.link)} - {asked.name}
        rows = sum(map(self.queues.count, names))
        own = self.queues.topics_of(asked.name)
        if rows + len(own) + len(asked.topics) > ROWS_PER_LINK_MAX < rows + len(own | asked.topics.keys()):
            raise Full(f"the brokers of one connection have {ROWS_PER_LINK_MAX} topics at most")

    def _is_newer(self, asked: Registration, holder: str) -> bool:
        """Does the live broker under this id, at another address, have a newer state version?

        That is the epoch for which a controller made it the master: 1 and up, an `int` (`ReplicasManager.changeToMaster`).
        Without a controller it is 0, which says nothing about who is newer: no claim of somebody else keeps such a broker out.
        """
        own = asked.version.state_version
        live = next((self.live[key] for key in self.live.of_name(asked.name) if key[1] == holder), None)
        if live is None or own == 0 or _epoch(live.version.state_version) <= _epoch(own):
            return False
        self._log.warning(
            "registration ignored: %s has state version %d, %s at %s has %d",
            _who(asked),
            asked.version.state_version,
            live.name,
            holder,
            live.version.state_version,
        )
        return True

    def _enter(self, asked: Registration, holder: str | None) -> tuple[BrokerData, int]:
        """Into `clusters` and `brokers`.  Returns the broker's data and the smallest id before (0 when there was none)."""
        broker = self.brokers.get(asked.name)
        if broker is None:
            broker = self.brokers[asked.name] = BrokerData(cluster=asked.cluster, broker_name=asked.name)
        broker.enable_acting_master = bool(asked.acting_master)
        broker.zone_name = asked.zone
        addrs = broker.broker_addrs
        min_before = min(addrs, default=0)
        for other in [number for number, addr in addrs.items() if addr == asked.addr and number != asked.broker_id]:
            del addrs[other]  # a slave that became the master: an address stands under one id only
        if holder is not None and holder != asked.addr:
            self._log.warning("broker moved: %s was at %s", _who(asked), holder)
        self._supersede(asked, {asked.addr, holder})
        addrs[asked.broker_id] = asked.addr
        self.clusters.setdefault(asked.cluster, {})[asked.name] = None
        if asked.name not in self.clusters.get(broker.cluster, ()):
            broker.cluster = asked.cluster
        return broker, min_before

    def _supersede(self, asked: Registration, addrs: set[str | None]) -> None:
        """Forget what the registering broker, or the one whose id it takes, said before from another place or cluster."""
        old = [key for key in self.live.of_name(asked.name) if key[1] in addrs and key != (asked.cluster, asked.addr)]
        for key in old:
            self.live.leave(key)
            self.filter_servers.pop(key, None)
            self._leave_cluster(key[0], asked.name)

    @staticmethod
    def _is_prime_slave(asked: Registration, broker: BrokerData) -> bool:
        """A slave whose topics count because no smaller id is there."""
        return asked.acting_master is not None and asked.broker_id == min(broker.broker_addrs)

    def _take_topics(self, asked: Registration, broker: BrokerData, *, changed: bool) -> Iterator[None]:
        """Yields between slices; then the broker may have gone."""
        mappings = asked.mappings or {}
        if self.settings.delete_topic_with_broker_registration and not mappings:
            for topic in [topic for topic in self.queues.topics_of(asked.name) if topic not in asked.topics]:
                self.queues.drop(topic, (asked.name,))
        wipe = asked.broker_id != MASTER_ID and broker.enable_acting_master
        for count, topic in enumerate(list(asked.topics), 1):
            if count % (4 * ROWS_PER_SLICE) == 0:
                yield None
            config = asked.topics[topic]
            if not changed and asked.name in self.topics.get(topic, ()):
                continue
            queues = QueueData(
                broker_name=asked.name,
                read_queue_nums=config.read_queue_nums,
                write_queue_nums=config.write_queue_nums,
                perm=config.perm & ~PERM_WRITE if wipe else config.perm,
                topic_sys_flag=config.topic_sys_flag,
            )
            self.queues.enter(topic, queues)
        if changed:
            for topic, info in mappings.items():
                self.queues.enter_mapping(topic, info.bname or asked.name, info)

    def _take_filter_servers(self, key: Key, servers: Sequence[str] | None) -> None:
        if servers:
            self.filter_servers[key] = list(servers)
        elif servers is not None:
            self.filter_servers.pop(key, None)

    def _master_of(self, asked: Registration, broker: BrokerData) -> Registered:
        if asked.broker_id == MASTER_ID:
            return Registered()
        addr = broker.broker_addrs.get(MASTER_ID)
        live = self.live.get((asked.cluster, addr)) if addr is not None else None
        return Registered(live.ha_addr, addr) if live is not None else Registered()

    # -- brokers go ---------------------------------------------------------------------------------------------------

    def unregister(self, gone: Iterable[Unregistration], link: Link | None = None) -> None:
        """Remove brokers that say they go.  Not one that does not hold its address any more, or says so on a former `link`."""
        keys: list[Key] = []
        for asked in gone:
            live = self.live.get((asked.cluster, asked.addr))
            if live is None or live.name != asked.name:
                self._log.info("unregistration of a broker that is not here: %s", _who(asked))
            elif link in live.former or (live.embedded and link is not None):
                self._log.warning("unregistration ignored, the broker is known to live: %s", _who(asked))
            else:
                keys.append((asked.cluster, asked.addr))
        self._remove(keys)

    def link_closed(self, link: Link) -> list[Key]:
        """Remove what this connection registered last.  Returns it."""
        known = self.live.of_link(link)
        keys = [key for key in known if self.live[key].link is link]
        self._remove(keys)
        self.live.forget_link(link)
        return keys

    def expire(self, mono_ms: int) -> list[Expired]:
        """Remove who gave no sign of life for longer than its time-out."""
        late = [
            Expired(*key, live.name, live.timeout_ms, live.link)
            for key, live in self.live.items()
            if live.updated_ms + live.timeout_ms < mono_ms and not live.embedded
        ]
        self._remove([(gone.cluster, gone.addr) for gone in late])
        return late

    def _remove(self, keys: Iterable[Key]) -> None:
        removed: set[str] = set()
        reduced: set[str] = set()
        least_gone: dict[str, str] = {}
        """Broker name -> the address of its smallest id that went last."""
        for key in keys:
            live = self.live.leave(key)
            if live is None:
                continue
            self.filter_servers.pop(key, None)
            broker = self.brokers[live.name]
            was_least = live.broker_id == min(broker.broker_addrs)
            broker.broker_addrs.pop(live.broker_id, None)
            self._leave_cluster(key[0], live.name)
            self._log.info("broker gone: %s %s at %s", live.name, live.broker_id, key[1])
            if not broker.broker_addrs:
                del self.brokers[live.name]
                removed.add(live.name)
            else:
                reduced.add(live.name)
                if was_least:
                    least_gone[live.name] = key[1]
        if removed or reduced:
            self.queues.drop_brokers(removed)
            for name in reduced - removed:
                if self.brokers[name].enable_acting_master and min(self.brokers[name].broker_addrs) > MASTER_ID:
                    self.queues.wipe_write_perm(name)
        for name, addr in least_gone.items():
            if name in self.brokers and self.brokers[name].enable_acting_master:
                self._notify_min_id(self.brokers[name], addr, None)

    def _leave_cluster(self, cluster: str, name: str) -> None:
        """The cluster's list loses the name when none of its brokers is live there any more; the name goes with the others."""
        elsewhere = {key[0]: None for key in self.live.of_name(name)}
        if cluster in elsewhere:
            return
        names = self.clusters.get(cluster, {})
        names.pop(name, None)
        if not names:
            self.clusters.pop(cluster, None)
        broker = self.brokers.get(name)
        if broker is not None and broker.cluster == cluster:
            broker.cluster = next(iter(elsewhere), cluster)

    def _notify_min_id(self, broker: BrokerData, offline_addr: str | None, ha_addr: str | None) -> None:
        """Java: `notifyMinBrokerIdChanged`.  After a loss all that remain are notified, after a gain all but the new one."""
        if self.on_min_id_changed is None or not self.settings.notify_min_broker_id_changed:
            return
        addrs = broker.broker_addrs
        least = min(addrs)
        everybody = offline_addr is not None or len(addrs) == 1
        notified = [addr for number, addr in addrs.items() if everybody or number != least]
        self.on_min_id_changed(MinIdChanged(notified, least, addrs[least], offline_addr, ha_addr))

    # -- signs of life and versions -----------------------------------------------------------------------------------

    def touch(self, cluster: str, addr: str, mono_ms: int) -> None:
        """A sign of life."""
        live = self.live.get((cluster, addr))
        if live is not None:
            live.updated_ms = mono_ms

    def version(self, cluster: str, addr: str) -> DataVersion | None:
        """The version of the topics that this broker registered last, None when they are not all entered."""
        live = self.live.get((cluster, addr))
        return live.version if live is not None and not live.unfinished else None

    # -- topics -------------------------------------------------------------------------------------------------------

    def register_topic(self, topic: str, queue_datas: Sequence[QueueData]) -> None:
        """Enter one topic's queues; nothing happens when one of them names a broker that is not here."""
        if not queue_datas or any(queues.broker_name not in self.brokers for queues in queue_datas):
            self._log.warning("topic %s names a broker that is not here", topic)
            return
        for queues in queue_datas:
            if self.queues.count(queues.broker_name) < ROWS_PER_LINK_MAX:
                self.queues.enter(topic, queues)

    def delete_topic(self, topic: str, cluster: str | None = None) -> None:
        """Forget a topic, or its queues in one cluster's brokers."""
        if cluster:
            self.queues.drop(topic, self.clusters.get(cluster, ()))
        else:
            self.queues.drop_topic(topic)


def _epoch(state_version: int) -> int:
    """No controller gives a number as large as some of those that are sent; it claims nothing."""
    return state_version if state_version <= EPOCH_MAX else 0


def _who(asked: Registration | Unregistration) -> str:
    name, addr, cluster = (plain_text(text, WHO_CHARS_MAX) for text in (asked.name, asked.addr, asked.cluster))
    return f"{name} {asked.broker_id} at {addr} of {cluster}"
