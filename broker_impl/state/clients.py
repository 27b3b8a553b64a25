"""Who is connected: consumers by group with what they subscribe to, producers by group.

A member is a connection, not a client id: one client on two connections counts twice, as in Java.  What each connection
belongs to is kept beside the tables, so that a close costs what it removes.  Changes of a group's members or subscriptions go
to listeners, one of which notifies the members (code 40).  Silence is measured on the monotonic clock; wall time is only shown.

Java: `ConsumerManager`, `ProducerManager`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING, TypeVar

from broker_impl.config import BrokerConfig
from broker_impl.env import Env
from broker_impl.state.consumer_group import Client, ConsumerGroup
from broker_impl.state.subscription_conflicts import SAID_AGAIN_MS, difference
from rmq_wire.bodies.heartbeat import ConsumerData, SubscriptionData

if TYPE_CHECKING:
    from broker_impl.engine.peer import Peer

K = TypeVar("K")

CLIENT_ID_CHARACTERS_MAX = 1_024
"""Of a client id, which is an address, a process id and a unit name; and of a producer group's name."""
PRODUCER_SILENCE_MS_MAX = 120_000
"""After this without a heartbeat a producer's connection is closed (`ProducerManager.CHANNEL_EXPIRED_TIMEOUT`)."""
COMPENSATED_CHARACTERS_MAX = 64 << 20
"""Of what pulls say of their groups' subscriptions, 500 more for each, 100 for each tag.  What does not fit is not noted; only
tools ask."""


