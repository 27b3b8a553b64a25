"""Breaks of order: those that were planted, and those that are made here by hand; none in a clean store, nor in one of Java."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rmq_columns import BadOption, read_store
from rmq_spark.jobs import Source
from rmq_spark.known import topics_of_logs
from tests.spark.kit import figures, job, made, planted
from tests.support.stores import golden_of, golden_store

COUNT = 4
OTHERS = {"duplicate": 2, "lost": 2, "late": 2, "gap": 2, "queue-missing": 2}


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("order") / "faulty", 3 << 20, reorder=COUNT, **OTHERS)


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("order") / "clean", 3 << 20)


def rows(outcome: Any) -> list[Any]:
    found: list[Any] = outcome.frames["breaks"].collect()
    return found


def test_planted(spark: Any, broken: Path) -> None:
    """The message that came too early is the one before the break."""
    outcome = job(spark, "order", broken / "store", sequence="property:sequence")
    wanted = planted(broken, "reorder")
    assert len(wanted) == COUNT
    assert not outcome.is_clean
    assert {row.kind for row in rows(outcome)} == {"sequence"}
    assert sorted(
        (row.topic, row.previous.queueId, row.previous.queueOffset, row.physicalOffset) for row in rows(outcome)
    ) == sorted((one["topic"], one["queueId"], one["queueOffset"], int(one["what"].split()[-1])) for one in wanted)
    assert all(f"of sharding key {row.key}," in str([one["what"] for one in wanted]) for row in rows(outcome))
    assert all(row.sequence < row.previous.sequence for row in rows(outcome))
    assert figures(outcome)["withoutSequence"] == 0
    assert [table.total for table in outcome.tables if table.is_finding] == [COUNT]


def test_clean(spark: Any, clean: Path) -> None:
    outcome = job(spark, "order", clean / "store", sequence="property:sequence", options={"includeSystemTopics": "true"})
    assert outcome.is_clean, outcome.verdict
    assert rows(outcome) == []
    keyed = read_store(clean / "store", topics="order-steps", columns="topic").read_all().num_rows
    assert figures(outcome)["keyedMessages"] == keyed > 1000


def test_nothing_to_look_at(spark: Any, clean: Path, tmp_path: Path) -> None:
    """A topic that nothing has is not clean."""
    (tmp_path / "commitlog").mkdir()
    assert job(spark, "order", tmp_path).messages == 0
    assert job(spark, "order", clean / "store" / "commitlog", options={"topics": "nope"}).messages == 0
    assert job(spark, "order", clean / "store" / "commitlog", options={"topics": "payments"}).messages is None


def test_topics_of_a_log_alone(spark: Any, clean: Path) -> None:
    """Those of messages that wait for their topic, or are a retry of one, too."""
    log = str(clean / "store" / "commitlog")
    source = Source((log,), {"topics": "nope", "startingTimestamp": "2999-01-01"})
    assert topics_of_logs(spark, source, (log,), ("payments",)) == {"payments"}
    messages = read_store(log, columns="topic,properties", includeSystemTopics="true").read_all().to_pylist()
    wanted = {one["topic"] for one in messages}
    wanted |= {value for one in messages for name, value in one["properties"] if name in ("REAL_TOPIC", "RETRY_TOPIC")}
    assert topics_of_logs(spark, source, (log,), ("payments", "nope")) == wanted >= {"payments", "order-steps"}


def test_numbers_of_a_ledger(spark: Any, broken: Path, tmp_path: Path) -> None:
    """The number of each send as its producer counted: the same breaks."""
    messages = read_store(broken / "store", topics="order-steps", columns="topic,uniqKey,properties").read_all().to_pylist()
    path = tmp_path / "numbers.jsonl"
    lines = [{"topic": one["topic"], "msgId": one["uniqKey"], "n": int(dict(one["properties"])["sequence"])} for one in messages]
    path.write_text("".join(json.dumps(one) + "\n" for one in lines[5:]))
    outcome = job(spark, "order", broken / "store", sequence="ledger:n", ledger=[str(path)])
    wanted = sorted(int(one["what"].split()[-1]) for one in planted(broken, "reorder"))
    assert sorted(row.physicalOffset for row in rows(outcome)) == wanted
    assert figures(outcome)["withoutSequence"] == 5


def test_moves_and_other_keys(spark: Any, clean: Path) -> None:
    """By something that is no sharding key, messages are all over the queues."""
    outcome = job(spark, "order", clean / "store", by="tags", options={"topics": "payments"})
    messages = read_store(clean / "store", topics="payments", columns="tags,queueId,physicalOffset").read_all().to_pylist()
    last: dict[str, int] = {}
    wanted = []
    for one in messages:
        if last.setdefault(one["tags"], one["queueId"]) != one["queueId"]:
            wanted.append(one["physicalOffset"])
        last[one["tags"]] = one["queueId"]
    assert sorted(row.physicalOffset for row in rows(outcome)) == wanted
    assert {row.kind for row in rows(outcome)} == {"moved"}
    assert not outcome.is_clean
    assert job(spark, "order", clean / "store", by="tags", allow_moves=True, options={"topics": "payments"}).is_clean


def patched(directory: Path, chosen: list[dict[str, Any]], field: str, value: int) -> None:
    """Overwrite a number of the unit of one message."""
    from rmq_wire.layout.flat import flat
    from rmq_wire.layout.message import HEAD

    at = flat(HEAD).at["queue_offset"] if field == "queue_offset" else 56
    for one in chosen:
        file = directory / "store" / "commitlog" / f"{one['physicalOffset'] // (2 << 20) * (2 << 20):020}"
        data = bytearray(file.read_bytes())
        place = one["physicalOffset"] % (2 << 20) + at
        data[place : place + 8] = value.to_bytes(8, "big")
        file.write_bytes(data)


@pytest.mark.parametrize("split", ["1g", "64k"])
def test_queues_and_clock(spark: Any, tmp_path: Path, split: str) -> None:
    """In the middle of a split, and where one follows another."""
    directory = made(tmp_path / "store-a", 1 << 20)
    columns = "topic,queueId,queueOffset,physicalOffset,storeTimestamp,sysFlag"
    messages = read_store(directory / "store", columns=columns, includeSystemTopics="true").read_all().to_pylist()
    queue = [one for one in messages if (one["topic"], one["queueId"]) == ("orders", 0)]
    patched(directory, [queue[40]], "queue_offset", queue[39]["queueOffset"])
    late = next(n for n in range(900, len(messages)) if not messages[n]["sysFlag"])
    patched(directory, [messages[late]], "store_timestamp", round(messages[0]["storeTimestamp"].timestamp() * 1000))
    options = {"includeSystemTopics": "true", "splitBytes": split}
    outcome = job(spark, "order", directory / "store", options=options)
    places = {row.kind: (row.physicalOffset, row.previous.physicalOffset) for row in rows(outcome)}
    assert places == {
        "queueOrder": (queue[40]["physicalOffset"], queue[39]["physicalOffset"]),
        "clock": (messages[late]["physicalOffset"], messages[late - 1]["physicalOffset"]),
    }
    assert len(rows(outcome)) == 2
    kinds = {row.kind for row in rows(job(spark, "order", directory / "store", clock_tolerance=10_000, options=options))}
    assert kinds == {"queueOrder"}


def test_a_time_that_no_calendar_has(spark: Any, tmp_path: Path) -> None:
    directory = made(tmp_path / "far", 1 << 20)
    columns = "topic,physicalOffset,sysFlag"
    messages = read_store(directory / "store", columns=columns).read_all().to_pylist()
    one = next(one for one in messages[100:] if not one["sysFlag"])
    patched(directory, [one], "store_timestamp", 1 << 62)
    outcome = job(spark, "order", directory / "store")
    assert [table.total for table in outcome.tables if table.is_finding] == [1]
    assert not outcome.is_clean


def test_a_topic_that_was_made_again(spark: Any, tmp_path: Path) -> None:
    """Its queue counts from 0 once more: that is reported once, and keys that go on are in order."""
    directory = made(tmp_path / "again", 1 << 20)
    columns = "topic,queueId,queueOffset,physicalOffset"
    messages = read_store(directory / "store", columns=columns, topics="order-steps", queueIds="1").read_all().to_pylist()
    begin = len(messages) // 2
    for number, one in enumerate(messages[begin:]):
        patched(directory, [one], "queue_offset", number)
    outcome = job(spark, "order", directory / "store", sequence="property:sequence")
    assert [(row.kind, row.physicalOffset) for row in rows(outcome)] == [("queueOrder", messages[begin]["physicalOffset"])]
    assert any(note.startswith("1 queues begin again at 0") for note in outcome.notes)


def test_stores_of_java(spark: Any, tmp_path: Path) -> None:
    roots = [golden_store(tmp_path / "plain"), golden_of("mix", tmp_path / "mix")]
    outcome = job(spark, "order", *roots, sequence="bornTimestamp", options={"includeSystemTopics": "true"})
    assert outcome.is_clean, (outcome.verdict, rows(outcome))
    assert figures(outcome)["keyedMessages"] > 0


def test_damage_is_reported(spark: Any, tmp_path: Path) -> None:
    directory = made(tmp_path / "damaged", 1 << 20, corrupt_size=2)
    outcome = job(spark, "order", directory / "store", sequence="property:sequence")
    assert outcome.is_clean
    assert any("could not be read" in note for note in outcome.notes)


def test_wrong_options(spark: Any, clean: Path) -> None:
    with pytest.raises(BadOption, match="needs --ledger"):
        job(spark, "order", clean / "store", sequence="ledger:n")
    with pytest.raises(BadOption, match="no nothing; there are"):
        job(spark, "order", clean / "store", by="nothing")
