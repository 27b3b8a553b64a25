"""Clients come, stay and go: heartbeats (34), good-byes (35), checks of filters (46); who is there (38, 203, 204, 328, 345).

A heartbeat makes the group and its retry topic when the configuration allows, registers the member, and lets the other members
know (40) when members or topics changed.  Connections that fall silent are closed.  One heartbeat cannot name more groups or
topics than any real client has; illegal names are passed over as in Java.

Java: `ClientManageProcessor`, `ConsumerManageProcessor.getConsumerListByGroup`, `AdminBrokerProcessor`
(getConsumerConnectionList, getProducerConnectionList, getAllProducerInfo, querySubscriptionByConsumer),
`ClientHousekeepingService`, `Broker2Client`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from broker_impl.config import BrokerConfig
from broker_impl.engine.answers import Answer, Refusal, Reply
from broker_impl.engine.call import Call
from broker_impl.engine.router import Capability, answers
from broker_impl.engine.slices import ROWS_PER_SLICE, Slices, begun, body_of, spelled
from broker_impl.filtering import characters_to_read, property_filter
from broker_impl.state.clients import CLIENT_ID_CHARACTERS_MAX, Clients
from broker_impl.state.consumer_group import Client, ConsumerGroup
from broker_impl.state.groups import GroupTable
from broker_impl.state.topics import TopicTable
from rmq_wire import names
from rmq_wire.bodies.body import STRICT, list_pieces
from rmq_wire.bodies.connections import (
    Connection,
    ConsumerConnection,
    ProducerConnection,
    ProducerInfo,
)
from rmq_wire.bodies.groups import SubscriptionGroupConfig
from rmq_wire.bodies.heartbeat import CONSUME_ACTIVELY, TAG, CheckClientRequest, ConsumerData, HeartbeatData
from rmq_wire.bodies.subscriptions import QuerySubscription
from rmq_wire.bodies.topics import TOPIC_UNIT_SUB
from rmq_wire.codes import LanguageCode, ResponseCode
from rmq_wire.declare import Header
from rmq_wire.headers.clients import (
    CheckClientConfig,
    GetAllProducerInfo,
    GetConsumerConnectionList,
    GetConsumerListByGroup,
    GetProducerConnectionList,
    Heartbeat,
    HeartbeatResponse,
    NotifyConsumerIdsChanged,
    UnregisterClient,
)
from rmq_wire.headers.groups import QuerySubscriptionByConsumer

if TYPE_CHECKING:
    from broker_impl.engine.engine import Engine
    from broker_impl.engine.peer import Peer

GROUPS_PER_CONNECTION_MAX = 1_536
"""Consumer groups or producer groups of one client; a process with a thousand consumers is known of."""
SUBSCRIPTIONS_PER_GROUP_MAX = 4_096
"""Topics of one group."""
SAID_BYTES_MAX = 4 << 20
"""Of the heartbeats that name one connection's groups: what they subscribe to is remembered, in some ten times as much memory."""
SCAN_MS = 10_000
"""How often silent connections are looked for (`ClientHousekeepingService`)."""


