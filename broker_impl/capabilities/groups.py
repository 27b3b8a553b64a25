"""Consumer groups by the hand of a tool: create, change, delete, look at, forbid (200, 225, 352, 207, 353).

Java: `AdminBrokerProcessor` (updateAndCreateSubscriptionGroup, …List, getSubscriptionGroup, deleteSubscriptionGroup,
updateAndGetGroupForbidden).  Difference: retryQueueNums has a limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from broker_impl.engine.answers import Answer, Refusal, Reply
from broker_impl.engine.call import Call
from broker_impl.engine.engine import Engine
from broker_impl.engine.router import Capability, answers
from broker_impl.engine.slices import in_turn
from broker_impl.state.attributes import BadAttribute
from broker_impl.state.consumer_offsets import ConsumerOffsets
from broker_impl.state.groups import READ_INDEX, GroupTable
from broker_impl.state.stats import Stats
from rmq_wire import names
from rmq_wire.bodies.groups import GroupForbidden, SubscriptionGroupConfig, SubscriptionGroupList
from rmq_wire.codes import ResponseCode
from rmq_wire.headers.groups import (
    DeleteSubscriptionGroup,
    GetSubscriptionGroupConfig,
    UpdateAndCreateSubscriptionGroup,
    UpdateAndCreateSubscriptionGroupList,
    UpdateGroupForbidden,
)

RETRY_QUEUES_MAX = 1_024
"""Queues of a retry topic, which the group's next heartbeat makes."""
GROUPS_PER_REQUEST_MAX = 2_000
"""Groups of one list, which are made all or none, at once."""


class Groups(Capability):
    """Works on the table of groups; deleting touches progress and statistics too.

    `forget(group, clean_offset)`: what somebody has of it, in slices of which the first is done at once.
    """

    def __init__(
        self,
        engine: Engine,
        groups: GroupTable,
        offsets: ConsumerOffsets,
        stats: Stats,
        forget: Callable[[str, bool], Iterable[Iterator[None]]],
    ) -> None:
        self._engine = engine
        self._groups = groups
        self._offsets = offsets
        self._stats = stats
        self._forget = forget

    @answers(UpdateAndCreateSubscriptionGroup)
    def create(self, call: Call, asked: UpdateAndCreateSubscriptionGroup) -> Answer:
        """Create the group, or make it as asked for."""
        if call.body:
            self._engine.shares.one_creation()
            self._put(call, (call.read(SubscriptionGroupConfig),))
        return Reply()

    @answers(UpdateAndCreateSubscriptionGroupList)
    def create_list(self, call: Call, asked: UpdateAndCreateSubscriptionGroupList) -> Answer:
        """Create or change several, all or none."""
        groups = call.read(SubscriptionGroupList).group_config_list
        if len(groups) > GROUPS_PER_REQUEST_MAX:
            raise Refusal(ResponseCode.INVALID_PARAMETER, f"More than {GROUPS_PER_REQUEST_MAX} groups in one request.")
        if groups:
            self._put(call, groups)
        return Reply()

    @answers(GetSubscriptionGroupConfig)
    def config(self, call: Call, asked: GetSubscriptionGroupConfig) -> Answer:
        """One group; asking makes it when groups are made automatically, as in Java."""
        group = self._groups.find(asked.group)
        if group is None:
            raise Refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "No group in this broker")
        return Reply(body=group.encode())

    @answers(DeleteSubscriptionGroup)
    def delete(self, call: Call, asked: DeleteSubscriptionGroup) -> Answer:
        """Delete the group, and its progress when asked to."""
        call.env.log.info("group %s is deleted by %s", asked.group_name, call.peer)
        self._groups.delete(asked.group_name)
        self._groups.when_saved(lambda no: self._clear(asked) if no is None else None)
        return Reply()

    def _clear(self, asked: DeleteSubscriptionGroup) -> None:
        """The group is gone for good: nobody finds what belonged to it any more."""
        works = [self._stats.dropping_group(asked.group_name), *self._forget(asked.group_name, asked.clean_offset)]
        if asked.clean_offset:
            works.append(self._offsets.dropping_group(asked.group_name))
        left = [work for work in works if next(work, works) is not works]
        if left:
            self._engine.in_background(in_turn(left))

    @answers(UpdateGroupForbidden)
    def forbid(self, call: Call, asked: UpdateGroupForbidden) -> Answer:
        """May the group read the topic?  Sets it first when asked to."""
        if asked.readable is not None:
            self._check(asked.group)
            problem = names.topic_problem(asked.topic)
            if problem is not None:
                raise Refusal(ResponseCode.INVALID_PARAMETER, problem)
            self._groups.set_forbidden(asked.group, asked.topic, READ_INDEX, not asked.readable)
        readable = not self._groups.is_forbidden(asked.group, asked.topic)
        return Reply(remark="", body=GroupForbidden(group=asked.group, topic=asked.topic, readable=readable).encode())

    def _put(self, call: Call, groups: Sequence[SubscriptionGroupConfig]) -> None:
        for group in groups:
            self._check(group.group_name)
            if not 0 <= group.retry_queue_nums <= RETRY_QUEUES_MAX:
                raise Refusal(
                    ResponseCode.INVALID_PARAMETER,
                    f"retryQueueNums {group.retry_queue_nums} is not in range(0, {RETRY_QUEUES_MAX})",
                )
        call.env.log.info("groups %s are made or changed by %s", [group.group_name for group in groups], call.peer)
        try:
            self._groups.put_all(groups)
        except BadAttribute as wrong:
            raise Refusal(ResponseCode.SYSTEM_ERROR, str(wrong)) from None

    def _check(self, name: str) -> None:
        problem = names.group_problem(name)
        if problem is not None:
            raise Refusal(ResponseCode.INVALID_PARAMETER, problem)
