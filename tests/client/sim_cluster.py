"""A cluster in memory that keeps messages, progress, members and locks, and fails by a seed.

Answers are late, lost, doubled or of another opaque, GO_AWAY or a refusal; brokers are killed and come back, wall clocks jump.

It knows what a broker must know to be consumed from, and judges at once: no progress may pass a message that nobody is done with.
Time is trio's mock clock for what waits, `wall_ms` for what is stored; chance is the seed's.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, Final

import trio
import trio.testing

from rmq_wire import names, properties, sys_flag
from rmq_wire import property_names as prop
from rmq_wire.bodies.connections import ConsumerIdList
from rmq_wire.bodies.heartbeat import HeartbeatData
from rmq_wire.bodies.locks import LockBatchRequest, LockBatchResponse, QueueName
from rmq_wire.codes import RequestCode, ResponseCode
from rmq_wire.command import Command, encode_request, encode_response
from rmq_wire.headers.clients import NotifyConsumerIdsChanged, UnregisterClient
from rmq_wire.headers.offsets import QueryConsumerOffset, QueryConsumerOffsetResponse, UpdateConsumerOffset
from rmq_wire.headers.positions import GetMaxOffset, GetMaxOffsetResponse, SearchOffsetResponse
from rmq_wire.headers.pull import PullMessage, PullMessageResponse
from rmq_wire.headers.send import SendMessageResponse, SendMessageV2
from rmq_wire.headers.send_back import ConsumerSendMsgBack
from rmq_wire.message import pack_unit, read_unit
from rmq_wire.message_id import offset_message_id
from tests.client.fake_cluster import FakeCluster, FakeServer, Reply
from tests.support.mock_time import pass_time

HOST: Final = bytes((10, 0, 1, 1, 0, 0, 42, 159))
LOCK_S: Final = 60.0
Key = tuple[str, str, int]
"""Broker, topic, queue."""


@dataclass
class Faults:
    """How often each happens to an answer, and which codes it may happen to.  None: to none."""

    late: float = 0.0
    lost: float = 0.0
    unheard: float = 0.0
    """The request never arrives."""
    doubled: float = 0.0
    foreign: float = 0.0
    """An answer of another opaque comes before the right one."""
    go_away: float = 0.0
    refused: float = 0.0
    spared: Collection[int] = (RequestCode.UNREGISTER_CLIENT,)

    def stop(self) -> None:
        """From now on all goes well."""
        self.late = self.lost = self.unheard = self.doubled = self.foreign = self.go_away = self.refused = 0.0


class SimServer(FakeServer):
    """A server whose answers fail as `faults` say."""

    def __init__(self, address: str, faults: Faults, rng: random.Random) -> None:
        super().__init__(address)
        self.faults = faults
        self.rng = rng
        self.whose: dict[int, str] = {}
        """Stream -> the address of its client."""
        self.asking = 0
        """The stream of what is being answered."""
        self.hung_up: Callable[[int], None] = lambda _: None
        """Called with a stream that has ended."""
        self.cut: set[str] = set()
        """Clients of which nothing arrives."""
        self._writing: dict[int, trio.Lock] = {}

    async def serve(self, stream: Any) -> None:
        try:
            await super().serve(stream)
        finally:
            self.hung_up(id(stream))
            self.whose.pop(id(stream), None)

    async def send(self, stream: Any, frame: bytes) -> None:
        """One after the other; nobody there is nobody's fault."""
        async with self._writing.setdefault(id(stream), trio.Lock()):
            try:
                await stream.send_all(frame)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                pass

    def happens(self, share: float) -> bool:
        return self.rng.random() < share

    async def _answer(self, stream: Any, command: Command, writing: trio.Lock) -> None:
        if command.is_response or self.deaf or self.whose.get(id(stream)) in self.cut:
            return
        faults, spared = self.faults, command.code in self.faults.spared
        if not spared and self.happens(faults.unheard):
            return
        if not spared and self.happens(faults.go_away):
            await self._write(stream, command, (ResponseCode.GO_AWAY, None, b""))
            return
        if not spared and self.happens(faults.refused):
            await self._write(stream, command, (ResponseCode.SYSTEM_BUSY, None, b""))
            return
        answer = self.answers.get(command.code)
        self.asking = id(stream)
        reply: Any = (ResponseCode.SUCCESS, None, b"") if answer is None else answer(command)
        if callable(reply):
            reply = await reply()
        if command.is_oneway or reply is None or (not spared and self.happens(faults.lost)):
            return
        if not spared and self.happens(faults.late):
            await pass_time(self.rng.choice((0.2, 1.0, 4.0)))
        if not spared and self.happens(faults.foreign):  # of a number that the client has not asked yet, or has forgotten
            await self._write(stream, command, reply, opaque=(1 << 30) + command.opaque)
        for _ in range(2 if not spared and self.happens(faults.doubled) else 1):
            await self._write(stream, command, reply)

    async def _write(self, stream: Any, command: Command, reply: Reply, *, opaque: int | None = None) -> None:
        code, header, body = reply
        number = command.opaque if opaque is None else opaque
        found = encode_response(code, number, form=command.form, header=header, body=body)
        await self.send(stream, b"".join([found] if isinstance(found, bytes) else found))


