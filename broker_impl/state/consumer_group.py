"""One group of consumers that has members: who they are, how they consume and what they subscribe to.

Java: `ConsumerGroupInfo`, `ClientChannelInfo`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker_impl.env import Env
from broker_impl.filtering import Wanted, of_subscription
from rmq_wire.bodies.connections import ConsumerIdList
from rmq_wire.bodies.heartbeat import BROADCASTING, ConsumerData, SubscriptionData

if TYPE_CHECKING:
    from broker_impl.engine.peer import Peer


class Client:
    """One member of one or more groups: a connection and who speaks on it.  `language` is a `LanguageCode`."""

    __slots__ = ("client_id", "language", "peer", "seen_mono_ms", "seen_wall_ms", "version")

    def __init__(self, peer: Peer, client_id: str, language: int, version: int, env: Env) -> None:
        self.peer = peer
        self.client_id = client_id
        self.language = language
        self.version = version
        self.seen_mono_ms = env.mono_ms
        self.seen_wall_ms = env.wall_ms

    def seen(self, env: Env) -> None:
        """It gave a sign of life now."""
        self.seen_mono_ms = env.mono_ms
        self.seen_wall_ms = env.wall_ms


class ConsumerGroup:
    """A group with members: how they consume (the last heartbeat decides) and what they subscribe to."""

    __slots__ = (
        "_wanted",
        "conflict_said_mono_ms",
        "consume_from_where",
        "consume_type",
        "listed",
        "members",
        "message_model",
        "name",
        "said_bytes",
        "speaker",
        "subscriptions",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.consume_type: str | None = None
        self.message_model: str | None = None
        self.consume_from_where: str | None = None
        self.members: dict[Peer, Client] = {}
        self.listed: bytes | None = None
        """What `id_list` gave; who changes `members` takes it away."""
        self.subscriptions: dict[str, SubscriptionData] = {}
        self.said_bytes = 0
        """Of the heartbeat that said them, the group's share."""
        self.speaker: Peer | None = None
        """Whose heartbeat that was."""
        self.conflict_said_mono_ms: int | None = None
        self._wanted: dict[str, tuple[SubscriptionData, Wanted]] = {}

    @property
    def broadcasting(self) -> bool:
        """Every member gets every message: nobody needs to share queues anew."""
        return self.message_model == BROADCASTING

    def find(self, client_id: str) -> Client | None:
        """A member by its id."""
        return next((client for client in self.members.values() if client.client_id == client_id), None)

    def id_list(self) -> bytes:
        """The members' client ids, as code 38 answers them: all ask at once when somebody comes or goes, so it is made once."""
        if self.listed is None:
            self.listed = ConsumerIdList(consumer_id_list=[client.client_id for client in self.members.values()]).encode()
        return self.listed

    def wanted(self, topic: str) -> Wanted:
        """What the group's subscription to the topic lets through: worked out once, and shared by all pulls that wait with it."""
        said = self.subscriptions[topic]
        known = self._wanted.get(topic)
        if known is None or known[0] is not said:
            known = self._wanted[topic] = (said, of_subscription(said))
        return known[1]

    def unsubscribe(self, topic: str) -> None:
        """It wants nothing of the topic any more."""
        del self.subscriptions[topic]
        self._wanted.pop(topic, None)

    def take_over(self, data: ConsumerData) -> None:
        """The latest heartbeat says how the group consumes."""
        self.consume_type = data.consume_type
        self.message_model = data.message_model
        self.consume_from_where = data.consume_from_where
