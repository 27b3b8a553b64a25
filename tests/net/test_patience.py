"""When the loop looks again and waits a moment, by hand: the clock, the poller and who else needs the core are the test's."""

from __future__ import annotations

from rmq_net.patience import BRIEF_S, LOOKS_NS, SHARED_NS, Events, Patience

READY: Events = [(7, 1)]
IN_VAIN = [0, 2, 6, 14, 30, 62, 126, 254, 510, 1_022, 2_046, 3_070, 4_094]
"""Each chance that brought nothing passes twice as many over."""
LOOK_NS = 2_000


class Machine:
    """`asks_after_ns`: when the next request comes, from the begin of a look; None: never.  `others_ns`: how long others run."""

    def __init__(self, asks_after_ns: int | None = None, others_ns: int = 0, *, may_wait: bool = True) -> None:
        self.asks_after_ns, self.others_ns = asks_after_ns, others_ns
        self.now_ns = self._began_ns = 5_000_000
        self.waits = self.given_way = 0
        self._patience = Patience(self._poll, lambda: self.now_ns, self._give_way, may_wait=may_wait)

    def look(self, deadline_ms: int | None = None) -> Events:
        self._began_ns = self.now_ns
        return self._patience.poll(deadline_ms, self.now_ns)

    def _poll(self, seconds: float) -> Events:
        self.now_ns += LOOK_NS
        if seconds:
            assert seconds == BRIEF_S
            self.waits += 1
            self.now_ns += int(seconds * 1e9)
        return READY if self.asks_after_ns is not None and self.now_ns - self._began_ns > self.asks_after_ns else []

    def _give_way(self) -> None:
        self.given_way += 1
        self.now_ns += self.others_ns


def test_who_never_asks_again_is_hardly_waited_for() -> None:
    machine = Machine()
    waits, looks = [], []
    for chance in range(5_000):
        waited, looked = machine.waits, machine.given_way
        assert machine.look() == []
        waits += [chance] if machine.waits > waited else []
        looks += [chance] if machine.given_way > looked else []
        assert (machine.given_way - looked) * LOOK_NS <= LOOKS_NS + LOOK_NS
    assert waits == looks == IN_VAIN


def test_who_asks_again_at_once_is_looked_for_each_time_without_a_wait() -> None:
    machine = Machine(asks_after_ns=LOOKS_NS // 2)
    for count in range(1, 101):
        assert machine.look() == READY
        assert machine.given_way >= count
    assert machine.waits == 0


def test_who_is_there_already_costs_nothing() -> None:
    machine = Machine(asks_after_ns=0)
    assert machine.look() == READY
    assert (machine.given_way, machine.waits, machine.now_ns) == (0, 0, 5_000_000 + LOOK_NS)


def test_who_asks_a_little_later_is_waited_for_in_the_kernel_and_soon_no_more_looked_for() -> None:
    machine = Machine(asks_after_ns=2 * LOOKS_NS)
    looks = []
    for chance in range(1_000):
        looked = machine.given_way
        assert machine.look() == READY
        looks += [chance] if machine.given_way > looked else []
    assert looks == IN_VAIN[: len(looks)]
    assert machine.waits == 1_000


def test_one_that_brings_something_begins_anew() -> None:
    machine = Machine()
    for _ in range(100):
        machine.look()
    machine.asks_after_ns = LOOKS_NS // 2
    found = [machine.look() for _ in range(100)]
    assert READY in found
    assert all(found[found.index(READY) :])


def test_where_others_need_the_core_it_looks_once_and_waits() -> None:
    """What is found then does not count as found by looking: who was answered ran here meanwhile."""
    machine = Machine(asks_after_ns=LOOKS_NS // 2, others_ns=SHARED_NS + 1)
    for _ in range(1_000):
        assert machine.look() == READY
    assert machine.given_way <= len(IN_VAIN) + 3
    machine = Machine(asks_after_ns=LOOK_NS, others_ns=SHARED_NS + 1)  # found by the look in which others ran
    for _ in range(1_000):
        assert machine.look() == READY
    assert machine.given_way <= len(IN_VAIN)


def test_something_due_within_two_milliseconds_is_not_waited_past() -> None:
    machine = Machine()
    for deadline_ms in (0, 5, 6, 7):
        machine.now_ns = 5_000_000
        assert machine.look(deadline_ms) == []
    assert (machine.given_way, machine.waits) == (0, 0)
    machine.now_ns = 5_000_000
    machine.look(8)
    assert (machine.given_way > 0, machine.waits) == (True, 1)


def test_where_others_are_in_the_loop_it_only_looks() -> None:
    machine = Machine(asks_after_ns=2 * LOOKS_NS, may_wait=False)
    assert machine.look() == []
    machine = Machine(asks_after_ns=LOOKS_NS // 2, may_wait=False)
    assert machine.look() == READY
    assert machine.waits == 0
