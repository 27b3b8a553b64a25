"""What `rmq spark` finds at its paths before Spark is started: no store, no message, or not the topic that was asked for."""

from __future__ import annotations

import random
import shutil
from collections.abc import Collection
from pathlib import Path

import pytest

from rmq_cli import spark_run
from rmq_spark.jobs import JOBS, Source
from rmq_spark.outcome import Outcome
from tests.cli.spark_stub import Job, Seen, look, stand_in
from tests.support.spark_words import needed
from tests.support.stores import golden_store, spoil


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> Job:
    return stand_in(monkeypatch)


def test_a_topic_that_no_store_has(job: Job, tmp_path: Path) -> None:
    store = golden_store(tmp_path / "store")
    shutil.copytree(store, tmp_path / "copy")
    for words, said in (
        ([store, "--topic", "kinds-5_5_1"], f"no topic kinds-5_5_1 in {store}: did you mean kinds-5_5_0 or kinds-4_9_8?"),
        ([store, "--topic", "KINDS-5_5_0"], f"no topic KINDS-5_5_0 in {store}: did you mean kinds-5_5_0 or kinds-4_9_8?"),
        ([store, "--topic", "x\x1b"], f"no topic x\\x1b in {store}: there are "),
        ([store, tmp_path / "copy", "--topic", "nope", "--topic", "kinds-5_5_0"], f"no topic nope in any of {store}, "),
    ):
        seen = look("skew", *words)
        assert (seen.status, seen.out) == (2, "")
        assert seen.err.startswith(f"rmq: {said}"), seen.err
        assert not job.asked, "nothing was started"


def test_a_topic_that_a_store_has_by_any_name(job: Job, tmp_path: Path) -> None:
    """By its queues, by topics.json, by a position."""
    store = golden_store(tmp_path / "store")
    for topic in ("kinds-5_5_0", "TBW102", "SCHEDULE_TOPIC_XXXX"):
        assert look("skew", store, "--topic", topic).status == 0
    (store / "config" / "consumerOffset.json").write_text('{"offsetTable":{"deleted@group":{0:5}}}')
    assert look("skew", store, "--topic", "deleted").status == 0
    job.outcome = Outcome("skew", "measured", True, messages=0)
    assert look("skew", store, "--topic", "TBW102") == (0, "skew: no messages of this choice\n", "")


