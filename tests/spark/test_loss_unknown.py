"""What became of a message when several things may have: only what is certain is said, and the rest is unknown."""

from __future__ import annotations

import json
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rmq_columns import read_store
from rmq_spark.jobs import Source
from rmq_spark.jobs.loss_scan import concerns
from rmq_spark.known import delay_offsets, timer_progress
from rmq_spark.outcome import Outcome
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
Verdicts = defaultdict[tuple[Any, ...], Counter[str]]
"""By what identifies a row of a ledger."""


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


@cache
def messages(store: Path) -> list[Row]:
    """Of a store that does not change any more: read once."""
    columns = "topic,queueId,queueOffset,physicalOffset,uniqKey,offsetMsgId,storeTimestamp,properties"
    rows: list[Row] = read_store(store, columns=columns, includeSystemTopics="true").read_all().to_pylist()
    return rows


def ask(spark: Any, stores: list[Path], rows: list[Row], directory: Path, **options: str) -> Outcome:
    """The job's, of a ledger with these rows."""
    path = directory / "ledger.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return job(spark, "loss", *stores, ledger=[str(path)], options=options)


def counted(outcome: Outcome, rows: list[Row]) -> Counter[str]:
    """Its figures; its verdict and its notes agree with them."""
    found = Counter({name: count for name, count in figures(outcome).items() if name in NAMES and count})
    assert found.total() == len(rows)
    assert outcome.is_clean == (not found.keys() & {"lost", "undelivered", "unknown", "unreadable", "unindexed", "elsewhere"})
    assert bool(found["unknown"]) == any("it is not known" in note for note in outcome.notes)
    return found


def verdicts(spark: Any, stores: list[Path], rows: list[Row], directory: Path, **options: str) -> Counter[str]:
    """Of a ledger with these rows."""
    return counted(ask(spark, stores, rows, directory, **options), rows)


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
SOUND = {"stored", "waiting", "recalled"}
"""No finding says so."""


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


class Asked(NamedTuple):
    """Rows of the ledger, and the verdict that each of them must get."""

    rows: list[Row]
    verdict: str


def identity(row: Row) -> tuple[Any, ...]:
    """What the ledger and the job's findings say of it."""
    names = ("topic", "queueId", "queueOffset", "uniqKey", "offsetMsgId", "brokerName")
    return tuple(one.upper() if name == "offsetMsgId" and one else one for name, one in ((each, row.get(each)) for each in names))


def on(name: str, *rows: Row) -> list[Row]:
    """With the name of their broker."""
    return [row | {"brokerName": name} for row in rows]


def brokers_that_differ(whole: Path, pruned: Path) -> list[Asked]:
    """The message is gone from one broker by retention, and from the other one, which has everything, it is lost."""
    row = reported(gone(whole, pruned)[0], *PLACE, uniqKey=NEVER)
    named = [Asked(on(name, row), verdict) for name, verdict in (("old", "expired"), ("whole", "lost"), ("third", "unknown"))]
    return [*named, Asked([row], "unknown")]


def places_alone(whole: Path, pruned: Path) -> list[Asked]:
    """Where both have a message at its place it is one of them; where one has none it may be the lost one."""
    old, new = gone(whole, pruned)[1], [row for row in messages(pruned) if row["topic"] == PLAIN][-1]
    return [Asked([reported(old, *PLACE)], "unknown"), Asked([reported(new, *PLACE)], "stored")]


def keys_alone(whole: Path, pruned: Path) -> list[Asked]:
    """They say nothing of the place: behind retention nobody knows whether it was kept until then."""
    rows, never = [reported(row, "uniqKey") for row in gone(whole, pruned)[:7]], {"topic": PLAIN, "uniqKey": NEVER}
    return [
        Asked(on("old", *rows, never), "unknown"),
        Asked(on("whole", *rows), "stored"),
        Asked(on("whole", never), "lost"),
    ]


