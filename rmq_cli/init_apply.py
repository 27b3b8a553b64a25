"""What a `rmq dev --init` file says is brought about, asked of the brokers as a tool and a producer would ask.

What is there already is left alone: a topic or group that is as the file says, a message whose unique key the index has.  So a
second start with the same file makes nothing twice, and one that was killed half way is finished by the next.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import msgspec
import trio

from rmq_cli.complaint import Complaint
from rmq_cli.init_file import PERMS, InitFile, InitGroup, InitMessage, InitTopic, Placed
from rmq_net.connection import Connection, ConnectionLost
from rmq_net.reason import reason
from rmq_wire import names, properties
from rmq_wire.bodies.groups import SubscriptionGroupConfig, SubscriptionGroupTable
from rmq_wire.bodies.topics import TopicConfig
from rmq_wire.codes import ResponseCode
from rmq_wire.command import Command
from rmq_wire.declare import Request
from rmq_wire.errors import BadHeader
from rmq_wire.headers.groups import GetAllSubscriptionGroup, UpdateAndCreateSubscriptionGroup
from rmq_wire.headers.query import QueryMessage
from rmq_wire.headers.send import SendMessageV2
from rmq_wire.headers.topics import CreateTopic, GetTopicConfig
from rmq_wire.java import string_hash

QUEUES: Final = 4
"""Of a topic that says no number: what a stock producer asks for (`defaultTopicQueueNums`)."""
GROUP: Final = "rmq-dev-init"
"""The producer group of what is sent here."""
FOREVER_MS: Final = 2**63 - 1
AT_ONCE: Final = 64
"""Topics or groups that are asked for at once: each alone would be a write of the whole table."""
BUSY_TRIES: Final = 50
BUSY_PAUSE_S: Final = 0.1


class Made(msgspec.Struct):
    """How many were made or changed now; the rest was there."""

    topics: int = 0
    groups: int = 0
    messages: int = 0


async def apply_init(file: InitFile, brokers: Sequence[str], wall_ms: int) -> Made:
    """Make what the file says: topics and groups in every broker (`host:port`), each message in one.

    Raises `Complaint`, in a group.
    """
    made = Made()
    async with trio.open_nursery() as nursery:
        links = [await _connected(address, nursery) for address in brokers]
        made.topics = await _count(file.topics, links, lambda number, link, row: _make_topic(link, row.item, row.where))
        known = [await _groups(link) if file.groups else {} for link in links]
        made.groups = await _count(
            file.groups, links, lambda number, link, row: _make_group(link, known[number], row.item, row.where)
        )
        for number, (unique_key, (item, where)) in enumerate(file.messages):
            made.messages += await _send(links, number, unique_key, item, where, wall_ms)
        for link in links:
            await link.close()
    return made


async def _count(
    rows: Sequence[Placed], links: Sequence[Connection], make: Callable[[int, Connection, Placed], Awaitable[bool]]
) -> int:
    """How many were made in one of the brokers at least.  Many are asked for at once: the broker writes them down together."""
    made = 0
    for first in range(0, len(rows), AT_ONCE):
        outcomes: list[list[bool]] = []
        faults: dict[int, Complaint] = {}

        async def one(at: int, row: Placed, outcome: list[bool], faults: dict[int, Complaint] = faults) -> None:
            try:
                outcome += [await make(number, link, row) for number, link in enumerate(links)]
            except Complaint as fault:
                faults[at] = fault

        async with trio.open_nursery() as nursery:
            for at, row in enumerate(rows[first : first + AT_ONCE]):
                outcomes.append([])
                nursery.start_soon(one, at, row, outcomes[-1])
        if faults:
            raise faults[min(faults)]
        made += sum(any(outcome) for outcome in outcomes)
    return made


async def _connected(address: str, nursery: trio.Nursery) -> Connection:
    host, _, port = address.rpartition(":")
    return await Connection.connect(host.strip("[]"), int(port), nursery=nursery)


async def _ask(link: Connection, request: Request, where: str, body: bytes = b"", *, lacks: int | None = None) -> Command | None:
    """The answer; None for the code that says that something is not there.  A busy broker is asked again."""
    for _ in range(BUSY_TRIES):
        try:
            answer = await link.ask(request, body)
        except (BadHeader, ConnectionLost, trio.TooSlowError) as error:
            raise Complaint(f"{where}: the broker does not answer: {reason(error)}") from None
        if answer.code == ResponseCode.SUCCESS:
            return answer
        if answer.code == lacks:
            return None
        if answer.code != ResponseCode.SYSTEM_BUSY:
            break
        await trio.sleep(BUSY_PAUSE_S)
    raise Complaint(f"{where}: the broker refuses it with {answer.code}: {answer.remark}")


async def _make_topic(link: Connection, item: InitTopic, where: str) -> bool:
    """True when it was made or changed."""
    answer = await _ask(link, GetTopicConfig(topic=item.name), where, lacks=ResponseCode.TOPIC_NOT_EXIST)
    found = None if answer is None else TopicConfig.read(answer.body)
    row = found or TopicConfig(topic_name=item.name, read_queue_nums=QUEUES, write_queue_nums=QUEUES)
    wanted = msgspec.structs.replace(
        row,
        read_queue_nums=item.read_queue_nums or item.queues or row.read_queue_nums,
        write_queue_nums=item.write_queue_nums or item.queues or row.write_queue_nums,
        perm=row.perm if item.perm is None else PERMS[item.perm] if isinstance(item.perm, str) else item.perm,
        order=row.order if item.order is None else item.order,
        attributes={**row.attributes, **item.attributes},
    )
    if wanted == found:
        return False
    request = CreateTopic(
        topic=item.name,
        default_topic=names.AUTO_CREATE_TOPIC,
        read_queue_nums=wanted.read_queue_nums,
        write_queue_nums=wanted.write_queue_nums,
        perm=wanted.perm,
        topic_filter_type=wanted.topic_filter_type,
        topic_sys_flag=wanted.topic_sys_flag,
        order=wanted.order,
        attributes=",".join(f"+{name}={value}" for name, value in _changed(item.attributes, row.attributes).items()) or None,
    )
    await _ask(link, request, where)
    return True


async def _groups(link: Connection) -> dict[str, SubscriptionGroupConfig]:
    """All there are: asking for one (352) would make it."""
    answer = await _ask(link, GetAllSubscriptionGroup(), "the groups")
    return {} if answer is None else SubscriptionGroupTable.read(answer.body).subscription_group_table


async def _make_group(link: Connection, known: dict[str, SubscriptionGroupConfig], item: InitGroup, where: str) -> bool:
    """True when it was made or changed."""
    found = known.get(item.name)
    row = found or SubscriptionGroupConfig(group_name=item.name)
    said = {name: value for name in item.__struct_fields__[1:] if (value := getattr(item, name)) is not None}
    attributes = said.pop("attributes")
    wanted = msgspec.structs.replace(row, **said, attributes={**row.attributes, **attributes})
    if wanted == found:
        return False
    wanted.attributes = {f"+{name}": value for name, value in _changed(attributes, row.attributes).items()}
    await _ask(link, UpdateAndCreateSubscriptionGroup(), where, wanted.encode())
    return True


def _changed(said: dict[str, str], there: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in said.items() if there.get(name) != value}


async def _send(links: Sequence[Connection], number: int, unique_key: str, item: InitMessage, where: str, wall_ms: int) -> bool:
    """True when it was sent; a queue is a broker and a number there, as in a producer's list."""
    for link in links:
        for topic in (item.topic,) if item.delay is None else (item.topic, names.SCHEDULE_TOPIC, names.WHEEL_TIMER_TOPIC):
            if await _has(link, topic, unique_key, where):
                return False
    queues: list[tuple[Connection, int]] = []
    for link in links:
        answer = await _ask(link, GetTopicConfig(topic=item.topic), where, lacks=ResponseCode.TOPIC_NOT_EXIST)
        count = QUEUES if answer is None else TopicConfig.read(answer.body).write_queue_nums
        queues += [(link, queue) for queue in range(count)]
    if not queues:
        raise Complaint(f"{where}: topic {item.topic} has no queue to write to")
    chosen = number if item.hash_key is None else abs(string_hash(item.hash_key))
    link, queue = queues[chosen % len(queues)]
    await _ask(link, _header(item, queue, unique_key, wall_ms), where, item.body.encode())
    return True


async def _has(link: Connection, topic: str, unique_key: str, where: str) -> bool:
    """A message that waits for its time is indexed under the topic in which it waits."""
    asked = QueryMessage(
        topic=topic, key=unique_key, max_num=1, begin_timestamp=0, end_timestamp=FOREVER_MS, index_type="U", unique_key_query=True
    )
    return await _ask(link, asked, where, lacks=ResponseCode.QUERY_NOT_FOUND) is not None


def _header(item: InitMessage, queue: int, unique_key: str, wall_ms: int) -> SendMessageV2:
    return SendMessageV2(
        producer_group=GROUP,
        topic=item.topic,
        default_topic=names.AUTO_CREATE_TOPIC,
        default_topic_queue_nums=QUEUES,
        queue_id=queue,
        sys_flag=0,
        born_timestamp=wall_ms,
        flag=0,
        properties=properties.encode(item.pairs(unique_key)),
        reconsume_times=0,
        unit_mode=False,
        batch=False,
    )
