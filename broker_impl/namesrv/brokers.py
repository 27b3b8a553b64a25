"""Brokers register, give signs of life and leave; tools ask who is there (Java: `DefaultRequestProcessor`)."""

from __future__ import annotations

from broker_impl.engine.answers import Answer, Refusal, Reply
from broker_impl.engine.call import Call
from broker_impl.engine.router import Capability, answers
from broker_impl.engine.slices import Slices, begun, spelled
from broker_impl.namesrv.config import NamesrvConfig
from broker_impl.namesrv.kv import KvTable
from broker_impl.namesrv.registrations import Registration, Unregistration
from broker_impl.namesrv.route_answers import RouteAnswers
from broker_impl.namesrv.route_table import Full, RouteTable
from broker_impl.remarks import UNTOUCHED
from rmq_wire.bodies.body import FASTJSON
from rmq_wire.bodies.cluster import BrokerMemberGroupAnswer
from rmq_wire.bodies.data_version import DataVersion
from rmq_wire.bodies.kv import ORDER_TOPIC_CONFIG, KVTable
from rmq_wire.bodies.registration import reading_register_body
from rmq_wire.checksum import body_crc
from rmq_wire.codes import ResponseCode
from rmq_wire.headers.naming import (
    AddWritePermOfBroker,
    AddWritePermOfBrokerResponse,
    BrokerHeartbeat,
    GetBrokerClusterInfo,
    GetBrokerMemberGroup,
    QueryDataVersion,
    QueryDataVersionResponse,
    RegisterBroker,
    RegisterBrokerResponse,
    UnregisterBroker,
    WipeWritePermOfBroker,
    WipeWritePermOfBrokerResponse,
)


class Brokers(Capability):
    """Who is there."""

    def __init__(self, table: RouteTable, route_answers: RouteAnswers, kv: KvTable, config: NamesrvConfig) -> None:
        self.table = table
        self.route_answers = route_answers
        self.kv = kv
        self.config = config

    @answers(RegisterBroker, in_order=True)
    def register(self, call: Call, asked: RegisterBroker) -> Answer:
        """Enter a broker and its topics."""
        body = call.body
        if asked.body_crc32 and body_crc(body) != asked.body_crc32:
            call.env.log.warning("registration of %s: check sum of the body does not match", asked.broker_name)
            raise Refusal(ResponseCode.SYSTEM_ERROR, "crc32 not match")
        return begun(self._register(call, asked))

    def _register(self, call: Call, asked: RegisterBroker) -> Slices[Reply]:
        """Read it and enter it, in slices; the peer's next request waits, for it may be its good-bye."""
        peer, env = call.peer, call.env
        registered = yield from reading_register_body(call.body, compressed=asked.compressed, version=call.command.version)
        topics = registered.topic_config_serialize_wrapper
        if peer.closed:
            return Reply()
        entering = self.table.registering(
            Registration(
                cluster=asked.cluster_name,
                name=asked.broker_name,
                broker_id=asked.broker_id,
                addr=asked.broker_addr,
                ha_addr=asked.ha_server_addr,
                topics={config.topic_name or topic: config for topic, config in topics.topic_config_table.items()},
                version=topics.data_version,
                acting_master=asked.enable_acting_master,
                zone=asked.zone_name,
                timeout_ms=asked.heartbeat_timeout_millis,
                mappings=registered.queue_mappings(),
                filter_servers=registered.filter_server_list,
                link=peer,
            ),
            env.mono_ms,
        )
        try:
            found = yield from entering
        except Full as why:
            raise Refusal(ResponseCode.SYSTEM_ERROR, str(why)) from None
        if found is None:
            raise Refusal(ResponseCode.SYSTEM_ERROR, "register broker failed")
        asker_host = peer.local[0]
        header = RegisterBrokerResponse(
            ha_server_addr=found.ha_addr,
            master_addr=self.route_answers.addr(asked.cluster_name, found.master_addr, asker_host),
        )
        ordered = self.kv.of(ORDER_TOPIC_CONFIG) if self.config.return_order_topic_config_to_broker else None
        return (yield from spelled(KVTable(table=dict(ordered)), header=header)) if ordered is not None else Reply(header)

    @answers(UnregisterBroker)
    def unregister(self, call: Call, asked: UnregisterBroker) -> Answer:
        """A broker stops."""
        gone = Unregistration(asked.cluster_name, asked.broker_name, asked.broker_id, asked.broker_addr)
        self.table.unregister([gone], call.peer)
        return Reply()

    @answers(QueryDataVersion)
    def query_data_version(self, call: Call, asked: QueryDataVersion) -> Answer:
        """Has the broker's table changed since it registered?  Also a sign of life."""
        offered = call.read(DataVersion) if call.body else None
        known = self.table.version(asked.cluster_name, asked.broker_addr)
        self.table.touch(asked.cluster_name, asked.broker_addr, call.env.mono_ms)
        header = QueryDataVersionResponse(changed=known is None or known != offered)
        return Reply(header, body=known.encode() if known is not None else b"")

    @answers(BrokerHeartbeat)
    def heartbeat(self, call: Call, asked: BrokerHeartbeat) -> Answer:
        """A sign of life."""
        self.table.touch(asked.cluster_name, asked.broker_addr, call.env.mono_ms)
        return Reply()

    @answers(GetBrokerMemberGroup)
    def member_group(self, call: Call, asked: GetBrokerMemberGroup) -> Answer:
        """A master and its slaves."""
        group = self.route_answers.members(asked.cluster_name, asked.broker_name, call.peer.local[0])
        body = BrokerMemberGroupAnswer(broker_member_group=group).encode_fastjson()
        return Reply(remark=UNTOUCHED, body=body)

    @answers(GetBrokerClusterInfo)
    def cluster_info(self, call: Call, _: GetBrokerClusterInfo) -> Answer:
        """Everybody."""
        return begun(self._cluster_info(call.peer.local[0]))

    def _cluster_info(self, asker_host: str) -> Slices[Reply]:
        return (yield from spelled((yield from self.route_answers.clusters(asker_host)), FASTJSON))

    @answers(WipeWritePermOfBroker)
    def wipe_write_perm(self, call: Call, asked: WipeWritePermOfBroker) -> Answer:
        """Nobody is to send to this broker."""
        count = self.table.queues.wipe_write_perm(asked.broker_name)
        call.env.log.info("%s:%d wiped write permission of %s: %d topics", *call.peer.remote, asked.broker_name, count)
        return WipeWritePermOfBrokerResponse(wipe_topic_count=count)

    @answers(AddWritePermOfBroker)
    def add_write_perm(self, call: Call, asked: AddWritePermOfBroker) -> Answer:
        """The opposite."""
        count = self.table.queues.add_write_perm(asked.broker_name)
        call.env.log.info("%s:%d gave write permission to %s: %d topics", *call.peer.remote, asked.broker_name, count)
        return AddWritePermOfBrokerResponse(add_topic_count=count)
