"""How far each member of a broadcasting group has pulled, so that who changes between broker and proxy goes on where it was.

Members keep their progress themselves.  What they ask for is noted at each pull, and the least of each queue is committed
every 5 s for `GROUP@broadcast`: there a member begins that a proxy brings for the first time.  What is noted is in memory, and
lost with the broker's run.

Java: `BroadcastOffsetManager`, `BroadcastOffsetStore`, `PullMessageProcessor` (queryBroadcastPullInitOffset,
updateBroadcastPulledOffset).  *Differs*: silence is measured on the monotonic clock, and what is noted goes with its topic or
group.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Final, NamedTuple

from broker_impl.config import BrokerConfig
from broker_impl.env import Env
from broker_impl.state.clients import CLIENT_ID_CHARACTERS_MAX, Clients
from broker_impl.state.consumer_offsets import ABSENT, SEPARATOR, ConsumerOffsets
from broker_impl.state.groups import GroupTable
from broker_impl.state.topics import TopicTable
from rmq_store.store import Store
from rmq_wire.bodies.heartbeat import CONSUME_PASSIVELY
from rmq_wire.headers.pull import PullMessage

if TYPE_CHECKING:
    from broker_impl.engine.peer import Peer

COMMIT_MS: Final = 5_000
"""How often the least of each queue is committed (`BroadcastOffsetManager.run`)."""
PROXY_FOR_BROADCAST: Final = 1
"""`requestSource` of a pull that a proxy makes for a member of a broadcasting group (`RequestSource`)."""
COMMITTER: Final = "BroadcastOffset"
"""Who the log says has committed."""
QUEUES_MAX: Final = 100_000
"""Queues of all members that are noted, some 250 bytes each at the most; of more nothing is noted."""
QUEUES_PER_SLICE: Final = 64
"""Looked at between two yields, 1 µs each."""


def broadcast_group(group: str) -> str:
    """Under which name the progress of a broadcasting group's slowest member is kept."""
    return group + SEPARATOR + "broadcast"


class Member(NamedTuple):
    """Who pulls.  `peer`: its connection, None for one that a proxy brings."""

    client_id: str
    peer: Peer | None


class _Noted:
    """Of one member in one topic.  `peer`: where it was last, None for a proxy; `seen_ms`: of its last pull."""

    __slots__ = ("offsets", "peer", "seen_ms")

    def __init__(self) -> None:
        self.peer: Peer | None = None
        self.seen_ms = 0
        self.offsets: dict[int, int] = {}


