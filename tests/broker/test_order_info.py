"""Batches of ordered pops: what blocks a queue, what an acknowledgement commits, what the file says, as the real broker has it.

`golden/consumerOrderInfo.json` is what RocketMQ 5.5.0 wrote after the pops, acknowledgements and changes of
`test_as_the_real_one`, at the times that it answered.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from broker_impl.env import Env
from broker_impl.state import order_info
from broker_impl.state.order_info import ILLEGAL, KEPT_MS, NOTHING_TO_COMMIT, Handed, OrderInfos
from rmq_wire import fastjson
from rmq_wire.errors import BadBody
from rmq_wire.headers.groups import DeleteSubscriptionGroup
from rmq_wire.headers.pop import PopMessageResponse
from rmq_wire.headers.topics import DeleteTopic
from rmq_wire.java import long_order
from tests.broker.admin_calls import GOLDEN
from tests.support.engine import Harness
from tests.support.popping import pop, popped, take
from tests.support.requests import send

HOUR_MS = 3_600_000
FILE = GOLDEN / "consumerOrderInfo.json"
NOW = 1_795_537_707_000
QUEUES = {"Orders": 2, "Orders2": 1, "T": 64}
GROUPS = ("G", "g1", "g2")


@pytest.fixture
def broker(tmp_path: Path) -> Harness:
    return Harness(tmp_path).begun()


class Table:
    """A table on one queue of one group, at a time of the test's making."""

    def __init__(self, queues: dict[str, int] | None = None, groups: tuple[str, ...] = GROUPS) -> None:
        self.env = Env(wall_ms=NOW)
        self.queues = dict(queues or QUEUES)
        self.groups = list(groups)
        self.infos = self.fresh()
        self.told: list[tuple[str, str, int, int]] = []
        self.infos.on_block = lambda *said: self.told.append(said)

    def fresh(self) -> OrderInfos:
        return OrderInfos(self.env, self.queues.get, lambda group: group in self.groups)

    def pop(self, offsets: list[int], *, attempt: str | None = None, invisible_ms: int = 1_000, queue: int = 0) -> Handed:
        return self.infos.update(attempt, "T", "G", queue, self.env.wall_ms, invisible_ms, offsets)

    def ack(self, offset: int, pop_ms: int, committed: int = 0) -> int:
        return self.infos.commit_and_next("T", "G", 0, offset, pop_ms, committed)

    def blocked(self, attempt: str | None = None, queue: int = 0) -> bool:
        return self.infos.is_blocked(attempt, "T", "G", queue, 1_000)


