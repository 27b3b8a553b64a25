"""What each job may cost, held by `test_traffic` on Spark's own metrics; docs/spark-jobs.md shows it.

Of one run over one broker's log: `STORE` says how large.  What a job takes beyond a log's passes is for reasons that are its own:
`why` says which.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from planted_stores.plan import Sizes

STORE: Final = Sizes(4 << 20, 20_000, 5000, 50_000)
LOG_BYTES: Final = 13 << 20
BODY_BYTES: Final = 128
SPLIT_BYTES: Final = 1 << 20
"""So many tasks look at the log as have some of it: fourteen."""
LARGEST_TASK: Final = 20 << 10
"""Bytes of one task, with its split and what it is to do; of a job that takes more `task` says so."""


class Bound(NamedTuple):
    """The most that a run may take."""

    job: str
    passes: float
    """over the log, in bytes read"""
    shuffled: float
    """records that are written for a shuffle, for each message of the log"""
    sent: int
    """KB from the driver: tasks and what is broadcast, once"""
    taken: int
    """KB of the tasks' results"""
    task: int = LARGEST_TASK >> 10
    """KB of one task"""
    why: str = ""

    def given(self, root: Path) -> dict[str, Any]:
        """How it is run."""
        to = root / "made" / self.job
        own: dict[str, dict[str, Any]] = {
            "loss": {"ledger": [str(root / "faulty" / "sent")]},
            "order": {"sequence": "property:sequence"},
            "latency": {"max_latency": "60s"},
            "export": {"to": str(to)},
            "diff": {"other": str(root / "faulty" / "store")},
            "rebuild-queues": {"to": str(to), "compare": True},
        }
        return {"splitBytes": str(SPLIT_BYTES), **own.get(self.job, {})}


BOUNDS: Final = (
    Bound("audit", 1.2, 0.03, 470, 150, why="read once; where queues begin and end in each part is shuffled"),
    Bound("loss", 2.1, 0.9, 4900, 1250, why="summed up in blocks; where these do not come out even, candidates alone"),
    Bound("duplicates", 2.2, 1.1, 1150, 720, why="a hash for each message first, then those that came twice"),
    Bound("order", 1.1, 1.8, 4300, 3450, why="messages by their keys; 285 tasks, each with some 10 KB there and back"),
    Bound("lag", 0.001, 0.003, 780, 190, why="of the queue files, not of the log"),
    Bound("latency", 2.2, 0.13, 1400, 550, why="counts once, the worst messages once"),
    Bound("skew", 2.2, 1.2, 2100, 760, why="queues once, keys once"),
    Bound("retries", 2.5, 0.04, 3400, 1200, why="copies first, then candidates for their origins alone; and the log's last part"),
    Bound("pending", 1.7, 0.12, 7000, 2600, why="432 small tasks: each of some 10 KB there and 5 KB back"),
    Bound("export", 2.2, 0.001, 190, 40, why="read, and counted once more (`--no-verify`: once); nothing goes through Spark"),
    Bound("diff", 2.2, 0.005, 6000, 1100, 50, why="of both logs: digests, then the blocks that differ; tasks of up to 40 KB"),
    Bound("rebuild-queues", 2.2, 0.001, 520, 125, why="with `compare`: to make them and to compare"),
)


def rows() -> Iterator[tuple[str, str, str, str, str, str]]:
    """Of the page."""
    for one in BOUNDS:
        yield f"`{one.job}`", f"{one.passes:g}", f"{one.shuffled:g}", str(one.sent), str(one.taken), one.why


HEADS: Final = (
    "job",
    ":passes over the log",
    ":records shuffled a message",
    ":KB from the driver",
    ":KB to the driver",
    "because",
)
