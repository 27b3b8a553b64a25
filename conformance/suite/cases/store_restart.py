"""What a broker has acknowledged is there after it was stopped, and after it was killed."""

from __future__ import annotations

from typing import NamedTuple

from conformance.suite.kit import MUST, Code, Link, Need, Trial, case, units
from rmq_wire import property_names as prop
from rmq_wire.headers import groups
from rmq_wire.headers.offsets import QueryConsumerOffset, UpdateConsumerOffset
from rmq_wire.headers.positions import GetMaxOffset, GetMinOffset
from rmq_wire.headers.query import QueryMessage

CODES = (Code.SEND_MESSAGE_V2, Code.PULL_MESSAGE, Code.QUERY_CONSUMER_OFFSET, Code.QUERY_MESSAGE)
NEEDS = (Need.RESTART, Need.STORE, Need.OWN)
QUEUES = 2
MESSAGES = 12
"""Of each queue."""
READ = 7
"""So many of queue 1 the group has read."""
ATTEMPTS = 5
ALWAYS_MS = 1 << 62


class Before(NamedTuple):
    """What was acknowledged."""

    topic: str
    group: str
    delayed: str
    """A topic to which one message is on its way, level 2: in five seconds."""
    units: list[list[bytes]]
    """Each queue's messages, as bodies and places in the log."""


async def _stored(t: Trial, link: Link, topic: str, queue: int) -> list[bytes]:
    found = await t.pull_all(topic, MESSAGES, queue=queue, link=link)
    return [b"%d:%d:%s" % (unit.queue_offset, unit.physical_offset, bytes(unit.body)) for unit in found]


async def _acknowledged(t: Trial) -> Before:
    """Messages with keys, a group with progress, which has come into its file, and a message that waits."""
    topic, delayed, group = await t.topic(queues=QUEUES), await t.topic(), await t.group(retry_max_times=ATTEMPTS)
    for number in range(MESSAGES * QUEUES):
        await t.send(topic, b"m%d" % number, queue=number % QUEUES, keys=f"k{number}", tags="a")
    stored = [await _stored(t, t.broker, topic, queue) for queue in range(QUEUES)]
    asked = UpdateConsumerOffset(consumer_group=group, topic=topic, queue_id=1, commit_offset=READ)
    t.answer("commit", await t.broker.ask(asked))

    async def written() -> bool:
        try:
            text = (t.store / "config" / "consumerOffset.json").read_text()
        except OSError:
            return False
        return f"{topic}@{group}" in text

    await t.until("the progress is in its file", written)
    await t.send(delayed, b"later", {prop.DELAY: "2"})
    return Before(topic, group, delayed, stored)


async def _still_there(t: Trial, before: Before, read: int = READ) -> None:
    link = t.connect()
    for queue in range(QUEUES):
        t.equal(f"messages of queue {queue}", await _stored(t, link, before.topic, queue), before.units[queue])
        for asked, expected in ((GetMinOffset, 0), (GetMaxOffset, MESSAGES)):
            answer = await link.ask(asked(topic=before.topic, queue_id=queue))
            t.answer(f"{asked.__name__} of queue {queue}", answer, ext={"offset": str(expected)})
    asked_progress = QueryConsumerOffset(consumer_group=before.group, topic=before.topic, queue_id=1)
    t.answer("the group's progress", await link.ask(asked_progress), ext={"offset": str(read)})
    table = (await link.ask(groups.GetAllSubscriptionGroup())).json()["subscriptionGroupTable"]
    t.equal("the group's limit of attempts", table.get(before.group, {}).get("retryMaxTimes"), ATTEMPTS)
    for number in (0, MESSAGES * QUEUES - 1):
        by_key = QueryMessage(topic=before.topic, key=f"k{number}", max_num=32, begin_timestamp=0, end_timestamp=ALWAYS_MS)
        found = units(t.answer(f"look up k{number}", await link.ask(by_key)).body)
        t.equal("the message of this key, once", [bytes(unit.body) for unit in found], [b"m%d" % number])
    sent = await t.send(before.topic, b"next", queue=1, link=link)
    t.equal("the next one's offset", sent.queue_offset, MESSAGES)
    [late] = await t.pull_all(before.delayed, 1, link=link)
    t.equal("what was on its way", (bytes(late.body), bytes(late.topic).decode()), (b"later", before.delayed))


@case(
    "store.restart.stopped",
    MUST,
    codes=CODES,
    needs=NEEDS,
    slow=True,
    alone=True,
    rests_on="BrokerController.shutdown, DefaultMessageStore.load",
)
async def stopped(t: Trial) -> None:
    """Everything acknowledged is there when the broker comes back from a clean stop.

    Messages at their places, keys, ends of queues, progress, groups, what waits; the next message follows the last.  So is
    progress that was told right before the stop, whose file is written now and then.
    """
    before = await _acknowledged(t)
    asked = UpdateConsumerOffset(consumer_group=before.group, topic=before.topic, queue_id=1, commit_offset=READ + 1)
    t.answer("commit right before the stop", await t.broker.ask(asked))
    await t.restart_broker()
    await _still_there(t, before, READ + 1)


@case(
    "store.restart.killed",
    MUST,
    codes=CODES,
    needs=NEEDS,
    slow=True,
    alone=True,
    rests_on="DefaultMessageStore.recover: abort; CommitLog.recoverAbnormally",
)
async def killed(t: Trial) -> None:
    """Everything acknowledged is there when the broker comes back after SIGKILL.

    The machine goes on, so what the process has written is there, flushed or not.  Progress counts once it is in its file.
    """
    before = await _acknowledged(t)
    await t.restart_broker(kill=True)
    await _still_there(t, before)
