"""The Python client `rmq_client`, tormented: it does in this process what a script's programs do.

No client of its own protocol: it is judged as one of 5.5.0, without Java's oddities.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import trio

from conformance.torture.client import Report
from conformance.torture.script import ClientPart
from rmq_client.client import connect
from rmq_client.consuming.listener import ConsumeConcurrentlyStatus, ConsumeOrderlyStatus, Context, Outcome
from rmq_client.consuming.received import ReceivedMessage
from rmq_client.errors import BrokerError, ClientError
from rmq_client.messages import Message
from rmq_client.producing.producer import Producer


class OurClient:
    """A `conformance.torture.client.Client` that sends and consumes by `rmq_client`."""

    label = "ours"
    behaves_like: tuple[int, ...] = (5, 5, 0)
    quirks = False
    is_resident = False

    def __init__(self) -> None:
        self.at_once = 8

    async def run(self, part: ClientPart, namesrv: str, topic: str, report: Report) -> None:
        """One run of the program that the script names."""
        if part.program in ("push", "orderly"):
            await _consume(part, namesrv, topic, report)
            report({"event": "done"})
            return
        settings: dict[str, Any] = {"send_msg_timeout_ms": part.timeout_ms, "retry_times_when_send_failed": part.retries}
        async with connect(namesrv, poll_name_server_interval_ms=part.poll_route_ms) as client:
            producer = client.producer("torture", compress_msg_body_over_howmuch=1 << 30, **settings)
            async with trio.open_nursery() as nursery:
                for number in range(part.count):
                    message = Message(topic, f"m-{number} ".encode().ljust(part.body_bytes, b"x"), keys=[f"m-{number}"])
                    if part.program == "send-async":
                        nursery.start_soon(_send, producer, message, report)
                    else:
                        await (_send_oneway if part.program == "send-oneway" else _send)(producer, message, report)
                    if part.pause_ms:
                        await trio.sleep(part.pause_ms / 1e3)
        report({"event": "done"})


async def _consume(part: ClientPart, namesrv: str, topic: str, report: Report) -> None:
    seen: set[str] = set()
    refused: set[str] = set()
    enough = trio.Event()
    orderly = part.program == "orderly"

    async def listen(messages: Sequence[ReceivedMessage], context: Context) -> Outcome:
        for message in messages:
            key = message.keys[0]
            if part.fail_first and key not in refused:
                refused.add(key)
                return (
                    ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT if orderly else ConsumeConcurrentlyStatus.RECONSUME_LATER
                )
            place = {"queue": message.queue.queue_id, "offset": message.queue_offset}
            report({"event": "received", "message": key, **place})
            seen.add(key)
            if len(seen) >= part.count:
                enough.set()
        return None

    settings: dict[str, Any] = {
        "consume_from_where": "CONSUME_FROM_FIRST_OFFSET",
        "rebalance_interval_ms": 1_000,
        "orderly": orderly,
    }
    async with connect(namesrv, poll_name_server_interval_ms=part.poll_route_ms) as client:
        with trio.move_on_after(part.patience_ms / 1e3):
            async with client.push_consumer("torture", {topic: "*"}, listen, **settings):
                report({"event": "started"})
                await enough.wait()
                await trio.sleep(part.linger_ms / 1e3)


async def _send(producer: Producer, message: Message, report: Report) -> None:
    try:
        result = await producer.send(message)
    except ClientError as error:
        report(_failed(message, error))
        return
    place = {"broker": result.queue.broker_name, "queue": result.queue.queue_id, "offset": result.queue_offset}
    report({"event": "sent", "message": message.keys[0], "status": result.status.name, **place})


async def _send_oneway(producer: Producer, message: Message, report: Report) -> None:
    try:
        await producer.send_oneway(message)
    except ClientError as error:
        report(_failed(message, error))


def _failed(message: Message, error: ClientError) -> dict[str, Any]:
    """In the words that the judge knows: Java's name for a broker's refusal."""
    name, code = ("MQBrokerException", error.code) if isinstance(error, BrokerError) else (type(error).__name__, 0)
    return {"event": "failed", "message": message.keys[0], "error": name, "code": code}
