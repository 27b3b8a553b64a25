"""Bad input and stores that change while Spark reads them: right rows, or an error with file and byte; no worker ends by it."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from rmq_columns import read_store
from rmq_wire.codes import RequestCode
from tests.spark.kit import figures, outcome_of
from tests.spark.mutants import OUTCOME, mutant, read_mutants
from tests.support.logs import FILE_BYTES, SOME, Log, forged, write_log
from tests.support.process import until
from tests.support.stores import golden_of, golden_store
from tests.support.subject import start_subject
from tests.support.talk import Talk

MUTANTS, MUTANTS_NIGHTLY, TASKS = 48, 2152, 4
"""Each is read fifteen times: a third of a second of CPU.  By day they show that workers survive them; what reads them is held to
damage without Spark, too (`tests/columns/test_damage.py`)."""
STORES = 60
"""Mutants that are read by Spark itself, a task each."""
PLACES = "topic,queueId,queueOffset,physicalOffset,bodySize"
QUEUES = 4
AT_LEAST, LOOKS = 50, 3
"""Messages between two looks at a running broker's directory, and how many looks."""
ROLLING = {"mappedFileSizeCommitLog": "131072", "mappedFileSizeConsumeQueue": "2000", "maxMessageSize": "65536"}
"""A file of the log ends after some 250 messages, one of a queue after 100."""
PACE_S = 0.002
"""Between two messages."""


def load(spark: Any, root: Path | list[str], **options: str) -> Any:
    given = root if isinstance(root, list) else str(root)
    return spark.read.format("rocketmq_store").options(**options).load(given)


def places(frame: Any) -> list[int]:
    return sorted(row.physicalOffset for row in frame.select("physicalOffset").collect())


def said(frame: Any) -> str:
    """What the exception of a query says to the user."""
    with pytest.raises(Exception) as raised:
        frame.collect()
    assert type(raised.value).__module__.startswith("pyspark.")
    return str(raised.value)


# --- bytes that are no message


@pytest.mark.parametrize(("first", "count"), [(0, MUTANTS), pytest.param(MUTANTS, MUTANTS_NIGHTLY, marks=pytest.mark.nightly)])
def test_many_mutants_in_few_workers(spark: Any, tmp_path: Path, first: int, count: int) -> None:
    """Each in all modes and tables: no exception but one that says where, rows of the modes agree."""
    from tests.spark.cluster_probe import called

    store = golden_of("mix", tmp_path / "broker-a")
    share = count // TASKS
    numbers = [range(begin, begin + share) for begin in range(first, first + count, share)]
    rows = called(spark, partial(read_mutants, str(store)), numbers, OUTCOME).collect()
    assert sorted(row.number for row in rows) == list(range(first, first + count))
    assert [row for row in rows if row.wrong] == []
    assert sum(row.refused for row in rows) > count // 4


def test_rows_of_damaged_stores_reach_spark(spark: Any, tmp_path: Path) -> None:
    store = golden_of("mix", tmp_path / "broker-a")
    roots = [str(mutant(store, tmp_path / f"mutant-{number}", number)) for number in range(STORES)]
    options = {"mode": "PERMISSIVE", "columns": f"{PLACES},brokerName,_corrupt", "verifyCrc": "true"}
    wanted = read_store(roots, **options).read_all().to_pylist()
    found = load(spark, roots, **options).collect()
    assert sorted([repr(list(row)) for row in found]) == sorted(repr(list(row.values())) for row in wanted)
    assert len([row for row in found if row._corrupt]) > STORES // 4


@pytest.mark.parametrize("length", [0, -1, 10, 1 << 30, (1 << 31) - 1])
def test_a_length_that_cannot_be(spark: Any, tmp_path: Path, length: int) -> None:
    log = write_log(tmp_path / "broker-a", SOME)
    at = log.places[4]
    raw = bytearray(log.files[0].read_bytes())
    raw[at : at + 4] = length.to_bytes(4, "big", signed=True)
    log.files[0].write_bytes(raw)
    for split_bytes in ("700", "1m"):
        chosen = {"splitBytes": split_bytes, "columns": "physicalOffset"}
        assert f"Malformed: {log.files[0]}, byte {at}: " in said(load(spark, log.root, **chosen))
        left = [place for place in log.places if place != at]
        assert places(load(spark, log.root, mode="DROPMALFORMED", **chosen)) == left


