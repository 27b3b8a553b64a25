"""A ledger of sends against stores with planted losses: each verdict exactly where it was planted, none in a clean store."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from rmq_columns import BadOption, read_store
from rmq_spark.jobs.loss_match import Matching
from rmq_spark.ledger import format_of, mapping_of, read_ledger
from tests.spark.kit import LOG_BYTES, figures, job, made, planted
from tests.support.stores import golden_store

KINDS = {
    "lost": "lost",
    "queue-missing": "unindexed",
    "queue-wrong": "unindexed",
    "corrupt-body": "unreadable",
    "corrupt-size": "unreadable",
    "corrupt-magic": "unreadable",
    "queue-offset": "elsewhere",
}
OTHERS = {"duplicate": 2, "duplicate-key": 2, "reorder": 2, "late": 2, "queue-tags": 2, "torn-tail": 1, "gap": 2}
"""Faults that are no losses."""
COUNT = 3


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("loss") / "faulty", **dict.fromkeys(KINDS, COUNT), **OTHERS)


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("loss") / "clean")


def sent(directory: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for file in sorted((directory / "sent").iterdir()) for line in file.read_text().splitlines()]


def found(outcome: Any) -> list[tuple[str, str, str]]:
    return sorted((row.verdict, row.topic, row.uniqKey) for row in outcome.frames["findings"].collect())


def test_planted(spark: Any, broken: Path) -> None:
    outcome = job(spark, "loss", broken / "store", ledger=[str(broken / "sent")])
    wanted = sorted((KINDS[one["kind"]], one["topic"], one["uniqKey"]) for one in planted(broken, *KINDS))
    assert found(outcome) == wanted
    assert not outcome.is_clean
    counted = figures(outcome)
    verdicts = Counter(verdict for verdict, *_ in wanted)
    assert {name: counted[name] for name in verdicts} == dict(verdicts)
    assert counted["acknowledged"] == len(sent(broken)) == counted["stored"] + len(wanted)
    assert counted["expired"] == counted["waiting"] == 0
    offsets = {row.uniqKey: row.foundQueueOffset for row in outcome.frames["findings"].where("verdict = 'elsewhere'").collect()}
    assert offsets == {one["uniqKey"]: one["queueOffset"] + 1000 for one in planted(broken, "queue-offset")}


def test_a_row_for_each_row_of_the_ledger(spark: Any, broken: Path) -> None:
    """Also of those that were not looked at one by one: where they are, and how large."""
    from rmq_spark.jobs.loss import loss

    rows = loss(spark, broken / "store", ledger=[str(broken / "sent")], splitBytes="1m").collect()
    assert sorted((row.topic, row.uniqKey) for row in rows) == sorted((row["topic"], row["uniqKey"]) for row in sent(broken))
    wrong = sorted((row.verdict, row.topic, row.uniqKey) for row in rows if row.verdict != "stored")
    assert wrong == sorted((KINDS[one["kind"]], one["topic"], one["uniqKey"]) for one in planted(broken, *KINDS))
    columns = "topic,queueId,queueOffset,uniqKey,physicalOffset,storeSize"
    messages = read_store(broken / "store", columns=columns, mode="DROPMALFORMED").read_all().to_pylist()
    there = {tuple(one.values()) for one in messages}
    for row in rows:
        if row.verdict == "stored":
            at = (row.foundQueueId, row.foundQueueOffset, row.uniqKey, row.physicalOffset, row.storeSize)
            assert (row.foundTopic, *at) in there


def test_without_check_sums(spark: Any, broken: Path) -> None:
    outcome = job(spark, "loss", broken / "store", ledger=[str(broken / "sent")], no_crc=True)
    wanted = sorted(
        (KINDS[one["kind"]], one["topic"], one["uniqKey"]) for one in planted(broken, *KINDS) if one["kind"] != "corrupt-body"
    )
    assert found(outcome) == wanted


@pytest.fixture(scope="module")
def strictly(spark: Any, clean: Path) -> Any:
    """Over a clean store: nothing is wrong but what no ledger has."""
    return job(spark, "loss", clean / "store", ledger=[str(clean / "sent")], strict=True)


def test_clean(spark: Any, clean: Path, strictly: Any) -> None:
    counted = figures(strictly)
    assert counted["stored"] == counted["acknowledged"] == len(sent(clean))
    messages = read_store(clean / "store", columns="topic,uniqKey").read_all().to_pylist()
    topics = {row["topic"] for row in sent(clean)}
    more = Counter((one["topic"], one["uniqKey"]) for one in messages if one["topic"] in topics)
    more -= Counter((row["topic"], row["uniqKey"]) for row in sent(clean))
    assert counted["notInLedger"] == more.total() > 0, "deliveries of delayed messages are in no ledger"
    assert strictly.verdict == f"{more.total()} messages that the ledger does not have"
    assert not strictly.is_clean
    rows = strictly.frames["notInLedger"].collect()
    assert Counter((row.topic, row.uniqKey) for row in rows) == more
    assert all(row.brokerName and row.physicalOffset is not None for row in rows)
    assert strictly.frames["positionsAhead"].count() == 0
    origins = {(one["topic"], one["uniqKey"]) for one in messages if one["topic"] == "%DLQ%GID-orders"}
    assert counted["dead"] == len(origins) > 0


def test_groups(clean: Path, strictly: Any) -> None:
    outcome = strictly
    positions = {
        (one["topic"], one["queueId"]): one["offset"]
        for one in read_store(clean / "store", table="consumerOffsets").read_all().to_pylist()
    }
    passed: Counter[str] = Counter()
    behind: Counter[str] = Counter()
    for row in sent(clean):
        is_passed = row["queueOffset"] < positions[row["topic"], row["queueId"]]
        (passed if is_passed else behind)[row["topic"]] += 1
    rows = outcome.frames["groups"].collect()
    assert {row.topic: (row.passed, row.notYet) for row in rows} == {topic: (passed[topic], behind[topic]) for topic in passed}
    assert behind.total()
    assert {row.group for row in rows} == {"GID-orders"}
    assert sum(row.dead for row in rows) == figures(outcome)["dead"]
    assert not any(row.passedWrong for row in rows)


def test_position_ahead(spark: Any, tmp_path: Path) -> None:
    directory = made(tmp_path / "ahead", 1 << 20, position_ahead=2)
    outcome = job(spark, "loss", directory / "store", ledger=[str(directory / "sent")])
    rows = outcome.frames["positionsAhead"].collect()
    wanted = planted(directory, "position-ahead")
    assert sorted((row.topic, row.queueId, row.offset) for row in rows) == sorted(
        (one["topic"], one["queueId"], one["queueOffset"]) for one in wanted
    )
    assert not outcome.is_clean
    assert outcome.frames["findings"].count() == 0


def test_expired(spark: Any, tmp_path: Path) -> None:
    """The first log file was deleted, and with it the queues' first offsets have no message."""
    directory = made(tmp_path / "old")
    (directory / "store" / "commitlog" / f"{0:020}").unlink()
    kept = {
        (one["topic"], one["uniqKey"]) for one in read_store(directory / "store", columns="topic,uniqKey").read_all().to_pylist()
    }
    gone = [row for row in sent(directory) if (row["topic"], row["uniqKey"]) not in kept]
    ledger = tmp_path / "ledger.jsonl"
    ledger.write_text("".join(json.dumps(row | {"delayed": False}) + "\n" for row in sent(directory)))
    outcome = job(spark, "loss", directory / "store", ledger=[str(ledger)])
    assert outcome.is_clean, outcome.verdict
    assert figures(outcome)["expired"] == len(gone) > 100
    assert {row.uniqKey for row in outcome.frames["expired"].collect()} == {row["uniqKey"] for row in gone}
    doubtful = job(spark, "loss", directory / "store", ledger=[str(directory / "sent")])
    counted = figures(doubtful)
    assert counted["expired"] + counted["unknown"] == len(gone), "some may have been delayed"
    assert counted["expired"] > 100 < counted["unknown"]
    assert not doubtful.is_clean


