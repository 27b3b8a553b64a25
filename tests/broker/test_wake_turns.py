"""Many waiting pulls woken at once: so many answers a turn, in the order of their asking, each exactly one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker_impl.capabilities.pull import Pull
from broker_impl.state.waits import TICK_MS
from broker_impl.wakes import WAKES_PER_TURN
from rmq_wire.codes import ResponseCode
from tests.support.driver import Client
from tests.support.engine import Harness
from tests.support.lines import lines_of
from tests.support.requests import SUBSCRIPTION, SUSPEND, pull, send, units

WAIT = SUBSCRIPTION | SUSPEND
WAITERS = 1_000


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    harness = Harness(tmp_path)
    harness.topic("T")
    return harness


def capability(harness: Harness) -> Pull:
    found: Pull = harness.capability(11)
    return found


def crowd(harness: Harness, count: int = WAITERS, **asked: Any) -> list[tuple[Client, int]]:
    """So many pulls that wait, of ten peers in turn; ordered by their asking."""
    clients = [harness.connect() for _ in range(10)]
    waiters = [(client, client.send(pull(flags=WAIT, **asked))) for client in clients * (count // 10)]
    assert len(capability(harness).holds) == count
    return waiters


def answered(waiters: list[tuple[Client, int]]) -> list[int]:
    """The places of those who have their answer."""
    return [place for place, (client, opaque) in enumerate(waiters) if opaque in client.answers]


def turns(harness: Harness, waiters: list[tuple[Client, int]], between: Callable[[int], object] = lambda turn: None) -> list[int]:
    """How many have their answer after each further turn, until the engine rests."""
    seen = [len(answered(waiters))]
    while (due := harness.driver.engine.next_deadline()) is not None and due <= harness.driver.env.mono_ms:
        between(len(seen))
        harness.driver.turn()
        done = answered(waiters)
        assert done == list(range(done[-1] + 1 if done else 0)), "not in the order of their asking"
        seen.append(len(done))
    return seen


def an_arrival(harness: Harness) -> None:
    producer = harness.connect()
    harness.driver.turn((producer, producer.frame(send(), b"x")))


def test_an_arrival_wakes_so_many_a_turn(harness: Harness) -> None:
    waiters = crowd(harness)
    an_arrival(harness)
    assert turns(harness, waiters) == [200, 400, 600, 800, 1_000]
    assert WAKES_PER_TURN == 200
    assert {len(units(client.answers[opaque].body)) for client, opaque in waiters} == {1}
    assert not capability(harness).holds


def test_the_sweep_and_the_deadline_keep_to_it_too(harness: Harness) -> None:
    waiters = crowd(harness, subscription="A")
    an_arrival(harness)  # without that tag
    assert answered(waiters) == []
    harness.driver.env.advance(5_000)
    assert sorted({0, *turns(harness, waiters)}) == [0, 200, 400, 600, 800, 1_000]
    waiters = crowd(harness, queue_id=1)
    harness.driver.env.advance(15_000 + TICK_MS)
    assert sorted({0, *turns(harness, waiters)}) == [0, 200, 400, 600, 800, 1_000]
    assert {client.answers[opaque].code for client, opaque in waiters} == {ResponseCode.PULL_NOT_FOUND}


def test_a_deadline_does_not_answer_the_woken_again(harness: Harness) -> None:
    """Their time comes while they stand in the row: one answer each (the driver refuses a second one)."""
    waiters = crowd(harness)
    an_arrival(harness)
    late = [20_000] * (WAITERS // WAKES_PER_TURN)  # not for ever: what happens now and then would keep the engine busy
    assert turns(harness, waiters, lambda _: harness.driver.env.advance(late.pop() if late else 0))[-1] == WAITERS
    harness.driver.advance(60_000)
    assert {client.answers[opaque].code for client, opaque in waiters} == {0}


def test_time_still_ends_for_those_who_wait_elsewhere(harness: Harness) -> None:
    waiters = crowd(harness)
    other = harness.connect()
    opaque = other.send(pull(queue_id=1, flags=WAIT))
    an_arrival(harness)
    turns(harness, waiters)
    harness.driver.advance(15_000 + TICK_MS)
    assert other.answers.pop(opaque).code == ResponseCode.PULL_NOT_FOUND


def test_who_leaves_meanwhile_takes_nothing_from_the_others(harness: Harness) -> None:
    waiters = crowd(harness)
    gone = waiters[3][0]

    def leave(turn: int) -> None:
        if turn == 2:
            gone.closed = True
            harness.driver.engine.closed(gone.peer, "closed by the peer")

    an_arrival(harness)
    while (due := harness.driver.engine.next_deadline()) is not None and due <= harness.driver.env.mono_ms:
        leave(len(answered(waiters)) // 200)
        harness.driver.turn()
    assert len(answered([one for one in waiters if one[0] is not gone])) == WAITERS - 100
    assert 0 < len(answered([one for one in waiters if one[0] is gone])) < 100
    harness.driver.advance(60_000)


def test_a_topic_deleted_meanwhile_is_said_to_the_rest(harness: Harness) -> None:
    waiters = crowd(harness)
    an_arrival(harness)
    turns(harness, waiters, lambda turn: harness.node.topics.delete("T") if turn == 2 else None)
    codes = [client.answers[opaque].code for client, opaque in waiters]
    assert codes == [0] * 400 + [ResponseCode.TOPIC_NOT_EXIST] * 600


def test_one_that_fails_is_one_that_fails(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even a bug in the waking itself ends nobody else's waiting."""
    waiters = crowd(harness)
    real, unlucky = Pull._wake, [500]

    def wake(self: Pull, held: Any) -> None:
        unlucky[0] -= 1
        if unlucky[0] == 0:
            raise RuntimeError("planted")
        real(self, held)

    monkeypatch.setattr(Pull, "_wake", wake)
    an_arrival(harness)
    harness.driver.run()
    assert len(answered(waiters)) == WAITERS - 1


