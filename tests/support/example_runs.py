"""The scenarios of `examples/`, run as they stand: played on our broker by `tests/client`, on the real one by `tests/java`."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.support.rmq import ROOT, environment
from tests.support.subject import Subject
from tests.support.talk import PATIENCE_S

EXAMPLES: Final = {
    "ordered_orders": r"(?s)^the first consumer: .*is killed\nthe second consumer: .*each order was seen in order; \d+ steps",
    "rebalance": r"(?s)^1 consumers have \[5\].*2 consumers have \[3, 2\].*6 consumers have \[1, 1, 1, 1, 1, 0\].*config",
    "broadcast": r"(?s)^broadcasting: \[20, 20\].*offsets.json.*clustering: .*consumerOffset.json: news-\w+@shared-\w+ {'0': 5",
    "follow_a_key": r"(?s)The text that is hashed.*Slot \d+.*Entry \d+.*Commit log at \d+.*both ways lead to",
    "backlog": r"^one thread: 200 .*\neight threads: 200 .*\nfour members: 200 .*\n$",
    "delay_ladder": r"^level  1: \d+ ms (?:.*\n)+level 18: \d+ ms after it was sent\n$",
    "dead_letters": r"(?s)^tried \d+ times, .*\nthen in %DLQ%failing-\w+: take me, the same id ",
    "two_subscriptions": r"^sent: 20 of A, 20 of B; received: 10 of A, 10 of B\n20 messages were consumed by nobody",
}
"""Name -> what it prints.  `broker_dies` needs two brokers, and kills one."""
WITH_STORE: Final = frozenset({"broadcast", "follow_a_key"})
"""They look into the broker's files."""
SECONDS_MAX: Final = 2 * PATIENCE_S


def play(name: str, subject: Subject, home: Path) -> None:
    """Run one against a broker; it must succeed, and say what it shows."""
    printed = run(name, subject.namesrv, home, [str(subject.store)] if name in WITH_STORE else [])
    assert re.search(EXAMPLES[name], printed), printed


def run(name: str, namesrv: str, home: Path, arguments: Sequence[str]) -> str:
    """What it prints."""
    ran = subprocess.run(
        [sys.executable, str(ROOT / "examples" / f"{name}.py"), *arguments],
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        cwd=home,
        env={**environment(home), "NAMESRV_ADDR": namesrv},
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout
