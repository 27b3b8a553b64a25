"""How far a group has read: committed, asked for, kept, moved; and where a queue begins and ends."""

from __future__ import annotations

import time
from typing import Any

from conformance.suite.kit import MUST, SHOULD, Code, ResponseCode, Trial, case
from conformance.suite.means.members import Member
from rmq_wire.bodies.heartbeat import BROADCASTING
from rmq_wire.headers.offsets import QueryConsumerOffset, QueryCorrectionOffset, ResetOffset, UpdateConsumerOffset
from rmq_wire.headers.positions import GetEarliestMsgStoretime, GetMaxOffset, GetMinOffset, SearchOffset
from rmq_wire.headers.stats import QueryConsumeTimeSpan

MANAGER = "ConsumerManageProcessor"
PROXY_FOR_BROADCAST = 1
"""`RequestSource`: a pull that a proxy makes for a member of a broadcasting group."""
BROADCAST_S = 30.0
"""A broker keeps the progress of slowest members every 5 s."""
BOTH = (Code.UPDATE_CONSUMER_OFFSET, Code.QUERY_CONSUMER_OFFSET)


async def commit(t: Trial, group: str, topic: str, offset: int, queue: int = 0) -> None:
    """Commit (15), which must succeed."""
    asked = UpdateConsumerOffset(consumer_group=group, topic=topic, queue_id=queue, commit_offset=offset)
    t.answer(f"commit {offset} of queue {queue}", await t.broker.ask(asked))


async def committed(
    t: Trial, group: str, topic: str, expected: int | None, queue: int = 0, *, zero_if_not_found: bool | None = None
) -> None:
    """The progress (14) is this; None: not found (22)."""
    asked = QueryConsumerOffset(consumer_group=group, topic=topic, queue_id=queue, set_zero_if_not_found=zero_if_not_found)
    answer = await t.broker.ask(asked)
    if expected is None:
        t.answer(f"progress of queue {queue}", answer, code=ResponseCode.QUERY_NOT_FOUND)
    else:
        t.answer(f"progress of queue {queue}", answer, ext={"offset": str(expected)})


async def filled(t: Trial, count: int, *, queues: int = 1) -> str:
    """A topic with so many messages in each queue, dispatched."""
    topic = await t.topic(queues=queues)
    for queue in range(queues):
        for number in range(count):
            await t.send(topic, b"m%d" % number, queue=queue)
        if count:
            await t.pull_all(topic, count, queue=queue)
    return topic


@case("offsets.commit-then-query", MUST, codes=BOTH, rests_on=f"{MANAGER}.updateConsumerOffset, queryConsumerOffset")
async def commit_then_query(t: Trial) -> None:
    """What was committed is what a query answers."""
    topic, group = await filled(t, 5, queues=2), await t.group()
    await commit(t, group, topic, 3, queue=1)
    await committed(t, group, topic, 3, queue=1)
    await commit(t, group, topic, 1, queue=1)
    await committed(t, group, topic, 1, queue=1)


@case("offsets.per-group", MUST, codes=BOTH, rests_on="ConsumerOffsetManager")
async def per_group(t: Trial) -> None:
    """Groups and queues do not share their progress."""
    topic, first, second = await filled(t, 5, queues=2), await t.group(), await t.group()
    await commit(t, first, topic, 4)
    await commit(t, second, topic, 2)
    await committed(t, first, topic, 4)
    await committed(t, second, topic, 2)
    await committed(t, first, topic, 0, queue=1)


@case("offsets.young-queue", MUST, codes=Code.QUERY_CONSUMER_OFFSET, rests_on=f"{MANAGER}.queryConsumerOffset")
async def young_queue(t: Trial) -> None:
    """Without progress on record a young queue counts as read from 0.

    A queue that still begins at 0 and whose start is in memory: so a new group loses nothing of it.
    """
    topic = await filled(t, 3)
    await committed(t, await t.group(), topic, 0)


@case(
    "offsets.not-found-if-asked",
    MUST,
    codes=Code.QUERY_CONSUMER_OFFSET,
    since=(5,),
    rests_on=f"{MANAGER}.queryConsumerOffset: setZeroIfNotFound",
)
async def not_found(t: Trial) -> None:
    """A client may ask for an error where there is no progress: code 22."""
    topic = await filled(t, 3)
    await committed(t, await t.group(), topic, None, zero_if_not_found=False)
    await committed(t, await t.group(), topic, 0, zero_if_not_found=True)


