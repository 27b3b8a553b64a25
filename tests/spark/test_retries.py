"""Job `retries`: chains against plain Python's, of the generator and of Java."""

from __future__ import annotations

import shutil
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from planted_stores.generate import Made, Wanted, generate
from planted_stores.plan import Sizes
from rmq_columns import read_store
from rmq_spark.jobs import Source
from rmq_spark.jobs import retries as job
from rmq_wire.fastjson import dumps_pretty, loads
from tests.spark.kit import outcome_of
from tests.support.stores import golden_of

SIZES = Sizes(1 << 20, 4000, 100, 400)
STORE_TIME_AT = 56
"""In a message of version 1 with a born host of IPv4."""
COLUMNS = "topic,queueId,queueOffset,physicalOffset,uniqKey,reconsumeTimes,storeTimestamp,properties"


def made(tmp_path: Path, **faults: int) -> Made:
    return generate(tmp_path / "made", Wanted(3 << 20, 300, faults=faults, sizes=SIZES, with_index=False, with_sent=False))


def plainly(store: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """(group, ORIGIN_MESSAGE_ID) -> what the job should say."""
    rows = read_store(str(store), columns=COLUMNS, includeSystemTopics="true").read_all().to_pylist()
    log = {row["physicalOffset"]: row for row in rows}
    offsets = {
        (row["group"], row["topic"], row["queueId"]): row["offset"]
        for row in read_store(str(store), table="consumerOffsets").read_all().to_pylist()
    }
    copies: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        names = dict(row["properties"])
        waits = row["topic"] in ("SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer")
        topic = names["REAL_TOPIC"] if waits else row["topic"]
        if topic.startswith(("%RETRY%", "%DLQ%")):
            copies[topic.split("%")[2], names["ORIGIN_MESSAGE_ID"]].append(row | {"waits": waits})
    found = {}
    for (group, origin), chain in copies.items():
        delivered = [one for one in chain if one["topic"].startswith("%RETRY%")]
        first = log.get(int(origin[-16:], 16))
        dead = [one for one in chain if one["topic"].startswith("%DLQ%")]
        state = "unknown"
        if dead:
            state = "dead"
        elif max(one["reconsumeTimes"] for one in chain) > max((one["reconsumeTimes"] for one in delivered), default=-1):
            state = "waiting"
        else:
            last = max(delivered, key=lambda one: one["reconsumeTimes"])
            position = offsets.get((group, last["topic"], last["queueId"]))
            if position is not None:
                state = "consumed" if position > last["queueOffset"] else "unread"
        times = sorted((one["reconsumeTimes"], one["storeTimestamp"]) for one in delivered)
        found[group, origin] = {
            "state": state,
            "retryTimes": max(one["reconsumeTimes"] for one in chain),
            "attempts": times,
            "originInLog": first is not None,
            "originTopic": first["topic"] if first else dict(chain[0]["properties"])["RETRY_TOPIC"],
            "originQueueId": first and first["queueId"],
            "originQueueOffset": first and first["queueOffset"],
        }
    return found


def by_chain(frame: Any) -> dict[tuple[str, str], dict[str, Any]]:
    rows = [row.asDict() for row in frame.collect()]
    found = {(row["group"], row["originMessageId"]): row for row in rows}
    assert len(found) == len(rows)
    return found


def assert_agrees(frame: Any, store: Path) -> set[str]:
    """The states that there are."""
    found, expected = by_chain(frame), plainly(store)
    assert expected
    assert found.keys() == expected.keys()
    for key, values in expected.items():
        row = found[key]
        times = [(one["retryTimes"], one["storeTimestamp"].timestamp()) for one in row["attempts"]]
        assert times == [(number, when.timestamp()) for number, when in values.pop("attempts")], key
        assert {name: row[name] for name in values} == values, key
    return {row["state"] for row in found.values()}


def test_generated(spark: Any, tmp_path: Path) -> None:
    store = made(tmp_path).store
    assert assert_agrees(job.retries(spark, store), store) >= {"dead"}


@pytest.mark.parametrize(("kind", "states"), [("trace", {"dead", "consumed"}), ("mix", {"unknown"})])
def test_java_store(spark: Any, tmp_path: Path, kind: str, states: set[str]) -> None:
    store = golden_of(kind, tmp_path)
    assert assert_agrees(job.retries(spark, store), store) >= states


def test_waiting_and_unread(spark: Any, tmp_path: Path) -> None:
    store = golden_of("trace", tmp_path)
    path = store / "config" / "consumerOffset.json"
    value = loads(path.read_bytes())
    value["offsetTable"]["%RETRY%GID_traced@GID_traced"] = {0: 4}
    path.write_bytes(dumps_pretty(value))
    assert assert_agrees(job.retries(spark, store), store) == {"dead", "consumed", "unread"}
    rows = read_store(str(store), columns=COLUMNS, topics="%RETRY%GID_traced").read_all().to_pylist()
    log = sorted((store / "commitlog").iterdir())[-1]
    cut = rows[-2]["physicalOffset"] - int(log.name)
    assert cut > 0
    log.write_bytes(log.read_bytes()[:cut].ljust(log.stat().st_size, b"\0"))
    states = Counter(row["state"] for row in job.retries(spark, store).collect())
    assert states["unknown"], "the broker has delivered it, behind the end of this log"
    assert not states["waiting"]
    path = store / "config" / "delayOffset.json"
    path.write_bytes(dumps_pretty({"offsetTable": {}}))
    assert assert_agrees(job.retries(spark, store), store) == {"consumed", "unread", "waiting"}


def test_never_delivered(spark: Any, tmp_path: Path) -> None:
    """The broker has passed it, its copy is in no topic, and the log goes on for longer than a minute."""
    store = golden_of("trace", tmp_path)
    rows = read_store(str(store), columns=COLUMNS, includeSystemTopics="true").read_all().to_pylist()
    last = [row for row in rows if row["topic"] == "%RETRY%GID_traced"][-1]
    log = sorted((store / "commitlog").iterdir())[-1]
    data = bytearray(log.read_bytes())
    at = last["physicalOffset"] - int(log.name)
    data[at + 4 : at + 8] = bytes(4)
    younger = rows[-1]
    assert younger["physicalOffset"] > last["physicalOffset"]
    at = younger["physicalOffset"] - int(log.name) + STORE_TIME_AT
    stored = round(younger["storeTimestamp"].timestamp() * 1000)
    later = stored + 10 * 60_000
    assert int.from_bytes(data[at : at + 8], "big") == stored
    data[at : at + 8] = later.to_bytes(8, "big")
    log.write_bytes(data)
    outcome = outcome_of(spark, "retries", store)
    figures = outcome.as_json()["figures"]
    assert (figures["undelivered"], figures["waiting"]) == (1, 0)
    assert not outcome.is_clean
    assert "1 never delivered" in outcome.verdict


def test_origin_that_is_gone(spark: Any, tmp_path: Path) -> None:
    store = golden_of("trace", tmp_path)
    sorted((store / "commitlog").iterdir())[0].unlink()
    found = job.retries(spark, store)
    assert_agrees(found, store)
    rows = found.collect()
    assert {row["originInLog"] for row in rows} == {False}
    assert {row["originTopic"] for row in job.copies(spark, Source((str(store),))).collect()} == {"traced"}


def test_topics_are_the_origins(spark: Any, tmp_path: Path) -> None:
    store = golden_of("trace", tmp_path)
    every = job.retries(spark, store).count()
    assert every
    assert job.retries(spark, store, topics="traced").count() == every
    assert job.retries(spark, store, topics="other").count() == 0


def test_without_configuration(spark: Any, tmp_path: Path) -> None:
    store = golden_of("trace", tmp_path)
    whole = by_chain(job.retries(spark, store))
    alone = by_chain(job.retries(spark, store / "commitlog"))
    assert alone.keys() == whole.keys()
    assert {row["state"] for row in alone.values()} == {"dead", "unknown"}


def test_one_broker_without_configuration(spark: Any, tmp_path: Path) -> None:
    """What another broker's configuration names does not hide its retry topics."""
    bare, reported = golden_of("trace", tmp_path / "bare"), made(tmp_path).store
    shutil.rmtree(bare / "config")
    shutil.rmtree(bare / "consumequeue")
    expected = {key: (row["state"], len(row["attempts"])) for key, row in by_chain(job.retries(spark, bare)).items()}
    assert {state for state, _ in expected.values()} == {"dead", "unknown"}
    names = {"brokerName": "bare,reported"}
    rows = by_chain(job.retries(spark, [bare, reported], **names).where("brokerName = 'bare'"))
    assert {key: (row["state"], len(row["attempts"])) for key, row in rows.items()} == expected
    assert job.retries(spark, [bare, reported], **names).where("brokerName = 'reported'").count() == len(plainly(reported))


def test_dead_letters_are_findings_only_when_asked(spark: Any, tmp_path: Path) -> None:
    store = made(tmp_path, **{"corrupt-body": 1, "queue-missing": 1}).store
    expected = [row for row in plainly(store).values() if row["state"] == "dead"]
    outcome = outcome_of(spark, "retries", store)
    assert outcome.is_clean
    assert not any(table.is_finding for table in outcome.tables)
    assert outcome.as_json()["figures"]["dead"] == len(expected)
    strict = outcome_of(spark, "retries", store, fail_on_dead=True)
    assert not strict.is_clean
    [table] = [one for one in strict.tables if one.is_finding]
    assert table.total == len(expected)


def test_nothing_retried(spark: Any, tmp_path: Path) -> None:
    store = golden_of("batch", tmp_path)
    outcome = outcome_of(spark, "retries", store, fail_on_dead=True)
    assert outcome.is_clean == (not any(row["state"] == "dead" for row in plainly(store).values()))


@pytest.mark.parametrize("separator", ["_", "+"])
def test_retry_topics_of_pop(spark: Any, tmp_path: Path, separator: str) -> None:
    """A copy says neither its topic nor where it was; the names of its topic and of its group do, in both versions."""
    store = golden_of("pop", tmp_path / "store")
    if separator == "+":
        rename(store, "GID_pop_popped", "GID_pop+popped")
    rows = [row.asDict() for row in job.retries(spark, store).collect()]
    assert [(row["group"], row["originTopic"], row["state"]) for row in rows] == [("GID_pop", "popped", "consumed")]


def rename(store: Path, old: str, new: str) -> None:
    """A topic, wherever it is named."""
    for path in sorted(store.rglob("*"), reverse=True):
        if path.is_file():
            data = path.read_bytes()
            if old.encode() in data:
                path.write_bytes(data.replace(old.encode(), new.encode()))
        if old in path.name:
            path.rename(path.with_name(path.name.replace(old, new)))
