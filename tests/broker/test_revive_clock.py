"""What nobody acknowledges comes again in its time, whatever others pop meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.engine import Harness
from tests.support.popping import ack, take
from tests.support.requests import send

OTHER = "OTHER"
INVISIBLE_MS = 5_000
LONG_MS = 60_000
LATEST_MS = 12_000
"""Its time, three seconds until a queue counts as idle, and a look a second at each of the ways to the revive topic."""
PAUSE_MS = 10
"""Between two pops of those who acknowledge at once: always some record is on its way to the timer."""


@pytest.mark.parametrize("phase_ms", [0, 100, 437])
@pytest.mark.parametrize("others_invisible_ms", [INVISIBLE_MS, LONG_MS])
def test_it_comes_while_others_pop_and_acknowledge(tmp_path: Path, phase_ms: int, others_invisible_ms: int) -> None:
    """`phase_ms`: where in a second the broker begins, and so looks."""
    broker = Harness(tmp_path)
    broker.env.wall_ms += phase_ms
    broker.begun()
    client = broker.connect()
    for number in range(2 * LATEST_MS // PAUSE_MS):
        client.ask(send(queue_id=0), b"m%d" % number)
    broker.driver.advance(PAUSE_MS * 2)
    begun_ms = broker.env.mono_ms
    assert take(client, count=1, invisible_time=INVISIBLE_MS, consumer_group=OTHER)
    while not broker.stored(f"%RETRY%{OTHER}_T"):
        assert broker.env.mono_ms - begun_ms < LATEST_MS
        if got := take(client, count=1, invisible_time=others_invisible_ms):
            ack(client, *got)
        broker.driver.advance(PAUSE_MS)
    assert broker.env.mono_ms - begun_ms >= INVISIBLE_MS