def message_ids(whole: Path, pruned: Path) -> list[Asked]:
    """With offsetMsgId, which names the physical offset, all is certain; also beside keys that are nowhere."""
    old = gone(whole, pruned)
    kept = [row for row in messages(pruned) if row["topic"] == PLAIN]
    nowhere = {"topic": PLAIN, "offsetMsgId": f"{kept[5]['offsetMsgId'][:16]}{kept[5]['physicalOffset'] + 1:016X}"}
    there = [reported(row, "offsetMsgId") for row in kept[:5]]
    there[-1]["offsetMsgId"] = there[-1]["offsetMsgId"].lower()
    beyond = {"topic": PLAIN, "offsetMsgId": f"{kept[5]['offsetMsgId'][:16]}{'F' * 16}"}
    other = reported(kept[6], "offsetMsgId", queueId=kept[6]["queueId"], queueOffset=kept[6]["queueOffset"] + 1)
    expired = [reported(row, "offsetMsgId") for row in old[:7]] + [reported(old[0], "offsetMsgId", uniqKey=NEVER)]
    return [
        Asked(on("old", *expired), "expired"),
        Asked(on("old", *there), "stored"),
        Asked(on("old", nowhere, nowhere | {"uniqKey": NEVER}), "lost"),
        Asked(on("old", beyond), "unknown"),
        Asked(on("old", other), "elsewhere"),
    ]


def on_their_way(whole: Path, _: Path) -> list[Asked]:
    """Delayed and timed messages: those that were delivered, and the others."""
    left = [identity(row) for row in (*waiting(whole, SCHEDULE), *waiting(whole, WHEEL))]
    rows = detoured(whole, SCHEDULE, WHEEL)
    assert len(rows) > len(left)
    there = [row for row in rows if identity(row) not in left]
    return [Asked(on("whole", *there), "stored"), Asked(on("whole", *(row for row in rows if row not in there)), "waiting")]


def expired_on_their_way(whole: Path, pruned: Path) -> list[Asked]:
    """The place of a delayed message is one in the schedule's queue, not in its topic's: its copy may be anywhere, or lost."""
    start = min(int(one.name) for one in (pruned / "commitlog").iterdir())
    there = {(row["topic"], row["uniqKey"]) for row in messages(pruned)}
    rows = [row for row in detoured(whole, SCHEDULE) if row["at"] < start and (row["topic"], row["uniqKey"]) not in there]
    assert rows
    delayed = [row | {"delayed": True} for row in rows]
    first = {
        row["queueId"]: row["queueOffset"]
        for row in reversed(messages(whole))
        if row["topic"] == SCHEDULE and row["physicalOffset"] >= start
    }
    lost = {**rows[0], "uniqKey": NEVER, "queueOffset": first[rows[0]["queueId"]], "delayed": True}
    expired = lost | {"queueOffset": 0, "delayed": False}
    return [Asked(on("old", *rows, *delayed), "unknown"), Asked(on("old", lost), "lost"), Asked(on("old", expired), "expired")]


QUESTIONS: tuple[Callable[[Path, Path], list[Asked]], ...] = (
    brokers_that_differ,
    places_alone,
    keys_alone,
    message_ids,
    on_their_way,
    expired_on_their_way,
)


def verdicts_of(asked: list[Asked]) -> Verdicts:
    return counted_by_row((row, one.verdict) for one in asked for row in one.rows)


def counted_by_row(pairs: Iterable[tuple[Row, str]]) -> Verdicts:
    found: Verdicts = defaultdict(Counter)
    for row, verdict in pairs:
        found[identity(row)][verdict] += 1
    return found


@pytest.fixture(scope="module")
def answers(spark: Any, whole: Path, pruned: Path, tmp_path_factory: pytest.TempPathFactory) -> Verdicts:
    """Of all questions, in one ledger.  Whether a message is there or waits is counted for all of them: no finding says it."""
    asked = [one for question in QUESTIONS for one in question(whole, pruned)]
    rows = [row for one in asked for row in one.rows]
    path = tmp_path_factory.mktemp("asked")
    outcome = ask(spark, [pruned, whole], rows, path, brokerName="old,whole")
    wanted = Counter(one.verdict for one in asked for _ in one.rows)
    assert counted(outcome, rows) == wanted
    said = [*outcome.frames["findings"].collect(), *outcome.frames["expired"].collect()]
    assert len(said) == sum(count for verdict, count in wanted.items() if verdict not in SOUND)
    return counted_by_row((row.asDict(), row.verdict) for row in said)


