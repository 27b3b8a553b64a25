"""Who waits for something to pop: the table against a plain list, and what wakes whom, on a whole broker's store."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_impl.engine.call import PendingAnswer
from broker_impl.filtering import EVERYTHING, Wanted, parse, property_filter
from broker_impl.order_releases import OrderReleases
from broker_impl.pop_polling import EARLY_MS, HOLD_MS_MAX, REST_MS, Polling
from broker_impl.state.order_info import OrderInfos
from broker_impl.state.pop_waits import ANY_QUEUE, Choice, Place, PopWait, PopWaits
from broker_impl.state.waits import TICK_MS
from rmq_wire.command import Form
from rmq_wire.property_names import TAGS
from tests.support.engine import Harness
from tests.support.pollers import Pollers, asked
from tests.support.requests import send

PLACES = [Place(topic, group, queue) for topic in "TU" for group in "GH" for queue in (ANY_QUEUE, 0)]
CODES: list[frozenset[int] | None] = [None, frozenset([1]), frozenset([1, 2])]
SQL = "SQL92"


class Peer:
    """As much of a peer as a wait needs."""

    unsent_bytes = 0
    output_bytes_max = 1
    closed = False
    closing = None


def wait(place: Place, codes: frozenset[int] | None, due: int, number: int, peer: Any) -> PopWait:
    pending = PendingAnswer(lambda *_: None, peer, 1, Form.JSON, False)
    return PopWait(pending, asked(), place, Wanted(codes), due, number)


steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from(PLACES), st.sampled_from(CODES), st.integers(1, 900), st.integers(0, 2)),
        st.tuples(st.just("take"), st.sampled_from(PLACES), st.sampled_from(CODES), st.integers(1, 3), st.booleans()),
        st.tuples(st.just("leave"), st.integers(0, 2)),
        st.tuples(st.just("expire"), st.integers(0, 1_000)),
    ),
    max_size=60,
)


@given(steps)
def test_the_table_against_a_list(told: list[Any]) -> None:
    waits, peers, numbers = PopWaits(), [Peer() for _ in range(3)], count()
    model: list[PopWait] = []
    for name, *what in told:
        if name == "add":
            place, codes, due, peer = what
            one = wait(place, codes, due, next(numbers), peers[peer])
            waits.add(one)
            model.append(one)
        elif name == "take":
            place, codes, most, last = what
            choice: Choice = (codes, None)
            same = sorted((one for one in model if one.place == place and one.choice == choice), key=lambda one: one.end)
            taken = waits.take(place, choice, most, last=last)
            assert taken == (same[::-1] if last else same)[:most]
            model = [one for one in model if one not in taken]
        elif name == "leave":
            gone = waits.of_peer(peers[what[0]])
            assert set(gone) == {one for one in model if one.peer is peers[what[0]]}
            model = [one for one in model if one not in gone]
        else:
            over = list(waits.expired(what[0]))
            assert set(over) == {one for one in model if one.tick * TICK_MS <= what[0]}
            model = [one for one in model if one not in over]
        assert len(waits) == len(model)
        assert waits.choosy is any(one.choice != (None, None) for one in model)
        for place in PLACES:
            assert waits.count_at(place) == sum(one.place == place for one in model)
            assert set(waits.choices(place)) == {one.choice for one in model if one.place == place}
        for topic in "TU":
            groups = {one.place.group for one in model if one.place.topic == topic}
            assert set(waits.groups_of(topic)) == groups
            assert waits.concerns(topic) is bool(groups)
            for group in "GH":
                for retry in (f"%RETRY%{group}_{topic}", f"%RETRY%{group}+{topic}"):
                    assert waits.retried(retry) == ([(topic, group)] if group in groups else [])
    for one in model:
        waits.remove(one)
    assert not waits
    assert not any((waits._by_place, waits._groups, waits._retries, waits._by_peer))


def test_two_groups_and_topics_with_the_same_retry_topic() -> None:
    waits = PopWaits()
    ones = [wait(Place(topic, group, 0), None, 5, 1, Peer()) for topic, group in (("c", "a_b"), ("b_c", "a"))]
    for one in ones:
        waits.add(one)
    assert waits.retried("%RETRY%a_b_c") == [("c", "a_b"), ("b_c", "a")]
    waits.remove(ones[0])
    assert waits.retried("%RETRY%a_b_c") == [("b_c", "a")]


@pytest.fixture
def pollers(tmp_path: Path) -> Pollers:
    return Pollers(tmp_path)


def test_a_message_wakes_one_of_each_kind_of_each_group(pollers: Pollers) -> None:
    for group in ("G", "H"):
        for queue in (ANY_QUEUE, 0, 1):
            for _ in range(2):
                assert pollers.hold(group=group, queue=queue) is Polling.HELD
    pollers.send(queue=1)
    assert pollers.places() == [("T", "G", -1), ("T", "G", 1), ("T", "H", -1), ("T", "H", 1)]
    pollers.send("U")
    assert pollers.places() == []
    assert len(pollers.polling.waits) == 8


@pytest.mark.parametrize("last", [False, True])
def test_who_is_woken(tmp_path: Path, last: bool) -> None:
    pollers = Pollers(tmp_path, last=last)
    for poll_ms in (9_000, 5_000, 7_000, 5_000):
        pollers.hold(poll_time=poll_ms)
    for _ in range(4):
        pollers.send()
    order = [(one.asked.poll_time, one.end[1]) for one in pollers.woken]
    assert order == (
        [(9_000, 1), (7_000, 3), (5_000, 4), (5_000, 2)] if last else [(5_000, 2), (5_000, 4), (7_000, 3), (9_000, 1)]
    )


def test_tags(pollers: Pollers) -> None:
    wanted = parse("A||B", "TAG")
    pollers.send()
    for _ in range(3):
        pollers.hold(wanted)
    pollers.send(**{TAGS: "C"})
    pollers.send()
    assert pollers.places() == []
    pollers.send(**{TAGS: "B"})
    assert len(pollers.places()) == 1
    pollers.hold()
    pollers.send(**{TAGS: "C"})
    assert [one.choice for one in pollers.woken] == [(None, None)]


def test_every_800th_is_looked_at_whatever_its_tags(tmp_path: Path) -> None:
    """`popLongPollingForceNotifyInterval`: so that a group's progress goes past what it does not want."""
    pollers = Pollers(tmp_path, popLongPollingForceNotifyInterval=3)
    pollers.send(**{TAGS: "C"})
    for _ in range(3):
        pollers.hold(parse("A", "TAG"))
    woken = []
    for _ in range(6):
        pollers.send(**{TAGS: "C"})
        woken.append(len(pollers.places()))
    assert woken == [0, 0, 1, 0, 0, 1]


