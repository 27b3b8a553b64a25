"""`rmq send`: messages from the command line, a file, or line by line."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import click

from rmq_cli.client_options import Cluster, cluster_options, run, said
from rmq_cli.complaint import Complaint, Unread

GROUP = "rmq-send"
"""Of producers, where none is named."""
LEVELS_MAX = 18


@click.command("send")
@click.argument("topic")
@click.argument("body", required=False)
@click.option("-f", "--file", type=click.Path(dir_okay=False, allow_dash=True, path_type=Path), help="The body; - is the input.")
@click.option("--lines", is_flag=True, help="Each line of the file or input is a message.")
@click.option("-t", "--tag", help="By which consumers may filter.")
@click.option("-k", "--key", "keys", multiple=True, help="By which it can be looked up (repeatable).")
@click.option("-p", "--property", "pairs", multiple=True, metavar="NAME=VALUE", help="A property (repeatable).")
@click.option("--delay", help="Deliver it later: a level, 1 to 18, or a time as 10s (ms, s, m, h, d).")
@click.option("--order-key", help="All messages of one key go to one queue, in order.")
@click.option("--queue", metavar="BROKER:ID", help="To this queue.")
@click.option("-g", "--group", default=GROUP, show_default=True, help="The producer group.")
@click.option("--json", "as_json", is_flag=True, help="Say where it is as JSON, a line for each message.")
@cluster_options
def command(
    cluster: Cluster,
    topic: str,
    body: str | None,
    file: Path | None,
    lines: bool,
    tag: str | None,
    keys: tuple[str, ...],
    pairs: tuple[str, ...],
    delay: str | None,
    order_key: str | None,
    queue: str | None,
    group: str,
    as_json: bool,
) -> None:
    """Send messages to any RocketMQ, and say where they are: id, broker, queue, offset.

    \b
    rmq send my-topic "hello" -t greeting -k hello-1
    rmq send my-topic -f order.json --order-key order-7
    seq 1000 | rmq send my-topic --lines
    rmq send my-topic "later" --delay 10s
    """
    from rmq_client.errors import ClientError
    from rmq_client.messages import Message, MessageQueue

    if (body is not None) + (file is not None) + (lines and file is None) != 1:
        raise click.UsageError("one body: as the argument, with --file, or with --lines")
    if body == "":
        raise click.UsageError("the body is empty, and RocketMQ keeps no such message")
    options: dict[str, Any] = {"tags": tag, "keys": keys, "properties": dict(map(_pair, pairs)), **_delay(delay)}
    chosen = MessageQueue(topic, *_queue(queue)) if queue is not None else None

    async def send() -> None:
        from rmq_cli.sending import Bodies

        sent = 0
        with Bodies(body, file, lines) as source:
            async with cluster.connect() as client:
                producer = client.producer(group)
                while bodies := await source.more():
                    for one in bodies:
                        try:
                            result = await producer.send(Message(topic, one, **options), queue=chosen, order_key=order_key)
                        except ClientError as error:
                            raise Complaint(
                                f"{said(error)}; {sent} messages were sent before" if lines else said(error)
                            ) from None
                        sent += 1
                        try:
                            _say(result, as_json)
                        except Unread:
                            raise
                        except Complaint as wrong:
                            messages = "1 message was" if sent == 1 else f"{sent} messages were"
                            raise Complaint(f"{wrong}; {messages} sent before") from None

    began = time.perf_counter()
    run(send)
    if lines and not as_json:
        click.echo(f"in {time.perf_counter() - began:.2f} s", err=True)


def _say(result: Any, as_json: bool) -> None:
    queue = result.queue
    if as_json:
        row = {
            "msgId": result.message_id,
            "offsetMsgId": result.offset_message_id,
            "status": result.status.name,
            "topic": queue.topic,
            "brokerName": queue.broker_name,
            "queueId": queue.queue_id,
            "queueOffset": result.queue_offset,
        }
        if result.recall_handle:
            row["recallHandle"] = result.recall_handle
        click.echo(json.dumps(row))
    else:
        good = "" if result.status.value == 0 else f"  {result.status.name}"
        click.echo(f"{result.message_id}  {queue.broker_name}  queue {queue.queue_id}  offset {result.queue_offset}{good}")


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.UsageError(f"--property {text}: NAME=VALUE is expected")
    return name, value


def _queue(text: str) -> tuple[str, int]:
    broker, _, number = text.rpartition(":")
    if not broker or not number.isdecimal():
        raise click.UsageError(f"--queue {text}: BROKER:ID is expected, as broker-a:0")
    return broker, int(number)


def _delay(text: str | None) -> dict[str, int]:
    from rmq_wire.implied.delay_levels import parse_delay_levels

    if text is None:
        return {}
    if text.isdecimal() and 1 <= int(text) <= LEVELS_MAX:
        return {"delay_time_level": int(text)}
    try:
        [delay_ms] = parse_delay_levels(text)
    except ValueError:
        raise click.UsageError(f"--delay {text}: a level (1 to {LEVELS_MAX}) or a time as 10s is expected") from None
    return {"delay_time_ms": delay_ms}
