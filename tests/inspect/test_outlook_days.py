"""What the inspector says of a store of our broker, beside what the broker does then: in the middle of random days."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from rmq_inspect.decode.directory import list_store
from rmq_inspect.explain.outlook import Kind, Outlook, Outlooks, State
from rmq_wire.sys_flag import TRANSACTION_COMMIT
from tests.support.mixed_sim import HOUR_MS, MixedDay
from tests.support.stores import units_of

DAYS = 6
STEPS = 40
MINUTES = 8
"""That are played; then the clock jumps to what is due in an hour."""
LATE_MS = 2_000
"""Later than due: a slot of the timer, and the steps of a day."""
WAITING = (Kind.DELAYED, Kind.TIMED)


def outlooks_of(root: Path) -> list[tuple[int, Outlook]]:
    """By the number of the message, in the order of the log; no recalls and no op messages."""
    outlooks = Outlooks(list_store(root))
    found = [(bytes(unit.message.body), outlooks.of(unit.message)) for unit in units_of(root)]
    outlooks.close()
    return [(int(body), one) for body, one in found if one is not None and one.kind in (*WAITING, Kind.HALF)]


@pytest.mark.parametrize("seed", range(DAYS))
def test_the_rest_of_a_day(seed: int, tmp_path: Path) -> None:
    """What waits comes when it is said to, and not sooner; a half message that waits is asked about; nothing else happens."""
    day = MixedDay(seed, tmp_path)
    for _ in range(STEPS):
        day.rng.choice((day.delayed, day.timed, day.timed, day.half, day.half, day.end, day.recall, day.wait))()
    day.harness.stop()
    said = outlooks_of(tmp_path)
    day.harness.open()
    stopped_ms, before = day.harness.env.wall_ms, day.came()
    day.begin()
    open_halves = {one.number for one in day.halves if not one.ended}
    for _ in range(MINUTES):
        day.wait_ms(60_000)
    played_ms = day.harness.env.wall_ms
    day.harness.env.wall_ms += 2 * HOUR_MS
    day.wait_ms(10_000)
    came: dict[int, list[int]] = defaultdict(list)
    for unit in day.harness.stored("T", 1):
        came[int(bytes(unit.body))].append(unit.store_timestamp)
    for number, one in said:
        if one.kind is Kind.HALF:
            assert (one.state is State.WAITING) <= (number in open_halves), one
        elif one.state is State.WAITING:
            [came_ms] = came[number]
            due_ms = max(one.due_ms or 0, stopped_ms)
            assert due_ms <= came_ms, (number, one)
            assert came_ms <= due_ms + LATE_MS or due_ms > played_ms - LATE_MS, (number, one)
        elif one.state is State.ENDED:
            assert (number in day.never, came[number]) == (True, []), (number, one)
        else:
            assert len(came[number]) == before[number], (number, one)
    waiting = {number for number, one in said if one.kind is Kind.HALF and one.state is State.WAITING}
    assert waiting == open_halves
    assert all(one.ended for one in day.halves), "every open one was asked about"
    committed = {one.number for one in day.halves if one.how == TRANSACTION_COMMIT}
    assert committed <= came.keys()
