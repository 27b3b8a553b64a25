"""The table of held pulls against a plain list, and that it keeps nothing of those that are gone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_impl.filtering import low_half
from broker_impl.state.holds import NARROW_MAX, Held, Holds
from broker_impl.state.waits import TICK_MS, places
from tests.support.lines import lines_of

KEYS = [("T", 0), ("T", 1), ("U", 0)]


def held(key: int = 0, offset: int = 0, codes: frozenset[int] | None = None, due: int = 1_000, peer: Any = "p") -> Held:
    return Held(None, None, peer=peer, key=KEYS[key], offset=offset, codes=codes, deadline_ms=due)


def test_an_arrival_wakes_those_behind_it_that_want_it() -> None:
    holds = Holds()
    anything, tagged, ahead, elsewhere = held(), held(codes=frozenset([5])), held(offset=3), held(key=1)
    for one in (anything, tagged, ahead, elsewhere):
        holds.add(one)
    assert holds.arrived(("T", 0), 1, [4]) == [anything]
    assert holds.arrived(("T", 0), 3, [4, 5]) == [tagged]
    assert holds.arrived(("T", 0), 3, [5]) == []
    assert holds.arrived(("T", 0), 4, [6]) == [ahead]
    assert len(holds) == 1


def test_units_before_the_offset_do_not_wake() -> None:
    holds = Holds()
    holds.add(held(offset=2, codes=frozenset([5])))
    assert holds.arrived(("T", 0), 3, [5, 5, 4]) == []
    assert len(holds.arrived(("T", 0), 4, [5])) == 1


def test_the_sweep_ignores_tags() -> None:
    holds = Holds()
    holds.add(held(codes=frozenset([5])))
    assert holds.behind(("T", 0), 0) == []
    assert len(holds.behind(("T", 0), 1)) == 1
    assert holds.keys() == []


def test_an_arrival_looks_at_nobody_whom_it_does_not_concern() -> None:
    """Twenty thousand pulls of another tag made a batch of a thousand messages take two seconds."""

    def lines(waiting: int) -> int:
        holds = Holds()
        for number in range(waiting):
            holds.add(held(codes=frozenset([5, number + 10_000])))
        return lines_of(lambda: holds.arrived(("T", 0), 1_000, [6] * 1_000))

    assert lines(2_000) == lines(500) < lines(10) + 10


def test_a_pull_with_many_tags_counts_as_several() -> None:
    assert places("TagA || TagB", frozenset([1, 2])) == places(None, None) == 1
    many = places("TagA", frozenset(range(1_000)))
    assert many > 200
    assert places("||" * 32_000, None) > 200
    holds = Holds()
    heavy = Held(None, None, peer="p", key=KEYS[0], offset=0, codes=frozenset(range(1_000)), deadline_ms=1_000, places=many)
    holds.add(heavy)
    holds.add(held())
    assert len(holds) == holds.count_of("p") == many + 1
    holds.remove(heavy)
    assert len(holds) == holds.count_of("p") == 1
    assert not holds._more


def test_a_busy_consumer_leaves_nothing_behind() -> None:
    holds = Holds()
    for turn in range(10_000):
        holds.add(held(due=15_000 + turn))
        assert len(holds.arrived(("T", 0), 1, [0])) == 1
    assert not holds
    assert not holds._by_key
    assert not holds._by_peer
    assert len(holds._ticks) <= 10_000 // TICK_MS + 2
    assert holds.next_deadline() is None
    assert not holds._ticks


def test_deadlines_are_never_early_and_less_than_a_tick_late() -> None:
    holds = Holds()
    holds.add(held(due=1_001))
    due = holds.next_deadline()
    assert due is not None
    assert 1_001 <= due < 1_001 + TICK_MS
    assert list(holds.expired(due - 1)) == []
    assert len(list(holds.expired(due))) == 1


operations = st.one_of(
    st.tuples(
        st.just("add"),
        st.integers(0, 2),
        st.integers(0, 5),
        st.sampled_from([None, (), (1,), (1, 2), range(1, NARROW_MAX + 2)]),
        st.integers(0, 900),
    ),
    st.tuples(
        st.just("arrived"),
        st.integers(0, 2),
        st.integers(1, 6),
        st.lists(st.sampled_from([0, 1, 2, 3, (1 << 32) + 2]), min_size=1, max_size=3),
    ),
    st.tuples(st.just("behind"), st.integers(0, 2), st.integers(0, 6)),
    st.tuples(st.just("peer"), st.integers(0, 2)),
    st.tuples(st.just("time"), st.integers(0, 1_200)),
)


@pytest.mark.parametrize("at_once", [256, 2])
@given(steps=st.lists(operations, max_size=40))
def test_like_a_list(at_once: int, steps: list[Any]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("broker_impl.state.holds.ROWS_AT_ONCE", at_once)
        like_a_list(steps)


def all_of(holds: Holds, gone: list[Held]) -> list[Held]:
    """With those of a crowd."""
    while holds.crowded:
        gone += holds.more()
    return gone


def like_a_list(steps: list[Any]) -> None:
    holds = Holds()
    model: list[Held] = []
    now = 0
    for count, (step, *rest) in enumerate(steps):
        gone: list[Held]
        if step == "add":
            key, offset, codes, wait = rest
            one = held(key, offset, None if codes is None else frozenset(codes), now + wait, count % 3)
            holds.add(one)
            model.append(one)
            continue
        if step == "arrived":
            key, end, tags = rest
            first = end - len(tags)
            wanted = [
                one
                for one in model
                if one.key == KEYS[key]
                and any(
                    first + n >= one.offset and (one.codes is None or low_half(tag) in one.codes) for n, tag in enumerate(tags)
                )
            ]
            gone = all_of(holds, holds.arrived(KEYS[key], end, tags))
        elif step == "behind":
            key, end = rest
            wanted = [one for one in model if one.key == KEYS[key] and one.offset < end]
            gone = all_of(holds, holds.behind(KEYS[key], end))
        elif step == "peer":
            wanted = [one for one in model if one.peer == rest[0]]
            gone = []
            while some := holds.of_peer(rest[0]):
                gone += some
        else:
            now += rest[0]
            wanted = [one for one in model if one.tick * TICK_MS <= now]
            gone = list(holds.expired(now))
        assert set(gone) == set(wanted)
        model = [one for one in model if one not in gone]
        assert len(holds) == len(model)
        assert set(holds.keys()) == {one.key for one in model}
    assert set(holds.drain()) == set(model)
    assert not holds