def test_a_selector(pollers: Pollers) -> None:
    def wanted(text: str) -> Wanted:
        return Wanted(None, SQL, property_filter(text, SQL))

    pollers.send()
    for text in ("price > 5", "price > 5", "price < 5"):
        pollers.hold(wanted(text))
    pollers.send(price="5")
    assert pollers.places() == []
    pollers.send(price="7")
    assert [one.end[1] for one in pollers.woken] == [1]
    pollers.send(price="3")
    assert [one.end[1] for one in pollers.woken] == [1, 3]


def test_a_retry_wakes_its_group_whatever_they_want(pollers: Pollers) -> None:
    pollers.hold(parse("A", "TAG"))
    pollers.hold(group="H")
    pollers.hold(queue=0)
    pollers.hold(queue=1)
    pollers.send("%RETRY%G_T", **{TAGS: "C"})
    assert pollers.places() == [("T", "G", -1), ("T", "G", 0)]


def test_time_is_up(pollers: Pollers) -> None:
    now, driver = pollers.harness.env.wall_ms, pollers.harness.driver
    assert pollers.hold(poll_time=5_000, born_time=now - 1_000) is Polling.HELD
    driver.advance(4_000 - EARLY_MS - TICK_MS)
    assert not pollers.woken
    driver.advance(2 * TICK_MS)
    assert len(pollers.woken) == 1
    [one] = pollers.woken
    assert pollers.polling.hold(one.pending, one.asked, EVERYTHING, one.deadline_ms) is Polling.TIMED_OUT


