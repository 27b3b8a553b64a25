"""Messages as lines, for people and as JSON; where in a topic reading begins.  What `rmq tail` and `rmq consume` share."""

from __future__ import annotations

import base64
import json
import sys
import time
from typing import Any, Literal, NamedTuple

import click


class Where(NamedTuple):
    """A place in each queue of a topic.  number: of `time` wall milliseconds, of `offset` a number in the queue."""

    point: Literal["start", "end", "time", "offset"]
    number: int = 0


def where(begin: str, offset: int | None = None) -> Where:
    """What `--from` and `--offset` say.  Raises `click.UsageError`."""
    if offset is not None:
        return Where("offset", offset)
    if begin == "start":
        return Where("start")
    return Where("end") if begin == "end" else Where("time", _time(begin))


def _time(text: str) -> int:
    from rmq_columns.errors import CannotLook
    from rmq_inspect.times import parse

    try:
        return parse(text, time.time_ns() // 1_000_000)
    except CannotLook as reason:
        raise click.UsageError(f"--from {text}: end, start, or {reason}") from None


def line(message: Any, as_json: bool) -> str:
    """A `ReceivedMessage` as one line.

    For people it has escapes where a producer sent line ends or what commands a terminal; in a pipe, too: a line is a message.
    """
    if not as_json:
        from rmq_columns.shown import printable
        from rmq_inspect.times import short_text_of

        place = f"{message.queue.broker_name}/{message.queue.queue_id}@{message.queue_offset}"
        tag = f"  {message.tags}" if message.tags else ""
        kind, body = _body(message)
        shown = f"base64:{body}" if kind == "body_base64" else body
        return printable(f"{short_text_of(message.store_timestamp)}  {place}{tag}  {shown}")
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
    kind, body = _body(message)
    row[kind] = body
    text = json.dumps(row, ensure_ascii=False)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:  # the escapes that JSON has, not those of standard output
        return json.dumps(row)
    return text


def _body(message: Any) -> tuple[Literal["body", "body_base64", "bodyNote"], str]:
    """By the name that it has in JSON what stands for it: its text; its bytes, so named by `rmq inspect`; why there are none."""
    from rmq_client.errors import UnreadableBody

    try:
        return "body", message.body.decode()
    except UnicodeDecodeError:
        return "body_base64", base64.b64encode(message.body).decode()
    except UnreadableBody as reason:
        return "bodyNote", str(reason)
