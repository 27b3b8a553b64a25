"""What each job must say of planted faults: which kinds are its own, what rows it must have, how its outcome is read."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from planted_stores.faults import AHEAD, GAP
from planted_stores.plan import FIRST_MS, UNITS_A_MS
from rmq_spark.outcome import Outcome
from tests.support.planted_kinds import PERHAPS, SEEN_AS

UNIT_BYTES_MAX: Final = 4000
"""A generated unit is shorter."""
QUEUE_UNIT_BYTES: Final = 20
NO_MESSAGE: Final = ("corrupt-size", "corrupt-magic")
"""Their bytes are no message any more."""
SETTLED_MS: Final = 200
"""What is due is delivered, and what is half is ended, sooner than that in a clean store."""

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

    def places(self) -> set[int]:
        """Of all messages that it speaks of."""
        return {self.physicalOffset} | {int(found) for found in re.findall(r"(?:at|is at) (\d+)", self.what)}


def ledger_of(directory: Path) -> list[Fault]:
    """What was planted there."""
    return [Fault(**json.loads(line)) for line in (directory / "faults.jsonl").read_text().splitlines()]


@dataclass(frozen=True)
class Place:
    """Where a job runs: a generated directory, the clean one beside it, one of its own to write to."""

    directory: Path
    clean: Path
    scratch: Path


@dataclass(frozen=True)
class Judge:
    """One way to run one job.  wanted: fault -> the rows that must be found; found: all rows that say something is wrong."""

    job: str
    wanted: dict[str, Callable[[Fault], tuple[Any, ...]]]
    found: Callable[[Outcome, list[Fault]], Found]
    given: Callable[[Place], dict[str, Any]] = field(default=lambda _: {})
    name: str = ""
    store: str = "faulty"

    def rows(self, faults: Iterable[Fault]) -> Found:
        """All that it must find."""
        return {self.wanted[fault.kind](fault) for fault in faults if fault.kind in self.wanted}


class Several(Judge):
    """Of one fault there may be several findings: `wanted` gives a set of them."""

    def rows(self, faults: Iterable[Fault]) -> Found:
        """All that it must find."""
        return {row for fault in faults if fault.kind in self.wanted for row in self.wanted[fault.kind](fault)}


class Counted(Judge):
    """All faults of one queue are one finding, which says of how many units: what `wanted` gives ends with that number."""

    def rows(self, faults: Iterable[Fault]) -> Found:
        """All that it must find."""
        counted: Counter[tuple[Any, ...]] = Counter()
        for fault in faults:
            if fault.kind in self.wanted:
                *key, units = self.wanted[fault.kind](fault)
                counted[tuple(key)] += units
        return {(*key, units) for key, units in counted.items()}


def place(fault: Fault) -> tuple[Any, ...]:
    return (fault.topic, fault.physicalOffset)


def queue(fault: Fault) -> tuple[Any, ...]:
    return (fault.topic, fault.queueId)


def sent(verdict: str) -> Callable[[Fault], tuple[Any, ...]]:
    return lambda fault: (verdict, fault.topic, fault.queueId, fault.queueOffset, fault.uniqKey)


def promise(kind: str, state: str) -> Callable[[Fault], tuple[Any, ...]]:
    return lambda fault: (kind, state, fault.uniqKey)


# --- what their outcomes say


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
    from rmq_columns.rebuild.compare import SOUND

    rows = outcome.frames["comparison"].collect()
    return {(row.topic, row.queueId, row.differentUnits) for row in rows if row.outcome not in SOUND}


def of_export(outcome: Outcome, _: list[Fault]) -> Found:
    """Places of what lies under `_corrupt`."""
    import pyarrow.parquet as pq

    [to] = [figure.value for figure in outcome.figures if figure.name == "to"]
    files = [path for path in Path(str(to)).rglob("*.parquet") if "_corrupt" in path.parts]
    return {(value,) for path in files for value in pq.read_table(path).column("physicalOffset").to_pylist()}


def of_pending(outcome: Outcome, _: list[Fault]) -> Found:
    """What came late, what is overdue, and which half messages nobody ended."""
    late: Found = {(row.kind, "late", row.uniqKey) for row in outcome.frames["late"].collect()}
    [now] = [figure.value for figure in outcome.figures if figure.name == "now"]
    is_old = f"kind = 'half' and unix_millis(bornTimestamp) < {now} - {SETTLED_MS}"
    rows = outcome.frames["pending"].where(f"isOverdue or {is_old}").collect()
    # whether the log goes on for long enough behind a message to be sure is another test's question
    return late | {(row.kind, row.state.replace("unknown", "undelivered"), row.uniqKey) for row in rows}


def of_diff(outcome: Outcome, faults: list[Fault]) -> Found:
    """(kind, its place, topic, whether it is the very message, outcome, fields) of every message that differs.

    A message whose queue offset is too high may stand behind the end of its queue, which then ends later; or a place is taken
    twice, by it and by the message whose place it is.
    """
    found: Found = set()
    for row in outcome.frames["messages"].collect():
        stands = (row.topic, row.queueId, row.queueOffset)
        own = [one for one in faults if one.kind == "queue-offset" and row.outcome != ONLY_SECOND]
        twice = [one for one in own if (one.topic, one.queueId, one.queueOffset + AHEAD) == stands]
        found |= {(one.kind, one.physicalOffset, row.topic, True, ONLY_FIRST, None) for one in twice}
        if twice:
            continue
        keys = {key_of(properties) for properties in (row.properties, row.otherProperties) if properties is not None}
        at = {row.physicalOffset, row.otherPhysicalOffset} - {None}
        about = [one for one in faults if one.kind in DIFFERENT and (one.uniqKey in keys or at & one.places())]
        for one in about:
            found.add((one.kind, one.physicalOffset, row.topic, one.physicalOffset in at, row.outcome, fields_of(row)))
        if not about:
            found.add(("not planted", *row))
    for row in outcome.frames["ranges"].collect():
        own = [one for one in faults if (one.kind, one.topic, one.queueId) == ("queue-offset", row.topic, row.queueId)]
        about = [one for one in own if row.side == "second" and row.firstOffset <= one.queueOffset + AHEAD < row.endOffset]
        found |= {(one.kind, one.physicalOffset, row.topic, True, ONLY_FIRST, None) for one in about}
        if row.endOffset - 1 - AHEAD not in [one.queueOffset for one in about]:
            found.add(("not planted", *row))
    return found


def fields_of(row: Any) -> str | None:
    """Of an altogether other message, that its body is another: the rest may be the same by chance."""
    return "body" if row.fields is not None and "body" in row.fields.split(", ") else row.fields


def key_of(properties: bytes) -> str:
    """Unique key, or empty."""
    pairs = dict(pair.partition(b"\x01")[::2] for pair in bytes(properties).split(b"\x02"))
    return pairs.get(b"UNIQ_KEY", b"").decode()


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
    tree, _, name = row.file.rpartition("/")
    if tree == "commitlog":
        return bool(0 <= int(name) + row.byte - fault.physicalOffset < UNIT_BYTES_MAX)
    if tree == f"consumequeue/{fault.topic}/{fault.queueId}":
        at = int(name) + row.byte
        return bool(-(GAP + 1) * QUEUE_UNIT_BYTES <= at - fault.queueOffset * QUEUE_UNIT_BYTES <= QUEUE_UNIT_BYTES)
    return False


# --- the judges


def at_the_end(where: Place) -> dict[str, Any]:
    """Now is when the store's last message was stored."""
    made = json.loads((where.directory / "summary.json").read_text())["made"]
    return {"now": FIRST_MS + (made["messages"] - 1) // UNITS_A_MS, "max_lateness": f"{SETTLED_MS}ms"}


def audited(fault: Fault) -> Any:
    return {(fault.kind, fault.physicalOffset, code) for code in SEEN_AS[fault.kind]}


def differs(*rows: tuple[str, bool, str, str | None]) -> Callable[[Fault], Any]:
    """Each: topic ('' for the fault's), whether it is the message that the ledger names, outcome, fields."""
    return lambda fault: {(fault.kind, fault.physicalOffset, topic or fault.topic, *rest) for topic, *rest in rows}


LOSS: Final = {
    "lost": sent("lost"),
    "corrupt-body": sent("unreadable"),
    "corrupt-size": sent("unreadable"),
    "corrupt-magic": sent("unreadable"),
    "queue-missing": sent("unindexed"),
    "queue-wrong": sent("unindexed"),
    "queue-offset": sent("elsewhere"),
    "position-ahead": lambda fault: ("ahead", *queue(fault)),
}
REBUILT: Final = ("queue-missing", "queue-wrong", "queue-tags", "queue-offset", *NO_MESSAGE)
PENDING: Final = {
    "timer-late": promise("timed", "late"),
    "delay-pending": promise("delayed", "undelivered"),
    "timer-pending": promise("timed", "waiting"),
    "half-open": promise("half", "waiting"),
    "half-committed": promise("half", "committed"),
}
CHANGED: Final = ("", True, "differs", "properties")
OP_DIFFERS: Final = ("RMQ_SYS_TRANS_OP_HALF_TOPIC", False, "differs", "body")
ONLY_FIRST, ONLY_SECOND = "only in the first", "only in the second"
DIFFERENT: Final = {
    "duplicate": differs(CHANGED),
    "duplicate-key": differs(CHANGED),
    "late": differs(("", True, "differs", "bornTimestamp")),
    "reorder": differs(CHANGED, ("", False, "differs", "properties")),
    "timer-late": differs(CHANGED, ("rmq_sys_wheel_timer", False, "differs", "properties")),
    "corrupt-body": differs(("", True, "differs", "body")),
    "corrupt-size": differs(("", True, ONLY_SECOND, None)),
    "corrupt-magic": differs(("", True, ONLY_SECOND, None)),
    "queue-offset": differs(("", True, ONLY_FIRST, None), ("", True, ONLY_SECOND, None)),
    "delay-pending": differs(("orders", False, "differs", "body")),
    "timer-pending": differs(("payments", False, "differs", "body")),
    "half-open": differs(OP_DIFFERS, ("payments", False, "differs", "body")),
    "half-committed": differs(OP_DIFFERS),
}
JUDGES: Final = (
    Several("audit", dict.fromkeys(SEEN_AS, audited), of_audit),
    Judge("loss", LOSS, of_loss, lambda where: {"ledger": (str(where.directory / "sent"),)}),
    Judge("duplicates", {"duplicate": place}, of_duplicates, name="duplicates by unique key"),
    Judge(
        "duplicates", {"duplicate": place, "duplicate-key": place}, of_duplicates, lambda _: {"by": "keys"}, "duplicates by key"
    ),
    Judge(
        "order",
        {
            "reorder": lambda fault: ("sequence", fault.physicalOffset),
            "queue-offset": lambda fault: ("queueOrder", fault.physicalOffset),
        },
        of_order,
        lambda _: {"sequence": "property:sequence"},
    ),
    Judge("lag", {"position-ahead": lambda fault: (*queue(fault), "ahead")}, of_lag),
    Judge("latency", {"late": place}, of_latency, lambda _: {"max_latency": "60s"}),
    Judge("pending", PENDING, of_pending, at_the_end),
    Judge(
        "export",
        dict.fromkeys((*NO_MESSAGE, "torn-tail"), lambda fault: (fault.physicalOffset,)),
        of_export,
        lambda where: {"to": str(where.scratch / "export")},
    ),
    Several("diff", DIFFERENT, of_diff, lambda where: {"other": str(where.clean / "store")}, store="changed"),
    Counted(
        "rebuild-queues",
        {"gap": lambda fault: (*queue(fault), GAP), **dict.fromkeys(REBUILT, lambda fault: (*queue(fault), 1))},
        of_rebuilt,
        lambda where: {"to": str(where.scratch / "queues"), "compare": True},
    ),
)
MEASURING: Final = {"skew", "retries"}
"""Jobs that find nothing wrong in a store."""