def test_it_waits_for_the_rest_of_its_time_however_the_clock_is_set(pollers: Pollers) -> None:
    """P17, and a wall clock that goes back an hour."""
    pollers.again = lambda one: pollers.polling.hold(one.pending, one.asked, EVERYTHING, one.deadline_ms)
    pollers.hold(poll_time=5_000)
    pollers.harness.driver.advance(2_000)
    pollers.harness.env.wall_ms -= 3_600_000
    pollers.send()
    assert len(pollers.places()) == 1
    assert len(pollers.polling.waits) == 1
    pollers.harness.driver.advance(3_000 + TICK_MS)
    assert len(pollers.places()) == 1
    assert not pollers.polling.waits


@pytest.mark.parametrize(
    ("said", "result"),
    [
        ({"poll_time": 0}, Polling.NOT_POLLING),
        ({"poll_time": -1}, Polling.NOT_POLLING),
        ({"poll_time": EARLY_MS}, Polling.TIMED_OUT),
        ({"poll_time": EARLY_MS + 1}, Polling.HELD),
    ],
)
def test_who_may_wait(pollers: Pollers, said: dict[str, Any], result: Polling) -> None:
    assert pollers.hold(**said) is result


@pytest.mark.parametrize(
    "said", [{"poll_time": 1 << 62}, {"born_time": 1 << 62, "poll_time": 1 << 40}, {"born_time": (1 << 63) - 1}]
)
def test_nobody_waits_too_long(pollers: Pollers, said: dict[str, Any]) -> None:
    assert pollers.hold(**said) is Polling.HELD
    due = pollers.polling.waits.next_deadline()
    assert due is not None
    assert due <= pollers.harness.env.mono_ms + min(HOLD_MS_MAX, said.get("poll_time", 10_000)) + TICK_MS


def test_full(tmp_path: Path) -> None:
    """As in 5.5.0, the one beyond popPollingSize still waits, and the next one not."""
    pollers = Pollers(tmp_path, popPollingSize=4, maxPopPollingSize=9)
    assert [pollers.hold() for _ in range(6)] == [*[Polling.HELD] * 5, Polling.FULL]
    assert pollers.polling.count("T", "G", ANY_QUEUE) == 5
    assert [pollers.hold(queue=1) for _ in range(6)] == [*[Polling.HELD] * 4, *[Polling.FULL] * 2]


def test_who_has_less_than_an_even_share_gets_a_place(tmp_path: Path) -> None:
    pollers = Pollers(tmp_path, maxPopPollingSize=4)
    for queue in range(4):
        pollers.hold(queue=queue)
    other = pollers.harness.connect()
    assert [pollers.hold(client=other) for _ in range(3)] == [Polling.HELD, Polling.HELD, Polling.FULL]
    assert [one.place.queue_id for one in pollers.given_up] == [0, 1]


def test_long_expressions_count_as_several(tmp_path: Path) -> None:
    pollers = Pollers(tmp_path, maxPopPollingSize=4)
    assert pollers.hold(exp="x" * 1_100) is Polling.FULL
    assert pollers.hold(exp="x" * 700) is Polling.HELD
    assert len(pollers.polling.waits) == 3


def test_who_leaves_is_not_woken(pollers: Pollers) -> None:
    other = pollers.harness.connect()
    pollers.hold(client=other)
    pollers.hold()
    other.close()
    pollers.send()
    assert [one.peer for one in pollers.woken] == [pollers.client.peer]


def test_who_does_not_read_gets_no_messages(pollers: Pollers) -> None:
    pollers.hold()
    pollers.client.peer.output_bytes_max = -1
    pollers.harness.connect().ask(send("T"), b"x")
    assert (pollers.woken, len(pollers.given_up)) == ([], 1)


