"""Many messages that come again at once: the pieces are short, and little is kept until the disk has what they rest on."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rmq_wire.implied.pop import REVIVE_GROUP
from tests.support.engine import Harness
from tests.support.lines import lines_of
from tests.support.popping import take
from tests.support.requests import send

HOUR_MS = 3_600_000
COUNT = 1_500
INVISIBLE_MS = 60_000
PIECE_LINES_MAX = 40_000
"""Of Python, some 4 ms: a timer's steps, four slices of copies, their dispatch."""


@pytest.fixture
def broker(tmp_path: Path) -> Harness:
    sizes = {"mappedFileSizeCommitLog": 1 << 24, "mappedFileSizeConsumeQueue": 600_000, "maxIndexNum": 40_000}
    never = {"flushIntervalCommitLog": HOUR_MS, "flushCommitLogThoroughInterval": HOUR_MS}
    return Harness(tmp_path, **sizes, **never).begun()


@contextmanager
def counting(broker: Harness) -> Iterator[list[int]]:
    """Takes in the lines of each turn and each settling."""
    pieces: list[int] = []

    def counted(work: Callable[..., Any]) -> Callable[..., Any]:
        def piece(*arrived: Any) -> Any:
            found: list[Any] = []
            pieces.append(lines_of(lambda: found.append(work(*arrived))))
            return found[0]

        return piece

    engine = broker.node.engine
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "turn", counted(engine.turn))
        patch.setattr(engine, "settle", counted(engine.settle))
        yield pieces


def test_they_come_in_short_pieces_and_leave_few_rows_to_settle(broker: Harness) -> None:
    client = broker.connect()
    for _ in range(COUNT):
        client.send(send(), b"x")
    while take(client, count=1, invisible_time=INVISIBLE_MS):
        pass
    broker.driver.advance(INVISIBLE_MS - 2_000)
    revive = broker.node.revive
    with counting(broker) as pieces:
        broker.driver.advance(10_000)
        assert len(broker.stored("%RETRY%G_T")) == COUNT
        assert max(pieces) < PIECE_LINES_MAX, max(pieces)
        assert len(revive._unsafe) <= 10, "stretches of the log, not check points"
        pieces.clear()
        broker.node._sync_log()
        broker.driver.advance(1_000)
        assert not revive._unsafe
        assert max(pieces) < PIECE_LINES_MAX, max(pieces)
    topic = revive._topic
    done = [broker.node.offsets.query(REVIVE_GROUP, topic, queue_id) for queue_id in range(8)]
    assert done == [broker.node.store.queue_bounds(topic, queue_id)[1] - 1 for queue_id in range(8)]


POPS = 10
POPS_OF_MS = 100
"""In one millisecond, more than a broker does: it keeps their names as long as that lasts, to tell two of one name apart."""
GROUP_BYTES_MAX = 24 << 10
"""What a group takes that has popped once: its row, what it wants, its progress, four counters."""
FLIGHT_BYTES_MAX = 128
"""Of each check point that waits in the wheel, while the log is not flushed up to it; else it is in files alone."""
POINT_BYTES_MAX = 2_048
"""Of each that is due and open."""
RETRY_BYTES_MAX = 16 << 10
"""Of the topic that is made for a group's retries, with its queue and counters."""
OTHER_BYTES_MAX = 8 << 20


@pytest.mark.parametrize("groups", [150, pytest.param(10_000, marks=pytest.mark.nightly)])
def test_open_check_points_of_many_groups_hold_no_send_up(broker: Harness, groups: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All are due at once, each group's retries go into a topic that is made for them, and somebody sends on and on."""
    monkeypatch.setattr("tests.support.driver.TURNS_MAX", 100 * POPS * groups)  # no time passes while it is done
    client, revive = broker.connect(), broker.node.revive
    for _ in range(POPS):
        client.ask(send(), b"x")
    known: list[int] = []
    tracemalloc.start()
    try:
        known.append(tracemalloc.get_traced_memory()[0])
        for pops in range(POPS):
            for number in range(groups):
                [_] = take(client, count=1, invisible_time=INVISIBLE_MS, consumer_group=f"G{number}")
                if number % POPS_OF_MS == 0:
                    broker.driver.advance(1)
            if pops in (0, POPS - 1):
                known.append(tracemalloc.get_traced_memory()[0])
        broker.driver.advance(INVISIBLE_MS - 2_000)
        tracemalloc.reset_peak()
        sent = most_open = 0
        with counting(broker) as pieces:
            while revive.open or not most_open:
                assert client.ask(send(), b"x").code == 0
                broker.driver.advance(100)
                sent, most_open = sent + 1, max(most_open, revive.open)
                assert sent < HOUR_MS // 100
        known.append(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()
    count = groups * POPS
    assert most_open > count // 2
    assert max(pieces) < PIECE_LINES_MAX, max(pieces)
    assert {broker.node.store.queue_bounds(f"%RETRY%G{number}_T", 0) for number in range(groups)} == {(0, POPS)}
    empty, popped_once, in_flight, peak = known
    assert popped_once - empty < GROUP_BYTES_MAX * groups + OTHER_BYTES_MAX
    assert in_flight - popped_once < FLIGHT_BYTES_MAX * count + OTHER_BYTES_MAX
    assert peak - in_flight < POINT_BYTES_MAX * count + RETRY_BYTES_MAX * groups + OTHER_BYTES_MAX
