"""What delay levels, retries and dead letters leave in a broker's `config` directory, without addresses and times."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from rmq_wire import fastjson
from rmq_wire.headers.send_back import ConsumerSendMsgBack
from tests.support.process import until
from tests.support.requests import pairs, pull, send, units
from tests.support.talk import Talk

LEVELS = {"messageDelayLevel": "3s 2s 1s", "flushDelayOffsetInterval": "200"}
"""The last level is delivered first."""
PROGRESS = {1: 1, 2: 1, 3: 3}
"""Level to messages that it has delivered."""
GROUP = "Handed_back"


def delays_and_retries(line: Talk, store: Path) -> dict[str, Any]:
    """Send at each level, send back for a retry and to the dead letters.

    The text of `delayOffset.json` but for its time, and the rows of the topics that the broker made for the group, member by
    member in their order.
    """
    for level in (1, 2, 3, 3):
        assert line.ask(send("Levels", properties=pairs(DELAY=str(level))), b"late").code == 0
    assert line.ask(send("Levels", 1), b"at once").code == 0
    until(lambda: line.ask(pull("Levels", 1)).code == 0, "its place in the queue")  # Java answers a send before that
    [message] = units(line.ask(pull("Levels", 1)).body)
    for level in (3, -1):
        asked = ConsumerSendMsgBack(
            offset=message.physical_offset, group=GROUP, delay_level=level, origin_topic="Levels", max_reconsume_times=16
        )
        told = line.ask(asked)
        assert told.code == 0, told.remark
    path = store / "config" / "delayOffset.json"

    def progress() -> str:
        text = path.read_text() if path.exists() else "{}"
        return text if {int(level): offset for level, offset in _table(text).items()} == PROGRESS else ""

    written = until(progress, "progress of each level on the disk")
    topics = fastjson.loads((store / "config" / "topics.json").read_bytes())["topicConfigTable"]
    made = {name: list(topics[name].items()) for name in (f"%RETRY%{GROUP}", f"%DLQ%{GROUP}", "SCHEDULE_TOPIC_XXXX")}
    return {"delayOffset.json": re.sub(r'(?<="timestamp":)\d+', "*", written), "topics": made}


def _table(text: str) -> dict[str, int]:
    found: dict[str, int] = fastjson.loads(text.encode()).get("offsetTable", {})
    return found
