"""What the cases about POP share: popping, the receipt that a client makes of an answer, acknowledging."""

from __future__ import annotations

import time
from typing import NamedTuple

from conformance.suite.link import Answer
from conformance.suite.trial import Trial, properties_of, units
from rmq_wire import property_names as prop
from rmq_wire.headers.pop import (
    AckMessage,
    PopMessage,
    PopMessageResponse,
)
from rmq_wire.message import StoredMessage

INVISIBLE_MS = 60_000
SHORT_MS = 4_000
"""Of invisibility, after which a message comes again; long enough to acknowledge it before."""
REVIVED_S = 25.0
"""That time of invisibility, and what the reference's revive service takes on a busy machine."""
FIRST = 0
"""`initMode`: a new group begins with the oldest message."""


def short_ms(t: Trial) -> int:
    """That, on this machine."""
    return int(SHORT_MS * t.patience)


class Handed(NamedTuple):
    """A message that was handed out, with what acknowledges it."""

    unit: StoredMessage
    receipt: str

    @property
    def body(self) -> bytes:
        """The message's body."""
        return bytes(self.unit.body)

    @property
    def offset(self) -> int:
        """The queue offset to name in an acknowledgement: the receipt's last word."""
        return int(self.receipt.split(" ")[-1])


class Popped(NamedTuple):
    """An answer to a pop: its messages."""

    answer: Answer
    messages: list[Handed]


PATIENCE_MS = 60_000
"""A broker refuses a pop that it sees half a second after its polling time (PopMessageRequestHeader.isTimeoutTooMuch)."""


async def pop(
    t: Trial,
    topic: str,
    group: str,
    *,
    queue: int = -1,
    count: int = 32,
    invisible_ms: int = INVISIBLE_MS,
    poll_ms: int = 0,
    expression: str = "*",
    kind: str = "TAG",
    order: bool = False,
    attempt: str | None = None,
) -> Popped:
    """Pop (200050), not judged.  poll_ms: how long to wait for a first message.  kind: of the expression.

    attempt: of an ordered pop, its name.
    """
    asked = PopMessage(
        consumer_group=group,
        topic=topic,
        queue_id=queue,
        max_msg_nums=count,
        invisible_time=invisible_ms,
        poll_time=poll_ms,
        born_time=int(time.time() * 1e3) + (0 if poll_ms else PATIENCE_MS),
        init_mode=FIRST,
        exp_type=kind,
        exp=expression,
        order=order,
        attempt_id=attempt,
    )
    answer = await t.broker.ask(asked, seconds=15 + poll_ms / 1e3)
    if answer.code:
        return Popped(answer, [])
    header = answer.header(PopMessageResponse)
    return Popped(answer, [Handed(unit, _receipt(t, header, unit)) for unit in units(answer.body)])


def _receipt(t: Trial, header: PopMessageResponse, unit: StoredMessage) -> str:
    """As clients make it (`ExtraInfoUtil.buildExtraInfo`), except for what comes again: there the broker has set it.

    Eight words: where the pop began, when, for how long, revive queue, 0 for no retry, broker, queue, queue offset.
    """
    given = properties_of(unit).get(prop.POP_CK)
    if given:
        return given
    starts = {}
    for entry in (header.start_offset_info or "").split(";"):
        kind, queue, start = entry.split(" ")
        starts[kind, queue] = start
    start = starts["0", str(unit.queue_id)]
    words = (
        start,
        header.pop_time,
        header.invisible_time,
        header.revive_qid,
        0,
        t.target.broker_name,
        unit.queue_id,
        unit.queue_offset,
    )
    return " ".join(str(word) for word in words)


async def popped(
    t: Trial,
    topic: str,
    group: str,
    count: int,
    *,
    asked: int | None = None,
    queue: int = -1,
    invisible_ms: int = INVISIBLE_MS,
    order: bool = False,
    expression: str = "*",
    kind: str = "TAG",
) -> list[Handed]:
    """So many messages, popped as they come: one pop may hand out none.  `asked`: how many each asks for, else what is left."""
    found: list[Handed] = []

    async def enough() -> bool:
        more = await pop(
            t,
            topic,
            group,
            queue=queue,
            invisible_ms=invisible_ms,
            order=order,
            expression=expression,
            kind=kind,
            count=asked or count - len(found),
            poll_ms=1_000,
        )
        found.extend(more.messages)
        return len(found) >= count

    await t.until(f"{count} messages of {topic} can be popped", enough, seconds=REVIVED_S)
    return found


async def acknowledge(t: Trial, topic: str, group: str, one: Handed) -> Answer:
    """Acknowledge (200051) one message, not judged."""
    asked = AckMessage(consumer_group=group, topic=topic, queue_id=one.unit.queue_id, extra_info=one.receipt, offset=one.offset)
    return await t.broker.ask(asked)


async def filled(t: Trial, count: int, *, queues: int = 1, attributes: str = "") -> str:
    """A topic with so many messages m0, m1, … over its queues, which can be pulled already."""
    topic = await t.topic(queues=queues, attributes=attributes)
    for number in range(count):
        await t.send(topic, b"m%d" % number, queue=number % queues)
    for queue in range(queues):
        await t.pull_all(topic, len(range(queue, count, queues)), queue=queue)
    return topic


async def ordered(t: Trial, count: int) -> tuple[str, str]:
    """A topic with so many messages in its queue 0, and a group that has popped in order before, from another queue.

    The real broker puts the first batch that a group has of a topic into a row that is still empty, which its cleaning (each 5 s)
    removes at just that moment: the batch is forgotten, and blocks nothing (`ConsumerOrderInfoManager.update`, `autoClean`).
    """
    topic, group = await t.topic(queues=2), await t.group(consume_message_orderly=True)
    await t.send(topic, b"other", queue=1)
    for number in range(count):
        await t.send(topic, b"m%d" % number, queue=0)
    await t.pull_all(topic, 1, queue=1)
    await t.pull_all(topic, count, queue=0)
    await popped(t, topic, group, 1, queue=1, order=True)
    return topic, group


def bodies(found: list[Handed]) -> list[bytes]:
    """Their bodies, sorted."""
    return sorted(one.body for one in found)


async def again_in_order(t: Trial, topic: str, group: str, count: int) -> Popped:
    """What an ordered pop of queue 0 gets that waits until messages come again: the first that gets any.

    It asks again where a wait ended with none: the reference looks, and then lets it wait; messages whose time is over in
    between wake nobody.
    """

    async def some() -> Popped | None:
        found = await pop(t, topic, group, queue=0, count=count, order=True, poll_ms=2 * short_ms(t))
        return found if found.messages else None

    return await t.until(f"messages of {topic} come again", some, seconds=REVIVED_S)