def test_as_the_real_one() -> None:
    table = Table()
    infos, env = table.infos, table.env

    def pop(at: int, topic: str, group: str, queue: int, invisible: int, count: int, first: int = 0, **more: Any) -> Handed:
        env.wall_ms = at if at > NOW else NOW + at
        later = more.pop("written", 0)
        popped, env.wall_ms = env.wall_ms, env.wall_ms + later
        return infos.update(more.get("attempt"), topic, group, queue, popped, invisible, range(first, first + count))

    assert pop(391, "Orders", "g1", 0, 60_000, 3, attempt="at-1") == Handed({}, 0)
    assert pop(430, "Orders", "g1", 0, 60_000, 3, attempt="at-1") == Handed({}, 0)
    assert pop(432, "Orders", "g1", 0, 60_000, 3, attempt="at-1") == Handed({}, 0)
    assert infos.is_blocked("at-2", "Orders", "g1", 0, 60_000)
    assert not infos.is_blocked("at-1", "Orders", "g1", 0, 60_000)
    assert infos.commit_and_next("Orders", "g1", 0, 1, NOW + 432, 0) == 0
    assert infos.commit_and_next("Orders", "g1", 0, 5, NOW + 432, 0) == ILLEGAL
    for offset, after in ((2, 1_012), (0, 1_014)):
        infos.update_next_visible_time("Orders", "g1", 0, offset, NOW + 432, NOW + 432 + after)
    env.wall_ms = NOW + 1_949
    assert not infos.is_blocked("at-3", "Orders", "g1", 0, 60_000)
    assert pop(1_949, "Orders", "g1", 0, 60_000, 4, attempt="at-3") == Handed({0: 1, 1: 1, 2: 1}, 0)
    for offset, until in ((1, 1_795_537_798_953), (0, 1_795_537_799_955)):
        infos.update_next_visible_time("Orders", "g1", 0, offset, NOW + 1_949, until)
    assert infos.commit_and_next("Orders", "g1", 0, 1, NOW + 1_949, 0) == 0
    assert pop(1_959, "Orders", "g1", 1, 60_000, 1) == Handed({}, 0)
    assert infos.commit_and_next("Orders", "g1", 1, 0, NOW + 1_959, 0) == 1
    assert pop(1_961, "Orders", "g1", 1, 60_000, 1, first=1) == Handed({}, 0)
    pop(1_963, "Orders", "g2", 1, 1, 3)
    assert pop(2_066, "Orders", "g2", 1, 70_000, 3) == Handed({0: 1, 1: 1, 2: 1}, 1)
    pop(2_068, "Orders2", "g2", 0, 10, 1)
    assert pop(2_170, "Orders2", "g2", 0, 80_000, 3, written=1) == Handed({0: 1}, 0)
    pop(2_173, "Orders2", "g1", 0, 2_000, 1)
    assert pop(4_225, "Orders2", "g1", 0, 2_000, 1, written=1) == Handed({0: 1}, 1)
    assert infos.encode() == FILE.read_bytes()


def test_a_file_of_the_real_broker_is_read_and_written_byte_for_byte() -> None:
    table = Table()
    table.env.wall_ms = NOW + 5_000
    table.infos.take(fastjson.loads(FILE.read_bytes()))  # a load has the rows stand otherwise
    assert len(table.infos) == 5
    assert table.infos.encode() == FILE.read_bytes()
    assert {(*said[:3], said[3] - NOW) for said in table.infos.blocks()} == {
        ("Orders", "g1", 0, 92_955),
        ("Orders", "g1", 1, 61_961),
        ("Orders", "g2", 1, 72_066),
        ("Orders2", "g2", 0, 82_170),
        ("Orders2", "g1", 0, 6_225),
    }


def test_another_attempt_does_not_lift_the_block() -> None:
    table = Table()
    table.pop([0, 1], attempt="one")
    assert table.blocked("two")
    assert table.blocked(None)
    assert not table.blocked("one")
    table.pop([0, 1])
    assert table.blocked(None)


def test_blocked_until_the_last_is_visible() -> None:
    table = Table()
    popped = table.env.wall_ms
    table.pop([5, 6, 7])
    table.infos.update_next_visible_time("T", "G", 0, 7, popped, popped + 5_000)
    table.env.advance(1_000)
    assert table.blocked()
    assert table.told[-1] == ("T", "G", 0, popped + 5_000)
    table.ack(7, popped)
    assert not table.blocked()
    assert table.told[-1] == ("T", "G", 0, table.env.wall_ms)


def test_what_is_committed_ends_before_the_first_that_is_left() -> None:
    table = Table()
    popped = table.env.wall_ms
    table.pop([5, 7, 9])
    assert table.ack(7, popped, 5) == 5
    assert table.ack(5, popped, 5) == 9
    assert table.ack(9, popped, 9) == 10
    assert table.ack(6, popped, 9) == ILLEGAL


def test_an_acknowledgement_of_another_pop_counts_no_more() -> None:
    table = Table()
    first = table.env.wall_ms
    table.pop([5, 6])
    table.env.advance(2_000)
    table.pop([5, 6])
    assert table.ack(5, first) == NOTHING_TO_COMMIT
    table.infos.update_next_visible_time("T", "G", 0, 5, first, first + 99_000)
    table.env.advance(1_000)
    assert not table.blocked()


