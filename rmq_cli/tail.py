"""`rmq tail`: what comes into a topic, without a group: nobody's progress changes."""

from __future__ import annotations

import base64
import json
import time
from typing import Any

import click

from rmq_cli.client_options import Cluster, cluster_options, run

HOLD_MS = 15_000
"""How long a pull waits at the broker; the next one follows at once."""


@click.command("tail")
@click.argument("topic")
@click.option("--from", "begin", default="end", show_default=True, help="`end`, `start`, or a time as `rmq inspect` takes it.")
@click.option("-t", "--tags", default="*", show_default=True, help="Only these, as `A || B`.")
@click.option("--sql", help="Only what this selects, as `price > 10`.")
@click.option("-c", "--count", type=click.IntRange(min=1), help="End after so many messages.")
@click.option("--no-follow", is_flag=True, help="End where the topic ends now.")
@click.option("--json", "as_json", is_flag=True, help="A JSON object for each message, a line each.")
@cluster_options
def command(
    cluster: Cluster,
    topic: str,
    begin: str,
    tags: str,
    sql: str | None,
    count: int | None,
    no_follow: bool,
    as_json: bool,
) -> None:
    """Print messages of a topic as they come.  It reads without a group, so it takes no message from anybody.

    \b
    rmq tail my-topic
    rmq tail my-topic --from start --no-follow --json
    rmq tail my-topic --from "1h ago" -t "A || B" -c 10
    """
    from rmq_client.consuming.subscriptions import SQL92, Subscription

    began_ms = None if begin in ("end", "start") else _time(begin)

    async def follow() -> None:
        from rmq_cli.tailing import Tail

        subscription = Subscription(sql, SQL92) if sql else Subscription(tags)
        async with cluster.connect() as client:
            tail = Tail(client.puller(), subscription, HOLD_MS, lambda message: click.echo(_line(message, as_json)))
            await tail.run(topic, begin=began_ms if began_ms is not None else begin, count=count, follow=not no_follow)

    run(follow)


def _time(text: str) -> int:
    from rmq_columns.errors import CannotLook
    from rmq_inspect.times import parse

    try:
        return parse(text, time.time_ns() // 1_000_000)
    except CannotLook as reason:
        raise click.UsageError(f"--from {text}: end, start, or {reason}") from None


def _line(message: Any, as_json: bool) -> str:
    body, note = _body(message)
    if not as_json:
        from rmq_inspect.times import short_text_of

        place = f"{message.queue.broker_name}/{message.queue.queue_id}@{message.queue_offset}"
        tag = f"  {message.tags}" if message.tags else ""
        return f"{short_text_of(message.store_timestamp)}  {place}{tag}  {body if note is None else note}"
    row = {
        "topic": message.topic,
        "brokerName": message.queue.broker_name,
        "queueId": message.queue.queue_id,
        "queueOffset": message.queue_offset,
        "msgId": message.message_id,
        "offsetMsgId": message.offset_message_id,
        "storeTimestamp": message.store_timestamp,
        "bornTimestamp": message.born_timestamp,
        "bornHost": message.born_host,
        "reconsumeTimes": message.reconsume_times,
        "tags": message.tags,
        "keys": message.keys,
        "properties": message.properties,
    }
    if note is not None:
        row["bodyNote"] = note
    elif isinstance(body, str):
        row["body"] = body
    return json.dumps(row, ensure_ascii=False)


def _body(message: Any) -> tuple[str, str | None]:
    """Its text; what stands for it where it is none."""
    from rmq_client.errors import UnreadableBody

    try:
        return message.body.decode(), None
    except UnicodeDecodeError:
        return "", f"base64:{base64.b64encode(message.body).decode()}"
    except UnreadableBody as reason:
        return "", str(reason)
