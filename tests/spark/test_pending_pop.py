"""What the job says of popped messages is what the rule book says of the same records: random pops, their acknowledgements,
those of others that look alike, records that nobody can read."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from rmq_spark.jobs import pending_rows
from rmq_wire.bodies.pop import AckMsg, BatchAckMsg, PopCheckPoint
from rmq_wire.errors import BadBody
from rmq_wire.implied import pop
from rmq_wire.names import WHEEL_TIMER_TOPIC

REVIVE: Final = pop.revive_topic("DefaultCluster")
ROWS: Final = (
    "brokerName string, tags string, body binary, physicalOffset bigint, bornTimestamp timestamp, storeTimestamp timestamp,"
    " topic string, realTopic string, realQueueId string, queueId int, queueOffset bigint"
)
POSITIONS: Final = "brokerName string, group string, topic string, queueId int, offset bigint"
TIME: Final = datetime(2026, 1, 1, tzinfo=UTC)
State = Counter[tuple[pop.Pop, int, int, str]]
"""(pop, queue offset, due time, state) of each message of each check point."""


class Written(NamedTuple):
    """A record: in the wheel, in the revive topic, or first in one and then in the other."""

    tag: str
    body: bytes
    in_wheel: bool
    in_revive: bool


class World(NamedTuple):
    """One broker.  position: the last record of its revive queue that is done with."""

    records: list[Written]
    position: int


few = st.integers(0, 2)
marks = st.fixed_dictionaries(  # few, so that pops look alike
    {
        "topic": st.sampled_from(["A", "B"]),
        "group": st.sampled_from(["G", "H"]),
        "queue_id": few,
        "start_offset": few,
        "pop_time": st.integers(1, 3),
    }
)
places = st.sampled_from([(True, False), (False, True), (True, True)])


@st.composite
def points(draw: st.DrawFn) -> PopCheckPoint:
    diffs = sorted(draw(st.sets(st.integers(0, 40), max_size=32)))
    right = st.integers(1, 6) if not diffs else st.just(len(diffs))
    num = draw(st.one_of(right, right, right, st.integers(-1, 40)))
    bits = draw(st.one_of(st.just(0), st.integers(-(1 << 31), (1 << 31) - 1)))
    said = {"num": num, "diffs": diffs or draw(st.sampled_from([None, []])), "bit_map": bits}
    said["invisible_time"] = draw(st.sampled_from([60_000, 90_000]))
    more = {"re_put_times": draw(st.sampled_from([None, "1"])), "suspend": draw(st.booleans())}
    return PopCheckPoint(**draw(marks), **said, **more, broker_name=draw(st.sampled_from([None, "b"])))


@st.composite
def worlds(draw: st.DrawFn) -> World:
    records = []
    seen: list[tuple[Any, PopCheckPoint]] = []
    for point in draw(st.lists(points(), min_size=1, max_size=6)):
        of = (point.topic, point.group, point.queue_id, point.start_offset, point.pop_time)
        if not any(of == other and pop.is_same_point(point, known) for other, known in seen):
            seen.append((of, point))
            records.append(Written("ck", point.encode(), *draw(places)))
        own = dict(zip(("topic", "group", "queue_id", "start_offset", "pop_time"), of, strict=True))
        for ack in draw(st.lists(st.one_of(st.just(own), marks), max_size=3)):
            offsets = draw(st.lists(st.integers(0, 12), min_size=1, max_size=4))
            if draw(st.booleans()):
                records.append(Written("ack", AckMsg(ack_offset=offsets[0], **ack).encode(), *draw(places)))
            else:
                several = BatchAckMsg(ack_offset=-1, offsets=offsets, **ack)
                records.append(Written("bAck", several.encode(), *draw(places)))
    odd = st.builds(Written, st.sampled_from(["ck", "ack", "bAck", "other"]), st.just(b"{"), st.just(False), st.just(True))
    records += draw(st.lists(odd, max_size=1))
    return World(draw(st.permutations(records)), draw(st.integers(-1, 8)))


def expected(world: World) -> State:
    """By the rule book."""
    acked: dict[pop.Pop, set[int]] = {}
    found: list[tuple[PopCheckPoint, int | None]] = []
    at = 0
    for written in world.records:
        place = at if written.in_revive else None
        at += written.in_revive
        try:
            record = pop.read_record(written.tag, written.body)
        except BadBody:
            continue
        if isinstance(record, PopCheckPoint):
            found.append((record, place))
        elif record is not None:
            acked.setdefault(of_pop(record), set()).update(pop.acked_offsets(record))
    states: State = Counter()
    for point, place in found:
        of = of_pop(point)
        left = pop.open_offsets(point, acked.get(of, set()))
        for offset in (point.offset_at(index) for index in range(point.num)):
            gone = place is not None and place <= world.position
            states[of, offset, point.due_ms, "acked" if offset not in left else "settled" if gone else "waiting"] += 1
    return states


def of_pop(record: PopCheckPoint | AckMsg) -> pop.Pop:
    return pop.pop_of(record, "")._replace(broker_name="")  # a store has one broker


def rows_of(name: str, world: World) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    waiting = at = 0
    for written in world.records:
        said = (name, written.tag, written.body)
        if written.in_wheel:
            rows.append((*said, len(rows), TIME, TIME, WHEEL_TIMER_TOPIC, REVIVE, "5", 0, waiting))
            waiting += 1
        if written.in_revive:
            rows.append((*said, len(rows), TIME, TIME, REVIVE, None, None, 5, at))
            at += 1
    return rows


def twins() -> World:
    """Two check points of one name and time, with one message in common: each has it."""
    own = {"topic": "T", "group": "g", "queue_id": 0, "start_offset": 5, "pop_time": 1, "invisible_time": 60_000}
    both = [PopCheckPoint(**own, num=2, diffs=diffs, bit_map=0, broker_name=None) for diffs in ([0, 1], [0, 2])]
    return World([Written("ck", point.encode(), True, False) for point in both], -1)


@settings(
    max_examples=2,  # the first that is drawn is the least there is
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # many brokers at once: a query takes seconds
    suppress_health_check=list(HealthCheck),
)
@given(st.lists(worlds(), min_size=30, max_size=60))
@example([twins()])
def test_states_are_those_of_the_rule(spark: Any, drawn: list[World]) -> None:
    named = {f"broker-{number}": world for number, world in enumerate(drawn)}
    rows = spark.createDataFrame([row for name, world in named.items() for row in rows_of(name, world)], ROWS)
    told = [(name, pop.REVIVE_GROUP, REVIVE, 5, world.position) for name, world in named.items() if world.position >= 0]
    told.append(("broker-0", "another", REVIVE, 5, 99))
    found: dict[str, State] = {name: Counter() for name in named}
    answer = pending_rows.pop_states(rows, spark.createDataFrame(told, POSITIONS))
    for row in answer.collect():
        of = pop.Pop(row.topic, row.group, row.queueId, row.start, row.popTime, "")
        found[row.brokerName][of, row.queueOffset, row.due, row.state] += 1
    assert [world for name, world in named.items() if found[name] != expected(world)][:1] == []