def test_a_topic_that_no_log_has(job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a log alone is given nobody knows before Spark has looked through it; whatever its job says then."""
    store = golden_store(tmp_path / "store")
    log = store / "commitlog"
    shutil.copytree(log, tmp_path / "bare" / "commitlog")
    asked: list[object] = []

    def looked(_spark: object, source: Source, paths: Collection[str], topics: Collection[str]) -> frozenset[str]:
        asked.append((paths, topics))
        return frozenset({"in-the-log", "payments"})

    monkeypatch.setattr(spark_run, "topics_of_logs", looked)
    for given, place in ((log, log), (tmp_path / "bare", tmp_path / "bare")):
        seen = look("skew", given, "--topic", "in-the-lag")
        assert seen == (2, "", f"rmq: no topic in-the-lag in {place}: did you mean in-the-log?\n")
        assert not job.asked, "the job was not begun"
        assert asked.pop() == ((str(given),), ("in-the-lag",))
    assert look("skew", log, "--topic", "payments").status == 0
    assert look("skew", log, store, "--topic", "payments", "--topic", "kinds-5_5_0").status == 0
    assert asked.pop() == ((str(log),), ("payments",)), "what a store names is not looked for"
    assert look("skew", log, store, "--topic", "nope").err.startswith(f"rmq: no topic nope in any of {log}, {store}: there are ")
    asked.clear()
    assert look("skew", log).status == 0
    assert look("skew", store, "--topic", "kinds-5_5_0").status == 0
    assert not asked, "nothing to look for"


def test_what_is_no_store(job: Job, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "plain.txt").write_text("a letter\n")
    (tmp_path / "noise").write_bytes(random.Random(1).randbytes(100_000))
    (tmp_path / "named").mkdir()
    (tmp_path / "named" / f"{0:020}").write_bytes(random.Random(2).randbytes(100_000))
    for place in ("empty", "plain.txt", "noise", f"named/{0:020}"):
        seen = look("skew", tmp_path / place)
        assert (seen.status, seen.out) == (2, "")
        assert seen.err.startswith(f"rmq: {tmp_path / place}: not a RocketMQ store")
    assert look("skew", tmp_path / "noise", "--option", "pathLayout=file").status == 0, "who says that it is one is believed"
    log = golden_store(tmp_path / "store") / "commitlog" / f"{0:020}"
    spoil(log, 0, bytes(5000))
    for file in (log, log.with_name(f"{16384:020}")):
        assert look("skew", file).status == 0, "a file of a log, damaged or not"


def test_a_store_without_messages(job: Job, tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    job.outcome = Outcome("skew", "measured", True, messages=0)
    assert look("skew", tmp_path) == (0, "skew: no messages yet\n", "")


# What every job says of them


STARTED = 99
"""Status where a session was asked for."""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The jobs as they are, but for Spark; a directory with whatever may be given to them."""

    def session(*_: object) -> None:
        raise SystemExit(STARTED)

    for name, value in {"need": bool, "check_java": bool, "session": session}.items():
        monkeypatch.setattr(spark_run, name, value)
    golden_store(tmp_path / "store")
    shutil.copytree(tmp_path / "store", tmp_path / "other")
    (tmp_path / "fresh" / "commitlog").mkdir(parents=True)
    (tmp_path / "empty").mkdir()
    (tmp_path / "plain.txt").write_text("a letter\n")
    (tmp_path / "noise").write_bytes(random.Random(1).randbytes(100_000))
    (tmp_path / "sent.jsonl").write_text('{"topic": "kinds-5_5_1", "msgId": "1"}\n')
    monkeypatch.chdir(tmp_path)
    return tmp_path


def asked_of(job: str, *words: str) -> Seen:
    """`rmq spark JOB …` with what this job cannot do without."""
    return look(job, *words, *needed(JOBS[job], ledger="sent.jsonl"))


@pytest.mark.parametrize("job", JOBS)
def test_no_job_starts_spark_for_what_is_no_store(home: Path, job: str) -> None:
    for place, said in (
        ("empty", "not a RocketMQ store"),
        ("plain.txt", "not a RocketMQ store"),
        ("noise", "not a RocketMQ store"),
        ("nowhere", "no such file or directory"),
    ):
        for places in ([place, "other"], ["store", place]):  # two, as `diff` compares them
            seen = asked_of(job, *places)
            assert (seen.status, seen.out) == (2, "")
            assert seen.err.startswith(f"rmq: {home / place}: {said}"), seen.err
            assert seen.err.count("\n") == 1
    for place in ("fresh", "store"):
        assert asked_of(job, place, "other").status == STARTED
    assert not (home / "new").exists()


@pytest.mark.parametrize("job", [name for name, job in JOBS.items() if "topic" not in job.left_out])
def test_no_job_starts_spark_for_a_topic_that_no_store_has(home: Path, job: str) -> None:
    """But for `loss`: its ledger may name one of which no store has anything left."""
    words = (job, "store", "other", "--topic", "kinds-5_5_1")
    if job == "loss":
        assert asked_of(*words).status == STARTED
        return
    said = f"no topic kinds-5_5_1 in any of {home / 'store'}, {home / 'other'}: did you mean kinds-5_5_0 or kinds-4_9_8?"
    assert asked_of(*words) == (2, "", f"rmq: {said}\n")
    assert asked_of(job, "store", "other", "--topic", "kinds-5_5_0").status == STARTED


@pytest.mark.parametrize("job", [job for job in JOBS if job != "diff"])  # which compares a store with its copy
def test_no_job_starts_spark_for_two_brokers_of_one_name(home: Path, job: str) -> None:
    """Their queues would be taken for each other's."""
    seen = asked_of(job, "store", "other", "--option", "brokerName=broker-a")
    assert (seen.status, seen.out, seen.err.count("\n")) == (2, "", 1), seen
    assert f"{home / 'store'}" in seen.err
    assert "would both be broker-a" in seen.err
    assert asked_of(job, "store", "other", "--option", "brokerName=broker-a,broker-b").status == STARTED
    assert not (home / "new").exists()