@case("offsets.unknown-group", SHOULD, codes=Code.QUERY_CONSUMER_OFFSET, rests_on=f"{MANAGER}: groups are made as they come")
async def unknown_group(t: Trial) -> None:
    """The progress of a group that nobody made can be asked for."""
    topic = await filled(t, 1)
    await committed(t, t.name("unknown"), topic, 0)


@case("offsets.unknown-topic", SHOULD, codes=Code.UPDATE_CONSUMER_OFFSET, since=(5,), rests_on=f"{MANAGER}.updateConsumerOffset")
async def unknown_topic(t: Trial) -> None:
    """A commit for a topic that is not there is refused."""
    asked = UpdateConsumerOffset(consumer_group=await t.group(), topic=t.name("nobody"), queue_id=0, commit_offset=1)
    t.answer("commit", await t.broker.ask(asked), code=ResponseCode.TOPIC_NOT_EXIST)


@case("offsets.one-way-commit", MUST, codes=BOTH, rests_on="RemoteBrokerOffsetStore.updateConsumeOffsetToBroker")
async def one_way(t: Trial) -> None:
    """Clients commit one-way: it counts all the same."""
    topic, group, link = await filled(t, 5), await t.group(), t.connect()
    await link.send_oneway(UpdateConsumerOffset(consumer_group=group, topic=topic, queue_id=0, commit_offset=5))

    async def counts() -> bool:
        answer = await t.broker.ask(QueryConsumerOffset(consumer_group=group, topic=topic, queue_id=0))
        return answer.ext.get("offset") == "5"

    await t.until("the progress is 5", counts)


@case(
    "offsets.reset-to-time",
    MUST,
    codes=Code.INVOKE_BROKER_TO_RESET_OFFSET,
    rests_on="AdminBrokerProcessor.resetOffset, Broker2Client.resetOffset",
)
async def reset_to_time(t: Trial) -> None:
    """An operator sets a group back to a time.

    Whether the broker moves the progress itself or notifies the online members is a matter of `useServerSideResetOffset`.  With
    it (the default since 5.1.4), the answer names the offset of every queue and the next query answers it.
    """
    topic, group = await filled(t, 4), await t.group()
    await commit(t, group, topic, 4)
    asked = ResetOffset(group=group, topic=topic, timestamp=0, is_force=True)
    answer = await t.broker.ask(asked)
    if t.version is not None and t.version < (5,):
        t.note("answer", answer)
        t.answer("reset of a group that is not online", answer, code=ResponseCode.CONSUMER_NOT_ONLINE)
        return
    t.answer("reset", answer)
    await committed(t, group, topic, 0)


@case(
    "offsets.reset-to-offset",
    MUST,
    codes=Code.INVOKE_BROKER_TO_RESET_OFFSET,
    since=(5,),
    rests_on="AdminBrokerProcessor.resetOffsetInner",
)
async def reset_to_offset(t: Trial) -> None:
    """An operator sets one queue to an offset."""
    topic, group = await filled(t, 4, queues=2), await t.group()
    for queue in range(2):
        await commit(t, group, topic, 4, queue)
    asked = ResetOffset(group=group, topic=topic, timestamp=-1, is_force=True, queue_id=1, offset=2)
    t.answer("reset", await t.broker.ask(asked))
    await committed(t, group, topic, 2, queue=1)
    await committed(t, group, topic, 4, queue=0)


@case(
    "offsets.reset-beats-pull",
    SHOULD,
    codes=(Code.INVOKE_BROKER_TO_RESET_OFFSET, Code.PULL_MESSAGE),
    since=(5,),
    rests_on="PullMessageProcessor: queryThenEraseResetOffset",
)
async def reset_beats_pull(t: Trial) -> None:
    """After a reset the next pull is sent back to the new place.

    Code 21 with the new offset, once: so a member that goes on pulling learns of it without a notice.
    """
    topic, group = await filled(t, 4), await t.group()
    member = Member(t)
    await member.consumes(group, topic)
    await commit(t, group, topic, 4)
    t.answer("reset", await t.broker.ask(ResetOffset(group=group, topic=topic, timestamp=0, is_force=True)))
    pulled = await t.pull(topic, 3, group=group, link=member.link)
    t.answer("the first pull", pulled.answer, code=ResponseCode.PULL_OFFSET_MOVED, ext={"nextBeginOffset": "0"})
    pulled = await t.pull(topic, 0, group=group, link=member.link)
    t.equal("the second", [bytes(unit.body) for unit in pulled.messages], [b"m0", b"m1", b"m2", b"m3"])