def test_other_formats_and_names(spark: Any, broken: Path, tmp_path: Path) -> None:
    """By place, since these have no unique keys: what is lost is known by another message's being there."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [{"t": row["topic"], "queue": row["queueId"], "at": row["queueOffset"]} for row in sent(broken)]
    path, same = tmp_path / "ledger.csv", tmp_path / "ledger.parquet"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, ["t", "queue", "at"])
        writer.writeheader()
        writer.writerows(rows)
    pq.write_table(pa.Table.from_pylist(rows), same)
    columns = ["topic=t", "queueId=queue", "queueOffset=at"]
    of_each = [sorted(map(repr, read_ledger(spark, [str(one)], None, columns).collect())) for one in (path, same)]
    assert of_each[0] == of_each[1] != []
    outcome = job(spark, "loss", broken / "store", ledger=[str(path)], column=columns)
    places = Counter((row.verdict, row.topic, row.queueId, row.queueOffset) for row in outcome.frames["findings"].collect())
    wanted: Counter[Any] = Counter()
    for one in planted(broken, *KINDS):
        verdict = {"queue-offset": "lost"}.get(one["kind"], KINDS[one["kind"]])
        if one["kind"] != "lost":
            wanted[verdict, one["topic"], one["queueId"], one["queueOffset"]] += 1
    assert sorted((places - wanted).items()) == sorted((wanted - places).items()) == []


def test_batches_and_java_names(spark: Any, clean: Path, tmp_path: Path) -> None:
    """As a Java producer's `SendResult` shows a batch: keys with commas, the offset of the first."""
    rows = [row for row in sent(clean) if (row["topic"], row["queueId"]) == ("orders", 0)]
    first = next(n for n in range(50, len(rows)) if rows[n + 2]["queueOffset"] == rows[n]["queueOffset"] + 2)
    keys = ",".join(row["uniqKey"] for row in rows[first : first + 3])
    reported = {"topic": "orders", "queueId": 0, "queueOffset": rows[first]["queueOffset"], "msgId": keys}
    path = tmp_path / "batch.jsonl"
    path.write_text(json.dumps(reported) + "\n")
    outcome = job(spark, "loss", clean / "store", ledger=[str(path)])
    assert (figures(outcome)["stored"], outcome.is_clean) == (3, True)


