"""What is still to come and what came late: as planted, as counted by hand in stores of Java, and with check points made here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rmq_columns import BadOption, read_store
from rmq_spark.jobs import Source, pending_rows
from rmq_spark.known import timer_progress
from rmq_store.disk.disk import RealDisk
from rmq_wire.headers.timers import RecallMessage
from rmq_wire.implied import real_place as rule
from rmq_wire.sys_flag import TRANSACTION_COMMIT, TRANSACTION_ROLLBACK
from tests.spark.kit import figures, job, made, planted
from tests.support.engine import Harness
from tests.support.golden import GOLDEN
from tests.support.requests import pairs, send
from tests.support.store_rig import Rig, draft, small
from tests.support.stores import golden_of, golden_store
from tests.support.transactions import UNIQUE, end, half

LOG_BYTES = 14 << 20
"""Rounds enough that something was delivered."""
COUNT = 3
CLUSTER = "rmq_sys_REVIVE_LOG_DefaultCluster"


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    faults = {"timer_late": COUNT, "late": 2, "lost": 2, "duplicate": 2, "reorder": 2}
    return made(tmp_path_factory.mktemp("pending") / "faulty", LOG_BYTES, **faults)


def end_of(store: Path) -> int:
    """Store time of the last message, ms."""
    times = read_store(store, columns="storeTimestamp", includeSystemTopics="true").read_all().column("storeTimestamp")
    return int(max(times.to_pylist()).timestamp() * 1000)


def messages(store: Path) -> list[dict[str, Any]]:
    return [
        {**one, **{name: value for name, value in one["properties"] if name in ("TIMER_OUT_MS", "REAL_TOPIC", "DELAY")}}
        for one in read_store(store, includeSystemTopics="true").read_all().to_pylist()
    ]


def waiting_of(rows: list[dict[str, Any]], system_topic: str) -> list[int]:
    """Places of those of a system topic whose unique key came to no real topic later."""
    came = {one["uniqKey"] for one in rows if one.get("REAL_TOPIC") == one["topic"]}
    return sorted(one["physicalOffset"] for one in rows if one["topic"] == system_topic and one["uniqKey"] not in came)


def places(outcome: Any, kind: str) -> list[int]:
    rows = outcome.frames["pending"].where(f"kind = '{kind}'").select("physicalOffset")  # not all its times are Python's
    return sorted(row.physicalOffset for row in rows.collect())


def test_planted(spark: Any, broken: Path) -> None:
    store = broken / "store"
    outcome = job(spark, "pending", store, now=end_of(store))
    rows, wanted = messages(store), planted(broken, "timer-late")
    assert len(wanted) == COUNT
    late = outcome.frames["late"].collect()
    assert sorted((row.topic, row.uniqKey) for row in late) == sorted((one["topic"], one["uniqKey"]) for one in wanted)
    reported = sorted(f"delivered {row.latenessMs} ms after it was due" for row in late)
    assert reported == sorted(one["what"] for one in wanted)
    assert not outcome.is_clean
    assert places(outcome, "delayed") == waiting_of(rows, "SCHEDULE_TOPIC_XXXX") != []
    assert places(outcome, "timed") == waiting_of(rows, "rmq_sys_wheel_timer") != []
    counted = figures(outcome)
    delivered = sum(one.get("REAL_TOPIC") == one["topic"] for one in rows)
    assert counted["delivered"] == delivered > 0
    assert (counted["late"], counted["overdue"], counted["undelivered"]) == (COUNT, 0, 0)
    for row in outcome.frames["pending"].where("kind = 'delayed'").collect():
        assert (row.dueTimestamp - row.storeTimestamp).total_seconds() == 5
        assert (row.state, row.level, row.topic, row.queueId) == ("waiting", 2, "orders", 1)
    assert counted["halfEnded"] == sum(one["topic"] == "RMQ_SYS_TRANS_OP_HALF_TOPIC" for one in rows)
    halves = sum(one["topic"] == "RMQ_SYS_TRANS_HALF_TOPIC" for one in rows)
    assert counted["halfEnded"] + counted["committedWithoutOp"] + counted["discarded"] == halves
    assert sum(count for _, count in outcome.plots[0].bars) == outcome.frames["pending"].count()


def test_later_everything_is_overdue(spark: Any, broken: Path) -> None:
    store = broken / "store"
    outcome = job(spark, "pending", store, now=end_of(store) + 700_000, max_lateness="10m")
    rows = outcome.frames["pending"].collect()
    assert rows
    assert all(row.isOverdue for row in rows)
    assert figures(outcome)["late"] == 0
    assert figures(outcome)["overdue"] == len(rows)


@pytest.mark.parametrize(
    ("topic", "at", "size", "value"),
    [
        ("RMQ_SYS_TRANS_HALF_TOPIC", 40, 8, (1 << 63) - 1),
        ("SCHEDULE_TOPIC_XXXX", 12, 4, (1 << 32) - 1),
        ("SCHEDULE_TOPIC_XXXX", 12, 4, (1 << 31) - 1),
        ("SCHEDULE_TOPIC_XXXX", 56, 8, (1 << 63) - 1),
    ],
)
def test_numbers_that_cannot_be(spark: Any, tmp_path: Path, topic: str, at: int, size: int, value: int) -> None:
    """Time of birth, queue, store time: whatever they are, the message is reported with all others."""
    store = made(tmp_path / "far", 2 << 20) / "store"
    rows, now = messages(store), end_of(store) + 700_000
    row = [one for one in rows if one["topic"] == topic][-1]
    file = [one for one in sorted((store / "commitlog").iterdir()) if int(one.name) <= row["physicalOffset"]][-1]
    data, place = bytearray(file.read_bytes()), row["physicalOffset"] - int(file.name) + at
    data[place : place + size] = value.to_bytes(size, "big")
    file.write_bytes(data)
    outcome = job(spark, "pending", store, now=now)
    assert places(outcome, "delayed") == waiting_of(rows, "SCHEDULE_TOPIC_XXXX") != []
    assert places(outcome, "timed") == waiting_of(rows, "rmq_sys_wheel_timer") != []


def test_a_clean_store(spark: Any, tmp_path: Path) -> None:
    store = made(tmp_path / "clean", 2 << 20) / "store"
    outcome = job(spark, "pending", store, now=end_of(store))
    assert outcome.is_clean, outcome.verdict
    assert outcome.frames["late"].count() == 0
    assert figures(outcome)["popPending"] == 0
    assert places(outcome, "delayed") == waiting_of(messages(store), "SCHEDULE_TOPIC_XXXX")
    one = job(spark, "pending", store, now=end_of(store), options={"topics": "orders"})
    assert {row.topic for row in one.frames["pending"].collect()} == {"orders"}


@pytest.mark.parametrize("kind", ["plain", "mix", "batch"])
def test_stores_of_java(spark: Any, tmp_path: Path, kind: str) -> None:
    """All that was delayed or timed came, none of it late by Java's own measure; what half messages became."""
    store = golden_store(tmp_path / "plain") if kind == "plain" else golden_of(kind, tmp_path / kind)
    rows = messages(store)
    outcome = job(spark, "pending", store, now=end_of(store))
    assert places(outcome, "delayed") == [], "each level's position is at the end of its queue"
    assert places(outcome, "timed") == waiting_of(rows, "rmq_sys_wheel_timer")
    counted = figures(outcome)
    delayed = [one for one in rows if one["topic"] in ("SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer")]
    assert counted["delivered"] == len(delayed) - counted["timedPending"] - counted["delayedPending"]
    assert counted["latenessMax"] < 3000
    ended = {
        int(n) for one in rows if one["topic"] == "RMQ_SYS_TRANS_OP_HALF_TOPIC" for n in one["body"].decode().split(",") if n
    }
    halves = [one for one in rows if one["topic"] == "RMQ_SYS_TRANS_HALF_TOPIC"]
    assert counted["halfEnded"] == sum(one["queueOffset"] in ended for one in halves)
    last = {one["uniqKey"]: one["queueOffset"] for one in halves}
    assert counted["halfAgain"] == sum(
        one["queueOffset"] not in ended and last[one["uniqKey"]] > one["queueOffset"] for one in halves
    )


# --- check points, written by our own store


def revive_store(root: Path) -> int:
    """Messages of a revive topic as a broker writes them; the time of the last one."""
    rig = Rig(RealDisk(), small(store_path_root_dir=str(root)))
    point = {"bm": 0, "c": "GID", "it": 60_000, "q": 1, "ro": 0, "so": 100, "sp": False, "t": "Orders"}

    def put(tag: str, body: dict[str, Any], **properties: str) -> None:
        made_ = draft(0, topic=CLUSTER, queue_id=2, tags=tag)
        made_.body = json.dumps({**body, "bn": "broker-a"}).encode()
        rig.put(made_)
        rig.wait(10)

    start = rig.wall_ms
    put("ck", {**point, "pt": start, "n": 3, "d": [0, 2, 5]})
    put("ck", {**point, "pt": start + 1, "n": 2, "d": [0, 1], "bm": 2})
    put("ack", {"ao": 102, "c": "GID", "pt": start, "q": 1, "so": 100, "t": "Orders"})
    put("bAck", {"aol": [100], "ao": -1, "c": "GID", "pt": start + 1, "q": 1, "so": 100, "t": "Orders"})
    put("ck", {**point, "pt": start + 2, "n": 1, "d": [0], "so": 300})
    put("ck", {**point, "pt": start + 2, "n": 1, "d": [0], "so": 400})
    rig.sync()
    assert rig.store.close(rig.wall_ms)
    return start


