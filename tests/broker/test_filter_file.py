"""`consumerFilter.json`: what the real broker wrote is read, and written again byte for byte.

How its files were made: `tests/broker/filter_calls.py`.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from broker_impl.config import BrokerConfig, Machine
from broker_impl.env import Env
from broker_impl.state.consumer_filters import DEAD_AT_LOAD_MS, ConsumerFilters
from tests.broker.filter_calls import LAST, LATER, LOADED, STEPS, WRITTEN, Step, said_by
from tests.support.driver import Client
from tests.support.engine import Harness

NOTHING = b'{\n\t"filterDataByTopic":{}\n}'
DEAD_TIME = re.compile(rb'"deadTime":\d+')


def read(file: bytes, wall_ms: int) -> ConsumerFilters:
    """A table that starts with this file."""
    table = ConsumerFilters(BrokerConfig({"brokerName": "broker-a"}, Machine()), Env(wall_ms=wall_ms))
    table.load(file)
    return table


def rows(file: bytes) -> dict[tuple[str, str], dict[str, Any]]:
    """(topic, group) -> what the file has of them."""
    topics = json.loads(file)["filterDataByTopic"]
    return {(topic, group): row for topic, data in topics.items() for group, row in data["groupFilterData"].items()}


def send(harness: Harness, client: Client, step: Step, file: bytes) -> None:
    """A step, at the time at which the real broker got it."""
    if step.when is not None:
        harness.env.wall_ms = said_by(file, step.when)
    answer = client.ask(step.request, step.body)
    assert answer.code == 0, answer.remark


def test_the_same_heartbeats_leave_the_same_file(tmp_path: Path) -> None:
    """All that may become of a filter: a second topic, a newer text, an older and a broken one, who left and who came back."""
    written = WRITTEN.read_bytes()
    harness = Harness(tmp_path, enablePropertyFilter="true")
    client = harness.connect()
    for step in (*STEPS, LAST):
        send(harness, client, step, written)
    assert harness.node.filters.encode() == written


def test_what_was_read_is_written_again() -> None:
    """Everybody in it is gone."""
    loaded = LOADED.read_bytes()
    last_ms = max(row["deadTime"] for row in rows(loaded).values())
    assert read(loaded, last_ms + 1).encode() == loaded
    assert all(row["dead"] for row in rows(loaded).values())


def test_who_was_there_when_the_file_was_written_has_gone_half_a_minute_before_it_is_read() -> None:
    """But nobody before he came.  Java takes the time anew for each row: here is one, and all else is the same."""
    written, loaded = WRITTEN.read_bytes(), LOADED.read_bytes()
    before, after = rows(written), rows(loaded)
    started_ms = max(row["deadTime"] for key, row in after.items() if key[1] != LATER) + DEAD_AT_LOAD_MS
    ours = read(written, started_ms).encode()
    assert DEAD_TIME.sub(b"", ours) == DEAD_TIME.sub(b"", loaded)
    for key, row in rows(ours).items():
        if before[key]["deadTime"] or key[1] == LATER:
            assert row["deadTime"] == after[key]["deadTime"] == (before[key]["deadTime"] or row["bornTime"])
        else:
            assert row["deadTime"] == started_ms - DEAD_AT_LOAD_MS
            assert 0 <= row["deadTime"] - after[key]["deadTime"] < 1_000


def test_without_a_filter() -> None:
    assert read(NOTHING, 1).encode() == NOTHING