def test_rows_that_cannot_be_judged(spark: Any, clean: Path, tmp_path: Path) -> None:
    path = tmp_path / "short.jsonl"
    path.write_text(json.dumps(sent(clean)[0]) + '\n{"topic":"orders"}\nnothing\n')
    outcome = job(spark, "loss", clean / "store", ledger=[str(path)])
    assert not outcome.is_clean
    assert (figures(outcome)["unusable"], figures(outcome)["stored"]) == (2, 1)
    path.write_text('{"theme":"orders"}\n')
    with pytest.raises(BadOption, match="none of its 1 rows"):
        job(spark, "loss", clean / "store", ledger=[str(path)])
    path.write_text("")
    with pytest.raises(BadOption, match="it has no row"):
        job(spark, "loss", clean / "store", ledger=[str(path)])


def test_part_of_the_log_is_refused(spark: Any, clean: Path) -> None:
    with pytest.raises(BadOption, match="the whole log"):
        job(spark, "loss", clean / "store", ledger=[str(clean / "sent")], options={"startingTimestamp": "1"})


def test_one_topic(spark: Any, broken: Path) -> None:
    outcome = job(spark, "loss", broken / "store", ledger=[str(broken / "sent")], options={"topics": "orders"})
    wanted = sorted((KINDS[one["kind"]], "orders", one["uniqKey"]) for one in planted(broken, *KINDS) if one["topic"] == "orders")
    assert found(outcome) == wanted
    assert figures(outcome)["acknowledged"] == sum(row["topic"] == "orders" for row in sent(broken))


