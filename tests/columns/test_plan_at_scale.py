"""Ten terabytes of a store as far as a driver sees them: 10,000 log files that are sparse, 400,000 queues with a unit each.

A process of its own plans; it says how often it opened or listed something of the store, and how much memory it had at most.
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
from rmq_columns.read.plan import QUEUES_LISTED_MAX
from tests.support.logs import unit

FILES, QUEUES = 10_000, 400_000
FILE_BYTES: Final = 1 << 30
A_TOPIC: Final = 8
"""queues"""
ASKS_MAX: Final = 64
"""Files opened and directories listed beside those that each log file and each queue needs."""
DRIVER_BYTES: Final = 1 << 30
PLANS: Final = """
import json, resource, sys
from rmq_columns import parse_options, plan_splits
from rmq_columns.checks.audit import audit
from rmq_columns.checks.scope import Scope

asked = 0


def count(event, args):
    global asked
    if event in ("open", "os.scandir", "os.listdir") and str(args[0]).startswith(sys.argv[1]):
        asked += 1


sys.addaudithook(count)
options = parse_options({"path": sys.argv[1]})
found = {"splits": len(plan_splits(options)), "plan": asked}


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


asked = 0
try:
    audit(options, Scope(), None, 200, Counts())
except Planned:
    found["audit"] = asked
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
    a_queue = 1 + 1 / A_TOPIC  # its directory, and its topic's
    assert found["plan"] <= 2 * files + QUEUES_LISTED_MAX * a_queue + ASKS_MAX
    assert found["audit"] <= found["plan"] + files + queues * a_queue + 2 * ASKS_MAX
    assert found["bytes"] < DRIVER_BYTES
