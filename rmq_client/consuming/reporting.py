"""What a consumer says of itself to operators, and how it takes a message that one of them hands to it.

Source: `DefaultMQPushConsumerImpl.consumerRunningInfo`, `consumeMessageDirectly` of both services.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from rmq_client.consuming.rates import TopicRates
from rmq_client.consuming.received import read_messages
from rmq_client.consuming.service import ConsumeService, Consuming
from rmq_client.errors import Unreadable
from rmq_client.world import mono_ms
from rmq_wire.bodies.consumer_answers import ConsumeMessageDirectlyResult, ConsumerRunningInfo
from rmq_wire.bodies.heartbeat import CONSUME_PASSIVELY, SubscriptionData
from rmq_wire.fastjson import MessageQueue


def running_info(own: Consuming, group: str, subscribed: Sequence[SubscriptionData], started_ms: int) -> ConsumerRunningInfo:
    """Settings, queues and rates.  A queue of which nothing was consumed yet is where it began.  group: on the wire."""
    properties = {_camel(one.name): str(getattr(own.settings, one.name)) for one in fields(own.settings)}
    properties |= {
        "consumerGroup": group,
        "PROP_CONSUMEORDERLY": str(own.settings.orderly).lower(),
        "PROP_CONSUME_TYPE": CONSUME_PASSIVELY,
        "PROP_CONSUMER_START_TIMESTAMP": str(started_ms),
        "PROP_THREADPOOL_CORE_SIZE": str(own.listening.most),
    }
    table = {}
    ahead_ms = own.client.world.wall_ms() - mono_ms()
    for queue, held in own.queues.items():
        offset = own.progress.table.get(queue)
        table[queue] = held.info(held.began_at if offset is None else offset, ahead_ms)
    status = {one.topic: own.rates.get(one.topic, TopicRates()).status() for one in subscribed}
    return ConsumerRunningInfo(properties=properties, subscription_set=list(subscribed), mq_table=table, status_table=status)


async def consume_directly(
    own: Consuming, service: ConsumeService, unit: bytes, broker_name: str
) -> ConsumeMessageDirectlyResult:
    """Call the listener with one stored message, beside all turns.  Raises `Unreadable`."""
    found = list(read_messages(unit, MessageQueue("", broker_name, 0), broker_name))
    if len(found) != 1:
        raise Unreadable(f"{len(found)} messages where one was to come", broker_name)
    [message] = found
    message.queue = MessageQueue(message.topic_on_wire, broker_name, message.unit.queue_id)
    context = service.context(own.shown([message], message.queue))
    with own.working:
        called = await own.listening.call_now([message], context)
    result = ConsumeMessageDirectlyResult(order=own.settings.orderly, spent_time_mills=called.took_ms)
    result.auto_commit = getattr(context, "auto_commit", True)
    if called.error is None:
        result.consume_result = service.outcome(called.status)
    else:
        result.consume_result = "CR_THROW_EXCEPTION"
        result.remark = f"{type(called.error).__name__}: {called.error}"
    return result


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.title, others))