def test_check_points(spark: Any, tmp_path: Path) -> None:
    """Of three messages one was acked; of two both, one of them in memory; of the rest one is behind the revive position."""
    store = tmp_path / "broker-a"
    start = revive_store(store)
    outcome = job(spark, "pending", store, now=start + 1000)
    found = sorted((row.topic, row.queueId, row.group, row.queueOffset) for row in outcome.frames["pending"].collect())
    assert found == [("Orders", 1, "GID", offset) for offset in (100, 105, 300, 400)]
    assert outcome.is_clean
    due = {round(row.dueTimestamp.timestamp() * 1000) for row in outcome.frames["pending"].collect()}
    assert due == {start + 60_000, start + 60_002}
    config = store / "config"
    config.mkdir(exist_ok=True)
    table = {f"{CLUSTER}@CID_RMQ_SYS_REVIVE_GROUP": {"2": 4}}  # that of the last one dealt with
    (config / "consumerOffset.json").write_text(json.dumps({"offsetTable": table}))
    outcome = job(spark, "pending", store, now=start + 200_000)
    assert [row.queueOffset for row in outcome.frames["pending"].collect()] == [400]
    assert not outcome.is_clean
    counted = figures(outcome)
    assert (counted["popAcked"], counted["popSettled"], counted["popPending"]) == (3, 3, 1)


# --- what a broker passes, and what it puts back


def marked(number: int, topic: str, queue_id: int, more: dict[str, str], **values: Any) -> Any:
    made_ = draft(number, topic=topic, queue_id=queue_id, **values)
    made_.properties += "".join(f"{name}\x01{value}\x02" for name, value in more.items()).encode()
    return made_


def test_a_log_that_is_behind_its_progress(spark: Any, tmp_path: Path) -> None:
    """A replica that was copied while it was behind: the level was passed, but the copy may not have come yet."""
    store = tmp_path / "broker-a"
    rig = Rig(RealDisk(), small(store_path_root_dir=str(store)))
    due = rig.wall_ms + 5000
    real = {"REAL_TOPIC": "Orders", "REAL_QID": "3", "DELAY": "2"}
    rig.put(marked(1, "SCHEDULE_TOPIC_XXXX", 1, real, tags_code=due))
    rig.wait(64_000)
    rig.put(draft(2))
    rig.sync()
    (store / "config").mkdir(exist_ok=True)
    (store / "config" / "delayOffset.json").write_text(json.dumps({"offsetTable": {"2": 1}}))

    def state() -> str:
        [row] = job(spark, "pending", store, now=due + 1_000_000).frames["pending"].collect()
        assert row.isOverdue
        return str(row.state)

    assert state() == "unknown"
    rig.wait(1000)
    rig.put(draft(3))
    rig.sync()
    assert state() == "undelivered"
    assert rig.store.close(rig.wall_ms)


def test_half_messages_that_come_twice(spark: Any, tmp_path: Path) -> None:
    """One by its producer's retry, of which both wait; the other put back by a check, where the later one waits."""
    store = tmp_path / "broker-a"
    rig = Rig(RealDisk(), small(store_path_root_dir=str(store)))
    half, real = "RMQ_SYS_TRANS_HALF_TOPIC", {"REAL_TOPIC": "Orders", "REAL_QID": "0", "TRAN_MSG": "true"}
    rig.put(*(marked(1, half, 0, real) for _ in range(2)))
    rig.put(marked(2, half, 0, real), marked(2, half, 0, {**real, "TRANSACTION_CHECK_TIMES": "1"}))
    rig.put(marked(3, half, 0, real), marked(3, half, 0, {**real, "TRAN_PREPARED_QUEUE_OFFSET": "4"}))
    rig.sync()
    assert rig.store.close(rig.wall_ms)
    outcome = job(spark, "pending", store, now=rig.wall_ms)
    assert sorted(row.systemQueueOffset for row in outcome.frames["pending"].collect()) == [0, 1, 3, 5]
    assert figures(outcome)["halfAgain"] == 2


def test_part_of_the_log_is_refused(spark: Any, broken: Path) -> None:
    with pytest.raises(BadOption, match="the whole log"):
        job(spark, "pending", broken / "store", options={"endingTimestamp": "1"})


def test_a_time_that_is_none(spark: Any, broken: Path) -> None:
    with pytest.raises(BadOption, match="max_lateness: 'soon' is no duration"):
        job(spark, "pending", broken / "store", max_lateness="soon")


# --- half messages of our own broker