@pytest.mark.parametrize("strategy", ["magic", "auto", "consumequeue", "file"])
def test_units_across_blocks_and_splits(spark: Any, tmp_path: Path, strategy: str) -> None:
    log = write_log(tmp_path / "broker-a", SOME, v6=True)
    frame = load(spark, log.root, blockBytes="64", splitBytes="900", splitStrategy=strategy, columns="physicalOffset,uniqKey")
    assert places(frame) == log.places
    assert sorted(int(row.uniqKey) for row in frame.collect()) == list(range(len(SOME)))


def test_a_body_that_holds_messages(spark: Any, tmp_path: Path) -> None:
    """Cut by magic words, a split begins inside it: that is found out, and said, by the split before or by this one, whichever
    is first.  Cut by the queue it never does."""
    log = write_log(tmp_path / "broker-a", [forged(20)] * 3, file_bytes=1 << 14)
    chosen = {"splitBytes": "800", "columns": "physicalOffset"}
    reported = said(load(spark, log.root, splitStrategy="magic", **chosen))
    before, inside = r"units lead here, over the split's end at \d+", r"\d+ bytes are no message"
    file = re.escape(str(log.files[0]))
    assert re.search(rf"SeamMismatch: {file}, byte \d+: {before}|Malformed: {file}, byte \d+: {inside}", reported), reported
    for strategy in ("file", "consumequeue"):
        assert places(load(spark, log.root, splitStrategy=strategy, **chosen)) == log.places


# --- files that change


def planned(spark: Any, log: Log, **options: str) -> Any:
    """A DataFrame whose splits stand already: its first action has planned it."""
    columns = "physicalOffset,_corrupt" if options.get("mode") == "PERMISSIVE" else "physicalOffset"
    frame = load(spark, log.root, splitBytes=str(FILE_BYTES), columns=columns, **options)
    assert frame.count() == len(log.places)
    return frame


