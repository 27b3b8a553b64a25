"""Ranges of queue offsets: which texts are some, and that exactly their messages and units come."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from rmq_columns import BadOption, parse_options, read_store
from rmq_columns.read.offsets import Bound
from tests.support.stores import golden_of

RANGE = {"Orders": {"0": 3, "1": -2}}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return golden_of("mix", tmp_path_factory.mktemp("offsets") / "broker-a")


def rows(store: Path, table: str, **options: Any) -> list[tuple[Any, ...]]:
    """(topic, queue, offset) of all rows, sorted."""
    read = read_store(store, table=table, columns="topic,queueId,queueOffset", **options).read_all()
    return sorted(tuple(row.values()) for row in read.to_pylist())


@pytest.mark.parametrize("table", ["messages", "consumequeue"])
def test_exactly_the_messages_of_a_range(store: Path, table: str) -> None:
    every = rows(store, table)
    longest = max({row[:2] for row in every}, key=lambda queue: sum(row[:2] == queue for row in every))
    topic, queue = longest
    count = sum(row[:2] == longest for row in every)
    assert count > 3
    low, high = 1, count - 1
    chosen = rows(store, table, startingOffsets={topic: {queue: low}}, endingOffsets=json.dumps({topic: {str(queue): high}}))
    assert chosen == [row for row in every if row[0] == topic and (row[1] != queue or low <= row[2] < high)]
    assert rows(store, table, topics=[topic], startingOffsets="earliest", endingOffsets="LATEST") == [
        row for row in every if row[0] == topic
    ]
    only = rows(store, table, startingOffsets={topic: {queue: low}}, queueIds=[queue])
    assert only == [row for row in every if row[:2] == longest and row[2] >= low]


def test_a_queue_that_is_not_named_is_whole() -> None:
    options = parse_options({"path": "x", "startingOffsets": json.dumps(RANGE), "endingOffsets": {"Paid": {"2": -1}}})
    assert options.starting_offsets == (Bound("Orders", 0, 3),)
    assert options.ending_offsets == ()
    assert options.topics == {"Orders", "Paid"}, "a range names its topics"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"startingOffsets": "latest"}, "startingOffsets: 'latest': a batch begins at an offset or at the earliest"),
        ({"endingOffsets": "earliest"}, "endingOffsets: 'earliest': a batch ends before an offset or at the latest"),
        ({"startingOffsets": '{"a":{"0":-1}}'}, "offset -1 of queue 0 of a: a batch begins at"),
        ({"endingOffsets": '{"a":{"0":-2}}'}, "offset -2 of queue 0 of a: a batch ends before"),
        ({"startingOffsets": '{"a":{"0":-3}}'}, "offset -3 of queue 0 of a"),
        ({"startingOffsets": '{"a":{"0":"x"}}'}, "offset 'x' of queue 0 of a: no whole number"),
        ({"startingOffsets": '{"a":{"0":1.5}}'}, "offset 1.5 of queue 0 of a: no whole number"),
        ({"startingOffsets": '{"a":{"x":1}}'}, "queue 'x' of a: no whole number"),
        ({"startingOffsets": '{"a":{"-1":1}}'}, "queue -1 of a: there is no such queue"),
        ({"startingOffsets": '{"a":{"0":1,"0":2}}'}, "0: named twice"),
        ({"startingOffsets": '{"a":5}'}, "not earliest, latest or JSON"),
        ({"startingOffsets": "first"}, "not earliest, latest or JSON"),
        ({"startingOffsets": RANGE, "topics": "Paid"}, "startingOffsets: Orders, which topics leaves out"),
        ({"startingTimestamp": "2026-01-31 12:00"}, "a time without its zone; give it, or the option timeZone"),
        ({"startingTimestamp": "2026-01-31 12:00", "timeZone": "Mars"}, "timeZone: 'Mars' is no time zone"),
    ],
)
def test_what_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(BadOption) as raised:
        parse_options({"path": "x", **options})
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("table", ["index", "topics", "gaps"])
def test_other_tables_refuse_it(store: Path, table: str) -> None:
    with pytest.raises(BadOption, match=r"(startingOffsets or endingOffsets|topics): rows of"):
        read_store(store, table=table, startingOffsets=RANGE)


@pytest.mark.parametrize("zone", ["Asia/Shanghai", "+08:00", "UTC+8", "GMT+08:00"])
def test_a_time_without_zone_is_of_the_zone_that_is_named(zone: str) -> None:
    for given in ("2026-01-31 12:00", "2026-01-31T04:00:00+00:00", datetime(2026, 1, 31, 12)):
        assert parse_options({"path": "x", "startingTimestamp": given, "timeZone": zone}).starting_ms == 1_769_832_000_000
