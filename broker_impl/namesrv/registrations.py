"""What brokers say when they come and go, and what the name server keeps of it."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final, NamedTuple, TypeVar

from rmq_wire.bodies.data_version import DataVersion
from rmq_wire.bodies.route import TopicQueueMappingInfo
from rmq_wire.bodies.topics import TopicConfig

HEARTBEAT_TIMEOUT_MS: Final = 120_000
"""How long a broker lives that does not say so itself (Java: `DEFAULT_BROKER_CHANNEL_EXPIRED_TIME`)."""


Link = Hashable
"""A connection, compared by identity."""


class Registration(NamedTuple):
    """What a broker says about itself.

    `acting_master`: None from a broker that does not know the option.  `timeout_ms`: how long it lives without a sign of life.
    `topics`: by name; exactly one is an increment.  `filter_servers`: None says nothing about them.  `link`: the connection it
    came in on.  `embedded`: it runs in this process, cannot expire, and each asker is given an address of it that the asker
    reaches, unless `keeps_address`.
    """

    cluster: str
    name: str
    broker_id: int
    addr: str
    ha_addr: str | None
    topics: dict[str, TopicConfig]
    version: DataVersion
    acting_master: bool | None = None
    zone: str | None = None
    timeout_ms: int | None = None
    mappings: dict[str, TopicQueueMappingInfo] | None = None
    filter_servers: Sequence[str] | None = None
    link: Link | None = None
    embedded: bool = False
    keeps_address: bool = False


class Unregistration(NamedTuple):
    """A broker that goes."""

    cluster: str
    name: str
    broker_id: int
    addr: str


class Registered(NamedTuple):
    """What a slave needs to know of its master; both None for a master."""

    ha_addr: str | None = None
    master_addr: str | None = None


class MinIdChanged(NamedTuple):
    """The smallest broker id under a name changed (code 905): whom to notify, and of what."""

    notified: list[str]
    min_broker_id: int
    min_broker_addr: str
    offline_addr: str | None
    ha_addr: str | None


Key = tuple[str, str]
"""Cluster and address: what a registration is known by."""


class LiveBroker:
    """One registered broker.  `updated_ms`: mono time of its last sign of life.  `former`: connections that it had before.
    `unfinished`: topics of a registration that are not all entered, 0: they are.
    """

    __slots__ = (
        "broker_id",
        "embedded",
        "former",
        "ha_addr",
        "keeps_address",
        "link",
        "name",
        "timeout_ms",
        "unfinished",
        "updated_ms",
        "version",
    )

    def __init__(self, asked: Registration, mono_ms: int, previous: LiveBroker | None) -> None:
        self.name = asked.name
        self.broker_id = asked.broker_id
        self.ha_addr = asked.ha_addr
        self.version = asked.version.copy()
        self.timeout_ms = HEARTBEAT_TIMEOUT_MS if asked.timeout_ms is None else asked.timeout_ms
        self.updated_ms = mono_ms
        self.link = asked.link
        self.former: set[Link] = set()
        self.unfinished = len(asked.topics)
        if previous is not None:
            self.unfinished = max(self.unfinished, previous.unfinished)
            self.former = {*previous.former, previous.link} - {None, asked.link}
        self.embedded = asked.embedded
        self.keeps_address = asked.keeps_address


T = TypeVar("T")
M = TypeVar("M")


def forget(table: dict[T, dict[M, None]], key: T, member: M) -> None:
    """Take the member out of the set under the key, and the set when it is empty."""
    found = table.get(key)
    if found is not None:
        found.pop(member, None)
        if not found:
            del table[key]


class LiveBrokers(dict[Key, LiveBroker]):
    """Who is there, found by name and by connection, too: a connection that closes costs what it takes along.

    Changed by `enter` and `leave` only.
    """

    def __init__(self) -> None:
        super().__init__()
        self._of_name: dict[str, dict[Key, None]] = {}
        self._of_link: dict[Link | None, dict[Key, None]] = {}

    def enter(self, key: Key, live: LiveBroker) -> None:
        """Put in, in place of what is there."""
        self.leave(key)
        self[key] = live
        self._of_name.setdefault(live.name, {})[key] = None
        for link in (live.link, *live.former):
            self._of_link.setdefault(link, {})[key] = None

    def leave(self, key: Key) -> LiveBroker | None:
        """Take out."""
        live = self.pop(key, None)
        if live is not None:
            forget(self._of_name, live.name, key)
            for link in (live.link, *live.former):
                forget(self._of_link, link, key)
        return live

    def of_name(self, name: str) -> list[Key]:
        """The master and the slaves of one name, in every cluster."""
        return list(self._of_name.get(name, ()))

    def of_link(self, link: Link | None) -> list[Key]:
        """Those that registered on this connection last, or did before."""
        return list(self._of_link.get(link, ()))

    def forget_link(self, link: Link) -> None:
        """It has closed."""
        for key in self._of_link.pop(link, ()):
            self[key].former.discard(link)


class Expired(NamedTuple):
    """A broker that gave no sign of life for too long; its connection is to be closed."""

    cluster: str
    addr: str
    name: str
    timeout_ms: int
    link: Link | None
