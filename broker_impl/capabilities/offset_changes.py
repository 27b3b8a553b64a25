"""Moving a group's progress in its place: set back or forward (222), copied to another group (314), compared (308).

A reset is done here, and the group's next pull is told of it; or, with useServerSideResetOffset=false, by the group's members,
who are notified (220) and commit where they then stand.  When it cannot be written it is taken back and the answer is 1, but
in queues of which a member was told before that.  Topics may have thousands of queues: they are gone through in slices.

Java: `AdminBrokerProcessor` (resetOffset, resetOffsetInner, cloneGroupOffset, queryCorrectionOffset), `ConsumerOffsetManager`
(assignResetOffset, cloneOffset, queryMinOffsetInAllGroup), `Broker2Client.resetOffset`.  *Differs*: 308 forgets no progress, 314
without a topic copies all of them, and a queue must be one of the topic's (docs/differences.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Final, NamedTuple, Protocol

from broker_impl.config import BrokerConfig
from broker_impl.engine.answers import Answer, Pause, Refusal, Reply
from broker_impl.engine.call import Call
from broker_impl.engine.cold_reads import ColdReads
from broker_impl.engine.engine import Engine
from broker_impl.engine.router import Capability, answers
from broker_impl.engine.slices import ROWS_PER_SLICE, Slices, begun, going_on, joined, spelled
from broker_impl.state.clients import Clients
from broker_impl.state.consumer_offsets import FULL, ConsumerOffsets
from broker_impl.state.groups import GroupTable
from broker_impl.state.persisted import saving
from broker_impl.state.topics import TopicTable
from rmq_wire import names
from rmq_wire.bodies.body import FASTJSON
from rmq_wire.bodies.offsets import CorrectionOffsets, QueueOffset, ResetOffsetForC
from rmq_wire.bodies.offsets import ResetOffset as ResetOffsetBody
from rmq_wire.bodies.topics import TopicConfig
from rmq_wire.codes import VERSION_RESETS_OFFSET, LanguageCode, ResponseCode
from rmq_wire.fastjson import MessageQueue
from rmq_wire.headers.offsets import CloneGroupOffset, QueryCorrectionOffset, ResetConsumerClientOffset, ResetOffset

NOT_GIVEN: Final = -1
"""An offset that says: by time; a time that says: the end."""
UNREAD: Final = (1 << 63) - 1
"""`Long.MAX_VALUE` in answer 308: another group is beyond the compared one there."""


class QueueStore(Protocol):
    """What is asked of the store here."""

    def queue_bounds(self, topic: str, queue_id: int) -> tuple[int, int]: ...
    def offset_by_time(self, topic: str, queue_id: int, timestamp: int) -> int: ...


class _Before(NamedTuple):
    """Of a queue, before a reset: the progress (-1: none), and whether it is an earlier reset that waits to be found."""

    offset: int
    is_reset: bool


class OffsetChanges(Capability):
    """Codes 222, 308 and 314; asks members with 220."""

    def __init__(
        self,
        engine: Engine,
        reads: ColdReads,
        config: BrokerConfig,
        topics: TopicTable,
        groups: GroupTable,
        clients: Clients,
        offsets: ConsumerOffsets,
        store: QueueStore,
    ) -> None:
        self._engine = engine
        self._reads = reads
        self._config = config
        self._topics = topics
        self._groups = groups
        self._clients = clients
        self._offsets = offsets
        self._store = store
        self._resetting: dict[tuple[str, str], list[Pause]] = {}
        """(group, topic) whose reset is on its way to the disk, and the resets that wait for its end."""

    # -- 222

    @answers(ResetOffset, in_order=True)
    def reset(self, call: Call, asked: ResetOffset) -> Answer:
        """Set a group to what was stored at a time, to an offset of one queue, or (-1) to the end."""
        host, port = call.peer.remote
        call.env.log.warning(
            "%s:%d resets group %s on %s: queue %d, time %d, offset %s",
            *(host, port, asked.group, asked.topic, asked.queue_id, asked.timestamp, str(asked.offset)),
        )
        topic = self._topics.get(asked.topic)
        if not self._config.use_server_side_reset_offset:
            if topic is None:
                remark = f"[reset-offset] reset offset failed, no topic in this broker. topic={asked.topic}"
                raise Refusal(ResponseCode.TOPIC_NOT_EXIST, remark)
            return begun(self._reset_by_members(asked, topic, for_c=call.command.language == LanguageCode.CPP))
        return begun(going_on(self._reset_here(asked), self._engine.in_background))

    def _check_there(self, asked: ResetOffset) -> TopicConfig:
        """The topic.  Raises `Refusal`."""
        topic = self._topics.get(asked.topic)
        if topic is None:
            raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"Topic {asked.topic} does not exist")
        if asked.group not in self._groups:
            raise Refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {asked.group} does not exist")
        return topic

    def _reset_here(self, asked: ResetOffset) -> Slices[Reply]:
        topic = self._check_there(asked)
        if asked.queue_id >= 0:
            targets = {asked.queue_id: (yield from self._target(asked, topic))}
        else:
            targets = yield from self._by_time(asked.topic, range(topic.read_queue_nums), asked.timestamp)
        if not targets:
            raise Refusal(ResponseCode.SYSTEM_ERROR, "No queues to reset.")
        before: dict[int, _Before] = {}
        key = asked.group, asked.topic
        while key in self._resetting:  # what is taken back gives way to what was before it, and never to what came behind
            self._resetting[key].append(pause := Pause())
            yield pause
        self._resetting[key] = []
        try:
            yield from self._assign(asked, targets, before)
            yield from saving(self._offsets)  # *differs*: Java forgets it in a crash within five seconds
        except Refusal as no:
            told = yield from self._take_back(asked, targets, before)
            self._engine.env.log.warning("the reset of group %s on %s is taken back, but in %d queues", *key, told)
            but = f"; but members were told of it in {told} queues and go on there" if told else ""
            raise Refusal(no.code, f"{no.remark}{but}") from None
        finally:
            for pause in self._resetting.pop(key):
                pause.end()
        return (yield from spelled(ResetOffsetBody(offset_table=self._named(asked.topic, targets)), FASTJSON))

    def _assign(self, asked: ResetOffset, targets: dict[int, int], before: dict[int, _Before]) -> Slices[None]:
        group, topic, offsets = asked.group, asked.topic, self._offsets
        for count, (queue_id, offset) in enumerate(targets.items()):
            if count % ROWS_PER_SLICE == 0:
                if count:
                    yield None
                self._check_there(asked)  # it may have been deleted meanwhile
            if offsets.is_full(group) and not offsets.knows(group, topic, queue_id):
                raise Refusal(ResponseCode.SYSTEM_ERROR, FULL)
            before[queue_id] = _Before(offsets.query(group, topic, queue_id), offsets.has_reset(group, topic, queue_id))
            offsets.assign_reset(group, topic, queue_id, offset)

    def _take_back(self, asked: ResetOffset, targets: dict[int, int], before: dict[int, _Before]) -> Slices[int]:
        """Put progress back where it was; the number of queues in which that is too late, since a member was told."""
        group, topic, offsets = asked.group, asked.topic, self._offsets
        told = 0
        for count, (queue_id, was) in enumerate(before.items(), 1):
            row = offsets.queues(group, topic)
            if row is None:
                break  # group or topic was deleted meanwhile
            if offsets.take_reset(group, topic, queue_id) is None:
                told += 1
            elif row.get(queue_id) == targets[queue_id]:  # else it was copied from another group meanwhile (314)
                offsets.commit(group, topic, queue_id, was.offset, "a reset that is taken back")
                if was.is_reset:
                    offsets.assign_reset(group, topic, queue_id, was.offset)
            if count % ROWS_PER_SLICE == 0:
                yield None
        return told

    def _target(self, asked: ResetOffset, topic: TopicConfig) -> Slices[int]:
        """Where one queue is set to.  One beyond its end is lawful, as in Java: the next pull is told the end."""
        name, queue_id = asked.topic, asked.queue_id
        there = queue_id < topic.queues
        if not there and not self._offsets.knows(asked.group, name, queue_id):
            raise Refusal(ResponseCode.INVALID_PARAMETER, f"QueueId {queue_id} does not exist, topic is {name}")
        if asked.offset is None or asked.offset == NOT_GIVEN:
            return (yield from self._by_time(name, (queue_id,), asked.timestamp))[queue_id]
        least, most = self._store.queue_bounds(name, queue_id)
        if not least <= asked.offset <= most + 1:
            remark = f"Target offset {asked.offset} not in consume queue range [{least}-{most}]"
            raise Refusal(ResponseCode.SYSTEM_ERROR, remark)
        return asked.offset

    def _reset_by_members(self, asked: ResetOffset, topic: TopicConfig, *, for_c: bool) -> Slices[Reply]:
        """`Broker2Client.resetOffset`: nothing is changed here, the members commit what they are told."""
        by_time = yield from self._by_time(asked.topic, range(topic.write_queue_nums), asked.timestamp)
        targets: dict[int, int] = {}
        for queue_id, offset in by_time.items():
            consumed = self._offsets.query(asked.group, asked.topic, queue_id)
            if consumed < 0:
                raise Refusal(ResponseCode.SYSTEM_ERROR, f"THe consumer group <{asked.group}> not exist")
            targets[queue_id] = offset if asked.is_force or offset < consumed else consumed
        group = self._clients.consumer_group(asked.group)
        if group is None:
            remark = (
                f"Consumer not online, so can not reset offset, Group: {asked.group} Topic: {asked.topic} "
                f"Timestamp: {asked.timestamp}"
            )
            raise Refusal(ResponseCode.CONSUMER_NOT_ONLINE, remark)
        members = list(group.members.values())
        old = next((client for client in members if client.version < VERSION_RESETS_OFFSET), None)
        if old is not None:
            remark = f"the client does not support this feature. version={old.version}"
            raise Refusal(ResponseCode.SYSTEM_ERROR, remark)
        answer = yield from joined(ResetOffsetBody(offset_table=self._named(asked.topic, targets)).pieces(FASTJSON))
        body = (yield from joined(self._for_c(asked.topic, targets).pieces())) if for_c else answer
        notice = ResetConsumerClientOffset(
            group=asked.group, topic=asked.topic, timestamp=asked.timestamp, is_force=False, queue_id=-1, offset=None
        )
        for count, client in enumerate(members, 1):
            self._engine.send_oneway(client.peer, notice, body)
            if count % ROWS_PER_SLICE == 0:
                yield None
        return Reply(body=answer)

    def _by_time(self, topic: str, queue_ids: Iterable[int], timestamp: int) -> Slices[dict[int, int]]:
        """Where each queue is to go on: at the first message of that time or later, at its end for a time below zero."""
        found: dict[int, int] = {}
        for queue_id in queue_ids:
            if timestamp < 0:
                offset = self._store.queue_bounds(topic, queue_id)[1]
            else:
                offset = yield from self._reads.warmed(partial(self._store.offset_by_time, topic, queue_id, timestamp))
            found[queue_id] = max(0, offset)
            if len(found) % ROWS_PER_SLICE == 0:
                yield None
        return found

    def _named(self, topic: str, targets: dict[int, int]) -> dict[MessageQueue, int]:
        name = self._config.broker_name
        return {MessageQueue(topic, name, queue_id): offset for queue_id, offset in targets.items()}

    def _for_c(self, topic: str, targets: dict[int, int]) -> ResetOffsetForC:
        name = self._config.broker_name
        return ResetOffsetForC(
            offset_table=[
                QueueOffset(broker_name=name, offset=offset, queue_id=queue_id, topic=topic)
                for queue_id, offset in targets.items()
            ]
        )

    # -- 314

    @answers(CloneGroupOffset, in_order=True)
    def clone(self, call: Call, asked: CloneGroupOffset) -> Answer:
        """Give a group, which need not be there yet, the progress of another one."""
        if names.group_problem(asked.dest_group) is not None:
            raise Refusal(ResponseCode.INVALID_PARAMETER, f"the group name {asked.dest_group} is illegal")
        if self._offsets.is_full(asked.dest_group):
            raise Refusal(ResponseCode.SYSTEM_ERROR, FULL)
        topic = asked.topic or ""
        topics = self._offsets.topics_of(asked.src_group) if names.is_blank(topic) else [topic]
        return begun(going_on(self._clone(asked, topics), self._engine.in_background))

    def _clone(self, asked: CloneGroupOffset, topics: list[str]) -> Slices[Reply]:
        for count, topic in enumerate(topics, 1):
            if self._topics.get(topic) is not None and (asked.offline or self._may_read(asked.src_group, topic)):
                self._offsets.clone(asked.src_group, asked.dest_group, topic)
            if count % ROWS_PER_SLICE == 0:
                yield None
        return Reply()

    def _may_read(self, group: str, topic: str) -> bool:
        """Members who are online must subscribe to the topic, or its progress is not theirs any more."""
        online = self._clients.consumer_group(group)
        return online is None or not online.subscriptions or self._clients.subscription(group, topic) is not None

    # -- 308

    @answers(QueryCorrectionOffset)
    def correct(self, call: Call, asked: QueryCorrectionOffset) -> Answer:
        """How far every group has read a topic at least, and where that is beyond the compared group."""
        return begun(self._correct(asked))

    def _correct(self, asked: QueryCorrectionOffset) -> Slices[Reply]:
        topic = asked.topic
        left_out = set((asked.filter_groups or "").split(","))
        smallest: dict[int, int] = {}
        rows = 0
        for group in self._offsets.groups_of(topic):
            if group in left_out:
                continue
            for queue_id, offset in list((self._offsets.queues(group, topic) or {}).items()):
                if offset >= self._store.queue_bounds(topic, queue_id)[0]:
                    smallest[queue_id] = min(offset, smallest.get(queue_id, offset))
                rows += 1
                if rows % ROWS_PER_SLICE == 0:
                    yield None
        if asked.compare_group not in left_out:
            for queue_id, offset in (self._offsets.queues(asked.compare_group, topic) or {}).items():
                if smallest.get(queue_id, 0) > offset:
                    smallest[queue_id] = UNREAD
        return (yield from spelled(CorrectionOffsets(correction_offsets=smallest), FASTJSON))