@case(
    "offsets.broadcast.slowest",
    SHOULD,
    codes=(Code.PULL_MESSAGE, Code.QUERY_CONSUMER_OFFSET),
    since=(5, 3),
    rests_on="BroadcastOffsetManager.scanOffsetData",
)
async def broadcast_slowest(t: Trial) -> None:
    """How far the slowest member of a broadcasting group has pulled is kept for GROUP@broadcast, every 5 s."""
    topic, group = await filled(t, 4, queues=2), await t.group()
    for offset in (3, 1):
        member = Member(t)
        await member.consumes(group, topic, message_model=BROADCASTING)
        t.answer("pull", (await t.pull(topic, offset, group=group, link=member.link)).answer)
    asked = QueryConsumerOffset(consumer_group=f"{group}@broadcast", topic=topic, queue_id=0, set_zero_if_not_found=False)

    async def slowest() -> bool:
        return (await t.broker.ask(asked)).ext.get("offset") == "1"

    await t.until("the progress of the slowest", slowest, seconds=BROADCAST_S)
    await committed(t, f"{group}@broadcast", topic, None, queue=1, zero_if_not_found=False)
    await committed(t, group, topic, None, zero_if_not_found=False)


@case(
    "offsets.broadcast.by-proxy",
    SHOULD,
    codes=Code.PULL_MESSAGE,
    since=(5, 3),
    rests_on="PullMessageProcessor.queryBroadcastPullInitOffset",
)
async def broadcast_by_proxy(t: Trial) -> None:
    """A member of a broadcasting group that a proxy brings without an offset is told where to begin, with code 21.

    So is one that comes directly now and was a proxy's before, or the other way round: where it was.
    """
    topic, group, member = await filled(t, 4), await t.group(), Member(t)
    await member.consumes(group, topic, message_model=BROADCASTING)

    async def moved(what: str, offset: int, expected: int | None, *, client_id: str | None = None) -> None:
        by_proxy: dict[str, Any] = {"request_source": PROXY_FOR_BROADCAST, "proxy_froward_client_id": client_id}
        how = {"link": member.link} if client_id is None else by_proxy
        pulled = await t.pull(topic, offset, group=group, **how)
        if expected is None:
            t.answer(what, pulled.answer)
        else:
            ext = {"nextBeginOffset": str(expected), "minOffset": "0", "maxOffset": "0"}
            t.answer(what, pulled.answer, code=ResponseCode.PULL_OFFSET_MOVED, remark="OFFSET_RESET", ext=ext)

    await moved("a new one", -1, 0, client_id=t.name("far"))
    await moved("directly", 2, None)
    await moved("by proxy now", 0, 2, client_id=member.client_id)
    await moved("by proxy still", 1, None, client_id=member.client_id)
    await moved("directly again", 0, 2)
    await moved("directly still", 0, None)


@case(
    "offsets.smallest-of-all-groups",
    SHOULD,
    codes=Code.QUERY_CORRECTION_OFFSET,
    rests_on="ConsumerOffsetManager.queryMinOffsetInAllGroup",
)
async def smallest_of_all_groups(t: Trial) -> None:
    """Per queue the progress of the group that is furthest behind; a queue in which nobody has any is left out."""
    topic, first, second = await filled(t, 4, queues=3), await t.group(), await t.group()
    for group, queue, offset in ((first, 0, 3), (second, 0, 2), (second, 1, 4)):
        await commit(t, group, topic, offset, queue)
    answer = t.answer("308", await t.broker.ask(QueryCorrectionOffset(compare_group=first, topic=topic)))
    smallest = {int(queue): offset for queue, offset in answer.json()["correctionOffsets"].items()}
    t.equal("smallest", smallest, {0: 2, 1: 4})


@case(
    "offsets.time-spans",
    SHOULD,
    codes=Code.QUERY_CONSUME_TIME_SPAN,
    rests_on="AdminBrokerProcessor.queryConsumeTimeSpan",
)
async def time_spans(t: Trial) -> None:
    """When a queue's first and last message were stored, and the last one that the group has read.

    The delay is the age of the next one, and none where the group has read all.
    """
    topic, group = await filled(t, 3, queues=2), await t.group()
    await commit(t, group, topic, 2, 0)
    await commit(t, group, topic, 3, 1)
    answer = t.answer("303", await t.broker.ask(QueryConsumeTimeSpan(topic=topic, group=group)))
    spans = {span["messageQueue"]["queueId"]: span for span in answer.json()["consumeTimeSpanSet"]}
    t.equal("queues", sorted(spans), [0, 1])
    for queue, consumed in ((0, 2), (1, 3)):
        stored = [unit.store_timestamp for unit in await t.pull_all(topic, 3, queue=queue)]
        span = spans[queue]
        seen = (span["minTimeStamp"], span["maxTimeStamp"], span["consumeTimeStamp"])
        t.equal(f"times of queue {queue}", seen, (stored[0], stored[2], stored[consumed - 1]))
        t.check(f"delay of queue {queue}", (span["delayTime"] > 0) == (consumed < 3), seen=span["delayTime"])


