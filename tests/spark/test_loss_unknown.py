"""What became of a message when several things may have: only what is certain is said, and the rest is unknown."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from rmq_columns import read_store
from rmq_spark.jobs import Source
from rmq_spark.jobs.loss_scan import concerns
from rmq_spark.known import delay_offsets, timer_progress
from rmq_wire.fastjson import dumps_pretty, loads
from rmq_wire.layout import timer
from rmq_wire.layout.flat import flat
from tests.spark.kit import figures, job, made

SCHEDULE, WHEEL = "SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer"
SURE_MS = 60_000
STORE_TIME_AT = 56
"""In a message with a born host of IPv4."""
LOG_BYTES = 9 << 20
"""Some of the delayed and timed messages are delivered."""
PLAIN = "clicks"
"""No message of it is delayed, timed or half first."""
Row = dict[str, Any]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("unknown") / "whole", LOG_BYTES) / "store"


@pytest.fixture(scope="module")
def pruned(whole: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, without the first file of its log."""
    root = tmp_path_factory.mktemp("unknown") / "pruned"
    shutil.copytree(whole, root)
    sorted((root / "commitlog").iterdir())[0].unlink()
    return root


def messages(store: Path) -> list[Row]:
    columns = "topic,queueId,queueOffset,physicalOffset,uniqKey,offsetMsgId,storeTimestamp,properties"
    rows: list[Row] = read_store(store, columns=columns, includeSystemTopics="true").read_all().to_pylist()
    return rows


def verdicts(spark: Any, stores: list[Path], rows: list[Row], tmp_path: Path, **options: str) -> Counter[str]:
    """Of a ledger with these rows."""
    path = tmp_path / "ledger.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    outcome = job(spark, "loss", *stores, ledger=[str(path)], options=options)
    counted = Counter({name: count for name, count in figures(outcome).items() if name in NAMES and count})
    assert counted.total() == len(rows)
    assert outcome.is_clean == (not counted.keys() & {"lost", "undelivered", "unknown", "unreadable", "unindexed", "elsewhere"})
    assert bool(counted["unknown"]) == any("it is not known" in note for note in outcome.notes)
    return counted


NAMES = {
    "stored",
    "waiting",
    "recalled",
    "expired",
    "elsewhere",
    "unindexed",
    "unreadable",
    "undelivered",
    "lost",
    "unknown",
}


def reported(row: Row, *names: str, **more: Any) -> Row:
    """A row of a ledger."""
    return {"topic": row["topic"], **{name: row[name] for name in names}, **more}


def gone(whole: Path, pruned: Path, topic: str = PLAIN) -> list[Row]:
    start = min(int(one.name) for one in (pruned / "commitlog").iterdir())
    found = [row for row in messages(whole) if row["topic"] == topic and row["physicalOffset"] < start]
    assert len(found) > 50
    return found


PLACE = ("queueId", "queueOffset")
NEVER = "7F000001053918B4AAC2FFFFFFFFFFFF"


def test_brokers_that_differ(spark: Any, whole: Path, pruned: Path, tmp_path: Path) -> None:
    """The message is gone from one broker by retention, and from the other one, which has everything, it is lost."""
    rows = [reported(row, *PLACE, uniqKey=NEVER) for row in gone(whole, pruned)[:1]]
    both = {"brokerName": "old,whole"}
    named = [row | {"brokerName": name} for row in rows for name in ("old", "whole", "third")]
    wanted = {"expired": 1, "lost": 1, "unknown": 1 + len(rows)}
    assert verdicts(spark, [pruned, whole], [*named, *rows], tmp_path, **both) == wanted
    again = tmp_path / "again"
    shutil.copytree(pruned, again)
    assert verdicts(spark, [pruned, again], rows, tmp_path, **both) == {"expired": 1}


def test_places_alone_on_several_brokers(spark: Any, whole: Path, pruned: Path, tmp_path: Path) -> None:
    """Where both have a message at its place it is one of them; where one has none it may be the lost one."""
    old, new = gone(whole, pruned)[0], [row for row in messages(pruned) if row["topic"] == PLAIN][-1]
    rows = [reported(old, *PLACE), reported(new, *PLACE)]
    assert verdicts(spark, [pruned, whole], rows, tmp_path, brokerName="old,whole") == {"unknown": 1, "stored": 1}


