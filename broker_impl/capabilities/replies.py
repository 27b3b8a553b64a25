"""Request and reply (324, 325): a consumer's answer is taken to the producer that waits for it, and stored.

The requester writes its client id into a message's `REPLY_TO_CLIENT`; who consumes that sends the answer with the same property.
The broker pushes it over the requester's connection (326) and answers the replier when the requester has taken it, or why not.
Then the reply is stored in the reply topic, also when nobody took it (storeReplyMessageEnable); what the store says of it changes
nothing in the answer but the place.

Java: `ReplyMessageProcessor`.  Difference: replies that wait for requesters have limits of size and number.
"""

from __future__ import annotations

from typing import Final

from broker_impl.capabilities.send_rules import SendRules, random_queue
from broker_impl.config import BrokerConfig
from broker_impl.engine.answers import LATER, Answer, Durable, Refusal, Reply
from broker_impl.engine.call import Call, PendingAnswer
from broker_impl.engine.engine import BUSY, Engine
from broker_impl.engine.peer import Peer
from broker_impl.engine.router import Capability, answers
from broker_impl.intake import Intake, Message, NotTaken
from broker_impl.state.clients import Clients
from broker_impl.state.stats import Stats
from rmq_wire import properties
from rmq_wire import property_names as prop
from rmq_wire.codes import ResponseCode
from rmq_wire.command import Command
from rmq_wire.headers.replies import PushReplyMessageToClient, SendReplyMessage, SendReplyMessageV2

PUSH_MS: Final = 10_000
"""How long a requester may take (`Broker2Client.callClient`)."""
WAITING_BYTES_MAX: Final = 128 << 20
"""Bodies and properties of replies that requesters have not taken yet; above it a replier is told to come later."""
WAITING_MAX: Final = 65_536
"""How many these may be; each takes some 3 KiB more."""
REQUESTER_BYTES_MAX: Final = 16 << 20
"""Of them for one requester: four of the largest.  Above it, it counts as one that does not answer, and hurts nobody else."""
REQUESTER_MAX: Final = 10_000
"""How many for one requester: as many as Java's queue holds for all (`replyThreadPoolQueueCapacity`).  Other questions to it
have places of their own."""
NO_PLACE: Final = "0"
"""The message id of a reply that is not stored: a stock client reads one."""


class _Waiting:
    """Replies that have not been taken yet: how many, and their bytes."""

    __slots__ = ("replies", "size")

    def __init__(self) -> None:
        self.replies = self.size = 0

    def has_room(self, size: int, replies_max: int, bytes_max: int) -> bool:
        """For one more of this size."""
        return self.replies < replies_max and self.size + size <= bytes_max

    def add(self, size: int) -> None:
        self.replies += 1
        self.size += size

    def remove(self, size: int) -> None:
        self.replies -= 1
        self.size -= size


