"""A backlog beside the requests of others: all that it wants while there are few, a share while there are many."""

from __future__ import annotations

from broker_impl.engine.beside import FREE_MS, LATE_MS, LOOK_MS, MESSAGES_PER_MS, REQUESTS_PER_MS, Beside
from broker_impl.engine.counters import Counters
from broker_impl.env import Env

WANTED = 64


def busy(requests_per_ms: int) -> tuple[Env, Counters, Beside]:
    env, counters = Env(wall_ms=0, mono_ms=1_000), Counters()
    beside = Beside(env, counters)
    for _ in range(LOOK_MS):
        env.advance(1)
        counters.requests += requests_per_ms
        beside.most(WANTED, 0)
    return env, counters, beside


def test_nobody_asks() -> None:
    _, _, beside = busy(0)
    assert [beside.most(WANTED, 0) for _ in range(3)] == [WANTED] * 3


def test_many_ask() -> None:
    env, _, beside = busy(10)
    assert beside.most(WANTED, 0) == 0, "its share of this millisecond is spent"
    env.advance(1)
    assert beside.most(WANTED, 0) == MESSAGES_PER_MS
    env.advance(2)
    assert beside.most(WANTED, 0) == 2 * MESSAGES_PER_MS
    assert beside.most(WANTED, 0) == 0


def test_the_later_the_more() -> None:
    env, _, beside = busy(10)
    given = []
    for late_ms in (LATE_MS - 1, LATE_MS, 2 * LATE_MS, FREE_MS):
        env.advance(1)
        given.append(beside.most(WANTED, late_ms))
    assert given == [MESSAGES_PER_MS, 2 * MESSAGES_PER_MS, 4 * MESSAGES_PER_MS, WANTED]


def test_from_so_many_requests_on_it_is_a_share() -> None:
    env, _, beside = busy(REQUESTS_PER_MS)
    env.advance(1)
    assert beside.most(WANTED, 0) == MESSAGES_PER_MS
    assert beside.most(100 * WANTED, FREE_MS) == 100 * WANTED, "when it is so late it takes all"


def test_they_have_gone() -> None:
    env, _, beside = busy(10)
    env.advance(LOOK_MS)
    beside.most(WANTED, 0)
    env.advance(LOOK_MS)
    assert beside.most(WANTED, 0) == WANTED