def test_keys_alone(spark: Any, whole: Path, pruned: Path, tmp_path: Path) -> None:
    """They say nothing of the place: behind retention nobody knows whether it was kept until then."""
    rows = [reported(row, "uniqKey") for row in gone(whole, pruned)[:7]] + [{"topic": PLAIN, "uniqKey": NEVER}]
    assert verdicts(spark, [pruned], rows, tmp_path) == {"unknown": 8}
    assert verdicts(spark, [whole], rows, tmp_path) == {"stored": 7, "lost": 1}


def test_message_ids(spark: Any, whole: Path, pruned: Path, tmp_path: Path) -> None:
    """With offsetMsgId, which names the physical offset, all is certain; also beside keys that are nowhere."""
    old = gone(whole, pruned)
    kept = [row for row in messages(pruned) if row["topic"] == PLAIN]
    nowhere = f"{kept[5]['offsetMsgId'][:16]}{kept[5]['physicalOffset'] + 1:016X}"
    rows = [reported(row, "offsetMsgId") for row in (*old[:7], *kept[:5])]
    rows[-1]["offsetMsgId"] = rows[-1]["offsetMsgId"].lower()
    rows += [{"topic": PLAIN, "offsetMsgId": nowhere}, {"topic": PLAIN, "offsetMsgId": nowhere, "uniqKey": NEVER}]
    rows += [reported(old[0], "offsetMsgId", uniqKey=NEVER)]
    beyond = {"topic": PLAIN, "offsetMsgId": f"{kept[5]['offsetMsgId'][:16]}{'F' * 16}"}
    other = reported(kept[6], "offsetMsgId", queueId=kept[6]["queueId"], queueOffset=kept[6]["queueOffset"] + 1)
    wanted = {"expired": 8, "stored": 5, "lost": 2, "unknown": 1, "elsewhere": 1}
    assert verdicts(spark, [pruned], [*rows, beyond, other], tmp_path) == wanted
    batch = [{"topic": PLAIN, "offsetMsgId": ",".join(row["offsetMsgId"] for row in kept[:3])}]
    path = tmp_path / "batch.jsonl"
    path.write_text(json.dumps(batch[0]) + "\n")
    assert figures(job(spark, "loss", pruned, ledger=[str(path)]))["stored"] == 3


def test_ways_together(spark: Any, whole: Path, tmp_path: Path) -> None:
    """One ledger with keys, ids and places: each message is met once, and counted as one that the ledger has."""
    rows = [row for row in messages(whole) if row["topic"] == PLAIN]
    ledger = [reported(row, *ways) for row, ways in zip(rows[:30], [("uniqKey",), ("offsetMsgId",), PLACE] * 10, strict=True)]
    path = tmp_path / "ledger.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ledger))
    outcome = job(spark, "loss", whole, ledger=[str(path)], strict=True)
    assert figures(outcome)["stored"] == 30
    assert figures(outcome)["notInLedger"] == len(rows) - 30 == outcome.frames["notInLedger"].count()


def detoured(store: Path, *topics: str) -> list[Row]:
    """As their producers were answered: the place in the system's topic; and when they are due."""
    found = []
    for row in messages(store):
        properties = dict(row["properties"])
        if row["topic"] in topics:
            due = int(properties.get("TIMER_OUT_MS") or row["storeTimestamp"].timestamp() * 1000 + 5000)
            found.append(
                {**reported(row, *PLACE, "uniqKey"), "topic": properties["REAL_TOPIC"], "due": due, "at": row["physicalOffset"]}
            )
    return found


def waiting(store: Path, topic: str) -> list[Row]:
    """Of those that have no copy in their topic, in the order in which they were stored."""
    there = Counter((row["topic"], row["uniqKey"]) for row in messages(store))
    found = [row for row in detoured(store, topic) if not there[row["topic"], row["uniqKey"]]]
    assert len(found) > 3
    return found


def newest_ms(store: Path) -> int:
    times: list[int] = [round(row["storeTimestamp"].timestamp() * 1000) for row in messages(store)]
    return max(times)