class ClientManagement(Capability):
    """Registers its housekeeping with the engine."""

    def __init__(
        self,
        engine: Engine,
        config: BrokerConfig,
        topics: TopicTable,
        groups: GroupTable,
        clients: Clients,
    ) -> None:
        self._engine = engine
        self._config = config
        self._topics = topics
        self._groups = groups
        self._clients = clients
        self._to_notify: dict[str, None] = {}
        """Groups whose members are to hear that there are others now, in this order."""
        self._notifying = False
        clients.on_members_changed.append(self._notify)
        engine.on_peer_closed(clients.on_close)
        engine.every(SCAN_MS, self._scan)

    # -- coming and going

    @answers(Heartbeat)
    def heartbeat(self, call: Call, asked: Heartbeat) -> Answer:
        """A client's groups and subscriptions.  Both versions of the protocol; always answered with success."""
        data = call.read(HeartbeatData)
        self._check_counts(call.peer, data, len(call.body))
        command, env = call.command, call.env
        client_id = data.client_id or ""
        changed, refused = data.heartbeat_fingerprint == 0, None
        for consumer in data.consumer_data_set:
            if self._config.reject_pull_consumer_enable and consumer.consume_type == CONSUME_ACTIVELY:
                continue
            try:
                group = self._groups.find(consumer.group_name)
            except Refusal as no:  # it cannot be made; the others are there
                refused = refused or no
                continue
            if group is None:
                continue
            if self._clients.fingerprint_changed(consumer.group_name, data.heartbeat_fingerprint):
                changed = True
            client = Client(call.peer, client_id, command.language, command.version, env)
            full = data.heartbeat_fingerprint == 0 or not data.without_sub
            self._register(client, consumer, group, with_subscriptions=full)
            if full:
                self._clients.note_said(consumer.group_name, len(call.body) // len(data.consumer_data_set))
        for producer in data.producer_data_set:
            if len(producer.group_name) > CLIENT_ID_CHARACTERS_MAX:
                continue
            client = Client(call.peer, client_id, command.language, command.version, env)
            self._clients.register_producer(producer.group_name, client)
        if refused is not None:
            raise refused
        return HeartbeatResponse(is_support_heart_beat_v2=True, is_sub_change=changed)

    @answers(UnregisterClient)
    def unregister(self, call: Call, asked: UnregisterClient) -> Answer:
        """A client leaves a producer group, a consumer group or both."""
        if asked.producer_group is not None:
            self._clients.unregister_producer(asked.producer_group, call.peer, asked.client_id)
        if asked.consumer_group is not None:
            group = self._groups.get(asked.consumer_group)
            notify = group is None or group.notify_consumer_ids_changed_enable
            self._clients.unregister_consumer(asked.consumer_group, call.peer, notify=notify)
        return Header()  # with an empty extFields: the reference has a response class without fields

    @answers(CheckClientConfig)
    def check(self, call: Call, asked: CheckClientConfig) -> Answer:
        """Could this subscription's filter be evaluated here?"""
        said = call.read(CheckClientRequest).subscription_data if call.body else None
        if said is None or not said.expression_type or said.expression_type == TAG:
            return Reply()
        if not self._config.enable_property_filter:
            raise Refusal(
                ResponseCode.SYSTEM_ERROR, f"The broker does not support consumer to filter message by {said.expression_type}"
            )
        self._engine.shares.one_selector(characters_to_read(said.sub_string, said.expression_type))
        try:
            property_filter(said.sub_string or "", said.expression_type)
        except ValueError as wrong:
            raise Refusal(ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(wrong)) from None
        return Reply()

    # -- who is there

    @answers(GetConsumerListByGroup, bulky=True)
    def consumer_ids(self, call: Call, asked: GetConsumerListByGroup) -> Answer:
        """Client ids of the group's members: what every member shares the queues by."""
        group = self._clients.consumer_group(asked.consumer_group)
        none = Header()  # an empty extFields: the reference has a response class without fields
        if group is None:
            return Reply(none, code=ResponseCode.SYSTEM_ERROR, remark=f"no consumer for this group, {asked.consumer_group}")
        body = group.id_list()
        self._engine.shares.afford(len(body))
        return Reply(none, body=body)

    @answers(GetConsumerConnectionList)
    def consumers(self, call: Call, asked: GetConsumerConnectionList) -> Answer:
        """Members and subscriptions of a consumer group."""
        group = self._clients.consumer_group(asked.consumer_group)
        if group is None:
            raise Refusal(ResponseCode.CONSUMER_NOT_ONLINE, f"the consumer group[{asked.consumer_group}] not online")
        return begun(self._consumers(group))

    def _consumers(self, group: ConsumerGroup) -> Slices[Reply]:
        body = ConsumerConnection(
            connection_set=(yield from _connections(group.members.values())),
            consume_from_where=group.consume_from_where,
            consume_type=group.consume_type,
            message_model=group.message_model,
            subscription_table=dict(group.subscriptions),
        )
        return (yield from spelled(body))

    @answers(QuerySubscriptionByConsumer)
    def subscription(self, call: Call, asked: QuerySubscriptionByConsumer) -> Reply:
        """What a group wants of a topic, by its members' heartbeats or its last pull."""
        found = self._clients.subscription(asked.group, asked.topic or "")
        return Reply(body=QuerySubscription(group=asked.group, subscription_data=found, topic=asked.topic).encode())

    @answers(GetProducerConnectionList)
    def producers(self, call: Call, asked: GetProducerConnectionList) -> Answer:
        """Members of a producer group."""
        members = self._clients.producer_group(asked.producer_group)
        if members is None:
            raise Refusal(ResponseCode.SYSTEM_ERROR, f"the producer group[{asked.producer_group}] not exist")
        return begun(self._producers(members))

    def _producers(self, members: Mapping[Peer, Client]) -> Slices[Reply]:
        return (yield from spelled(ProducerConnection(connection_set=(yield from _connections(members.values())))))

    @answers(GetAllProducerInfo)
    def all_producers(self, call: Call, asked: GetAllProducerInfo) -> Answer:
        """Every producer."""
        return begun(body_of(_producer_pieces(self._clients.producer_groups)))

    def _register(
        self, client: Client, consumer: ConsumerData, group: SubscriptionGroupConfig, *, with_subscriptions: bool
    ) -> None:
        self._topics.create_in_send_back(
            names.retry_topic(consumer.group_name),
            group.retry_queue_nums,
            topic_sys_flag=TOPIC_UNIT_SUB if consumer.unit_mode else 0,
            order=any(self._topics.is_order(said.topic) for said in consumer.subscription_data_set),
        )
        self._clients.register_consumer(
            client, consumer, notify=group.notify_consumer_ids_changed_enable, with_subscriptions=with_subscriptions
        )

    def _check_counts(self, peer: Peer, data: HeartbeatData, size: int) -> None:
        consumers = {consumer.group_name for consumer in data.consumer_data_set}
        producers = {producer.group_name for producer in data.producer_data_set}
        if self._clients.memberships(peer, consumers, producers) > GROUPS_PER_CONNECTION_MAX:
            raise Refusal(ResponseCode.SYSTEM_ERROR, f"more than {GROUPS_PER_CONNECTION_MAX} groups on one connection")
        if len(data.client_id or "") > CLIENT_ID_CHARACTERS_MAX:
            raise Refusal(ResponseCode.SYSTEM_ERROR, f"a client id of more than {CLIENT_ID_CHARACTERS_MAX} characters")
        if any(len(consumer.subscription_data_set) > SUBSCRIPTIONS_PER_GROUP_MAX for consumer in data.consumer_data_set):
            raise Refusal(ResponseCode.SYSTEM_ERROR, f"more than {SUBSCRIPTIONS_PER_GROUP_MAX} subscriptions in one group")
        if self._clients.said_bytes(peer, consumers) + size > SAID_BYTES_MAX:
            raise Refusal(ResponseCode.SYSTEM_ERROR, f"more than {SAID_BYTES_MAX} bytes of subscriptions on one connection")

    def _notify(self, group: str) -> None:
        self._to_notify[group] = None
        if not self._notifying:
            self._notifying = True
            self._engine.in_background(self._notices(), self._notified)

    def _notices(self) -> Slices[None]:
        """In slices: a client may belong to a thousand groups, and a group have thousands of members."""
        notified = 0
        while self._to_notify:
            name = next(iter(self._to_notify))
            del self._to_notify[name]
            group = self._clients.consumer_group(name)
            for peer in list(group.members) if group is not None else ():
                if not peer.closed and peer.closing is None:
                    self._engine.send_oneway(peer, NotifyConsumerIdsChanged(consumer_group=name))
                notified += 1
                if notified % ROWS_PER_SLICE == 0:
                    yield None

    def _notified(self, _: object, error: BaseException | None) -> None:
        self._notifying = False
        if error is not None:
            raise error

    def _scan(self) -> None:
        for peer in self._clients.silent():
            self._engine.close(peer, "no heartbeat for too long", level=logging.INFO)
        self._clients.sweep_compensated()


def _connections(clients: Iterable[Client]) -> Slices[list[Connection]]:
    found: list[Connection] = []
    for client in list(clients):
        address = "{}:{}".format(*client.peer.remote)
        language = _language(client.language)
        found.append(Connection(client_addr=address, client_id=client.client_id, language=language, version=client.version))
        if len(found) % ROWS_PER_SLICE == 0:
            yield None
    return found


def _producer_pieces(groups: Mapping[str, Mapping[Peer, Client]]) -> Iterator[bytes]:
    """`ProducerTableInfo`, a producer at a time."""
    before = b'{"data":{'
    for group in list(groups):
        yield before + STRICT.key(group) + b":"
        yield from list_pieces(_producer(client).encode() for client in list(groups.get(group, {}).values()))
        before = b","
    yield b"}}" if before == b"," else before + b"}}"


def _producer(client: Client) -> ProducerInfo:
    return ProducerInfo(
        client_id=client.client_id,
        remote_ip="/{}:{}".format(*client.peer.remote),
        language=_language(client.language),
        version=client.version,
        last_update_timestamp=client.seen_wall_ms,
    )


def _language(code: int) -> str | None:
    try:
        return LanguageCode(code).name
    except ValueError:
        return None