@dataclass
class Broker:
    """What one broker keeps; it outlives its server's death."""

    name: str
    log: list[bytes] = field(default_factory=list)
    queues: dict[tuple[str, int], list[int]] = field(default_factory=dict)
    """Places in the log."""
    progress: dict[tuple[str, str, int], int] = field(default_factory=dict)
    members: dict[str, set[str]] = field(default_factory=dict)
    told_by: dict[int, set[tuple[str, str]]] = field(default_factory=dict)
    """Stream -> the groups and clients whose heartbeats came by it: with it they go (`ClientHousekeepingService`)."""
    locks: dict[tuple[str, str, int], tuple[str, float]] = field(default_factory=dict)
    arrivals: dict[tuple[str, int], trio.Event] = field(default_factory=dict)

    def store(self, topic: str, queue_id: int, body: bytes, pairs: bytes, wall_ms: int, *, tries: int = 0, flags: int = 0) -> int:
        queue = self.queues.setdefault((topic, queue_id), [])
        place = len(self.log)
        unit = pack_unit(
            queue_id, 0, len(queue), place, flags, wall_ms, HOST, wall_ms, HOST, tries, 0, body, topic.encode(), pairs
        )
        self.log.append(unit)
        queue.append(place)
        self.arrivals.pop((topic, queue_id), trio.Event()).set()
        return len(queue) - 1

    def arrival(self, topic: str, queue_id: int) -> trio.Event:
        """Of the queue's next message."""
        return self.arrivals.setdefault((topic, queue_id), trio.Event())