def test_without_a_batch_nothing_is_passed_over() -> None:
    table = Table()
    assert table.ack(7, NOW, committed=5) == NOTHING_TO_COMMIT
    assert table.ack(5, NOW, committed=5) == 6
    table.pop([5, 6])
    table.infos.clear_block("T", "G", 0)
    assert table.ack(6, NOW, committed=0) == NOTHING_TO_COMMIT
    assert len(table.infos) == 0


def test_counts() -> None:
    table = Table()
    assert table.pop([0, 1]) == Handed({}, 0)
    assert table.pop([0, 1]) == Handed({0: 1, 1: 1}, 1)
    assert table.pop([1, 2], attempt="a") == Handed({1: 2}, 0)
    assert table.pop([1, 2], attempt="a") == Handed({1: 2}, 0)
    assert table.pop([1, 2], attempt="b") == Handed({1: 3, 2: 1}, 1)


def test_an_old_file_without_invisible_times() -> None:
    table = Table()
    table.infos.load(b'{"table":{"T@G":{0:{"popTime":%d,"o":[3],"cm":0,"l":%d},"1":null},"U@G":null}}' % (NOW, NOW))
    assert table.blocked()
    assert b'"i":1000' in table.infos.encode()
    table.env.advance(1_000)
    assert not table.blocked()


@pytest.mark.parametrize("text", [b"[]", b'{"table":[]}', b'{"table":{"T@G":{"x":{}}}}', b'{"table":{"T@G":{0:{"o":"x"}}}}'])
def test_a_file_that_is_none(text: bytes) -> None:
    table = Table()
    with pytest.raises(BadBody):
        table.infos.load(text)
    assert len(table.infos) == 0


def test_hostile_bits_and_offsets() -> None:
    table = Table()
    offsets = ",".join(["0", *(str(at) for at in range(1, 80))])
    table.infos.load(b'{"table":{"T@G":{0:{"popTime":1,"i":9223372036854775807,"cm":-1,"o":[%s]}}}}' % offsets.encode())
    assert not table.blocked()
    assert table.ack(79, 1) == 80
    table.infos.load(b'{"table":{"T@G":{0:{"popTime":1,"i":5,"cm":0,"o":[]}}}}')
    assert not table.blocked()
    assert table.ack(0, 1) == ILLEGAL
    assert table.pop([4]) == Handed({}, 0)


def test_what_nobody_needs_is_forgotten_when_the_file_is_written() -> None:
    table = Table({"T": 4, "U": 1}, ("G", "H"))
    infos = table.infos
    for topic, group, queue in (("T", "G", 0), ("T", "G", 3), ("T", "H", 0), ("U", "G", 0)):
        infos.update(None, topic, group, queue, NOW, 1_000, [0])
    table.env.advance(KEPT_MS)
    infos.encode()
    assert len(infos) == 4
    table.queues = {"T": 3}
    infos._read_queues = table.queues.get
    table.groups.remove("H")
    infos.encode()
    assert [said[:3] for said in _rows(infos)] == [("T", "G", 0)]
    table.env.advance(1)
    assert b'"table":{}' in infos.encode()
    assert len(infos) == 0


def _rows(infos: OrderInfos) -> list[tuple[str, str, int]]:
    return [(*key.split("@"), queue) for key, row in infos._rows.rows.items() for queue in row]  # type: ignore[misc]


def test_the_file_is_cleared_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order_info, "ROWS_PER_SLICE", 4)
    table = Table({f"T{at}": 1 for at in range(40)})
    for at in range(40):
        table.infos.update(None, f"T{at}", "G", 0, NOW, 1, [0])
    assert sum(1 for _ in table.infos.cleaning()) == 10