def grown_older(store: Path) -> None:
    """Ten minutes lie between the log's last message and those before."""
    log = sorted((store / "commitlog").iterdir())[-1]
    last = [row for row in messages(store) if row["topic"] == PLAIN][-1]
    data = bytearray(log.read_bytes())
    at = last["physicalOffset"] - int(log.name) + STORE_TIME_AT
    stored = round(last["storeTimestamp"].timestamp() * 1000)
    assert int.from_bytes(data[at : at + 8], "big") == stored
    data[at : at + 8] = (stored + 600_000).to_bytes(8, "big")
    log.write_bytes(data)


def due_within(store: Path, rows: list[Row], passed: int) -> Counter[str]:
    """What the first of them are, which their broker has passed."""
    limit = newest_ms(store) - SURE_MS
    wanted = Counter("undelivered" if row["due"] <= limit else "unknown" for row in rows[:passed])
    return wanted + Counter({"waiting": len(rows) - passed})


def timer_check(read_ms: int, queue_offset: int) -> bytes:
    """The timer's progress."""
    return flat(timer.CHECK).packed.pack(read_ms, 0, queue_offset, queue_offset, 0, 0, 0)


def test_on_their_way(spark: Any, whole: Path, tmp_path: Path) -> None:
    rows = detoured(whole, SCHEDULE, WHEEL)
    left = len(waiting(whole, SCHEDULE)) + len(waiting(whole, WHEEL))
    assert len(rows) > left
    assert verdicts(spark, [whole], rows, tmp_path) == {"stored": len(rows) - left, "waiting": left}


def set_progress(store: Path, delayed: int, read_ms: int, queue_offset: int) -> None:
    """What the broker says of levels and timer."""
    path = store / "config" / "delayOffset.json"
    value = loads(path.read_bytes())
    value["offsetTable"] = {2: delayed}
    path.write_bytes(dumps_pretty(value))
    (store / "config" / "timercheck").write_bytes(timer_check(read_ms, queue_offset))


def test_passed_without_a_copy(spark: Any, whole: Path, tmp_path: Path) -> None:
    """The broker's progress says that they were delivered, and they are in no topic: four brokers with other progress each."""
    delayed, timed = waiting(whole, SCHEDULE), waiting(whole, WHEEL)
    rows = [*delayed, *timed]
    read_ms, entered = timed[3]["due"], timed[1]["queueOffset"]
    in_wheel = [row for row in timed if row["due"] < read_ms and row["queueOffset"] < entered]
    assert len(in_wheel) == 1
    passed = sum(row["due"] < read_ms for row in timed)
    newest = newest_ms(whole)
    stores = {name: tmp_path / name for name in ("entering", "entered", "older", "silent")}
    for name, store in stores.items():
        shutil.copytree(whole, store)
        taken_up = entered if name == "entering" else timed[-1]["queueOffset"] + 1
        set_progress(store, delayed[2]["queueOffset"], read_ms, taken_up)
    grown_older(stores["older"])
    (stores["silent"] / "config" / "delayOffset.json").unlink()
    (stores["silent"] / "config" / "timercheck").unlink()
    wanted = {
        # what the timer has not taken up yet is waiting
        "entering": due_within(whole, delayed, 2) + due_within(whole, in_wheel, 1) + Counter({"waiting": len(timed) - 1}),
        "entered": due_within(whole, delayed, 2) + due_within(whole, timed, passed),
        "older": due_within(stores["older"], delayed, 2) + due_within(stores["older"], timed, passed),
        "silent": Counter("unknown" if row["due"] <= newest else "waiting" for row in rows),
    }
    assert wanted["entered"]["waiting"] < len(rows)
    assert wanted["older"]["undelivered"] == 2 + passed
    ledger = tmp_path / "ledger.jsonl"
    ledger.write_text("".join(json.dumps(row | {"brokerName": name}) + "\n" for name in stores for row in rows))
    outcome = job(spark, "loss", *stores.values(), ledger=[str(ledger)], options={"brokerName": ",".join(stores)})
    found: dict[str, Counter[str]] = {name: Counter() for name in stores}
    for row in outcome.frames["findings"].groupBy("brokerName", "verdict").count().collect():
        found[row["brokerName"]][row["verdict"]] += row["count"]
    for counted in found.values():
        counted["waiting"] = len(rows) - counted.total()
    assert found == wanted
    assert figures(outcome)["waiting"] == sum(counted["waiting"] for counted in wanted.values())


