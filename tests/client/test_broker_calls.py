"""What a broker asks of a consumer: where it is, what it does, take this message, go on elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import trio

from rmq_client.client import Client, connect
from rmq_client.consuming.listener import ConsumeConcurrentlyStatus, ConsumeOrderlyStatus, Context, Outcome
from rmq_client.messages import Message, SendResult
from rmq_wire.bodies.consumer_answers import ConsumeMessageDirectlyResult, ConsumerRunningInfo, ConsumerStatus
from rmq_wire.command import Command
from rmq_wire.declare import Request
from rmq_wire.headers.clients import ConsumeMessageDirectly, GetConsumerRunningInfo, GetConsumerStatus
from rmq_wire.headers.offsets import ResetOffset
from tests.client.consumers import FIRST, Heard, Messages, fill
from tests.support.subject import Subject, start_subject
from tests.support.talk import PATIENCE_S

ASK_MS = 30_000


async def ask(asking: Client, subject: Subject, request: Request) -> Command:
    return await asking.ask(subject.address, request, timeout_ms=ASK_MS)


async def running_info(asking: Client, subject: Subject, group: str, who: Client, *, jstack: bool = False) -> ConsumerRunningInfo:
    request = GetConsumerRunningInfo(consumer_group=group, client_id=who.client_id, jstack_enable=jstack)
    return ConsumerRunningInfo.read(bytes((await ask(asking, subject, request)).body))


async def test_what_it_does_with_rates_and_a_stack_dump(ours: Subject) -> None:
    async with connect(ours.namesrv) as client, connect(ours.namesrv) as admin:
        await fill(client, "info", 5, queues=2)
        heard, stuck = Heard(), trio.Event()

        async def listener_that_hangs(messages: Messages, context: Context) -> None:
            await heard(messages, context)  # type: ignore[arg-type]
            await stuck.wait()

        async with client.push_consumer("info-g", {"info": "A || B"}, listener_that_hangs, **FIRST):
            await client.producer("info-q").send(Message("info", b"more", tags="A"))
            await heard.until(1)
            info = await running_info(admin, ours, "info-g", client, jstack=True)
            assert info.properties["PROP_CONSUMEORDERLY"] == "false"
            assert info.properties["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
            assert info.properties["PROP_CLIENT_VERSION"] == "V5_5_0"
            assert info.properties["PROP_NAMESERVER_ADDR"] == f"{ours.namesrv};"
            assert info.properties["consumeThreadMax"] == info.properties["PROP_THREADPOOL_CORE_SIZE"] == "20"
            assert {(one.topic, one.sub_string) for one in info.subscription_set} == {("info", "A || B"), ("%RETRY%info-g", "*")}
            assert sorted(queue.queue_id for queue in info.mq_table if queue.topic == "info") == [0, 1]
            assert sum(one.cached_msg_count for one in info.mq_table.values()) == 1
            assert info.status_table.keys() == {"info", "%RETRY%info-g"}
            assert "listener_that_hangs" in (info.jstack or "")
            assert "MainThread" in (info.jstack or "")
            assert (await running_info(admin, ours, "info-g", client)).jstack is None
            stuck.set()


async def test_where_it_is(ours: Subject) -> None:
    async with connect(ours.namesrv) as client, connect(ours.namesrv) as admin:
        await fill(client, "where", 6, queues=1)
        heard = Heard()
        async with client.push_consumer("where-g", {"where": "*"}, heard, **FIRST):
            await heard.until(6)
            table = await ask(admin, ours, GetConsumerStatus(topic="where", group="where-g", client_addr=client.client_id))
            [(who, offsets)] = ConsumerStatus.read(bytes(table.body)).consumer_table.items()
            assert who == client.client_id
            assert {(queue.topic, queue.queue_id): offset for queue, offset in offsets.items()} == {("where", 0): 6}


async def directly(asking: Client, subject: Subject, group: str, who: Client, sent: SendResult) -> ConsumeMessageDirectlyResult:
    request = ConsumeMessageDirectly(consumer_group=group, client_id=who.client_id, msg_id=sent.offset_message_id)
    return ConsumeMessageDirectlyResult.read(bytes((await ask(asking, subject, request)).body))


async def test_one_message_is_taken_directly(ours: Subject) -> None:
    async with connect(ours.namesrv) as client, connect(ours.namesrv) as admin:
        await client.topics.create("direct", queues=1)
        sent = await client.producer("direct-p").send(Message("direct", b"m", tags="unwanted"))
        answers: list[Outcome | Exception] = [None, ConsumeConcurrentlyStatus.RECONSUME_LATER, ValueError("no")]
        got: list[tuple[str, str, bytes]] = []

        async def listen(messages: Messages, context: Context) -> Outcome:
            [message] = messages
            got.append((message.topic, message.queue.broker_name, message.body))
            answer = answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

        async with client.push_consumer("direct-g", {"direct": "wanted"}, listen):
            told = [await directly(admin, ours, "direct-g", client, sent) for _ in range(3)]
        assert [one.consume_result for one in told] == ["CR_SUCCESS", "CR_LATER", "CR_THROW_EXCEPTION"]
        assert [one.remark for one in told] == [None, None, "ValueError: no"]
        assert not any(one.order for one in told)
        assert got == [("direct", ours.broker_name, b"m")] * 3


async def test_an_orderly_listener_takes_one_directly(ours: Subject) -> None:
    async with connect(ours.namesrv) as client, connect(ours.namesrv) as admin:
        await client.topics.create("direct-o", queues=1)
        sent = await client.producer("direct-op").send(Message("direct-o", b"m", tags="unwanted"))
        answers = [ConsumeOrderlyStatus.COMMIT, ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT]

        def listen(messages: Messages, context: Context) -> Outcome:
            return answers.pop(0)

        async with client.push_consumer("direct-og", {"direct-o": "wanted"}, listen, orderly=True):
            told = [await directly(admin, ours, "direct-og", client, sent) for _ in range(2)]
        assert [(one.consume_result, one.order) for one in told] == [("CR_COMMIT", True), ("CR_LATER", True)]


async def test_it_goes_on_where_an_operator_says(tmp_path: Path) -> None:
    """Ten seconds pass before a queue that was set back begins again, as in Java."""
    properties = {"useServerSideResetOffset": "false"}
    subject = start_subject("ours", tmp_path, properties=properties)
    try:
        async with connect(subject.namesrv) as client, connect(subject.namesrv) as admin:
            await fill(client, "reset", 6, queues=1)
            heard = Heard()
            puller = client.puller("reset-g")
            [queue] = await puller.queues("reset")
            told: dict[str, Any] = {"persist_consumer_offset_interval_ms": 200, **FIRST}
            async with client.push_consumer("reset-g", {"reset": "*"}, heard, **told):
                await heard.until(6)
                with trio.fail_after(PATIENCE_S):
                    while await puller.committed_offset(queue) != 6:
                        await trio.lowlevel.checkpoint()
                await ask(admin, subject, ResetOffset(group="reset-g", topic="reset", timestamp=0, is_force=True))
                with trio.fail_after(PATIENCE_S):
                    while sorted(heard.bodies) != sorted([b"%d" % number for number in range(6)] * 2):
                        await trio.lowlevel.checkpoint()
            assert await puller.committed_offset(queue) == 6
    finally:
        subject.end()