def test_a_log_file_deleted_while_it_is_read(spark: Any, tmp_path: Path) -> None:
    log = write_log(tmp_path / "broker-a", SOME)
    frames = [planned(spark, log), planned(spark, log, mode="PERMISSIVE"), planned(spark, log, mode="DROPMALFORMED")]
    gone = log.files[1]
    gone.unlink()
    left = [place for place in log.places if place // FILE_BYTES != 1]
    assert f"FileGone: {gone}: deleted while it was read" in said(frames[0])
    [bad] = frames[1].where("_corrupt is not null").collect()
    assert (bad.physicalOffset, bad._corrupt.startswith(f"{gone}, byte 0: ")) == (FILE_BYTES, True)
    assert places(frames[1].where("_corrupt is null")) == places(frames[2]) == left


@pytest.mark.parametrize(("table", "pattern"), [("consumequeue", "0*"), ("index", "2*")])
def test_a_queue_or_index_deleted_while_it_is_read(spark: Any, tmp_path: Path, table: str, pattern: str) -> None:
    root = golden_store(tmp_path / "broker-a")
    modes = {mode: load(spark, root, table=table, mode=mode) for mode in ("FAILFAST", "PERMISSIVE", "DROPMALFORMED")}
    before = {mode: frame.count() for mode, frame in modes.items()}
    gone = next(path for path in sorted((root / table).rglob(pattern)) if path.is_file())
    gone.unlink()
    assert f"FileGone: {gone}: deleted since the splits were planned" in said(modes["FAILFAST"])
    assert modes["DROPMALFORMED"].count() < before["DROPMALFORMED"]
    [bad] = modes["PERMISSIVE"].where("_corrupt is not null").collect()
    assert bad._corrupt == f"{gone}: deleted since the splits were planned"


def test_a_log_that_grows_while_it_is_read(spark: Any, tmp_path: Path) -> None:
    log = write_log(tmp_path / "broker-a", SOME[:9])
    frame = planned(spark, log)
    grown = write_log(log.root, SOME)
    found = places(frame)
    assert found == grown.places[: len(found)]
    assert len(found) >= len(log.places)
    assert places(load(spark, log.root, columns="physicalOffset")) == grown.places


class Sender(threading.Thread):
    """Sends numbers to a broker, one after the other, until it is stopped."""

    def __init__(self, address: str) -> None:
        super().__init__(daemon=True)
        self.address, self.sent, self.pace = address, 0, threading.Event()

    def has_sent(self, count: int) -> bool:
        """Whether so many are acknowledged."""
        return self.sent >= count

    def run(self) -> None:
        with Talk(self.address) as line:
            while not self.pace.is_set():
                fields = {
                    "a": "PID_grow",
                    "b": "grow",
                    "c": "TBW102",
                    "d": QUEUES,
                    "e": self.sent % QUEUES,
                    "f": 0,
                    "g": 1,
                    "h": 0,
                    "i": f"UNIQ_KEY\1{self.sent:032X}\2",
                    "j": 0,
                    "k": False,
                    "m": False,
                }
                line.good(RequestCode.SEND_MESSAGE_V2, fields, str(self.sent).encode().ljust(self.sent % 700))
                self.sent += 1
                self.pace.wait(PACE_S)  # a log that outgrows its readers would only take long


def log_files(store: Path) -> int:
    """How many there are."""
    return len(list((store / "commitlog").iterdir()))


def has_rolled(store: Path, before: int) -> bool:
    """Whether there are more now."""
    return log_files(store) > before


def hold_while_it_runs(
    directory: Path, kind: str, read: Callable[[Path], list[Any]], audit: Callable[[Path], tuple[int, list[Any]]]
) -> None:
    """Whatever is read while messages come is all of them up to some point, and no fewer than had been acknowledged; nor is
    anything found wrong with it, however the files grow and roll beneath the look.

    read: rows of messages; audit: how many messages, and what is wrong.
    """
    subject = start_subject(kind, directory, properties=ROLLING)
    sender = Sender(subject.address)
    try:
        sender.start()
        for _ in range(LOOKS):
            before = log_files(subject.store) if subject.store.is_dir() else 0
            until(partial(sender.has_sent, sender.sent + AT_LEAST), "messages", alive=sender.is_alive)
            acknowledged = sender.sent
            rows = [row for row in read(subject.store) if row[0] == "grow"]
            numbers = sorted(int(body) for _, _, _, body in rows)
            assert numbers == list(range(len(numbers)))
            assert acknowledged <= len(numbers) <= sender.sent + 1
            for queue in range(QUEUES):
                offsets = sorted((offset, int(body)) for _, queue_id, offset, body in rows if queue_id == queue)
                assert offsets == [(place, place * QUEUES + queue) for place in range(len(offsets))]
            acknowledged = sender.sent
            count, wrong = audit(subject.store)
            assert wrong == []
            assert count >= acknowledged
            until(partial(has_rolled, subject.store, before), "another file", alive=sender.is_alive)
        assert sender.is_alive()
    finally:
        sender.pace.set()
        sender.join()
        subject.end()


def through_spark(spark: Any, store: Path) -> list[Any]:
    frame = load(spark, store, columns="topic,queueId,queueOffset,body", splitBytes="128k", verifyCrc="true")
    return [tuple(row) for row in frame.collect()]


def alone(store: Path) -> list[Any]:
    rows = read_store(store, columns="topic,queueId,queueOffset,body", verifyCrc=True).read_all().to_pylist()
    return [tuple(row.values()) for row in rows]


def audit_of(spark: Any, store: Path) -> tuple[int, list[Any]]:
    """With Spark."""
    outcome = outcome_of(spark, "audit", store, splitBytes="128k")
    return figures(outcome)["messages"], [row.asDict() for row in outcome.frames["findings"].collect()]


def audit_alone(store: Path) -> tuple[int, list[Any]]:
    """Without."""
    from rmq_columns import parse_options
    from rmq_columns.checks.audit import audit
    from rmq_columns.checks.scope import Scope

    [found] = audit(parse_options({"path": str(store)}), Scope(), lambda what, work, pieces: [work(one) for one in pieces])
    return sum(one.units - one.filler_units for one in found.reports), list(found.all_findings())


def test_a_running_broker(spark: Any, tmp_path: Path) -> None:
    hold_while_it_runs(tmp_path, "ours", lambda store: through_spark(spark, store), lambda store: audit_of(spark, store))


@pytest.mark.java
def test_a_running_java_broker(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """With Spark where it is installed."""
    if find_spec("pyspark") is None:
        hold_while_it_runs(tmp_path, "java", alone, audit_alone)
        return
    spark = request.getfixturevalue("spark")
    hold_while_it_runs(tmp_path, "java", lambda store: through_spark(spark, store), lambda store: audit_of(spark, store))
