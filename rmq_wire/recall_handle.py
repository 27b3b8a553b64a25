"""The handle by which a producer calls a timer message back: it comes with the answer to the send, and with code 370.

Text in base64 for URLs: version, topic, broker, time and unique key, separated by blanks.  Nothing in it is secret or signed:
whoever knows topic, time and key of a message can make one.  Source: `RecallMessageHandle`.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from rmq_wire import names
from rmq_wire import property_names as prop
from rmq_wire.errors import BadBody
from rmq_wire.java import parse_long

VERSION: Final = "v1"
_FIELDS: Final = 5
_BASE64: Final = re.compile(r"[A-Za-z0-9_-]*={0,2}")


class RecallHandle(NamedTuple):
    """`HandleV1`.  `time`: as it was written, in the slot of the message: TIMER_OUT_MS + 1."""

    topic: str
    broker_name: str
    time: str
    unique_key: str


def handle_text(handle: RecallHandle) -> str:
    """As it is sent (`buildHandle`)."""
    return base64.urlsafe_b64encode(" ".join((VERSION, *handle)).encode("utf-8", "replace")).decode()


def read_handle(text: str) -> RecallHandle:
    """What somebody sent (`decodeHandle`).  Raises `BadBody` with Java's text."""
    if not text or _BASE64.fullmatch(text) is None or len(text.rstrip("=")) % 4 == 1 or ("=" in text and len(text) % 4):
        raise BadBody("recall handle is invalid")
    bare = text.rstrip("=")
    raw = base64.urlsafe_b64decode(bare + "=" * (-len(bare) % 4)).decode("utf-8", "replace")
    fields = raw.rstrip(" ").split(" ")
    if len(fields) < _FIELDS or fields[0] != VERSION:
        raise BadBody("recall handle is invalid")
    return RecallHandle(*fields[1:_FIELDS])


def handle_of(values: Mapping[str, str], broker_name: str) -> str | None:
    """For a message with these properties, None for one that cannot be called back (`attachRecallHandle`)."""
    topic, key = values.get(prop.REAL_TOPIC), values.get(prop.UNIQ_KEY)
    slot_ms = parse_long(values.get(prop.TIMER_OUT_MS, ""))
    if topic is None or key is None or slot_ms is None or names.is_retry_topic(topic):
        return None
    return handle_text(RecallHandle(topic, broker_name, str(slot_ms + 1), key))