def test_not_indexed_while_it_waits(spark: Any, whole: Path, tmp_path: Path) -> None:
    """A delayed message without a unit in the schedule's queue is never delivered."""
    store = tmp_path / "store"
    shutil.copytree(whole, store)
    row = waiting(store, SCHEDULE)[-1]
    files = sorted((store / "consumequeue" / SCHEDULE / str(row["queueId"])).iterdir())
    at = row["queueOffset"] * 20
    file = next(one for one in reversed(files) if int(one.name) <= at)
    data = bytearray(file.read_bytes())
    data[at - int(file.name) : at - int(file.name) + 20] = bytes(20)
    file.write_bytes(data)
    assert verdicts(spark, [store], [row], tmp_path) == {"unindexed": 1}


def test_expired_on_their_way(spark: Any, whole: Path, pruned: Path, tmp_path: Path) -> None:
    """The place of a delayed message is one in the schedule's queue, not in its topic's: its copy may be anywhere, or lost."""
    start = min(int(one.name) for one in (pruned / "commitlog").iterdir())
    there = {(row["topic"], row["uniqKey"]) for row in messages(pruned)}
    rows = [row for row in detoured(whole, SCHEDULE) if row["at"] < start and (row["topic"], row["uniqKey"]) not in there]
    assert rows
    delayed = [row | {"delayed": True} for row in rows]
    assert verdicts(spark, [pruned], [*rows, *delayed], tmp_path) == {"unknown": 2 * len(rows)}
    first = {
        row["queueId"]: row["queueOffset"]
        for row in reversed(messages(whole))
        if row["topic"] == SCHEDULE and row["physicalOffset"] >= start
    }
    lost = [{**rows[0], "uniqKey": NEVER, "queueOffset": first[rows[0]["queueId"]], "delayed": True}]
    expired = lost[0] | {"queueOffset": 0, "delayed": False}
    assert verdicts(spark, [pruned], [*lost, expired], tmp_path) == {"lost": 1, "expired": 1}


def test_without_queues(spark: Any, whole: Path, pruned: Path, tmp_path: Path) -> None:
    """Of a log alone, or with queues in RocksDB, nothing is called unindexed; behind retention no place can be judged."""
    kept = [reported(row, *PLACE, "uniqKey") for row in messages(pruned) if row["topic"] == PLAIN][:9]
    old = [reported(row, *PLACE, "uniqKey") for row in gone(whole, pruned)[:4]]
    assert verdicts(spark, [pruned / "commitlog"], kept + old, tmp_path) == {"stored": 9, "unknown": 4}


def test_what_recalls_is_no_message() -> None:
    """The message that recalls a timed one waits behind it, with its topic and its unique key."""
    import pyarrow as pa

    rows = [
        ("T", None, None),
        (WHEEL, "T", None),
        (WHEEL, "T", "T+key"),
        (WHEEL, "other", None),
        ("%DLQ%g", None, None),
        (SCHEDULE, "T", None),
        (None, None, None),
    ]
    names = ("topic", "realTopic", "recalls")
    columns = {name: pa.array([row[at] for row in rows], pa.string()) for at, name in enumerate(names)}
    found = concerns(pa.record_batch(columns), ("T",)).to_pylist()
    assert [bool(one) for one in found] == [True, True, False, False, True, True, False]


def test_progress_that_cannot_be(tmp_path: Path) -> None:
    """Of broken files: no number, a time before all times."""
    (tmp_path / "commitlog").mkdir()
    config = tmp_path / "config"
    config.mkdir()
    reported = {"\u00b2": 5, "3": 7, "x": 1, "4": "no", "5": 1 << 63, "6": -1, "7": True, "0": 1, str(1 << 31): 1}
    (config / "delayOffset.json").write_text(json.dumps({"offsetTable": reported}))
    (config / "timercheck").write_bytes(b"\xff" * 56)
    source = Source((str(tmp_path),), {"brokerName": "b"})
    assert delay_offsets(source) == {"b": {2: 7}}
    assert timer_progress(source) == {"b": (-1, -1)}
