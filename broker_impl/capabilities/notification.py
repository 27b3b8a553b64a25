"""Is there something to pop (200054), as soon as there is?  And how many pops wait (200055)?

The question goes through the queues as a pop would, but hands nothing out: it looks whether they have anything behind the group's
progress.  Where few messages are left and the asker wants certain tags, their tags are looked at.  A topic of many queues is
looked through in slices.

Java: `NotificationProcessor`, `PollingInfoProcessor`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from broker_impl.engine.answers import LATER, Answer, Later, Refusal, Reply
from broker_impl.engine.call import Call, PendingAnswer
from broker_impl.engine.router import Capability, answers
from broker_impl.engine.slices import ROWS_PER_SLICE, Slices, begun
from broker_impl.filtering import (
    EVERYTHING,
    PropertyFilter,
    Unreadable,
    Wanted,
    characters_to_read,
    low_half,
    parse,
    property_filter,
)
from broker_impl.order_releases import OrderReleases
from broker_impl.pop_parts import PopParts
from broker_impl.pop_polling import Polling, PopPolling
from broker_impl.pop_rules import UNPARSED
from broker_impl.remarks import UNTOUCHED
from broker_impl.state.pop_lines import QueueOfGroup
from broker_impl.state.pop_waits import ANY_QUEUE, PopWait
from rmq_net.log import plain_text
from rmq_wire import names
from rmq_wire.bodies.topics import TopicConfig
from rmq_wire.codes import ResponseCode
from rmq_wire.headers.pop import Notification as NotificationRequest
from rmq_wire.headers.pop import NotificationResponse, PollingInfo, PollingInfoResponse

TAGS_LOOKED_AT: Final = 32
"""Entries of a queue whose tags are looked at."""
CHANCES: Final = 100


class Notification(Capability):
    """Codes 200054 and 200055.  `pops`: those that wait for messages."""

    def __init__(self, parts: PopParts, pops: PopPolling) -> None:
        self._parts = parts
        self._pops = pops
        engine, store, config = parts.engine, parts.store, parts.config
        self.polling = PopPolling(engine, store, config, self._again, self._give_up, "notification", last=True)
        self.releases = OrderReleases(engine, config, parts.orders, self.released)

    @answers(PollingInfo)
    def polling_info(self, call: Call, asked: PollingInfo) -> Answer:
        """How many pops of this group wait at this queue.  Refused: 16, 17, 26, 29 with the reference's texts."""
        self._parts.rules.admit(call.peer, asked.topic, asked.queue_id, asked.consumer_group)
        found = self._pops.count(asked.topic, asked.consumer_group, asked.queue_id)
        return Reply(PollingInfoResponse(polling_num=found), remark=UNTOUCHED)

    @answers(NotificationRequest)
    def notification(self, call: Call, asked: NotificationRequest) -> Answer:
        """Whether there is something to pop, or wait for it.  Refused: 16, 17, 23, 26, 29 with the reference's texts."""
        if self._filters(asked):
            self._parts.engine.shares.one_selector(characters_to_read(asked.exp, asked.exp_type))
        return begun(self._looking(asked, call.detach(), None))

    def _looking(
        self, asked: NotificationRequest, pending: PendingAnswer, until_ms: int | None, known: Wanted | None = None
    ) -> Slices[Reply | Later]:
        """The answer, or that it waits.  `known`: what it wants, read before.  Raises `Refusal`."""
        topic, _ = self._parts.rules.admit(pending.peer, asked.topic, asked.queue_id, asked.consumer_group)
        wanted = known or self._wanted(asked)
        since = self.polling.arrivals
        for count, (name, queue_id) in enumerate(self._queues(topic, asked)):
            ours = wanted if name == topic.topic_name else EVERYTHING  # retries are not filtered
            if (yield from self._parts.reads.warmed(partial(self._has_message, asked, ours, name, queue_id))):
                return _said(has_msg=True)
            if count % ROWS_PER_SLICE == ROWS_PER_SLICE - 1:
                yield None
        polling = self.polling.hold(pending, asked, wanted, until_ms, since=since)
        if polling is Polling.HELD:
            return LATER
        return _said(has_msg=False, polling_full=polling is Polling.FULL)

    def _filters(self, asked: NotificationRequest) -> bool:
        return bool(self._parts.config.use_message_filter_for_notification and asked.exp_type and asked.exp)

    def _wanted(self, asked: NotificationRequest) -> Wanted:
        """What it asks for, where filters count.  Raises `Refusal`."""
        if not (asked.exp and asked.exp_type and self._filters(asked)):
            return EVERYTHING
        try:
            wanted = parse(asked.exp, asked.exp_type)
            if wanted.expression_type is not None:
                return wanted._replace(matches=property_filter(asked.exp, asked.exp_type))
        except (Unreadable, ValueError):
            raise Refusal(ResponseCode.SUBSCRIPTION_PARSE_FAILED, UNPARSED) from None
        return wanted

    def _queues(self, topic: TopicConfig, asked: NotificationRequest) -> Iterator[tuple[str, int]]:
        """Those of the topic from a random one on, or the one; then those of the group's retry topics."""
        config, chance = self._parts.config, self._parts.env.rng.randrange(CHANCES)
        if asked.queue_id >= 0:
            yield topic.topic_name, asked.queue_id
        else:
            for at in range(topic.read_queue_nums):
                yield topic.topic_name, (chance + at) % topic.read_queue_nums
        versions = [config.enable_retry_topic_v2]
        if config.enable_retry_topic_v2 and config.retrieve_message_from_pop_retry_topic_v1:
            versions.append(False)
        for v2 in versions:
            retries = self._parts.topics.get(names.pop_retry_topic(asked.topic, asked.consumer_group, v2=v2))
            for at in range(retries.read_queue_nums if retries is not None else 0):
                yield retries.topic_name, at  # type: ignore[union-attr]

    def _has_message(self, asked: NotificationRequest, wanted: Wanted, topic: str, queue_id: int) -> bool:
        """The queue has something that is wanted and was not handed out.  Raises Cold."""
        parts = self._parts
        if asked.order and parts.orders.is_blocked(asked.attempt_id, asked.topic, asked.consumer_group, queue_id, 0):
            return False
        queue = QueueOfGroup(topic, asked.consumer_group, queue_id)
        offset = parts.walk.begin(queue)
        rest = parts.walk.rest(queue, offset)
        if wanted.codes is None or rest >= parts.config.max_message_filter_num_for_notification:
            return rest > 0
        offset = max(offset, parts.store.queue_bounds(topic, queue_id)[0])
        if parts.walk.rest(queue, offset) <= 0:
            return False
        units = parts.store.queue_units(topic, queue_id, offset, TAGS_LOOKED_AT)
        return any(low_half(code) in wanted.codes for _, _, code in units)

    def released(self, topic: str, group: str, queue_id: int) -> None:
        """An ordered queue is free again: who waits for it gets what it has (`notifyLongPollingRequestIfNeed`)."""
        queue = QueueOfGroup(topic, group, queue_id)
        if self._parts.walk.rest(queue, self._parts.walk.begin(queue)) <= 0:
            return
        if not self._pops.notify(topic, group, ANY_QUEUE):
            self._pops.notify(topic, group, queue_id)
        self.polling.notify(topic, group, ANY_QUEUE)
        self.polling.notify(topic, group, queue_id)

    # Those that wait

    def _again(self, one: PopWait) -> None:
        if isinstance(one.wanted.matches, PropertyFilter):
            one.wanted.matches.keep()
        work = self._looking(one.asked, one.pending, one.deadline_ms, one.wanted)
        self._parts.engine.in_background(work, partial(self._looked, one.pending))

    @staticmethod
    def _looked(pending: PendingAnswer, answer: Reply | Later | None, error: BaseException | None) -> None:
        if isinstance(error, Refusal):
            pending.answer(error)
        elif error is not None:
            pending.answer(Refusal(ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {plain_text(error)}"))
        elif answer is not None and answer is not LATER:
            pending.answer(answer)

    @staticmethod
    def _give_up(one: PopWait) -> None:
        one.pending.answer(_said(has_msg=False))


def _said(*, has_msg: bool, polling_full: bool = False) -> Reply:
    return Reply(NotificationResponse(has_msg=has_msg, polling_full=polling_full), remark=UNTOUCHED)