@case(
    "offsets.max-and-min",
    MUST,
    codes=(Code.GET_MAX_OFFSET, Code.GET_MIN_OFFSET),
    rests_on="AdminBrokerProcessor.getMaxOffset, getMinOffset",
)
async def max_and_min(t: Trial) -> None:
    """A queue answers where it begins and where its next message goes."""
    topic = await filled(t, 3, queues=2)
    empty = await t.topic()
    for name, queue, end in ((topic, 0, 3), (topic, 1, 3), (empty, 0, 0)):
        t.answer("max", await t.broker.ask(GetMaxOffset(topic=name, queue_id=queue)), ext={"offset": str(end)})
        t.answer("min", await t.broker.ask(GetMinOffset(topic=name, queue_id=queue)), ext={"offset": "0"})


@case(
    "offsets.of-nobody",
    SHOULD,
    codes=(Code.GET_MAX_OFFSET, Code.GET_MIN_OFFSET),
    rests_on="DefaultMessageStore.getMaxOffsetInQueue",
)
async def bounds_of_nobody(t: Trial) -> None:
    """Bounds of a queue that is not there are 0.

    The reference makes no difference between an empty queue and none.
    """
    for name, queue in ((t.name("nobody"), 0), (await t.topic(), 7)):
        t.answer("max", await t.broker.ask(GetMaxOffset(topic=name, queue_id=queue)), ext={"offset": "0"})
        low = await t.broker.ask(GetMinOffset(topic=name, queue_id=queue))
        t.answer("min", low, ext={"offset": frozenset({"0", "-1"})})


@case("offsets.by-time", MUST, codes=Code.SEARCH_OFFSET_BY_TIMESTAMP, rests_on="AdminBrokerProcessor.searchOffsetByTimestamp")
async def by_time(t: Trial) -> None:
    """A search by time finds the first message stored at or after it.

    Before everything: the first.  After everything: the end.  At a message's time: that message.
    """
    topic = await t.topic(queues=2)
    times: list[int] = []

    async def time_went_on() -> bool:
        """What the other queue is sent now is stored later than the last message, with a time between the two."""
        sent = await t.send(topic, queue=1)
        there = (await t.pull(topic, sent.queue_offset, queue=1, hold_ms=1_000)).messages
        return bool(there) and there[0].store_timestamp > times[-1] + 1

    for number in range(3):
        await t.send(topic, b"m%d" % number)
        [unit] = await t.pull_all(topic, 1, offset=number)
        times.append(unit.store_timestamp)
        await t.until("the messages have different times", time_went_on, seconds=5)
    for what, at, expected in (
        ("before everything", times[0] - 1_000, 0),
        ("at the first", times[0], 0),
        ("at the second", times[1], 1),
        ("just before the second", times[1] - 1, 1),
        ("at the third", times[2], 2),
        ("after everything", times[2] + 60_000, t.by_version({"": 3, "4": 2})),
    ):
        answer = await t.broker.ask(SearchOffset(topic=topic, queue_id=0, timestamp=at))
        t.answer(what, answer, ext={"offset": str(expected)})


@case("offsets.by-time-of-empty", SHOULD, codes=Code.SEARCH_OFFSET_BY_TIMESTAMP, rests_on="ConsumeQueue.getOffsetInQueueByTime")
async def by_time_of_empty(t: Trial) -> None:
    """The search in an empty queue finds 0."""
    answer = await t.broker.ask(SearchOffset(topic=await t.topic(), queue_id=0, timestamp=int(time.time() * 1_000)))
    t.answer("search", answer, ext={"offset": "0"})


@case(
    "offsets.earliest-time", MUST, codes=Code.GET_EARLIEST_MSG_STORETIME, rests_on="AdminBrokerProcessor.getEarliestMsgStoretime"
)
async def earliest(t: Trial) -> None:
    """When a queue's oldest message was stored; -1 without one."""
    topic = await filled(t, 2)
    [unit] = await t.pull_all(topic, 1)
    answer = await t.broker.ask(GetEarliestMsgStoretime(topic=topic, queue_id=0))
    t.answer("of a filled queue", answer, ext={"timestamp": str(unit.store_timestamp)})
    answer = await t.broker.ask(GetEarliestMsgStoretime(topic=await t.topic(), queue_id=0))
    t.answer("of an empty queue", answer, ext={"timestamp": "-1"})