def test_a_full_table_has_no_room_for_another_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order_info, "QUEUES_MAX", 2)
    table = Table()
    for queue in range(2):
        assert table.infos.has_room("T", "G", queue)
        table.pop([0], queue=queue)
    assert table.infos.has_room("T", "G", 1)
    assert not table.infos.has_room("T", "G", 2)
    table.infos.remove("T", "G")
    assert table.infos.has_room("T", "G", 2)


def test_a_reset_ends_the_block_for_good(tmp_path: Path) -> None:
    """Java forgets the block at the next pop, unless it is stopped before."""
    harness = Harness(tmp_path)
    harness.topic("T")
    harness.node.orders.update(None, "T", "G", 1, harness.env.wall_ms, 60_000, [0, 1])
    harness.node.groups.find("G")
    harness.node.offsets.assign_reset("G", "T", 1, 0)
    harness.restart()
    assert not harness.node.orders.is_blocked(None, "T", "G", 1, 60_000)


# --- topics and groups that go


@pytest.mark.parametrize("gone", ["topic", "group"])
def test_what_was_deleted_blocks_no_queue_of_what_has_its_name(broker: Harness, gone: str) -> None:
    client = broker.connect()
    assert client.ask(send(), b"old").code == 0
    assert len(take(client, order=True, invisible_time=HOUR_MS)) == 1
    broker.driver.advance(20_000)  # so that the file is written
    if gone == "topic":
        assert client.ask(DeleteTopic(topic="T")).code == 0
        broker.topic("T")
        assert client.ask(send(), b"new").code == 0
    else:
        assert client.ask(DeleteSubscriptionGroup(group_name="G", clean_offset=True)).code == 0
    asked = pop(order=True)
    answer = client.ask(asked)
    assert [one.body for one in popped(answer, asked)] == [b"new" if gone == "topic" else b"old"]
    assert answer.header(PopMessageResponse).order_count_info == "0 0 0", "nobody had it before"


@pytest.mark.parametrize("gone", ["topic", "group"])
def test_a_deletion_comes_in_slices_and_nobody_finds_any_of_it_meanwhile(gone: str) -> None:
    """Who makes the topic again may get a batch before the last slice: it stays."""
    topics = [f"T{at}" if gone == "group" else "T" for at in range(1_000)]
    groups = [f"G{at}" if gone == "topic" else "G" for at in range(1_000)]
    table = Table(dict.fromkeys((*topics, "U"), 1), (*groups, "H"))
    infos = table.infos
    for topic, group in ((topics[0], "H"), ("U", groups[0]), *zip(topics, groups, strict=True)):
        infos.update(None, topic, group, 0, NOW, 1_000, [0])
    work = infos.forgetting(*((frozenset("T"), frozenset()) if gone == "topic" else (frozenset(), frozenset("G"))))
    next(work)
    assert not any(infos.is_blocked(None, topic, group, 0, 0) for topic, group in zip(topics[:500], groups[:500], strict=True))
    new = topics[-1], groups[-1], 0
    assert infos.update(None, *new, NOW, 1_000, [0]) == Handed({}, 0)
    other = ("U", groups[0], 0) if gone == "topic" else (topics[0], "H", 0)
    assert 5 < sum(1 for _ in work) < 30
    assert {said[:3] for said in infos.blocks()} == {new, other}
    assert not infos._going


def test_what_nobody_needs_makes_room_while_nothing_changes(broker: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order_info, "QUEUES_MAX", 1)
    client = broker.connect()
    for queue_id in (0, 3):
        assert client.ask(send(queue_id=queue_id), b"m").code == 0
    assert len(take(client, queue_id=3, order=True)) == 1
    broker.driver.advance(20_000)
    broker.topic("T", queues=2)
    assert take(client, queue_id=0, order=True) == []
    broker.driver.advance(10_000)
    assert len(take(client, queue_id=0, order=True)) == 1


