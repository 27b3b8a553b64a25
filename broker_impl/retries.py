"""A message that a consumer could not consume: once more in its group's retry topic, or, one time too often, to the dead letters.

Java: `AbstractSendMessageProcessor.consumerSendMsgBack`, `SendMessageProcessor.handleRetryAndDLQ`.
"""

from __future__ import annotations

from typing import Final

from broker_impl.engine.answers import Refusal
from broker_impl.remarks import FAQ
from broker_impl.state.groups import GroupTable
from broker_impl.state.topics import TopicTable
from rmq_wire import names, sys_flag
from rmq_wire.bodies.groups import SubscriptionGroupConfig
from rmq_wire.bodies.topics import TopicConfig
from rmq_wire.codes import VERSION_SENDS_MAX_RECONSUME_TIMES, ResponseCode

DLQ_QUEUES: Final = 1
"""`DLQ_NUMS_PER_GROUP`."""
RETRY_PERM: Final = sys_flag.PERM_READ | sys_flag.PERM_WRITE


class Retries:
    """Of one broker: its groups say how often, its topics where."""

    def __init__(self, topics: TopicTable, groups: GroupTable) -> None:
        self._topics = topics
        self._groups = groups

    def group(self, name: str) -> SubscriptionGroupConfig:
        """Raises `Refusal` for one that there is not and that may not be made."""
        found = self._groups.find(name)
        if found is None:
            raise Refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group not exist, {name} {FAQ}")
        return found

    def is_dead_letter(
        self, group: SubscriptionGroupConfig, times: int, version: int, times_max: int | None, *, given_up: bool
    ) -> bool:
        """Does it go to the dead letters, and not to the retry topic, now that it would be consumed again `times` times?

        `times_max`: what a client of this version allows.  `given_up`: it is not to be tried again, whatever the count.
        """
        if version < VERSION_SENDS_MAX_RECONSUME_TIMES or times_max is None:
            times_max = group.retry_max_times
        return given_up or times > times_max

    def make_topic(self, name: str, queues: int, flags: int = 0) -> TopicConfig:
        """A retry topic, made when it is not there."""
        return self._topics.create_in_send_back(name, queues, RETRY_PERM, flags)

    def dead_letters(self, group: str) -> tuple[str, int]:
        """Topic and queue, made when they are not there.  Raises `Unsaved` until they are on the disk."""
        name = names.dlq_topic(group)
        self.make_topic(name, DLQ_QUEUES)
        self._topics.require_saved(name)
        return name, DLQ_QUEUES - 1