def test_half_messages_of_ours(spark: Any, tmp_path: Path) -> None:
    """As those of Java: committed and rolled back with an op message, committed without one, asked about, given up, open."""
    harness = Harness(tmp_path / "store", transactionCheckMax="2").begun()
    half(harness, 0)
    for _ in range(2):
        harness.driver.advance(30_000)
    for number, how in ((1, TRANSACTION_COMMIT), (2, TRANSACTION_ROLLBACK)):
        end(harness, half(harness, number), how)
    harness.driver.advance(10_000)
    half(harness, 3)
    harness.driver.advance(30_000)
    end(harness, half(harness, 4), TRANSACTION_COMMIT)
    waits = half(harness, 5)
    now = harness.env.wall_ms
    outcome = job(spark, "pending", tmp_path / "store", now=now, max_half_age="20s")
    counted = figures(outcome)
    assert (counted["halfEnded"], counted["committedWithoutOp"], counted["discarded"]) == (2, 1, 1)
    assert counted["halfAgain"] == 3, "twice the one that was given up, once the one that was asked about"
    rows = {row.uniqKey: row for row in outcome.frames["pending"].where("state = 'waiting'").collect()}
    assert set(rows) == {UNIQUE.format(3), UNIQUE.format(5)}
    assert rows[UNIQUE.format(5)].physicalOffset == waits.physical_offset
    assert (rows[UNIQUE.format(3)].isOverdue, rows[UNIQUE.format(5)].isOverdue) == (True, False)
    assert (rows[UNIQUE.format(3)].topic, rows[UNIQUE.format(3)].queueId, rows[UNIQUE.format(3)].group) == ("T", 1, "P")


# --- timers, of our own broker


def test_timers_of_our_broker(spark: Any, tmp_path: Path) -> None:
    """Waiting, one of them rolled; delivered; recalled: as the broker knows it, and how far its timer is, from its check file."""
    store = tmp_path / "broker-a"
    harness = Harness(store, recallMessageEnable="true", timerRollWindowSlot="60").begun()

    def timed(key: str, seconds: int) -> str:
        given = pairs(UNIQ_KEY=key, TIMER_DELAY_SEC=str(seconds))
        return str(harness.connect().ask(send(properties=given), key.encode()).ext_map()["recallHandle"])

    handles = {key: timed(key, seconds) for key, seconds in (("came", 5), ("gone", 5), ("rolled", 100), ("waits", 110))}
    assert harness.connect().ask(RecallMessage(topic="T", recall_handle=handles["gone"])).code == 0
    harness.driver.advance(65_000)
    timed("new", 30)
    harness.driver.advance(2_000)
    assert [bytes(unit.body) for unit in harness.stored("T", 0)] == [b"came"]
    read_ms = harness.node.timer.read_ms if harness.node.timer is not None else 0
    harness.stop()
    outcome = job(spark, "pending", store, now=harness.env.wall_ms)
    rows = outcome.frames["pending"].collect()
    assert sorted((row.kind, row.uniqKey, row.state) for row in rows) == [
        ("timed", key, "waiting") for key in ("new", "rolled", "waits")
    ]
    assert all(row.topic == "T" and not row.isOverdue for row in rows)
    assert figures(outcome)["delivered"] == 1
    [told] = timer_progress(Source((str(store),))).values()
    assert told == (read_ms, 8)


def test_queue_numbers_are_those_of_the_rule(spark: Any) -> None:
    digits = ["0", "7", "007", "2147483647", "2147483648", "9999999999", "0" * 30 + "7", "9" * 30]
    texts = [sign + text for sign in ("", "+", "-", "--") for text in digits] + [
        "-0",
        "",
        "+",
        " 1",
        "1 ",
        "1\n",
        "1.0",
        "1e1",
        "1L",
        "x",
        "²",
        "１",
        None,
    ]
    rows = spark.createDataFrame([(text,) for text in texts], "realQueueId string").select(
        "realQueueId", pending_rows.real_queue()
    )
    assert dict(rows.collect()) == {text: rule.real_queue(text) for text in texts}


def test_in_flight_as_the_receipts_say(spark: Any, tmp_path: Path) -> None:
    """In a store of the real broker, and as the inspector says it by the rule book."""
    store = golden_of("pop", tmp_path / "store")
    outcome = job(spark, "pending", store, now=end_of(store))
    rows = (
        outcome.frames["pending"]
        .where("kind = 'pop'")
        .selectExpr("topic", "queueId", "queueOffset as offset", "unix_millis(dueTimestamp) as due", "group", "state")
    )
    found = sorted((row.asDict() for row in rows.collect()), key=lambda row: (row["topic"], row["queueId"], row["offset"]))
    told = json.loads((GOLDEN / "store-5.5.0-pop" / "told.json").read_text())
    assert found == [{**one, "group": "GID_pop", "state": "waiting"} for one in told]
    counted = figures(outcome)
    assert (counted["popAcked"], counted["popSettled"], counted["popPending"]) == (5, 1, 5)