def test_a_rest_is_tried_again_a_little_later_and_not_in_a_circle(pollers: Pollers) -> None:
    def rest(one: PopWait) -> None:
        pollers.polling.hold(one.pending, one.asked, EVERYTHING, one.deadline_ms)
        pollers.polling.notify_soon(*one.place)

    pollers.again = rest
    pollers.hold(poll_time=5_000)
    pollers.send()
    assert len(pollers.places()) == 1
    pollers.harness.driver.advance(10 * REST_MS)
    assert 1 < len(pollers.places()) <= 10


def test_what_came_while_one_looked_wakes_it(pollers: Pollers) -> None:
    """P16: the look took several turns."""
    since = pollers.polling.arrivals
    pollers.send()
    pending = PendingAnswer(lambda *_: None, pollers.client.peer, 1, Form.JSON, False)
    pollers.polling.hold(pending, asked(born_time=pollers.harness.env.wall_ms), EVERYTHING, since=since)
    pollers.harness.driver.advance(REST_MS)
    assert len(pollers.woken) == 1


def test_many_groups_are_looked_at_in_slices(pollers: Pollers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker_impl.pop_polling.ROWS_PER_SLICE", 16)
    for group in range(100):
        pollers.hold(parse("A", "TAG"), group=f"G{group}")
    pollers.polling._arrived([("T", 0, 1, [0], 0)])  # type: ignore[list-item]
    slices = sum(1 for _ in pollers.polling._look_in_slices())
    assert slices >= 100 // 16


# The release of an ordered queue


class Releases:
    """A queue that is blocked, and who hears of its end."""

    def __init__(self, harness: Harness, text: bytes | None = None) -> None:
        self.env, self.driver = harness.env, harness.driver
        self.orders = OrderInfos(harness.env, lambda topic: 4, lambda group: True)
        if text is not None:
            self.orders.load(text)
        self.heard: list[tuple[str, str, int]] = []
        self.releases = OrderReleases(
            harness.node.engine, harness.node.config, self.orders, lambda *queue: self.heard.append(queue)
        )

    def pop(self) -> int:
        popped = self.env.wall_ms
        self.orders.update(None, "T", "G", 0, popped, 1_000, [0, 1])
        return popped


def test_a_release_is_heard_of(tmp_path: Path) -> None:
    one = Releases(Harness(tmp_path))
    popped = one.pop()
    one.driver.advance(999)
    assert not one.heard
    one.driver.advance(1)
    assert one.heard == [("T", "G", 0)]
    assert len(one.releases) == 0
    one.pop()
    one.orders.update_next_visible_time("T", "G", 0, 1, one.env.wall_ms, one.env.wall_ms + 5_000)
    one.driver.advance(4_999)
    assert len(one.heard) == 1
    one.driver.advance(1)
    assert len(one.heard) == 2
    assert popped < one.env.wall_ms


def test_acknowledged_is_free_at_once(tmp_path: Path) -> None:
    one = Releases(Harness(tmp_path, enableNotifyAfterPopOrderLockRelease="false"))
    popped = one.pop()
    for offset in (0, 1):
        one.orders.commit_and_next("T", "G", 0, offset, popped, offset)
        one.driver.run()
        assert len(one.heard) == offset
    one.pop()
    one.driver.advance(2_000)
    assert len(one.heard) == 1


def test_a_clock_that_is_set_back_moves_the_release(tmp_path: Path) -> None:
    one = Releases(Harness(tmp_path))
    one.pop()
    one.env.wall_ms -= 500
    one.driver.advance(1_499)
    assert not one.heard
    one.driver.advance(1)
    assert len(one.heard) == 1


def test_what_is_blocked_at_the_start_is_released(tmp_path: Path) -> None:
    harness = Harness(tmp_path)
    before = Releases(harness)
    before.pop()
    after = Releases(harness, before.orders.encode())
    harness.driver.advance(1_000)
    assert after.heard == [("T", "G", 0)]