class Clients:
    """Both tables.  The listeners are called inside the turn in which something changed."""

    def __init__(self, config: BrokerConfig, env: Env) -> None:
        self._config = config
        self._env = env
        self._consumers: dict[str, ConsumerGroup] = {}
        self._producers: dict[str, dict[Peer, Client]] = {}
        self._producer_peers: dict[str, Peer] = {}
        self._compensated: dict[str, ConsumerGroup] = {}
        self._compensated_characters = 0
        self._groups_of_topic: dict[str, dict[str, None]] = {}
        self._consumes: dict[Peer, dict[str, None]] = {}
        self._produces: dict[Peer, dict[str, None]] = {}
        self._fingerprints: dict[str, int] = {}
        self.on_members_changed: list[Callable[[str], None]] = []
        """Group: its members must share its queues anew."""
        self.on_subscribed: list[Callable[[str, Sequence[SubscriptionData]], None]] = []
        """Group and what a heartbeat said it subscribes to."""
        self.on_group_gone: list[Callable[[str], None]] = []
        """The group's last member has left."""

    # -- consumers

    def consumer_group(self, group: str) -> ConsumerGroup | None:
        """The group if it has members."""
        return self._consumers.get(group)

    @property
    def consumer_groups(self) -> Mapping[str, ConsumerGroup]:
        """All groups with members."""
        return self._consumers

    def consumer(self, group: str, client_id: str) -> Client | None:
        """One member by its id."""
        found = self._consumers.get(group)
        return found.find(client_id) if found is not None else None

    def subscription(self, group: str, topic: str) -> SubscriptionData | None:
        """What the group wants of the topic: from heartbeats, else from what pulls said (`findSubscriptionData`)."""
        found = self._consumers.get(group)
        if found is not None:
            subscription = found.subscriptions.get(topic)
            if subscription is not None:
                return subscription
        if self._compensated:
            found = self._compensated.get(group)
            if found is not None:
                return found.subscriptions.get(topic)
        return None

    def groups_subscribed(self, topic: str) -> list[str]:
        """Groups whose heartbeats name the topic (`queryTopicConsumeByWho`)."""
        return list(self._groups_of_topic.get(topic, ()))

    def fingerprint_changed(self, group: str, fingerprint: int) -> bool:
        """Remember the fingerprint of a group's heartbeat; was there another one before?"""
        old = self._fingerprints.get(group)
        self._fingerprints[group] = fingerprint
        return old is not None and old != fingerprint

    def register_consumer(self, client: Client, data: ConsumerData, *, notify: bool, with_subscriptions: bool = True) -> bool:
        """A heartbeat of one member; true when members or subscriptions changed (`registerConsumer`, `…WithoutSub`).

        `notify`: the group's own switch for notifying its members.
        """
        group = self._consumers.get(data.group_name)
        if group is None:
            group = self._consumers[data.group_name] = ConsumerGroup(data.group_name)
        changed = self._update_member(group, client, data)
        if with_subscriptions:
            self._look_for_conflict(group, client, data.subscription_data_set)
            changed = self._update_subscriptions(group, data.subscription_data_set) or changed
        if changed and notify and not group.broadcasting:
            self._members_changed(group)
        if with_subscriptions:
            for listener in self.on_subscribed:
                listener(group.name, data.subscription_data_set)
        return changed

    def unregister_consumer(self, group_name: str, peer: Peer, *, notify: bool) -> None:
        """A member says good-bye (`unregisterConsumer`)."""
        group = self._consumers.get(group_name)
        if group is None:
            return
        _forget(self._consumes, peer, group_name)
        group.listed = None
        if group.members.pop(peer, None) is not None:
            self._env.log.info("consumer of group %s at %s:%d unregistered", group_name, *peer.remote[:2])
        self._drop_if_empty(group)
        if notify and not group.broadcasting:
            self._members_changed(group)

    def compensated(self, group_name: str, topic: str) -> SubscriptionData | None:
        """What a pull said last of its group's subscription to a topic."""
        group = self._compensated.get(group_name)
        return None if group is None else group.subscriptions.get(topic)

    def compensate(self, group_name: str, consume_type: str, message_model: str, subscription: SubscriptionData | None) -> None:
        """What a pull without heartbeat says of its group (`compensateBasicConsumerInfo`, `compensateSubscribeData`)."""
        group = self._compensated.get(group_name)
        if group is None:
            group = self._compensated[group_name] = ConsumerGroup(group_name)
        group.consume_type, group.message_model = consume_type, message_model
        if subscription is not None:
            old = group.subscriptions.get(subscription.topic)
            size = _size(subscription) - (_size(old) if old is not None else 0)
            if self._compensated_characters + size <= COMPENSATED_CHARACTERS_MAX:
                self._compensated_characters += size
                group.subscriptions[subscription.topic] = subscription

    # -- producers

    def producer_group(self, group: str) -> Mapping[Peer, Client] | None:
        """The members of a producer group, or None."""
        return self._producers.get(group)

    @property
    def producer_groups(self) -> Mapping[str, Mapping[Peer, Client]]:
        """All producer groups."""
        return self._producers

    def producer_peer(self, client_id: str) -> Peer | None:
        """The connection on which a producer was last registered (`findChannel`)."""
        return self._producer_peers.get(client_id)

    def register_producer(self, group: str, client: Client) -> None:
        """A heartbeat of one producer (`registerProducer`)."""
        members = self._producers.get(group)
        known = members.get(client.peer) if members is not None else None
        if known is not None:
            known.seen(self._env)
            return
        if not self._config.enable_register_producer and self._config.reject_transaction_message:
            return
        if members is None:
            members = self._producers[group] = {}
        members[client.peer] = client
        self._producer_peers[client.client_id] = client.peer
        self._produces.setdefault(client.peer, {})[group] = None
        self._env.log.info("producer %s of group %s connected", client.client_id, group)

    def unregister_producer(self, group: str, peer: Peer, client_id: str) -> None:
        """A producer says good-bye (`unregisterProducer`)."""
        members = self._producers.get(group)
        if members is None:
            return
        members.pop(peer, None)
        _forget(self._produces, peer, group)
        if self._producer_peers.get(client_id) is peer:
            del self._producer_peers[client_id]
        if not members:
            del self._producers[group]

    # -- connections

    def memberships(self, peer: Peer, consumers: Set[str] = frozenset(), producers: Set[str] = frozenset()) -> int:
        """How many consumer groups, or producer groups if those are more, the connection would be in with these."""
        consumes = self._consumes.get(peer, {}).keys() | consumers
        produces = self._produces.get(peer, {}).keys() | producers
        return max(len(consumes), len(produces))

    def said_bytes(self, peer: Peer, but: Set[str]) -> int:
        """What is remembered of the heartbeats of the connection's groups, `but` for these."""
        groups = self._consumers
        return sum(groups[name].said_bytes for name in self._consumes.get(peer, ()) if name not in but and name in groups)

    def note_said(self, group_name: str, size: int) -> None:
        """A heartbeat of so many bytes said what the group subscribes to."""
        group = self._consumers.get(group_name)
        if group is not None:
            group.said_bytes = size

    def on_close(self, peer: Peer) -> None:
        """The connection is gone: its memberships end, and the other members hear of it (`doChannelCloseEvent`)."""
        for name in self._consumes.pop(peer, ()):
            group = self._consumers.get(name)
            if group is not None and group.members.pop(peer, None) is not None:
                group.listed = None
                self._drop_if_empty(group)
                if not group.broadcasting:
                    self._members_changed(group)
        for name in self._produces.pop(peer, ()):
            members = self._producers.get(name)
            client = members.pop(peer, None) if members is not None else None
            if client is not None and self._producer_peers.get(client.client_id) is peer:
                del self._producer_peers[client.client_id]
            if members is not None and not members:
                del self._producers[name]

    def silent(self) -> Iterator[Peer]:
        """Connections that have not been heard of for too long, to be closed by the caller (`scanNotActiveChannel`)."""
        now = self._env.mono_ms
        found: dict[Peer, None] = {}
        for group in self._consumers.values():
            for peer, client in group.members.items():
                if now - client.seen_mono_ms > self._config.channel_expired_timeout:
                    found[peer] = None
        for members in self._producers.values():
            for peer, client in members.items():
                if now - client.seen_mono_ms > PRODUCER_SILENCE_MS_MAX:
                    found[peer] = None
        return iter(found)

    def sweep_compensated(self) -> None:
        """Forget what pulls said long ago (`removeExpireConsumerGroupInfo`)."""
        oldest = self._env.wall_ms - self._config.subscription_expired_timeout
        for name in list(self._compensated):
            group = self._compensated[name]
            for topic in [topic for topic, said in group.subscriptions.items() if said.sub_version < oldest]:
                self._compensated_characters -= _size(group.subscriptions.pop(topic))
            if not group.subscriptions:
                del self._compensated[name]

    def _update_member(self, group: ConsumerGroup, client: Client, data: ConsumerData) -> bool:
        group.take_over(data)
        known = group.members.get(client.peer)
        if known is None or known.client_id != client.client_id:
            if known is not None:
                self._env.log.error(
                    "the connection of %s in group %s now speaks for %s",
                    known.client_id,
                    group.name,
                    client.client_id,
                )
            group.members[client.peer], group.listed = client, None
            self._consumes.setdefault(client.peer, {})[group.name] = None
        else:
            known.seen(self._env)
        if known is None:
            self._env.log.info("consumer %s of group %s connected", client.client_id, group.name)
        return known is None

    def _update_subscriptions(self, group: ConsumerGroup, said: Iterable[SubscriptionData]) -> bool:
        """A newer version replaces what is known without counting as a change; topics that are not named any more are dropped."""
        changed = False
        topics: set[str] = set()
        for subscription in said:
            topic = subscription.topic
            topics.add(topic)
            if not subscription.sub_version:  # not every client says one; Java's class has the time at which it is read
                subscription.sub_version = self._env.wall_ms
            known = group.subscriptions.get(topic)
            if known is None:
                changed = True
                self._groups_of_topic.setdefault(topic, {})[group.name] = None
            if known is None or subscription.sub_version > known.sub_version:
                group.subscriptions[topic] = subscription
        for topic in [topic for topic in group.subscriptions if topic not in topics]:
            group.unsubscribe(topic)
            _forget(self._groups_of_topic, topic, group.name)
            changed = True
        if changed:
            self._env.log.info("group %s now subscribes to %s", group.name, sorted(group.subscriptions))
        return changed

    def _look_for_conflict(self, group: ConsumerGroup, client: Client, said: Iterable[SubscriptionData]) -> None:
        """Before what is said replaces what another member said."""
        other = group.members.get(group.speaker) if group.speaker is not None else None
        group.speaker = client.peer
        if other is None or other.peer is client.peer:
            return
        said_ms, now = group.conflict_said_mono_ms, self._env.mono_ms
        if said_ms is not None and now - said_ms < SAID_AGAIN_MS:
            return
        found = difference(group.subscriptions, said)
        if found:
            group.conflict_said_mono_ms = now
            self._env.log.warning(
                "group %s: member %s subscribes otherwise than member %s: %s. For all of them counts whoever subscribed last, "
                "and the last heartbeat decides which topics: messages pass by who did not ask for that. Let all members "
                "subscribe alike",
                *(group.name, client.client_id, other.client_id, found),
            )

    def _drop_if_empty(self, group: ConsumerGroup) -> None:
        if group.members or self._consumers.get(group.name) is not group:
            return
        del self._consumers[group.name]
        self._fingerprints.pop(group.name, None)
        for topic in group.subscriptions:
            _forget(self._groups_of_topic, topic, group.name)
        self._env.log.info("the last consumer of group %s is gone", group.name)
        for listener in self.on_group_gone:
            listener(group.name)

    def _members_changed(self, group: ConsumerGroup) -> None:
        if self._config.notify_consumer_ids_changed_enable:
            for listener in self.on_members_changed:
                listener(group.name)


def _size(said: SubscriptionData) -> int:
    return 500 + len(said.topic) + 2 * len(said.sub_string or "") + 100 * len(said.code_set)


def _forget(table: dict[K, dict[str, None]], key: K, member: str) -> None:
    """Take `member` out of the set under `key`, and the set when it is empty."""
    found = table.get(key)
    if found is not None:
        found.pop(member, None)
        if not found:
            del table[key]