def test_a_group_whose_progress_stays_keeps_its_batches_until_it_is_gone_for_a_while(broker: Harness) -> None:
    """Its members make it again at once, and have what they had."""
    client = broker.connect()
    assert client.ask(send(), b"m").code == 0
    assert len(take(client, order=True, invisible_time=HOUR_MS)) == 1
    broker.driver.advance(20_000)
    gone = DeleteSubscriptionGroup(group_name="G", clean_offset=False)
    assert client.ask(gone).code == 0
    assert take(client, order=True) == []
    assert client.ask(gone).code == 0
    broker.driver.advance(10_000)
    assert len(broker.node.orders) == 0
    assert len(take(client, order=True)) == 1


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1), max_size=32, unique=True))
def test_the_order_of_java_longs_is_a_permutation(numbers: list[int]) -> None:
    assert sorted(long_order(numbers)) == sorted(numbers)


def test_the_order_of_java_longs() -> None:
    assert long_order([17, 16, 1, 0, -1]) == [16, 0, -1, 17, 1]
    assert long_order(range(40, 8, -1)) == [*range(9, 41)]


class Ordered(RuleBasedStateMachine):
    """Random pops, acknowledgements, changes and restarts on one queue against the plainest model of them."""

    def __init__(self) -> None:
        super().__init__()
        self.table = Table()
        self.committed = 0
        self.visible: dict[int, int] = {}
        """Of the last batch what is not acknowledged, and when it comes again."""
        self.batch: list[int] = []
        self.popped_ms = 0
        self.attempt: str | None = None
        self.counts: dict[int, int] = {}

    @rule(count=st.integers(1, 32), invisible=st.integers(1, 5_000), attempt=st.sampled_from([None, "a", "b"]))
    def pop(self, count: int, invisible: int, attempt: str | None) -> None:
        now = self.table.env.wall_ms
        same = attempt is not None and attempt == self.attempt
        blocked = any(until > now for until in self.visible.values()) and not same
        assert self.table.blocked(attempt) is blocked
        if blocked:
            return
        offsets = [*range(self.committed, self.committed + count)]
        if not same:
            self.counts = {one: self.counts.get(one, 0) + 1 for one in offsets if one in self.batch}
        handed = self.table.pop(offsets, attempt=attempt, invisible_ms=invisible)
        assert handed.counts == self.counts
        self.batch, self.popped_ms, self.attempt = offsets, now, attempt
        self.visible = dict.fromkeys(offsets, now + invisible)

    @precondition(lambda self: self.batch)
    @rule(at=st.integers(0, 40), stale=st.booleans())
    def ack(self, at: int, stale: bool) -> None:
        offset = self.batch[0] + at
        found = self.table.ack(offset, self.popped_ms - stale, self.committed)
        if stale:
            assert found == NOTHING_TO_COMMIT
        elif offset not in self.batch:
            assert found == ILLEGAL
        else:
            self.visible.pop(offset, None)
            assert found == min(self.visible, default=self.batch[-1] + 1)
            self.committed = max(found, self.committed)

    @precondition(lambda self: self.batch)
    @rule(at=st.integers(0, 40), more=st.integers(0, 9_000), stale=st.booleans())
    def change(self, at: int, more: int, stale: bool) -> None:
        until = self.table.env.wall_ms + more
        self.table.infos.update_next_visible_time("T", "G", 0, self.batch[0] + at, self.popped_ms - stale, until)
        if not stale and self.batch[0] + at in self.visible:
            self.visible[self.batch[0] + at] = until

    @rule(ms=st.integers(1, 4_000))
    def later(self, ms: int) -> None:
        self.table.env.advance(ms)

    @rule()
    def restart(self) -> None:
        text = self.table.infos.encode()
        self.table.infos = self.table.fresh()
        self.table.infos.load(text)
        assert self.table.infos.encode() == text

    @invariant()
    def free_when_the_last_is_visible(self) -> None:
        now = self.table.env.wall_ms
        assert self.table.infos.free_ms("T", "G", 0) == max(now, *self.visible.values(), now)


TestOrdered = Ordered.TestCase
