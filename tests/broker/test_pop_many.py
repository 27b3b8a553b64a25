"""Many messages that come again at once: the pieces are short, and little is kept until the disk has what they rest on."""

from __future__ import annotations

from collections.abc import Callable
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


def test_they_come_in_short_pieces_and_leave_few_rows_to_settle(broker: Harness) -> None:
    client = broker.connect()
    for _ in range(COUNT):
        client.send(send(), b"x")
    while take(client, count=1, invisible_time=INVISIBLE_MS):
        pass
    broker.driver.advance(INVISIBLE_MS - 2_000)
    pieces: list[int] = []

    def counted(work: Callable[..., Any]) -> Callable[..., Any]:
        def piece(*arrived: Any) -> Any:
            found: list[Any] = []
            pieces.append(lines_of(lambda: found.append(work(*arrived))))
            return found[0]

        return piece

    engine, revive = broker.node.engine, broker.node.revive
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "turn", counted(engine.turn))
        patch.setattr(engine, "settle", counted(engine.settle))
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
