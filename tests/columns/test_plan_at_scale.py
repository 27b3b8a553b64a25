"""Ten terabytes of a store as far as a driver sees them: 10,000 log files that are sparse, 400,000 queues with a unit each.

A process of its own plans; it says how much of its time that took, and how much memory it had at most.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from rmq_columns.decode.dtypes import QUEUE_UNIT
from tests.support.logs import unit

FILES, QUEUES = 10_000, 400_000
FILE_BYTES: Final = 1 << 30
A_TOPIC: Final = 8
"""queues"""
PLAN_S, LIST_S = 10, 20
"""Of the processor: to plan a read of all messages; to plan an audit, for which all queues are listed."""
DRIVER_BYTES: Final = 1 << 30
PLANS: Final = """
import json, resource, sys, time
from rmq_columns import parse_options, plan_splits
from rmq_columns.checks.audit import audit
from rmq_columns.checks.scope import Scope
options = parse_options({"path": sys.argv[1]})
begun = time.process_time()
found = {"splits": len(plan_splits(options)), "plan": time.process_time() - begun}


class Planned(Exception):
    pass


class Counts:
    def check_queues(self, pieces, known):
        found["queues"] = sum(map(len, pieces))
        found["shared"] = sum(len(one.queues) + len(one.apart) for one in known)
        return [[] for _ in pieces]

    def check(self, work, pieces):
        found["parts"] = sum(len(parts) for _, parts in pieces)
        raise Planned


begun = time.process_time()
try:
    audit(options, Scope(), None, 200, Counts())
except Planned:
    found["audit"] = time.process_time() - begun
found["bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
print(json.dumps(found))
"""


def write_simulated(root: Path, files: int, queues: int) -> None:
    """A message at the beginning of each log file, and of each queue one unit."""
    (root / "commitlog").mkdir(parents=True)
    for number in range(files):
        with open(root / "commitlog" / f"{number * FILE_BYTES:020}", "wb") as file:
            file.write(unit(number * FILE_BYTES, b"x", number=number, store_ms=number + 1))
            file.truncate(FILE_BYTES)
    units = np.zeros(20, QUEUE_UNIT)
    units[0] = (0, len(unit(0, b"x", number=0, store_ms=1)), 0)
    raw = units.tobytes()
    for queue in range(queues):
        directory = root / "consumequeue" / f"topic-{queue // A_TOPIC:05}" / str(queue % A_TOPIC)
        directory.mkdir(parents=True)
        (directory / f"{0:020}").write_bytes(raw)


@pytest.mark.parametrize(("files", "queues"), [(40, 6000), pytest.param(FILES, QUEUES, marks=pytest.mark.nightly)])
def test_it_is_planned(tmp_path: Path, files: int, queues: int) -> None:
    """What all tasks of an audit share has nothing of the queues."""
    write_simulated(tmp_path / "store", files, queues)
    ran = subprocess.run(
        [sys.executable, "-c", PLANS, str(tmp_path / "store")],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    found = json.loads(ran.stdout)
    assert found["splits"] == found["parts"] == files
    assert (found["queues"], found["shared"]) == (queues, 0)
    assert found["plan"] < PLAN_S
    assert found["audit"] < LIST_S
    assert found["bytes"] < DRIVER_BYTES
