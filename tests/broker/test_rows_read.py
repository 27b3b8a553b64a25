"""Where the rows of a file stand when it is written again: as in the map in which Java has them then.

`tests/java/test_table_files.py` has Java's classes say the same.
"""

from __future__ import annotations

from typing import Any

import pytest

from broker_impl.state.request_modes import RequestModes
from rmq_wire import fastjson
from rmq_wire.bodies.assignment import SetMessageRequestModeRequest
from rmq_wire.java import concurrent_order, iteration_order, spread_of
from tests.support.filled_tables import COPIED, GROUPS, KINDS, LARGE, MANY, NAMES

WALL_MS = 1_700_000_000_000
PROGRESS = "offset.ConsumerOffsetManager"


def read_again(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The file of a table, and what one writes that has read it."""
    filled, empty = KINDS[name].tables(WALL_MS)
    file = filled.encode()
    empty.load(file)
    return fastjson.loads(file), fastjson.loads(empty.encode())


@pytest.mark.parametrize("name", KINDS)
def test_rows_that_were_read_stand_as_in_the_map_of_javas_reader_or_its_own(name: str) -> None:
    member = KINDS[name].member
    before, after = (document[member] for document in read_again(name))
    assert after == before
    assert list(after) == concurrent_order(before, KINDS[name].buckets)
    assert (list(after) == list(before)) is (name in COPIED)


@pytest.mark.parametrize("name", LARGE)
def test_there_is_room_for_many_rows_before_they_are_copied(name: str) -> None:
    filled, empty = LARGE[name].tables(WALL_MS)
    empty.load(filled.encode())
    before, after = (fastjson.loads(table.encode())[LARGE[name].member] for table in (filled, empty))
    assert after == before
    for rows, buckets in ((before, 4_096), (after, 8_192)):
        assert list(rows) == sorted(rows, key=lambda row: spread_of(row) % buckets)


def test_progress_of_a_light_broker_that_was_read_stands_as_that_of_others() -> None:
    before, after = (document["offsetTable"] for document in read_again("offset.LmqConsumerOffsetManager"))
    assert list(after) == concurrent_order(before) != list(before)


def test_groups_stand_as_java_finds_them_in_the_progress_that_was_read() -> None:
    _, after = read_again(PROGRESS)
    groups = dict.fromkeys(key.partition("@")[2] for key in after["offsetTable"])
    assert list(after["groupTopicMap"]) == iteration_order(groups, 128)


@pytest.mark.parametrize(
    ("name", "inner"), [("loadbalance.MessageRequestModeManager", None), ("filter.ConsumerFilterManager", 1)]
)
def test_groups_of_a_topic_stand_as_in_javas_map(name: str, inner: int | None) -> None:
    filled, _ = KINDS[name].tables(WALL_MS)
    row = fastjson.loads(filled.encode())[KINDS[name].member][NAMES[MANY]]
    assert list(row if inner is None else row["groupFilterData"]) == concurrent_order(GROUPS)


def test_topics_with_a_request_mode_stand_as_in_a_map_that_grows_from_the_start() -> None:
    table = RequestModes()
    for topic in NAMES[:9]:
        table.put(topic, "g", SetMessageRequestModeRequest(topic=topic, consumer_group="g"))
    assert list(fastjson.loads(table.encode())["messageRequestModeMap"]) == concurrent_order(NAMES[:9])


def test_of_a_file_without_rows_there_is_no_map_to_take() -> None:
    """A table whose file lacks the member goes on with its own, as one that had no file."""
    filled, empty = KINDS[PROGRESS].tables(WALL_MS)
    empty.load(b"{}")
    KINDS[PROGRESS].fill(empty)
    ours, theirs = (table.encode().partition(b"groupTopicMap")[2] for table in (empty, filled))
    assert ours == theirs


def test_rows_that_were_there_before_a_load_are_still_written() -> None:
    filled, other = KINDS[PROGRESS].tables(WALL_MS)
    file = filled.encode()
    other.load(b'{"offsetTable":{"T@before":{0:1}}}')
    other.load(file)
    assert fastjson.loads(other.encode())["offsetTable"] == {"T@before": {"0": 1}, **fastjson.loads(file)["offsetTable"]}