class BroadcastOffsets:
    """Of one broker."""

    def __init__(
        self,
        env: Env,
        config: BrokerConfig,
        topics: TopicTable,
        groups: GroupTable,
        clients: Clients,
        offsets: ConsumerOffsets,
        store: Store,
    ) -> None:
        self._env = env
        self._config = config
        self._topics = topics
        self._groups = groups
        self._clients = clients
        self._offsets = offsets
        self._store = store
        self._noted: dict[tuple[str, str], dict[str, _Noted]] = {}
        """By topic and group; by client id."""
        self._queues = 0
        self._committing = False

    def __len__(self) -> int:
        """Queues of members that are noted."""
        return self._queues

    def member(self, asked: PullMessage, peer: Peer) -> Member | None:
        """Who pulls, if it is a member of a broadcasting group whose progress is noted."""
        if not self._config.enable_broadcast_offset_store:
            return None
        if asked.request_source == PROXY_FOR_BROADCAST:
            client_id = asked.proxy_froward_client_id
            return None if client_id is None or len(client_id) > CLIENT_ID_CHARACTERS_MAX else Member(client_id, None)
        group = self._clients.consumer_group(asked.consumer_group)
        if group is None or not group.broadcasting or group.consume_type != CONSUME_PASSIVELY:
            return None
        client = group.members.get(peer)
        return None if client is None else Member(client.client_id, peer)

    def begin(self, member: Member, asked: PullMessage) -> int | None:
        """Where it has to begin; None where it says so itself (`queryInitOffset`).  Raises Cold."""
        members = self._noted.get((asked.topic, asked.consumer_group))
        is_new = member.peer is None and asked.queue_offset < 0
        if members is None:
            return self._first(None, asked) if is_new else None
        noted = members.get(member.client_id)
        if is_new or (noted is not None and (noted.peer is None) != (member.peer is None)):
            return self._first(noted, asked)
        return None

    def note(self, member: Member, asked: PullMessage, offset: int) -> None:
        """It has pulled the queue up to there.  Never back (`updateOffset`)."""
        key, queue_id = (asked.topic, asked.consumer_group), asked.queue_id
        members = self._noted.get(key)
        noted = None if members is None else members.get(member.client_id)
        old = None if noted is None else noted.offsets.get(queue_id)
        if old is None:
            if self._queues >= QUEUES_MAX:
                return
            self._queues += 1
        if noted is None:
            noted = self._noted.setdefault(key, {})[member.client_id] = _Noted()
        noted.peer, noted.seen_ms = member.peer, self._env.mono_ms
        noted.offsets[queue_id] = offset if old is None else max(old, offset)

    def _first(self, noted: _Noted | None, asked: PullMessage) -> int:
        offset = ABSENT if noted is None else noted.offsets.get(asked.queue_id, ABSENT)
        if offset < 0:
            offset = self._offsets.query(broadcast_group(asked.consumer_group), asked.topic, asked.queue_id)
        if offset < 0:
            is_near = self._store.is_in_memory(asked.topic, asked.queue_id)
            offset = 0 if is_near else self._store.queue_bounds(asked.topic, asked.queue_id)[1]
        return offset

    def committing(self) -> Generator[None, None, None]:
        """Commit the least of each queue, and forget members that are gone, in slices (`scanOffsetData`)."""
        if self._committing:
            return
        self._committing = True
        try:
            for topic, group in list(self._noted):
                yield from self._commit(topic, group)
        finally:
            self._committing = False

    def _commit(self, topic: str, group: str) -> Generator[None, None, None]:
        members = self._noted[topic, group]
        least: dict[int, int] = {}
        looked_at = 0
        is_left = self._topics.get(topic) is not None and group in self._groups
        for client_id in list(members):
            noted = members[client_id]
            counts, is_over = self._state(group, client_id, noted)
            for queue_id, offset in noted.offsets.items() if counts else ():
                least[queue_id] = min(least.get(queue_id, offset), offset)
            if is_over or not is_left:
                del members[client_id]
                self._queues -= len(noted.offsets)
            looked_at += 1 + len(noted.offsets)
            if looked_at >= QUEUES_PER_SLICE:
                looked_at = 0
                yield
        if not members:
            del self._noted[topic, group]
        if self._topics.get(topic) is not None and group in self._groups:
            for queue_id, offset in least.items():
                self._offsets.commit(broadcast_group(group), topic, queue_id, offset, COMMITTER)

    def _state(self, group: str, client_id: str, noted: _Noted) -> tuple[bool, bool]:
        """Of a member: it counts; and it is forgotten then."""
        config, silent_ms = self._config, self._env.mono_ms - noted.seen_ms
        alone_ms, online_ms = config.broadcast_offset_expire_second * 1_000, config.broadcast_offset_expire_max_second * 1_000
        if silent_ms < min(alone_ms, online_ms):
            return True, False
        is_online = self._is_online(group, client_id, noted)
        return is_online or silent_ms < alone_ms, silent_ms >= (online_ms if is_online else alone_ms)

    def _is_online(self, group: str, client_id: str, noted: _Noted) -> bool:
        """It has a connection of its own."""
        if noted.peer is None:
            return self._clients.consumer(group, client_id) is not None
        found = self._clients.consumer_group(group)
        return found is not None and noted.peer in found.members