def test_two_brokers(spark: Any, clean: Path, broken: Path, tmp_path: Path) -> None:
    """What one broker lost is not found on the other one, where the ledger says which broker it was."""
    lost = planted(broken, "lost")
    rows = [{**row, "brokerName": "b"} for row in sent(broken) if row["uniqKey"] in {one["uniqKey"] for one in lost}]
    rows += [{**row, "brokerName": "a"} for row in sent(clean)[:20]]
    path = tmp_path / "both.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = {"brokerName": "a,b"}
    outcome = job(spark, "loss", clean / "store", broken / "store", ledger=[str(path)], options=options)
    assert [verdict for verdict, *_ in found(outcome)] == ["lost"] * len(lost)
    assert figures(outcome)["stored"] == 20


def test_a_store_of_java(spark: Any, tmp_path: Path) -> None:
    """Every message that its producer sent, written as the log has it; delayed and half ones at the places they had at first."""
    root = golden_store(tmp_path / "broker-a")
    rows = []
    for one in read_store(root, includeSystemTopics="true").read_all().to_pylist():
        properties = dict(one["properties"])
        real = properties.get("REAL_TOPIC", one["topic"])
        if real.startswith("kinds-") and one["uniqKey"] and "TRANSACTION_CHECK_TIMES" not in properties:
            rows.append({"topic": real, "queueId": one["queueId"], "queueOffset": one["queueOffset"], "uniqKey": one["uniqKey"]})
    path = tmp_path / "sent.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    outcome = job(spark, "loss", root, ledger=[str(path)])
    doubtful = [(row.verdict, row.foundTopic) for row in outcome.frames["findings"].collect()]
    assert doubtful == [("unknown", "RMQ_SYS_TRANS_HALF_TOPIC")], "it was rolled back, which no store tells from a lost commit"
    assert figures(outcome)["stored"] + figures(outcome)["waiting"] + 1 == len(rows) > 40
    assert figures(outcome)["dead"] > 0


@pytest.mark.parametrize("more", ["nothing", "lost", "elsewhere"])
def test_a_ledger_that_ends_before_the_log(
    spark: Any, clean: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: str
) -> None:
    """The log's last part alone is read once more, and all of it where a message is not in that part."""
    rows = [row for row in sent(clean) if row["topic"] == "clicks"]
    told, (first, later) = rows[:-40], (rows[0], rows[-40])
    place = {name: later[name] for name in ("queueId", "queueOffset")}
    wrong = {"nothing": [], "lost": [{**later, "uniqKey": "nobody"}], "elsewhere": [{**first, **place}]}[more]
    path = tmp_path / "sent.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in (*told, *wrong)))
    parts: list[Any] = []
    log = Matching._log

    def looked(self: Matching, rest: bool = False, part: tuple[int, int] | None = None) -> Any:
        parts.append(part)
        return log(self, rest, part)

    monkeypatch.setattr(Matching, "_log", looked)
    outcome = job(spark, "loss", clean / "store", ledger=[str(path)])
    assert found(outcome) == [(more, "clicks", row["uniqKey"]) for row in wrong]
    assert figures(outcome)["stored"] == len(told)
    assert figures(outcome)["notInLedger"] == 40
    at = [(row.foundQueueId, row.foundQueueOffset) for row in outcome.frames["findings"].where("verdict = 'elsewhere'").collect()]
    assert at == ([(first["queueId"], first["queueOffset"])] if more == "elsewhere" else [])
    (begin, end), again = parts[1], parts[2:]
    assert parts[0] is None
    assert again == ([None] if wrong else [])
    assert 0 < end - begin < LOG_BYTES // 4


def test_names_and_formats() -> None:
    assert [format_of([name]) for name in ("a.csv", "a.csv.gz", "s3://b/c.parquet", "a", "a.jsonl")] == [
        "csv",
        "csv",
        "parquet",
        "json",
        "json",
    ]
    assert mapping_of(["topic=t"])["topic"] == ("t",)
    assert mapping_of([])["uniqKey"] == ("uniqKey", "msgId", "messageId")
    for wrong in ("topic", "theme=t", "topic="):
        with pytest.raises(BadOption, match="OURS=THEIRS"):
            mapping_of([wrong])
