"""What nobody acknowledges comes again in its time, whatever others pop meanwhile; no time passes for what is on its way."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_impl.revive_clock import ReviveClock
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


SLOT_MS = 1_000


class Way:
    """Environment, store and timer at once.  In its log are records for the timer, and copies of those that left it."""

    def __init__(self) -> None:
        self.wall_ms = 0
        self.read_ms = 0
        self.log: list[int | None] = []
        """The slot of a record for the timer; None for a copy."""
        self.dispatched_offset = 0
        self.entered: list[int] = []
        self.visible_copies = 0
        self.stored: list[tuple[int, int]] = []
        """When, for which slot."""

    @property
    def written_offset(self) -> int:
        return len(self.log)

    @property
    def undispatched(self) -> int:
        return len(self.log) - self.dispatched_offset

    @property
    def queue_offset(self) -> int:
        return len(self.entered)

    @property
    def behind(self) -> int:
        return sum(slot is not None for slot in self.log[: self.dispatched_offset]) - len(self.entered)

    def delivers(self, wall_ms: int) -> bool:
        return self.read_ms < wall_ms // SLOT_MS * SLOT_MS

    def put(self, after_ms: int) -> None:
        slot = (self.wall_ms + after_ms) // SLOT_MS * SLOT_MS
        self.log.append(slot)
        self.stored.append((self.wall_ms, slot))

    def dispatch(self, count: int) -> None:
        going = self.log[self.dispatched_offset : self.dispatched_offset + count]
        self.dispatched_offset += len(going)
        self.visible_copies += going.count(None)

    def enter(self, count: int) -> None:
        slots = [slot for slot in self.log[: self.dispatched_offset] if slot is not None]
        for slot in slots[len(self.entered) : len(self.entered) + count]:
            self.entered.append(slot)
            if slot < self.read_ms:
                self.log.append(None)

    def deliver(self) -> None:
        """One slot that is over."""
        if self.delivers(self.wall_ms):
            self.log += [None] * self.entered.count(self.read_ms)
            self.read_ms += SLOT_MS

    def advance(self, by_ms: int) -> None:
        self.wall_ms += by_ms


ACTS = st.one_of(
    st.tuples(st.just("put"), st.sampled_from([0, 1_000, 3_000])),
    st.tuples(st.sampled_from(["dispatch", "enter"]), st.sampled_from([1, 100])),
    st.tuples(st.just("deliver")),
    st.tuples(st.just("advance"), st.sampled_from([400, 1_000])),
)


@settings(max_examples=500)
@given(st.lists(ACTS, min_size=5, max_size=30))
def test_all_that_was_due_is_visible(acts: list[Any]) -> None:
    """All of those in slots before: they leave in the order of slots, so a count is enough."""
    way = Way()
    clock = ReviveClock(cast(Any, way), cast(Any, way), cast(Any, way))
    for name, *given_so in acts:
        getattr(way, name)(*given_so)
        passed_ms = clock.look()
        over = passed_ms // SLOT_MS * SLOT_MS
        assert passed_ms <= way.wall_ms
        assert way.visible_copies >= sum(at_ms < passed_ms and slot < over for at_ms, slot in way.stored)


def test_a_clock_that_is_set_back_holds_nothing_up() -> None:
    """What was noted before is never reached again; the next look notes anew."""
    way = Way()
    clock = ReviveClock(cast(Any, way), cast(Any, way), cast(Any, way))
    way.advance(3_600_000)
    assert clock.look() == 0, "slots that are over are not read"
    way.wall_ms = 0
    assert clock.look() > way.wall_ms, "not for now: nobody has looked since"
    assert clock.look() == 0


def test_it_passes_when_everything_does() -> None:
    """Though something new is there at each look."""
    way = Way()
    clock = ReviveClock(cast(Any, way), cast(Any, way), cast(Any, way))
    passed = []
    for _ in range(20):
        way.put(0)
        passed.append(clock.look())
        way.advance(SLOT_MS)
        way.dispatch(100)
        way.enter(100)
        way.deliver()
        way.put(60_000)
    assert passed == sorted(passed)
    assert passed[-1] >= 20 * SLOT_MS - 6 * SLOT_MS