def test_those_in_the_row_count_as_waiting(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker_impl.capabilities.pull.HOLDS_MAX", WAITERS)
    monkeypatch.setattr("broker_impl.state.holds.ROWS_AT_ONCE", WAITERS)
    crowd(harness)
    an_arrival(harness)
    late = harness.connect()
    first, second = late.frame(pull(queue_id=1, flags=WAIT)), late.frame(pull(queue_id=1, flags=WAIT))
    harness.driver.engine.turn([(late.peer, first)])
    assert len(capability(harness).holds) == 1
    monkeypatch.setattr("broker_impl.capabilities.pull.HOLDS_MAX", WAITERS - WAKES_PER_TURN + 1)
    [(_, chunks, _)] = harness.driver.engine.turn([(late.peer, second)])
    late.receive(chunks, close=False)
    [answer] = late.answers.values()
    assert answer.code == ResponseCode.SYSTEM_BUSY


def longest(harness: Harness, work: Callable[[], object]) -> int:
    """Lines of Python of the longest turn: this, then all that follows at once."""
    lines = [lines_of(work)]
    while (due := harness.driver.engine.next_deadline()) is not None and due <= harness.driver.env.mono_ms:
        lines.append(lines_of(harness.driver.turn))
    return max(lines)


@pytest.mark.parametrize(
    "tags", [{}, {"subscription": "TagA"}, {"subscription": "||".join(f"T{n}" for n in range(20)) + "||TagA"}]
)
@pytest.mark.parametrize("event", ["arrival", "sweep", "leave", "deadline"])
def test_a_turn_is_no_longer_in_a_larger_crowd(tmp_path: Path, event: str, tags: dict[str, str]) -> None:
    """One message took all 20,000 pulls of a queue out of the table at once, in 25 ms; a connection that closed its 100,000."""

    def worst(count: int) -> int:
        harness = Harness(tmp_path / str(count))
        harness.topic("T")
        one, producer = harness.connect(), harness.connect()
        for _ in range(count):
            one.send(pull(flags=WAIT, **tags))
        if event == "arrival":
            frame = producer.frame(send(properties="TAGS\x01TagA\x02"), b"x")
            return longest(harness, lambda: harness.driver.turn((producer, frame)))
        if event == "leave":
            one.closed = True
            return longest(harness, lambda: harness.driver.engine.closed(one.peer, "closed by the peer"))
        harness.driver.env.advance(5_000 if event == "sweep" else 15_000 + TICK_MS)
        return longest(harness, harness.driver.turn)

    assert worst(2_000) < 1.2 * worst(500)


def test_others_are_woken_while_a_crowd_is(harness: Harness) -> None:
    """A message for one who waits elsewhere does not stand in the row of a crowd."""
    harness.topic("U")
    crowd(harness, 2_000)
    other, producer = harness.connect(), harness.connect()
    opaque = other.send(pull(topic="U", flags=WAIT))
    harness.driver.turn((producer, producer.frame(send(), b"x") + producer.frame(send("U"), b"y")))
    assert len(units(other.answers[opaque].body)) == 1


def test_what_comes_while_a_crowd_is_woken_wakes_who_came_meanwhile(harness: Harness) -> None:
    waiters = crowd(harness)
    producer, late = harness.connect(), harness.connect()
    harness.driver.turn((producer, producer.frame(send(), b"x")))
    opaques = [late.frame(pull(offset=1, flags=WAIT)) for _ in range(300)]
    harness.driver.turn((late, b"".join(opaques)))
    harness.driver.turn((producer, producer.frame(send(), b"y")))
    harness.driver.run()
    assert len(answered(waiters)) == WAITERS
    assert [len(units(answer.body)) for answer in late.answers.values()] == [1] * 300
    assert not capability(harness).holds
    assert not capability(harness).holds.crowded
