"""Every kind of planted fault is found by the job that must find it, in the rows that the ledger names; and nothing else is.

One store has all kinds of faults in it, another of the same size has none.  Each judge below says for one job which kinds are its
own, what rows it must have for each of them, and how they are read from its outcome: the two sets must be equal, so that a fault
which is not seen fails the test, and so does a row about one that is another job's or that was never planted.

`RMQ_PLANTED_BYTES` asks for larger stores (`make nightly`: 1 GB).
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from rmq_columns.generate import Wanted, generate
from rmq_columns.generate_faults import GAP, KINDS
from rmq_columns.generate_plan import Sizes
from rmq_spark.jobs import JOBS, Source, module_of
from rmq_spark.outcome import Outcome
from tests.support.planted_kinds import PERHAPS, SEEN_AS

LOG_BYTES: Final = int(os.environ.get("RMQ_PLANTED_BYTES", str(13 << 20)))
"""Enough that timed messages are delivered: these come twenty rounds of a thousand messages later."""
BODY_BYTES: Final = 128
SIZES: Final = Sizes(log_file_bytes=max(4 << 20, LOG_BYTES // 8), queue_file_bytes=20_000, hash_slots=5000, index_entries=50_000)
EACH: Final = 2
UNIT_BYTES_MAX: Final = 4000
"""A generated unit is shorter."""
QUEUE_UNIT_BYTES: Final = 20
NO_MESSAGE: Final = ("corrupt-size", "corrupt-magic")
"""Their bytes are no message any more."""

Found = set[tuple[Any, ...]]


class Fault(NamedTuple):
    """A row of the ledger."""

    kind: str
    topic: str
    queueId: int
    queueOffset: int
    physicalOffset: int
    file: str
    fileOffset: int
    uniqKey: str
    what: str


@dataclass(frozen=True)
class Stores:
    """Directories with store/ and sent/."""

    clean: Path
    faulty: Path
    scratch: Path

    def faults(self) -> list[Fault]:
        """The ledger."""
        ledger = self.faulty / "faults.jsonl"
        return [Fault(**json.loads(line)) for line in ledger.read_text().splitlines()]


@dataclass(frozen=True)
class Judge:
    """One way to run one job.  wanted: fault -> the rows that must be found; found: all rows that say something is wrong."""

    job: str
    wanted: dict[str, Callable[[Fault], tuple[Any, ...]]]
    found: Callable[[Outcome, list[Fault]], Found]
    given: Callable[[Path, Path], dict[str, Any]] = field(default=lambda _directory, _scratch: {})
    name: str = ""

    def rows(self, faults: Iterable[Fault]) -> Found:
        return {self.wanted[fault.kind](fault) for fault in faults if fault.kind in self.wanted}


def run(spark: Any, judge: Judge, directory: Path, scratch: Path) -> Outcome:
    module = module_of(judge.job)
    values = {one.name: one.default for one in module.PARAMETERS} | judge.given(directory, scratch)
    source = Source((str(directory / "store"),), {"splitBytes": str(LOG_BYTES // 12)})
    outcome = module.run(spark, source, values, lambda *_: None)
    assert isinstance(outcome, Outcome)
    return outcome


# --- what each job must say


def place(fault: Fault) -> tuple[Any, ...]:
    return (fault.topic, fault.physicalOffset)


def queue(fault: Fault) -> tuple[Any, ...]:
    return (fault.topic, fault.queueId)


def sent(verdict: str) -> Callable[[Fault], tuple[Any, ...]]:
    return lambda fault: (verdict, fault.topic, fault.queueId, fault.queueOffset, fault.uniqKey)


def of_loss(outcome: Outcome, _: list[Fault]) -> Found:
    found: Found = {
        (row.verdict, row.topic, row.queueId, row.queueOffset, row.uniqKey) for row in outcome.frames["findings"].collect()
    }
    return found | {("ahead", row.topic, row.queueId) for row in outcome.frames["positionsAhead"].collect()}


def of_duplicates(outcome: Outcome, _: list[Fault]) -> Found:
    return {(row.topic, row.places[-1].physicalOffset) for row in outcome.frames["duplicates"].collect()}


def of_lag(outcome: Outcome, _: list[Fault]) -> Found:
    return {(row.topic, row.queueId, row.state) for row in outcome.frames["lag"].where("isFinding").collect()}


def of_latency(outcome: Outcome, _: list[Fault]) -> Found:
    return {(row.topic, row.physicalOffset) for row in outcome.frames["worst"].collect() if not outcome.is_clean}


def of_order(outcome: Outcome, _: list[Fault]) -> Found:
    return {(row.kind, row.previous.physicalOffset) for row in outcome.frames["breaks"].collect()}


def of_rebuilt(outcome: Outcome, _: list[Fault]) -> Found:
    from rmq_columns.queue_build_compare import SOUND

    return {(row.topic, row.queueId) for row in outcome.frames["comparison"].collect() if row.outcome not in SOUND}




def of_audit(outcome: Outcome, faults: list[Fault]) -> Found:
    """(kind, its place, code) of every finding; of one that is about no planted fault, what it says itself."""
    found: Found = set()
    for row in outcome.frames["findings"].collect():
        about = [fault for fault in faults if row.code in allowed(fault) and is_about(row, fault)]
        for fault in about:
            if row.code in SEEN_AS[fault.kind]:
                found.add((fault.kind, fault.physicalOffset, row.code))
        if not about:
            found.add(("not planted", row.file, row.byte, row.code, row.detail))
    return found


def allowed(fault: Fault) -> set[str]:
    return SEEN_AS.get(fault.kind, set()) | PERHAPS.get(fault.kind, set())


def is_about(row: Any, fault: Fault) -> bool:
    """Whether a finding is at the fault: in the log at the message, in a queue at its unit."""
    if row.code.startswith("index-"):
        return str(fault.physicalOffset) in row.detail or str(fault.physicalOffset + 4) in row.detail
    if row.code == "log-sequence-back":  # is seen at the message behind it
        return f"{fault.topic} queue {fault.queueId}: offset {fault.queueOffset + 1} after " in str(row.detail)
    name = f"commitlog/{fault.physicalOffset // SIZES.log_file_bytes * SIZES.log_file_bytes:020}"
    if row.file == name:
        return bool(0 <= row.byte - fault.physicalOffset % SIZES.log_file_bytes < UNIT_BYTES_MAX)
    if row.file.startswith(f"consumequeue/{fault.topic}/{fault.queueId}/"):
        at = int(row.file.rpartition("/")[2]) + row.byte
        return bool(-(GAP + 1) * QUEUE_UNIT_BYTES <= at - fault.queueOffset * QUEUE_UNIT_BYTES <= QUEUE_UNIT_BYTES)
    return False


class Audit(Judge):
    """Of one fault there may be several findings."""

    def rows(self, faults: Iterable[Fault]) -> Found:
        return {(one.kind, one.physicalOffset, code) for one in faults for code in SEEN_AS.get(one.kind, ())}


def to(_: Path, scratch: Path) -> dict[str, Any]:
    return {"to": str(scratch / "queues"), "compare": True}


LOSS: Final = {
    "lost": sent("lost"), "corrupt-body": sent("unreadable"), "corrupt-size": sent("unreadable"),
    "corrupt-magic": sent("unreadable"), "queue-missing": sent("unindexed"), "queue-wrong": sent("unindexed"),
    "queue-offset": sent("elsewhere"), "position-ahead": lambda fault: ("ahead", *queue(fault)),
}  # fmt: skip
REBUILT: Final = ("gap", "queue-missing", "queue-wrong", "queue-tags", "queue-offset", *NO_MESSAGE)
JUDGES: Final = (
    Audit("audit", dict.fromkeys(SEEN_AS, place), of_audit),
    Judge("loss", LOSS, of_loss, lambda directory, _: {"ledger": (str(directory / "sent"),)}),
    Judge("duplicates", {"duplicate": place}, of_duplicates, name="duplicates by unique key"),
    Judge(
        "duplicates", {"duplicate": place, "duplicate-key": place}, of_duplicates, lambda *_: {"by": "keys"}, "duplicates by key"
    ),
    Judge(
        "order",
        {
            "reorder": lambda fault: ("sequence", fault.physicalOffset),
            "queue-offset": lambda fault: ("queueOrder", fault.physicalOffset),
        },
        of_order,
        lambda *_: {"sequence": "property:sequence"},
    ),
    Judge("lag", {"position-ahead": lambda fault: (*queue(fault), "ahead")}, of_lag),
    Judge("latency", {"late": place}, of_latency, lambda *_: {"max-latency": "60s"}),
    Judge("rebuild-queues", dict.fromkeys(REBUILT, queue), of_rebuilt, to),
)
MEASURING: Final = {"skew", "retries", "export"}
"""Jobs that find nothing wrong in a store."""
ELSEWHERE: Final = {"timer-late": "pending"}
"""Kinds that the tests of one job alone look for."""
COMPARING: Final = {"diff"}
"""Finds nothing in one store."""


# --- the test


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stores]:
    root = tmp_path_factory.mktemp("planted")
    faults = {kind: 1 if kind == "torn-tail" else EACH for kind in KINDS}
    for name, planted in (("clean", {}), ("faulty", faults)):
        generate(root / name, Wanted(LOG_BYTES, BODY_BYTES, faults=planted, sizes=SIZES))
    made = Stores(root / "clean", root / "faulty", root)
    assert {fault.kind for fault in made.faults()} == KINDS.keys()
    yield made
    shutil.rmtree(root)


def name_of(judge: Judge) -> str:
    return judge.name or judge.job


def test_every_kind_has_a_job_and_every_job_a_kind() -> None:
    """No kind that nobody has to find, no job that was forgotten."""
    assert {kind for judge in JUDGES for kind in judge.wanted} == KINDS.keys() - ELSEWHERE.keys()
    assert {judge.job for judge in JUDGES} | MEASURING | COMPARING | set(ELSEWHERE.values()) == JOBS.keys()


@pytest.mark.parametrize("judge", JUDGES, ids=name_of)
def test_planted_faults_are_found_and_nothing_else(spark: Any, stores: Stores, judge: Judge) -> None:
    faults = stores.faults()
    outcome = run(spark, judge, stores.faulty, stores.scratch / f"{name_of(judge)} faulty")
    wanted = judge.rows(faults)
    assert wanted, "nothing of this job's was planted"
    assert judge.found(outcome, faults) == wanted
    assert not outcome.is_clean


@pytest.mark.parametrize(
    ("job", "given", "unseen"),
    [
        ("audit", {"no_crc": True}, ("corrupt-body",)),
        ("audit", {"no_index": True}, ("index-missing", "index-wrong")),
        ("loss", {"skip-crc": True}, ("corrupt-body",)),
    ],
)
def test_a_check_that_is_left_out_is_missed(
    spark: Any, stores: Stores, job: str, given: dict[str, Any], unseen: tuple[str, ...]
) -> None:
    """So this test can fail: without a check its faults, and no others, are missing among the rows."""
    [judge] = [one for one in JUDGES if one.job == job]
    lax = replace(judge, given=lambda directory, scratch: {**judge.given(directory, scratch), **given})
    faults = stores.faults()
    found = lax.found(run(spark, lax, stores.faulty, stores.scratch), faults)
    assert judge.rows(faults) - found == judge.rows(fault for fault in faults if fault.kind in unseen) != set()
    assert not found - judge.rows(faults)


@pytest.mark.parametrize("judge", JUDGES, ids=name_of)
def test_a_clean_store_is_clean(spark: Any, stores: Stores, judge: Judge) -> None:
    outcome = run(spark, judge, stores.clean, stores.scratch / f"{name_of(judge)} clean")
    assert judge.found(outcome, []) == set()
    assert outcome.is_clean, outcome.verdict