@pytest.mark.parametrize("question", QUESTIONS)
def test_questions(answers: Verdicts, whole: Path, pruned: Path, question: Callable[[Path, Path], list[Asked]]) -> None:
    every = verdicts_of([one for each in QUESTIONS for one in each(whole, pruned)])
    own = verdicts_of(question(whole, pruned))
    wrong = {row: Counter({one: n for one, n in every[row].items() if one not in SOUND}) for row in own}
    assert {row: answers[row] for row in own} == wrong


def test_gone_from_both(spark: Any, whole: Path, pruned: Path, tmp_path: Path) -> None:
    """No broker is named, and they do not differ."""
    again = tmp_path / "again"
    shutil.copytree(pruned, again)
    rows = [reported(row, *PLACE, uniqKey=NEVER) for row in gone(whole, pruned)[:1]]
    assert verdicts(spark, [pruned, again], rows, tmp_path, brokerName="old,again") == {"expired": 1}


def test_a_batch_by_message_ids(spark: Any, pruned: Path, tmp_path: Path) -> None:
    """A ledger of nothing else."""
    kept = [row for row in messages(pruned) if row["topic"] == PLAIN]
    batch = {"topic": PLAIN, "offsetMsgId": ",".join(row["offsetMsgId"] for row in kept[:3])}
    path = tmp_path / "batch.jsonl"
    path.write_text(json.dumps(batch) + "\n")
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


def grown_older(store: Path, whole: Path) -> None:
    """Ten minutes lie between the log's last message and those before, in this copy of the whole store."""
    log = sorted((store / "commitlog").iterdir())[-1]
    last = [row for row in messages(whole) if row["topic"] == PLAIN][-1]
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


def set_progress(store: Path, delayed: int, read_ms: int, queue_offset: int) -> None:
    """What the broker says of levels and timer."""
    path = store / "config" / "delayOffset.json"
    value = loads(path.read_bytes())
    value["offsetTable"] = {2: delayed}
    path.write_bytes(dumps_pretty(value))
    (store / "config" / "timercheck").write_bytes(timer_check(read_ms, queue_offset))


def unindexed(store: Path, row: Row) -> None:
    """Its queue has no unit for it any more."""
    files = sorted((store / "consumequeue" / SCHEDULE / str(row["queueId"])).iterdir())
    at = row["queueOffset"] * 20
    file = next(one for one in reversed(files) if int(one.name) <= at)
    data = bytearray(file.read_bytes())
    data[at - int(file.name) : at - int(file.name) + 20] = bytes(20)
    file.write_bytes(data)


def test_passed_without_a_copy(spark: Any, whole: Path, tmp_path: Path) -> None:
    """The broker's progress says that they were delivered, and they are in no topic: four brokers with other progress each.
    On a fifth, a delayed message without a unit in the schedule's queue is never delivered.
    """
    delayed, timed = waiting(whole, SCHEDULE), waiting(whole, WHEEL)
    rows = [*delayed, *timed]
    read_ms, entered = timed[3]["due"], timed[1]["queueOffset"]
    in_wheel = [row for row in timed if row["due"] < read_ms and row["queueOffset"] < entered]
    assert len(in_wheel) == 1
    passed = sum(row["due"] < read_ms for row in timed)
    newest = newest_ms(whole)
    stores = {name: tmp_path / name for name in ("entering", "entered", "older", "silent", "unindexed")}
    for name, store in stores.items():
        shutil.copytree(whole, store)
        if name == "unindexed":
            unindexed(store, delayed[-1])
            continue
        taken_up = entered if name == "entering" else timed[-1]["queueOffset"] + 1
        set_progress(store, delayed[2]["queueOffset"], read_ms, taken_up)
    grown_older(stores["older"], whole)
    (stores["silent"] / "config" / "delayOffset.json").unlink()
    (stores["silent"] / "config" / "timercheck").unlink()
    wanted = {
        # what the timer has not taken up yet is waiting
        "entering": due_within(whole, delayed, 2) + due_within(whole, in_wheel, 1) + Counter({"waiting": len(timed) - 1}),
        "entered": due_within(whole, delayed, 2) + due_within(whole, timed, passed),
        "older": due_within(stores["older"], delayed, 2) + due_within(stores["older"], timed, passed),
        "silent": Counter("unknown" if row["due"] <= newest else "waiting" for row in rows),
        "unindexed": Counter({"unindexed": 1, "waiting": len(rows) - 1}),
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