class SimCluster(FakeCluster):
    """`done`: places that a listener is done with, told by the test.  `wrong`: what no client may do."""

    def __init__(self, seed: int, *, faults: Faults | None = None, queues: int = 2) -> None:
        super().__init__(queues=queues)
        self.rng = random.Random(seed)
        self.faults = faults or Faults()
        self.wrong: list[str] = []
        self.done: set[tuple[str, int]] = set()
        """Broker and place in its log."""
        self.kept = {name: Broker(name) for name in self.brokers}
        for address in list(self.servers):
            made = SimServer(address, self.faults, self.rng)
            made.answers.update(self.servers[address].answers)
            self.servers[address] = made
        self.skew_ms = 0
        for name, address in self.brokers.items():
            answers: dict[int, Callable[[Broker, Command], Any]] = {
                RequestCode.SEND_MESSAGE_V2: self._send,
                RequestCode.PULL_MESSAGE: self._pull,
                RequestCode.QUERY_CONSUMER_OFFSET: self._query,
                RequestCode.UPDATE_CONSUMER_OFFSET: self._update,
                RequestCode.GET_MAX_OFFSET: self._max,
                RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: lambda broker, command: (0, SearchOffsetResponse(offset=0), b""),
                RequestCode.HEART_BEAT: self._beat,
                RequestCode.UNREGISTER_CLIENT: self._leave,
                RequestCode.GET_CONSUMER_LIST_BY_GROUP: self._list,
                RequestCode.LOCK_BATCH_MQ: self._lock,
                RequestCode.UNLOCK_BATCH_MQ: self._unlock,
                RequestCode.CONSUMER_SEND_MSG_BACK: self._back,
            }
            server = self.servers[address]
            assert isinstance(server, SimServer)
            server.hung_up = lambda stream, name=name: self._hung_up(self.kept[name], stream)
            for code, answer in answers.items():
                self.servers[address].answers[code] = lambda command, answer=answer, name=name: answer(self.kept[name], command)

    def wall(self) -> int:
        """The wall clock goes with trio's, and jumps when it is told to."""
        return self.wall_ms + int(trio.current_time() * 1e3) + self.skew_ms

    def world(self, seed: int = 1, *, ip: str = "10.9.8.7") -> Any:
        made = super().world(seed)
        made.wall_ms, made.ip = self.wall, ip

        async def dial(host: str, port: int) -> trio.abc.Stream:
            server = self.server_at(host, port)
            assert isinstance(server, SimServer)
            ours, theirs = trio.testing.memory_stream_pair()
            server.whose[id(theirs)] = ip
            self.nursery.start_soon(server.serve, theirs)
            return ours

        made.dial = dial
        return made

    def cut_off(self, ip: str, *, name: str) -> None:
        """A broker hears nothing more of a client, and counts it out."""
        server = self.servers[self.brokers[name]]
        assert isinstance(server, SimServer)
        server.cut.add(ip)
        for group, members in self.kept[name].members.items():
            self.kept[name].members[group] = {one for one in members if not one.startswith(f"{ip}@")}
            self.tell(self.kept[name], group)

    # What a broker does

    def _send(self, broker: Broker, command: Command) -> Reply:
        asked = command.header(SendMessageV2)
        topic, queue_id = asked.topic, asked.queue_id
        pairs = (asked.properties or "").encode()
        if names.is_retry_topic(topic):  # a copy of what could not be given back
            queue_id = 0
            self._copied(properties.decode(asked.properties or "").get(prop.UNIQ_KEY))
        tries = asked.reconsume_times or 0
        offset = broker.store(topic, queue_id, bytes(command.body), pairs, self.wall(), tries=tries, flags=asked.sys_flag)
        place = broker.queues[topic, queue_id][offset]
        return 0, SendMessageResponse(msg_id=offset_message_id(HOST, place), queue_id=queue_id, queue_offset=offset), b""

    def _copied(self, key: str | None) -> None:
        for broker in self.kept.values():
            for place, unit in enumerate(broker.log):
                if key and properties.decode(read_unit(unit).properties.decode()).get(prop.UNIQ_KEY) == key:
                    self.done.add((broker.name, place))

    def places_of(self, body: bytes) -> list[tuple[str, str, int, int]]:
        """Where a body is: broker, topic, queue, offset."""
        found = []
        for broker in self.kept.values():
            for (topic, queue_id), places in broker.queues.items():
                for offset, place in enumerate(places):
                    if bytes(read_unit(broker.log[place]).body) == body:
                        found.append((broker.name, topic, queue_id, offset))
        return found

    def _pull(self, broker: Broker, command: Command) -> Any:
        asked = command.header(PullMessage)
        if asked.sys_flag & sys_flag.PULL_COMMIT_OFFSET:
            self._moved(broker, asked.consumer_group, asked.topic, asked.queue_id, asked.commit_offset)

        async def answer() -> Reply:
            ends = trio.current_time() + (asked.suspend_timeout_millis / 1e3 if asked.sys_flag & sys_flag.PULL_SUSPEND else 0)
            while not (places := broker.queues.get((asked.topic, asked.queue_id), [])[asked.queue_offset :]):
                with trio.move_on_at(ends) as hold:
                    await broker.arrival(asked.topic, asked.queue_id).wait()
                if hold.cancelled_caught:
                    return ResponseCode.PULL_NOT_FOUND, self._header(broker, asked, 0), b""
            found = places[: asked.max_msg_nums]
            return 0, self._header(broker, asked, len(found)), b"".join(broker.log[place] for place in found)

        return answer

    def _header(self, broker: Broker, asked: PullMessage, count: int) -> PullMessageResponse:
        end = len(broker.queues.get((asked.topic, asked.queue_id), []))
        at = asked.queue_offset + count
        return PullMessageResponse(suggest_which_broker_id=0, next_begin_offset=at, min_offset=0, max_offset=end)

    def _moved(self, broker: Broker, group: str, topic: str, queue_id: int, offset: int) -> None:
        broker.progress[group, topic, queue_id] = offset
        for at, place in enumerate(broker.queues.get((topic, queue_id), [])[:offset]):
            if (broker.name, place) not in self.done:
                self.wrong.append(f"progress {offset} of {topic} {queue_id} passes {at}, which nobody is done with")

    def _query(self, broker: Broker, command: Command) -> Reply:
        asked = command.header(QueryConsumerOffset)
        known = broker.progress.get((asked.consumer_group, asked.topic, asked.queue_id))
        if known is None:
            return ResponseCode.QUERY_NOT_FOUND, None, b""
        return 0, QueryConsumerOffsetResponse(offset=known), b""

    def _update(self, broker: Broker, command: Command) -> Reply:
        asked = command.header(UpdateConsumerOffset)
        self._moved(broker, asked.consumer_group, asked.topic, asked.queue_id, asked.commit_offset or 0)
        return 0, None, b""

    def _max(self, broker: Broker, command: Command) -> Reply:
        asked = command.header(GetMaxOffset)
        return 0, GetMaxOffsetResponse(offset=len(broker.queues.get((asked.topic, asked.queue_id), []))), b""

    def _beat(self, broker: Broker, command: Command) -> Reply:
        said = HeartbeatData.read(command.body)
        for consumer in said.consumer_data_set:
            members = broker.members.setdefault(consumer.group_name, set())
            self.topics.add(names.retry_topic(consumer.group_name))
            server = self.servers[self.brokers[broker.name]]
            assert isinstance(server, SimServer)
            broker.told_by.setdefault(server.asking, set()).add((consumer.group_name, said.client_id or ""))
            if said.client_id and said.client_id not in members:
                members.add(said.client_id)
                self.tell(broker, consumer.group_name)
        return 0, None, b""

    def _hung_up(self, broker: Broker, stream: int) -> None:
        left = broker.told_by.pop(stream, set())
        for group, client_id in sorted(left - set().union(*broker.told_by.values())):
            if client_id in broker.members.get(group, ()):
                broker.members[group].discard(client_id)
                self.tell(broker, group)

    def _leave(self, broker: Broker, command: Command) -> Reply:
        asked = command.header(UnregisterClient)
        if asked.consumer_group and asked.client_id in broker.members.get(asked.consumer_group, ()):
            broker.members[asked.consumer_group].discard(asked.client_id)
            self.tell(broker, asked.consumer_group)
        return 0, None, b""

    def tell(self, broker: Broker, group: str) -> None:
        """Say to all clients of a broker that the group has changed."""
        server = self.servers[self.brokers[broker.name]]
        assert isinstance(server, SimServer)
        self.nursery.start_soon(self._notify, server, group)

    async def _notify(self, server: SimServer, group: str) -> None:
        frame = encode_request(
            NotifyConsumerIdsChanged.code, NotifyConsumerIdsChanged(consumer_group=group), opaque=77, oneway=True
        )
        for stream in list(server.streams):
            await server.send(stream, frame)

    def _list(self, broker: Broker, command: Command) -> Reply:
        group = command.ext_map()["consumerGroup"]
        members = sorted(broker.members.get(group, ()))
        if not members:
            return ResponseCode.SYSTEM_ERROR, None, b""
        return 0, None, ConsumerIdList(consumer_id_list=members).encode()

    def _lock(self, broker: Broker, command: Command) -> Reply:
        asked = LockBatchRequest.read(bytes(command.body))
        mine: list[QueueName] = []
        for one in asked.mq_set:
            key = (asked.consumer_group or "", one.topic, one.queue_id)
            holder, since = broker.locks.get(key, ("", 0.0))
            if holder in ("", asked.client_id) or trio.current_time() - since > LOCK_S:
                broker.locks[key] = (asked.client_id or "", trio.current_time())
                mine.append(one)
        return 0, None, LockBatchResponse(lock_ok_mq_set=mine).encode()

    def _unlock(self, broker: Broker, command: Command) -> Reply:
        asked = LockBatchRequest.read(bytes(command.body))
        for one in asked.mq_set:
            key = (asked.consumer_group or "", one.topic, one.queue_id)
            if broker.locks.get(key, ("",))[0] == asked.client_id:
                del broker.locks[key]
        return 0, None, b""

    def _back(self, broker: Broker, command: Command) -> Reply:
        asked = command.header(ConsumerSendMsgBack)
        unit = read_unit(broker.log[asked.offset])
        pairs = properties.decode(unit.properties.decode())
        topic = unit.topic.decode("utf-8", "replace")
        if not names.is_retry_topic(topic):
            pairs[prop.RETRY_TOPIC] = topic
        text = properties.encode_java(pairs, 16)
        broker.store(names.retry_topic(asked.group), 0, bytes(unit.body), text, self.wall(), tries=unit.reconsume_times + 1)
        self.done.add((broker.name, asked.offset))
        return 0, None, b""

    # What happens to it

    def fill(self, count: int, *, broker: str = "broker-a", queue: int = 0) -> None:
        """So many messages of topic T, which are their numbers."""
        for number in range(count):
            self.kept[broker].store("T", queue, b"%d" % number, b"", self.wall_ms)

    async def kill(self, name: str, seconds: float) -> None:
        """The broker's process dies, and is there again after so long: it has its messages and progress, and knows no member."""
        server = self.servers[self.brokers[name]]
        server.up = False
        await server.hang_up()
        self.kept[name].members.clear()
        self.kept[name].locks.clear()
        await pass_time(seconds)
        server.up = True