class Replies(Capability):
    """Codes 324, 325.  `rules` are those of all sends."""

    def __init__(
        self, engine: Engine, config: BrokerConfig, clients: Clients, stats: Stats, intake: Intake, rules: SendRules
    ) -> None:
        self._engine, self._env = engine, engine.env
        self._config = config
        self._clients = clients
        self._stats = stats
        self._intake = intake
        self._rules = rules
        self._ext = rules.answers.ext
        self._waiting = _Waiting()
        self._waiting_for: dict[Peer, _Waiting] = {}

    @answers(SendReplyMessage, SendReplyMessageV2, stages=True)
    def reply(self, call: Call, asked: SendReplyMessage | SendReplyMessageV2) -> Answer:
        """Push, store, answer.  Refused as a send is; 1 when the requester is unknown, gone, silent for 10 s, or refuses."""
        body = bytes(call.body)
        if not body:
            raise Refusal(ResponseCode.SYSTEM_ERROR, "java.lang.NullPointerException: the request has no body")
        try:
            topic = self._rules.admit(call, asked)
            if len(asked.properties or "") > properties.HOPELESS_CHARACTERS:
                raise Refusal(ResponseCode.SYSTEM_ERROR, "the properties of the reply are too long to be read")
            queue_id = asked.queue_id if asked.queue_id >= 0 else random_queue(self._env, topic.write_queue_nums)
            size = len(body) + len(asked.properties or "")
            if not self._waiting.has_room(size, WAITING_MAX, WAITING_BYTES_MAX):
                raise Refusal(ResponseCode.SYSTEM_BUSY, BUSY)
        except Refusal as no:
            return Reply(code=no.code, remark=no.remark, ext=self._ext)
        values = properties.java_order({**properties.decode(asked.properties or ""), **self._ext})
        message = Message(
            asked.topic,
            queue_id,
            body,
            values,
            flag=asked.flag,
            sys_flag=0,  # as in Java, which drops it: a packed body is stored without saying so
            born_timestamp=asked.born_timestamp,
            born_host=call.peer.remote_packed,
            reconsume_times=asked.reconsume_times or 0,
        )
        pending = call.detach()
        client = values.get(prop.REPLY_TO_CLIENT)
        if client is None:
            return self._settled(message, f"reply message properties[{prop.REPLY_TO_CLIENT}] is null")
        peer = self._clients.producer_peer(client)
        if peer is None:
            remark = f"push reply message fail, channel of <{client}> not found."
            self._env.log.warning("%s", remark)
            return self._settled(message, remark)
        theirs = self._waiting_for.get(peer)
        if theirs is not None and not theirs.has_room(size, REQUESTER_MAX, REQUESTER_BYTES_MAX):
            return self._settled(message, _failed(client))
        try:
            self._push(pending, peer, client, self._pushed(call.peer, asked, values), message, size)
        except ValueError as why:  # with the header of a push, which is longer, it fits into no frame
            self._env.log.warning("a reply to %s cannot be pushed: %s", client, str(why))
            return self._settled(message, _failed(client))
        return LATER

    def _pushed(
        self, replier: Peer, asked: SendReplyMessage | SendReplyMessageV2, values: dict[str, str]
    ) -> PushReplyMessageToClient:
        """The header of what the requester gets (`ReplyMessageRequestHeader`)."""
        now_ms = self._env.wall_ms
        pushed = {**values, prop.PUSH_REPLY_TIME: str(now_ms)}
        return PushReplyMessageToClient(
            producer_group=asked.producer_group,
            topic=asked.topic,
            default_topic=asked.default_topic,
            default_topic_queue_nums=asked.default_topic_queue_nums,
            queue_id=asked.queue_id,
            sys_flag=asked.sys_flag,
            born_timestamp=asked.born_timestamp,
            flag=asked.flag,
            born_host=f"{replier.remote[0]}:{replier.remote[1]}",
            store_host=f"{self._env.host}:{self._config.listen_port}",
            store_timestamp=now_ms,
            properties=properties.encode(properties.java_order(pushed)),
            reconsume_times=asked.reconsume_times,
            unit_mode=bool(asked.unit_mode),
        )

    def _push(
        self, pending: PendingAnswer, peer: Peer, client: str, question: PushReplyMessageToClient, message: Message, size: int
    ) -> None:
        """Ask the requester to take it.  Raises ValueError: it cannot be asked, and nothing waits."""
        theirs = self._waiting_for.get(peer) or _Waiting()

        def then(response: Command | None) -> None:
            self._waiting.remove(size)
            theirs.remove(size)
            if not theirs.replies:
                del self._waiting_for[peer]
            taken = response is not None and response.code == ResponseCode.SUCCESS
            if not taken:
                why = "no answer" if response is None else f"{response.code} {response.remark}"
                self._env.log.warning("a reply to %s was not taken: %s", client, why)
            pending.answer(self._settled(message, None if taken else _failed(client)))

        self._engine.ask(peer, question, bytes(message.body), timeout_ms=PUSH_MS, then=then, counted=False)
        self._waiting.add(size)
        theirs.add(size)
        self._waiting_for[peer] = theirs

    def _settled(self, message: Message, failure: str | None) -> Reply | Durable:
        """Store the reply, and what the replier is answered: it was taken, or `failure` says why not."""
        queue_id = message.queue_id
        code = ResponseCode.SUCCESS if failure is None else ResponseCode.SYSTEM_ERROR
        place = {"msgId": NO_PLACE, "queueId": str(queue_id), "queueOffset": "0"} if failure is None else {}
        unstored = Reply(code=code, remark=failure, ext={**self._ext, **place})
        if not self._config.store_reply_message_enable:
            return unstored
        try:
            placed = self._intake.put(message, self._env.wall_ms)
        except (NotTaken, Refusal) as no:
            self._env.log.warning("a reply in %s is not stored: %s", message.topic, str(no))
            return unstored
        self._stats.add_put(message.topic, message.queue_id, 1, placed.size)
        message_id = self._rules.answers.message_id(placed.physical_offset)
        place = {"msgId": message_id, "queueId": str(queue_id), "queueOffset": str(placed.queue_offset)}
        stored = Reply(code=code, remark=failure, ext={**self._ext, **place})
        waits = message.values.get(prop.WAIT, "true").lower() == "true"
        return Durable(stored, placed.end_offset, waits, lambda: stored, lambda _: unstored)


def _failed(client: str) -> str:
    return f"push reply message to {client}fail."
